import { existsSync } from 'node:fs'
import { load, readFile } from '../../config/load.ts'
import type { Settings } from '../../config/settings.ts'
import { Invalid } from '../../config/validate.ts'
import { type Clock, type Log, systemClock } from '../../config/world.ts'
import { openRedis } from '../../gateway/redis/openRedis.ts'
import { Conflict, type Document, type Store, Unavailable, type Write } from '../../gateway/store/store.ts'
import { storePostgres } from '../../gateway/store/storePostgres.ts'
import { storeRedis } from '../../gateway/store/storeRedis.ts'
import { storeSqlite } from '../../gateway/store/storeSqlite.ts'
import { CallFailed } from './client.ts'
import { Faulty } from './documents.ts'

/** Where keys lie: the values of `storage.keys`. */
export type Place = 'documents' | 'redis'

export interface Move {
  /** The gateway's settings file. */
  readonly config: string
  readonly to: Place
  /** Keys that are there with other content are replaced; otherwise they are told and stay. */
  readonly overwrite: boolean
  /** What has arrived is deleted where it came from. */
  readonly remove: boolean
}

/** What cannot be done, in one line. */
export class MoveFailed extends CallFailed {}

/** Reads and writes that are under way at once, and writes in one commit. */
const AT_ONCE = 50
/** Tries of a commit that somebody else's writes come between. */
const TRIES = 20
/** Keys between two lines of progress. */
const TELL_EVERY = 20_000
/** Keys that are told by name at most. */
const MOST_NAMED = 20

/**
 * Copies all keys from one store to the other; may be repeated. `say` gets lines for people.
 * @returns whether all keys have arrived
 * @throws Faulty when the settings have faults; MoveFailed
 */
export async function moveKeys(move: Move, say: (line: string) => void): Promise<boolean> {
  const settings = settingsOf(move.config)
  const closes: (() => Promise<void>)[] = []
  try {
    const stores = await open(settings, closes)
    const [from, to] = move.to === 'redis' ? [stores.documents, stores.redis] : [stores.redis, stores.documents]
    return await copyAll(from, to, move, say)
  } catch (cause) {
    throw cause instanceof Unavailable ? new MoveFailed(`${cause.message}: run it again`, { cause }) : cause
  } finally {
    for (const close of closes.reverse()) await close()
  }
}

async function copyAll(from: Store, to: Store, move: Move, say: (line: string) => void): Promise<boolean> {
  const { total } = await from.list('key', { page: 1, size: 1, idsOnly: true })
  say(`${total} keys to copy to ${move.to}`)
  const sum = { copied: 0, same: 0, replaced: 0, other: 0 }
  let told = TELL_EVERY
  for await (const keys of from.each('key', {})) {
    for (const some of slices(keys)) {
      const results = await copy(some, to, move.overwrite)
      for (const [i, result] of results.entries()) {
        sum[result]++
        if (result === 'other' && sum.other <= MOST_NAMED) say(`left as it is there: ${some[i]!.id} (other content)`)
      }
    }
    const done = sum.copied + sum.same + sum.replaced + sum.other
    if (done >= told) say(`${done} of ${total}`)
    while (told <= done) told += TELL_EVERY
  }
  say(`${sum.copied} copied, ${sum.same} were there, ${sum.replaced} replaced, ${sum.other} left with other content`)
  if (sum.other > 0) say('--overwrite replaces those that have other content')

  const missing = await missingIn(to, from)
  if (missing > 0) throw new MoveFailed(`${missing} keys have not arrived: run it again`)
  say(`verified: every key is in ${move.to}`)
  if (move.remove) say(await removeArrived(from, to))
  else say('nothing was deleted where they came from; --delete does so')
  say(`To use them, set storage.keys to "${move.to}" on every process and start it again.`)
  return sum.other === 0
}

type Result = 'copied' | 'same' | 'replaced' | 'other'

