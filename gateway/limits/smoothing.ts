import type { Smoothing } from '../../config/shape/limit.ts'

/** Smoothing as counting needs it: checked, whole numbers (semantics §5.6). Its upper end is the rate itself. */
export interface Slope {
  /** The allowance to begin with, and its lower end. */
  readonly threshold: number
  /** `trigger` × 100: products with `step` stay whole, where 0.1 × 3 would not. */
  readonly triggerHundredths: number
  readonly step: number
  readonly delayMs: number
}

/** Null: no smoothing, because it is off, incomplete, or not below the rate (then the plain rate counts). */
export function slopeOf(smoothing: Smoothing | null | undefined, allowed: number): Slope | null {
  if (smoothing?.enabled !== true) return null
  const { threshold = 0, trigger = -1, step = 0, delay = 0 } = smoothing
  if (!(threshold >= 1 && threshold < allowed && trigger >= 0 && step >= 1 && delay > 0)) return null
  return { threshold, triggerHundredths: Math.round(trigger * 100), step, delayMs: Math.round(delay * 1000) }
}

/**
 * The allowance that a counter carries, brought between the ends that count now; 0: it carries none (`current` 0), or
 * lost it because no request came for twice the delay (`seen`: time of the last one).
 */
export function heldAllowance(current: number, seen: number, now: number, allowed: number, slope: Slope): number {
  if (current === 0 || now - seen >= 2 * slope.delayMs) return 0
  return Math.max(slope.threshold, Math.min(current, allowed))
}

/**
 * The allowance for a request that finds `n` others in its window. `held` is what `heldAllowance` gave; an answer that
 * differs from it is to be kept, with `nextAt` = now + delay, and is an event unless `held` was 0.
 */
export function nextAllowance(held: number, nextAt: number, now: number, n: number, allowed: number, slope: Slope) {
  if (held === 0) return slope.threshold
  return now > nextAt ? moved(held, n, allowed, slope) : held
}

/** One step up or down, or `current` (semantics §5.6, 4 to 6): where the upper end stops it, down is still looked at. */
function moved(current: number, n: number, allowed: number, { threshold, triggerHundredths, step }: Slope): number {
  const reach = triggerHundredths * step
  if (100 * n >= 100 * current - reach) {
    const up = Math.min(current + step, allowed)
    if (up !== current) return up
  }
  return 100 * n <= 100 * (current - step) - reach ? Math.max(current - step, threshold) : current
}
