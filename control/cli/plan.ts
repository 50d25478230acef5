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
  await client.check()
  const changes: Change[] = []
  for (const kind of kinds)
    for (const one of given.filter(each => each.kind === kind)) {
      const found = await client.read(place(kind, one.body, one.id) + (kind === 'key' ? AS_WRITTEN : ''))
      const present = found === null ? null : kind === 'key' ? found.body.data : found.body
      const [before, after] = [present === null ? null : normal(kind, present), normal(kind, one.body)]
      // Policies say when a new key expires; a lifetime in the file counts from the key's creation.
      if (before !== null && kind === 'key' && typeof after.expires !== 'number') {
        delete before.expires
        delete after.expires
      }
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

const AS_WRITTEN = '?written=true'

/** Writes one change. What somebody else wrote since it was read is not overwritten. @throws CallFailed */
export async function apply({ given, does, etag, present }: Change, client: Client): Promise<void> {
  const { kind, id } = given
  const body = withKept(kind, given.body, present)
  const named = does === 'update' || kind === 'key'
  const type = kind === 'api' && Object.hasOwn(body, STREAMING) ? 'application/vnd.svc.streams.oas' : 'application/json'
  const path = named ? place(kind, body, id) : place(kind, body)
  if (does === 'update') await client.write('PUT', path + (kind === 'key' ? KEEPS : ''), body, { etag, type })
  else {
    await client.write('POST', path, body, { type })
    if (kind === 'key' && typeof body.expires === 'number') await expiring(path, body, client)
  }
}

/** A changed key keeps what was counted: files say what it may do, not what it has done. */
const KEEPS = '?suppress_reset=1'

/** A policy's lifetime takes the place of a new key's own end; a file means what it says. */
async function expiring(path: string, body: Json, client: Client): Promise<void> {
  const made = await client.read(path + AS_WRITTEN)
  if (made !== null && made.body.data.expires !== body.expires)
    await client.write('PUT', path + KEEPS, withKept('key', body, made.body.data), { etag: made.etag })
}

/** A change as people read it. */
export function told({ given: { kind, id, file }, does, lines }: Change): string {
  const sign = does === 'create' ? '+' : '~'
  return [`${sign} ${kind} ${id}  (${file})`, ...lines.map(line => `    ${line}`)].join('\n')
}
