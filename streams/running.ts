import type { StreamingSettings } from '../config/settings.ts'
import type { HttpServerInput, HttpServerOutput, KafkaInput } from '../config/shape/stream.ts'
import type { Clock, Log, Random } from '../config/world.ts'
import type { Broker } from './broker.ts'
import type { Brokers } from './brokers/brokers.ts'
import type { Budget } from './budget.ts'
import type { Call } from './call.ts'
import { inputs, outputs, processors } from './catalogue.ts'
import type { Clients } from './clients/clients.ts'
import type { Connections } from './connections.ts'
import type { Connector, ConnectorTools, Deliver, Input, Output, Process, Step } from './connector.ts'
import { totalOf } from './connectors/brokerInput.ts'
import { bufferOf, joiningOf } from './connectors/kafkaInput.ts'
import { added, Delivery } from './delivery.ts'
import { readsKafkaAlone } from './document/rules.ts'
import type { Ending, HubStatus, Source } from './hub/hub.ts'
import type { SharedHubs } from './hub/sharedHubs.ts'
import { deliveryOptions, producerOptions } from './options.ts'
import type { Endpoint, StreamPlan } from './plan.ts'
import { passing, processed } from './processors/passing.ts'
import { template } from './processors/template.ts'
import { type Producer, producer } from './produce/producer.ts'
import type { Remembered } from './produce/remembered.ts'
import type { StreamingApi, StreamStatus } from './streams.ts'
import { Undelivered } from './undelivered.ts'

export interface RunningTools {
  readonly settings: StreamingSettings
  readonly clock: Clock
  readonly log: Log
  readonly random: Random
  readonly budget: Budget
  readonly brokers: Brokers
  readonly connections: Connections
  readonly clients: Clients
  readonly remembered: Remembered
  readonly hubs: SharedHubs
  /** A secret of this installation for one purpose. */
  readonly secret: (purpose: string) => Buffer
}

/** How long a source that runs by itself waits for one delivery; then it tries again. */
const DELIVER_MS = 30_000

/** One stream of one API, from its start to its end. */
export class RunningStream {
  readonly plan: StreamPlan
  readonly #api: string
  readonly #org: string
  readonly #tools: RunningTools
  readonly #producers: Producer[] = []
  readonly #deliveries: Delivery[] = []
  readonly #inputs: Input[] = []
  readonly #outputs: Output[] = []
  readonly #brokers: Broker[] = []
  readonly #connectors: ConnectorTools
  #delivered = 0

