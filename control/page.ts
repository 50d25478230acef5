import Type, { type Static } from 'typebox'
import type { Settings } from '../config/settings.ts'
import type { Document, Kind, Store } from '../gateway/store/store.ts'
import { Answer, Streamed } from './endpoint.ts'

/** Most members of one page that a caller may ask for. */
export const LARGEST_PAGE = 1000

/** The query members of a list: spread them into its shape. */
export const paging = {
  p: Type.Optional(
    Type.String({
      pattern: '^-?\\d{1,9}$',
      description: 'Page from 1; 0 is page 1; past the end: empty; below 0: everything'
    })
  ),
  page_size: Type.Optional(
    Type.String({
      pattern: '^0*[1-9]\\d{0,3}$',
      description: `Members of a page, at most ${LARGEST_PAGE}; default: management.page_size`
    })
  )
}
export const Paging = Type.Object(paging)

export interface PageAsked {
  /** From 1; below 0: everything. */
  readonly page: number
  readonly size: number
}

/** @param query checked against `paging`; without `p` it is the first page */
export function pageAsked(query: Static<typeof Paging>, { management }: Pick<Settings, 'management'>): PageAsked {
  const page = Number(query.p ?? 1)
  return {
    page: page < 0 ? -1 : Math.max(1, page),
    size: Math.min(Number(query.page_size ?? management.page_size), LARGEST_PAGE)
  }
}

/** How many pages so many members make; everything at once is one page. */
export function pagesOf(total: number, { page, size }: PageAsked): number {
  return page < 0 ? Math.min(1, total) : Math.ceil(total / size)
}

/** The members of a page, of a list that is in memory. */
export function slicePage<T>(all: readonly T[], { page, size }: PageAsked): readonly T[] {
  return page < 0 ? all : all.slice((page - 1) * size, page * size)
}

/**
 * One page of stored documents as `{"<name>":[…],"<pages>":n}`; everything (page below 0) is streamed.
 * @param show a document as its readers see it
 * @param org null: of all organisations
 */
export async function listPage<T>(
  { store, settings }: { store: Store; settings: Pick<Settings, 'management'> },
  kind: Kind,
  org: string | null,
  query: Static<typeof Paging> & { readonly newestFirst?: boolean },
  name: string,
  show: (document: Document<T>) => unknown | Promise<unknown>,
  pages = 'pages'
): Promise<unknown> {
  const asked = pageAsked(query, settings)
  const which = { ...(org === null ? {} : { org }), newestFirst: query.newestFirst ?? false }
  if (asked.page < 0) return streamedList(name, pages, mapped(flat(store.each<T>(kind, which)), show))
  const { documents, total } = await store.list<T>(kind, { ...which, ...asked })
  return { [name]: await Promise.all(documents.map(show)), [pages]: pagesOf(total, asked) }
}

/** The documents of a walk (`Store.each`), one by one. */
export async function* flat<T>(slices: AsyncIterable<readonly Document<T>[]>): AsyncGenerator<Document<T>> {
  for await (const documents of slices) yield* documents
}

/** Everything of a list, written while it is read: `{"<name>":[…],"<pages>":1}`, pages 0 when there is nothing. */
export function streamedList(name: string, pages: string, members: AsyncIterable<unknown>): Answer {
  const after = (count: number) => `],${JSON.stringify(pages)}:${Math.min(1, count)}}`
  return streamedJson(`{${JSON.stringify(name)}:[`, members, after)
}

/** Characters of JSON that are handed on at once. */
const PIECE = 65_536

/** A list that is written while it is read: `before`, the members, and what stands behind so many of them. */
export function streamedJson(
  before: string,
  members: AsyncIterable<unknown>,
  after: (count: number) => string
): Answer {
  async function* pieces() {
    let count = 0
    let text = before
    for await (const member of members) {
      text += `${count++ === 0 ? '' : ','}${JSON.stringify(member)}`
      if (text.length < PIECE) continue
      yield text
      text = ''
    }
    yield text + after(count)
  }
  return new Answer(200, new Streamed(pieces()))
}

/** Each member as it is shown. */
export async function* mapped<T, R>(members: AsyncIterable<T>, show: (member: T) => R | Promise<R>): AsyncGenerator<R> {
  for await (const member of members) yield await show(member)
}
