import type { Change } from '../store/store.ts'
import type { Changes } from './changes.ts'

/** Changes within one process. */
export function changesLocal(): Changes {
  const listeners = new Set<(changes: readonly Change[]) => void | Promise<void>>()
  return {
    async publish(changes) {
      for (const listener of listeners) await listener(changes)
    },
    listen(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    async close() {
      listeners.clear()
    }
  }
}
