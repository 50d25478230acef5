import Type, { type TProperties, type TSchema } from 'typebox'
import type { Document, Revision, Store, Write } from '../gateway/store/store.ts'
import type { Caller } from './caller.ts'
import { type Call, type Endpoint, endpoint, Refused } from './endpoint.ts'
import type { ControlTools } from './tools.ts'

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

/**
 * Newest first. Revisions that were never recorded (a document of an earlier version of this program) are left out, and
 * those from when the document belonged to another organisation.
 */
export async function listRevisions(kind: Revised, { id, org, rev }: Document, store: Pick<Store, 'get'>) {
  const found = await Promise.all(
    kept(rev).map(revision => store.get<RevisionRecord>('revision', idOf(kind, id, revision)))
  )
  return {
    revisions: found
      .filter(document => document !== null)
      .filter(document => document.org === org)
      .map(({ body: { revision, at, by, summary } }) => ({ revision, at, by, summary }))
  }
}

/** The state of a document at a revision. @throws Refused 404 when it is not kept */
export async function revisionOf(
  kind: Revised,
  { id, org, rev }: Document,
  revision: string,
  store: Pick<Store, 'get'>
): Promise<unknown> {
  const number = /^[1-9]\d{0,8}$/.test(revision) ? Number(revision) : 0
  const document =
    number === 0 || number > rev ? null : await store.get<RevisionRecord>('revision', idOf(kind, id, number))
  if (document === null || document.org !== org) throw new Refused(404, `Revision ${revision.slice(0, 20)} is not kept`)
  return document.body.document
}

/** Numbers from the newest to the oldest that is kept. */
function kept(rev: Revision): Revision[] {
  return Array.from({ length: Math.min(rev, revisionsKept) }, (_, i) => rev - i)
}

/** What revisions of one kind of document are to their readers. */
export interface RevisedNoun<P extends TProperties> {
  readonly kind: Revised
  /** Of one document, e.g. `/api/portal/policies/{id}`. */
  readonly path: string
  /** e.g. `a policy` */
  readonly noun: string
  /** Shapes of the path's parameters. */
  readonly params: P
  /** Shape of a document as its readers see it. */
  readonly document: TSchema
  /** Shape of the answer of `restore`. */
  readonly restored: TSchema
  /** The document that the parameters name. @throws Refused 404 when there is none that the caller may see */
  find(params: Record<keyof P, string>, call: RevisedCall, tools: ControlTools): Document | Promise<Document>
  /** Writes an earlier state in the place of the present one, after every check of an update. @throws Refused */
  restore(present: Document, state: unknown, summary: string, call: RevisedCall, tools: ControlTools): Promise<unknown>
  /** A stored state as its readers see it; default: as it is. */
  show?(state: unknown, tools: ControlTools): unknown
}
export type RevisedCall = Pick<Call<unknown, unknown, unknown>, 'caller' | 'matched' | 'changed' | 'accept'>

const strict = { additionalProperties: false } as const
const nothing = Type.Object({}, strict)
const RevisionNumber = Type.String({ description: 'Number of a revision that is kept' })

/** `GET …/revisions`, `GET …/revisions/{n}` and `POST …/revisions/{n}/restore` of one kind of document. */
export function revisionEndpoints<P extends TProperties>(given: RevisedNoun<P>): readonly Endpoint[] {
  const { kind, path, noun, find, restore, show = state => state } = given
  const common = { door: 'management', query: nothing, bodyForm: 'none', body: Type.Unknown(), malformed: '' } as const
  const Document = Type.Object(given.params, strict)
  const Numbered = Type.Object({ ...given.params, n: RevisionNumber }, strict)
  const named = (params: unknown) => params as Record<keyof P | 'n', string>
  return [
    endpoint({
      ...common,
      method: 'GET',
      path: `${path}/revisions`,
      summary: `Lists the last ${revisionsKept} revisions of ${noun}, newest first`,
      params: Document,
      answer: RevisionList,
      handle: async (call, tools) => listRevisions(kind, await find(named(call.params), call, tools), tools.store)
    }),
    endpoint({
      ...common,
      method: 'GET',
      path: `${path}/revisions/{n}`,
      summary: `Reads ${noun} as it was at a revision`,
      params: Numbered,
      answer: given.document,
      async handle(call, tools) {
        const params = named(call.params)
        return show(await revisionOf(kind, await find(params, call, tools), params.n, tools.store), tools)
      }
    }),
    endpoint({
      ...common,
      method: 'POST',
      path: `${path}/revisions/{n}/restore`,
      summary: `Makes an earlier revision of ${noun} the newest one`,
      params: Numbered,
      answer: given.restored,
      async handle(call, tools) {
        const params = named(call.params)
        const present = await find(params, call, tools)
        const state = await revisionOf(kind, present, params.n, tools.store)
        return restore(present, state, `restored revision ${Number(params.n)}`, call, tools)
      }
    })
  ]
}