  constructor(plan: StreamPlan, { id: api, orgId: org }: Pick<StreamingApi, 'id' | 'orgId'>, tools: RunningTools) {
    const { clock, log, random, brokers } = tools
    this.plan = plan
    this.#api = api
    this.#org = org
    this.#tools = tools
    this.#connectors = {
      clock,
      log,
      random,
      api,
      stream: plan.name,
      broker: options => this.#opened(brokers.get(options, org)),
      output: connector => this.#output(connector),
      input: (connector, deliver) => this.#input(connector, deliver)
    }
    const { input, output } = plan
    if (output.kind === 'http_server' && readsKafkaAlone(input)) this.#connect(input, output)
    else {
      const opened = this.#kept(this.#outputs, this.#open(output))
      const deliver = this.#through([...plan.processors, ...output.processors], opened)
      this.#inputs.push(this.#input(input, deliver, processed(opened, output.processors.map(made))))
    }
  }

  /** Answers the call, one way or another. */
  handle({ kind, of }: Pick<Endpoint, 'kind' | 'of'>, call: Call): void {
    if (kind === 'produce') this.#producers[of]!.post(call)
    else if (kind === 'produce_websocket') this.#producers[of]!.websocket(call)
    else this.#deliveries[of]!.serve(kind, call)
  }

  status(): StreamStatus {
    const hub = this.#deliveries.map(delivery => delivery.status()).reduce<HubStatus | null>(sum, null)
    const fault = [...this.#inputs, ...this.#outputs].map(each => each.fault()).find(each => each !== null) ?? null
    const { delivered = 0, queued = 0, redelivered = 0, dropped = 0, lag = 0, partitions = 0 } = hub ?? {}
    const relayed = totalOf(this.#inputs)
    return {
      api_id: this.#api,
      stream: this.plan.name,
      state: fault === null ? (hub?.state ?? 'active') : 'degraded',
      mode: this.#deliveries[0]?.mode ?? (this.#producers.length > 0 ? 'produce' : 'relay'),
      clients: hub?.clients ?? { sse: 0, websocket: 0, poll: 0 },
      produced: this.#producers.reduce((sum, { produced }) => sum + produced(), 0),
      delivered: hub === null ? this.#delivered : delivered,
      queued,
      redelivered: redelivered + relayed.redelivered,
      dropped: dropped + relayed.dropped,
      lag: lag < 0 ? lag : lag + relayed.lag,
      partitions: partitions + relayed.partitions,
      last_error: fault ?? hub?.lastError ?? null
    }
  }

  /** From the sources on: what is under way comes to its end, then the brokers are given back. */
  async close(why: Ending, spreadMs: number): Promise<void> {
    await this.#all('inputs', [
      ...this.#inputs.map(input => input.close()),
      ...this.#producers.map(each => each.close(why, spreadMs)),
      ...this.#deliveries.map(delivery => delivery.close(why, spreadMs))
    ])
    await this.#all(
      'outputs',
      this.#outputs.map(output => output.close())
    )
    await this.#all(
      'brokers',
      this.#brokers.map(broker => broker.close())
    )
  }

  async #all(what: string, closings: readonly Promise<void>[]): Promise<void> {
    for (const closed of await Promise.allSettled(closings))
      if (closed.status === 'rejected')
        this.#tools.log.error('a stream did not close cleanly', {
          api_id: this.#api,
          stream: this.plan.name,
          what,
          cause: String(closed.reason)
        })
  }

  /** Kafka straight to clients: commits follow what the clients have. */
  #connect(input: Connector, output: Connector): void {
    const sources = flat(input).map((connector): Source & { options: KafkaInput } => {
      const options = connector.options as KafkaInput
      const broker = this.#opened(this.#tools.brokers.get(options, this.#org))
      return { broker, joining: joiningOf(options, this.#group()), options }
    })
    const steps = [...input.processors, ...this.plan.processors, ...output.processors]
    this.#deliver(output, sources, least(sources.map(({ options }) => bufferOf(options))), steps)
  }

  #deliver(
    { options }: Connector,
    sources: readonly Source[],
    buffer: ReturnType<typeof bufferOf>,
    steps: readonly Step[]
  ): void {
    const { settings, clock, log, random, budget, clients, secret, hubs } = this.#tools
    const given = deliveryOptions(options as HttpServerOutput)
    const start = given.start === 'earliest' || given.start === 'latest' ? given.start : null
    this.#deliveries.push(
      new Delivery({
        sources: sources.map(({ broker, joining }) => ({
          broker,
          joining: start === null ? joining : { ...joining, start }
        })),
        options: given,
        ...buffer,
        process: steps.map(made),
        steps,
        settings,
        budget,
        secret: secret(`cursor ${this.#api}`),
        clock,
        log,
        random,
        api: this.#api,
        stream: this.plan.name,
        clients,
        hubs
      })
    )
  }

  #output(connector: Connector): Output {
    return processed(this.#open(connector), connector.processors.map(made))
  }

  #open(connector: Connector): Output {
    const { kind } = connector
    return kind === 'http_server' ? this.#feed(connector) : kindOf(outputs, kind).open(connector, this.#connectors)
  }

  /** Clients that no broker stands behind: a topic of its own, in memory and bounded, holds what they have not got yet. */
  #feed(connector: Connector): Output {
    const broker = this.#opened(this.#tools.brokers.own(this.#api, `${this.plan.name}\n${this.#deliveries.length}`))
    const options: KafkaInput = { addresses: ['memory://own'], topics: ['messages'] }
    this.#deliver(connector, [{ broker, joining: joiningOf(options, this.#group()) }], bufferOf(options), [])
    return {
      send(messages, _call, deadline) {
        return broker.produce({
          topic: 'messages',
          messages: messages.map(({ key, value, headers }) => ({ key, value, headers, partition: 0 })),
          acks: 'all',
          compression: 'none',
          isIdempotent: false,
          deadline
        })
      },
      fault: () => null,
      close: async () => {}
    }
  }

  /** @param sink where messages go when nothing stands between: then a producer learns where each one went */
  #input(connector: Connector, deliver: Deliver, sink?: Output): Input {
    const { kind, processors } = connector
    if (kind === 'http_server') {
      this.#producers.push(
        this.#producer(connector, sink ?? relay(deliver), sink === undefined ? [] : this.plan.processors)
      )
      return { fault: () => null, close: async () => {} }
    }
    const process = processors.map(made)
    const first: Deliver =
      process.length === 0 ? deliver : messages => passing(process, messages, deliver).then(() => {})
    return kindOf(inputs, kind).open(connector, first, this.#connectors)
  }

  #producer({ options, processors }: Connector, output: Output, more: readonly Step[]): Producer {
    const { clock, log, random, connections, remembered, budget } = this.#tools
    return producer({
      options: producerOptions(options as HttpServerInput),
      process: [...processors, ...more].map(made),
      output,
      connections,
      remembered,
      budget,
      clock,
      log,
      random,
      api: this.#api,
      stream: this.plan.name,
      template
    })
  }

  #through(steps: readonly Step[], sink: Output): Deliver {
    const process = steps.map(made)
    const send: Deliver = async messages => {
      try {
        await sink.send(messages, null, this.#tools.clock.now() + DELIVER_MS)
        this.#delivered += messages.length
      } catch (cause) {
        if (cause instanceof Undelivered) this.#delivered += cause.each?.filter(fate => fate === null).length ?? 0
        throw cause
      }
    }
    if (process.length === 0) return send
    return messages => passing(process, messages, send).then(() => {})
  }

  #group(): string {
    return `svc.${this.#api}.${this.plan.name}`
  }

  #opened(broker: Broker): Broker {
    return this.#kept(this.#brokers, broker)
  }

  #kept<T>(list: T[], one: T): T {
    list.push(one)
    return one
  }
}

