import type { StreamingSettings } from '../../config/settings.ts'
import type { Clock, Log } from '../../config/world.ts'
import type { Broker, BrokerState, Joining, Position, Produce, Reading, Span, Taker } from '../broker.ts'
import type { Placed } from '../message.ts'
import { sizeOf } from '../message.ts'
import { Undelivered } from '../undelivered.ts'
import { DurableLoading, restore } from './durableLoading.ts'
import type { DurableLog } from './durableLog.ts'
import { DurableWriter } from './durableWriter.ts'
import { MemoryDelivery } from './memoryDelivery.ts'
import { MemoryGroups } from './memoryGroup.ts'
import type { Retention } from './memoryLog.ts'
import { LoneReader, MemoryReading } from './memoryReading.ts'
import { type MemoryTopic, MemoryTopics } from './memoryTopic.ts'

export interface MemoryGiven {
  /** NAME of `memory://NAME` */
  readonly name: string
  readonly settings: StreamingSettings['memory']
  /** Null: what is produced ends with the process. */
  readonly durable: DurableLog | null
  readonly clock: Clock
  readonly log: Log
}

/** Old records leave at least so often, ms; those that are read or written with leave at once. */
const sweepMs = 60_000

/**
 * A broker inside this process: topics are made on first use, the oldest records leave by the settings. Compression,
 * acknowledgement, idempotence, isolation, replicas and the times of groups have nothing to act on: nothing travels.
 */
export class MemoryBroker implements Broker {
  readonly name: string
  readonly #given: MemoryGiven
  readonly #retention: Retention
  readonly #topics: MemoryTopics
  readonly #groups: MemoryGroups
  readonly #delivery: MemoryDelivery
  readonly #readings = new Set<MemoryReading>()
  readonly #loners = new Map<MemoryReading, LoneReader>()
  readonly #listeners = new Set<(state: BrokerState) => void>()
  readonly #writer: DurableWriter | null
  /** Null: there is no durable log, or it has been read. */
  #loading: DurableLoading | null = null
  #recovery: DurableLoading | null = null
  #state: BrokerState = { isUp: true, fault: null }
  #cancelSweep: (() => void) | null = null
  #isClosed = false

  constructor(given: MemoryGiven) {
    const { name, settings, durable, clock } = given
    this.name = `memory://${name}`
    this.#given = given
    const { retention_messages: messages, retention_bytes: bytes, retention_age: age } = settings
    this.#retention = { messages, bytes, ageMs: age * 1000 }
    this.#topics = new MemoryTopics(this.#retention, settings.partitions)
    this.#groups = new MemoryGroups(topic => this.#topics.get(topic))
    this.#delivery = new MemoryDelivery(clock)
    this.#topics.onChange = (topic, before) => this.#grown(topic, before)
    this.#writer = durable === null ? null : this.#durable(durable)
    this.#groups.onForget = group => this.#writer?.forgotten(group)
  }

