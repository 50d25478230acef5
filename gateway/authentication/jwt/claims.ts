import { isDeepStrictEqual } from 'node:util'
import type { CustomClaim, JwtScheme } from '../../api.ts'
import { type Claims, claimAt } from '../../keys/claims.ts'

/** What keeps the claims of a token from counting; names claims, never their values. */
export type Reason = string

/** When a token ends by itself, milliseconds since the epoch; Infinity: it says nothing. Of claims whose times are in order. */
export function endOf({ exp }: Claims, { skews }: Pick<JwtScheme, 'skews'>): number {
  return typeof exp === 'number' ? (exp + skews.expires) * 1000 : Number.POSITIVE_INFINITY
}

/**
 * The times of a token (RFC 7519 §4.1.4 to §4.1.6), in seconds, fractions allowed; null: in order. From `exp` on it is
 * expired; at `nbf` and `iat` it counts already. What is absent is not asked for.
 * @param at milliseconds since the epoch
 */
export function timeReason({ exp, nbf, iat }: Claims, { skews }: Pick<JwtScheme, 'skews'>, at: number): Reason | null {
  const now = at / 1000
  if (!isTime(exp)) return 'exp is not a time'
  if (!isTime(nbf)) return 'nbf is not a time'
  if (!isTime(iat)) return 'iat is not a time'
  if (exp !== undefined && now >= exp + skews.expires) return 'token has expired'
  if (nbf !== undefined && now < nbf - skews.notBefore) return 'token is not valid yet'
  if (iat !== undefined && now < iat - skews.issuedAt) return 'token used before issued'
  return null
}

function isTime(value: unknown): value is number | undefined {
  return value === undefined || (typeof value === 'number' && Number.isFinite(value))
}

/** Null: a token says what the scheme asks for. Times are looked at elsewhere. */
export function claimReason(
  claims: Claims,
  scheme: Pick<JwtScheme, 'issuers' | 'audiences' | 'subjects' | 'needsJti' | 'custom'>,
  warn: (reason: Reason) => void
): Reason | null {
  const { iss, aud, sub, jti } = claims
  const { issuers, audiences, subjects } = scheme
  if (issuers.length > 0 && !isOneOf(issuers, iss)) return 'iss is no allowed issuer'
  if (audiences.length > 0 && !isFor(audiences, aud)) return 'aud has no allowed audience'
  if (subjects.length > 0 && !isOneOf(subjects, sub)) return 'sub is no allowed subject'
  if (scheme.needsJti && (typeof jti !== 'string' || jti === '')) return 'jti is missing'
  for (const rule of scheme.custom) {
    const reason = customReason(claims, rule)
    if (reason === null) continue
    if (!rule.nonBlocking) return reason
    warn(reason)
  }
  return null
}

function isOneOf(allowed: readonly string[], value: unknown): boolean {
  return typeof value === 'string' && allowed.includes(value)
}

/** A text, or a list of texts of which one is enough (RFC 7519 §4.1.3). */
function isFor(allowed: readonly string[], aud: unknown): boolean {
  if (!Array.isArray(aud)) return isOneOf(allowed, aud)
  return aud.every(each => typeof each === 'string') && aud.some(each => allowed.includes(each))
}

function customReason(claims: Claims, { claim, type, allowed }: CustomClaim): Reason | null {
  const value = claimAt(claims, claim)
  if (value === undefined || value === null) return `claim ${claim.name} is missing`
  if (type === 'required') return null
  const fits =
    type === 'exact_match'
      ? allowed.some(each => isDeepStrictEqual(each, value))
      : allowed.some(each => contains(value, each))
  return fits ? null : `claim ${claim.name} has no allowed value`
}

/** A list contains its members, a text its parts. */
function contains(value: unknown, part: unknown): boolean {
  if (Array.isArray(value)) return value.some(each => isDeepStrictEqual(each, part))
  return typeof value === 'string' && typeof part === 'string' && value.includes(part)
}

/**
 * Who a token speaks of (semantics §6.6): the first of the scheme's claims that names somebody, else the header's `kid`
 * unless the scheme skips it, else `sub`. Null: nobody.
 */
export function subjectOf(
  claims: Claims,
  kid: string | null,
  { subject, skipKid }: Pick<JwtScheme, 'subject' | 'skipKid'>
): string | null {
  for (const claim of subject) {
    const name = nameIn(claimAt(claims, claim))
    if (name !== null) return name
  }
  return (skipKid ? null : nameIn(kid)) ?? nameIn(claims.sub)
}

/** Numbers beyond the safe ones have lost digits: two callers could get one name. */
function nameIn(value: unknown): string | null {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? String(value) : null
  return typeof value === 'string' && value !== '' ? value : null
}
