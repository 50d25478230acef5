import type { Clock, Log } from '../config/world.ts'
import { daysLeft } from './certificates/ending.ts'

/** Names of semantics §7.6 (note the lower-case l of RatelimitExceeded). */
export type EventName =
  | 'AuthFailure'
  | 'KeyExpired'
  | 'RatelimitExceeded'
  | 'QuotaExceeded'
  | 'RateLimitSmoothingUp'
  | 'RateLimitSmoothingDown'
  | 'VersionFailure'
  | 'TokenCreated'
  | 'TokenUpdated'
  | 'TokenDeleted'
  | 'BrokerDown'
  | 'BrokerUp'
  | 'CertificateExpiringSoon'
  | 'CertificateExpired'

/** The certificate that an event tells of. */
export interface EventCertificate {
  /** The store's id, or what would be it: organisation and fingerprint; of a PEM file its path. */
  readonly id: string
  /** Its common name, else another one. */
  readonly name: string
  /** What it was seen to be used for; '' where nobody has used it. */
  readonly role: 'client' | 'upstream' | 'server' | ''
  /** Milliseconds since the epoch. */
  readonly expiresMs: number
}

export interface GatewayEvent {
  readonly name: EventName
  readonly message: string
  /** Milliseconds since the epoch. */
  readonly at: number
  /** '' where none is concerned. */
  readonly apiId: string
  readonly path: string
  /** The client's address. */
  readonly origin: string
  /** Hash of the key, never the key. */
  readonly key: string
  /** Null where none is concerned. */
  readonly certificate: EventCertificate | null
}

export interface Events {
  emit(
    name: EventName,
    message: string,
    about: { apiId?: string; path?: string; origin?: string; key?: string; certificate?: EventCertificate }
  ): void
  /** The answer ends the listening. A listener that throws is logged and stays. */
  listen(listener: (event: GatewayEvent) => void): () => void
}

export function eventBus(clock: Clock, log: Log): Events {
  const listeners = new Set<(event: GatewayEvent) => void>()
  return {
    emit(name, message, { apiId = '', path = '', origin = '', key = '', certificate = null }) {
      const event: GatewayEvent = { name, message, at: clock.now(), apiId, path, origin, key, certificate }
      for (const listener of listeners) {
        try {
          listener(event)
        } catch (cause) {
          log.error('an event listener failed', { event: name, cause: String(cause) })
        }
      }
    },
    listen(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    }
  }
}

/** The same event of the same key is written at most once in so many milliseconds, with how often it happened. */
const AGAIN_MS = 1_000
/** Events counted at once; one beyond is written at once. */
const MOST_COUNTED = 10_000

/** The log handler of semantics §7.7. A flood of refusals becomes one line a second, key and API. */
export function logEvents(events: Events, clock: Clock, log: Log): () => void {
  const repeated = new Map<string, { event: GatewayEvent; count: number }>()
  const write = (event: GatewayEvent, count: number) => {
    const { name, message, apiId, path, origin, key } = event
    const about = event.certificate === null ? { api_id: apiId, path, origin, key } : ofCertificate(event)
    log.warn('event', { event: name, message, ...about, ...(count > 1 ? { count } : {}) })
  }
  const flush = () => {
    for (const { event, count } of repeated.values()) if (count > 0) write(event, count)
    repeated.clear()
    cancel = clock.after(AGAIN_MS, flush)
  }
  let cancel = clock.after(AGAIN_MS, flush)
  const stop = events.listen(event => {
    const who = event.certificate?.id ?? (event.key === '' ? event.origin : event.key)
    const name = `${event.name} ${event.apiId} ${who}`
    const known = repeated.get(name)
    if (known !== undefined) {
      known.event = event
      known.count++
      return
    }
    if (repeated.size < MOST_COUNTED) repeated.set(name, { event, count: 0 })
    write(event, 1)
  })
  return () => {
    stop()
    cancel()
    for (const { event, count } of repeated.values()) if (count > 0) write(event, count)
  }
}

/** The members of semantics §7.6. */
function ofCertificate({ name, at, apiId, certificate }: GatewayEvent): Record<string, string | number> {
  const { id, name: called, role, expiresMs } = certificate!
  const end = new Date(expiresMs).toISOString()
  const days = daysLeft(expiresMs, at)
  return {
    cert_id: id,
    cert_name: called,
    cert_role: role,
    // No -0.
    ...(name === 'CertificateExpired'
      ? { expired_at: end, days_since_expiry: 0 - days }
      : { expires_at: end, days_remaining: days }),
    ...(apiId === '' ? {} : { api_id: apiId })
  }
}
