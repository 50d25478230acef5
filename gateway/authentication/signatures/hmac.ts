import { constants, createHmac, verify } from 'node:crypto'
import type { HmacScheme } from '../../api.ts'
import type { Certificate } from '../../certificates/certificates.ts'
import type { Exchange, Outcome } from '../../exchange.ts'
import type { Session } from '../../keys/keys.ts'
import { refusal } from '../../refusals.ts'
import { failed } from '../failure.ts'
import { credentialAt } from '../locations.ts'
import type { MakeMethod } from '../method.ts'
import { type DraftSignature, readDraft } from './draft.ts'
import { certificateOf, hasPublicKey, isSame, isValidAt, maySign, secretOf } from './signer.ts'
import { isTimely, signingString } from './signingString.ts'

const WRONG = refusal('signature_invalid', 400, 'Authorization field missing, malformed or invalid')
const NO_CERTIFICATE = refusal('certificate_unknown', 500, 'Certificate not found')

const HASHES = new Map([
  ['hmac-sha1', 'sha1'],
  ['hmac-sha256', 'sha256'],
  ['hmac-sha384', 'sha384'],
  ['hmac-sha512', 'sha512']
])
const RSA = 'rsa-sha256'
/** The draft's own examples have such keys. */
const LEAST_RSA_BITS = 1024

/**
 * Signed requests of draft-cavage-http-signatures (semantics §6.5). The algorithm decides what is looked at: a shared secret
 * never verifies `rsa-sha256`, a public key never serves as a secret. A covered `Digest` is not held against the body.
 */
export const hmac: MakeMethod<HmacScheme> = ({ locations, algorithms, skewMs }, { orgId }, tools) => {
  const { keys, certificates, events } = tools
  const wrong = (x: Exchange) => failed(x, events, WRONG)

  function taken(x: Exchange, session: Session, given: DraftSignature): undefined {
    x.key = session
    x.credential = given.keyId
  }

  function known(
    x: Exchange,
    session: Session | null,
    given: DraftSignature,
    text: string
  ): Outcome | Promise<Outcome> {
    if (!maySign(session, x.at)) return wrong(x)
    const hash = HASHES.get(given.algorithm)
    if (hash !== undefined) {
      const secret = secretOf(session)
      if (secret === null) return wrong(x)
      const expected = createHmac(hash, secret).update(text, 'latin1').digest()
      return isSame(expected, given.signature) ? taken(x, session, given) : wrong(x)
    }
    if (!hasPublicKey(session)) return wrong(x)
    const withKey = (certificate: Certificate | null) => {
      if (certificate === null) return NO_CERTIFICATE
      return isSignedBy(certificate, x, given, text) ? taken(x, session, given) : wrong(x)
    }
    const found = certificateOf(session, certificates)
    return found instanceof Promise ? found.then(withKey) : withKey(found)
  }

  return {
    kind: 'hmac',
    run(x) {
      const credential = credentialAt(x, locations)
      if (credential === '') return WRONG
      const given = readDraft(credential)
      if (given === null || !(HASHES.has(given.algorithm) || given.algorithm === RSA)) return wrong(x)
      if (algorithms.length > 0 && !algorithms.includes(given.algorithm)) return wrong(x)
      if (skewMs > 0 && !isTimely(x, given.headers, skewMs)) return wrong(x)
      const text = signingString(x, given.headers)
      if (text === null) return wrong(x)
      const found = keys.find(orgId, given.keyId)
      return found instanceof Promise
        ? found.then(session => known(x, session, given, text))
        : known(x, found, given, text)
    }
  }
}

function isSignedBy(certificate: Certificate, x: Exchange, { signature }: DraftSignature, text: string): boolean {
  const { publicKey } = certificate
  if (!isValidAt(certificate, x.at) || publicKey.asymmetricKeyType !== 'rsa') return false
  if (publicKey.asymmetricKeyDetails!.modulusLength! < LEAST_RSA_BITS) return false
  return verify(
    'sha256',
    Buffer.from(text, 'latin1'),
    { key: publicKey, padding: constants.RSA_PKCS1_PADDING },
    signature
  )
}
