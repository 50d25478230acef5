import type { Expiry } from '../../config/shape/certificate.ts'
import { daysLeft, type Ending, endingOf } from '../../gateway/certificates/ending.ts'
import type { ControlTools } from '../tools.ts'
import { NEVER } from './details.ts'

/** What tells how near the end of a certificate is. */
export type ExpiryTools = Pick<ControlTools, 'settings' | 'clock'>

/** Adds how near its end is now. */
export function withExpiry<T extends { readonly not_after: string }>(
  told: T,
  tools: ExpiryTools
): T & { expiry: Expiry } {
  const expiresMs = endOf(told)
  const at = tools.clock.now()
  const ending = expiresMs === null ? null : shownEnding(expiresMs, at, tools)
  const state = ending === null ? 'valid' : ending === 'CertificateExpired' ? 'expired' : 'expiring'
  return { ...told, expiry: { state, days_remaining: expiresMs === null ? null : daysLeft(expiresMs, at) } }
}

/** Milliseconds since the epoch; null: a bare public key has none. */
export function endOf({ not_after }: { readonly not_after: string }): number | null {
  return not_after === NEVER ? null : Date.parse(not_after)
}

/** What the management side shows, by its own threshold. Null: nothing. */
export function shownEnding(expiresMs: number, at: number, { settings }: Pick<ExpiryTools, 'settings'>): Ending | null {
  const { warning_threshold_days } = settings.management.notifications.certificate_expiry_monitor
  return endingOf(expiresMs, at, warning_threshold_days)
}
