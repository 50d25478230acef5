/**
 * The arithmetic of rates. A window is known by its end alone (milliseconds since the epoch; -Infinity: none has begun),
 * as a key with a time to live would be: when `per` changes under a running window, the count stays, a shorter window
 * ends after the new `per` at the latest, and a longer one begins when the old has ended.
 */

export type Algorithm = 'bucket' | 'fixed_window' | 'sliding_log'

export interface Rate {
  /** Requests a window: whole, at least 1. */
  readonly allowed: number
  /** Whole milliseconds, at least 1. */
  readonly perMs: number
}

/**
 * `rate` requests in `per` seconds; null: unlimited (either is absent, 0 or less). A rate below 1 is one request in
 * `per`/`rate` seconds; of other fractions only whole requests count.
 */
export function rateOf(rate = 0, per = 0): Rate | null {
  if (!(rate > 0 && per > 0)) return null
  const seconds = rate < 1 ? per / rate : per
  return { allowed: rate < 1 ? 1 : Math.floor(rate), perMs: Math.max(1, Math.round(seconds * 1000)) }
}

/** The last millisecond, `end` itself, still belongs to the bucket's window (semantics §12.5: "at t>10"). */
export function bucketRuns(end: number, now: number): boolean {
  return now <= end
}

/** End of the window that a request at `now` counts in. */
export function bucketEnd(end: number, now: number, perMs: number): number {
  return now <= end ? Math.min(end, now + perMs) : now + perMs
}

/** A fixed window does not contain its end (semantics §12.5: windows [0,10), [10,20)). */
export function fixedRuns(end: number, now: number): boolean {
  return now < end
}

/** End of the window that `now` lies in; windows are aligned to multiples of `perMs` since the epoch. */
export function fixedEnd(now: number, perMs: number): number {
  return (Math.floor(now / perMs) + 1) * perMs
}

/** Entries of a sliding log at this time or before have left it (semantics §12.5: the entry of 0 leaves at 10). */
export function logBound(now: number, perMs: number): number {
  return now - perMs
}

/** Index of the entry (0: the oldest of `n`) that must leave before one more request passes; below 0: one passes now. */
export function logBlocker(n: number, allowed: number): number {
  return n - allowed
}
