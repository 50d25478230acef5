import type { Clock, Log } from '../../../config/world.ts'
import type { BrokerState } from '../../broker.ts'
import { Undelivered } from '../../undelivered.ts'
import type { Client } from './client.ts'
import { codes, hasMoved, KafkaFault, reasonOf, textOf, undelivered } from './errors.ts'
import type { Link } from './link.ts'
import { closedFault, Node } from './node.ts'

/** What is known of a topic. */
export interface Topic {
  readonly name: string
  /** Node id of each partition's leader, by partition; -1: it has none. */
  readonly leaders: readonly number[]
  /** When it was asked, ms since the epoch. */
  readonly at: number
}

interface Metadata {
  readonly controllerId?: number
  readonly brokers: readonly { readonly nodeId: number; readonly host: string; readonly port: number }[]
  readonly topicMetadata: readonly {
    readonly topicErrorCode: number
    readonly topic: string
    readonly partitionMetadata: readonly { readonly partitionId: number; readonly leader: number }[]
  }[]
}

/** Partitions of a topic are asked again after so long. */
const keptMs = 30_000
/** Who asks for a topic that is missing gets the same answer so long. */
const missingMs = 1_000
const askMs = 5_000

/** Which nodes there are, who leads what, and whether the cluster is there at all. */
export class Cluster {
  readonly clock: Clock
  readonly #client: Client
  readonly #log: Log
  readonly #nodes = new Map<string, Node>()
  /** Addresses by node id. */
  readonly #ids = new Map<number, Node>()
  readonly #topics = new Map<string, Topic>()
  readonly #asked = new Map<string, Promise<Topic>>()
  readonly #missing = new Map<string, { readonly until: number; readonly fault: Undelivered }>()
  readonly #listeners = new Set<(state: BrokerState) => void>()
  #state: BrokerState = { isUp: true, fault: null }
  #turn = 0
  #isClosed = false

  constructor(client: Client, clock: Clock, log: Log) {
    this.#client = client
    this.clock = clock
    this.#log = log
    for (const { host, port } of client.addresses) this.#node(host, port)
  }

  state(): BrokerState {
    return this.#state
  }

  /** Why nobody should wait for any node now; null: some may be tried. */
  fault(): Undelivered | null {
    let fault: Undelivered | null = null
    for (const node of this.#nodes.values()) {
      if (node.fault === null && node.hasConnection) return null
      fault ??= node.fault
    }
    return fault
  }

