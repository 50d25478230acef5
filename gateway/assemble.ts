import { randomBytes } from 'node:crypto'
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
import { rememberedMemory } from '../streams/produce/remembered.ts'
import { addresses } from './addresses.ts'
import { tellMissing } from './certificates/missing.ts'
import { resealing } from './certificates/resealing.ts'
import { sweeping } from './certificates/sweep.ts'
import { compileRoute } from './compile.ts'
import { disk, noted } from './documents/files.ts'
import { queue } from './documents/turns.ts'
import { eventBus, logEvents } from './events.ts'
import { sampleApi } from './firstStart.ts'
import { isControl } from './inner.ts'
import { dataPlane } from './plane.ts'
import { type Health, probes, watch } from './probes.ts'
import { rememberedRedis } from './remembered/rememberedRedis.ts'
import { callerOf, gatewayServer } from './server.ts'
import { streamKeys } from './steps/streamKeys.ts'
import { noteFailure, openStorage } from './storage.ts'
import type { Store } from './store/store.ts'
import { openStreams, streamingApi } from './streaming.ts'
import { relayed, relayPlace } from './threads/relayed.ts'
import { partOf, startThreads, type Threads, threadCount } from './threads/threads.ts'
import { vacant } from './threads/vacant.ts'
import { trustAuthorities } from './tls/authorities.ts'
import { checkSettled, listenerTls } from './tls/listenerTls.ts'
import { Tickets, ticketSeed } from './tls/tickets.ts'
import { vaultOf } from './vault.ts'

/** What streams may take behind `drain_timeout`: last writes, commits, farewells. */
const STREAMS_END_MS = 5_000

