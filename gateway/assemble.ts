import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Settings } from '../config/settings.ts'
import { type Clock, type Log, type Random, systemClock } from '../config/world.ts'
import { endpoints } from '../control/endpoints/index.ts'
import { type Control, control } from '../control/server.ts'
import { accessLog } from './accessLog.ts'
import { apis as apisOf } from './apis.ts'
import { changesLocal } from './changes/changesLocal.ts'
import { compileRoute } from './compile.ts'
import { countersMemory } from './counters/countersMemory.ts'
import { eventBus, logEvents } from './events.ts'
import { sampleApi } from './firstStart.ts'
import { Keys } from './keys/keys.ts'
import { Ledger } from './keys/ledger.ts'
import { Policies } from './keys/policies.ts'
import { type Health, probes } from './probes.ts'
import { proxy } from './proxy/proxy.ts'
import { upstreamUndici } from './proxy/upstreamUndici.ts'
import { liveRoutes, nowhere } from './routes.ts'
import { endings, gatewayServer } from './server.ts'
import type { Tools } from './steps/step.ts'
import type { Store } from './store/store.ts'
import { storeMemory } from './store/storeMemory.ts'
import { storeSqlite } from './store/storeSqlite.ts'

const version: string = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version

export interface Given {
  readonly settings: Settings
  readonly log: Log
  /** Put the sample API into an empty store. */
  readonly sample: boolean
  readonly clock?: Clock
  readonly random?: Random
}

/** A gateway that listens. */
export interface Gateway {
  /** Base URL that is really bound. */
  readonly url: string
  readonly store: Store
  /** Reads the folders again and opens the access log anew; the faults that keep the old state, or none. */
  reload(): Promise<readonly string[]>
  /** Drains and closes everything, in the order in which it was built, backwards. */
  stop(): Promise<void>
}

/**
 * Builds everything and listens: the one place that sees all floors.
 * @throws Error in one line: a fault in a folder, a store that is in use, a port that is taken
 */
export async function assemble({
  settings,
  log,
  sample,
  clock = systemClock,
  random = { bytes: randomBytes }
}: Given): Promise<Gateway> {
  const { gateway } = settings
  const store = await openStore(settings, log)
  const changes = changesLocal()
  const events = eventBus(clock, log)
  const stopEvents = logEvents(events, clock, log)
  const counters = countersMemory({ clock, random, maxEntries: settings.storage.counters.max_entries })
  const ledger = new Ledger({ counters, store, clock, log })
  await ledger.start()
  const policies = new Policies({
    store,
    changes,
    matching: { matching: gateway.endpoint_matching, ignoreCase: false },
    path: gateway.policies_path
  })
  const apis = apisOf({ store, changes, log, random, folder: gateway.app_path, matching: gateway.endpoint_matching })
  const keys = new Keys({ store, policies, changes, clock, settings: gateway })
  const access = gateway.access_logs.enabled ? accessLog(gateway.access_logs.path, clock, log) : null
  const ends = endings(log)
  const upstream = upstreamUndici({ connectTimeoutMs: gateway.proxy_connect_timeout * 1000, connections: 256 })
  const forwarding = proxy({ settings: gateway, upstream, endings: ends, clock, log })
  const tools: Tools = { settings: gateway, clock, log, keys, counters, events, proxy: forwarding }
  const routes = liveRoutes(api => compileRoute(api, tools))
  apis.onChange((changed, removed) => routes.apply(changed, removed))

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
  if (sample && (await store.list('api', { page: 1, size: 1 })).total === 0 && apis.all().length === 0)
    await apis.save(sampleApi, null)

  let reloading: Promise<readonly string[]> = Promise.resolve([])
  const reload = (): Promise<readonly string[]> => {
    reloading = reloading.then(loadFolders, loadFolders)
    return reloading
  }

  const health: Health = {
    version,
    notReady: '',
    parts: { documents: { componentType: 'datastore', failure: null, time: new Date(clock.now()).toISOString() } }
  }
  const probe = probes(health)
  const manage = control(endpoints, {
    settings,
    store,
    counters,
    changes,
    keys,
    policies,
    apis,
    events,
    clock,
    random,
    log,
    reload
  })
  const ownPort = gateway.control_api_port === 0
  const server = gatewayServer({
    settings: gateway,
    clock,
    log,
    routes,
    endings: ends,
    nowhere,
    done(x) {
      if (access !== null && !x.inner) access.line(x)
    },
    inner(x, normal) {
      if (probe(x.req, x.res, normal)) return true
      if (!normal.startsWith('/svc/') && normal !== '/svc') return false
      if (!ownPort) return false
      manage(x.req, x.res, x.path, x.query)
      return true
    }
  })
  const bound = await server.listen(gateway.listen_port, gateway.listen_address)
  const controlServer = ownPort ? null : await listenControl(manage, gateway.control_api_port, gateway.listen_address)

  return {
    url: base(bound),
    store,
    reload() {
      access?.reopen()
      return reload()
    },
    async stop() {
      health.notReady = 'Gateway is shutting down'
      await new Promise<void>(resolve => clock.after(gateway.graceful_shutdown_delay_seconds * 1000, resolve))
      controlServer?.close()
      controlServer?.closeIdleConnections()
      await server.drain(gateway.graceful_shutdown_timeout_duration * 1000)
      controlServer?.closeAllConnections()
      await forwarding.close()
      await access?.close()
      stopEvents()
      await ledger.stop()
      keys.close()
      policies.close()
      apis.close()
      await changes.close()
      await store.close()
    }
  }
}

async function openStore({ storage }: Settings, log: Log): Promise<Store> {
  return storage.documents.type === 'memory' ? storeMemory() : storeSqlite({ path: storage.documents.path, log })
}

function listenControl(manage: Control, port: number, address: string): Promise<ReturnType<typeof createServer>> {
  const server = createServer({ requestTimeout: 60_000, headersTimeout: 30_000 }, (req, res) => {
    const [path = '/', ...query] = req.url!.split('?')
    manage(req, res, path, query.length === 0 ? '' : `?${query.join('?')}`)
  })
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, address, () => resolve(server))
  })
}

function base({ address, family, port }: AddressInfo): string {
  const host = address === '::' || address === '0.0.0.0' ? '127.0.0.1' : family === 'IPv6' ? `[${address}]` : address
  return `http://${host}:${port}`
}
