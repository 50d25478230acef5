import type { Family } from '../../api.ts'
import type { Claims } from '../../keys/claims.ts'
import { strictObject } from './strictJson.ts'

/** Longest token, in characters; heads of requests are bounded near it anyway. */
export const LONGEST = 16_384

/** JWS algorithms (RFC 7518 §3, RFC 8037, RFC 9864) by name; no other is known, `none` least of all. */
const FAMILIES: ReadonlyMap<unknown, Family> = new Map<unknown, Family>([
  ...(['HS256', 'HS384', 'HS512'] as const).map(alg => [alg, 'hmac'] as const),
  ...(['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'] as const).map(alg => [alg, 'rsa'] as const),
  ...(['ES256', 'ES384', 'ES512'] as const).map(alg => [alg, 'ecdsa'] as const),
  ...(['EdDSA', 'Ed25519'] as const).map(alg => [alg, 'eddsa'] as const)
])

/** A token whose form is in order; nothing in it is verified. */
export interface Jws {
  readonly token: string
  readonly alg: string
  readonly kid: string | null
  readonly claims: Claims
}

/**
 * Reads the compact form (RFC 7515 §3.1) strictly. Of the header count `alg` and `kid` alone: keys and addresses of keys
 * in it (`jwk`, `jku`, `x5u`, `x5c`) are never used. No extension is known, so every `crit` names an unknown one.
 */
export function readJws(token: string, family: Family): Jws | 'malformed' | 'other method' {
  if (token.length > LONGEST) return 'malformed'
  const [header64, payload64, signature64, ...more] = token.split('.', 4)
  if (signature64 === undefined || more.length > 0) return 'malformed'
  const header = objectIn(header64!)
  if (header === null) return 'malformed'
  const { alg, kid, crit, b64 } = header
  if (FAMILIES.get(alg) !== family) return 'other method'
  if (crit !== undefined || (b64 !== undefined && b64 !== true)) return 'malformed'
  if (kid !== undefined && typeof kid !== 'string') return 'malformed'
  if (signature64 === '' || !isBase64url(signature64)) return 'malformed'
  const claims = objectIn(payload64!)
  return claims === null ? 'malformed' : { token, alg: alg as string, kid: kid ?? null, claims }
}

function objectIn(text: string): Record<string, unknown> | null {
  return isBase64url(text) ? strictObject(Buffer.from(text, 'base64url')) : null
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
const FORM = /^[\w-]*$/

/** Without padding, white space and other signs (RFC 7515 §2), and the only text that stands for its bytes (RFC 4648 §3.5). */
function isBase64url(text: string): boolean {
  const rest = text.length % 4
  if (rest === 1 || !FORM.test(text)) return false
  const last = ALPHABET.indexOf(text.charAt(text.length - 1))
  return rest === 0 || last % (rest === 2 ? 16 : 4) === 0
}
