import type { Clock } from '../../config/world.ts'
import type { Position } from '../broker.ts'
import { type Message, type Placed, sizeOf } from '../message.ts'
import { Undelivered } from '../undelivered.ts'
import { type DurableLog, type Kept, type KeptRecord, type KeptSegment, NotWritten } from './durableLog.ts'
import type { MemoryGroup } from './memoryGroup.ts'
import type { MemoryLog } from './memoryLog.ts'
import type { MemoryTopic } from './memoryTopic.ts'

/** What may wait, in bytes; above it a call is `busy`. */
const mostWaiting = 67_108_864
/** What goes in one write, in bytes, unless one call alone is more. */
const mostAtOnce = 4_194_304

/** A timer takes no more than 2^31 ms. */
const longestWait = 86_400_000

interface Call {
  readonly topic: MemoryTopic
  readonly messages: readonly (Message & { readonly partition: number })[]
  readonly size: number
  readonly deadline: number
  /** Of its messages, once they are being written. */
  placed: Placed[]
  isSettled: boolean
  resolve(placed: readonly Placed[]): void
  reject(error: Undelivered): void
}

interface Waiter {
  resolve(): void
  reject(error: Error): void
}

/**
 * Puts what is produced and committed into the durable log, one write at a time: what comes meanwhile goes together in the
 * next. Records are in the broker's logs, and seen by readers, only after that.
 */
export class DurableWriter {
  readonly #broker: string
  readonly #log: DurableLog
  readonly #clock: Clock
  /** Called when a write has failed: `DurableLog` wants to be loaded again before the next. */
  readonly #failed: (error: Error) => void
  #calls: Call[] = []
  #waiting = 0
  #underWay: readonly Call[] = []
  #topics = new Set<MemoryTopic>()
  #groups = new Set<MemoryGroup>()
  #forgotten = new Set<string>()
  #waiters: Waiter[] = []
  #isWriting = false
  #isHeld = true
  #cancelTimer = () => {}
  #timerAt = Number.POSITIVE_INFINITY

  constructor(broker: string, log: DurableLog, clock: Clock, failed: (error: Error) => void) {
    this.#broker = broker
    this.#log = log
    this.#clock = clock
    this.#failed = failed
  }

  /** Writing begins, or goes on after a failure. */
  go(): void {
    this.#isHeld = false
    this.#next()
  }

