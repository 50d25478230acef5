import { constants, createHmac, type KeyObject, verify } from 'node:crypto'
import { isSame } from './signer.ts'

/** Algorithms of RFC 9421 §3.3. The kind of a key says which it may be used with, and nothing else does. */

export const HMAC = 'hmac-sha256'
/** Shorter ones are refused. */
const LEAST_RSA_BITS = 2048
const PSS_SALT_BYTES = 64

/** What a public key verifies; the first is meant where a signature names none. */
export function algorithmsOf(key: KeyObject): readonly string[] {
  const { modulusLength = 0, namedCurve, hashAlgorithm, mgf1HashAlgorithm, saltLength } = key.asymmetricKeyDetails ?? {}
  switch (key.asymmetricKeyType) {
    case 'rsa':
      return modulusLength < LEAST_RSA_BITS ? [] : ['rsa-pss-sha512', 'rsa-v1_5-sha256']
    case 'rsa-pss': {
      // Such a key may be bound to other parameters.
      const isFree = [hashAlgorithm, mgf1HashAlgorithm].every(hash => hash === undefined || hash === 'sha512')
      return modulusLength < LEAST_RSA_BITS || !isFree || (saltLength ?? 0) > PSS_SALT_BYTES ? [] : ['rsa-pss-sha512']
    }
    case 'ec':
      if (namedCurve === 'prime256v1') return ['ecdsa-p256-sha256']
      return namedCurve === 'secp384r1' ? ['ecdsa-p384-sha384'] : []
    case 'ed25519':
      return ['ed25519']
    default:
      return []
  }
}

/** @param algorithm one of `algorithmsOf(key)` */
export function isSignedBy(key: KeyObject, algorithm: string, base: Buffer, signature: Buffer): boolean {
  switch (algorithm) {
    case 'rsa-v1_5-sha256':
      return verify('sha256', base, { key, padding: constants.RSA_PKCS1_PADDING }, signature)
    case 'rsa-pss-sha512': {
      const padding = constants.RSA_PKCS1_PSS_PADDING
      return verify('sha512', base, { key, padding, saltLength: PSS_SALT_BYTES }, signature)
    }
    // Both numbers one behind the other, each as long as the curve's.
    case 'ecdsa-p256-sha256':
      return signature.length === 64 && verify('sha256', base, { key, dsaEncoding: 'ieee-p1363' }, signature)
    case 'ecdsa-p384-sha384':
      return signature.length === 96 && verify('sha384', base, { key, dsaEncoding: 'ieee-p1363' }, signature)
    case 'ed25519':
      return verify(null, base, key, signature)
    default:
      return false
  }
}

/** Secrets are often handed round in base64: one that is so written may be the text or the bytes that it stands for. */
export function isSealedWith(secret: string, base: Buffer, signature: Buffer): boolean {
  if (isSame(createHmac('sha256', secret).update(base).digest(), signature)) return true
  const bytes = Buffer.from(secret, 'base64')
  if (bytes.length < LEAST_SECRET_BYTES || bytes.toString('base64') !== secret) return false
  return isSame(createHmac('sha256', bytes).update(base).digest(), signature)
}

const LEAST_SECRET_BYTES = 16