async function copy(keys: readonly Document[], to: Store, overwrite: boolean): Promise<Result[]> {
  for (let tries = 1; ; tries++) {
    const present = await Promise.all(keys.map(({ id }) => to.get('key', id)))
    const results = keys.map((key, i): Result => {
      const there = present[i]!
      if (there === null) return 'copied'
      return isSame(key, there) ? 'same' : overwrite ? 'replaced' : 'other'
    })
    const writes = keys.flatMap(({ id, org, body }, i): Write[] =>
      results[i] === 'copied' || results[i] === 'replaced'
        ? [{ kind: 'key', id, org, body, expect: present[i]?.rev ?? 0 }]
        : []
    )
    try {
      if (writes.length > 0) await to.commit(writes)
      return results
    } catch (cause) {
      if (!(cause instanceof Conflict) || tries === TRIES) throw cause
    }
  }
}

async function missingIn(to: Store, from: Store): Promise<number> {
  const there = new Set<string>()
  for await (const keys of to.each('key', { idsOnly: true })) for (const { id } of keys) there.add(id)
  let missing = 0
  for await (const keys of from.each('key', { idsOnly: true })) for (const { id } of keys) if (!there.has(id)) missing++
  return missing
}

/** What differs stays: a key that was changed since it was copied, or that has other content there. */
async function removeArrived(from: Store, to: Store): Promise<string> {
  let [removed, left] = [0, 0]
  for await (const keys of from.each('key', {})) {
    for (const some of slices(keys)) {
      const present = await Promise.all(some.map(({ id }) => to.get('key', id)))
      const arrived = some.filter((key, i) => present[i] !== null && isSame(key, present[i]!))
      const writes = arrived.map(({ id, rev }) => ({ kind: 'key', id, body: null, expect: rev }) as const)
      try {
        await from.commit(writes)
        removed += writes.length
        left += some.length - writes.length
      } catch (cause) {
        if (!(cause instanceof Conflict)) throw cause
        left += some.length
      }
    }
  }
  return `${removed} deleted where they came from${left > 0 ? `, ${left} stay there: they differ, or change just now` : ''}`
}

function isSame(one: Document, other: Document): boolean {
  // As text: every store keeps the order of members, and every digit of large numbers.
  return one.org === other.org && JSON.stringify(one.body) === JSON.stringify(other.body)
}

function* slices<T>(all: readonly T[]): Generator<readonly T[]> {
  for (let i = 0; i < all.length; i += AT_ONCE) yield all.slice(i, i + AT_ONCE)
}

function settingsOf(config: string): Settings {
  try {
    return load({ file: readFile(config), env: process.env })
  } catch (cause) {
    if (cause instanceof Invalid) throw new Faulty(cause.faults.map(({ path, message }) => `${path} ${message}`.trim()))
    throw cause
  }
}

async function open(
  { storage }: Settings,
  closes: (() => Promise<void>)[]
): Promise<{ documents: Store; redis: Store }> {
  const { documents: given, counters } = storage
  if (given.type === 'memory') throw new MoveFailed('storage.documents is "memory": only its own process has its keys')
  if (counters.url === '' && counters.nodes.length === 0)
    throw new MoveFailed('storage.counters names no Redis: its url is missing')
  if (given.type === 'sqlite' && !existsSync(given.path)) throw new MoveFailed(`there is no store at ${given.path}`)
  const [clock, log]: [Clock, Log] = [systemClock, { debug() {}, info() {}, warn: tell, error: tell }]
  try {
    const { path, url, pool_size: poolSize } = given
    const documents =
      given.type === 'sqlite' ? await storeSqlite({ path, log }) : await storePostgres({ url, poolSize, clock, log })
    closes.push(() => documents.close())
    const link = await openRedis(counters, { clock, log })
    closes.push(() => link.close())
    return { documents, redis: await storeRedis({ link, clock, log }) }
  } catch (cause) {
    const { message } = cause as Error
    throw new MoveFailed(/in use by another process/.test(message) ? `${message}: stop the gateway first` : message)
  }
}

function tell(msg: string, fields: object = {}): void {
  process.stderr.write(`${[msg, ...Object.entries(fields).map(([name, value]) => `${name}: ${value}`)].join(' · ')}\n`)
}
