import type { Clock, Log } from '../../config/world.ts'
import type { RedisLink } from '../redis/redis.ts'
import { redisCalls, version } from './redisCalls.ts'
import { longPage, type Slice, shortPage, since, slice } from './redisRead.ts'
import {
  Conflict,
  deletionsKept,
  type Kind,
  type Page,
  type Query,
  type Store,
  Unavailable,
  type Walk
} from './store.ts'
import { textWrites } from './textWrite.ts'
import { turnstile } from './turnstile.ts'

export interface RedisOptions {
  /** Stays open when the store closes: others use it too. */
  readonly link: RedisLink
  readonly clock: Clock
  readonly log: Log
}

/** Long lists read at once. */
const longLists = 4
/** Documents on a page that one call reads. */
const shortSize = 100

/**
 * Documents in Redis (5 or newer, Valkey, a cluster), which several processes may share. What survives there is what the
 * server keeps: with an append-only file what was acknowledged, but for the last second when the machine fails; opening
 * warns where it keeps nothing or throws away.
 * @throws Unavailable when it does not answer; Error when what lies there is of a newer version
 */
export async function storeRedis({ link, clock, log }: RedisOptions): Promise<Store> {
  const calls = redisCalls(link, clock)
  const found = await calls.meta('version')
  if (found !== null && found !== version)
    throw new Error(`the documents in Redis have version ${found}, but this program knows only ${version}`)
  await warn(link, log)
  const long = turnstile(longLists)
  let open = true
  let connections = 0
  const stop = link.onConnected(isConnected => {
    if (isConnected) connections++
  })
  const mustBeOpen = () => {
    if (!open) throw new Unavailable('the store is closed')
  }

  return {
    async get<T>(kind: Kind, id: string) {
      mustBeOpen()
      return calls.get<T>(kind, id)
    },

    async list<T>(kind: Kind, query: Query): Promise<Page<T>> {
      mustBeOpen()
      const isLong = query.page < 0 || query.size > shortSize || (query.contains ?? '') !== ''
      return isLong ? long(() => longPage<T>(calls, kind, query)) : shortPage<T>(calls, kind, query)
    },

    async *each<T>(kind: Kind, query: Walk) {
      let after: string | null = ''
      while (after !== null) {
        mustBeOpen()
        const next: Slice<T> = await slice<T>(calls, kind, query, after)
        if (next.documents.length > 0) yield next.documents
        after = next.after === '' ? null : next.after
      }
    },

    async commit(writes) {
      mustBeOpen()
      const result = await calls.commit(await textWrites(writes), deletionsKept)
      if (result >= 0) return result
      const { kind, id } = writes[-result - 1]!
      throw new Conflict(kind, id)
    },

    async since(sequence, kinds) {
      mustBeOpen()
      return long(() => since(calls, sequence, kinds ?? null))
    },

    async sequence() {
      mustBeOpen()
      return Number((await calls.meta('sequence')) ?? 0)
    },

    async stand() {
      mustBeOpen()
      const [sequence, origin] = await calls.stand()
      return { sequence: Number(sequence), origin: `${origin} ${connections}` }
    },

    async close() {
      open = false
      stop()
    }
  }
}

/** Where asking is forbidden, nobody is warned. */
async function warn({ commands }: RedisLink, log: Log): Promise<void> {
  const setting = async (name: string) => {
    const answer = (await commands.call('CONFIG', 'GET', name).catch(() => [])) as string[]
    return answer[1] ?? null
  }
  const [appends, save, policy] = await Promise.all(['appendonly', 'save', 'maxmemory-policy'].map(setting))
  if (appends === 'no' && save === '')
    log.warn('Redis keeps nothing: what is stored there is gone when it ends (appendonly yes would keep it)')
  else if (appends === 'no')
    log.warn('Redis keeps only snapshots: what was stored after the last one is gone when it ends (see appendonly)')
  if (policy !== null && policy !== 'noeviction')
    log.warn('Redis throws away what it has no room for, and with it stored documents (see maxmemory-policy)', {
      policy
    })
}
