import { Fifo } from './fifo.ts'
import type { Client, Delivered, Owner, Seat } from './hub.ts'
import type { Entry, PartitionQueue } from './partitionQueue.ts'
import type { RingMember } from './ring.ts'

/** What a seat tells of its client. */
export interface SeatHost {
  readonly ack: 'write' | 'client'
  /** Most messages that one client may hold, so that those who do not take theirs leave enough of the window to others. */
  readonly share: number
  /** It has no room with so many bytes. */
  readonly mostBytes: number
  /** Most deliveries that are kept in mind of one client for which its time ran out. */
  readonly mostLate: number
  readonly ackTimeoutMs: number
  /** ms since the epoch. */
  now(): number
  /** @param counts of the stream whose client it was; null: nobody counts */
  delivered(entry: Entry, counts: Delivered | null): void
  /** The client has it after all. False: that counts no more, as it is delivered, given up or with another client. */
  deliveredLate(seat: GroupSeat, late: Late): boolean
  /** There may be room for more. */
  freed(seat: GroupSeat): void
  /** `taken`: the client had them; `parked`: it was to have them. */
  left(seat: GroupSeat, taken: readonly Entry[], parked: readonly Entry[]): void
}

const CURSOR = /^(\d{1,10}\.\d{1,10}-)(0|[1-9]\d{0,15})(?:\.([1-9]\d{0,8}))?$/
/** What a client may hold that let its time run out. */
const DOUBTED_SHARE = 8

/** A delivery for which the time ran out, or that was made for one. It holds no message. */
export interface Late {
  readonly queue: PartitionQueue
  readonly offset: number
  readonly renewals: number
}

/** A client's place in a group, and what it has in hand. */
export class GroupSeat implements Seat, RingMember<GroupSeat> {
  readonly client: Client
  readonly number: number
  /** Null: the hub is one stream's alone. */
  readonly owner: Owner | null
  readonly #host: SeatHost
  /** What the client took and is not delivered, in that order. */
  readonly #taken = new Fifo<Entry>()
  #takenBytes = 0
  /** What it may still acknowledge of what was taken from it, in the order in which it had that. */
  readonly #late = new Fifo<Late>()
  /** Its latest acknowledgement, ms since the epoch. */
  #heardAt = 0
  /** It let its time run out, and has not acknowledged in time since. */
  #isDoubted = false
  /** It gets nothing before, ms since the epoch; 0: it does. */
  #pausedUntil = 0
  /** Mode `key`: what only this client is to have, while it has no room. */
  readonly parked = new Fifo<Entry>()
  parkedBytes = 0
  isGone = false
  /** It took something in this slice, and wants a flush. */
  isTouched = false
  /** The number of the turn in which it got something last. */
  servedAt = 0
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
    if (this.#pausedUntil > 0 || this.#takenBytes >= this.#host.mostBytes) return false
    const { share } = this.#host
    return this.#taken.length < (this.#isDoubted ? Math.min(DOUBTED_SHARE, share) : share) && this.client.hasRoom()
  }

  take(entry: Entry): void {
    entry.holder = this
    this.#taken.push(entry)
    this.#takenBytes += entry.size
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

  /** When `timeUp` is to be called, ms since the epoch; Infinity: not at all. The time runs for the oldest of what it has. */
  get timeUpAt(): number {
    if (this.#pausedUntil > 0) return this.#pausedUntil
    const oldest = this.#taken.peek()
    if (oldest === undefined) return Number.POSITIVE_INFINITY
    return Math.max(oldest.at, this.#heardAt) + this.#host.ackTimeoutMs
  }

  /** Takes away what it has, and pauses it; or ends its pause. */
  timeUp(): Entry[] {
    if (this.#pausedUntil > 0) {
      this.#pausedUntil = 0
      this.#host.freed(this)
      return []
    }
    const entries = this.#drain().filter(({ queue }) => !queue.isLost)
    if (entries.length === 0) return entries
    for (const entry of entries) this.#remember(entry)
    this.#isDoubted = true
    this.#pausedUntil = this.#host.now() + this.#host.ackTimeoutMs
    return entries
  }

  written(count: number): void {
    if (this.#host.ack === 'write') this.#deliver(count)
  }

  acknowledge(cursor: string): boolean {
    if (this.#host.ack !== 'client' || this.isGone) return false
    const match = CURSOR.exec(cursor)
    if (match === null) return false
    const name = match[1]!
    const offset = Number(match[2])
    const renewals = Number(match[3] ?? 0)
    for (let i = 0; i < this.#taken.length; i++) {
      const { record, queue, renewals: times } = this.#taken.at(i)!
      if (record.offset !== offset || times !== renewals || queue.name !== name) continue
      this.#isDoubted = false
      this.#heard()
      this.#deliver(i + 1)
      return true
    }
    for (let i = 0; i < this.#late.length; i++) {
      const late = this.#late.at(i)!
      if (late.offset === offset && late.renewals === renewals && late.queue.name === name) return this.#comeLate(i)
    }
    return false
  }

  /** Takes away one of what it has: the client has acknowledged an earlier delivery of it. */
  release(entry: Entry): void {
    for (let i = this.#taken.length; i > 0; i--) {
      const one = this.#taken.shift()!
      if (one !== entry) this.#taken.push(one)
    }
    this.#takenBytes -= entry.size
    this.#remember(entry)
  }

  ready(): void {
    if (!this.isGone) this.#host.freed(this)
  }

  leave(): void {
    if (this.isGone) return
    this.isGone = true
    this.parkedBytes = 0
    this.#host.left(this, this.#drain(), drained(this.parked))
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
      this.#takenBytes -= entry.size
      this.#host.delivered(entry, counts)
    }
    this.#host.freed(this)
  }

  /** It is at work: its time begins anew, even if what it says counts no more. */
  #heard(): void {
    this.#heardAt = this.#host.now()
    this.#pausedUntil = 0
  }

  /** Answers whether it counts. If so it is for those before it as well, like every acknowledgement; if not, for nothing. */
  #comeLate(index: number): boolean {
    const all = drained(this.#late)
    const isCounted = this.#host.deliveredLate(this, all[index]!)
    if (isCounted) for (let i = 0; i < index; i++) this.#host.deliveredLate(this, all[i]!)
    // Meanwhile `release` has begun a new list, of what the client got behind these.
    const copies = drained(this.#late)
    for (let i = isCounted ? index + 1 : 0; i < all.length; i++) if (i !== index) this.#late.push(all[i]!)
    for (const copy of copies) this.#late.push(copy)
    this.#heard()
    this.#host.freed(this)
    return isCounted
  }

  #remember({ queue, record, renewals }: Entry): void {
    this.#late.push({ queue, offset: record.offset, renewals })
    if (this.#late.length > this.#host.mostLate) this.#late.shift()
  }

  #drain(): Entry[] {
    this.#takenBytes = 0
    return drained(this.#taken)
  }
}

function drained<T>(queue: Fifo<T>): T[] {
  const entries: T[] = []
  for (let entry = queue.shift(); entry !== undefined; entry = queue.shift()) entries.push(entry)
  return entries
}
