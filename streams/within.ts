import type { Clock } from '../config/world.ts'

/** Resolves when it is settled, or after `ms`: it may take no longer. Never rejects. */
export function within(what: Promise<unknown>, ms: number, clock: Clock): Promise<void> {
  return new Promise(resolve => {
    const cancel = clock.after(ms, resolve)
    function settled(): void {
      cancel()
      resolve()
    }
    what.then(settled, settled)
  })
}
