import { isDeepStrictEqual } from 'node:util'
import type { Client } from './client.ts'
import { type DocumentKind, type Given, type Json, kinds } from './documents.ts'
import { meaning } from './meaning.ts'
import { normal, withKept } from './normal.ts'

/** What is to be done for one document so that the gateway has it as the files say. */
export interface Change {
  readonly given: Given
  readonly does: 'create' | 'update'
  /** By meaning, a line each. */
  readonly lines: readonly string[]
  /** Of the revision that was read; null: it is new. */
  readonly etag: string | null
  /** As it is now; null: it is new. */
  readonly present: Json | null
}

const STREAMING = 'x-svc-streaming'
const segment = encodeURIComponent

/** Where a document of the kind lies; with an id: that one. */
function place(kind: DocumentKind, body: Json, id?: string): string {
  const below = id === undefined ? '' : `/${segment(id)}`
  if (kind === 'asset') return `/api/assets${below}`
  if (kind === 'policy') return `/api/portal/policies${below}`
  if (kind === 'key') return `/api/keys${below}`
  return `/api/apis/${Object.hasOwn(body, STREAMING) ? 'streams' : 'oas'}${below}`
}

/** Compares the files with the gateway, in the order in which they can be written. @throws CallFailed */
export async function plan(given: readonly Given[], client: Client): Promise<Change[]> {
  const changes: Change[] = []
  for (const kind of kinds)
    for (const one of given.filter(each => each.kind === kind)) {
      const found = await client.read(place(kind, one.body, one.id))
      const present = found === null ? null : kind === 'key' ? found.body.data : found.body
      const wanted = kind === 'key' && present !== null ? await previewed(one.body, client) : one.body
      const [before, after] = [present === null ? null : normal(kind, present), normal(kind, wanted)]
      // Counted from a key's creation where its policies say so.
      if (before !== null && kind === 'key' && one.body.expires === undefined) delete before.expires
      if (before !== null && isDeepStrictEqual(before, after)) continue
      const lines = meaning(kind, before, after)
      changes.push({
        given: one,
        does: before === null ? 'create' : 'update',
        lines,
        etag: found?.etag ?? null,
        present
      })
    }
  return changes
}

/** Keys are read with their policies applied, so what the file says is compared in the same form. */
async function previewed({ id: _id, ...key }: Json, client: Client): Promise<Json> {
  const { expires, ...preview } = await client.write('POST', '/api/keys/preview', key)
  return key.expires === undefined ? preview : { ...preview, expires }
}

/** Writes one change. What somebody else wrote since it was read is not overwritten. @throws CallFailed */
export async function apply({ given, does, etag, present }: Change, client: Client): Promise<void> {
  const { kind, id } = given
  const body = withKept(kind, given.body, present)
  const named = does === 'update' || kind === 'key'
  const type = kind === 'api' && Object.hasOwn(body, STREAMING) ? 'application/vnd.svc.streams.oas' : 'application/json'
  // A changed key keeps what was counted: files say what it may do, not what it has done.
  const query = kind === 'key' && does === 'update' ? '?suppress_reset=1' : ''
  const path = named ? place(kind, body, id) : place(kind, body)
  await client.write(does === 'update' ? 'PUT' : 'POST', path + query, body, { etag, type })
}

/** A change as people read it. */
export function told({ given: { kind, id, file }, does, lines }: Change): string {
  const sign = does === 'create' ? '+' : '~'
  return [`${sign} ${kind} ${id}  (${file})`, ...lines.map(line => `    ${line}`)].join('\n')
}
