import Type, { type Static } from 'typebox'
import type { Document } from '../../gateway/store/store.ts'
import { Answer, Streamed } from '../endpoint.ts'
import { LARGEST_PAGE, paging } from '../page.ts'
import type { ControlTools } from '../tools.ts'

/** The query of the portal's lists, which are bare arrays. `p` is `page` by the name that it has elsewhere. */
export const PortalPaging = Type.Object(
  {
    p: paging.p,
    page: paging.p,
    per_page: Type.Optional(
      Type.String({
        pattern: '^0*[1-9]\\d{0,3}$',
        description: `Members of a page, at most ${LARGEST_PAGE}; default: 20`
      })
    )
  },
  { additionalProperties: false }
)

/**
 * One page; everything (page below 0) is streamed.
 * @param unwritten what is there though nothing is stored; it is stored before anything else is
 */
export async function portalPage<T>(
  kind: 'portal_organisation' | 'portal_user',
  org: string,
  query: Static<typeof PortalPaging>,
  { store }: Pick<ControlTools, 'store'>,
  show: (body: T) => unknown,
  unwritten: readonly T[] = []
): Promise<unknown> {
  const page = Number(query.page ?? query.p ?? 1)
  if (page < 0) return new Answer(200, new Streamed(pieces(store.each<T>(kind, { org }), show, unwritten)))
  const size = Math.min(Number(query.per_page ?? 20), LARGEST_PAGE)
  const { documents, total } = await store.list<T>(kind, { org, page, size })
  const bodies = total > 0 ? documents.map(({ body }) => body) : page > 1 ? [] : unwritten
  return Promise.all(bodies.map(show))
}

async function* pieces<T>(
  slices: AsyncIterable<readonly Document<T>[]>,
  show: (body: T) => unknown,
  unwritten: readonly T[]
) {
  let before = '['
  for await (const documents of slices)
    for (const { body } of documents) {
      yield before + JSON.stringify(await show(body))
      before = ','
    }
  if (before === '[') yield `[${(await Promise.all(unwritten.map(show))).map(each => JSON.stringify(each)).join()}`
  yield ']'
}