  produce(what: Produce): Promise<readonly Placed[]> {
    if (this.#loading !== null) return this.#loading.done(what.deadline).then(() => this.#produce(what))
    try {
      return this.#produce(what)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  partitions(topic: string): number | Promise<number> {
    if (this.#loading !== null) return this.#loading.done().then(() => this.#topic(topic).logs.length)
    return this.#topic(topic).logs.length
  }

  async spans(topic: string): Promise<readonly Span[]> {
    await this.#loading?.done()
    const now = this.#given.clock.now()
    return this.#topic(topic).logs.map(log => {
      log.trim(now)
      return { topic, partition: log.partition, low: log.low, high: log.high }
    })
  }

  async positionsAt(topic: string, ms: number): Promise<readonly Position[]> {
    await this.#loading?.done()
    const now = this.#given.clock.now()
    return this.#topic(topic).logs.map(log => {
      log.trim(now)
      return { topic, partition: log.partition, offset: log.firstAt(ms) }
    })
  }

  join(how: Joining, to: Taker): Reading {
    return this.#open(to, reading => {
      const group = this.#groups.get(how.group)
      reading.onClose = () => {
        this.#readings.delete(reading)
        group.leave(reading)
      }
      reading.onCommit = async positions => {
        try {
          group.commit(reading, positions)
        } finally {
          await this.#writer?.committed(group)
        }
      }
      group.join(how, reading)
    })
  }

  read(from: readonly Position[], isExact: boolean, to: Taker): Reading {
    return this.#open(to, reading => {
      const topics = [...new Set(from.map(({ topic }) => topic))].map(topic => this.#topics.get(topic))
      const loner = new LoneReader(from, isExact, reading)
      this.#loners.set(reading, loner)
      loner.begin(topics)
    })
  }

  state(): BrokerState {
    return this.#state
  }

  onState(listener: (state: BrokerState) => void): () => void {
    // Of its own: one function may listen twice.
    const own = (state: BrokerState) => listener(state)
    this.#listeners.add(own)
    return () => this.#listeners.delete(own)
  }

  async createTopic(name: string, partitions: number, _replicas: number): Promise<void> {
    await this.#loading?.done()
    if (this.#topics.has(name)) return
    await this.grow(name, partitions < 1 ? this.#given.settings.partitions : partitions)
  }

  /** The topic has at least so many partitions from now on. @throws Undelivered */
  async grow(name: string, partitions: number): Promise<void> {
    await this.#loading?.done()
    this.#mustBeOpen()
    this.#topics.make(name, partitions)
    await this.#writer?.flush()
  }

  /** Of that partition, everything below the offset is gone. @throws Undelivered */
  async truncate(name: string, partition: number, offset: number): Promise<void> {
    await this.#loading?.done()
    const topic = this.#topic(name)
    const log = topic.logs[partition]
    if (log === undefined) throw new Undelivered('invalid', `${name} has no partition ${partition}`)
    log.startAt(Math.min(offset, log.high))
    this.#writer?.changed(topic)
    await this.#writer?.flush()
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#cancelSweep?.()
    for (const reading of [...this.#readings]) await reading.close()
    this.#listeners.clear()
    // What is under way is still written; without a store that answers, that is given up.
    if (this.#state.isUp && this.#loading === null) await this.#writer?.flush().catch(() => {})
    this.#writer?.abandon('the broker is closed')
    this.#recovery?.close()
  }

  #produce({ topic: name, messages, deadline }: Produce): Promise<readonly Placed[]> {
    const topic = this.#topic(name)
    if (!this.#state.isUp) throw new Undelivered('unavailable', this.#state.fault!)
    const { logs } = topic
    for (let i = 0; i < messages.length; i++) {
      const message = messages[i]!
      if (logs[message.partition] === undefined)
        throw new Undelivered('invalid', `${name} has no partition ${message.partition}`)
      if (sizeOf(message) > this.#retention.bytes)
        throw new Undelivered('too_large', `a message of ${sizeOf(message)} bytes is more than a partition keeps`)
    }
    this.#sweepLater()
    if (messages.length === 0) return Promise.resolve([])
    if (this.#writer !== null) return this.#writer.produce(topic, messages, deadline)
    const now = this.#given.clock.now()
    const placed: Placed[] = []
    for (let i = 0; i < messages.length; i++) {
      const log = logs[messages[i]!.partition]!
      const { partition, offset, timestamp } = log.append(messages[i]!, now)
      log.trim(now)
      log.wake()
      placed.push({ topic: name, partition, offset, timestamp })
    }
    return Promise.resolve(placed)
  }

  #mustBeOpen(): void {
    if (this.#isClosed) throw new Undelivered('unavailable', 'the broker is closed')
  }

  #topic(name: string): MemoryTopic {
    this.#mustBeOpen()
    return this.#topics.get(name)
  }

  #open(taker: Taker, begin: (reading: MemoryReading) => void): Reading {
    const reading = new MemoryReading(taker, this.#delivery)
    this.#readings.add(reading)
    reading.onClose = () => {
      this.#readings.delete(reading)
      this.#loners.delete(reading)
    }
    const start = () => {
      if (reading.isClosed) return
      try {
        this.#mustBeOpen()
        begin(reading)
      } catch (error) {
        reading.tellState((error as Error).message)
      }
    }
    if (this.#loading === null) start()
    else this.#loading.after(start)
    return reading
  }

  #grown(topic: MemoryTopic, before: number): void {
    this.#writer?.changed(topic)
    for (const group of this.#groups.all()) group.grown(topic, before)
    for (const loner of this.#loners.values()) loner.grown(topic, before)
  }

  #sweepLater(): void {
    const { ageMs } = this.#retention
    if (ageMs === 0 || this.#cancelSweep !== null) return
    this.#cancelSweep = this.#given.clock.after(Math.min(sweepMs, ageMs), () => this.#sweep())
  }

  #sweep(): void {
    this.#cancelSweep = null
    const now = this.#given.clock.now()
    let held = 0
    for (const topic of this.#topics.all()) {
      for (const log of topic.logs) {
        log.trim(now)
        held += log.high - log.low
      }
      if (topic.logs.some(({ low, keptLow }) => low > keptLow)) this.#writer?.changed(topic)
    }
    if (held > 0) this.#sweepLater()
    this.#writer?.flush().catch(() => {})
  }

  #durable(durable: DurableLog): DurableWriter {
    const { name, clock, log } = this.#given
    const loading = new DurableLoading({
      name,
      durable,
      clock,
      failed: fault => {
        if (this.#state.fault !== fault) log.error('a broker is down', { broker: this.name, fault })
        this.#tell({ isUp: false, fault })
        // Later on, readers go on with what is in memory.
        if (this.#loading !== null) for (const reading of this.#readings) reading.tellState(fault)
      },
      loaded: kept => {
        restore(kept, this.#topics, this.#loading === null ? null : this.#groups, clock.now())
        if (this.#loading !== null && !this.#state.isUp) for (const reading of this.#readings) reading.tellState(null)
        this.#loading = null
        this.#tell({ isUp: true, fault: null })
        this.#sweepLater()
        writer.go()
      }
    })
    const writer = new DurableWriter(name, durable, clock, error => loading.again(error))
    this.#loading = loading
    this.#recovery = loading
    loading.begin()
    return writer
  }

  #tell(state: BrokerState): void {
    if (state.isUp === this.#state.isUp && state.fault === this.#state.fault) return
    this.#state = state
    // A listener may end itself, or another.
    for (const listener of [...this.#listeners]) if (this.#listeners.has(listener)) listener(state)
  }
}
