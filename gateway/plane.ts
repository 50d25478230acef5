import type { Lines } from '../config/lines.ts'
import type { Settings } from '../config/settings.ts'
import type { Clock, Log, Random } from '../config/world.ts'
import type { Streams } from '../streams/streams.ts'
import { accessLog } from './accessLog.ts'
import type { Api } from './api.ts'
import { type Apis, apis as apisOf } from './apis.ts'
import { openIdentities } from './authentication/openIdentities.ts'
import type { Certificates } from './certificates/certificates.ts'
import { certificatesOf, certificatesOfSettings } from './certificates/named.ts'
import { openCertificates } from './certificates/openCertificates.ts'
import { openWatch } from './certificates/openWatch.ts'
import type { Changes } from './changes/changes.ts'
import type { Counters } from './counters/counters.ts'
import { filesOf, readApiFile } from './documents/apiFolder.ts'
import { disk, type Files } from './documents/files.ts'
import { queue } from './documents/turns.ts'
import type { Events } from './events.ts'
import type { Route } from './exchange.ts'
import type { KeySets } from './jwks/keySets.ts'
import { openKeySets } from './jwks/openKeySets.ts'
import { Keys } from './keys/keys.ts'
import { Policies } from './keys/policies.ts'
import { proxy } from './proxy/proxy.ts'
import { upstreamDirect } from './proxy/upstreamDirect.ts'
import { upstreamUndici } from './proxy/upstreamUndici.ts'
import { liveRoutes, nowhere } from './routes.ts'
import { endings, type GatewayServer, gatewayServer, type Inner, type ServerTools } from './server.ts'
import type { Tools } from './steps/step.ts'
import type { Store } from './store/store.ts'
import type { Vault } from './vault.ts'

/** To one origin, at once: event streams hold theirs for hours, so this only keeps a runaway from eating every port. */
const MOST_CONNECTIONS = 20_000

export interface PlaneGiven {
  readonly settings: Settings
  readonly store: Store
  readonly vault: Vault
  readonly changes: Changes
  readonly counters: Counters
  readonly events: Events
  readonly streams: Streams
  readonly clock: Clock
  readonly log: Log
  readonly random: Random
  /** Takes access lines where they have no file. */
  readonly output: Lines
  /** What requests of an API flow down. */
  readonly route: (api: Api, tools: Tools) => Route
  /** Told of changed APIs before requests are served by them. */
  readonly onApis: (changed: readonly Api[], removed: readonly string[]) => void
}

/** Everything that requests to APIs need, in one thread: documents in memory, routes, proxy, access log, server. */
export interface Plane {
  readonly keys: Keys
  readonly policies: Policies
  readonly apis: Apis
  readonly keySets: KeySets
  readonly certificates: Certificates
  /** What every server of this process is made with. */
  readonly serverTools: Pick<ServerTools, 'settings' | 'clock' | 'log' | 'endings' | 'nowhere'>
  /**
   * Reads `app_path`, `policies_path` and the store's APIs, now and at each reload; answers the faults that keep the old
   * state, or none. `files`: where both folders are read from; absent: the disk.
   */
  load(files?: Files): Promise<readonly string[]>
  /** Opens the access log anew; that it could not stands in the log. */
  reopenLog(): void
  /** Takes whole lines of the access log that other threads made. */
  accessed(lines: string): void
  /** The server of all APIs. `relayed`, `tls`: as `ServerTools` says. */
  server(inner: Inner, how?: Pick<ServerTools, 'relayed' | 'tls'>): GatewayServer
  close(): Promise<void>
}

