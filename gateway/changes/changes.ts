import type { Change } from '../store/store.ts'

/** The port through which a write reaches whoever caches documents: in this process at once, in others later. */
export interface Changes {
  /** Resolves once every listener of this process has taken the change over. */
  publish(changes: readonly Change[]): Promise<void>
  /** The answer ends the listening. */
  listen(listener: (changes: readonly Change[]) => void | Promise<void>): () => void
  close(): Promise<void>
}
