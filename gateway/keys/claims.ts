import type { Claim } from '../api.ts'

/** What a token says of its caller, claim by claim. */
export type Claims = Readonly<Record<string, unknown>>

/** A claim by its whole name, where there is one, else by its path; undefined: it is not there. */
export function claimAt(claims: Claims, { name, path }: Claim): unknown {
  if (Object.hasOwn(claims, name)) return claims[name]
  if (path.length < 2) return undefined
  let value: unknown = claims
  for (const member of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, member)) return undefined
    value = (value as Claims)[member]
  }
  return value
}

/** A claim as a text: objects and lists as JSON; '' where it is not there. */
export function claimText(claims: Claims | null, claim: Claim): string {
  const value = claims === null ? undefined : claimAt(claims, claim)
  if (typeof value === 'string') return value
  if (value === undefined || value === null) return ''
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/**
 * A claim that names somebody: a text that is not empty, or an integer; null: it names nobody. Numbers beyond the safe ones
 * have lost digits: two callers could get one name.
 */
export function claimedName(claims: Claims, claim: Claim): string | null {
  const value = claimAt(claims, claim)
  if (typeof value === 'number') return Number.isSafeInteger(value) ? String(value) : null
  return typeof value === 'string' && value !== '' ? value : null
}

/** A claim by its name as it is written: dots part the members of a path. */
export function claimNamed(name: string): Claim {
  return { name, path: name.split('.') }
}
