import type { Place } from '../broker.ts'
import { type Arrived, sizeOf } from '../message.ts'
import type { Handover } from './handover.ts'

/** Records of one partition between its broker and a delivery, in their order. */
export class Lane {
  readonly place: Place
  readonly handover: Handover
  /** Behind the last record that is, or was, under way. */
  taken: number
  /** Everything below it is delivered. */
  done: number
  committed: number
  /** Of the next record to come to the partition, as far as is known. */
  high: number
  isBusy = false
  isPaused = false
  /** Resolves when nothing is being handed on. */
  underWay: Promise<void> = Promise.resolve()
  #queue: Arrived[] = []
  #head = 0
  #bytes = 0

  /** @param offset of the first record to come */
  constructor(place: Place, offset: number, handover: Handover) {
    this.place = place
    this.handover = handover
    this.high = offset
    this.taken = offset
    this.done = offset
    this.committed = offset
  }

  get length(): number {
    return this.#queue.length - this.#head
  }

  /** Behind the last record that came. */
  get end(): number {
    return Math.max(this.taken, (this.#queue.at(-1)?.offset ?? -1) + 1)
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Those that are here already are left out: a broker that comes back reads again from the last commit. */
  add(records: readonly Arrived[]): void {
    let next = this.end
    for (const record of records) {
      if (record.offset < next) continue
      next = record.offset + 1
      this.#queue.push(record)
      this.#bytes += sizeOf(record)
    }
  }

  /** Takes the first ones, as many as fit; at least one when there is any. */
  take(count: number, bytes: number): Arrived[] {
    const batch: Arrived[] = []
    let size = 0
    while (batch.length < count && this.#head < this.#queue.length) {
      const record = this.#queue[this.#head]!
      const more = sizeOf(record)
      if (batch.length > 0 && size + more > bytes) break
      size += more
      batch.push(record)
      this.#head++
    }
    this.#bytes -= size
    if (this.#head === this.#queue.length) {
      this.#queue = []
      this.#head = 0
    } else if (this.#head > 1024 && this.#head * 2 > this.#queue.length) {
      this.#queue = this.#queue.slice(this.#head)
      this.#head = 0
    }
    const last = batch.at(-1)
    if (last !== undefined) this.taken = last.offset + 1
    return batch
  }

  /** Reading goes on from here: what comes again is dropped. */
  readFrom(offset: number): void {
    const kept = this.#queue.slice(this.#head).filter(record => record.offset < offset)
    this.#queue = kept
    this.#head = 0
    this.#bytes = kept.reduce((sum, record) => sum + sizeOf(record), 0)
  }
}
