import { constants } from 'node:crypto'
import { createSecureContext, type SecureContext, type SecureContextOptions, type Server } from 'node:tls'
import type { GatewaySettings } from '../../config/settings.ts'
import type { Clock, Log } from '../../config/world.ts'
import type { Api } from '../api.ts'
import type { ApiRow, Apis } from '../apis.ts'
import { type Certificate, type Certificates, isFile } from '../certificates/certificates.ts'
import { faultOfFile } from '../certificates/openCertificates.ts'
import { type Choice, choiceOf, faultOf, type Shown } from './choice.ts'
import type { Tickets } from './tickets.ts'

export interface ListenerTlsGiven {
  readonly settings: GatewaySettings
  readonly certificates: Pick<Certificates, 'held' | 'onChange'>
  readonly apis: Pick<Apis, 'all' | 'rows' | 'onChange'>
  readonly tickets: Tickets
  /** Of the thread. Sessions with certificates are each thread's own: their tickets do not hold the whole chain. */
  readonly thread: number
  readonly clock: Clock
  readonly log: Log
}

/** What a TLS listener shows to clients and asks of them; follows certificates and APIs as they change. */
export interface ListenerTls {
  /** Options that the server is made with. */
  readonly options: {
    readonly handshakeTimeout: number
    readonly rejectUnauthorized: false
    readonly ALPNProtocols: string[]
    readonly SNICallback: (name: string, done: (cause: Error | null, context?: SecureContext) => void) => void
  }
  /** Brings the server up to date, before each handshake; cheap where nothing has changed. */
  refresh(server: Server): void
  close(): void
}

const HANDSHAKE_MS = 10_000
/** Tickets count in one installation alone anyway; they must agree over contexts (OpenSSL asks for one with client certificates). */
const SESSIONS = 'svc-gateway'

/**
 * Every certificate of the settings must be readable, and one usable.
 * @throws Error in one line
 */
export function checkSettled({ http_server_options }: GatewaySettings, certificates: Pick<Certificates, 'held'>): void {
  const ids = http_server_options.ssl_certificates
  const at = 'gateway.http_server_options.ssl_certificates'
  for (const id of ids) {
    if (certificates.held(id, null) !== null) continue
    const cause = isFile(id) ? faultOfFile(id) : null
    throw new Error(`the certificate ${id} cannot be read${cause === null ? '' : `: ${cause}`} (${at})`)
  }
  const fault = faultOf(choiceOf({ ids, apis: [], certificates }))
  if (fault !== '') throw new Error(`${fault} (${at})`)
}

/** Some API, or the settings, look at the certificates of clients. */
export function asksForCertificates(settings: GatewaySettings, apis: readonly Api[]): boolean {
  return settings.enable_token_certificate_binding || apis.some(needsCertificate)
}

function needsCertificate({ active, clientCertificates, authentication }: Api): boolean {
  if (!active) return false
  if (clientCertificates !== null) return true
  for (const group of authentication?.groups ?? [])
    for (const scheme of group)
      if (scheme.kind === 'certificate' || (scheme.kind === 'token' && scheme.takesCertificate)) return true
  return false
}

