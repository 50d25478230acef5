import { Fifo } from './fifo.ts'
import type { Client, Delivered, Owner, Seat } from './hub.ts'
import type { Entry } from './partitionQueue.ts'
import type { RingMember } from './ring.ts'

/** What a seat tells of its client. */
export interface SeatHost {
  readonly ack: 'write' | 'client'
  /** Most messages that one client may hold, so that those who do not take theirs leave enough of the window to others. */
  readonly share: number
  /** @param counts of the stream whose client it was; null: nobody counts */
  delivered(entry: Entry, counts: Delivered | null): void
  /** There may be room for more. */
  freed(seat: GroupSeat): void
  /** `taken`: the client had them; `parked`: it was to have them. */
  left(seat: GroupSeat, taken: readonly Entry[], parked: readonly Entry[]): void
}

const LONGEST_CURSOR = 64

/** A client's place in a group, and what it has in hand. */
export class GroupSeat implements Seat, RingMember<GroupSeat> {
  readonly client: Client
  readonly number: number
  /** Null: the hub is one stream's alone. */
  readonly owner: Owner | null
  readonly #host: SeatHost
  /** What the client took and is not delivered, in that order. */
  readonly #taken = new Fifo<Entry>()
  /** Mode `key`: what only this client is to have, while it has no room. */
  readonly parked = new Fifo<Entry>()
  parkedBytes = 0
  isGone = false
  /** It took something in this slice, and wants a flush. */
  isTouched = false
  /** It waits for its turn to be looked at. */
  isReturning = false
  ringNext: GroupSeat | null = null
  ringPrevious: GroupSeat | null = null

  constructor(client: Client, number: number, host: SeatHost, owner: Owner | null) {
    this.client = client
    this.number = number
    this.#host = host
    this.owner = owner
  }

  hasRoom(): boolean {
    return this.#taken.length < this.#host.share && this.client.hasRoom()
  }

  wants(entry: Entry): boolean {
    const { wants } = this.client
    return wants === null || wants(entry)
  }

  take(entry: Entry): void {
    this.#taken.push(entry)
    this.client.take(entry)
  }

  park(entry: Entry): void {
    this.parked.push(entry)
    this.parkedBytes += entry.size
  }

  unpark(): Entry {
    const entry = this.parked.shift()!
    this.parkedBytes -= entry.size
    return entry
  }

  /** Takes away what it has had since `until` or before, ms since the epoch. */
  expired(until: number): Entry[] {
    const entries: Entry[] = []
    for (let first = this.#taken.peek(); first !== undefined && first.at <= until; first = this.#taken.peek())
      entries.push(this.#taken.shift()!)
    return entries
  }

  /** When the oldest of what it has was taken; Infinity: it has nothing. */
  get oldest(): number {
    return this.#taken.peek()?.at ?? Number.POSITIVE_INFINITY
  }

  written(count: number): void {
    if (this.#host.ack === 'write') this.#deliver(count)
  }

  acknowledge(cursor: string): boolean {
    if (this.#host.ack !== 'client' || cursor.length > LONGEST_CURSOR) return false
    for (let i = 0; i < this.#taken.length; i++) {
      if (this.#taken.at(i)!.cursor !== cursor) continue
      this.#deliver(i + 1)
      return true
    }
    return false
  }

  ready(): void {
    if (!this.isGone) this.#host.freed(this)
  }

  leave(): void {
    if (this.isGone) return
    this.isGone = true
    this.parkedBytes = 0
    this.#host.left(this, drained(this.#taken), drained(this.parked))
  }

  cursor(): null {
    return null
  }

  #deliver(count: number): void {
    if (this.isGone) return
    const counts = this.owner?.counts ?? null
    for (let i = 0; i < count; i++) {
      const entry = this.#taken.shift()
      if (entry === undefined) break
      this.#host.delivered(entry, counts)
    }
    this.#host.freed(this)
  }
}

function drained(queue: Fifo<Entry>): Entry[] {
  const entries: Entry[] = []
  for (let entry = queue.shift(); entry !== undefined; entry = queue.shift()) entries.push(entry)
  return entries
}
