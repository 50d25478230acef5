import { byteCount, streamMs } from '../../config/duration.ts'
import { KafkaOutput } from '../../config/shape/stream.ts'
import { pointer } from '../../config/validate.ts'
import type { Broker } from '../broker.ts'
import type { Call } from '../call.ts'
import type { Connector, ConnectorTools, Fault, Output, OutputKind } from '../connector.ts'
import { type Message, type MessageHeaders, type Placed, sizeOf } from '../message.ts'
import { type Template, template } from '../processors/template.ts'
import { Undelivered } from '../undelivered.ts'
import { Batches, type Outgoing } from './batches.ts'
import { checkServers, checkSpan, checkTemplate, isTopic } from './kafkaOptions.ts'
import { type Partitioner, partitioner } from './partitioner.ts'
import { createdTopic } from './topicCreation.ts'

/** What `sizeOf` counts for what stands around a message. */
const AROUND = 64
const PARTITION = /^\d{1,9}$/
/** Of one topic: each costs the broker files and memory. */
const MOST_PARTITIONS = 10_000
/** Kafka counts them in 16 bits. */
const MOST_REPLICAS = 32_767

/** Messages go to a topic; where each went is the answer. */
export const kafkaOutput: OutputKind = {
  name: 'kafka',
  shape: KafkaOutput,

  check(options, fault) {
    const given = options as KafkaOutput
    checkServers(given, fault)
    checkTopic(given, fault)
    checkCreation(given.custom_topic_creation, fault)
    if (given.key !== undefined) checkTemplate('/key', given.key, fault)
    checkPartition(given, fault)
    for (const [name, text] of Object.entries(given.static_headers ?? {})) {
      const place = `/static_headers/${pointer(name)}`
      if (name === '') fault(place, 'is no name of a header')
      checkTemplate(place, text, fault)
    }
    checkSpan('/timeout', given.timeout, fault)
    if (given.batching?.period !== undefined && given.batching.period !== '')
      checkSpan('/batching/period', given.batching.period, fault)
    if (given.max_msg_bytes !== undefined && byteCount(given.max_msg_bytes) < 1)
      fault('/max_msg_bytes', 'must be 1 or more')
    if (given.idempotent_write === true && given.ack_replicas === false)
      fault('/idempotent_write', 'needs ack_replicas: the broker knows repeats only of what all replicas have')
  },

  open: (connector, tools) => new Sink(connector, tools)
}

function checkTopic({ topic, custom_topic_creation }: KafkaOutput, fault: Fault): void {
  const read = checkTemplate('/topic', topic, fault)
  if (read === null) return
  // The sender of a message chooses what is in it: it shall not choose where the message goes.
  if (read.needsMessage) fault('/topic', 'may hold $svc_meta.NAME and $svc_context.NAME, no expressions')
  else if (!read.needsCall && !isTopic(topic)) fault('/topic', 'is no name of a topic')
  if (read.needsCall && custom_topic_creation?.enabled === true)
    fault('/custom_topic_creation', 'needs a topic without variables')
}

function checkPartition({ partitioner, partition = '' }: KafkaOutput, fault: Fault): void {
  if (partitioner === 'manual' && partition === '') fault('/partition', 'is required with the partitioner manual')
  if (partitioner !== 'manual' && partition !== '') fault('/partition', 'has its place with the partitioner manual')
  const read = checkTemplate('/partition', partition, fault)
  if (read === null || read.needsCall || read.needsMessage || partition === '') return
  if (!PARTITION.test(partition)) fault('/partition', 'must be an integer of 0 or more')
}

function checkCreation(given: KafkaOutput['custom_topic_creation'], fault: Fault): void {
  for (const [name, most] of [
    ['partitions', MOST_PARTITIONS],
    ['replication_factor', MOST_REPLICAS]
  ] as const) {
    const count = given?.[name]
    if (count === undefined) continue
    const place = `/custom_topic_creation/${name}`
    if (given?.enabled !== true) fault(place, 'says nothing without enabled: true')
    else if (count === 0 || count > most) fault(place, `must be 1 to ${most}, or -1 for the broker’s default`)
  }
}

