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
  /** Afterwards there are these keys alone, with this content: others that are there are removed. */
  readonly mirror: boolean
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
 * Lies where keys were deleted because they had been moved: what is missing there was not revoked. Gone again once all have
 * come back.
 */
const movedAway = { kind: 'name', id: 'move-keys', org: '' } as const

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
    if (move.mirror) await mayMirror(from, to, move.to)
    return await copyAll(from, to, move, say)
  } catch (cause) {
    throw cause instanceof Unavailable ? new MoveFailed(`${cause.message}: run it again`, { cause }) : cause
  } finally {
    for (const close of closes.reverse()) await close()
  }
}

async function copyAll(from: Store, to: Store, move: Move, say: (line: string) => void): Promise<boolean> {
  const total = await countOf(from)
  say(`${total} keys to copy to ${move.to}`)
  const sum = { copied: 0, same: 0, replaced: 0, other: 0 }
  let told = TELL_EVERY
  for await (const keys of from.each('key', {})) {
    for (const some of slices(keys)) {
      const results = await copy(some, to, move.overwrite || move.mirror)
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

  const { missing, alone } = await compare(from, to)
  const left = await withAlone(alone, from, to, move, say)
  if (missing > 0) throw new MoveFailed(`${missing} keys have not arrived: run it again`)
  say(`verified: every key is in ${move.to}${move.mirror ? ', and no other' : ''}`)
  await to.commit([{ ...movedAway, body: null }])
  if (move.remove && left > 0)
    say('nothing was deleted where they came from: it tells which of those there are revoked')
  else if (move.remove) say(await removeArrived(from, to))
  else say('nothing was deleted where they came from; --delete does so')
  if (left === 0) say(`To use them, set storage.keys to "${move.to}" on every process and start it again.`)
  return sum.other === 0 && left === 0
}

/** @throws MoveFailed where it would remove keys that nobody has revoked */
async function mayMirror(from: Store, to: Store, place: Place): Promise<void> {
  const source: Place = place === 'redis' ? 'documents' : 'redis'
  if ((await from.get(movedAway.kind, movedAway.id)) !== null)
    throw new MoveFailed(
      `keys were deleted in ${source} when they were moved (--delete): --mirror would remove them in ${place} too`
    )
  const [ofSource, ofTarget] = await Promise.all([countOf(from), countOf(to)])
  if (ofSource === 0 && ofTarget > 0)
    throw new MoveFailed(`there are no keys in ${source}: --mirror would remove all ${ofTarget} in ${place}`)
}

async function countOf(store: Store): Promise<number> {
  return (await store.list('key', { page: 1, size: 1, idsOnly: true })).total
}

/** What to do with keys that are only there. @returns how many of them should not be left */
async function withAlone(
  alone: readonly Alone[],
  from: Store,
  to: Store,
  { to: place, mirror }: Move,
  say: (line: string) => void
): Promise<number> {
  if (alone.length === 0) return 0
  const count = alone.length === 1 ? '1 key is' : `${alone.length} keys are`
  if (mirror) {
    await removeAlone(alone, to)
    say(`${count} removed in ${place}: not where the others come from`)
    return 0
  }
  if ((await from.get(movedAway.kind, movedAway.id)) !== null) {
    say(`${count} in ${place} alone: moved there before (--delete), or made there`)
    return 0
  }
  say(
    `${count} in ${place} alone: revoked here since the last copy, or made there; --mirror removes ${alone.length === 1 ? 'it' : 'them'}`
  )
  for (const { id } of alone.slice(0, MOST_NAMED)) say(`only there: ${id}`)
  return alone.length
}

async function removeAlone(alone: readonly Alone[], to: Store): Promise<void> {
  for (const some of slices(alone)) {
    try {
      await to.commit(some.map(({ id, rev }) => ({ kind: 'key', id, body: null, expect: rev })))
    } catch (cause) {
      if (!(cause instanceof Conflict)) throw cause
      throw new MoveFailed(`key ${cause.id} changes just now: run it again, with the gateways stopped`)
    }
  }
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

/** A key that is only at the target. */
type Alone = Pick<Document, 'id' | 'rev'>

async function compare(from: Store, to: Store): Promise<{ missing: number; alone: Alone[] }> {
  const here = new Set<string>()
  for await (const keys of from.each('key', { idsOnly: true })) for (const { id } of keys) here.add(id)
  const alone: Alone[] = []
  for await (const keys of to.each('key', { idsOnly: true }))
    for (const { id, rev } of keys) if (!here.delete(id)) alone.push({ id, rev })
  return { missing: here.size, alone }
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
        if (writes.length > 0) await from.commit([...writes, { ...movedAway, body: {} }])
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
