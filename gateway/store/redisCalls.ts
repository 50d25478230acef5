import { readFileSync } from 'node:fs'
import { parseExact } from '../../config/exactJson.ts'
import type { Clock } from '../../config/world.ts'
import type { RedisLink } from '../redis/redis.ts'
import { type Document, Full, type Kind, type Sequence, Unavailable, type Walk } from './store.ts'
import type { TextWrite } from './textWrite.ts'

/**
 * What lies in Redis, all behind the name PREFIX:{store}, whose braces keep it in one slot of a cluster:
 *
 *     PREFIX:{store}                 hash: version, sequence, place (given out last), forgotten,
 *                                  born (the server's time when it was made)
 *     PREFIX:{store}:d:KIND:ID       a document: `place rev sequence org body`
 *     PREFIX:{store}:a:KIND          sorted set: ids of a kind by place
 *     PREFIX:{store}:o:KIND:ORG      the same of one organisation
 *     PREFIX:{store}:s, :x           sorted sets: KIND:ID of what is there, and of deletions, by sequence
 *
 * Places rise in the order of creation, organisations are percent-encoded. Scripts see to it that all fits together.
 */

/** A document and its place among all. */
export interface Placed<T = unknown> {
  readonly place: number
  readonly document: Document<T>
}

export type Calls = ReturnType<typeof redisCalls>

export const version = '1'

/** Longest wait for one answer; a commit may be long. */
const READ_MS = 5_000
const COMMIT_MS = 10_000

const script = (name: string) => readFileSync(new URL(name, import.meta.url), 'utf8')
const texts = {
  commit: script('./redisCommit.lua'),
  page: script('./redisPage.lua'),
  walk: script('./redisWalk.lua'),
  since: script('./redisSince.lua'),
  settle: script('./redisSettle.lua'),
  stand: script('./redisStand.lua')
}

/** Of a script. */
export type Reply = readonly (string | number)[]

/** The calls that a store in Redis is made of, each with an end. They reject with Unavailable or Full. */
export function redisCalls(link: RedisLink, clock: Clock) {
  const base = `${link.prefix}:{store}`
  const run = (text: string, ms: number) => {
    const called = link.script(text)
    return (keys: readonly string[], args: readonly (string | number)[]) =>
      ended(() => called([base, ...keys], args) as Promise<Reply>, ms, clock)
  }
  const commit = run(texts.commit, COMMIT_MS)
  const page = run(texts.page, READ_MS)
  const walk = run(texts.walk, READ_MS)
  const since = run(texts.since, READ_MS)
  const settle = run(texts.settle, READ_MS)
  const stand = run(texts.stand, READ_MS)
  const listOf = (kind: Kind, org: string | undefined) =>
    org === undefined ? `${base}:a:${kind}` : `${base}:o:${kind}:${encoded(org)}`
  const documentOf = (kind: Kind, id: string) => `${base}:d:${kind}:${id}`

  return {
    meta: (name: 'version' | 'sequence') => ended(() => link.commands.hget(base, name), READ_MS, clock),

    /** See redisStand.lua. */
    stand: () => stand([], []),

    async get<T>(kind: Kind, id: string): Promise<Document<T> | null> {
      const text = await ended(() => link.commands.get(documentOf(kind, id)), READ_MS, clock)
      return text === null ? null : placed<T>(kind, id, text).document
    },

    /** The sequence, or -n when write n (from 1) expects another revision. */
    async commit(writes: readonly TextWrite[], deletionsKept: number): Promise<number> {
      const keys = new Set<string>([`${base}:s`, `${base}:x`])
      const args: (string | number)[] = [deletionsKept]
      for (const { kind, id, org, body, expect, raise } of writes) {
        keys.add(documentOf(kind, id)).add(listOf(kind, undefined))
        if (body !== null) keys.add(listOf(kind, org))
        const raised = raise === undefined ? '' : `${raise.count} ${raise.renews}`
        args.push(kind, id, encoded(org), body ?? '', expect ?? '', raised)
      }
      return (await commit([...keys], args)) as unknown as number
    },

    /** See redisPage.lua. */
    page: (kind: Kind, { org, newestFirst, idsOnly }: Walk, from: number, to: number) =>
      page([listOf(kind, org)], [kind, from, to, flag(newestFirst), flag(idsOnly)]),

    /** See redisWalk.lua. */
    walk: (kind: Kind, { org, newestFirst, idsOnly }: Walk, after: string, most: number, bytes: number) =>
      walk([listOf(kind, org)], [kind, after, flag(newestFirst), idsOnly ? 'ids' : 'bodies', most, bytes, '']),

    /** The same: ids and places, oldest first. */
    search: (kind: Kind, org: string | undefined, contains: string, after: string, most: number) =>
      walk([listOf(kind, org)], [kind, after, '', 'search', most, 0, contains]),

    /** See redisSince.lua. */
    since: (list: 's' | 'x', after: Sequence, most: number) => since([`${base}:${list}`], [after, most]),

    /** See redisSettle.lua. */
    settle: (kind: Kind, after: Sequence, most: number, isIdsOnly: boolean) =>
      settle([`${base}:s`, `${base}:x`], [kind, after, most, flag(isIdsOnly)]),

    /** The same of certain documents. */
    read: (kind: Kind, ids: readonly string[], isIdsOnly: boolean) =>
      settle([`${base}:s`, `${base}:x`, ...ids.map(id => documentOf(kind, id))], [kind, '', 0, flag(isIdsOnly), ...ids])
  }
}

/** From the text that lies in Redis. @throws Unavailable when somebody else wrote it */
export function placed<T>(kind: Kind, id: string, text: string): Placed<T> {
  const found = /^(\d+) (\d+) (\d+) (\S*) /.exec(text)
  if (found === null) throw new Unavailable(`what lies in Redis as ${kind} ${id} is no document`)
  const [head, place, rev, sequence, org] = found
  return {
    place: Number(place),
    document: {
      kind,
      id,
      org: decodeURIComponent(org!),
      rev: Number(rev),
      sequence: Number(sequence),
      body: parseExact(text.slice(head.length)) as T
    }
  }
}

/** Without spaces. */
function encoded(org: string): string {
  return encodeURIComponent(org.toWellFormed())
}

function flag(is: boolean | undefined): string {
  return is ? '1' : ''
}

function ended<T>(call: () => Promise<T>, ms: number, clock: Clock): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(ms, () => reject(new Unavailable(`Redis did not answer within ${ms / 1000} s`)))
    call().then(
      value => {
        cancel()
        resolve(value)
      },
      (cause: Error) => {
        cancel()
        const Failure = cause.message.startsWith('OOM ') ? Full : Unavailable
        reject(new Failure(`Redis: ${cause.message}`, { cause }))
      }
    )
  })
}
