import { createHmac, randomBytes } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { type Lines, linesTo, toFile } from '../config/lines.ts'
import { isLoopback } from '../config/load.ts'
import type { Settings } from '../config/settings.ts'
import { version } from '../config/version.ts'
import { type Clock, type Log, type Random, systemClock } from '../config/world.ts'
import { auditTrail } from '../control/audit.ts'
import { endpoints } from '../control/endpoints/index.ts'
import { firstUser } from '../control/firstUser.ts'
import { type Control, control } from '../control/server.ts'
import type { ControlTools } from '../control/tools.ts'
import { People } from '../control/users.ts'
import { vault } from '../control/vault.ts'
import { brokers as brokersOf } from '../streams/brokers/brokers.ts'
import { brokerKafka } from '../streams/brokers/kafka/brokerKafka.ts'
import { Budget } from '../streams/budget.ts'
import { clients as clientsOf } from '../streams/clients/clients.ts'
import { Connections } from '../streams/connections.ts'
import { liveStreams } from '../streams/live.ts'
import { rememberedMemory } from '../streams/produce/remembered.ts'
import type { StreamingApi, Streams } from '../streams/streams.ts'
import { accessLog } from './accessLog.ts'
import { addresses } from './addresses.ts'
import type { Api } from './api.ts'
import { apis as apisOf } from './apis.ts'
import { changesFollowing } from './changes/changesFollowing.ts'
import { changesLocal } from './changes/changesLocal.ts'
import { compileRoute } from './compile.ts'
import { countersMemory } from './counters/countersMemory.ts'
import { type Events, eventBus, logEvents } from './events.ts'
import { sampleApi } from './firstStart.ts'
import { jwksCacheMemory } from './jwks/jwksCacheMemory.ts'
import { Keys } from './keys/keys.ts'
import { Ledger } from './keys/ledger.ts'
import { Policies } from './keys/policies.ts'
import { type Health, probes, watch } from './probes.ts'
import { proxy } from './proxy/proxy.ts'
import { upstreamDirect } from './proxy/upstreamDirect.ts'
import { upstreamUndici } from './proxy/upstreamUndici.ts'
import { liveRoutes, nowhere } from './routes.ts'
import { callerOf, endings, gatewayServer } from './server.ts'
import type { Tools } from './steps/step.ts'
import { streamKeys } from './steps/streamKeys.ts'
import type { Store } from './store/store.ts'
import { storeMemory } from './store/storeMemory.ts'
import { storePostgres } from './store/storePostgres.ts'
import { storeSqlite } from './store/storeSqlite.ts'
import { streamLog } from './store/streamLog.ts'

/** To one origin, at once: event streams hold theirs for hours, so this only keeps a runaway from eating every port. */
const MOST_CONNECTIONS = 20_000

/** What streams may take behind `drain_timeout`: last writes, commits, farewells. */
const STREAMS_END_MS = 5_000

export interface Given {
  readonly settings: Settings
  readonly log: Log
  /** Put the sample API into a store that nothing was ever written to: who deleted it does not get it back. */
  readonly sample: boolean
  /** Make an administrator where there is no management user at all; asked for its access key only then. */
  readonly administrator?: () => string
  /** Standard output, which the log shares with an access log that has no file. */
  readonly output?: Lines
  readonly clock?: Clock
  readonly random?: Random
}

/** A gateway that listens. */
export interface Gateway {
  /** Base URL that is really bound. */
  readonly url: string
  /** Where `/svc` answers; the same, but with `control_api_port`. */
  readonly controlUrl: string
  /** Base URL of the management interface; null: it is off. */
  readonly managementUrl: string | null
  /** The sample API is there. */
  readonly hasSample: boolean
  readonly store: Store
  /**
   * Reads the folders again; answers the faults that keep the old state, or none. Opens the access log anew as well; that
   * it could not stands in the log alone.
   */
  reload(): Promise<readonly string[]>
  /** Drains and closes everything, in the order in which it was built, backwards. */
  stop(): Promise<void>
}

type Close = () => unknown

/**
 * Builds everything and listens: the one place that sees all floors.
 * @throws Error in one line: a fault in a folder, a store that is in use, a port that is taken; then nothing is left open
 */
export async function assemble(given: Given): Promise<Gateway> {
  const opened: Close[] = []
  try {
    return await build(given, opened)
  } catch (cause) {
    await closeAll(opened)
    throw cause
  }
}

