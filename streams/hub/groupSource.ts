import type { Place, Position, Reading, Taker } from '../broker.ts'
import type { Arrived } from '../message.ts'
import { words } from '../seldom.ts'
import { within } from '../within.ts'
import type { HubGiven, Source } from './hub.ts'
import { PartitionQueue } from './partitionQueue.ts'

/** Longest wait for the last commit of a membership, and for its end. */
const LAST_COMMIT_MS = 2000
const LEAVE_MS = 10_000
/** While too much of the process's budget is used, it is asked so often. */
const BUDGET_MS = 100
/** How old the ends of partitions may be that are not read at the moment, when somebody asks. */
const HIGH_AGE_MS = 5000

export interface SourceHost {
  /** Nothing more is to come: no client is there, or the hub closes. */
  readonly isStill: boolean
  nextSeq(): number
  arrived(queue: PartitionQueue): void
  lost(queue: PartitionQueue): void
  /** Nothing of it is to be given out any more. */
  halted(queue: PartitionQueue): void
  /** Something is done. */
  moved(): void
  /** The state of this source. */
  changed(): void
  /** @param missing messages that cannot be read any more */
  gap(place: Place, missing: number): void
  failed(why: string): void
}

/** A partition that was ours. */
interface Left extends Position {
  /** As `PartitionQueue.high`. */
  high: number
}

/** Membership in one group: what it reads, what it holds back, what it has committed. */
export class GroupSource {
  readonly #source: Source
  readonly #given: HubGiven
  readonly #host: SourceHost
  readonly #topics: readonly string[]
  readonly queues = new Map<string, PartitionQueue>()
  /** With `ack: client`, of partitions that were ours: clients may still have ids of then, and the same offsets come again. */
  readonly #renewals = new Map<string, number>()
  /** Why reading stands still; null: it does not. */
  fault: string | null = null
  /** The group has given it its partitions, or none. */
  isAssigned = false
  #reading: Reading | null = null
  /** Calls that come of an older membership count no more. */
  #membership = 0
  #isWanted = false
  #leaving: Promise<void> | null = null
  #committing: Promise<void> | null = null
  #cancelCommit: (() => void) | null = null
  #cancelBudget: (() => void) | null = null
  #asked = 0
  /** Where the group stood when we left it, as far as we had parts of it; null: we have not been in it. */
  #left: readonly Left[] | null = null

  /** @param topics of all sources of the hub, in the order in which cursors count them */
  constructor(source: Source, topics: readonly string[], given: HubGiven, host: SourceHost) {
    this.#source = source
    this.#topics = topics
    this.#given = given
    this.#host = host
  }

  get isMember(): boolean {
    return this.#reading !== null || this.#leaving !== null || this.#isWanted
  }

  /** What keeps this source from being read now, as far as is known. */
  get trouble(): string | null {
    return this.fault ?? this.#source.broker.state().fault
  }

