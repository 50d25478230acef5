import { setImmediate as nextTurn } from 'node:timers/promises'

/** How long reading goes on before requests get their turn. */
const SLICE_MS = 4

/** Runs one task at a time, in the order in which they came; a task that fails holds up none. */
export function queue(): <T>(task: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  return task => {
    const run = last.then(task)
    last = run.catch(() => undefined)
    return run
  }
}

/** To be awaited often: lets requests have their turn whenever a slice is over. */
export function slices(): () => Promise<void> | undefined {
  let until = performance.now() + SLICE_MS
  return () => {
    if (performance.now() < until) return undefined
    return nextTurn().then(() => {
      until = performance.now() + SLICE_MS
    })
  }
}
