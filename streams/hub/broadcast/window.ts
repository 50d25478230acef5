import type { Budget } from '../../budget.ts'
import { Fifo } from '../fifo.ts'
import { type Entry, SharedBatch } from './entry.ts'
import type { Parts, Vector } from './parts.ts'

export interface WindowBounds {
  /** Of each partition. */
  readonly messages: number
  readonly bytes: number
  readonly ageMs: number
}

export interface SliceBounds {
  readonly messages: number
  readonly bytes: number
}

/** Slices of behind clients end at multiples of this, so that those at different places soon share them. */
const ALIGNED = 64
const MOST_SLICES = 16

/**
 * The newest messages of all partitions in the order of their arrival, which clients are positions in. It gives way at its old
 * end alone: one partition above its bound also takes older messages of others with it; who needs those catches up from the broker.
 */
export class Window {
  readonly #parts: Parts
  readonly #bounds: WindowBounds
  readonly #slice: SliceBounds
  readonly #budget: Budget
  readonly #entries = new Fifo<Entry>()
  readonly #slices = new Map<number, SharedBatch>()
  /** Partitions above their bound. */
  #over = 0
  #bytes = 0
  /** Sequence number of the oldest. */
  first = 0
  /** Bytes of all that ever entered. */
  total = 0

  constructor(parts: Parts, bounds: WindowBounds, slice: SliceBounds, budget: Budget) {
    this.#parts = parts
    this.#bounds = bounds
    this.#slice = slice
    this.#budget = budget
  }

  /** Sequence number of the next to come. */
  get next(): number {
    return this.first + this.#entries.length
  }

  /** @param seq from `first` up to below `next` */
  at(seq: number): Entry {
    return this.#entries.at(seq - this.first)!
  }

  /** Bytes from there up to the newest. */
  bytesFrom(seq: number): number {
    return seq >= this.next ? 0 : this.total - this.at(Math.max(seq, this.first)).total
  }

  push(entry: Entry, now: number): void {
    const { part, size } = entry
    entry.at = now
    entry.total = this.total
    this.total += size
    this.#entries.push(entry)
    this.#count(size)
    const wasOver = this.#isOver(part)
    part.kept++
    part.keptBytes += size
    if (!wasOver && this.#isOver(part)) this.#over++
  }

  /** From which sequence number on it may keep them; `evict` must follow with it. */
  surplus(now: number): number {
    const { windows } = this.#budget
    return this.#giveUp(
      entry => this.#over > 0 || entry.at <= now - this.#bounds.ageMs || windows.isTooMuch(this.#bytes)
    )
  }

  /** Keeps nothing of what came so far. */
  empty(): void {
    this.evict(this.#giveUp(() => true))
  }

  #giveUp(isSurplus: (entry: Entry) => boolean): number {
    let seq = this.first
    for (; seq < this.next; seq++) {
      const entry = this.at(seq)
      const { part, size } = entry
      if (!isSurplus(entry)) break
      const wasOver = this.#isOver(part)
      part.kept--
      part.keptBytes -= size
      if (wasOver && !this.#isOver(part)) this.#over--
      this.#out(entry)
    }
    return seq
  }

  evict(until: number): void {
    for (; this.first < until; this.first++) {
      const { part, record } = this.#entries.shift()!
      part.floor = Math.max(part.floor, record.offset + 1)
      this.#slices.delete(this.first)
    }
  }

  /** A backlog keeps it, also beyond the window. */
  hold(entry: Entry): void {
    entry.holds++
  }

  release(entry: Entry): void {
    if (--entry.holds === 0 && entry.isOutOfWindow) this.#budget.add(-entry.size)
  }

  /** When its oldest entered, ms since the epoch; null: it is empty. */
  oldest(): number | null {
    return this.#entries.peek()?.at ?? null
  }

  /** What a client at `position` gets next: shared by all who are there. */
  slice(position: number): SharedBatch {
    const made = this.#slices.get(position)
    const most = Math.min(
      this.next,
      Math.floor(position / ALIGNED) * ALIGNED + ALIGNED,
      position + this.#slice.messages
    )
    if (made !== undefined && (made.isWhole || position + made.items.length === most)) return made
    const items: Entry[] = []
    let bytes = 0
    let isWhole = false
    for (let seq = position; seq < most; seq++) {
      const entry = this.at(seq)
      isWhole = items.length > 0 && bytes + entry.size > this.#slice.bytes
      if (isWhole) break
      items.push(entry)
      bytes += entry.size
    }
    const batch = new SharedBatch(items, isWhole)
    if (this.#slices.size >= MOST_SLICES) this.#slices.clear()
    this.#slices.set(position, batch)
    return batch
  }

  /** What one has got who has got all before this sequence number. */
  vectorAt(position: number): Vector {
    const vector = this.#parts.vector()
    for (let seq = this.next - 1; seq >= position; seq--) {
      const { part, record } = this.at(seq)
      vector[part.index] = record.offset
    }
    return vector
  }

  /** Timestamp of the record there, or what is given when none is there yet. */
  timestampAt(position: number, otherwise: number): number {
    return position >= this.first && position < this.next ? this.at(position).record.timestamp : otherwise
  }

  /** Where one begins who has a vector that the window covers; and up to where some are not new to it. */
  seek(vector: Vector): { readonly from: number; readonly until: number } {
    let from = this.next
    let until = this.first
    for (let seq = this.next - 1; seq >= this.first; seq--) {
      const { part, record } = this.at(seq)
      if (record.offset >= (vector[part.index] ?? 0)) from = seq
      else if (until === this.first) until = seq + 1
    }
    return { from, until }
  }

  clear(): void {
    for (let seq = this.first; seq < this.next; seq++) {
      this.#out(this.at(seq))
    }
    const { next } = this
    while (this.#entries.shift() !== undefined);
    this.first = next
    this.#slices.clear()
  }

  /** What backlogs still keep waits for clients from now on. */
  #out(entry: Entry): void {
    entry.isOutOfWindow = true
    this.#count(-entry.size)
    if (entry.holds > 0) this.#budget.add(entry.size)
  }

  #count(bytes: number): void {
    const before = this.#bytes
    this.#bytes += bytes
    this.#budget.windows.changed(before, this.#bytes)
  }

  #isOver({ kept, keptBytes }: { readonly kept: number; readonly keptBytes: number }): boolean {
    return kept > this.#bounds.messages || keptBytes > this.#bounds.bytes
  }
}
