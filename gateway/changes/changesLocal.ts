import type { Changes, ChangesListener } from './changes.ts'

/** Changes within one process. */
export function changesLocal(): Changes {
  const listeners = new Set<ChangesListener>()
  return {
    async publish(changes) {
      // Keys are forgotten in the first turn, however long APIs take to compile.
      const taken = await Promise.allSettled([...listeners].map(async listener => listener(changes)))
      for (const one of taken) if (one.status === 'rejected') throw one.reason
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