export function listenerTls(given: ListenerTlsGiven): ListenerTls {
  const { settings, certificates, apis, tickets, thread, clock, log } = given
  const { ssl_certificates: ids, min_version, enable_http2 } = settings.http_server_options
  let choice: Choice = { first: null, of: () => null, faults: new Map(), owners: new Map() }
  let stale = true
  let asks = false
  let keys: Buffer = Buffer.alloc(0)
  /** Of the context that the server has now. */
  let shown: Shown = []
  let looked = Number.NEGATIVE_INFINITY
  const contexts = new Map<Certificate, SecureContext>()
  /** What the log was told, by certificate. */
  let told = new Map<string, string>()
  const change = () => {
    stale = true
  }
  const stops = [certificates.onChange(change), apis.onChange(change)]

  function contextOptions(of: Shown): SecureContextOptions {
    return {
      key: of.map(({ privateKey }) => privateKey!),
      cert: of.map(({ pem }) => pem),
      // What clients show is the business of APIs, whose authorities differ.
      ca: [],
      minVersion: `TLSv${min_version}`,
      // A client that showed another certificate in the middle would be two.
      secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
      sessionIdContext: SESSIONS,
      ticketKeys: keys
    }
  }

  /** @throws Error that OpenSSL refuses it */
  function contextOf(of: Certificate): SecureContext {
    const known = contexts.get(of)
    if (known !== undefined) return known
    const context = createSecureContext(contextOptions([of]))
    contexts.set(of, context)
    return context
  }

  function tell(id: string, fault: string): void {
    if (told.get(id) === fault) return
    told.set(id, fault)
    log.warn(`a certificate of the TLS listener: ${fault}`, { certificate: id })
  }

  function look(): void {
    const now = clock.now()
    const all = apis.all()
    const next = choiceOf({ ids, apis: inOrder(apis.rows()), certificates, owners: choice.owners })
    const faults = new Map(next.faults)
    for (const certificate of held(all)) {
      const fault = outOfTime(certificate, now)
      if (fault !== null && !faults.has(certificate.id)) faults.set(certificate.id, fault)
    }
    for (const [id, fault] of faults) tell(id, fault)
    told = faults
    // Rather the last one than none.
    choice = next.first === null ? { ...next, first: choice.first } : next
    asks = asksForCertificates(settings, all)
    contexts.clear()
  }

  /** Those of listeners alone: others are held as well. */
  function held(all: readonly Api[]): Certificate[] {
    const named = ids.map(id => certificates.held(id, null))
    for (const { active, certificates: own, orgId } of all)
      if (active) for (const id of own) named.push(certificates.held(id, orgId))
    return named.filter(certificate => certificate !== null)
  }

  return {
    options: {
      handshakeTimeout: HANDSHAKE_MS,
      rejectUnauthorized: false,
      ALPNProtocols: enable_http2 ? ['h2', 'http/1.1'] : ['http/1.1'],
      SNICallback(name, done) {
        const of = choice.of(name.toLowerCase())
        if (of === null) return done(null)
        try {
          done(null, contextOf(of))
        } catch (cause) {
          tell(of.id, `it cannot be used: ${(cause as Error).message}`)
          done(null)
        }
      }
    },
    refresh(server) {
      const now = clock.now()
      const isOld = now - looked >= LOOK_MS
      if (!stale && !isOld) return
      looked = now
      if (stale) {
        stale = false
        look()
      }
      // A session that began before certificates were asked for has none, and would go on without.
      const use = asks ? `with certificates, thread ${thread}` : 'without certificates'
      const next = tickets.keys(use, now)
      if (!next.equals(keys)) {
        keys = next
        contexts.clear()
        shown = []
      }
      ;(server as { requestCert?: boolean }).requestCert = asks
      const { first } = choice
      if (first === null || isSame(first, shown)) return
      try {
        server.setSecureContext(contextOptions(first))
        shown = first
      } catch (cause) {
        tell(first[0]!.id, `it cannot be used: ${(cause as Error).message}`)
      }
    },
    close() {
      for (const stop of stops) stop()
    }
  }
}

/** How often keys of tickets are looked at. */
const LOOK_MS = 60_000

function outOfTime({ startsMs, expiresMs }: Certificate, now: number): string | null {
  if (now >= expiresMs) return 'it has expired'
  return now < startsMs ? 'it is not yet valid' : null
}

/** Those that came first, first: a later one can have no earlier creation. */
function inOrder(rows: readonly ApiRow[]): Api[] {
  const created = (row: ApiRow) => (row.sequence === 0 ? -1 : (row.created ?? Number.POSITIVE_INFINITY))
  // Unlike a difference, it takes two that are infinite.
  const compared = <T>(one: T, other: T) => (one < other ? -1 : one > other ? 1 : 0)
  return [...rows]
    .sort((one, other) => compared(created(one), created(other)) || compared(one.api.id, other.api.id))
    .map(({ api }) => api)
}

function isSame(one: Shown, other: Shown): boolean {
  return one.length === other.length && one.every((certificate, i) => certificate === other[i])
}