async function build(given: Given, opened: Close[]): Promise<Gateway> {
  const { settings, log, clock = systemClock, random = { bytes: randomBytes } } = given
  const { gateway } = settings
  const store = await openStore(settings, clock, log)
  opened.push(() => store.close())
  // Only this store can be shared with other processes.
  const isPostgres = settings.storage.documents.type === 'postgres'
  const changes = isPostgres ? await changesFollowing({ store, clock, log }) : changesLocal()
  opened.push(() => changes.close())
  const events = eventBus(clock, log)
  opened.push(logEvents(events, clock, log))
  const counters = countersMemory({ clock, random, maxEntries: settings.storage.counters.max_entries })
  const ledger = new Ledger({ counters, store, clock, log })
  await ledger.start()
  opened.push(() => ledger.stop())
  const policies = new Policies({
    store,
    changes,
    matching: { matching: gateway.endpoint_matching, ignoreCase: false },
    path: gateway.policies_path
  })
  opened.push(() => policies.close())
  const apis = apisOf({ store, changes, log, random, folder: gateway.app_path, matching: gateway.endpoint_matching })
  opened.push(() => apis.close())
  const keys = new Keys({ store, policies, changes, clock, settings: gateway })
  opened.push(() => keys.close())
  const output =
    given.output ??
    linesTo(
      toFile(() => 1),
      cause => log.error('standard output', { cause })
    )
  const access = gateway.access_logs.enabled ? accessLog(gateway.access_logs.path, output, clock, log) : null
  opened.push(() => access?.close())
  const ends = endings(log)
  const reach = { connectTimeoutMs: gateway.proxy_connect_timeout * 1000, connections: MOST_CONNECTIONS }
  const upstream = gateway.upstream_client === 'undici' ? upstreamUndici(reach) : upstreamDirect(reach, clock)
  const forwarding = proxy({ settings: gateway, upstream, endings: ends, clock, log })
  opened.push(() => forwarding.close())
  const streams = openStreams(settings, { store, events, clock, log, random })
  opened.push(() => streams.drain())
  opened.push(streamKeys({ streams, keys, policies, changes, clock }))
  const tools: Tools = { settings: gateway, clock, log, keys, counters, events, proxy: forwarding, streams }
  const routes = liveRoutes(api => compileRoute(api, tools))
  apis.onChange((changed, removed) => {
    streams.apply(changed.map(streamingApi), removed)
    return routes.apply(changed, removed)
  })

  /** Both folders are read before either counts: a fault in one keeps the old state of both. */
  const loadFolders = async (): Promise<readonly string[]> => {
    const files = await policies.read()
    if (files.faults.length > 0) return files.faults
    const faults = await apis.load()
    if (faults.length === 0) files.take()
    return faults
  }
  const faults = await loadFolders()
  if (faults.length > 0) throw new Error(faults.join('; '))
  if (given.sample && (await store.sequence()) === 0 && apis.all().length === 0) await apis.save(sampleApi, null)

  let reloading: Promise<readonly string[]> = Promise.resolve([])
  const reload = (): Promise<readonly string[]> => {
    reloading = reloading.then(loadFolders, loadFolders)
    return reloading
  }

  const health: Health = { version, notReady: '', parts: {} }
  opened.push(await watch(health, store, clock))
  const probe = probes(health)
  const sealed = vault(gateway.security.private_certificate_encoding_secret || gateway.secret, random)
  if (given.administrator !== undefined) await firstUser({ store, vault: sealed, clock, random }, given.administrator)
  const people = new People({ store, changes })
  opened.push(() => people.close())
  const audit = auditTrail(settings, { store, clock, log })
  opened.push(() => audit?.close())
  let url = ''
  const controlTools: ControlTools = {
    settings,
    store,
    counters,
    changes,
    keys,
    policies,
    apis,
    events,
    people,
    audit,
    jwks: jwksCacheMemory({ clock }),
    vault: sealed,
    clock,
    random,
    log,
    gatewayUrl: () => url,
    streams,
    reload
  }
  const ofDoor = (own: boolean) => endpoints.filter(({ door }) => (door === 'gateway') === own)
  const manage = control(ofDoor(true), controlTools)
  const trusted = addresses(gateway.trusted_proxies)
  const shared = gateway.control_api_port === 0
  const serverTools = { settings: gateway, clock, log, endings: ends, nowhere }
  const server = gatewayServer({
    ...serverTools,
    routes,
    done(x) {
      if (access !== null && !x.inner) access.line(x)
    },
    refused(client, refusal) {
      access?.refused(client, refusal)
    },
    inner(x, normal) {
      if (probe(x.req, x.res, normal)) return true
      if (!shared || !isControl(normal)) return false
      manage(x.req, x.res, x.path, x.query, callerOf(x, trusted))
      return true
    }
  })
  // The same server again, so that it is as hard to abuse: only that it knows no API.
  const apart = { ...serverTools, routes: { find: () => false }, done() {}, refused() {} }
  const controlServer = shared
    ? null
    : gatewayServer({
        ...apart,
        inner(x, normal) {
          if (!isControl(normal)) return false
          manage(x.req, x.res, x.path, x.query, callerOf(x, trusted))
          return true
        }
      })
  /** Bodies are bounded by `management.max_body_size` alone. */
  const managementServer = (answer: Control) => {
    const http_server_options = { ...gateway.http_server_options, max_request_body_size: 0 }
    return gatewayServer({
      ...apart,
      settings: { ...gateway, http_server_options },
      inner(x) {
        answer(x.req, x.res, x.path, x.query, callerOf(x, trusted))
        return true
      }
    })
  }
  const management = settings.management.enabled ? managementServer(control(ofDoor(false), controlTools)) : null
  const drainMs = gateway.graceful_shutdown_timeout_duration * 1000
  const drain = () => {
    // Connections of streams are closed one after the other, and count as requests under way until then.
    const { drain_timeout } = gateway.streaming
    const isStreaming = !streams.calls()[Symbol.iterator]().next().done
    const longest = isStreaming ? Math.max(drainMs, drain_timeout * 1000 + STREAMS_END_MS) : drainMs
    return Promise.all([streams.drain(), ...[server, controlServer, management].map(each => each?.drain(longest))])
  }
  // A port that is taken shows before the data plane takes its first request.
  const controlBound = await listening(
    'gateway.control_api_port',
    controlServer?.listen(gateway.control_api_port, gateway.listen_address)
  )
  opened.push(drain)
  const { listen_address, listen_port } = settings.management
  const managementBound =
    (await listening('management.listen_port', management?.listen(listen_port, listen_address))) ?? null
  if (managementBound !== null && !isLoopback(listen_address))
    log.warn('the management interface listens without TLS beyond loopback', { address: listen_address })
  const bound = await listening('gateway.listen_port', server.listen(gateway.listen_port, gateway.listen_address))
  url = base(bound)

  return {
    url,
    controlUrl: base(controlBound ?? bound),
    managementUrl: managementBound === null ? null : base(managementBound),
    hasSample: apis.get(sampleApi['x-svc-api-gateway'].info.id) !== null,
    store,
    async reload() {
      const unopened = access?.reopen() ?? null
      if (unopened !== null) log.error('the access log was not opened anew: the old file stays', { cause: unopened })
      return reload()
    },
    async stop() {
      health.notReady = 'Gateway is shutting down'
      await new Promise<void>(resolve => clock.after(gateway.graceful_shutdown_delay_seconds * 1000, resolve))
      await closeAll(opened)
    }
  }
}

