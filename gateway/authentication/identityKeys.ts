import { hash } from 'node:crypto'
import type { Key } from '../../config/shape/key.ts'
import type { KeyRecord } from '../keys/keys.ts'
import { goneAt } from '../keys/lifetime.ts'
import type { Identity } from './identities.ts'

/** The keys that sessions of callers are stored as: pure functions, nothing given is changed. */

/** As the shape of keys says. */
const LONGEST_ALIAS = 1024

/** The id that the session of a caller has, as managers of keys see it (semantics §4.1). */
export function identityId(name: string): string {
  return hash('md5', name, 'hex')
}

/** A caller's first session; `stamped` makes it complete. */
export function newKey({ org, name, until }: Identity, policies: readonly string[], now: number): Key {
  return {
    alias: name.slice(0, LONGEST_ALIAS).toWellFormed(),
    apply_policies: [...policies],
    date_created: new Date(now).toISOString(),
    expires: unixTime(until),
    org_id: org
  }
}

/** The key with the policies of a token, ending with it unless it ends later; the same object where nothing differs. */
export function withToken(key: Key, policies: readonly string[] | null, until: number): Key {
  const grows = until > endOf(key)
  if (!grows && (policies === null || areSame(policies, policiesOf(key)))) return key
  return {
    ...key,
    ...(policies === null ? {} : { apply_policies: [...policies] }),
    ...(grows ? { expires: unixTime(until) } : {})
  }
}

/** The key as it is written now. Of several lifetimes the longest counts; what never ends has none (semantics §4.5). */
export function stamped(key: Key, lifetime: Identity['lifetime'], now: number): Key {
  const { session_lifetime: before = 0, ...rest } = key
  const seconds = Math.floor(now / 1000)
  const next: Key = { ...rest, last_updated: String(seconds) }
  const own = lifetime === null ? 0 : Math.ceil(lifetime.ms / 1000)
  const end = endOf(key)
  const kept = lifetime?.respectsValidity ? Math.max(own, Math.ceil(end / 1000) - seconds) : own
  if (kept !== Number.POSITIVE_INFINITY && Math.max(kept, before) > 0) next.session_lifetime = Math.max(kept, before)
  return next
}

/** From when on a key in use is written again, so that it is not forgotten; Infinity: it need not be. */
export function touchAt({ session_lifetime = 0, last_updated }: Key, leastMs: number): number {
  if (session_lifetime <= 0) return Number.POSITIVE_INFINITY
  return Number(last_updated ?? 0) * 1000 + Math.max(leastMs, session_lifetime * 500)
}

/** When the last of its tokens ends, milliseconds since the epoch; Infinity: never. */
export function endOf({ expires = 0 }: Key): number {
  return expires > 0 ? expires * 1000 : Number.POSITIVE_INFINITY
}

/** Members that are written here. Any other was set by somebody who manages keys. */
const OWN: ReadonlySet<string> = new Set<keyof Key>([
  'alias',
  'apply_policies',
  'date_created',
  'expires',
  'last_updated',
  'org_id',
  'session_lifetime'
])

/** What is stored may be behind the session in use by so much. */
const BEHIND_MS = 60_000

/**
 * Whether a stored key is a caller's session that nobody needs any longer: without a lifetime its tokens have ended, else
 * that has passed, for a minute. What somebody has changed (limits, switched off) stays until somebody deletes it.
 */
export function isOver({ isIdentity, key }: KeyRecord, now: number): boolean {
  if (isIdentity !== true || Object.keys(key).some(member => !OWN.has(member))) return false
  return now >= ((key.session_lifetime ?? 0) > 0 ? goneAt(key, key.last_updated) : endOf(key)) + BEHIND_MS
}

export function policiesOf({ apply_policies }: Key): readonly string[] {
  return apply_policies ?? []
}

export function areSame(one: readonly string[], other: readonly string[]): boolean {
  if (one === other) return true
  if (one.length !== other.length) return false
  for (let i = 0; i < one.length; i++) if (one[i] !== other[i]) return false
  return true
}

/** 0: never. */
function unixTime(ms: number): number {
  return ms === Number.POSITIVE_INFINITY ? 0 : Math.min(Math.ceil(ms / 1000), Number.MAX_SAFE_INTEGER)
}