  produce(topic: MemoryTopic, messages: Call['messages'], deadline: number): Promise<readonly Placed[]> {
    let size = 0
    for (const message of messages) size += sizeOf(message)
    if (this.#waiting > 0 && this.#waiting + size > mostWaiting)
      return Promise.reject(new Undelivered('busy', 'too much waits for the durable log'))
    this.#waiting += size
    return new Promise((resolve, reject) => {
      this.#calls.push({ topic, messages, size, deadline, placed: [], isSettled: false, resolve, reject })
      this.#watch(deadline)
      this.#next()
    })
  }

  /** The topic is another; it is written along with what comes next, or by `flush`. */
  changed(topic: MemoryTopic): void {
    this.#topics.add(topic)
  }

  forgotten(group: string): void {
    this.#forgotten.add(group)
  }

  /** Resolves when the group's commits are kept; as `flush`. */
  committed(group: MemoryGroup): Promise<void> {
    this.#groups.add(group)
    return this.flush()
  }

  /** Resolves when all that has changed so far is kept. Rejects while the log has failed: it is kept once that is over. */
  flush(): Promise<void> {
    if (this.#isHeld) return Promise.reject(new Undelivered('unavailable', 'the durable log is away'))
    return new Promise((resolve, reject) => {
      this.#waiters.push({ resolve, reject })
      this.#next()
    })
  }

  /** What waits is given up. */
  abandon(why: string): void {
    this.#isHeld = true
    const error = new Undelivered('unavailable', why)
    for (const call of this.#calls) this.#reject(call, error)
    this.#calls = []
    this.#waiting = this.#underWay.reduce((sum, { size }) => sum + size, 0)
    for (const waiter of this.#waiters) waiter.reject(error)
    this.#waiters = []
    this.#cancelTimer()
    this.#timerAt = Number.POSITIVE_INFINITY
  }

  #next(): void {
    if (this.#isWriting || this.#isHeld) return
    if (this.#calls.length === 0 && this.#waiters.length === 0) return
    this.#isWriting = true
    // In a turn of its own: what is produced in this one goes along.
    queueMicrotask(() => void this.#write())
  }

  async #write(): Promise<void> {
    const calls = this.#take()
    this.#underWay = calls
    const topics = this.#topics
    const groups = this.#groups
    const forgotten = this.#forgotten
    const waiters = this.#waiters
    this.#topics = new Set()
    this.#groups = new Set()
    this.#forgotten = new Set()
    this.#waiters = []
    const segments = segmentsOf(calls, this.#clock.now())
    const what: Kept = {
      topics: [...topics].map(({ name, logs }) => ({ topic: name, lows: logs.map(known) })),
      segments: [...segments.values()],
      groups: [
        ...[...forgotten].map(group => ({ group, commits: [] as Position[] })),
        ...[...groups].map(group => ({ group: group.name, commits: group.commits() }))
      ]
    }
    try {
      if (what.topics.length + what.segments.length + what.groups.length > 0) await this.#log.write(this.#broker, what)
    } catch (cause) {
      this.#isHeld = true
      const reason = cause instanceof NotWritten ? 'unavailable' : 'unknown'
      const error = new Undelivered(reason, `the durable log failed: ${(cause as Error).message}`, { cause })
      for (const call of calls) this.#reject(call, error)
      for (const waiter of [...waiters, ...this.#waiters]) waiter.reject(error)
      this.#waiters = []
      for (const topic of topics) this.#topics.add(topic)
      for (const group of groups) this.#groups.add(group)
      for (const group of forgotten) this.#forgotten.add(group)
      this.#done(calls)
      this.#failed(error)
      return
    }
    for (const [log, { records }] of segments) {
      for (const record of records) log.append(record, record.timestamp)
      log.trim(this.#clock.now())
      log.wake()
    }
    for (const { topic } of calls) if (topic.logs.some(({ low, keptLow }) => low > keptLow)) this.#topics.add(topic)
    for (const call of calls) if (!call.isSettled) call.resolve(call.placed)
    for (const waiter of waiters) waiter.resolve()
    this.#done(calls)
    this.#next()
  }

  #done(calls: readonly Call[]): void {
    for (const { size } of calls) this.#waiting -= size
    this.#underWay = []
    this.#isWriting = false
  }

  /** The calls of the next write. */
  #take(): readonly Call[] {
    let size = 0
    let count = 0
    while (count < this.#calls.length && (count === 0 || size + this.#calls[count]!.size <= mostAtOnce))
      size += this.#calls[count++]!.size
    return this.#calls.splice(0, count)
  }

  /** One timer, for the earliest deadline. */
  #watch(deadline: number): void {
    if (deadline >= this.#timerAt) return
    this.#cancelTimer()
    this.#timerAt = deadline
    const wait = Math.min(Math.max(0, deadline - this.#clock.now()), longestWait)
    this.#cancelTimer = this.#clock.after(wait, () => this.#giveUp())
  }

  #giveUp(): void {
    this.#timerAt = Number.POSITIVE_INFINITY
    const now = this.#clock.now()
    const kept: Call[] = []
    for (const call of this.#calls) {
      if (call.deadline > now) kept.push(call)
      else {
        this.#waiting -= call.size
        this.#reject(call, new Undelivered('unavailable', 'the durable log did not get to it in time'))
      }
    }
    this.#calls = kept
    for (const call of this.#underWay)
      if (!call.isSettled && call.deadline <= now)
        this.#reject(call, new Undelivered('unknown', 'the durable log did not answer in time'))
    let next = Number.POSITIVE_INFINITY
    for (const call of [...this.#underWay, ...kept]) if (!call.isSettled && call.deadline < next) next = call.deadline
    if (next < Number.POSITIVE_INFINITY) this.#watch(next)
  }

  #reject(call: Call, error: Undelivered): void {
    if (call.isSettled) return
    call.isSettled = true
    call.reject(error)
  }
}

function known(log: MemoryLog): number {
  log.keptLow = log.low
  return log.low
}

/** The records by partition, with the offsets that they will have; tells each call where its messages go. */
function segmentsOf(calls: readonly Call[], now: number): ReadonlyMap<MemoryLog, KeptSegment> {
  const segments = new Map<MemoryLog, KeptSegment & { readonly records: KeptRecord[] }>()
  for (const call of calls)
    for (const message of call.messages) {
      const log = call.topic.logs[message.partition]!
      let segment = segments.get(log)
      if (segment === undefined) {
        segment = { topic: log.topic, partition: log.partition, base: log.high, records: [] }
        segments.set(log, segment)
      }
      const { topic, partition, base, records } = segment
      const timestamp = Math.max(now, log.newest)
      call.placed.push({ topic, partition, offset: base + records.length, timestamp })
      records.push({ key: message.key, value: message.value, headers: message.headers, timestamp })
    }
  return segments
}
