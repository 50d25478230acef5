import type { Fields } from '../../../config/world.ts'
import type { Broker, BrokerState, Joining, Place, Position, Reading, Span, Taker } from '../../../streams/broker.ts'
import { Budget } from '../../../streams/budget.ts'
import { groupHub } from '../../../streams/hub/groupHub.ts'
import type { Client, Ending, Format, Hub, HubGiven, Item, Seat } from '../../../streams/hub/hub.ts'
import type { Arrived } from '../../../streams/message.ts'
import { type DeliveryOptions, deliveryOptions } from '../../../streams/options.ts'
import { type HandClock, handClock } from '../../helpers/clock.ts'

/** A clock by hand that tells how many timers wait. */
export interface CountingClock extends HandClock {
  readonly pending: number
}

export function countingClock(): CountingClock {
  const clock = handClock()
  const waiting = new Set<object>()
  return {
    ...clock,
    get pending() {
      return waiting.size
    },
    after(ms, run) {
      const timer = {}
      waiting.add(timer)
      const cancel = clock.after(ms, () => {
        waiting.delete(timer)
        run()
      })
      return () => {
        waiting.delete(timer)
        cancel()
      }
    }
  }
}

/** Lets the event loop turn until whatever was started by now has run: slices are one turn each. */
export async function turns(count = 6): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise<void>(resolve => setImmediate(resolve))
}

/** One membership that a hub asked for. */
export class FakeReading implements Reading {
  readonly taker: Taker
  readonly paused = new Set<number>()
  readonly positions = new Map<number, number>()
  isClosed = false
  readonly #broker: FakeBroker

  constructor(taker: Taker, broker: FakeBroker) {
    this.taker = taker
    this.#broker = broker
  }

  pause({ partition }: Place): void {
    this.paused.add(partition)
  }

  resume({ partition }: Place): void {
    this.paused.delete(partition)
  }

  async commit(positions: readonly Position[]): Promise<void> {
    await this.#broker.beforeCommit()
    for (const { partition, offset } of positions) {
      this.#broker.commits.push(`${partition}:${offset}`)
      this.#broker.committed.set(partition, offset)
    }
  }

  async close(): Promise<void> {
    this.isClosed = true
    await this.#broker.beforeClose()
  }
}

/** A broker of one topic whose group is led by hand. */
export class FakeBroker implements Broker {
  readonly name = 'fake'
  readonly readings: FakeReading[] = []
  readonly logs = new Map<number, Arrived[]>()
  readonly committed = new Map<number, number>()
  readonly commits: string[] = []
  beforeCommit: () => Promise<void> = async () => {}
  beforeClose: () => Promise<void> = async () => {}
  fault: string | null = null
  joinings: Joining[] = []

  get reading(): FakeReading {
    return this.readings.at(-1)!
  }

  join(how: Joining, to: Taker): Reading {
    this.joinings.push(how)
    const reading = new FakeReading(to, this)
    this.readings.push(reading)
    return reading
  }

  /** From now on these partitions; those that stay go on where they were, others at their commit. */
  assign(...partitions: number[]): void {
    const { positions, taker } = this.reading
    const kept = new Map(positions)
    positions.clear()
    for (const partition of partitions)
      positions.set(partition, kept.get(partition) ?? this.committed.get(partition) ?? 0)
    taker.assigned([...positions].map(([partition, offset]) => ({ topic: 't', partition, offset })))
  }

  append(partition: number, ...messages: (string | { key: string | null; value: string })[]): void {
    const log = this.logs.get(partition) ?? []
    this.logs.set(partition, log)
    for (const message of messages) {
      const { key, value } = typeof message === 'string' ? { key: null, value: message } : message
      log.push({
        key: key === null ? null : Buffer.from(key),
        value: Buffer.from(value),
        headers: [],
        topic: 't',
        partition,
        offset: log.length,
        timestamp: 0
      })
    }
  }

  /** Brings what is not paused, at most so many records of each partition. */
  pump(most = Number.POSITIVE_INFINITY): void {
    const { positions, paused, taker, isClosed } = this.reading
    if (isClosed) return
    for (const [partition, position] of positions) {
      const log = this.logs.get(partition) ?? []
      if (paused.has(partition) || position >= log.length) continue
      const records = log.slice(position, position + most)
      positions.set(partition, position + records.length)
      taker.records({ topic: 't', partition }, records, log.length)
    }
  }

