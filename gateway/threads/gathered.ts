import type { Clock, Random } from '../../config/world.ts'
import type { CounterState, Counters } from '../counters/counters.ts'
import { countersMemory } from '../counters/countersMemory.ts'
import { type SharedCounters, sharedCounters } from '../counters/memory.ts'
import { repair } from '../counters/repair.ts'
import type { Store } from '../store/store.ts'

/** What other threads have to tell the ledger, at most `limit` states of each. */
export type Gather = (limit: number) => Promise<readonly CounterState[]>

/** Counters in memory that several threads share, in the one that writes the ledger. */
export interface Gathered extends Counters {
  /** For the other threads' `countersMemory`. */
  readonly shared: SharedCounters
  /** Each dump first takes what the other threads have to tell. */
  gather(from: Gather): void
  /** Thread `owner` (above 0) has ended, perhaps while it counted. */
  ended(owner: number): void
}

export interface GatheredGiven {
  readonly clock: Clock
  readonly random: Random
  readonly maxEntries: number
  readonly store: Pick<Store, 'each'>
}

/** The caller's thread is number 0. */
export function gathered({ clock, random, maxEntries, store }: GatheredGiven): Gathered {
  const shared = sharedCounters({ clock, random, maxEntries })
  const own = countersMemory({ clock, shared, owner: 0 })
  let from: Gather | null = null
  return {
    charge: own.charge,
    look: own.look,
    forget: own.forget,
    restore: own.restore,
    async dump(limit = Infinity) {
      // All of it at once: it then comes in the order and the slices of its own.
      if (from !== null) own.adopt(await from(limit))
      return own.dump(limit)
    },
    shared,
    gather(given) {
      from = given
    },
    ended(owner) {
      if (!repair(shared, owner)) return
      // As after `kill -9`: quotas go on from what was written last. Where the store is away, from nothing.
      readBack(store, own).catch(() => {})
    }
  }
}

async function readBack(store: Pick<Store, 'each'>, counters: Pick<Counters, 'restore'>): Promise<void> {
  for await (const documents of store.each<CounterState>('ledger', {}))
    await counters.restore(documents.map(({ body }) => body))
}
