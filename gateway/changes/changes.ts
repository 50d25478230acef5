import type { Change } from '../store/store.ts'

/** Null: everything may have changed; forget what you hold and read anew. */
export type ChangesListener = (changes: readonly Change[] | null) => void | Promise<void>

/**
 * The port through which a write reaches whoever caches documents: in this process at once, in others that share the
 * store soon afterwards. `changesLocal` and `changesFollowing` pass `test/contract/changes.ts`.
 */
export interface Changes {
  /** Resolves once every listener of this process has taken the change over; rejects as they do. */
  publish(changes: readonly Change[] | null): Promise<void>
  /**
   * Hears of every change at least once, in no certain order: who reads the document then sees it, or a newer one. The
   * answer ends the listening.
   */
  listen(listener: ChangesListener): () => void
  /** Ends after what is being told. */
  close(): Promise<void>
}
