import { Fifo } from './fifo.ts'
import { byQueue, GivenBack, type GivenBackHost } from './givenBack.ts'
import type { GroupSeat, Late, SeatHost } from './groupSeat.ts'
import type { Delivered, HubGiven } from './hub.ts'
import type { Entry, PartitionQueue } from './partitionQueue.ts'
import { processed } from './processed.ts'
import { Ring } from './ring.ts'
import { Rotation } from './rotation.ts'

/** Messages that are dispatched before other work of the process has its turn (streams R22). */
const SLICE = 500
/** Messages of one partition that others pass because those who want them are full. */
const MOST_ASIDE = 256
/** What any client may hold, however many share the window. */
const SMALLEST_SHARE = 8
/** A slice ends when clients were asked so often whether they want a message (a check of CEL takes some microseconds). */
const MOST_ASKED = 10_000

export interface Counts extends Delivered {
  dropped: number
  deadLettered: number
}

export interface DispatchHost {
  /** A slice is over: there may be room for more. */
  sliced(): void
  gone(seat: GroupSeat): void
  /** A message was dropped, or could not become a dead letter. */
  givenUp(entry: Entry, why: string): void
}

/**
 * Gives waiting messages to clients: in rotation over those that have room, and in rotation over the partitions. In mode
 * `key` the key says whose a message is. A message costs the same however many clients there are.
 */
export class Dispatch implements SeatHost, GivenBackHost {
  readonly ack: 'write' | 'client'
  readonly counts: Counts = { delivered: 0, deliveredBytes: 0, redelivered: 0, dropped: 0, deadLettered: 0 }
  readonly ackTimeoutMs: number
  readonly mostBytes: number
  readonly mostLate: number
  share = SMALLEST_SHARE
  readonly #given: HubGiven
  readonly #host: DispatchHost
  readonly #givenBack: GivenBack
  readonly #rotation: Rotation
  /** Partitions with something to give. */
  readonly #ready = new Ring<PartitionQueue>()
  /** Partitions whose first message can go nowhere. */
  #blocked: PartitionQueue[] = []
  /** Partitions with messages that were put aside. */
  readonly #asides = new Set<PartitionQueue>()
  /** Clients that have room again; they are looked at first. */
  readonly #returning = new Fifo<GroupSeat>()
  /** Clients with room for whom something waits of a partition that has too many under way. */
  readonly #stuck = new Set<GroupSeat>()
  readonly #touched: GroupSeat[] = []
  #isScheduled = false
  #isStopped = false
  #now = 0

  constructor(given: HubGiven, host: DispatchHost) {
    this.#given = given
    this.#host = host
    this.ack = given.options.ack
    this.ackTimeoutMs = given.options.ackTimeoutMs
    this.mostBytes = Math.max(1, given.options.queue.bytes)
    this.mostLate = Math.max(SMALLEST_SHARE, given.checkpointLimit)
    this.#rotation = new Rotation(given.options.mode === 'key' ? 'keys' : 'turns')
    this.#part()
    this.#givenBack = new GivenBack(given, this)
  }

  get seats(): ReadonlySet<GroupSeat> {
    return this.#rotation.seats
  }

  now(): number {
    return this.#given.clock.now()
  }

  add(seat: GroupSeat): void {
    this.#rotation.add(seat)
    this.#part()
    this.freed(seat)
  }

