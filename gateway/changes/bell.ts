import type { Sequence } from '../store/store.ts'

/**
 * Wakes those who follow a store, in all processes. It may fail to ring: then they find what is new a moment later by
 * themselves.
 */
export interface Bell {
  /** Somebody here wrote. Never throws, never waits. */
  ring(sequence: Sequence): void
  /** Null: it may have rung unheard. The answer ends the listening. */
  listen(listener: (sequence: Sequence | null) => void): () => void
}
