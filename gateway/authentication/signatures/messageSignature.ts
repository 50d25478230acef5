import type { KeyObject } from 'node:crypto'
import type { MessageSignatureScheme } from '../../api.ts'
import type { Certificate } from '../../certificates/certificates.ts'
import type { Exchange, Outcome } from '../../exchange.ts'
import type { Session } from '../../keys/keys.ts'
import { type Refusal, refusal } from '../../refusals.ts'
import { failed } from '../failure.ts'
import type { MakeMethod } from '../method.ts'
import { wholeBody } from '../wholeBody.ts'
import { algorithmsOf, HMAC, isSealedWith, isSignedBy } from './algorithms.ts'
import { type Claim, claimsOf } from './claim.ts'
import { type Digests, digestsOf, fits } from './contentDigest.ts'
import { Message } from './message.ts'
import { covers, requirement, signatureBase } from './signatureBase.ts'
import { certificateOf, hasPublicKey, isValidAt, maySign, secretOf } from './signer.ts'

const NO_CERTIFICATE = refusal('certificate_unknown', 500, 'Certificate not found')

/**
 * HTTP Message Signatures (RFC 9421). Of several signatures the first that verifies counts, the others are as if they were not
 * there. `nonce` and `tag` may be anything: what was seen before is not kept, so within its age a signature can be replayed.
 */
export const messageSignature: MakeMethod<MessageSignatureScheme> = (scheme, api, tools) => {
  const { keys, certificates, events } = tools
  const required = scheme.required.map(requirement)
  const { missing, wrong } = refusalsOf(scheme, required)
  const whole = wholeBody(tools)
  const isAllowed = (algorithm: string) => scheme.algorithms.length === 0 || scheme.algorithms.includes(algorithm)

  /** The first from `at` on that verifies; `no` is what the ones before it have come to. */
  function tryFrom(message: Message, claims: readonly Claim[], at: number, no: Refusal): Outcome | Promise<Outcome> {
    for (let i = at; i < claims.length; i++) {
      const outcome = verified(message, claims[i]!)
      if (outcome instanceof Promise)
        return outcome.then(late => (isNo(late) ? tryFrom(message, claims, i + 1, worse(no, late)) : late))
      if (!isNo(outcome)) return outcome
      no = worse(no, outcome)
    }
    return no === wrong ? failed(message.x, events, wrong) : no
  }

  const isNo = (outcome: Outcome): outcome is Refusal => outcome === wrong || outcome === NO_CERTIFICATE
  const worse = (before: Refusal, now: Refusal) => (before === wrong ? now : before)

  function verified(message: Message, claim: Claim): Outcome | Promise<Outcome> {
    if (claim.algorithm !== null && !isAllowed(claim.algorithm)) return wrong
    if (!isTimely(claim, message.x.at, scheme) || !covers(claim, required)) return wrong
    const found = keys.find(api.orgId, claim.keyId)
    return found instanceof Promise
      ? found.then(session => byKey(message, session, claim))
      : byKey(message, found, claim)
  }

  function byKey(message: Message, session: Session | null, claim: Claim): Outcome | Promise<Outcome> {
    const { x } = message
    if (!maySign(session, x.at)) return wrong
    const digests = digestsOf(message, claim)
    const base = digests === null ? null : signatureBase(message, claim)
    if (digests === null || base === null) return wrong
    // Where none is named the public key goes before the secret.
    if (claim.algorithm === HMAC || (claim.algorithm === null && !hasPublicKey(session))) {
      const secret = secretOf(session)
      const sealed = secret !== null && isAllowed(HMAC) && isSealedWith(secret, base, claim.signature)
      return sealed ? byBody(x, session, claim, digests) : wrong
    }
    if (!hasPublicKey(session)) return wrong
    const withKey = (certificate: Certificate | null) => {
      if (certificate === null) return NO_CERTIFICATE
      const algorithm = algorithmOf(certificate.publicKey, claim)
      if (algorithm === undefined || !isValidAt(certificate, x.at)) return wrong
      const signed = isSignedBy(certificate.publicKey, algorithm, base, claim.signature)
      return signed ? byBody(x, session, claim, digests) : wrong
    }
    const found = certificateOf(session, certificates)
    return found instanceof Promise ? found.then(withKey) : withKey(found)
  }

  function algorithmOf(key: KeyObject, { algorithm }: Claim): string | undefined {
    return algorithmsOf(key).find(each => isAllowed(each) && (algorithm === null || algorithm === each))
  }

  /** The signature is right; the body is read last, and for nobody else. */
  function byBody(
    x: Exchange,
    session: Session,
    { keyId }: Claim,
    digests: Digests | 'nothing'
  ): Outcome | Promise<Outcome> {
    const end = (fitting: boolean) => {
      if (!fitting) return wrong
      x.key = session
      x.credential = keyId
    }
    if (digests === 'nothing') return end(true)
    if (x.body !== null) return end(fits(x.body.bytes, digests))
    if (x.bodyLength === 0) return end(fits(NO_BODY, digests))
    // Bodies of streams flow, and nobody could read them again.
    if (api.streams !== null) return wrong
    return whole(x).then(outcome => outcome ?? end(fits(x.body!.bytes, digests)))
  }

  return {
    kind: 'message-signature',
    run(x) {
      const claims = claimsOf(x)
      return claims === null ? missing : tryFrom(new Message(x), claims, 0, wrong)
    }
  }
}

const NO_BODY = Buffer.alloc(0)

/** Without `created` nothing has an age; `created` and `expires` are whole seconds. */
function isTimely({ created, expires }: Claim, now: number, { skewS, maxAgeS }: MessageSignatureScheme): boolean {
  if (created === null && maxAgeS > 0) return false
  if (created !== null && created * 1000 > now + skewS * 1000) return false
  if (created !== null && maxAgeS > 0 && now > (created + maxAgeS) * 1000) return false
  return expires === null || now <= (expires + skewS) * 1000
}

/** Both tell what a signature must cover (RFC 9421 §5.1). */
function refusalsOf({ maxAgeS }: MessageSignatureScheme, required: readonly (string | null)[]) {
  const pairs = [
    'WWW-Authenticate',
    'Signature',
    'Accept-Signature',
    `sig=(${required.filter(each => each !== null).join(' ')})${maxAgeS > 0 ? ';created' : ''}`
  ]
  return {
    missing: refusal('auth_missing', 401, 'Authorization field missing', pairs),
    wrong: refusal('signature_invalid', 401, 'Request signature verification failed', pairs)
  }
}
