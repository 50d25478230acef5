/**
 * The arithmetic of quotas (semantics §5.4). A period begins with its first request and is known by its end
 * (milliseconds since the epoch; -Infinity: none has begun; Infinity: it never ends).
 */

export interface Quota {
  /** Requests a period, at least 1. */
  readonly allowed: number
  /** Infinity: never renews. */
  readonly perMs: number
}

/** `quota_max` requests in `quota_renewal_rate` seconds; null: unlimited. Renewal of 0 or less, or none: never. */
export function quotaOf(max = 0, renewalRate = 0): Quota | null {
  if (!(max >= 1)) return null
  return { allowed: Math.floor(max), perMs: renewalRate > 0 ? Math.max(1, Math.round(renewalRate * 1000)) : Infinity }
}

/** At `end` itself the next period begins, unlike a bucket's window (semantics §12.7: "at t≥60"). */
export function quotaRuns(end: number, now: number): boolean {
  return now < end
}

/** End of the period that a request at `now` counts in; a period that a change made shorter ends after the new one. */
export function quotaEnd(end: number, now: number, perMs: number): number {
  return now < end ? Math.min(end, now + perMs) : now + perMs
}
