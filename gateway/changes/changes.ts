import type { Change, Kind } from '../store/store.ts'

/**
 * As the id of a change: every document of its kind may have changed, or nobody can say any longer whether it has. Told of
 * keys and users alone: who holds them forgets them all, while APIs and policies stay as they are.
 */
export const anyId = '*'

/** @returns the change that says it */
export function anyOf(kind: Kind & ('key' | 'user')): Change {
  return { sequence: 0, kind, id: anyId, deleted: false }
}

/** Null: everything may have changed; forget what you hold and read anew. */
export type ChangesListener = (changes: readonly Change[] | null) => void | Promise<void>

/**
 * The port through which a write reaches whoever caches documents: in this process at once, in others that share the
 * store soon afterwards. `changesLocal` and `changesFollowing` pass `test/contract/changes.ts`.
 */
export interface Changes {
  /**
   * Resolves once every listener of this process has taken the change over; rejects as one of them does, and then too the
   * others have heard it. All are told at once: none waits for another.
   */
  publish(changes: readonly Change[] | null): Promise<void>
  /**
   * Hears of every change at least once, in no certain order: who reads the document then sees it, or a newer one. The
   * answer ends the listening.
   */
  listen(listener: ChangesListener): () => void
  /** Ends after what is being told. */
  close(): Promise<void>
}
