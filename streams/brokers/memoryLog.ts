import type { Arrived, Message } from '../message.ts'
import { sizeOf } from '../message.ts'

/** What a partition keeps; beyond any of them the oldest records leave. */
export interface Retention {
  readonly messages: number
  /** As `sizeOf` counts. */
  readonly bytes: number
  /** 0: no bound */
  readonly ageMs: number
}

/** Who waits at the end of a log. */
export interface LogReader {
  /** There is more. */
  appended(): void
}

/** The records of one partition: a ring in which a record lies at its offset, so that reading and forgetting are O(1). */
export class MemoryLog {
  readonly topic: string
  readonly partition: number
  /** Told of what is appended; those that are paused are not among them. */
  readonly readers = new Set<LogReader>()
  /** What the durable log knows of `low`. */
  keptLow = 0
  readonly #retention: Retention
  #ring: (Arrived | null)[] = new Array<Arrived | null>(16).fill(null)
  #low = 0
  #high = 0
  #bytes = 0
  #newest = 0

  constructor(topic: string, partition: number, retention: Retention) {
    this.topic = topic
    this.partition = partition
    this.#retention = retention
  }

  /** Offset of the oldest record. */
  get low(): number {
    return this.#low
  }

  /** Offset of the next record to come. */
  get high(): number {
    return this.#high
  }

  /** Time of the newest record that ever was, ms since the epoch. */
  get newest(): number {
    return this.#newest
  }

  /** Readers are not told: `wake` does that once for many. @param now milliseconds since the epoch */
  append({ key, value, headers }: Message, now: number): Arrived {
    // Never falling, so that times can be searched.
    this.#newest = Math.max(now, this.#newest)
    const record: Arrived = {
      topic: this.topic,
      partition: this.partition,
      offset: this.#high,
      timestamp: this.#newest,
      key: key === null ? null : owned(key),
      value: value === null ? null : owned(value),
      headers
    }
    if (this.#high - this.#low === this.#ring.length) this.#grow()
    this.#ring[this.#high & (this.#ring.length - 1)] = record
    this.#high++
    this.#bytes += sizeOf(record)
    return record
  }

  wake(): void {
    for (const reader of this.readers) reader.appended()
  }

  /** Forgets what retention does not hold. True: something left. */
  trim(now: number): boolean {
    const { messages, bytes, ageMs } = this.#retention
    const before = this.#low
    while (
      this.#high - this.#low > messages ||
      this.#bytes > bytes ||
      (ageMs > 0 && this.#low < this.#high && this.#at(this.#low).timestamp + ageMs <= now)
    )
      this.#forget()
    return this.#low > before
  }

  /** Everything below the offset is gone; an offset above `high` moves the end there. */
  startAt(offset: number): void {
    while (this.#low < offset && this.#low < this.#high) this.#forget()
    if (offset > this.#high) {
      this.#low = offset
      this.#high = offset
    }
  }

  /** At most `count` records from an offset that it has. */
  slice(from: number, count: number): Arrived[] {
    const end = Math.min(this.#high, from + count)
    const records: Arrived[] = []
    for (let offset = from; offset < end; offset++) records.push(this.#at(offset))
    return records
  }

  /** The first offset whose record is not older; `high` when none is. */
  firstAt(ms: number): number {
    let low = this.#low
    let high = this.#high
    while (low < high) {
      const middle = Math.floor((low + high) / 2)
      if (this.#at(middle).timestamp < ms) low = middle + 1
      else high = middle
    }
    return low
  }

  #at(offset: number): Arrived {
    return this.#ring[offset & (this.#ring.length - 1)]!
  }

  #forget(): void {
    const slot = this.#low & (this.#ring.length - 1)
    this.#bytes -= sizeOf(this.#ring[slot]!)
    this.#ring[slot] = null
    this.#low++
  }

  #grow(): void {
    const ring = new Array<Arrived | null>(this.#ring.length * 2).fill(null)
    for (let offset = this.#low; offset < this.#high; offset++) ring[offset & (ring.length - 1)] = this.#at(offset)
    this.#ring = ring
  }
}

/** A small piece of a large buffer would keep all of that alive, past every bound: such pieces are copied. */
function owned(piece: Buffer): Buffer {
  const whole = piece.buffer.byteLength
  return whole <= Buffer.poolSize || whole <= 2 * piece.length ? piece : Buffer.from(piece)
}