  /** There is something to give of this partition. */
  arrived(queue: PartitionQueue): void {
    if (queue.isLost || queue.isBlocked || queue.held >= this.#given.checkpointLimit || queue.peek() === null) return
    this.#ready.add(queue)
    this.#schedule()
  }

  lost(queue: PartitionQueue): void {
    this.#ready.remove(queue)
    this.#asides.delete(queue)
    queue.lose()
  }

  /** Nothing of it is given out any more. */
  halted(queue: PartitionQueue): void {
    this.#ready.remove(queue)
    queue.isBlocked = true
  }

  /** Nothing is given out any more; what clients have may still be delivered. */
  stop(): void {
    this.#isStopped = true
    this.#givenBack.stop()
  }

  delivered(entry: Entry, counts: Delivered | null): void {
    if (entry.queue.isLost) return
    this.#count(entry, counts)
    this.done(entry)
  }

  deliveredLate(seat: GroupSeat, { queue, offset }: Late): boolean {
    const entry = queue.isLost ? undefined : queue.renewed(offset)
    if (entry === undefined || entry.isOver) return false
    const counts = seat.owner?.counts ?? null
    if (entry.holder === seat) {
      seat.release(entry)
      this.delivered(entry, counts)
      return true
    }
    if (entry.holder !== null) return false
    this.#count(entry, counts)
    queue.doneUnseen(entry)
    queue.moved()
    // It may be the one that its partition waited for.
    this.#unblock()
    this.arrived(queue)
    return true
  }

  done(entry: Entry): void {
    const { queue } = entry
    queue.doneByClient(entry)
    queue.moved()
    this.arrived(queue)
    this.#unstick()
  }

  freed(seat: GroupSeat): void {
    if (seat.isReturning || this.#isStopped || this.#rotation.has(seat) || !seat.hasRoom()) return
    seat.isReturning = true
    this.#returning.push(seat)
    this.#schedule()
  }

  left(seat: GroupSeat, taken: readonly Entry[], parked: readonly Entry[]): void {
    this.#rotation.remove(seat)
    this.#stuck.delete(seat)
    this.#part()
    this.#givenBack.take(taken)
    for (const [queue, entries] of byQueue(parked)) {
      queue.toFront(entries)
      this.arrived(queue)
    }
    // Perhaps nobody wants them any more.
    for (const queue of this.#asides) {
      queue.toFront(queue.aside.splice(0))
      this.arrived(queue)
    }
    this.#asides.clear()
    this.#unblock()
    this.#unstick()
    this.#host.gone(seat)
  }

  givenUp(entry: Entry, why: string): void {
    this.#host.givenUp(entry, why)
  }

  #part(): void {
    const { checkpointLimit, options } = this.#given
    const share = Math.max(SMALLEST_SHARE, Math.ceil(checkpointLimit / Math.max(1, this.seats.size)))
    this.share = Math.max(1, Math.min(share, options.queue.messages))
  }

  #count({ size }: Entry, counts: Delivered | null): void {
    this.counts.delivered++
    this.counts.deliveredBytes += size
    if (counts === null) return
    counts.delivered++
    counts.deliveredBytes += size
  }

