import Type from 'typebox'
import type { Document, Revision, Store, Write } from '../gateway/store/store.ts'
import type { Caller } from './caller.ts'
import { Refused } from './endpoint.ts'

/** Earlier states of APIs and policies: the last 50 of each, written together with every change. */

/** Revisions kept of one document, the present one included. */
export const revisionsKept = 50
export type Revised = 'api' | 'policy'

/** Body of a stored `revision` document. */
export interface RevisionRecord {
  readonly revision: Revision
  /** ISO 8601. */
  readonly at: string
  /** Who wrote it. */
  readonly by: string
  readonly summary: string
  /** As it was stored. */
  readonly document: unknown
}

export const RevisionList = Type.Object({
  revisions: Type.Array(
    Type.Object({
      revision: Type.Integer({ minimum: 1 }),
      at: Type.String({ format: 'date-time', description: 'When it was written' }),
      by: Type.String({ description: 'Who wrote it' }),
      summary: Type.String()
    })
  )
})

const idOf = (kind: Revised, id: string, revision: Revision) => `${kind}/${id}/${revision}`

/** What a write of a document adds to its commit: the new revision, and the oldest leaves. */
export function revisionWrites(
  kind: Revised,
  written: { readonly id: string; readonly org: string; readonly body: unknown },
  rev: Revision,
  meta: { readonly at: number; readonly caller: Caller; readonly summary: string }
): Write[] {
  const body: RevisionRecord = {
    revision: rev,
    at: new Date(meta.at).toISOString(),
    by: meta.caller.name,
    summary: meta.summary,
    document: written.body
  }
  const write: Write = { kind: 'revision', id: idOf(kind, written.id, rev), org: written.org, body }
  if (rev <= revisionsKept) return [write]
  return [write, { kind: 'revision', id: idOf(kind, written.id, rev - revisionsKept), body: null }]
}

/** What a deletion adds to its commit: a document of the same id that comes later begins anew. */
export function revisionDeletions(kind: Revised, id: string, rev: Revision): Write[] {
  return kept(rev).map(revision => ({ kind: 'revision', id: idOf(kind, id, revision), body: null }))
}

/** Newest first. Revisions that were never recorded (a document of an earlier version of this program) are left out. */
export async function listRevisions(kind: Revised, { id, rev }: Document, store: Pick<Store, 'get'>) {
  const found = await Promise.all(
    kept(rev).map(revision => store.get<RevisionRecord>('revision', idOf(kind, id, revision)))
  )
  return {
    revisions: found
      .filter(document => document !== null)
      .map(({ body: { revision, at, by, summary } }) => ({ revision, at, by, summary }))
  }
}

/** The state of a document at a revision. @throws Refused 404 when it is not kept */
export async function revisionOf(
  kind: Revised,
  { id, rev }: Document,
  revision: string,
  store: Pick<Store, 'get'>
): Promise<unknown> {
  const number = /^[1-9]\d{0,8}$/.test(revision) ? Number(revision) : 0
  const document =
    number === 0 || number > rev ? null : await store.get<RevisionRecord>('revision', idOf(kind, id, number))
  if (document === null) throw new Refused(404, `Revision ${revision.slice(0, 20)} is not kept`)
  return document.body.document
}

/** Numbers from the newest to the oldest that is kept. */
function kept(rev: Revision): Revision[] {
  return Array.from({ length: Math.min(rev, revisionsKept) }, (_, i) => rev - i)
}
