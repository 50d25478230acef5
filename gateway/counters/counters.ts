import { createHash } from 'node:crypto'
import type { CountersFailure, RateLimitMode } from '../../config/shape/limit.ts'
import type { Algorithm } from '../limits/rate.ts'
import type { Slope } from '../limits/smoothing.ts'

/** The port of all counting. `countersMemory` and `countersRedis` pass `test/contract/counters.ts`. */

export type { Algorithm, Slope }

/**
 * The first 128 bits of sha256(id) as signed numbers of 32 bits, so that counting hashes nothing per request. Members,
 * not an array: a million charges are then a million objects to look at and not three.
 */
export interface Words {
  readonly w0: number
  readonly w1: number
  readonly w2: number
  readonly w3: number
}

/** One limit that a request is held against. Built once (per key and API, or per API) and used for every request. */
export interface Charge extends Words {
  /** Which counter; charges with equal ids share it. */
  readonly id: string
  readonly kind: 'rate' | 'quota'
  /** Of a rate; a quota counts a period from its first request. */
  readonly algorithm: Algorithm
  /** Requests a window (whole, at least 1), or the quota's maximum. */
  readonly allowed: number
  /** The window or the renewal period; Infinity: a quota that never renews. */
  readonly perMs: number
  readonly slope: Slope | null
  /** Sliding log: refused requests count as well. */
  readonly countsRefused: boolean
  /** Of counters outside of the process. */
  readonly mode: RateLimitMode
  readonly onFailure: CountersFailure
}

export function charge(id: string, given: Omit<Charge, 'id' | 'mode' | 'onFailure' | keyof Words>): Charge {
  // One shape for all charges, whatever the order of members in `given`.
  const { kind, algorithm, allowed, perMs, slope, countsRefused } = given
  const { w0, w1, w2, w3 } = wordsOf(id)
  return {
    id,
    w0,
    w1,
    w2,
    w3,
    kind,
    algorithm,
    allowed,
    perMs,
    slope,
    countsRefused,
    mode: 'exact',
    onFailure: 'local'
  }
}

/** The same counter, asked in another way. */
export function asked(given: Charge, mode: RateLimitMode, onFailure: CountersFailure): Charge {
  return given.mode === mode && given.onFailure === onFailure ? given : { ...given, mode, onFailure }
}

export function wordsOf(id: string): Words {
  const digest = createHash('sha256').update(id).digest()
  return { w0: digest.readInt32LE(0), w1: digest.readInt32LE(4), w2: digest.readInt32LE(8), w3: digest.readInt32LE(12) }
}

/** How one limit stands after a charge or a look. */
export interface Standing {
  /** What counts now: `allowed`, or the smoothed allowance. */
  allowed: number
  /** Never below 0. */
  remaining: number
  /**
   * Milliseconds since the epoch: when the window ends or the quota renews. A bucket's next window opens 1 ms later, the
   * others at that time. Sliding log: when the next request would pass (now, while something remains). 0: no period has
   * begun or it never ends.
   */
  reset: number
  /** The smoothing event that this charge is due; always null in a look. */
  smoothed: 'up' | 'down' | null
}

export interface Verdict {
  /** Index of the charge that refused; -1: all passed. */
  readonly refused: number
  /** One for each charge up to and including the one that refused. */
  readonly standings: readonly Standing[]
  /** When this was so, on the clock that `reset` is told by: milliseconds since the epoch. */
  readonly now: number
}

/** Counters outside of the process do not answer, and the limit says to refuse then. Answered 503 with `Retry-After`. */
export class CountersUnavailable extends Error {}

/** One counter as the quota ledger keeps it. */
export interface CounterState {
  readonly id: string
  readonly count: number
  /** Milliseconds since the epoch at which the period ends; 0: never. */
  readonly renews: number
}

export interface Counters {
  /**
   * Charges the limits in order and stops at the first that refuses, as one step that nothing comes between; those
   * before it stay charged. A refused quota is counted as well (semantics §5.4), a refused rate only with
   * `countsRefused`.
   * @param units what each quota counts this for, at least 1 (default 1); a rate counts requests alone
   */
  charge(limits: readonly Charge[], units?: number): Verdict | Promise<Verdict>
  /**
   * What a charge would answer now, without counting or moving anything: it refuses where the charge would, and holds
   * against the same allowance. `remaining` is what is left before the next request.
   */
  look(limits: readonly Charge[]): Verdict | Promise<Verdict>
  /** Clears counters by id; a cleared quota is gone from the ledger too. */
  forget(ids: readonly string[]): void | Promise<void>
  /**
   * Quota counters that changed since the last `dump`, at most `limit` of them (the rest at the next call); forgotten
   * ones come with count 0.
   */
  dump(limit?: number): readonly CounterState[] | Promise<readonly CounterState[]>
  /**
   * Takes quota counters back at start. Ended periods are dropped; where a period already runs, the higher count and the
   * earlier end win.
   */
  restore(states: readonly CounterState[]): void | Promise<void>
}