/** What the last relayed connections may take to close once the threads have ended. */
const RELAYS_END_MS = 1_000

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
  /** Those that serve the data plane; null: the main thread does. */
  readonly threads: Pick<Threads, 'count' | 'running' | 'workers'> | null
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
  trustAuthorities(gateway.ca_file)
  const count = threadCount(settings)
  const threadsBeside = count < 2 ? 0 : count
  const storage = await openStorage({ settings, clock, log, random, threads: threadsBeside }, opened)
  const { store, changes, counters } = storage
  const events = eventBus(clock, log)
  opened.push(logEvents(events, clock, log))
  const output =
    given.output ??
    linesTo(
      toFile(() => 1),
      cause => log.error('standard output', { cause })
    )
  const { link } = storage
  const remembering = link === null ? null : rememberedRedis({ link, clock, random, log })
  opened.push(() => remembering?.close())
  const remembered = remembering ?? rememberedMemory(clock)
  const streams = openStreams({ settings, store, events, remembered, clock, log, random })
  opened.push(() => streams.drain())
  const sealed = vaultOf(gateway, random)
  const parts = { settings, store, vault: sealed, changes, counters, events, streams, clock, log, random, output }
  const plane = dataPlane({
    ...parts,
    route: compileRoute,
    onApis: (changed, removed) => streams.apply(changed.map(streamingApi), removed)
  })
  opened.push(() => plane.close())
  const { keys, policies, apis, certificates } = plane
  const { use_ssl } = gateway.http_server_options
  const tickets = use_ssl ? new Tickets(ticketSeed(random, clock.now())) : null
  const relay = count < 2 ? null : relayPlace(random, opened)
  const relaying = relay === null ? null : relayed(relay)
  // Threads share a port: whoever else has it would share it as well.
  if (relay !== null) await listening('gateway.listen_port', vacant(gateway.listen_port, gateway.listen_address))
  // They load their code while this thread reads its documents.
  const threads =
    relay === null
      ? null
      : startThreads({
          settings,
          count,
          store,
          changes,
          clock,
          log,
          relay,
          tickets,
          access: plane.accessed,
          counters: storage.gathered,
          onCounters: (thread, failure) => noteFailure(storage.failures, thread, failure)
        })
  opened.push(() => threads?.close())
  opened.push(streamKeys({ streams, keys, policies, changes, clock }))
  /** Threads take over what this one accepted: reading by themselves, they might find something else. */
  const load = async (): Promise<readonly string[]> => {
    if (threads === null) return plane.load()
    const { files, read } = noted(disk)
    const faults = await plane.load(files)
    // Nobody waits for it at first, as some code is still to be loaded there; `listen` does.
    if (faults.length === 0) loaded = threads.load(read)
    return faults
  }
  let loaded: Promise<void> = Promise.resolve()
  const turn = queue()
  let next: Promise<readonly string[]> | null = null
  /** One after the other; those that are asked for while one waits are that one. */
  const reload = (): Promise<readonly string[]> => {
    next ??= turn(async () => {
      next = null
      const faults = await load()
      await loaded
      return faults
    })
    return next
  }
  const faults = await load()
  if (faults.length > 0) throw new Error(faults.join('; '))
  if (use_ssl) checkSettled(gateway, certificates)
  // Behind threads this one takes what they relay, and that is plain.
  const tls =
    tickets === null || threads !== null
      ? null
      : listenerTls({ settings: gateway, certificates, apis, tickets, thread: 0, clock, log })
  opened.push(() => tls?.close())
  if (given.sample && (await store.sequence()) === 0 && apis.all().length === 0) await apis.save(sampleApi, null)

  const health: Health = { version, notReady: '', parts: storage.parts }
  if (threads !== null)
    Object.defineProperty(health.parts, 'threads', { enumerable: true, get: () => partOf(threads, clock) })
  opened.push(await watch(health, store, clock))
  const probe = probes(health)
  if (given.administrator !== undefined) await firstUser({ store, vault: sealed, clock, random }, given.administrator)
  opened.push(sweeping({ store, certificates, events, settings: gateway, clock, random, log }))
  opened.push(tellMissing({ apis, certificates, settings: gateway, clock, log }))
  opened.push(resealing({ store, vault: sealed, clock, log }))
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
    keySets: plane.keySets,
    certificates,
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
  const server = plane.server(
    (x, normal) => {
      if (probe(x.req, x.res, normal)) return true
      if (!shared || !isControl(normal)) return false
      manage(x.req, x.res, x.path, x.query, callerOf(x, trusted))
      return true
    },
    { ...(relaying === null ? {} : { relayed: relaying.peerOf }), ...(tls === null ? {} : { tls }) }
  )
  // The same server again, so that it is as hard to abuse: only that it knows no API.
  const apart = { ...plane.serverTools, routes: { find: () => false }, done() {}, refused() {} }
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
  const drain = async () => {
    // Streams refuse newcomers from their drain on: what threads have taken for them is here before.
    if (threads !== null) await threads.stopListening()
    if (relaying !== null) await relaying.settled()
    // Connections of streams are closed one after the other, and count as requests under way until then.
    const { drain_timeout } = gateway.streaming
    const isStreaming = !streams.calls()[Symbol.iterator]().next().done
    const longest = isStreaming ? Math.max(drainMs, drain_timeout * 1000 + STREAMS_END_MS) : drainMs
    // What threads relay is under way here until it has ended there.
    const drained =
      threads === null ? server.drain(longest) : threads.drain(longest).then(() => server.drain(RELAYS_END_MS))
    await Promise.all([streams.drain(), drained, controlServer?.drain(longest), management?.drain(longest)])
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
  if (relay !== null) await server.listenAt(relay.path)
  const front = threads ?? server
  const bound = await listening('gateway.listen_port', front.listen(gateway.listen_port, gateway.listen_address))
  url = base(bound, use_ssl ? 'https' : 'http')

  return {
    url,
    controlUrl: controlBound === undefined ? url : base(controlBound, 'http'),
    managementUrl: managementBound === null ? null : base(managementBound, 'http'),
    hasSample: apis.get(sampleApi['x-svc-api-gateway'].info.id) !== null,
    store,
    threads,
    async reload() {
      plane.reopenLog()
      return reload()
    },
    async stop() {
      health.notReady = 'Gateway is shutting down'
      for (const each of [server, controlServer, management, threads]) each?.announceEnd()
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

function base({ address, family, port }: AddressInfo, scheme: 'http' | 'https'): string {
  const host = address === '::' || address === '0.0.0.0' ? '127.0.0.1' : family === 'IPv6' ? `[${address}]` : address
  return `${scheme}://${host}:${port}`
}
