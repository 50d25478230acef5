import type { Changes } from '../changes/changes.ts'
import { anyId } from '../changes/changes.ts'
import { Recent } from '../keys/recent.ts'
import { type Document, type Kind, type Store, Unavailable } from '../store/store.ts'

/** What requests wait for when it is in no memory. */
const KINDS: ReadonlySet<Kind> = new Set<Kind>(['key', 'policy', 'certificate'])
const REMEMBERED = 30_000

/**
 * A store that answers threads from what any of them has read, while it cannot be read itself: a key in use must not depend on
 * which thread a connection meets. Forgotten like all that is held in memory, when it changes or nobody can say any longer
 * whether it has.
 */
export function lastRead(store: Store, changes: Pick<Changes, 'listen'>): { store: Store; close(): void } {
  const known = new Recent<Document>(REMEMBERED)
  /** Apart: whoever guesses tokens must not drive keys out. A token is looked for as a custom id first, which it is not. */
  const absent = new Recent<null>(REMEMBERED)
  /** Raised by each change: what was asked for before it may be old. */
  let epoch = 0
  const close = changes.listen(list => {
    epoch++
    if (list === null || list.some(({ id }) => id === anyId)) {
      known.clear()
      absent.clear()
      return
    }
    for (const { kind, id } of list) {
      known.delete(nameOf(kind, id))
      absent.delete(nameOf(kind, id))
    }
  })

  async function got(kind: Kind, id: string, asked: Promise<Document | null>): Promise<Document | null> {
    const name = nameOf(kind, id)
    const before = epoch
    try {
      const found = await asked
      if (before !== epoch) return found
      if (found === null) absent.set(name, null)
      else known.set(name, found)
      return found
    } catch (cause) {
      const last = cause instanceof Unavailable ? (known.get(name) ?? absent.get(name)) : undefined
      if (last === undefined) throw cause
      return last
    }
  }

  const get = (kind: Kind, id: string) => {
    const found = store.get(kind, id)
    // Who answers at once is never away.
    return found instanceof Promise && KINDS.has(kind) ? got(kind, id, found) : found
  }
  return { store: { ...store, get: get as Store['get'] }, close }
}

function nameOf(kind: Kind, id: string): string {
  return `${kind} ${id}`
}
