import type { Store, Write } from '../gateway/store/store.ts'
import { nameId } from './ids.ts'

/**
 * Names that must be unique among documents of a kind in an organisation: each is a document of kind `name` that leads
 * to the one which has it, written in the same commit.
 */

/** Body of such a document. */
interface NameRecord {
  /** Storage id of the document that has the name. */
  readonly id: string
}

export interface Name {
  readonly org: string
  readonly name: string
}

/** Somebody else has the name. */
export class NameTaken extends Error {}

/** Storage id of the document that has a name; null: nobody has it. */
export async function holderOf(kind: string, { org, name }: Name, store: Pick<Store, 'get'>): Promise<string | null> {
  return (await store.get<NameRecord>('name', nameId(kind, org, name)))?.body.id ?? null
}

/**
 * What a document adds to its commit when its name changes. A `Conflict` on `name` tells that others were faster.
 * @param before null: it had none
 * @param after null: it will have none
 * @throws NameTaken
 */
export async function nameWrites(
  kind: string,
  id: string,
  before: Name | null,
  after: Name | null,
  store: Pick<Store, 'get'>
): Promise<Write[]> {
  if (before?.org === after?.org && before?.name === after?.name) return []
  const writes: Write[] = []
  if (before !== null) {
    const old = await store.get<NameRecord>('name', nameId(kind, before.org, before.name))
    if (old?.body.id === id) writes.push({ kind: 'name', id: old.id, body: null, expect: old.rev })
  }
  if (after !== null) {
    const place = nameId(kind, after.org, after.name)
    const holder = await store.get<NameRecord>('name', place)
    if (holder !== null && holder.body.id !== id) throw new NameTaken()
    if (holder === null) writes.push({ kind: 'name', id: place, org: after.org, body: { id }, expect: 0 })
  }
  return writes
}
