import type { Broker } from '../broker.ts'
import { BrokerHandle } from '../brokers/brokerHandle.ts'
import type { DeliveryOptions } from '../options.ts'
import { type No, nos } from '../refusals.ts'
import type {
  Client,
  Delivered,
  Ending,
  From,
  Hub,
  HubGiven,
  HubStatus,
  Owner,
  Seat,
  SharedHub,
  Source
} from './hub.ts'
import { Farewell } from './spread.ts'

/** What a stream says of the hub that it wants. */
export interface Wanted extends Pick<HubGiven, 'sources' | 'options' | 'clock'> {
  /** All else that the hub acts on, as text. */
  readonly alike: string
}

/**
 * The hubs of this process: streams of the same cluster, topics and group have one, whose clients take turns; and so has a stream
 * while its old version drains. Two hubs would be two members of one group, and of a topic with one partition one of them gets
 * nothing. So it is where streams differ in what a hub acts on (`ack`, processors and the like), as with any two consumers of a group.
 */
export class SharedHubs {
  readonly #hubs = new Map<string, Shared>()
  readonly #numbers = new WeakMap<Broker, number>()
  #brokers = 0

  /** @param make called when there is none like it, with sources of the hub's own */
  take({ sources, alike, options, clock }: Wanted, make: (sources: readonly Source[]) => SharedHub): Hub {
    const isGroup = options.mode !== 'broadcast'
    const from = sources.map(({ broker, joining }) => [
      this.#numberOf(broker),
      // Cursors of a broadcast count topics in their order, and it joins no group.
      isGroup ? { ...joining, topics: joining.topics.toSorted() } : joining.topics
    ])
    const key = JSON.stringify([options.mode, alike, from])
    let shared = this.#hubs.get(key)
    if (shared === undefined) {
      const own = sources.map(({ broker, joining }) => ({ broker: ownOf(broker), joining }))
      const made: Shared = new Shared(make(own), own, () => this.#hubs.get(key) === made && this.#hubs.delete(key))
      shared = made
      this.#hubs.set(key, shared)
    }
    return new HubShare(shared, options, new Farewell(clock), isGroup)
  }

  #numberOf(broker: Broker): number {
    const behind = broker instanceof BrokerHandle ? broker.behind : broker
    const known = this.#numbers.get(behind)
    if (known !== undefined) return known
    this.#numbers.set(behind, ++this.#brokers)
    return this.#brokers
  }
}

/** The hub may outlive the stream that asked for it first. */
function ownOf(broker: Broker): Broker {
  return (broker instanceof BrokerHandle ? broker.another() : null) ?? new BrokerHandle(broker, () => {})
}

/** A hub and the streams that have a share in it. */
class Shared {
  readonly hub: SharedHub
  readonly shares = new Set<HubShare>()
  readonly #sources: readonly Source[]
  readonly #forget: () => void

  constructor(hub: SharedHub, sources: readonly Source[], forget: () => void) {
    this.hub = hub
    this.#sources = sources
    this.#forget = forget
  }

  async close(why: Ending, spreadMs: number): Promise<void> {
    this.#forget()
    await this.hub.close(why, spreadMs)
    await Promise.all(this.#sources.map(({ broker }) => broker.close()))
  }
}

/** What one stream has of a hub: its own clients, and its own bounds for them. */
class HubShare implements Hub, Owner {
  readonly clients = new Set<Client>()
  readonly counts: Delivered | null
  readonly #shared: Shared
  readonly #limits: Pick<DeliveryOptions, 'maxClients' | 'requireBroker'>
  readonly #farewell: Farewell
  /** What the hub had done before. */
  readonly #before: HubStatus
  #isClosing = false

  /** @param counts each message goes to one client: who got it is told apart */
  constructor(shared: Shared, limits: DeliveryOptions, farewell: Farewell, counts: boolean) {
    this.#shared = shared
    this.#limits = limits
    this.#farewell = farewell
    this.counts = counts ? { delivered: 0, deliveredBytes: 0, redelivered: 0 } : null
    this.#before = shared.hub.status()
    shared.shares.add(this)
  }

  join(client: Client, from: From | null): Seat | No {
    const { hub } = this.#shared
    const { maxClients, requireBroker } = this.#limits
    if (this.#isClosing) return nos.draining
    if (this.clients.size >= maxClients) return nos.tooManyClients
    if (requireBroker && hub.trouble() !== null) return nos.unavailable
    return hub.join(client, from, this)
  }

  /** Clients and what they got are this stream's; what waits, and the state, are the hub's. */
  status(): HubStatus {
    const before = this.#before
    const now = this.#shared.hub.status()
    const clients = { sse: 0, websocket: 0, poll: 0 }
    for (const { transport } of this.clients) clients[transport]++
    return {
      ...now,
      state: this.#isClosing ? 'closing' : now.state,
      clients,
      delivered: this.counts?.delivered ?? now.delivered - before.delivered,
      deliveredBytes: this.counts?.deliveredBytes ?? now.deliveredBytes - before.deliveredBytes,
      redelivered: this.counts?.redelivered ?? now.redelivered - before.redelivered,
      dropped: now.dropped - before.dropped,
      deadLettered: now.deadLettered - before.deadLettered
    }
  }

  /** Ends its own clients; with the last stream's the hub itself, which then gives its partitions away at once. */
  async close(why: Ending, spreadMs: number): Promise<void> {
    const shared = this.#shared
    this.#isClosing = true
    for (const share of shared.shares)
      if (!share.#isClosing) {
        await this.#farewell.say(this.clients, why, spreadMs)
        shared.shares.delete(this)
        if (shared.shares.size === 0) await shared.close(why, 0)
        return
      }
    shared.shares.delete(this)
    const closed = shared.close(why, spreadMs)
    // An earlier farewell of its own, over a longer time, is over.
    await this.#farewell.say([], why, 0)
    await closed
  }
}
