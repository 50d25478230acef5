import type { Place } from '../broker.ts'
import type { Budget } from '../budget.ts'
import { type Arrived, sizeOf } from '../message.ts'
import type { Item, Made } from './hub.ts'
import type { RingMember } from './ring.ts'

/** One message of a group, from its arrival until it is delivered or given up. */
export class Entry implements Item {
  record: Arrived
  readonly seq: number
  size: number
  deliveries = 0
  readonly encoded: Made[] = []
  readonly queue: PartitionQueue
  /** Processors have seen it. */
  isProcessed = false
  /** When a client took it, ms since the epoch; kept with `ack: client`. */
  at = 0
  /** Who has it under way; null: it waits, or is over. */
  holder: object | null = null
  /** How often it was the first that a client had and did not get delivered. */
  failures = 0
  /** Tells a delivery from all earlier ones of the same offset (`ack: client`). */
  renewals: number
  /** Delivered, or on its way to the dead-letter topic: where it still stands in a list it is passed over. */
  isOver = false
  /** Neighbours among the undelivered of its partition, in order of their offsets. */
  previous: Entry | null = null
  next: Entry | null = null

  constructor(record: Arrived, seq: number, queue: PartitionQueue) {
    this.record = record
    this.seq = seq
    this.size = sizeOf(record)
    this.queue = queue
    this.renewals = queue.firstRenewals
  }

  /**
   * `<topic>.<partition>-<offset>`, and behind an acknowledgement that never came, or a partition that was away meanwhile, the number of
   * the delivery: an old id says nothing of the new one, nor of those that came before it.
   */
  get cursor(): string {
    const id = this.queue.name + this.record.offset
    return this.renewals === 0 ? id : `${id}.${this.renewals}`
  }
}

/**
 * What one partition has brought and no client has got yet. Delivery may come in any order; the undelivered ones form a list in order
 * of their offsets, whose first one is where a commit must stop, and of which those that no client has had yet are the tail.
 */
export class PartitionQueue implements RingMember<PartitionQueue> {
  readonly place: Place
  /** Begins the cursors of its messages. */
  readonly name: string
  /** `renewals` of each of its messages at first. */
  readonly firstRenewals: number
  /** The most that one of them has had. */
  lastRenewals: number
  readonly #budget: Budget
  /** To be called when something of it is done. */
  readonly moved: () => void
  /** Offset of the next record to come. */
  end: number
  /** The newest commit that was kept, or where reading began; -1: the group has none and wants one. */
  committed: number
  /** Offset of the next record that the broker will get, as last heard; -1: unknown. */
  high = -1
  /** Messages here that wait for a client, and their bytes. */
  waiting = 0
  bytes = 0
  /** Messages that are with clients or on their way to the dead-letter topic. */
  held = 0
  /** It was taken away: whatever comes of its messages counts no more. */
  isLost = false
  /** The broker was told to. */
  isPaused = false
  /** Its first message can go nowhere at the moment. */
  isBlocked = false
  /** Messages that clients want who have no room: others pass them. */
  readonly aside: Entry[] = []
  ringNext: PartitionQueue | null = null
  ringPrevious: PartitionQueue | null = null
  #first: Entry | null = null
  #last: Entry | null = null
  /** The first of those that have never been given out. */
  #fresh: Entry | null = null
  /** Given back, in order of their offsets: all below `#fresh`. */
  #returned: Entry[] = []
  #returnedHead = 0
  /** Undelivered ones that had a cursor before, by offset. */
  readonly #renewed = new Map<number, Entry>()

  constructor(
    place: Place,
    name: string,
    position: number,
    committed: number,
    renewals: number,
    budget: Budget,
    moved: () => void
  ) {
    this.place = place
    this.name = name
    this.firstRenewals = renewals
    this.lastRenewals = renewals
    this.end = position
    this.committed = committed
    this.#budget = budget
    this.moved = moved
  }

