import { closeSync, existsSync, openSync, realpathSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { parseExact } from '../../config/exactJson.ts'
import { makeFolder } from '../../config/folder.ts'
import type { Log } from '../../config/world.ts'
import { type Connection, openReader } from './sqliteSchema.ts'
import { type Reading, startThread, type Thread } from './sqliteThread.ts'
import {
  type Change,
  type Document,
  type Kind,
  type Page,
  type Query,
  type Store,
  Unavailable,
  type Walk
} from './store.ts'
import { textWrites } from './textWrite.ts'
import { turnstile } from './turnstile.ts'

export interface SqliteOptions {
  /** The file; its folder is created (0700) when missing, the file as well (0600). */
  readonly path: string
  readonly log: Log
  /** How large the file may grow, in bytes (without its log, some 16 MiB); beyond it commits are Unavailable. */
  readonly maxBytes?: number
}

/** So many long lists are read at once, others wait; each has a connection of its own meanwhile. */
const longLists = 4
const shortLists = 32
/** Documents on a page that still counts as short. */
const shortPage = 100

/**
 * Documents in an SQLite file. A thread owns writes and lists (`sqliteWorker.ts`); point reads happen here, on a
 * connection of their own, and see what is committed.
 * @throws Error naming the file: in use by another process, from a newer version, not a store, no folder for it
 */
export async function storeSqlite({ path: given, log, maxBytes }: SqliteOptions): Promise<Store> {
  makeFolder(dirname(given), 'storage.documents.path')
  // Two names of one file must meet in one lock.
  const path = existsSync(given) ? realpathSync(given) : join(realpathSync(dirname(given)), basename(given))
  const locked = lock(path)
  let reader: Connection
  let thread: Thread | null = null
  try {
    createPrivate(path)
    thread = await startThread({ path, maxBytes }, log)
    // Readers do not wait for writers; the bound is for what surprises, as it stops every request.
    reader = openReader(path, 50)
  } catch (error) {
    await thread?.close()
    locked.close()
    throw error
  }

  const long = turnstile(longLists)
  const short = turnstile(shortLists)
  let open = true

  function read(sql: string, ...values: string[]) {
    if (!open) throw new Unavailable('the store is closed')
    try {
      return reader.sql(sql).get(...values)
    } catch (cause) {
      throw new Unavailable(`${path}: ${(cause as Error).message}`, { cause })
    }
  }
  const mustBeOpen = () => {
    if (!open) throw new Unavailable('the store is closed')
  }

  return {
    get<T>(kind: Kind, id: string): Document<T> | null {
      const row = read('SELECT org, rev, sequence, body FROM documents WHERE kind = ? AND id = ?', kind, id)
      if (row === undefined) return null
      const { org, rev, sequence, body } = row as { org: string; rev: number; sequence: number; body: string }
      return { kind, id, org, rev, sequence, body: parseExact(body) as T }
    },

    async list<T>(kind: Kind, query: Query): Promise<Page<T>> {
      mustBeOpen()
      const isLong = query.page < 0 || query.size > shortPage || (query.contains ?? '') !== ''
      const { items, value } = await (isLong ? long : short)(() =>
        thread.read<Document<T>>({ ask: 'list', kind, query })
      )
      return { documents: items, total: value! }
    },

    async *each<T>(kind: Kind, query: Walk) {
      const read = (after: number | null) => thread.read<Document<T>>({ ask: 'walk', kind, query, after })
      let after: number | null = null
      do {
        mustBeOpen()
        const slice: Reading<Document<T>> = await short(read.bind(null, after))
        if (slice.items.length > 0) yield slice.items
        after = slice.value
        await nextTurn()
      } while (after !== null)
    },

    async commit(writes) {
      mustBeOpen()
      return thread.commit(await textWrites(writes))
    },

    async since(sequence, kinds) {
      mustBeOpen()
      const { items, value } = await long(() => thread.read<Change>({ ask: 'since', sequence, kinds: kinds ?? null }))
      return value === null ? null : items
    },

    async sequence() {
      return read('SELECT sequence FROM meta')!.sequence as number
    },

    async close() {
      if (!open) return
      open = false
      reader.db.close()
      try {
        await thread.close()
      } finally {
        locked.close()
      }
    }
  }
}

/**
 * Holds an SQLite lock on `<path>.lock` until it is closed. The operating system drops it with the process, however that
 * ends, so nothing is left to clean up.
 */
function lock(path: string): DatabaseSync {
  createPrivate(`${path}.lock`)
  const db = new DatabaseSync(`${path}.lock`, { timeout: 0 })
  try {
    db.exec('BEGIN EXCLUSIVE')
  } catch (cause) {
    db.close()
    throw new Error(`${path} is in use by another process`, { cause })
  }
  return db
}

/** Creates the file for its owner alone, if it is missing. Never opens one that exists: closing it would drop its locks. */
function createPrivate(path: string): void {
  if (!existsSync(path)) closeSync(openSync(path, 'wx', 0o600))
}