  #schedule(): void {
    if (this.#isScheduled || this.#isStopped || this.seats.size === 0) return
    this.#isScheduled = true
    setImmediate(this.#slice)
  }

  readonly #slice = (): void => {
    this.#isScheduled = false
    if (this.#isStopped) return
    this.#now = this.now()
    this.#rotation.asked = 0
    let left = SLICE
    if (this.#returning.length > 0) left = this.#welcome(left)
    for (; left > 0 && this.#mayAsk && this.#ready.current !== null && this.#rotation.isOpen; left--) {
      const queue = this.#ready.current
      this.#ready.advance()
      this.#step(queue)
    }
    for (const seat of this.#touched) {
      seat.isTouched = false
      if (!seat.isGone) seat.client.flush()
    }
    this.#touched.length = 0
    this.#host.sliced()
    if (this.#returning.length > 0 || (this.#ready.current !== null && this.#rotation.isOpen)) this.#schedule()
  }

  get #mayAsk(): boolean {
    return this.#rotation.asked < MOST_ASKED
  }

  /** Those with room again get what waits for them, then have their turns. */
  #welcome(left: number): number {
    this.#unblock()
    const newcomers: GroupSeat[] = []
    const most = this.#mostNewcomers()
    for (let seat = this.#returning.peek(); seat !== undefined; seat = this.#returning.peek()) {
      if (!seat.isGone) {
        left = this.#settle(seat, left)
        if (seat.parked.length === 0 && seat.hasRoom()) newcomers.push(seat)
      }
      if (left <= 0) break
      this.#returning.shift()
      seat.isReturning = false
      if (newcomers.length >= most) break
    }
    newcomers.sort((a, b) => a.servedAt - b.servedAt)
    for (const queue of this.#asides) left -= this.#offer(queue, newcomers)
    for (const seat of newcomers) if (!seat.isGone && seat.hasRoom()) this.#rotation.back(seat)
    return left
  }

  /** So many that they can be asked about all that was put aside. */
  #mostNewcomers(): number {
    let aside = 0
    for (const queue of this.#asides) aside += queue.aside.length
    return Math.max(1, Math.floor(MOST_ASKED / Math.max(1, aside)))
  }

  /** Gives it what only this client is to have. */
  #settle(seat: GroupSeat, left: number): number {
    for (let entry = seat.parked.peek(); entry !== undefined; entry = seat.parked.peek()) {
      if (entry.queue.isLost || entry.isOver) seat.unpark()
      else if (left <= 0 || !seat.hasRoom()) return left
      else if (entry.queue.held >= this.#given.checkpointLimit) {
        this.#stuck.add(seat)
        return left
      } else {
        this.#give(seat, seat.unpark())
        left--
      }
    }
    return left
  }

  /**
   * What was put aside of a partition goes to those of them that want it, in turn, as far as they have room. Answers how many.
   * @param seats who was served longest ago comes first; nobody else with room wants it
   */
  #offer(queue: PartitionQueue, seats: GroupSeat[]): number {
    const { aside } = queue
    let count = 0
    for (let i = 0; i < aside.length; ) {
      const entry = aside[i]!
      if (entry.isOver) {
        aside.splice(i, 1)
        continue
      }
      if (queue.held >= this.#given.checkpointLimit) {
        for (const seat of seats) this.#stuck.add(seat)
        break
      }
      const n = seats.findIndex(seat => !seat.isGone && seat.hasRoom() && this.#rotation.wants(seat, entry))
      if (n < 0) i++
      else {
        const seat = seats[n]!
        seats.push(...seats.splice(n, 1))
        aside.splice(i, 1)
        this.#rotation.served(seat)
        this.#give(seat, entry)
        count++
      }
    }
    if (aside.length === 0) this.#asides.delete(queue)
    return count
  }

  #step(queue: PartitionQueue): void {
    const entry = queue.peek()
    if (entry === null || queue.held >= this.#given.checkpointLimit) return this.#ready.remove(queue)
    if (!entry.isProcessed && !this.#process(entry)) return
    if (this.#rotation.isByKey(entry)) return this.#stepKey(entry)
    const seat = this.#rotation.next(entry)
    if (seat !== null) {
      queue.shift()
      this.#give(seat, entry)
    } else if (!this.#rotation.isWanted(entry)) this.#skip(entry)
    else if (this.#rotation.isFiltering && queue.aside.length < MOST_ASIDE) {
      queue.shift()
      queue.aside.push(entry)
      this.#asides.add(queue)
    } else this.#block(queue)
  }

  #stepKey(entry: Entry): void {
    const { queue } = entry
    const { messages, bytes } = this.#given.options.queue
    const seat = this.#rotation.ofKey(entry)
    if (seat === null) this.#skip(entry)
    else if (seat.parked.length === 0 && seat.hasRoom()) {
      queue.shift()
      this.#give(seat, entry)
    } else if (seat.parked.length < messages && seat.parkedBytes < bytes) {
      queue.shift()
      seat.park(entry)
      this.#rotation.rest(seat)
    } else this.#block(queue)
  }

  #give(seat: GroupSeat, entry: Entry): void {
    entry.queue.given(entry)
    if (entry.deliveries++ > 0) {
      this.counts.redelivered++
      const counts = seat.owner?.counts ?? null
      if (counts !== null) counts.redelivered++
    }
    if (!seat.isTouched) {
      seat.isTouched = true
      this.#touched.push(seat)
    }
    if (this.ack === 'client') {
      entry.at = this.#now
      this.#givenBack.watch()
    }
    seat.take(entry)
  }

  /** False: it is done with. */
  #process(entry: Entry): boolean {
    const { record, queue } = entry
    const result = processed(record, this.#given.process)
    entry.isProcessed = true
    if (result === record) return true
    if (result !== null && typeof result !== 'string') {
      queue.changed(entry, result)
      return true
    }
    if (result !== null) {
      this.counts.dropped++
      this.#host.givenUp(entry, result)
    }
    this.#skip(entry)
    return false
  }

  /** Nobody is to have the first of its partition. */
  #skip(entry: Entry): void {
    const { queue } = entry
    queue.shift()
    queue.doneUnseen(entry)
    queue.moved()
  }

  #block(queue: PartitionQueue): void {
    queue.isBlocked = true
    this.#ready.remove(queue)
    this.#blocked.push(queue)
  }

  #unblock(): void {
    if (this.#blocked.length === 0) return
    const queues = this.#blocked
    this.#blocked = []
    for (const queue of queues) {
      queue.isBlocked = false
      this.arrived(queue)
    }
  }

  #unstick(): void {
    if (this.#stuck.size === 0) return
    const seats = [...this.#stuck]
    this.#stuck.clear()
    for (const seat of seats) {
      this.#rotation.rest(seat)
      this.freed(seat)
    }
  }
}