interface StaticHeader {
  readonly name: string
  readonly text: Template
  /** When it is the same for all. */
  readonly value: Buffer | null
}

class Sink implements Output {
  readonly #broker: Broker
  readonly #clock: ConnectorTools['clock']
  readonly #topic: Template
  readonly #key: Template | null
  readonly #partition: Template | null
  readonly #partitioner: Partitioner
  readonly #staticHeaders: readonly StaticHeader[]
  readonly #staticNames: ReadonlySet<string>
  readonly #excluded: readonly string[]
  readonly #mostInFlight: number
  readonly #mostBytes: number
  readonly #timeoutMs: number
  readonly #how: Pick<Parameters<Broker['produce']>[0], 'acks' | 'compression' | 'isIdempotent'>
  readonly #batches: Batches | null
  readonly #creation: ReturnType<typeof createdTopic> | null
  #inFlight = 0
  #isClosed = false
  /** Set while `close` waits for what is under way. */
  #idle: (() => void) | null = null

  constructor(connector: Connector, tools: ConnectorTools) {
    const given = connector.options as KafkaOutput
    const { clock, random } = tools
    this.#broker = tools.broker(given)
    this.#clock = clock
    this.#topic = template(given.topic)
    this.#key = given.key === undefined || given.key === '' ? null : template(given.key)
    this.#partition = given.partitioner === 'manual' ? template(given.partition ?? '') : null
    const name = given.partitioner ?? 'fnv1a_hash'
    this.#partitioner = partitioner(name === 'manual' ? 'random' : name, random)
    this.#staticHeaders = Object.entries(given.static_headers ?? {}).map(([name, text]) => {
      const read = template(text)
      return { name, text: read, value: read.needsMessage || read.needsCall ? null : Buffer.from(text) }
    })
    this.#staticNames = new Set(this.#staticHeaders.map(({ name }) => name.toLowerCase()))
    // Names of headers come in lower case.
    this.#excluded = (given.metadata?.exclude_prefixes ?? []).map(prefix => prefix.toLowerCase())
    this.#mostInFlight = given.max_in_flight ?? 10_000
    this.#mostBytes = byteCount(given.max_msg_bytes ?? 1_000_000)
    this.#timeoutMs = streamMs(given.timeout ?? '5s')
    this.#how = {
      acks: (given.ack_replicas ?? true) ? 'all' : 'leader',
      compression: given.compression ?? 'none',
      isIdempotent: given.idempotent_write ?? false
    }
    this.#batches = this.#batching(given.batching)
    const { enabled, partitions = -1, replication_factor = -1 } = given.custom_topic_creation ?? {}
    this.#creation = enabled ? createdTopic(this.#broker, given.topic, partitions, replication_factor, tools) : null
  }

  send(messages: readonly Message[], call: Call | null, deadline: number): Promise<readonly Placed[]> {
    try {
      return this.#send(messages, call, deadline)
    } catch (cause) {
      return Promise.reject(cause)
    }
  }

  fault(): string | null {
    const { isUp, fault } = this.#broker.state()
    return this.#creation?.fault() ?? fault ?? (isUp ? null : 'the broker is not there')
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#creation?.close()
    this.#batches?.flush()
    // Each has a deadline, so this comes to an end.
    if (this.#inFlight > 0)
      await new Promise<void>(resolve => {
        this.#idle = resolve
      })
    await this.#broker.close()
  }

  #send(messages: readonly Message[], call: Call | null, deadline: number): Promise<readonly Placed[]> {
    const count = messages.length
    if (count === 0) return Promise.resolve([])
    if (this.#isClosed) throw new Undelivered('unavailable', 'the output is closed')
    // What alone is more than the bound goes when nothing else is under way.
    if (this.#inFlight > 0 && this.#inFlight + count > this.#mostInFlight)
      throw new Undelivered('busy', `more than ${this.#mostInFlight} messages are under way`)
    const topic = this.#topic(null, call)
    // Of topics that variables name, those of the broker itself are left out.
    if (this.#topic.needsCall && (!isTopic(topic) || topic.startsWith('__')))
      throw new Undelivered('invalid', 'the variables give no name of a topic')
    const until = Math.min(deadline, this.#clock.now() + this.#timeoutMs)
    this.#inFlight += count
    let produced: Promise<readonly Placed[]>
    let isWithBroker = false
    const produce = (partitions: number) => {
      const made = this.#outgoing(messages, call, partitions)
      isWithBroker = true
      return this.#produce(topic, made, until)
    }
    try {
      const partitions = this.#broker.partitions(topic)
      produced = typeof partitions === 'number' ? produce(partitions) : partitions.then(produce)
    } catch (cause) {
      this.#ended(count)
      throw cause
    }
    return produced.then(
      placed => {
        this.#ended(count)
        return placed
      },
      cause => {
        this.#ended(count)
        throw isWithBroker ? foreign(cause) : cause
      }
    )
  }

  #produce(topic: string, messages: readonly Outgoing[], deadline: number): Promise<readonly Placed[]> {
    if (this.#batches !== null) return this.#batches.add(topic, messages, deadline)
    return this.#now(topic, messages, deadline)
  }

  #now(topic: string, messages: readonly Outgoing[], deadline: number): Promise<readonly Placed[]> {
    const { acks, compression, isIdempotent } = this.#how
    return this.#broker.produce({ topic, messages, acks, compression, isIdempotent, deadline })
  }

  #outgoing(messages: readonly Message[], call: Call | null, partitions: number): Outgoing[] {
    if (partitions < 1) throw new Undelivered('misconfigured', 'the topic has no partition')
    this.#partitioner.turn()
    const made: Outgoing[] = new Array(messages.length)
    for (let i = 0; i < messages.length; i++) made[i] = this.#one(messages[i]!, call, partitions)
    return made
  }

  #one(message: Message, call: Call | null, partitions: number): Outgoing {
    const key = this.#key === null ? message.key : keyOf(this.#key(message, call))
    const headers =
      this.#staticHeaders.length === 0 && this.#excluded.length === 0 ? message.headers : this.#headers(message, call)
    const partition =
      this.#partition === null
        ? this.#partitioner.pick(key, partitions)
        : partitionOf(this.#partition(message, call), partitions)
    const made = { key, value: message.value, headers, partition }
    if (sizeOf(made) - AROUND > this.#mostBytes)
      throw new Undelivered('too_large', `a message is longer than ${this.#mostBytes} bytes`)
    return made
  }

  #headers(message: Message, call: Call | null): MessageHeaders {
    const made = message.headers.filter(([given]) => {
      const name = given.toLowerCase()
      return !this.#staticNames.has(name) && this.#excluded.every(prefix => !name.startsWith(prefix))
    })
    for (const { name, text, value } of this.#staticHeaders)
      made.push([name, value ?? Buffer.from(text(message, call))])
    return made
  }

  #batching(given: KafkaOutput['batching']): Batches | null {
    const { count = 0, byte_size = 0, period = '' } = given ?? {}
    const bounds = {
      count: count === 0 ? Number.POSITIVE_INFINITY : count,
      bytes: byte_size === 0 ? Number.POSITIVE_INFINITY : byte_size,
      periodMs: streamMs(period)
    }
    if (count === 1 || (count === 0 && byte_size === 0 && bounds.periodMs === 0)) return null
    return new Batches(bounds, this.#clock, (topic, messages, deadline) => this.#now(topic, messages, deadline))
  }

  #ended(count: number): void {
    this.#inFlight -= count
    if (this.#inFlight === 0) this.#idle?.()
  }
}

/** What a broker says of a message may name what its sender shall not know. */
function foreign(cause: unknown): unknown {
  if (!(cause instanceof Undelivered) || cause.reason !== 'invalid') return cause
  return new Undelivered('invalid', cause.message, { cause, each: cause.each, isForeign: true })
}

/** An empty text is no key. */
function keyOf(text: string): Buffer | null {
  return text === '' ? null : Buffer.from(text)
}

function partitionOf(text: string, partitions: number): number {
  const partition = PARTITION.test(text) ? Number(text) : -1
  if (partition >= 0 && partition < partitions) return partition
  throw new Undelivered('invalid', `the partition must be an integer from 0 to ${partitions - 1}`)
}
