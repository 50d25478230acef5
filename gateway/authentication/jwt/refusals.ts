import type { Api, JwtScheme } from '../../api.ts'
import { type Refusal, refusal } from '../../refusals.ts'
import { challengeOf } from '../metadata.ts'
import type { Reason } from './claims.ts'

/** The refusals of one scheme (semantics §6.2), made once. */
export interface JwtRefusals {
  readonly missing: Refusal
  /** Of another family of algorithms, or of none that is known. */
  readonly otherMethod: Refusal
  /** Malformed, not signed by a key that counts. */
  readonly invalid: Refusal
  readonly nobody: Refusal
  /** The keys cannot be had at the moment. */
  readonly noKeys: Refusal
  /** More tokens are being verified than may be. */
  readonly busy: Refusal
  /** The claims do not count. */
  claims(reason: Reason): Refusal
}

const LATER = ['Retry-After', '1']
const INVALID_TOKEN = ['WWW-Authenticate', 'Bearer error="invalid_token"']
/** Reasons come from the document of an API; some depend on tokens' shape, none on their values. */
const MOST_REASONS = 500

export function jwtRefusals(api: Api, scheme: Pick<JwtScheme, 'external'>): JwtRefusals {
  const challenge = challengeOf(api)
  const missing = (text: string) => refusal('auth_missing', challenge.length > 0 ? 401 : 400, text, challenge)
  const busy = refusal('jwt_busy', 503, 'Too many tokens are being verified', LATER)
  if (scheme.external) {
    const invalid = refusal('access_token_invalid', 401, 'access token is not valid', INVALID_TOKEN)
    return {
      missing: missing('authorization field missing'),
      otherMethod: invalid,
      invalid,
      nobody: invalid,
      noKeys: refusal('access_token_fault', 500, 'error happened during the access token validation'),
      busy,
      claims: () => invalid
    }
  }
  const reasons = new Map<Reason, Refusal>()
  return {
    missing: missing('Authorization field missing'),
    otherMethod: refusal('jwt_method', 403, 'Key not authorized: Unexpected signing method'),
    invalid: refusal('jwt_invalid', 403, 'Key not authorized'),
    nobody: refusal('jwt_no_subject', 403, 'no suitable claims for user ID were found'),
    noKeys: refusal('jwt_keys_unavailable', 503, 'Keys of the identity provider cannot be fetched', LATER),
    busy,
    claims(reason) {
      const known = reasons.get(reason)
      if (known !== undefined) return known
      const made = refusal('jwt_claims', 401, `Key not authorized: ${reason}`, INVALID_TOKEN)
      if (reasons.size < MOST_REASONS) reasons.set(reason, made)
      return made
    }
  }
}
