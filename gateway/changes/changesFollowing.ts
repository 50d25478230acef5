import type { Clock, Log } from '../../config/world.ts'
import type { Change, Kind, Sequence, Store } from '../store/store.ts'
import type { Bell } from './bell.ts'
import { anyId, anyOf, type Changes } from './changes.ts'
import { changesLocal } from './changesLocal.ts'
import { follower, type Told } from './follower.ts'

export interface FollowingGiven {
  readonly store: Pick<Store, 'sequence' | 'since' | 'stand'>
  readonly clock: Clock
  readonly log: Log
  /** Absent: the store is asked more often. */
  readonly bell?: Bell
  /** `storage.documents.max_stale` in milliseconds; 0: what is in memory is believed for ever. */
  readonly maxStaleMs?: number
  /** Which documents of that store count; `others`: all but keys. */
  readonly holds?: 'all' | 'keys' | 'others'
  /**
   * Where changes are told, and who hears of this process's own; absent: a `changesLocal` of its own. With the changes of
   * another store here, both are one. Closed along.
   */
  readonly onto?: Changes
}

/** Whether somebody may hold such documents in memory. */
const held: Record<Kind, boolean> = {
  key: true,
  policy: true,
  api: true,
  organisation: true,
  asset: true,
  user: true,
  group: true,
  access: true,
  name: true,
  certificate: true,
  hook: true,
  portal_organisation: true,
  portal_user: true,
  flush: true,
  ledger: false,
  audit: false,
  revision: false,
  stream_log: false,
  notice: false
}
const watched = (Object.keys(held) as Kind[]).filter(kind => held[kind])

/** By what a store holds: the kinds to ask for, what to tell when anything may have changed, and when nobody can say. */
const ways: Record<NonNullable<FollowingGiven['holds']>, { kinds: readonly Kind[]; lost: Told; stale: Change[] }> = {
  all: { kinds: watched, lost: null, stale: [anyOf('key'), anyOf('user')] },
  keys: { kinds: ['key'], lost: [anyOf('key')], stale: [anyOf('key')] },
  others: { kinds: watched.filter(kind => kind !== 'key'), lost: null, stale: [anyOf('user')] }
}

/**
 * Changes of all processes that share a store: this process's own at once, the others' by asking the store for its
 * sequence, several times a second and when the bell rings. While the store is away nothing is told, until `maxStaleMs`
 * have passed: then keys and users are no longer believed. Afterwards, and when another server answers for the store,
 * everything is void, for writes may be lost there.
 * @throws Unavailable when the store cannot be asked where it stands
 */
export async function changesFollowing(given: FollowingGiven): Promise<Changes> {
  const { store, clock, log, bell, maxStaleMs = 0, holds = 'all', onto = changesLocal() } = given
  const way = ways[holds]
  /** Own changes that the store will name again, by kind and id. */
  const own = new Map<string, Sequence>()
  const isForeign = ({ kind, id, sequence }: Change) => id === anyId || (own.get(nameOf(kind, id)) ?? 0) < sequence
  const following = await follower({
    ...{ store, clock, log, bell, maxStaleMs, ...way },
    async tell(changes) {
      const foreign = changes === null ? null : changes.filter(isForeign)
      if (foreign?.length !== 0) await onto.publish(foreign)
    },
    passed(position) {
      for (const [name, sequence] of own) if (sequence <= position) own.delete(name)
    }
  })

  return {
    async publish(changes) {
      const { voids } = following
      const mine = (changes ?? []).filter(({ kind }) => way.kinds.includes(kind))
      const newest = mine.reduce((most, { sequence }) => Math.max(most, sequence), 0)
      try {
        await onto.publish(changes)
        // Only now: what a listener could not take over is told again.
        for (const { kind, id, sequence } of mine)
          if (sequence > following.position && following.voids === voids) own.set(nameOf(kind, id), sequence)
      } finally {
        if (newest > 0) bell?.ring(newest)
      }
    },
    listen: onto.listen,
    async close() {
      await following.close()
      await onto.close()
    }
  }
}

function nameOf(kind: Kind, id: string): string {
  return `${kind}\n${id}`
}
