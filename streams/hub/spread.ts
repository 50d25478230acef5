import type { Clock } from '../../config/world.ts'
import type { Client, Ending } from './hub.ts'

/** Steps are no finer: ten thousand clients over ten seconds are then 20 a step. */
const STEP_MS = 20

/** Most of them at one go, also where no time is given: closing writes to a socket. */
const AT_ONCE = 500

/**
 * Closes them evenly over `ms`, so that they do not all come back in the same moment; 0: as fast as fairness to others
 * allows. The first ones are closed before this returns. Resolves when the last one has been told.
 */
export function spread(clients: Iterable<Client>, why: Ending, ms: number, clock: Clock): Promise<void> {
  const all = [...clients]
  const begun = clock.now()
  let closed = 0
  return new Promise(resolve => {
    function step(): void {
      const passed = clock.now() - begun
      const share = passed >= ms ? all.length : Math.floor((passed / ms) * all.length) + 1
      const until = Math.min(share, all.length, closed + AT_ONCE)
      while (closed < until) all[closed++]!.close(why)
      if (closed === all.length) resolve()
      else if (closed < share) clock.after(0, step)
      else clock.after(Math.max(STEP_MS, ms / all.length), step)
    }
    step()
  })
}
