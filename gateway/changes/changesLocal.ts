import type { Changes, ChangesListener } from './changes.ts'

/** Changes within one process. */
export function changesLocal(): Changes {
  const listeners = new Set<ChangesListener>()
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
