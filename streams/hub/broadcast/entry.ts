import { type Arrived, sizeOf } from '../../message.ts'
import type { Cursors } from '../cursor.ts'
import { type Batch, encoded, type Format, type Item, type Made, madeBy } from '../hub.ts'
import type { Part } from './parts.ts'

/** One message of a broadcast. */
export class Entry implements Item {
  readonly record: Arrived
  /** -1: it came by a catch-up and is one client's alone. */
  readonly seq: number
  readonly size: number
  /** Nothing is handed out again here: every client gets it for the first time. */
  deliveries = 1
  readonly encoded: Made[] = []
  readonly part: Part
  /** Bytes of all that entered the window before it. */
  total = 0
  /** When it entered the window, ms since the epoch. */
  at = 0
  /** So many clients keep it in a backlog. */
  holds = 0
  isOutOfWindow = false
  readonly #cursors: Cursors
  #body: string | null
  #cursor: string | null = null

  /** @param body of its cursor; null: it carries none */
  constructor(record: Arrived, seq: number, part: Part, cursors: Cursors, body: string | null) {
    this.record = record
    this.seq = seq
    this.size = sizeOf(record)
    this.part = part
    this.#cursors = cursors
    this.#body = body
  }

  /** Signed when it is first asked for: raw WebSocket clients and empty streams never do. */
  get cursor(): string | null {
    if (this.#body === null) return this.#cursor
    this.#cursor = this.#cursors.sign(this.#body)
    this.#body = null
    return this.#cursor
  }

  /** The same under another cursor, for one client alone. @param body of the cursor */
  under(body: string): Entry {
    return new Entry(this.record, this.seq, this.part, this.#cursors, body)
  }
}

export class SharedBatch implements Batch {
  readonly items: readonly Entry[]
  readonly bytes: number
  /** It will not grow by what comes later. */
  readonly isWhole: boolean
  readonly #joined: Made[] = []

  constructor(items: readonly Entry[], isWhole: boolean) {
    this.items = items
    this.isWhole = isWhole
    let bytes = 0
    for (const { size } of items) bytes += size
    this.bytes = bytes
  }

  joined(format: Format): Buffer {
    const made = madeBy(format, this.#joined)
    if (made !== null) return made
    const { items } = this
    const bytes =
      items.length === 1 ? encoded(items[0]!, format) : Buffer.concat(items.map(item => encoded(item, format)))
    this.#joined.push({ format, bytes })
    return bytes
  }
}

/** Which events carry an id: all, or with many partitions one in `interval` and one a second. */
export class Pace {
  readonly #interval: number
  #left = 0
  #last = 0

  constructor(interval: number) {
    this.#interval = interval
  }

  isDue(partitions: number, now: number): boolean {
    if (partitions <= EVERY_EVENT_UP_TO) return true
    if (--this.#left > 0 && now - this.#last < LONGEST_MS) return false
    this.#left = this.#interval
    this.#last = now
    return true
  }
}

/** Partitions (facts/streams R12). */
export const EVERY_EVENT_UP_TO = 8
const LONGEST_MS = 1000
