import { isObject } from '../../config/report.ts'
import { escapeDots, unescapeDots } from './dots.ts'

/** An API in the store: its document and, where they are known, when it was written. */
export interface StoredApi {
  readonly document: unknown
  /** Milliseconds since the epoch; null: unknown. */
  readonly created: number | null
  readonly updated: number | null
}

/** Body of a stored `api`; one without times is the document alone. */
export function toStored({ document, created, updated }: StoredApi, form: { escapeDots: boolean }): unknown {
  const kept = form.escapeDots ? escapeDots(document) : document
  return updated === null ? kept : { created, updated, document: kept }
}

/** @throws Invalid for a document with one path twice */
export function fromStored(body: unknown): StoredApi {
  // No API document is without `openapi`.
  if (!isObject(body) || Object.hasOwn(body, 'openapi') || !isObject(body.document))
    return { document: unescapeDots(body), created: null, updated: null }
  const time = (value: unknown) => (typeof value === 'number' ? value : null)
  return { document: unescapeDots(body.document), created: time(body.created), updated: time(body.updated) }
}
