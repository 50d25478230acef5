import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Calls, type Placed, placed, type Reply } from './redisCalls.ts'
import {
  type Change,
  type Document,
  type Kind,
  type Page,
  type Query,
  type Sequence,
  Unavailable,
  type Walk
} from './store.ts'

/** Documents that one call reads, and the bytes after which it stops: a call holds up everyone else. */
const SLICE = 500
const SLICE_BYTES = 128 * 1024
/** Ids that one call looks at, names that one call tells, and changed documents that one call reads. */
const IDS = 5_000
const NAMES = 5_000
const CHANGES = 1_000
/** How often a long list begins anew with what was changed meanwhile. */
const TRIES = 100
/** So long documents are parsed before requests get their turn. */
const TURN_MS = 2

/** A page that one call reads, so it is of one moment. */
export async function shortPage<T>(calls: Calls, kind: Kind, query: Query): Promise<Page<T>> {
  const { size } = query
  const from = (Math.max(query.page, 1) - 1) * size
  const [total, ...pairs] = await calls.page(kind, query, from, from + size - 1)
  const documents: Document<T>[] = []
  await parsed<T>(kind, pairs, (_id, one) => void (one !== null && documents.push(one.document)))
  // With size 0 the last rank is before the first: Redis would take -1 for the end.
  return { documents: size > 0 ? documents : [], total: total as number }
}

export interface Slice<T> {
  readonly documents: readonly Document<T>[]
  /** '' at the end. */
  readonly after: string
}

/** One slice of everything, after a place ('' for the beginning). */
export async function slice<T>(calls: Calls, kind: Kind, query: Walk, after: string): Promise<Slice<T>> {
  const [next, _sequence, ...pairs] = await calls.walk(kind, query, after, SLICE, SLICE_BYTES)
  const documents: Document<T>[] = []
  await parsed<T>(kind, pairs, (_id, one) => void (one !== null && documents.push(one.document)))
  return { documents, after: String(next) }
}

/**
 * Long pages and searches: read piece by piece, then brought to one moment by what was changed meanwhile, until a call
 * finds nothing missing. So Redis is never held up for long.
 */
export async function longPage<T>(calls: Calls, kind: Kind, query: Query): Promise<Page<T>> {
  const { org, contains = '', newestFirst = false, idsOnly = false, size } = query
  const from = query.page < 0 ? 0 : (Math.max(query.page, 1) - 1) * size
  const to = query.page < 0 ? Number.MAX_SAFE_INTEGER : from + size
  const isSelected = ({ document }: Placed) =>
    (org === undefined || document.org === org) && document.id.includes(contains)

  const places = new Map<string, number>()
  const read = new Map<string, Document<T>>()
  const take = (id: string, one: Placed<T> | null) => {
    places.delete(id)
    read.delete(id)
    if (one === null || !isSelected(one)) return
    places.set(id, one.place)
    read.set(id, one.document)
  }
  const readAll = async (ids: readonly string[]) => {
    for (let i = 0; i < ids.length; i += SLICE) {
      const [, ...pairs] = await calls.read(kind, ids.slice(i, i + SLICE), idsOnly)
      await parsed<T>(kind, pairs, take)
    }
  }

  let moment: Sequence | null = null
  for (let after: string | null = ''; after !== null; ) {
    const [next, sequence, ...pairs] = await calls.search(kind, org, contains, after, IDS)
    moment ??= sequence as Sequence
    for (let i = 0; i < pairs.length; i += 2) places.set(pairs[i] as string, Number(pairs[i + 1]))
    after = next === '' ? null : String(next)
  }
  for (let tries = 0; tries < TRIES; tries++) {
    const ids = [...places.keys()].sort((a, b) => places.get(a)! - places.get(b)!)
    if (newestFirst) ids.reverse()
    const wanted = ids.slice(from, to)
    const missing = wanted.filter(id => !read.has(id))
    if (missing.length === 0 && tries > 0) return { documents: wanted.map(id => read.get(id)!), total: ids.length }
    await readAll(missing)
    const [newest, ...pairs] = await calls.settle(kind, moment!, CHANGES, idsOnly)
    if (newest === -1) {
      const passed = Number(await calls.meta('sequence'))
      const changes = await since(calls, moment!, [kind])
      if (changes === null) break
      await readAll(changes.map(({ id }) => id))
      moment = Math.max(passed, changes.at(-1)?.sequence ?? 0)
    } else {
      await parsed<T>(kind, pairs, take)
      moment = newest as Sequence
    }
  }
  throw new Unavailable('documents change faster than they can be listed')
}

/** @returns null: the changes cannot be told */
export async function since(
  calls: Calls,
  sequence: Sequence,
  kinds: readonly Kind[] | null
): Promise<readonly Change[] | null> {
  const changes = new Map<string, Change>()
  let newest: Sequence | null = null
  for (const list of ['s', 'x'] as const) {
    for (let after: Sequence | null = sequence; after !== null; ) {
      const [top, forgotten, more, ...pairs]: Reply = await calls.since(list, after, NAMES)
      newest ??= top as Sequence
      if (sequence < Number(forgotten) || sequence > Number(top)) return null
      for (let i = 0; i < pairs.length; i += 2) {
        const name = pairs[i] as string
        after = Number(pairs[i + 1])
        // What is written while we read is told the next time: only so is nothing missing up to the newest one told.
        if (after > newest) break
        const colon = name.indexOf(':')
        const kind = name.slice(0, colon) as Kind
        if (kinds !== null && !kinds.includes(kind)) continue
        changes.set(name, { sequence: after, kind, id: name.slice(colon + 1), deleted: list === 'x' })
      }
      if (more === 0 || after > newest) after = null
      await nextTurn()
    }
  }
  return [...changes.values()].sort((a, b) => a.sequence - b.sequence)
}

/** Parses pairs of id and text ('': gone), and lets requests have their turn meanwhile. */
async function parsed<T>(
  kind: Kind,
  pairs: readonly (string | number)[],
  take: (id: string, one: Placed<T> | null) => void
): Promise<void> {
  let until = performance.now() + TURN_MS
  for (let i = 0; i < pairs.length; i += 2) {
    const id = pairs[i] as string
    const text = pairs[i + 1] as string
    take(id, text === '' ? null : placed<T>(kind, id, text))
    if (performance.now() < until) continue
    await nextTurn()
    until = performance.now() + TURN_MS
  }
}