/** @throws Error that names the setting as well */
async function listening<T>(setting: string, bound: Promise<T>): Promise<T>
async function listening<T>(setting: string, bound: Promise<T> | undefined): Promise<T | undefined>
async function listening<T>(setting: string, bound: Promise<T> | undefined): Promise<T | undefined> {
  try {
    return await bound
  } catch (cause) {
    throw new Error(`${(cause as Error).message} (${setting})`, { cause })
  }
}

/** Backwards, as it was opened. */
async function closeAll(opened: Close[]): Promise<void> {
  for (let close = opened.pop(); close !== undefined; close = opened.pop()) await close()
}

function isControl(path: string): boolean {
  return path === '/svc' || path.startsWith('/svc/')
}

async function openStore({ storage }: Settings, clock: Clock, log: Log): Promise<Store> {
  const { type, path, url, pool_size: poolSize } = storage.documents
  if (type === 'memory') return storeMemory()
  return type === 'sqlite' ? storeSqlite({ path, log }) : storePostgres({ url, poolSize, clock, log })
}

interface StreamsGiven {
  readonly store: Store
  readonly events: Events
  readonly clock: Clock
  readonly log: Log
  readonly random: Random
}

function openStreams(settings: Settings, { store, events, clock, log, random }: StreamsGiven): Streams {
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
    remembered: rememberedMemory(clock),
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

function streamingApi(api: Api): StreamingApi {
  const { id, orgId, active, streams, authentication, addresses, domain, listenPath, operations } = api
  const isAllowed = operations.map(({ allow, block, ignoreAuthentication }) => [allow, block, ignoreAuthentication])
  const access = JSON.stringify([authentication, addresses, domain, listenPath, isAllowed])
  return { id, orgId, isActive: active, plans: streams ?? [], access }
}

function base({ address, family, port }: AddressInfo): string {
  const host = address === '::' || address === '0.0.0.0' ? '127.0.0.1' : family === 'IPv6' ? `[${address}]` : address
  return `http://${host}:${port}`
}