  /** Messages behind what is done; -1: unknown. While nobody reads, those behind what was committed last (streams R9). */
  get lag(): number {
    let lag = 0
    if (!this.isAssigned && this.#left === null) return -1
    const parts = this.isAssigned ? [...this.queues.values()] : this.#left!
    for (const part of parts) {
      if (part.high < 0) return -1
      lag += Math.max(0, part.high - ('low' in part ? part.low : part.offset))
    }
    return lag
  }

  /** Joins, or goes on. */
  enter(): void {
    this.#isWanted = true
    if (this.#leaving !== null) return
    if (this.#reading === null) this.#join()
    else this.paceAll()
  }

  /** Commits and leaves. */
  exit(): Promise<void> {
    this.#isWanted = false
    if (this.#reading === null) return this.#leaving ?? Promise.resolve()
    this.#leaving ??= this.#leave(this.#reading)
    return this.#leaving
  }

  /** Tells the broker which partitions are to bring more. */
  paceAll(): void {
    for (const queue of this.queues.values()) this.#pace(queue)
  }

  /** The same for those that stand still. */
  resumeAll(): void {
    for (const queue of this.queues.values()) if (queue.isPaused) this.#pace(queue)
  }

  /** Something is done: it will be committed. */
  moved(): void {
    this.#host.moved()
    if (this.#cancelCommit !== null || this.#committing !== null) return
    this.#cancelCommit = this.#given.clock.after(this.#given.commitMs, () => {
      this.#cancelCommit = null
      void this.commit()
    })
  }

  /** Never rejects: what could not be kept comes with the next commit. */
  commit(): Promise<void> {
    if (this.#committing !== null) return this.#committing.then(() => this.commit())
    const reading = this.#reading
    const moved = [...this.queues.values()].filter(({ low, committed }) => low > committed)
    if (reading === null || moved.length === 0) return Promise.resolve()
    const lows = moved.map(({ low }) => low)
    const positions = moved.map(({ place }, i) => ({ ...place, offset: lows[i]! }))
    this.#committing = reading.commit(positions).then(
      () => {
        this.#committing = null
        for (const [i, queue] of moved.entries()) queue.committed = lows[i]!
        if (moved.some(({ low, committed, isLost }) => !isLost && low > committed)) this.moved()
      },
      fault => {
        this.#committing = null
        if (reading !== this.#reading) return
        this.#host.failed(`commit: ${words(fault)}`)
        this.moved()
      }
    )
    return this.#committing
  }

  /** The ends of partitions that bring nothing at the moment, or are ours no more, are asked for, at most now and then. */
  learnHighs(): void {
    const { clock } = this.#given
    const membership = this.#membership
    const still = [...this.queues.values()].filter(({ isPaused, high }) => isPaused || high < 0)
    const topics = new Set(still.map(({ place }) => place.topic))
    for (const { topic } of this.isAssigned ? [] : (this.#left ?? [])) topics.add(topic)
    if (topics.size === 0 || clock.now() - this.#asked < HIGH_AGE_MS) return
    this.#asked = clock.now()
    for (const topic of topics)
      this.#source.broker.spans(topic).then(
        spans => {
          if (membership !== this.#membership) return
          for (const { partition, high } of spans) {
            const queue = this.queues.get(keyOf(topic, partition))
            if (queue !== undefined && queue.high < high) queue.high = high
            const left = this.#left?.find(one => one.topic === topic && one.partition === partition)
            if (left !== undefined) left.high = high
          }
        },
        // Then the lag stays as it was; reading itself tells what is wrong.
        () => {}
      )
  }

  #join(): void {
    const membership = ++this.#membership
    const isOld = () => membership !== this.#membership
    const taker: Taker = {
      assigned: positions => isOld() || this.#assigned(positions),
      records: (place, records, high) => isOld() || this.#records(place, records, high),
      gap: (place, from, to) => isOld() || this.#gap(place, from, to),
      state: fault => {
        if (isOld() || this.fault === fault) return
        this.fault = fault
        this.#host.changed()
      }
    }
    this.#reading = this.#source.broker.join(this.#source.joining, taker)
    // A broker may have assigned partitions before it handed over the reading.
    for (const queue of this.queues.values()) if (queue.isPaused) this.#reading.pause(queue.place)
    this.#host.changed()
  }

  async #leave(reading: Reading): Promise<void> {
    const { clock } = this.#given
    for (const queue of this.queues.values()) this.#host.halted(queue)
    await within(this.commit(), LAST_COMMIT_MS, clock)
    this.#membership++
    if (this.isAssigned) this.#left = [...this.queues.values()].map(leftOf)
    this.#asked = 0
    this.#cancelCommit?.()
    this.#cancelBudget?.()
    this.#cancelCommit = null
    this.#cancelBudget = null
    for (const [key, queue] of this.queues) this.#lose(key, queue)
    this.#reading = null
    this.fault = null
    this.isAssigned = false
    await within(reading.close(), LEAVE_MS, clock)
    this.#leaving = null
    if (this.#isWanted) this.#join()
    else this.#host.changed()
  }

  #assigned(positions: readonly Position[]): void {
    const named = new Set(positions.map(({ topic, partition }) => keyOf(topic, partition)))
    for (const [key, queue] of this.queues) if (!named.has(key)) this.#lose(key, queue)
    for (const position of positions) this.#gain(position)
    this.isAssigned = true
    this.#left = null
    if (this.#source.joining.start === 'latest') void this.commit()
    this.#asked = 0
    this.learnHighs()
    this.#host.changed()
  }

  /**
   * A partition that stays goes on with what it has, and what comes once more is known by its offset; a position further on only says that
   * nothing lies between (markers of transactions, say). Unless it begins before our commit: then the log was made anew.
   */
  #gain({ topic, partition, offset }: Position): void {
    const key = keyOf(topic, partition)
    const old = this.queues.get(key)
    if (old !== undefined && offset >= old.committed) {
      old.end = Math.max(old.end, offset)
      return
    }
    if (old !== undefined) this.#lose(key, old)
    // A group that begins at the end has no commit: until it has one, each new beginning would skip what came meanwhile.
    const isUnpinned = this.#source.joining.start === 'latest'
    const name = `${this.#topics.indexOf(topic)}.${partition}-`
    const place = { topic, partition }
    const { budget } = this.#given
    const committed = isUnpinned ? -1 : offset
    const renewals = this.#renewals.get(key) ?? 0
    const queue = new PartitionQueue(place, name, offset, committed, renewals, budget, () => this.moved())
    this.queues.set(key, queue)
    if (isUnpinned) this.moved()
    queue.isPaused = this.#isTooMuch(queue)
    // Whatever holds of an earlier time in which it was ours.
    if (queue.isPaused) this.#reading?.pause(place)
    else this.#reading?.resume(place)
  }

  #lose(key: string, queue: PartitionQueue): void {
    this.queues.delete(key)
    if (this.#given.options.ack === 'client') this.#renewals.set(key, queue.lastRenewals + 1)
    this.#host.lost(queue)
  }

  #records({ topic, partition }: Place, records: readonly Arrived[], high: number): void {
    const queue = this.queues.get(keyOf(topic, partition))
    if (queue === undefined) return
    queue.high = high
    for (const record of records) if (record.offset >= queue.end) queue.add(record, this.#host.nextSeq())
    this.#pace(queue)
    this.#host.arrived(queue)
  }

  #gap({ topic, partition }: Place, from: number, to: number): void {
    const key = keyOf(topic, partition)
    const queue = this.queues.get(key)
    if (queue !== undefined && from === to && to < queue.end) {
      // Another history: what was read of the old one says nothing of its offsets.
      this.#lose(key, queue)
      return this.#gain({ topic, partition, offset: to })
    }
    if (queue === undefined || to <= queue.end) return
    const missing = to - Math.max(from, queue.end)
    queue.end = to
    this.#host.gap(queue.place, missing)
    this.moved()
  }

  #pace(queue: PartitionQueue): void {
    const isTooMuch = this.#isTooMuch(queue)
    if (isTooMuch && this.#given.budget.isHalfFull && !this.#host.isStill) this.#watchBudget()
    if (isTooMuch === queue.isPaused) return
    queue.isPaused = isTooMuch
    if (isTooMuch) this.#reading?.pause(queue.place)
    else this.#reading?.resume(queue.place)
  }

  #isTooMuch({ waiting, bytes, isPaused }: PartitionQueue): boolean {
    const { bufferMessages, bufferBytes, budget } = this.#given
    if (this.#host.isStill || this.#leaving !== null || budget.isFull) return true
    // The broker keeps what is not read. Whose clients took everything reads on beside others that are stuck.
    if (budget.isHalfFull && waiting > 0) return true
    if (isPaused) return waiting > bufferMessages / 2 || bytes > bufferBytes / 2
    return waiting >= bufferMessages || bytes >= bufferBytes
  }

  /** Nobody tells when the budget has room again. */
  #watchBudget(): void {
    this.#cancelBudget ??= this.#given.clock.after(BUDGET_MS, () => {
      this.#cancelBudget = null
      this.resumeAll()
    })
  }
}

/** A group without a commit begins anew where we stood, or later. */
function leftOf({ place, committed, low, high }: PartitionQueue): Left {
  return { ...place, offset: committed < 0 ? low : committed, high }
}

function keyOf(topic: string, partition: number): string {
  return `${partition} ${topic}`
}