const processorKinds = new Map(processors.map(kind => [kind.name, kind]))

function made({ kind, options }: Step): Process {
  return processorKinds.get(kind)!.make(options)
}

function relay(deliver: Deliver): Output {
  return {
    send: messages => deliver(messages).then(() => messages.map(() => null)),
    fault: () => null,
    close: async () => {}
  }
}

/** The connectors that a tree of brokers opens, copies included. */
function flat(connector: Connector): readonly Connector[] {
  if (connector.kind !== 'broker') return [connector]
  const { copies = 1 } = connector.options as { copies?: number }
  const once = connector.children.flatMap(flat)
  return Array.from({ length: copies }, () => once).flat()
}

/** One hub reads all of them: the tightest bounds count. */
function least(bounds: readonly ReturnType<typeof bufferOf>[]): ReturnType<typeof bufferOf> {
  return {
    commitMs: Math.min(...bounds.map(({ commitMs }) => commitMs)),
    bufferMessages: Math.min(...bounds.map(({ bufferMessages }) => bufferMessages)),
    bufferBytes: Math.min(...bounds.map(({ bufferBytes }) => bufferBytes)),
    checkpointLimit: Math.min(...bounds.map(({ checkpointLimit }) => checkpointLimit))
  }
}

function kindOf<K extends { readonly name: string }>(list: readonly K[], name: string): K {
  return list.find(kind => kind.name === name)!
}

function sum(a: HubStatus | null, b: HubStatus): HubStatus {
  return a === null ? b : added(a, b)
}