  onState(listener: (state: BrokerState) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** What is known, if it is not too old; else null. */
  known(name: string): Topic | null {
    const topic = this.#topics.get(name)
    return topic !== undefined && this.clock.now() - topic.at < keptMs ? topic : null
  }

  /** What was known last, however old. */
  seen(name: string): Topic | null {
    return this.#topics.get(name) ?? null
  }

  /** @throws Undelivered */
  topic(name: string): Topic | Promise<Topic> {
    return this.known(name) ?? this.refresh(name)
  }

  /** Asks again; together with all who ask at the same time. @throws Undelivered */
  refresh(name: string): Promise<Topic> {
    const missing = this.#missing.get(name)
    if (missing !== undefined && missing.until > this.clock.now()) return Promise.reject(missing.fault)
    let asked = this.#asked.get(name)
    if (asked === undefined) {
      asked = this.#ask(name).finally(() => this.#asked.delete(name))
      this.#asked.set(name, asked)
    }
    return asked
  }

  forget(name: string): void {
    this.#missing.delete(name)
    this.#topics.delete(name)
  }

  /** The node that leads this partition; null: none does, or none that is known. */
  leader(topic: Topic, partition: number): Node | null {
    return this.#ids.get(topic.leaders[partition] ?? -1) ?? null
  }

  node(id: number): Node | null {
    return this.#ids.get(id) ?? null
  }

  /** Whoever leads this partition let a request go unanswered. */
  suspect(name: string, partition: number): void {
    const topic = this.#topics.get(name)
    if (topic !== undefined) this.leader(topic, partition)?.suspect()
  }

  /** A shared connection to whichever node answers. @throws Undelivered */
  async any(): Promise<Link> {
    if (this.#isClosed) throw closedFault()
    const nodes = [...this.#nodes.values()]
    const live = nodes.find(({ hasConnection }) => hasConnection)
    if (live !== undefined) return live.shared('ask')
    let fault = new Undelivered('misconfigured', 'no address of a broker')
    for (let i = 0; i < nodes.length; i++) {
      const node = nodes[(this.#turn + i) % nodes.length]!
      try {
        const link = await node.shared('ask')
        this.#turn = nodes.indexOf(node)
        return link
      } catch (error) {
        fault = undelivered('unavailable', error)
      }
    }
    throw fault
  }

  /** A shared connection to the node that makes topics, or to any if none is known. @throws Undelivered */
  async controller(): Promise<Link> {
    // Of no topic in particular: which nodes there are comes with every answer.
    const link = await this.any()
    const data = await link.call<Metadata>(
      'Metadata',
      { topics: ['__consumer_offsets'], allowAutoTopicCreation: false },
      askMs,
      {
        isUnchecked: true
      }
    )
    this.#learn(data)
    return this.#ids.get(data.controllerId ?? -1)?.shared('ask') ?? link
  }

  /** The node that keeps this group. @throws KafkaFault, Undelivered */
  async coordinator(group: string): Promise<Node> {
    const link = await this.any()
    const { errorCode, coordinator } = await link.call<{
      errorCode: number
      coordinator: { nodeId: number; host: string; port: number }
    }>('GroupCoordinator', { groupId: group, coordinatorType: 0 }, askMs, { isUnchecked: true })
    if (errorCode !== 0) throw new KafkaFault(errorCode, `group ${group}`)
    const node = this.#node(coordinator.host, coordinator.port)
    this.#ids.set(coordinator.nodeId, node)
    return node
  }

  /** Tells state; called by nodes. */
  changed(): void {
    const nodes = [...this.#nodes.values()]
    const down = nodes.filter(node => node.fault !== null)
    const fault = down[0]?.fault ?? nodes.find(node => node.trouble !== null)?.trouble ?? null
    // A login or a certificate that is refused is no matter of the cluster, which answers.
    const isAway = down.some(node => node.fault!.reason === 'unavailable')
    const isUp = !isAway || nodes.some(node => node.fault === null && node.hasConnection)
    if (isUp === this.#state.isUp && (fault?.message ?? null) === this.#state.fault) return
    this.#state = { isUp, fault: fault?.message ?? null }
    for (const listener of [...this.#listeners]) listener(this.#state)
  }

  close(): void {
    this.#isClosed = true
    for (const node of this.#nodes.values()) node.close()
    this.#listeners.clear()
  }

  #node(host: string, port: number): Node {
    const name = `${host}:${port}`
    let node = this.#nodes.get(name)
    if (node === undefined) {
      const tools = { client: this.#client, clock: this.clock, log: this.#log, changed: () => this.changed() }
      node = new Node({ host, port }, tools)
      this.#nodes.set(name, node)
      if (this.#isClosed) node.close()
    }
    return node
  }

  async #ask(name: string): Promise<Topic> {
    let data: Metadata
    try {
      const link = await this.any()
      const asked = { topics: [name], allowAutoTopicCreation: false }
      data = await link.call<Metadata>('Metadata', asked, askMs, { isUnchecked: true })
    } catch (error) {
      throw undelivered('unavailable', error)
    }
    this.#learn(data)
    const found = data.topicMetadata.find(({ topic }) => topic === name)
    const code = found?.topicErrorCode ?? codes.unknownTopic
    if (found === undefined || (code !== 0 && code !== codes.leaderNotAvailable)) {
      const fault = new Undelivered(
        code === codes.unknownTopic || !hasMoved(code) ? reasonOf(code) : 'unavailable',
        textOf(new KafkaFault(code, `topic ${name}`))
      )
      if (fault.reason === 'misconfigured') {
        this.#topics.delete(name)
        this.#forgetOld()
        this.#missing.set(name, { until: this.clock.now() + missingMs, fault })
      }
      throw fault
    }
    const leaders: number[] = []
    for (const { partitionId, leader } of found.partitionMetadata) leaders[partitionId] = leader
    for (let i = 0; i < leaders.length; i++) leaders[i] ??= -1
    const topic = { name, leaders, at: this.clock.now() }
    this.#topics.set(name, topic)
    return topic
  }

  #learn({ brokers }: Metadata): void {
    for (const { nodeId, host, port } of brokers) this.#ids.set(nodeId, this.#node(host, port))
    // Nodes that left the cluster under their old address: not those that were given, which are how it is found again.
    const current = new Set(this.#ids.values())
    let isLess = false
    const given = new Set(this.#client.addresses.map(({ host, port }) => `${host}:${port}`))
    for (const [name, node] of this.#nodes) {
      if (current.has(node) || given.has(name)) continue
      this.#nodes.delete(name)
      node.close()
      isLess = true
    }
    if (isLess) this.changed()
  }

  #forgetOld(): void {
    if (this.#missing.size < 1_000) return
    for (const [name, { until }] of this.#missing) if (until <= this.clock.now()) this.#missing.delete(name)
  }
}
