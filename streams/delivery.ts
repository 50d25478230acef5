import type { Broker } from './broker.ts'
import type { Call } from './call.ts'
import type { Clients } from './clients/clients.ts'
import type { Process, Step } from './connector.ts'
import { broadcastHub } from './hub/broadcastHub.ts'
import { groupHub } from './hub/groupHub.ts'
import type { Ending, Hub, HubGiven, HubStatus, Source } from './hub/hub.ts'
import type { SharedHubs } from './hub/sharedHubs.ts'
import type { Arrived, Message } from './message.ts'
import type { DeliveryOptions } from './options.ts'
import type { EndpointKind } from './plan.ts'
import { clientFilter } from './processors/clientFilter.ts'
import { template } from './processors/template.ts'
import { type No, no, nos } from './refusals.ts'
import { Undelivered } from './undelivered.ts'

/** Groups of one stream whose name holds a variable: each has its own place in the topics. */
const MOST_GROUPS = 1000
const GROUP = /^[\w.:@$#%+=~-]{1,249}$/
/** How long a message may take to the dead-letter topic. */
const DEAD_LETTER_MS = 10_000

const noGroup = no('stream_group', 400, 'This request names no group of the stream')

export interface DeliveryGiven extends Omit<HubGiven, 'sources' | 'deadLetter' | 'process'> {
  /** The groups of these are texts with variables. */
  readonly sources: readonly Source[]
  readonly process: readonly Process[]
  /** What `process` was made of. */
  readonly steps: readonly Step[]
  readonly clients: Clients
  readonly hubs: SharedHubs
}

/** One `http_server` output: its paths in front, its share of one hub behind, or one for each group that its clients name. */
export class Delivery {
  readonly #given: DeliveryGiven
  readonly #groups: readonly ((call: Call) => string)[]
  readonly #options: DeliveryOptions
  readonly #hubs = new Map<string, Hub>()
  #isClosing = false

  constructor(given: DeliveryGiven) {
    this.#given = given
    const groups = given.sources.map(({ joining }) => joining.group)
    this.#groups = groups.map(group => {
      const text = template(group)
      return call => text(null, call)
    })
    // Each client with a group of its own gets every message: one reader for all of them does the same (streams R4).
    const isEachOwn = groups.some(group => group.includes('$svc_context.request_id'))
    this.#options = isEachOwn ? { ...given.options, mode: 'broadcast' } : given.options
    if (this.#options.mode === 'broadcast') this.#hub('', this.#plainGroups())
    else if (groups.every(group => !group.includes('$svc_'))) this.#hub('', groups)
  }

  get mode(): string {
    return this.#options.mode
  }

  serve(kind: Exclude<EndpointKind, 'produce' | 'produce_websocket'>, call: Call): void {
    const { clients, api, stream } = this.#given
    const hub = this.#hubOf(call)
    if ('code' in hub) return call.refuse(hub)
    if (kind === 'acknowledge') return clients.acknowledge(call, hub)
    const wants = clientFilter(this.#options.filter, call)
    const filter = wants === null ? null : ({ record }: { readonly record: Arrived }) => wants(record)
    clients.serve(kind, call, hub, this.#options, { api, stream }, filter)
  }

  status(): HubStatus {
    const all = [...this.#hubs.values()].map(hub => hub.status())
    return all.length === 1 ? all[0]! : all.reduce(added, NOTHING)
  }

  /** Called again, it ends those that are still there within the shorter time. */
  async close(why: Ending, spreadMs: number): Promise<void> {
    this.#isClosing = true
    await Promise.all([...this.#hubs.values()].map(hub => hub.close(why, spreadMs)))
  }

  #hubOf(call: Call): Hub | No {
    if (this.#isClosing) return nos.draining
    if (this.#hubs.has('')) return this.#hubs.get('')!
    const groups = this.#groups.map(group => group(call))
    if (!groups.every(group => GROUP.test(group))) return noGroup
    const name = groups.join('\n')
    const known = this.#hubs.get(name)
    if (known !== undefined) return known
    if (this.#hubs.size >= MOST_GROUPS) this.#forgetIdle()
    return this.#hubs.size >= MOST_GROUPS ? nos.tooManyClients : this.#hub(name, groups)
  }

  #hub(name: string, groups: readonly string[]): Hub {
    const given = this.#given
    const { log, clock, hubs } = given
    const options = this.#options
    const make = options.mode === 'broadcast' ? broadcastHub : groupHub
    const hub = hubs.take(
      {
        sources: given.sources.map(({ broker, joining }, i) => ({
          broker,
          joining: { ...joining, group: groups[i]! }
        })),
        alike: alike(given, options),
        options,
        clock
      },
      sources =>
        make({ ...given, options, sources, deadLetter: deadLetter(sources[0]!.broker, options.deadLetterTopic, clock) })
    )
    this.#hubs.set(name, hub)
    log.debug('stream hub', { api_id: this.#given.api, stream: this.#given.stream, groups })
    return hub
  }

  /** A broadcast joins no group. */
  #plainGroups(): readonly string[] {
    return this.#groups.map(() => '')
  }

  #forgetIdle(): void {
    for (const [name, hub] of this.#hubs) {
      if (hub.status().state !== 'idle') continue
      this.#hubs.delete(name)
      void hub.close('disabled', 0)
    }
  }
}

/** What a hub acts on besides its sources. Of a broadcast, cursors are bound to the stream. */
function alike({ api, stream, steps, ...given }: DeliveryGiven, options: DeliveryOptions): string {
  const { bufferMessages, bufferBytes, checkpointLimit, commitMs } = given
  const { mode, ack, ackTimeoutMs, maxDeliveries, deadLetterTopic, queue } = options
  if (mode === 'broadcast') {
    const { start, resume, allowSeek, window, idInterval } = options
    const own = { api, stream, steps, bufferMessages, bufferBytes, start, resume, allowSeek, window, idInterval, queue }
    return JSON.stringify(own)
  }
  return JSON.stringify({
    steps,
    bufferMessages,
    bufferBytes,
    checkpointLimit,
    commitMs,
    ack,
    ackTimeoutMs: ack === 'client' ? ackTimeoutMs : 0,
    maxDeliveries,
    deadLetterTopic,
    // What each client may have in hand; who drops what does so by itself.
    queue: [queue.messages, queue.bytes]
  })
}

function deadLetter(broker: Broker, topic: string, clock: HubGiven['clock']): HubGiven['deadLetter'] {
  if (topic === '') return null
  let turn = 0
  return async (message: Message) => {
    const partitions = await broker.partitions(topic)
    if (partitions === 0) throw new Undelivered('misconfigured', `the topic ${topic} has no partition`)
    const { key, value, headers } = message
    await broker.produce({
      topic,
      messages: [{ key, value, headers, partition: turn++ % partitions }],
      acks: 'all',
      compression: 'none',
      isIdempotent: false,
      deadline: clock.now() + DEAD_LETTER_MS
    })
  }
}

const NOTHING: HubStatus = {
  state: 'idle',
  clients: { sse: 0, websocket: 0, poll: 0 },
  delivered: 0,
  deliveredBytes: 0,
  queued: 0,
  redelivered: 0,
  dropped: 0,
  deadLettered: 0,
  lag: 0,
  partitions: 0,
  paused: 0,
  lastError: null
}
/** The one that says most about several hubs comes first. */
const STATES: readonly HubStatus['state'][] = ['degraded', 'joining', 'active', 'closing', 'idle']

/** Several as one. */
export function added(a: HubStatus, b: HubStatus): HubStatus {
  return {
    state: STATES.find(state => a.state === state || b.state === state)!,
    clients: {
      sse: a.clients.sse + b.clients.sse,
      websocket: a.clients.websocket + b.clients.websocket,
      poll: a.clients.poll + b.clients.poll
    },
    delivered: a.delivered + b.delivered,
    deliveredBytes: a.deliveredBytes + b.deliveredBytes,
    queued: a.queued + b.queued,
    redelivered: a.redelivered + b.redelivered,
    dropped: a.dropped + b.dropped,
    deadLettered: a.deadLettered + b.deadLettered,
    lag: a.lag < 0 || b.lag < 0 ? -1 : a.lag + b.lag,
    partitions: a.partitions + b.partitions,
    paused: a.paused + b.paused,
    lastError: a.lastError ?? b.lastError
  }
}
