import type { Broker, BrokerState, Joining, Place, Position, Reading, Span, Taker } from '../../../streams/broker.ts'
import { Budget } from '../../../streams/budget.ts'
import { broadcastHub } from '../../../streams/hub/broadcastHub.ts'
import type { Batch, Client, Ending, Format, From, Hub, HubGiven, Item, Seat } from '../../../streams/hub/hub.ts'
import type { Arrived } from '../../../streams/message.ts'
import { type DeliveryOptions, deliveryOptions } from '../../../streams/options.ts'
import { type CountingClock, countingClock } from './groupFakes.ts'

export const turns = async (count = 12) => {
  for (let i = 0; i < count; i++) await new Promise<void>(resolve => setImmediate(resolve))
}

/** Waits for a condition over turns of the event loop, bounded. */
export async function until(is: () => boolean, what = 'what was waited for'): Promise<void> {
  for (let i = 0; i < 20_000; i++) {
    if (is()) return
    await turns(1)
  }
  throw new Error(`${what} did not come`)
}

interface Log {
  readonly topic: string
  readonly partition: number
  low: number
  high: number
  records: Arrived[]
}

const nameOf = ({ topic, partition }: Place) => `${topic}:${partition}`

/** One reading of a broker that a test drives: it reads on in its own turns unless it is told to wait. */
class LogReading implements Reading {
  readonly taker: Taker
  readonly isExact: boolean
  readonly positions = new Map<string, number>()
  readonly paused = new Set<string>()
  readonly #broker: LogBroker
  isClosed = false
  #isAssigned = false

  constructor(broker: LogBroker, taker: Taker, from: readonly Position[], isExact: boolean) {
    this.#broker = broker
    this.taker = taker
    this.isExact = isExact
    for (const position of from) this.positions.set(nameOf(position), position.offset)
    // What came since its positions were asked for.
    const topics = new Set(from.map(({ topic }) => topic))
    for (const log of isExact ? [] : broker.logs.values())
      if (topics.has(log.topic) && !this.positions.has(nameOf(log))) this.positions.set(nameOf(log), 0)
    setImmediate(() => this.assigned())
  }

  assigned(): void {
    if (this.isClosed) return
    this.#isAssigned = true
    this.taker.assigned(
      [...this.positions].map(([name, offset]) => {
        const [topic, partition] = name.split(':')
        return { topic: topic!, partition: Number(partition), offset }
      })
    )
    this.pump()
  }

