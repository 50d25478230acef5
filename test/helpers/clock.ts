import type { Clock } from '../../config/world.ts'

export interface HandClock extends Clock {
  /** Time passes: what falls due is called in its order, each at its time and with the turns of the event loop it needs. */
  move(ms: number): Promise<void>
  /** Time has passed at once, as for a machine that slept: all that is due by then is called now, once. */
  jump(ms: number): void
  /** Resolves once something waits for exactly so many milliseconds from now. */
  waiting(ms: number): Promise<void>
  /** How many wait for exactly so many milliseconds from now. */
  waiters(ms: number): number
}

interface Timer {
  readonly at: number
  readonly run: () => void
}

/** A clock that stands until it is moved. Begins at a full hour, which all usual windows are aligned to. */
export function handClock(start = Date.UTC(2030, 0, 1)): HandClock {
  let now = start
  const timers = new Set<Timer>()
  let watchers: { readonly at: number; readonly resolve: () => void }[] = []
  const due = (until: number) => [...timers].filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)

  function call(timer: Timer): void {
    timers.delete(timer)
    timer.run()
  }

  const waiters = (ms: number) => [...timers].filter(({ at }) => at === now + ms).length

  return {
    now: () => now,
    after(ms, run) {
      // What waits for no time goes on although the clock stands: a gateway that stops does so.
      if (ms <= 0) {
        const turn = setImmediate(run)
        return () => clearImmediate(turn)
      }
      const timer = { at: now + ms, run }
      timers.add(timer)
      const called = watchers.filter(({ at }) => at === timer.at)
      watchers = watchers.filter(({ at }) => at !== timer.at)
      for (const { resolve } of called) resolve()
      return () => void timers.delete(timer)
    },
    async move(ms) {
      const until = now + ms
      for (let next = due(until)[0]; next !== undefined; next = due(until)[0]) {
        now = Math.max(now, next.at)
        call(next)
        await new Promise<void>(resolve => setImmediate(resolve))
      }
      now = until
    },
    jump(ms) {
      now += ms
      for (const timer of due(now)) call(timer)
    },
    waiters,
    waiting(ms) {
      if (waiters(ms) > 0) return Promise.resolve()
      return new Promise<void>(resolve => watchers.push({ at: now + ms, resolve }))
    }
  }
}
