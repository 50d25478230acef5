import type { Clock } from '../../../config/world.ts'

/**
 * This process's clock beside the remote one. What is valid until a time of the remote clock is held to a time of ours
 * that is no later: counted from when the request was sent, since the remote decided after that.
 */
export class Moments {
  readonly #clock: Pick<Clock, 'now'>
  readonly #onSetBack: () => void
  #latest = Number.NEGATIVE_INFINITY
  /** The remote clock less ours, as the last answer told it. */
  #skew = 0

  /** @param onSetBack the clock was set back: how long ago anything was, nobody knows any more */
  constructor(clock: Pick<Clock, 'now'>, onSetBack: () => void) {
    this.#clock = clock
    this.#onSetBack = onSetBack
  }

  now(): number {
    const now = this.#clock.now()
    const isSetBack = now < this.#latest
    this.#latest = now
    if (isSetBack) this.#onSetBack()
    return now
  }

  /** @param sent when the question was sent; @param there the remote clock in its answer */
  answered(sent: number, there: number): void {
    this.#skew = there - sent
  }

  /** What the remote clock shows at our `now`. */
  there(now: number): number {
    return now + this.#skew
  }

  /** A time of the remote clock on ours. */
  here(there: number): number {
    return there - this.#skew
  }
}

/** When `reset` of an answer comes, on our clock and no later; 0 is never. */
export function endOf(reset: number, sent: number, there: number): number {
  return reset === 0 ? Number.POSITIVE_INFINITY : sent + reset - there
}
