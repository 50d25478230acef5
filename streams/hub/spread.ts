import type { Clock } from '../../config/world.ts'
import type { Client, Ending } from './hub.ts'

/** Steps are no finer: ten thousand clients over ten seconds are then 20 a step. */
const STEP_MS = 20

/** Most of them at one go, also where no time is given: closing writes to a socket. */
const AT_ONCE = 500

/**
 * Closes them evenly over `ms`, so that they do not all come back in the same moment; 0: as fast as fairness to others
 * allows. The first ones are closed before this returns. Resolves when the last one has been told, or it is cut short.
 */
export function spread(
  clients: Iterable<Client>,
  why: Ending,
  ms: number,
  clock: Clock,
  cut?: AbortSignal
): Promise<void> {
  const all = [...clients]
  const begun = clock.now()
  let closed = 0
  let cancel = () => {}
  return new Promise(resolve => {
    function step(): void {
      const passed = clock.now() - begun
      const share = passed >= ms ? all.length : Math.floor((passed / ms) * all.length) + 1
      const until = Math.min(share, all.length, closed + AT_ONCE)
      while (closed < until) all[closed++]!.close(why)
      if (closed === all.length) resolve()
      else cancel = clock.after(closed < share ? 0 : Math.max(STEP_MS, ms / all.length), step)
    }
    cut?.addEventListener('abort', () => {
      cancel()
      resolve()
    })
    step()
  })
}

/** Ends clients, perhaps told so again and faster while it does. */
export class Farewell {
  readonly #clock: Clock
  #cut = new AbortController()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** As `spread`, and an earlier one is over by it. @param clients all who are left */
  say(clients: Iterable<Client>, why: Ending, ms: number): Promise<void> {
    this.#cut.abort()
    this.#cut = new AbortController()
    return spread(clients, why, ms, this.#clock, this.#cut.signal)
  }
}
