import { createHmac } from 'node:crypto'
import type { Settings } from '../config/settings.ts'
import type { Clock, Log, Random } from '../config/world.ts'
import { brokers as brokersOf } from '../streams/brokers/brokers.ts'
import { brokerKafka } from '../streams/brokers/kafka/brokerKafka.ts'
import { Budget } from '../streams/budget.ts'
import { clients as clientsOf } from '../streams/clients/clients.ts'
import { Connections } from '../streams/connections.ts'
import { liveStreams } from '../streams/live.ts'
import type { Remembered } from '../streams/produce/remembered.ts'
import type { StreamingApi, Streams } from '../streams/streams.ts'
import type { Api } from './api.ts'
import type { Events } from './events.ts'
import type { Store } from './store/store.ts'
import { streamLog } from './store/streamLog.ts'

interface StreamsGiven {
  readonly settings: Settings
  readonly store: Store
  readonly events: Events
  readonly remembered: Remembered
  readonly clock: Clock
  readonly log: Log
  readonly random: Random
}

/** All streams of the process, with what they need from above. */
export function openStreams({ settings, store, events, remembered, clock, log, random }: StreamsGiven): Streams {
  const { streaming } = settings.gateway
  const budget = new Budget(streaming.budget)
  const connections = new Connections(streaming)
  return liveStreams({
    isEnabled: streaming.enabled && settings.management.streaming.enabled,
    settings: streaming,
    clock,
    log,
    random,
    budget,
    connections,
    clients: clientsOf({ clock, log, random, connections }),
    remembered,
    secret: purpose => createHmac('sha256', settings.gateway.secret).update(`stream ${purpose}`).digest(),
    brokers: brokersOf({
      clock,
      log,
      memory: streaming.memory,
      durable: streaming.memory.durable ? streamLog(store) : null,
      kafka: options => brokerKafka({ options, clock, log }),
      status({ broker, isUp, fault }) {
        if (isUp) events.emit('BrokerUp', `The message broker ${broker} answers again`, {})
        else events.emit('BrokerDown', `The message broker ${broker} is away: ${fault}`, {})
      }
    })
  })
}

/** An API as its streams see it. */
export function streamingApi(api: Api): StreamingApi {
  const { id, orgId, active, streams, authentication, addresses, domain, listenPath, operations } = api
  const isAllowed = operations.map(({ allow, block, ignoreAuthentication }) => [allow, block, ignoreAuthentication])
  const access = JSON.stringify([authentication, addresses, domain, listenPath, isAllowed])
  return { id, orgId, isActive: active, plans: streams ?? [], access }
}