  pump(): void {
    if (this.#broker.isHeld || !this.#isAssigned) return
    for (const log of this.#broker.logs.values()) {
      const name = nameOf(log)
      const position = this.positions.get(name)
      if (this.isClosed || position === undefined || this.paused.has(name)) continue
      if (position < log.low) {
        this.positions.set(name, log.low)
        this.taker.gap(log, position, log.low)
      }
      const from = this.positions.get(name)!
      const records = log.records.filter(({ offset }) => offset >= from).slice(0, this.#broker.fetch)
      if (records.length === 0) continue
      this.positions.set(name, records.at(-1)!.offset + 1)
      this.taker.records(log, records, log.high)
      setImmediate(() => this.pump())
    }
  }

  pause(place: Place): void {
    this.paused.add(nameOf(place))
  }
  resume(place: Place): void {
    this.paused.delete(nameOf(place))
    setImmediate(() => this.pump())
  }
  commit(): Promise<void> {
    return Promise.resolve()
  }
  close(): Promise<void> {
    this.isClosed = true
    this.#broker.readings.delete(this)
    return Promise.resolve()
  }
}

/** A broker of logs in memory, told by hand when something comes, is gone or fails. */
export class LogBroker implements Broker {
  readonly name = 'fake'
  readonly logs = new Map<string, Log>()
  readonly readings = new Set<LogReading>()
  /** Records of one answer. */
  fetch = 100
  /** Nothing is brought to anybody. */
  isHeld = false
  isUp = true
  /** Of `spans` and `positionsAt`. */
  fault: string | null = null
  /** Of every record from now on. */
  timestamp = 1000
  reads = 0

  constructor(partitions = 1, topic = 't') {
    for (let partition = 0; partition < partitions; partition++) this.grow(partition, topic)
  }

  grow(partition: number, topic = 't'): void {
    this.logs.set(`${topic}:${partition}`, { topic, partition, low: 0, high: 0, records: [] })
    for (const reading of this.readings) {
      if (reading.isExact) continue
      reading.positions.set(`${topic}:${partition}`, 0)
      reading.assigned()
    }
  }

  /** Appends values, each as a text or with a key. */
  put(partition: number, ...values: (string | readonly [key: string | null, value: string])[]): void {
    this.append(partition, values)
    this.pump()
  }

  append(
    partition: number,
    values: readonly (string | readonly [key: string | null, value: string])[],
    topic = 't'
  ): void {
    const log = this.logs.get(`${topic}:${partition}`)!
    for (const one of values) {
      const [key, value] = typeof one === 'string' ? [null, one] : one
      log.records.push({
        topic,
        partition,
        offset: log.high++,
        timestamp: this.timestamp,
        key: key === null ? null : Buffer.from(key),
        value: Buffer.from(value),
        headers: []
      })
    }
  }

  /** An offset that holds no record: the mark of a transaction. */
  mark(partition: number): void {
    this.logs.get(`t:${partition}`)!.high++
  }

  /** History below this is gone. */
  truncate(partition: number, low: number): void {
    const log = this.logs.get(`t:${partition}`)!
    log.low = low
    log.records = log.records.filter(({ offset }) => offset >= low)
  }

  /** The topic was deleted and made again: who reads goes back to its beginning. */
  remake(): void {
    for (const log of this.logs.values()) Object.assign(log, { low: 0, high: 0, records: [] })
    for (const reading of [...this.readings]) {
      for (const name of reading.positions.keys()) reading.positions.set(name, 0)
      reading.assigned()
    }
  }

  pump(): void {
    for (const reading of [...this.readings]) reading.pump()
  }

  state(): BrokerState {
    return { isUp: this.isUp, fault: this.isUp ? null : 'down' }
  }
  onState(): () => void {
    return () => {}
  }
  spans(topic: string): Promise<readonly Span[]> {
    if (this.fault !== null) return Promise.reject(new Error(this.fault))
    return Promise.resolve([...this.logs.values()].filter(log => log.topic === topic).map(log => ({ ...log })))
  }
  positionsAt(topic: string, ms: number): Promise<readonly Position[]> {
    if (this.fault !== null) return Promise.reject(new Error(this.fault))
    const logs = [...this.logs.values()].filter(log => log.topic === topic)
    return Promise.resolve(
      logs.map(({ records, high, partition }) => ({
        topic,
        partition,
        offset: records.find(({ timestamp }) => timestamp >= ms)?.offset ?? high
      }))
    )
  }
  read(from: readonly Position[], isExact: boolean, to: Taker): Reading {
    this.reads++
    const reading = new LogReading(this, to, from, isExact)
    this.readings.add(reading)
    return reading
  }
  produce(): Promise<never> {
    return Promise.reject(new Error('not of this test'))
  }
  partitions(): number {
    return this.logs.size
  }
  join(): Reading {
    throw new Error('a broadcast joins no group')
  }
  createTopic(): Promise<void> {
    return Promise.resolve()
  }
  close(): Promise<void> {
    return Promise.resolve()
  }
}

export const format: Format = { encode: ({ record }) => record.value ?? Buffer.alloc(0) }

/** Keeps what it gets; has room for `room` more. */
export class Listener implements Client {
  readonly transport: Client['transport']
  readonly format = format
  readonly wants: Client['wants']
  readonly items: Item[] = []
  /** The values, and in between `gap:COUNT`. */
  readonly got: string[] = []
  readonly gaps: { readonly items: number; readonly cursor: string }[] = []
  readonly joins: Buffer[] = []
  readonly ended: Ending[] = []
  /** The newest event id. */
  id: string | null = null
  room = Number.POSITIVE_INFINITY
  /** Tells at once that what it takes is written. */
  writes = true
  flushed = 0
  seat: Seat | null = null

  constructor(more: { transport?: Client['transport']; wants?: Client['wants']; room?: number } = {}) {
    this.transport = more.transport ?? 'sse'
    this.wants = more.wants ?? null
    this.room = more.room ?? Number.POSITIVE_INFINITY
  }

  /** Joins, or answers the code of the refusal. */
  join(hub: Hub, from: From | null = null): string | null {
    const seat = hub.join(this, from)
    if ('code' in seat) return seat.code
    this.seat = seat
    return null
  }
  hasRoom(): boolean {
    return this.room > 0
  }
  take(item: Item): void {
    this.#needsRoom()
    this.#took(item)
    if (this.writes) this.seat!.written(1)
  }
  takeAll(batch: Batch): void {
    this.#needsRoom()
    this.joins.push(batch.joined(this.format))
    for (const item of batch.items) this.#took(item)
    if (this.writes) this.seat!.written(batch.items.length)
  }
  flush(): void {
    this.flushed++
  }
  gap(items: number, cursor: string): void {
    this.gaps.push({ items, cursor })
    this.got.push(`gap:${items}`)
    this.id = cursor
  }
  close(why: Ending): void {
    this.ended.push(why)
    this.seat!.leave()
  }
  /** It has room for so many more. */
  open(room = Number.POSITIVE_INFINITY): void {
    this.room = room
    this.seat!.ready()
  }
  #needsRoom(): void {
    if (this.room <= 0) throw new Error('taken without room')
  }
  #took(item: Item): void {
    this.room--
    this.items.push(item)
    this.got.push(String(item.record.value))
    this.id = item.cursor ?? this.id
  }
}

