import { statSync } from 'node:fs'
import { setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import { list, type Reading, since, walk } from './sqliteRead.ts'
import { type Connection, openReader, openWriter } from './sqliteSchema.ts'
import { commitGroup } from './sqliteWrite.ts'
import { Conflict, type Kind, type Query, type Sequence, type Walk } from './store.ts'
import type { TextWrite } from './textWrite.ts'

/** What the thread is started with. */
export interface Given {
  readonly path: string
  readonly maxBytes: number | undefined
}

/** Asked of the thread; `n` numbers the calls. `more` wants the next slice of a reading. */
export type Ask =
  | { readonly n: number; readonly ask: 'commit'; readonly writes: readonly TextWrite[] }
  | { readonly n: number; readonly ask: 'list'; readonly kind: Kind; readonly query: Query }
  | {
      readonly n: number
      readonly ask: 'walk'
      readonly kind: Kind
      readonly query: Walk
      readonly after: number | null
    }
  | { readonly n: number; readonly ask: 'since'; readonly sequence: Sequence; readonly kinds: readonly Kind[] | null }
  | { readonly n: number; readonly ask: 'more' }
  | { readonly n: number; readonly ask: 'close' }

/** Answered by the thread: first `open` or `refused`; then for each call one answer, or slices up to `end`. */
export type Answer =
  | { readonly is: 'open' }
  | { readonly is: 'refused'; readonly message: string }
  | { readonly is: 'committed'; readonly results: readonly Committed[] }
  | { readonly is: 'slice'; readonly n: number; readonly json: string }
  | { readonly is: 'end'; readonly n: number; readonly json: string; readonly value: number | null }
  | { readonly is: 'failed'; readonly n: number; readonly message: string }
  | { readonly is: 'closed'; readonly n: number }

export type Committed =
  | { readonly n: number; readonly sequence: Sequence }
  | { readonly n: number; readonly conflict: { readonly kind: Kind; readonly id: string } }
  | { readonly n: number; readonly message: string; readonly isFull: boolean }

/** A slice is parsed by the request thread in one go: some 1.5 ms. */
const sliceLength = 128 * 1024
/** How long a reading may hold this thread while commits and other readings wait. */
const turnMs = 5
const idleReaders = 4
/** SQLITE_BUSY, SQLITE_FULL */
const busy = 5
const full = 13

const { path, maxBytes } = workerData as Given
const port = parentPort!
// Where both share one core, a list must not take the time of requests: on Linux 0 is the calling thread alone, elsewhere
// it would be the whole process.
if (process.platform === 'linux') setPriority(0, 10)
const answer = (message: Answer) => port.postMessage(message)

let writer: Connection | null = null
let inode = 0
try {
  writer = openWriter(path, maxBytes)
  inode = statSync(path).ino
  answer({ is: 'open' })
} catch (error) {
  answer({ is: 'refused', message: (error as Error).message })
  port.close()
}

let waiting: { n: number; writes: readonly TextWrite[] }[] = []

/** All commits that came while the last transaction was under way go into the next one together. */
function commitWaiting(): void {
  const group = waiting
  waiting = []
  if (group.length > 0) answer({ is: 'committed', results: commit(group) })
}

function commit(group: typeof waiting): Committed[] {
  try {
    // Else the writes would go into a file that nobody finds again.
    if (statSync(path).ino !== inode) throw new Error(`${path} is no longer the file that was opened`)
    const results = commitGroup(
      writer!,
      group.map(({ writes }) => writes)
    )
    return results.map((result, i) => {
      const { n } = group[i]!
      return result instanceof Conflict
        ? { n, conflict: { kind: result.kind, id: result.id } }
        : { n, sequence: result }
    })
  } catch (error) {
    // One caller's megabytes may be what does not fit: the others get their chance alone. (Not when another process holds
    // the file: each would wait as long as this one did.)
    const { errcode, message } = error as Error & { errcode?: number }
    if (group.length > 1 && errcode !== busy) return group.flatMap(one => commit([one]))
    return group.map(({ n }) => ({ n, message, isFull: errcode === full }))
  }
}

interface Open {
  readonly n: number
  readonly reader: Connection
  readonly reading: Reading
  /** JSON texts not yet sent, and how long they are together. */
  pieces: string[]
  length: number
}

const readers: Connection[] = []
const readings = new Map<number, Open>()

function begin(n: number, readingOf: (reader: Connection) => Reading): void {
  try {
    const reader = readers.pop() ?? openReader(path, 5_000)
    reader.db.exec('BEGIN')
    const open = { n, reader, reading: readingOf(reader), pieces: [], length: 0 }
    readings.set(n, open)
    advance(open)
  } catch (error) {
    answer({ is: 'failed', n, message: (error as Error).message })
  }
}

/** Reads until a slice is full, the reading is at its end, or its turn is over (then it goes on in the next). */
function advance(open: Open): void {
  const { n, reader, reading } = open
  if (!readings.has(n)) return
  const until = performance.now() + turnMs
  const slice = () => {
    const json = `[${open.pieces.join(',')}]`
    open.pieces = []
    open.length = 0
    return json
  }
  try {
    for (;;) {
      const next = reading.next()
      if (next.done === true) {
        readings.delete(n)
        reader.db.exec('COMMIT')
        if (readers.length < idleReaders) readers.push(reader)
        else reader.db.close()
        answer({ is: 'end', n, json: slice(), value: next.value })
        return
      }
      if (next.value !== null) {
        open.pieces.push(next.value)
        open.length += next.value.length
        if (open.length >= sliceLength) {
          answer({ is: 'slice', n, json: slice() })
          return
        }
      }
      if (performance.now() > until) {
        setImmediate(advance, open)
        return
      }
    }
  } catch (error) {
    readings.delete(n)
    reader.db.close()
    answer({ is: 'failed', n, message: (error as Error).message })
  }
}

function close(n: number): void {
  commitWaiting()
  for (const { n, reader } of readings.values()) {
    reader.db.close()
    answer({ is: 'failed', n, message: 'the store is closed' })
  }
  for (const reader of readers) reader.db.close()
  readings.clear()
  // The last connection to close carries the log over into the file.
  writer!.db.close()
  answer({ is: 'closed', n })
  port.close()
}

port.on('message', (ask: Ask) => {
  switch (ask.ask) {
    case 'commit':
      // After all messages that lie there by now.
      if (waiting.length === 0) setImmediate(commitWaiting)
      waiting.push(ask)
      break
    case 'list':
      begin(ask.n, reader => list(reader.sql, ask.kind, ask.query))
      break
    case 'walk':
      begin(ask.n, reader => walk(reader.sql, ask.kind, ask.query, ask.after))
      break
    case 'since':
      begin(ask.n, reader => since(reader.sql, ask.sequence, ask.kinds))
      break
    case 'more':
      advance(readings.get(ask.n)!)
      break
    case 'close':
      close(ask.n)
      break
  }
})
