import { setImmediate as nextTurn } from 'node:timers/promises'
import { parseExact } from '../../config/exactJson.ts'
import { type Placed, Places } from './places.ts'
import { raises } from './raise.ts'
import type { Change, Count, Document, Kind, Page, Query, Sequence, Store, Walk, Write } from './store.ts'
import { Conflict, deletionsKept, Unavailable } from './store.ts'

/** How many documents of a long list are looked at before other work gets its turn. */
const turn = 5_000
const slice = 500

/** Documents in memory: for tests, and for `storage.documents.type` = `memory`. */
export function storeMemory(): Store {
  const documents = new Map<string, Placed>()
  // By kind (all organisations), and by kind and organisation.
  const lists = new Map<string, Places>()
  // In order of deletion: a Map keeps the order in which its keys came.
  const deletions = new Map<string, Change>()
  let newest: Sequence = 0
  let forgotten: Sequence = 0
  let place = 0
  let open = true

  const nameOf = (kind: Kind, id: string) => `${kind}\n${id}`
  const listOf = (kind: Kind, org?: string) => {
    const name = org === undefined ? kind : `${kind}\n${org}`
    const list = lists.get(name) ?? new Places()
    lists.set(name, list)
    return list
  }
  const mustBeOpen = () => {
    if (!open) throw new Unavailable('the store is closed')
  }

  /** Whether each write changes something, unless it deletes. @throws Conflict */
  function check(writes: readonly Write[], bodies: readonly unknown[]): boolean[] {
    const states = new Map<string, { readonly rev: number; readonly body: unknown }>()
    return writes.map(({ kind, id, expect, raise, body }, i) => {
      const name = nameOf(kind, id)
      const { rev, body: present } = states.get(name) ?? documents.get(name)?.document ?? { rev: 0, body: null }
      if (expect !== undefined && expect !== rev) throw new Conflict(kind, id)
      if (raise && !raises(present as Count | null, body)) return false
      states.set(name, bodies[i] === null ? { rev: 0, body: null } : { rev: rev + 1, body: bodies[i] })
      return true
    })
  }

  function put(kind: Kind, id: string, org: string, body: unknown, sequence: Sequence): void {
    const name = nameOf(kind, id)
    const before = documents.get(name)
    const rev = before === undefined ? 1 : before.document.rev + 1
    const after: Placed = { place: before?.place ?? ++place, document: { kind, id, org, rev, sequence, body } }
    documents.set(name, after)
    deletions.delete(name)
    if (before === undefined) {
      listOf(kind).append(after)
      listOf(kind, org).append(after)
      return
    }
    listOf(kind).replace(after)
    if (before.document.org === org) listOf(kind, org).replace(after)
    else {
      drop(kind, before.document.org, before.place)
      listOf(kind, org).insert(after)
    }
  }

  function drop(kind: Kind, org: string | undefined, at: number): void {
    const list = listOf(kind, org)
    list.remove(at)
    if (list.total === 0 && org !== undefined) lists.delete(`${kind}\n${org}`)
  }

  function remove(kind: Kind, id: string, sequence: Sequence): boolean {
    const name = nameOf(kind, id)
    const before = documents.get(name)
    if (before === undefined) return false
    documents.delete(name)
    drop(kind, undefined, before.place)
    drop(kind, before.document.org, before.place)
    deletions.set(name, { sequence, kind, id, deleted: true })
    return true
  }

  function forgetDeletions(): void {
    for (const [name, deletion] of deletions) {
      if (deletions.size <= deletionsKept) return
      deletions.delete(name)
      forgotten = deletion.sequence
    }
  }

  return {
    get<T>(kind: Kind, id: string) {
      mustBeOpen()
      return (documents.get(nameOf(kind, id))?.document as Document<T> | undefined) ?? null
    },

    async list<T>(kind: Kind, query: Query): Promise<Page<T>> {
      mustBeOpen()
      const { org, contains = '', size, newestFirst = false, idsOnly = false } = query
      const places = lists.get(org === undefined ? kind : `${kind}\n${org}`) ?? new Places()
      const skip = query.page < 0 ? 0 : (Math.max(query.page, 1) - 1) * size
      const count = query.page < 0 ? Infinity : size

      let total = places.total
      let found: Placed[]
      if (contains === '') {
        const from = newestFirst ? Math.max(0, total - skip - count) : skip
        found = places.slice(from, newestFirst ? Math.max(0, total - skip) - from : count)
        if (newestFirst) found.reverse()
      } else {
        const matching: Placed[] = []
        const all = places.slice(0, total)
        for (let i = 0; i < all.length; i++) {
          if (i % turn === turn - 1) await nextTurn()
          if (all[i]!.document.id.includes(contains)) matching.push(all[i]!)
        }
        if (newestFirst) matching.reverse()
        total = matching.length
        found = matching.slice(skip, skip + count)
      }

      const page: Document[] = []
      for (let i = 0; i < found.length; i++) {
        if (i % turn === turn - 1) await nextTurn()
        page.push(idsOnly ? { ...found[i]!.document, body: null } : found[i]!.document)
      }
      return { documents: page as Document<T>[], total }
    },

    async *each<T>(kind: Kind, { org, newestFirst = false, idsOnly = false }: Walk) {
      mustBeOpen()
      const list = lists.get(org === undefined ? kind : `${kind}\n${org}`) ?? new Places()
      const all = list.slice(0, list.total)
      if (newestFirst) all.reverse()
      for (let i = 0; i < all.length; i += slice) {
        mustBeOpen()
        const documents = all
          .slice(i, i + slice)
          .map(({ document }) => (idsOnly ? { ...document, body: null } : document))
        yield documents as Document<T>[]
        await nextTurn()
      }
    },

    async commit(writes) {
      mustBeOpen()
      // Through JSON, as any other store: the caller's object stays the caller's, and a body that is no JSON fails here too.
      const bodies = writes.map(({ body }) => parseExact(JSON.stringify(body)))
      const takes = check(writes, bodies)
      const sequence = newest + 1
      for (const [i, write] of writes.entries()) {
        if (write.body === null) {
          if (!remove(write.kind, write.id, sequence)) continue
        } else if (!takes[i]) continue
        else put(write.kind, write.id, write.org, bodies[i], sequence)
        newest = sequence
      }
      forgetDeletions()
      return newest
    },

    async since(sequence, kinds) {
      mustBeOpen()
      if (sequence < forgotten || sequence > newest) return null
      const isWanted = (one: { sequence: Sequence; kind: Kind }) =>
        one.sequence > sequence && (kinds === undefined || kinds.includes(one.kind))
      const changes = [...deletions.values()].filter(isWanted)
      for (const { document } of documents.values()) {
        const { kind, id } = document
        if (isWanted(document)) changes.push({ sequence: document.sequence, kind, id, deleted: false })
      }
      return changes.sort((a, b) => a.sequence - b.sequence)
    },

    async sequence() {
      mustBeOpen()
      return newest
    },

    async close() {
      open = false
    }
  }
}