export interface Stand<B extends Broker = LogBroker> {
  readonly hub: Hub
  readonly broker: B
  readonly clock: CountingClock
  readonly budget: Budget
}

type More = Partial<Omit<HubGiven, 'options' | 'settings'>> & {
  readonly options?: Partial<DeliveryOptions>
  readonly readers?: number
  readonly idleLeave?: number
  readonly topics?: readonly string[]
}

const quiet = () => {}

export function stand<B extends Broker>(
  broker: B,
  { options, readers = 16, idleLeave = 5, topics = ['t'], ...more }: More = {}
): Stand<B> {
  const clock = countingClock()
  const budget = more.budget ?? new Budget(1e9)
  const joining: Joining = {
    topics,
    group: '',
    start: 'latest',
    isolation: 'read_committed',
    sessionMs: 30_000,
    heartbeatMs: 3000,
    rebalanceMs: 60_000,
    rackId: ''
  }
  const hub = broadcastHub({
    sources: [{ broker, joining }],
    options: { ...deliveryOptions({ mode: 'broadcast' }), ...options },
    commitMs: 1000,
    bufferMessages: 5000,
    bufferBytes: 4_194_304,
    checkpointLimit: 1024,
    process: [],
    deadLetter: null,
    settings: { idle_leave: idleLeave, catch_up_readers: readers } as HubGiven['settings'],
    secret: Buffer.alloc(32, 7),
    clock,
    log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
    random: { bytes: count => Buffer.alloc(count) },
    api: 'a',
    stream: 's',
    ...more,
    budget
  })
  return { hub, broker, clock, budget }
}

/** A stand whose hub reads already, for a first client. */
export async function running(broker: LogBroker, more: More = {}): Promise<Stand & { readonly first: Listener }> {
  const made = stand(broker, more)
  const first = new Listener()
  first.join(made.hub)
  await until(() => made.hub.status().state === 'active')
  await turns()
  return { ...made, first }
}

export const numbers = (count: number, from = 0): string[] => Array.from({ length: count }, (_, i) => String(from + i))

/** All that waits or is kept. */
export const bytesOf = ({ used, windows }: Budget): number => used + windows.used
