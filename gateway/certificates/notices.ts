import type { X509Certificate } from 'node:crypto'
import type { GatewaySettings } from '../../config/settings.ts'
import type { Clock, Random } from '../../config/world.ts'
import type { EventCertificate, Events } from '../events.ts'
import { Recent } from '../keys/recent.ts'
import { Conflict, type Store, Unavailable } from '../store/store.ts'
import { type Ending, endingMessage, endingOf } from './ending.ts'

/**
 * Tells the ends of certificates, each event once per certificate and cool-down, over all processes and threads that share
 * the store: who writes the document first tells it.
 */

/** Body of a stored `notice` document; its id is `noticeId`. */
export interface Notice extends EventCertificate {
  readonly fingerprint: string
  /** The API that it was seen at last; '' for none. */
  readonly apiId: string
  /** When each event was told last, milliseconds since the epoch; 0: never. */
  readonly told: Readonly<Record<Ending, number>>
  /** Who told last. */
  readonly by: string
}

/** A certificate whose end is near. */
export interface Subject extends EventCertificate {
  /** '' for a PEM file: it belongs to nobody. */
  readonly org: string
  /** SHA-256 of the DER, hexadecimal. */
  readonly fingerprint: string
  readonly apiId: string
}

export interface NoticesGiven {
  readonly store: Store
  readonly events: Events
  readonly settings: Pick<GatewaySettings, 'security'>
  readonly clock: Clock
  readonly random: Random
}

/** Writes of which nobody knows whether they came through, remembered at most. */
const REMEMBERED = 1_000
/** Other processes that tell of the same certificate at the same time are done after some tries. */
const MOST_TRIES = 20
const LONGEST_NAME = 256

/** The same for a certificate that is in the store, and for one that is only seen in use. */
export function noticeId(org: string, fingerprint: string): string {
  return org + fingerprint
}

/** So long after its last event a notice counts: who is still in use or stored has had another one by then. */
export function noticeLastsMs({ security }: Pick<GatewaySettings, 'security'>): number {
  const { check_cooldown_seconds: check, event_cooldown_seconds: event } = security.certificate_expiry_monitor
  return 2 * 1000 * (check + event)
}

/** Milliseconds since the epoch. */
export function lastTold({ told }: Notice): number {
  return Math.max(...Object.values(told))
}

/** What a certificate is called in messages: by its common name, else a host that it is for, else its fingerprint. */
export function calledName(commonName: string, host: string | undefined, fingerprint: string): string {
  return (commonName || host || fingerprint).slice(0, LONGEST_NAME)
}

export function nameOf(leaf: X509Certificate, fingerprint: string): string {
  const common: unknown = leaf.toLegacyObject().subject?.CN
  const last: unknown = Array.isArray(common) ? common.at(-1) : common
  const host = /(?:^|, )DNS:([^,]+)/.exec(leaf.subjectAltName ?? '')?.[1]
  return calledName(typeof last === 'string' ? last : '', host, fingerprint)
}

export class Notices {
  readonly #given: NoticesGiven
  readonly #me: string
  /** When it was that was to be told by a write that failed, by notice. */
  readonly #unsure = new Recent<number>(REMEMBERED)

  constructor(given: NoticesGiven) {
    this.#given = given
    this.#me = Buffer.from(given.random.bytes(8)).toString('hex')
  }

  /** Null: its end is far, or it has none. */
  ending(expiresMs: number): Ending | null {
    const { settings, clock } = this.#given
    return endingOf(expiresMs, clock.now(), settings.security.certificate_expiry_monitor.warning_threshold_days)
  }

  /** Tells what is to be told of it now. @throws Unavailable: to be tried again */
  async tell(subject: Subject): Promise<void> {
    for (let tries = 0; tries < MOST_TRIES; tries++)
      try {
        return await this.#tellOnce(subject)
      } catch (cause) {
        if (!(cause instanceof Conflict)) throw cause
      }
  }

  /** @throws Unavailable; Conflict where somebody else was faster */
  async #tellOnce(subject: Subject): Promise<void> {
    const { store, settings, clock } = this.#given
    const ending = this.ending(subject.expiresMs)
    if (ending === null) return
    const id = noticeId(subject.org, subject.fingerprint)
    const before = await store.get<Notice>('notice', id)
    const used = usedFor(subject, before?.body)
    const last = before?.body.told[ending] ?? 0
    const at = clock.now()
    // A time to come is that of a clock that was wrong.
    if (
      last !== 0 &&
      Math.abs(at - last) < settings.security.certificate_expiry_monitor.event_cooldown_seconds * 1000
    ) {
      if (before?.body.by === this.#me && this.#unsure.get(id) === last) this.#emit(ending, { ...subject, ...used }, id)
      return
    }
    const { org, ...shown } = subject
    const told = { CertificateExpiringSoon: 0, CertificateExpired: 0, ...before?.body.told, [ending]: at }
    const body: Notice = { ...shown, ...used, told, by: this.#me }
    try {
      await store.commit([{ kind: 'notice', id, org, body, expect: before?.rev ?? 0 }])
    } catch (cause) {
      if (cause instanceof Unavailable) this.#unsure.set(id, at)
      throw cause
    }
    this.#emit(ending, { ...subject, ...used }, id)
  }

  #emit(ending: Ending, subject: Subject, notice: string): void {
    const { events, clock } = this.#given
    this.#unsure.delete(notice)
    const { id, name, role, expiresMs, apiId } = subject
    const certificate = { id, name, role, expiresMs }
    events.emit(ending, endingMessage(ending, name, expiresMs, clock.now()), { apiId, certificate })
  }
}

/** The sweep knows of no use: what a request has shown stays. */
function usedFor(subject: Subject, before: Notice | undefined): Pick<Notice, 'role' | 'apiId'> {
  const { role, apiId } = subject.role === '' && before !== undefined ? before : subject
  return { role, apiId }
}
