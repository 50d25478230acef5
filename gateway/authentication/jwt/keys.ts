import { createPublicKey, createSecretKey, type KeyObject } from 'node:crypto'
import type { Family } from '../../api.ts'

/** Keys that signatures are verified with, and which are too weak to count (the policy stands in `docs/authentication.md`). */

const LEAST_RSA_BITS = 2048
/** Beyond, one verification takes a millisecond. */
const MOST_RSA_BITS = 8192
/** As for secrets in the document of an API. */
const LEAST_SECRET_BYTES = 16
const PEM = '-----BEGIN '

type Jwk = Readonly<Record<string, unknown>>

/** By JWS name: the curve that it is bound to (RFC 7518 §3.4), under OpenSSL's name. */
const CURVES: Readonly<Record<string, string>> = { ES256: 'prime256v1', ES384: 'secp384r1', ES512: 'secp521r1' }
const KTY: Readonly<Record<Family, string>> = { hmac: 'oct', rsa: 'RSA', ecdsa: 'EC', eddsa: 'OKP' }

/** The secret or public key in a text; null: it is none, or too weak. */
export function keyOfText(text: string | Buffer, family: Family): KeyObject | null {
  if (family === 'hmac') {
    // A public key as an HMAC secret is known to everybody.
    if (text.length < LEAST_SECRET_BYTES || text.includes(PEM)) return null
    return createSecretKey(Buffer.from(text as string))
  }
  if (text.includes('PRIVATE KEY')) return null
  try {
    return sound(createPublicKey(text), family)
  } catch {
    return null
  }
}

/** A key of a set (RFC 7517). */
export interface SetKey {
  /** Null: it has none. */
  readonly kid: string | null
  /** The only algorithm that it may be used with; null: any of its family. */
  readonly alg: string | null
  readonly key: KeyObject
}

/** Those public keys of a set that signatures of a family may be verified with. */
export function keysOfSet(set: readonly Jwk[], family: Family): SetKey[] {
  return set.flatMap(jwk => {
    if (jwk.kty !== KTY[family] || family === 'hmac') return []
    const { kid, alg, use, key_ops: operations } = jwk
    if (use !== undefined && use !== 'sig') return []
    if (operations !== undefined && !(Array.isArray(operations) && operations.includes('verify'))) return []
    const key = publicKey(jwk, family)
    if (key === null || (alg !== undefined && typeof alg !== 'string')) return []
    return [{ kid: typeof kid === 'string' ? kid : null, alg: alg ?? null, key }]
  })
}

/** Of the public members alone: a set that gives its private ones away is no better key for it, but no other one either. */
function publicKey({ kty, n, e, crv, x, y }: Jwk, family: Family): KeyObject | null {
  try {
    return sound(createPublicKey({ key: { kty, n, e, crv, x, y } as never, format: 'jwk' }), family)
  } catch {
    return null
  }
}

function sound(key: KeyObject, family: Family): KeyObject | null {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details = {} } = key
  switch (family) {
    case 'rsa': {
      const { modulusLength: bits = 0, publicExponent = 0n } = details
      if (type !== 'rsa' || bits < LEAST_RSA_BITS || bits > MOST_RSA_BITS) return null
      // With 1 every signature is its own message.
      return publicExponent >= 3n && publicExponent % 2n === 1n ? key : null
    }
    case 'ecdsa':
      return type === 'ec' && Object.values(CURVES).includes(details.namedCurve ?? '') ? key : null
    case 'eddsa':
      return type === 'ed25519' ? key : null
    case 'hmac':
      return null
  }
}

/** An elliptic curve goes with one algorithm alone; other keys with all of their family. */
export function suits(key: KeyObject, alg: string): boolean {
  const curve = CURVES[alg]
  return curve === undefined || key.asymmetricKeyDetails?.namedCurve === curve
}
