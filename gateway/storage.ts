import type { Settings } from '../config/settings.ts'
import type { Clock, Log, Random } from '../config/world.ts'
import type { Changes } from './changes/changes.ts'
import { changesFollowing } from './changes/changesFollowing.ts'
import { changesLocal } from './changes/changesLocal.ts'
import type { Counters } from './counters/counters.ts'
import { countersMemory } from './counters/countersMemory.ts'
import { Ledger } from './keys/ledger.ts'
import type { Store } from './store/store.ts'
import { storeMemory } from './store/storeMemory.ts'
import { storePostgres } from './store/storePostgres.ts'
import { storeSqlite } from './store/storeSqlite.ts'

export interface StorageGiven {
  readonly settings: Settings
  readonly clock: Clock
  readonly log: Log
  readonly random: Random
}

/** Everything that outlives a request, behind its ports. */
export interface Storage {
  readonly store: Store
  readonly changes: Changes
  readonly counters: Counters
}

/**
 * Opens what `storage` in the settings names. `opened` takes how each is closed, in the order of opening.
 * @throws Error in one line, without passwords
 */
export async function openStorage(
  { settings, clock, log, random }: StorageGiven,
  opened: (() => unknown)[]
): Promise<Storage> {
  const store = await openStore(settings, clock, log)
  opened.push(() => store.close())
  // Only this store can be shared with other processes.
  const isPostgres = settings.storage.documents.type === 'postgres'
  const changes = isPostgres ? await changesFollowing({ store, clock, log }) : changesLocal()
  opened.push(() => changes.close())
  const counters = countersMemory({ clock, random, maxEntries: settings.storage.counters.max_entries })
  const ledger = new Ledger({ counters, store, clock, log })
  await ledger.start()
  opened.push(() => ledger.stop())
  return { store, changes, counters }
}

async function openStore({ storage }: Settings, clock: Clock, log: Log): Promise<Store> {
  const { type, path, url, pool_size: poolSize } = storage.documents
  if (type === 'memory') return storeMemory()
  return type === 'sqlite' ? storeSqlite({ path, log }) : storePostgres({ url, poolSize, clock, log })
}
