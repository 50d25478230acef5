import { Conflict, type Kind, type Sequence, type Store, type Write } from './store.ts'

/** A store of two, each with a sequence of its own: who follows changes follows each by itself. */
export interface SplitStore extends Store {
  /** Has all other kinds. */
  readonly documents: Store
  /** Has the kind `key`. */
  readonly keys: Store
}

/**
 * Keys in one store, everything else in another. `sequence` and `since` are those of the documents (both stores must
 * answer), but a commit that writes keys gives the sequence of the keys.
 *
 * A commit with both looks first whether the documents' store answers and expects what it finds, then writes the keys,
 * whose expectations refuse it as a whole, then the documents. A process that dies between the two, or a store of
 * documents that fails then, leaves the keys written without the rest (their audit record); nobody was told of a success.
 * @param given both are closed with it
 */
export function storeSplit({ documents, keys }: Pick<SplitStore, 'documents' | 'keys'>): SplitStore {
  const of = (kind: Kind) => (kind === 'key' ? keys : documents)

  async function commitBoth(ofKeys: readonly Write[], others: readonly Write[]): Promise<Sequence> {
    await documents.sequence()
    await expected(others, documents)
    const sequence = await keys.commit(ofKeys)
    await documents.commit(others)
    return sequence
  }

  return {
    documents,
    keys,
    get: (kind, id) => of(kind).get(kind, id),
    list: (kind, query) => of(kind).list(kind, query),
    each: (kind, query) => of(kind).each(kind, query),

    async commit(writes) {
      if (writes.length === 0) {
        await keys.commit([])
        return documents.commit([])
      }
      const ofKeys = writes.filter(({ kind }) => kind === 'key')
      if (ofKeys.length === 0) return documents.commit(writes)
      const others = writes.filter(({ kind }) => kind !== 'key')
      return others.length === 0 ? keys.commit(writes) : commitBoth(ofKeys, others)
    },

    since: (sequence, kinds) => documents.since(sequence, kinds),

    async sequence() {
      await keys.sequence()
      return documents.sequence()
    },

    async close() {
      await keys.close()
      await documents.close()
    }
  }
}

/** What a first write of each document expects of what is there now; the rest the store finds. @throws Conflict */
async function expected(writes: readonly Write[], store: Store): Promise<void> {
  const seen = new Set<string>()
  for (const { kind, id, expect } of writes) {
    const name = `${kind}:${id}`
    if (!seen.has(name) && expect !== undefined && ((await store.get(kind, id))?.rev ?? 0) !== expect)
      throw new Conflict(kind, id)
    seen.add(name)
  }
}
