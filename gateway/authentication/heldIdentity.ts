import type { Key } from '../../config/shape/key.ts'
import type { KeyRecord, Session } from '../keys/keys.ts'
import type { Document } from '../store/store.ts'
import type { Identity } from './identities.ts'
import { areSame, endOf, identityId, newKey, policiesOf, stamped, touchAt, withToken } from './identityKeys.ts'
import type { Kept } from './writeIdentities.ts'

/** Names above this length are remembered by their hash. */
const LONG_NAME = 256
/** A session whose policies stay the same, and whose end hardly moves, is written at most so often, milliseconds. */
export const AGAIN_MS = 60_000
/** One whose end as it is stored is near, or behind by so much, is written at most so often, milliseconds. */
const SOON_MS = 1_000

/** A session in memory. */
export interface Held extends Kept {
  /** In memory. */
  readonly name: string
  /** Null: not applied yet. */
  session: Session | null
  /** Of the policies that were applied. */
  epoch: number
  /** Those of the session. */
  policies: readonly string[]
  /** When the session ends; a token that ends later prolongs it. */
  untilMs: number
  /** From when on the session is looked at again: there is something to write, or to ask. */
  dueMs: number
}

/** What a caller is remembered by. No organisation is empty or holds NUL, so a short name cannot be taken for a hash. */
export function nameOf(org: string, name: string): string {
  return name.length <= LONG_NAME ? `${org}\0${name}` : `\0${org}\0${identityId(name)}`
}

export function heldOf(name: string, id: string, org: string, document: Document<KeyRecord> | null): Held {
  const stored = document?.body.key ?? null
  return {
    name,
    id,
    org,
    record: document?.body ?? null,
    stored,
    rev: document?.rev ?? 0,
    sequence: document?.sequence ?? 0,
    writtenAt: Number(stored?.last_updated ?? 0) * 1000,
    session: null,
    epoch: -1,
    policies: [],
    untilMs: 0,
    dueMs: 0
  }
}

/** The session is ours to write; false: somebody made this key. */
export function isOwn({ record }: Held): boolean {
  return record === null || record.isIdentity === true
}

/** The policies that a token gives to this session; null: it keeps those it has. */
export function policiesFor(held: Held, { policies, areDefaults = false }: Identity): readonly string[] | null {
  const says = policies !== null && policies.length > 0
  if (isOwn(held)) return says ? policies : null
  return says && !areDefaults ? policies : policiesOf(held.record!.key)
}

/** The key of a session as a token asks for it, and whether it is written now. */
export function keyFor(
  held: Held,
  identity: Identity,
  policies: readonly string[] | null,
  now: number
): { key: Key; isDue: boolean } {
  const { record } = held
  // Somebody's key is as somebody wrote it: the token's policies count for this caller, and are not stored.
  if (!isOwn(held)) return { key: withToken(record!.key, policies, 0), isDue: false }
  const key = record === null ? newKey(identity, policies ?? [], now) : withToken(record.key, policies, identity.until)
  if (now < dueAt(held, key)) return { key, isDue: false }
  return { key: stamped(key, identity.lifetime, now), isDue: true }
}

/** From when on the key of a session is written, as far as it differs from what is stored, or is to be kept alive. */
export function dueAt({ stored, writtenAt }: Pick<Held, 'stored' | 'writtenAt'>, key: Key): number {
  if (stored === null || !areSame(policiesOf(stored), policiesOf(key))) return 0
  if (key === stored) return touchAt(key, AGAIN_MS)
  const usual = writtenAt + AGAIN_MS
  const before = endOf(stored)
  const end = endOf(key)
  if (end <= before) return usual
  const soonest = writtenAt + SOON_MS
  return end >= before + AGAIN_MS ? soonest : Math.min(usual, Math.max(soonest, before - AGAIN_MS))
}