export function dataPlane(given: PlaneGiven): Plane {
  const { settings, store, changes, counters, events, streams, clock, log, random, output } = given
  const { gateway } = settings
  const matching = gateway.endpoint_matching
  const policies = new Policies({
    store,
    changes,
    matching: { matching, ignoreCase: false },
    path: gateway.policies_path
  })
  const apis = apisOf({ store, changes, log, random, folder: gateway.app_path, matching })
  const keys = new Keys({ store, policies, changes, clock, settings: gateway })
  const access = gateway.access_logs.enabled ? accessLog(gateway.access_logs.path, output, clock, log) : null
  const ends = endings(log)
  const reach = { connectTimeoutMs: gateway.proxy_connect_timeout * 1000, connections: MOST_CONNECTIONS }
  const upstream = gateway.upstream_client === 'undici' ? upstreamUndici(reach) : upstreamDirect(reach, clock)
  const forwarding = proxy({ settings: gateway, upstream, endings: ends, clock, log })
  const certificates = openCertificates({ store, changes, vault: given.vault, clock, log })
  const keySets = openKeySets({ store, changes, settings: gateway, clock, log })
  const identities = openIdentities({ store, changes, keys, policies, clock, log })
  const watch = openWatch({ store, events, settings: gateway, clock, random, log })
  const ofCallers = { keys, identities, keySets, certificates, watch }
  const tools: Tools = { settings: gateway, clock, log, ...ofCallers, counters, events, proxy: forwarding, streams }
  const routes = liveRoutes(api => given.route(api, tools))
  apis.onChange(async (changed, removed) => {
    given.onApis(changed, removed)
    // What routes name is there before they are.
    for (const api of changed)
      await certificates.hold(api.id, certificatesOf(api), api.source === 'store' ? 'no files' : 'with files')
    await routes.apply(changed, removed)
    for (const id of removed) await certificates.hold(id, [], 'no files')
  })
  const serverTools = { settings: gateway, clock, log, endings: ends, nowhere }

  /** Both folders are read before either counts: a fault in one keeps the old state of both. */
  const loadFolders = async (files?: Files): Promise<readonly string[]> => {
    await certificates.hold('settings', certificatesOfSettings(gateway), 'with files')
    const unread = await certificates.reload()
    if (files?.areAccepted !== true) {
      const faults = await stillNamed(unread, files)
      if (faults.length > 0) return faults
    }
    const filed = await policies.read(files)
    if (filed.faults.length > 0) return filed.faults
    const faults = await apis.load(files)
    if (faults.length === 0) filed.take()
    return faults
  }
  /**
   * Of the faults of PEM files, those of files that were read before (there is an old certificate to keep) and that are
   * still named: with its last document a file may go as well.
   */
  const stillNamed = async (faults: readonly string[], files?: Files): Promise<readonly string[]> => {
    const lost = certificates.all().filter(({ id }) => faults.some(fault => fault.startsWith(`${id}: `)))
    if (lost.length === 0) return []
    const names = new Set(certificatesOfSettings(gateway))
    const paths = await filesOf(files ?? disk, gateway.app_path, [])
    const documents = await Promise.all(
      paths.map(path => readApiFile(files ?? disk, path, [], each => each.document()))
    )
    const texts = documents.map(document => JSON.stringify(document))
    const named = lost.filter(({ id }) => names.has(id) || texts.some(text => text.includes(JSON.stringify(id))))
    return faults.filter(fault => named.some(({ id }) => fault.startsWith(`${id}: `)))
  }
  const turn = queue()

  return {
    keys,
    policies,
    apis,
    keySets,
    certificates,
    serverTools,
    load: files => turn(() => loadFolders(files)),
    reopenLog() {
      const unopened = access?.reopen() ?? null
      if (unopened !== null) log.error('the access log was not opened anew: the old file stays', { cause: unopened })
    },
    accessed: lines => access?.text(lines),
    server: (inner, how = {}) =>
      gatewayServer({
        ...serverTools,
        ...how,
        routes,
        inner,
        done(x) {
          if (access !== null && !x.inner) access.line(x)
        },
        refused(client, refusal) {
          access?.refused(client, refusal)
        }
      }),
    async close() {
      await forwarding.close()
      await watch.close()
      await identities.close()
      keySets.close()
      certificates.close()
      await access?.close()
      keys.close()
      apis.close()
      policies.close()
    }
  }
}
