import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock, Log } from '../../config/world.ts'
import { openPool, type Row, type Run } from './postgresPool.ts'
import { documentOf, get, lengthOf, newest, page, type Slice, since, stand, start, walk } from './postgresRead.ts'
import { openSchema } from './postgresSchema.ts'
import { commitGroup } from './postgresWrite.ts'
import {
  Conflict,
  type Document,
  type Kind,
  type Page,
  type Query,
  type Sequence,
  type Store,
  Unavailable,
  type Walk
} from './store.ts'
import { type TextWrite, textWrites } from './textWrite.ts'
import { turnstile } from './turnstile.ts'

export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`; messages never hold it. */
  readonly url: string
  /** Most connections, at least 2. */
  readonly poolSize: number
  readonly clock: Clock
  readonly log: Log
}

/** Longest wait for one statement, by what it is for. */
const shortMs = 5_000
const commitMs = 10_000
const longMs = 60_000
/** Documents on a page that still counts as short. */
const shortPage = 100
/** Commits that wait for their turn at most, and what one transaction takes. */
const mostWaiting = 2_000
const groupWrites = 5_000
const groupText = 4 * 1024 * 1024
/** So long documents are parsed before requests get their turn. */
const turnMs = 2

interface Caller {
  readonly writes: readonly TextWrite[]
  resolve(sequence: Sequence): void
  reject(error: Error): void
}

/**
 * Documents in a PostgreSQL database (13 or newer), which several processes may share.
 * @throws Error in one line without the password, when the database cannot be used or does not answer within 30 seconds
 */
export async function storePostgres({ url, poolSize, clock, log }: PostgresOptions): Promise<Store> {
  const pool = await openPool({ url, size: poolSize, clock, log })
  try {
    await pool.session(commitMs, openSchema)
  } catch (cause) {
    await pool.close()
    const { message } = cause as Error
    throw new Error(message.startsWith(pool.where) ? message : `${pool.where}: ${message}`)
  }
  // Long lists leave connections to the others.
  const long = turnstile(Math.max(1, Math.min(4, poolSize - 2)))
  const waiting: Caller[] = []
  let committing: Promise<void> | null = null
  let open = true

  const mustBeOpen = () => {
    if (!open) throw new Unavailable('the store is closed')
  }
  const short = <T>(work: (run: Run) => Promise<T>) => pool.session(shortMs, work)

  /** Rows of a list below page 0 or with a long page, all of one moment. */
  async function longList<T>(kind: Kind, query: Query): Promise<Page<T>> {
    return pool.session(longMs, async run => {
      await run('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
      const { total, after: first } = await start(run, kind, query)
      const length = lengthOf(query, total)
      const documents: Document<T>[] = []
      for (let after = first; documents.length < length; ) {
        mustBeOpen()
        const slice = await walk(run, kind, query, after)
        after = slice.after
        await parsed(kind, slice.rows.slice(0, length - documents.length), documents)
      }
      await run('COMMIT')
      return { documents, total }
    })
  }

  /** All commits that came while the last transaction was under way go into the next one together. */
  async function commitWaiting(): Promise<void> {
    while (waiting.length > 0) {
      const group = waiting.splice(0, groupLength(waiting))
      await commit(group)
    }
    committing = null
  }

  async function commit(group: readonly Caller[]): Promise<void> {
    try {
      const results = await pool.session(commitMs, run =>
        commitGroup(
          run,
          group.map(({ writes }) => writes)
        )
      )
      for (const [i, result] of results.entries()) {
        if (result instanceof Conflict) group[i]!.reject(result)
        else group[i]!.resolve(result)
      }
    } catch (cause) {
      // One caller's megabytes may be what does not fit: the others get their chance alone.
      if (group.length > 1 && isOfData(cause)) for (const one of group) await commit([one])
      else for (const { reject } of group) reject(cause as Error)
    }
  }

  return {
    async get<T>(kind: Kind, id: string): Promise<Document<T> | null> {
      return short(run => get<T>(run, kind, id))
    },

    async list<T>(kind: Kind, query: Query): Promise<Page<T>> {
      mustBeOpen()
      if (query.page < 0 || query.size > shortPage) return long(() => longList<T>(kind, query))
      const isSearch = (query.contains ?? '') !== ''
      const { rows, total } = isSearch
        ? await long(() => pool.session(longMs, run => page(run, kind, query)))
        : await short(run => page(run, kind, query))
      const documents: Document<T>[] = []
      await parsed(kind, rows, documents)
      return { documents, total }
    },

    async *each<T>(kind: Kind, query: Walk) {
      let after: number | null = null
      do {
        mustBeOpen()
        const from: number | null = after
        const slice: Slice = await pool.session(longMs, run => walk(run, kind, query, from))
        after = slice.after
        const documents: Document<T>[] = []
        await parsed(kind, slice.rows, documents)
        if (documents.length > 0) yield documents
      } while (after !== null)
    },

    async commit(writes) {
      mustBeOpen()
      if (waiting.length >= mostWaiting) throw new Unavailable('too many commits wait for the database')
      const texts = await textWrites(writes)
      mustBeOpen()
      return new Promise<Sequence>((resolve, reject) => {
        waiting.push({ writes: texts, resolve, reject })
        committing ??= nextTurn().then(commitWaiting)
      })
    },

    async since(sequence, kinds) {
      mustBeOpen()
      return long(() => pool.session(longMs, run => since(run, sequence, kinds ?? null)))
    },

    async sequence() {
      return short(newest)
    },

    async stand() {
      return short(stand)
    },

    async close() {
      if (!open) return
      open = false
      await committing
      await pool.close()
    }
  }
}

/** How many of the callers go into one transaction: at least one. */
function groupLength(waiting: readonly Caller[]): number {
  let writes = 0
  let text = 0
  for (const [i, caller] of waiting.entries()) {
    writes += caller.writes.length
    for (const { body } of caller.writes) text += body?.length ?? 0
    if (i > 0 && (writes > groupWrites || text > groupText)) return i
  }
  return waiting.length
}

/** A value that does not fit, or resources that do not suffice for it; nothing was written then. */
function isOfData(cause: unknown): boolean {
  const { code } = ((cause as Error).cause ?? {}) as { code?: string }
  return code !== undefined && /^(?:22|53[1-2]|54)/.test(code)
}

/** Adds documents of one kind, and lets requests have their turn meanwhile. */
async function parsed<T>(kind: Kind, rows: readonly Row[], documents: Document<T>[]): Promise<void> {
  let until = performance.now() + turnMs
  for (const row of rows) {
    documents.push(documentOf<T>(kind, row))
    if (performance.now() < until) continue
    await nextTurn()
    until = performance.now() + turnMs
  }
}
