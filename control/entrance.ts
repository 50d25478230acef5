import type { Revision, Store, Write } from '../gateway/store/store.ts'
import { nameId } from './ids.ts'

/**
 * Beside each organisation stands a document of kind `name` that is written whenever the organisation is created, gets a
 * user, or is deleted: of two that happen at once, one meets a `Conflict` and begins again. It outlives the organisation,
 * whose id is never given again: audit records and whatever else is filed under it would come to the next owner.
 */
export interface Entrance {
  readonly id: string
  readonly rev: Revision
  /** The organisation was deleted. */
  readonly closed: boolean
}

interface EntranceRecord {
  readonly closed: boolean
}

/** Ask before what the commit depends on is read. */
export async function entranceOf(org: string, store: Pick<Store, 'get'>): Promise<Entrance> {
  const id = nameId('entrance', '', org)
  const document = await store.get<EntranceRecord>('name', id)
  return { id, rev: document?.rev ?? 0, closed: document?.body.closed ?? false }
}

/** What a commit adds so that it fails where the entrance was written since it was asked for. */
export function entered({ id, rev }: Entrance, { closed }: EntranceRecord = { closed: false }): Write {
  // Of no organisation: it must not count among the documents of one that was deleted.
  return { kind: 'name', id, org: '', body: { closed }, expect: rev }
}
