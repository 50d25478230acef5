import type { Settings } from '../config/settings.ts'
import type { Clock, Log, Random } from '../config/world.ts'
import type { Changes } from './changes/changes.ts'
import { openChanges } from './changes/openChanges.ts'
import type { Counters } from './counters/counters.ts'
import { countersMemory } from './counters/countersMemory.ts'
import { countersRedis } from './counters/redis/countersRedis.ts'
import { type CountersShared, countersShared } from './counters/shared/countersShared.ts'
import { Ledger } from './keys/ledger.ts'
import { type Part, part } from './probes.ts'
import { openRedis } from './redis/openRedis.ts'
import type { RedisLink } from './redis/redis.ts'
import type { Store } from './store/store.ts'
import { storeMemory } from './store/storeMemory.ts'
import { storePostgres } from './store/storePostgres.ts'
import { storeRedis } from './store/storeRedis.ts'
import { storeSplit } from './store/storeSplit.ts'
import { storeSqlite } from './store/storeSqlite.ts'
import { type Gathered, gathered } from './threads/gathered.ts'

export interface StorageGiven {
  readonly settings: Settings
  readonly clock: Clock
  readonly log: Log
  readonly random: Random
  /** Threads that count beside this one; 0: none. */
  readonly threads: number
}

/** Everything that outlives a request, behind its ports. */
export interface Storage {
  readonly store: Store
  readonly changes: Changes
  readonly counters: Counters
  /** The same counters, where other threads share them; null: none does. */
  readonly gathered: Gathered | null
  /** Null: nothing lies there. */
  readonly link: RedisLink | null
  /** What fails of counters outside of the process, by thread (0: this one); the probes' `counters` is made of it. */
  readonly failures: Map<number, string>
  /** How what lies elsewhere stands, for the probes; it changes by itself. */
  readonly parts: Record<string, Part>
}

/**
 * Opens what `storage` in the settings names. `opened` takes how each is closed, in the order of opening.
 * @throws Error in one line, without passwords
 */
export async function openStorage(given: StorageGiven, opened: (() => unknown)[]): Promise<Storage> {
  const { settings, clock, log, random } = given
  const { documents: ofDocuments, keys: ofKeys, counters: ofCounters } = settings.storage
  const documents = await openStore(settings, clock, log)
  opened.push(() => documents.close())
  const isRedis = ofCounters.type === 'redis' || ofKeys === 'redis'
  const link = isRedis ? await openRedis(ofCounters, given) : null
  opened.push(() => link?.close())
  const keys = link !== null && ofKeys === 'redis' ? await storeRedis({ link, clock, log }) : null
  opened.push(() => keys?.close())
  const store = keys === null ? documents : storeSplit({ documents, keys })
  const changes = await openChanges({
    // Only this store can be shared with other processes.
    documents: ofDocuments.type === 'postgres' ? documents : null,
    ...{ keys, link, clock, log },
    maxStaleMs: ofDocuments.max_stale * 1000
  })
  opened.push(() => changes.close())
  const parts: Record<string, Part> = {}
  const failures = new Map<number, string>()
  const { max_entries: maxEntries } = ofCounters
  const isShared = ofCounters.type === 'redis'
  const all = !isShared && given.threads > 0 ? gathered({ clock, random, maxEntries, store }) : null
  const counters =
    link === null || !isShared
      ? await openMemory(given, store, all, opened)
      : await openShared(given, store, link, failure => noteFailure(failures, 0, failure), opened)
  if (isShared) {
    const isNeeded = settings.gateway.counters_failure === 'refuse'
    const get = () => part(failureOf(failures, 1 + given.threads), clock, isNeeded)
    Object.defineProperty(parts, 'counters', { enumerable: true, get })
  }
  return { store, changes, counters, gathered: all, link, failures, parts }
}

/** @param failure null: nothing fails any more */
export function noteFailure(failures: Map<number, string>, thread: number, failure: string | null): void {
  if (failure === null) failures.delete(thread)
  else failures.set(thread, failure)
}

function failureOf(failures: ReadonlyMap<number, string>, threads: number): string | null {
  const [first = null] = failures.values()
  return first === null || failures.size === threads ? first : `${failures.size} of ${threads} threads: ${first}`
}

async function openMemory(
  { settings, clock, log, random }: StorageGiven,
  store: Store,
  all: Gathered | null,
  opened: (() => unknown)[]
): Promise<Counters> {
  const counters = all ?? countersMemory({ clock, random, maxEntries: settings.storage.counters.max_entries })
  const ledger = new Ledger({ counters, store, clock, log })
  await ledger.start()
  opened.push(() => ledger.stop())
  return counters
}

/**
 * Counters outside of the process for a thread beside the main one: over a connection and with leases of its own.
 * `status` is told what fails of them, null: nothing any more. `opened`: as `openStorage`.
 */
export async function openCounters(
  given: Omit<StorageGiven, 'threads'>,
  store: Store,
  status: (failure: string | null) => void,
  opened: (() => unknown)[]
): Promise<Counters> {
  const link = await openRedis(given.settings.storage.counters, given)
  opened.push(() => link.close())
  return openShared(given, store, link, status, opened)
}

async function openShared(
  given: Omit<StorageGiven, 'threads'>,
  store: Store,
  link: RedisLink,
  status: (failure: string | null) => void,
  opened: (() => unknown)[]
): Promise<Counters> {
  const { settings, clock, log, random } = given
  const ledger: Ledger = new Ledger({
    counters: { dump: limit => shared.dump(limit), restore: states => shared.restore(states) },
    ...{ store, clock, log, of: 'all' }
  })
  const remote = countersRedis({ link, clock, log, random, ledger: id => ledger.find(id) })
  opened.push(() => remote.close())
  const shared: CountersShared = countersShared({
    remote,
    // While Redis is away.
    local: countersMemory({ clock, random, maxEntries: settings.storage.counters.max_entries }),
    ...{ clock, log, settings: settings.gateway, kept: ledger, status }
  })
  await ledger.start()
  opened.push(() => ledger.stop())
  // Before the ledger ends: what Redis never heard of is kept by it.
  opened.push(() => shared.close())
  return shared
}

async function openStore({ storage }: Settings, clock: Clock, log: Log): Promise<Store> {
  const { type, path, url, pool_size: poolSize } = storage.documents
  if (type === 'memory') return storeMemory()
  return type === 'sqlite' ? storeSqlite({ path, log }) : storePostgres({ url, poolSize, clock, log })
}