  /** Everything below is done. */
  get low(): number {
    return this.#first === null ? this.end : this.#first.record.offset
  }

  add(record: Arrived, seq: number): void {
    const entry = new Entry(record, seq, this)
    this.end = record.offset + 1
    entry.previous = this.#last
    if (this.#last === null) this.#first = entry
    else this.#last.next = entry
    this.#last = entry
    this.#fresh ??= entry
    this.waiting++
    this.bytes += entry.size
    this.#budget.add(entry.size)
  }

  /** Whose turn it is; null: nothing waits. */
  peek(): Entry | null {
    while (this.#returnedHead < this.#returned.length && this.#returned[this.#returnedHead]!.isOver) this.shift()
    return this.#returnedHead < this.#returned.length ? this.#returned[this.#returnedHead]! : this.#fresh
  }

  /** Takes it off the front. It still waits here until it is `given` or `done`. */
  shift(): void {
    if (this.#returnedHead < this.#returned.length) {
      if (++this.#returnedHead < this.#returned.length) return
      this.#returned = []
      this.#returnedHead = 0
    } else if (this.#fresh !== null) this.#fresh = this.#fresh.next
  }

  /** A client has it. */
  given(entry: Entry): void {
    this.waiting--
    this.bytes -= entry.size
    this.held++
  }

  /** The processors have changed it. */
  changed(entry: Entry, record: Arrived): void {
    const size = sizeOf(record)
    this.bytes += size - entry.size
    this.#budget.add(size - entry.size)
    entry.record = record
    entry.size = size
  }

  /** A client had it, and it is delivered or given up. */
  doneByClient(entry: Entry): void {
    this.held--
    this.#unlink(entry)
  }

  /** It waited here, and nobody is to have it. */
  doneUnseen(entry: Entry): void {
    this.waiting--
    this.bytes -= entry.size
    this.#unlink(entry)
  }

  /** Clients had them and did not get them delivered. */
  takeBack(entries: Entry[]): void {
    for (const { size } of entries) this.bytes += size
    this.waiting += entries.length
    this.held -= entries.length
    this.toFront(entries)
  }

  /** Those that waited elsewhere come to the front, in order of their offsets. */
  toFront(entries: Entry[]): void {
    if (entries.length === 0) return
    const all = this.#returned.slice(this.#returnedHead).concat(entries)
    this.#returned = all.filter(({ isOver }) => !isOver).sort((a, b) => a.record.offset - b.record.offset)
    this.#returnedHead = 0
  }

  /** From now on it has another cursor: a client that comes late with the old one means that delivery. */
  renew(entry: Entry): void {
    entry.renewals++
    this.lastRenewals = Math.max(this.lastRenewals, entry.renewals)
    entry.encoded.length = 0
    this.#renewed.set(entry.record.offset, entry)
  }

  /** Undefined: it is delivered, or was never renewed. */
  renewed(offset: number): Entry | undefined {
    return this.#renewed.get(offset)
  }

  /** Gives back what it holds of the budget; its messages are forgotten. */
  lose(): void {
    this.isLost = true
    for (let entry = this.#first; entry !== null; entry = entry.next) this.#budget.add(-entry.size)
    this.#first = null
    this.#last = null
    this.#fresh = null
    this.#returned = []
    this.#returnedHead = 0
    this.aside.length = 0
    this.#renewed.clear()
    this.waiting = 0
    this.bytes = 0
    this.held = 0
  }

  #unlink(entry: Entry): void {
    entry.isOver = true
    entry.holder = null
    if (entry.renewals > this.firstRenewals) this.#renewed.delete(entry.record.offset)
    this.#budget.add(-entry.size)
    if (entry.previous === null) this.#first = entry.next
    else entry.previous.next = entry.next
    if (entry.next === null) this.#last = entry.previous
    else entry.next.previous = entry.previous
    entry.previous = null
    entry.next = null
  }
}
