/** When certificates end, and how that is told (semantics §7.8). Of a chain the leaf's end counts. */

export type Ending = 'CertificateExpiringSoon' | 'CertificateExpired'

export const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000

/**
 * Null: it lasts longer than that.
 * @param expiresMs, at milliseconds since the epoch
 */
export function endingOf(expiresMs: number, at: number, thresholdDays: number): Ending | null {
  if (expiresMs <= at) return 'CertificateExpired'
  return expiresMs - at <= thresholdDays * DAY_MS ? 'CertificateExpiringSoon' : null
}

/** Days and hours that are over; a part that is 0 is left out, but for `0 hours` where both are. */
export function endingMessage(ending: Ending, name: string, expiresMs: number, at: number): string {
  const distance = Math.abs(expiresMs - at)
  const days = Math.floor(distance / DAY_MS)
  const hours = Math.floor((distance % DAY_MS) / HOUR_MS)
  const parts = [...(days > 0 ? [`${days} days`] : []), ...(hours > 0 || days === 0 ? [`${hours} hours`] : [])]
  return `Certificate ${name} is ${ending === 'CertificateExpired' ? 'expired since' : 'expiring in'} ${parts.join(' and ')}`
}

/** Whole days that are left; of what has expired, 0 or below: days since. */
export function daysLeft(expiresMs: number, at: number): number {
  // No -0, which JSON has not either.
  return Math.trunc((expiresMs - at) / DAY_MS) + 0
}