  async produce(): Promise<never> {
    throw new Error('not of this test')
  }
  partitions(): number {
    return this.logs.size
  }
  async spans(): Promise<readonly Span[]> {
    return [...this.logs].map(([partition, { length }]) => ({ topic: 't', partition, low: 0, high: length }))
  }
  async positionsAt(): Promise<readonly Position[]> {
    return []
  }
  read(): Reading {
    throw new Error('not of this test')
  }
  state(): BrokerState {
    return { isUp: this.fault === null, fault: this.fault }
  }
  onState(): () => void {
    return () => {}
  }
  async createTopic(): Promise<void> {}
  async close(): Promise<void> {}
}

const format: Format = { encode: ({ record }) => record.value ?? Buffer.alloc(0) }

/** A client that has room for `room` messages that it has not written. */
export class FakeClient implements Client {
  readonly transport: Client['transport'] = 'sse'
  readonly format = format
  readonly items: Item[] = []
  /** Of each when it was taken: what is delivered once more has another one. */
  readonly cursors: string[] = []
  readonly closed: Ending[] = []
  wants: Client['wants'] = null
  room: number
  unwritten = 0
  flushes = 0
  seat!: Seat
  leavesWhenClosed = true
  /** Writes what it takes at once, as a socket that is not full. */
  writes = false

  constructor(room = Number.POSITIVE_INFINITY) {
    this.room = room
  }

  get values(): string[] {
    return this.items.map(({ record }) => String(record.value))
  }

  join(hub: Hub): this {
    const seat = hub.join(this, null)
    if ('code' in seat) throw new Error(seat.code)
    this.seat = seat
    return this
  }

  hasRoom(): boolean {
    return this.unwritten < this.room
  }

  take(item: Item): void {
    this.items.push(item)
    this.cursors.push(item.cursor!)
    this.unwritten++
    if (this.writes) this.write(1)
  }

  takeAll(): void {
    throw new Error('not in a group')
  }

  flush(): void {
    this.flushes++
  }

  gap(): void {}

  close(why: Ending): void {
    this.closed.push(why)
    if (this.leavesWhenClosed) this.seat.leave()
  }

  /** The next so many of what it took are written. */
  write(count: number): void {
    const wasFull = !this.hasRoom()
    this.unwritten -= count
    this.seat.written(count)
    if (wasFull) this.seat.ready()
  }
}

export interface Stage {
  readonly hub: Hub
  readonly broker: FakeBroker
  readonly clock: CountingClock
  readonly budget: Budget
  readonly lines: (Fields & { readonly msg: string })[]
}

export interface Differences extends Partial<Omit<HubGiven, 'options' | 'settings'>> {
  readonly options?: Partial<DeliveryOptions>
  readonly start?: Joining['start']
  readonly idleLeave?: number
}

/** A hub on a fake broker. */
export function stage({ options, start = 'earliest', idleLeave = 5, ...more }: Differences = {}): Stage {
  const broker = new FakeBroker()
  const clock = countingClock()
  const lines: (Fields & { readonly msg: string })[] = []
  const line = (msg: string, fields: Fields = {}) => void lines.push({ ...fields, msg })
  const joining: Joining = {
    topics: ['t'],
    group: 'g',
    start,
    isolation: 'read_committed',
    sessionMs: 30_000,
    heartbeatMs: 3000,
    rebalanceMs: 60_000,
    rackId: ''
  }
  const budget = more.budget ?? new Budget(1e9)
  const hub = groupHub({
    sources: [{ broker, joining }],
    options: { ...deliveryOptions({}), ...options },
    commitMs: 1000,
    bufferMessages: 5000,
    bufferBytes: 4_194_304,
    checkpointLimit: 1024,
    process: [],
    deadLetter: null,
    settings: { idle_leave: idleLeave } as HubGiven['settings'],
    secret: Buffer.alloc(32),
    clock,
    log: { debug: line, info: line, warn: line, error: line },
    random: { bytes: count => Buffer.alloc(count) },
    api: 'a',
    stream: 's',
    ...more,
    budget
  })
  return { hub, broker, clock, budget, lines }
}

/** A hub with these clients, which reads these partitions. */
export function active(clients: readonly FakeClient[], differences: Differences = {}, partitions = [0]): Stage {
  const made = stage(differences)
  for (const client of clients) client.join(made.hub)
  made.broker.assign(...partitions)
  return made
}

export const numbers = (count: number, from = 0): string[] => Array.from({ length: count }, (_, i) => String(from + i))
