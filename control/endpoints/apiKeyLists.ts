import Type, { type Static } from 'typebox'
import { ownApi } from '../apis.ts'
import type { Caller } from '../caller.ts'
import { endpoint, Refused } from '../endpoint.ts'
import { everyKey, listedId, mayList, pageOfKeys, type Wanted } from '../keys/listing.ts'
import { KeyData, type KeyDocument, shownAs, wrapped, written } from '../keys/reading.ts'
import { mapped, type Paging, pageAsked, paging, streamedJson } from '../page.ts'
import type { ControlTools } from '../tools.ts'

const strict = { additionalProperties: false } as const
const Pages = Type.Object(paging, strict)
const Searching = Type.Object(
  {
    ...paging,
    q: Type.Optional(Type.String({ maxLength: 1024, description: 'A part of the key id as the list shows it' }))
  },
  strict
)
const OfApi = Type.Object({ apiID: Type.String({ description: 'Id or database id' }) }, strict)
const Ids = Type.Object({ data: Type.Object({ keys: Type.Array(Type.String()) }), pages: Type.Integer() })

const common = { method: 'GET', door: 'management', bodyForm: 'none', body: Type.Unknown(), malformed: '' } as const

export const apiKeyLists = [
  endpoint({
    ...common,
    path: '/api/keys/detailed',
    summary: 'Lists keys with their details',
    params: Type.Object({}, strict),
    query: Type.Object({ ...Searching.properties, written }, strict),
    answer: Type.Object({ keys: Type.Array(KeyData), pages: Type.Integer() }),
    handle: ({ query, caller }, tools) =>
      listed({ org: caller.org, part: query.q ?? '' }, query, tools, {
        show: document => wrapped(document, listedId(document, tools), caller, tools, shownAs(query)),
        open: '{"keys":[',
        close: count => `],"pages":${Math.min(1, count)}}`,
        page: (keys, pages) => ({ keys, pages })
      })
  }),

  endpoint({
    ...common,
    path: '/api/apis/keys',
    summary: 'Ids of keys: custom ids as they are, generated tokens as their hash',
    params: Type.Object({}, strict),
    query: Pages,
    answer: Ids,
    handle: ({ query, caller }, tools) => ids({ org: caller.org }, query, tools)
  }),

  endpoint({
    ...common,
    path: '/api/apis/{apiID}/keys',
    summary: 'Ids of the keys that open an API',
    params: OfApi,
    query: Pages,
    answer: Ids,
    handle: ({ params, query, caller }, tools) =>
      ids({ org: caller.org, apiId: apiIdOf(params.apiID, caller, tools) }, query, tools)
  }),

  endpoint({
    ...common,
    path: '/api/apis/{apiID}/keys/search',
    summary: 'Finds keys that open an API by a part of their id',
    params: OfApi,
    query: Searching,
    answer: Type.Array(KeyData),
    handle: ({ params, query, caller }, tools) => {
      const wanted = { org: caller.org, part: query.q ?? '', apiId: apiIdOf(params.apiID, caller, tools) }
      // The answer has no place for `pages`, so without `p` nothing is left out.
      return listed(wanted, { ...query, p: query.p ?? '-1' }, tools, {
        show: document => wrapped(document, listedId(document, tools), caller, tools),
        open: '[',
        close: () => ']',
        page: keys => keys
      })
    }
  })
]

/** @throws Refused */
function apiIdOf(apiId: string, caller: Caller, tools: ControlTools): string {
  const api = ownApi(apiId, { caller }, tools)
  if (api === null) throw new Refused(404, 'API not found')
  return api.id
}

function ids(wanted: Wanted, query: Static<typeof Paging>, tools: ControlTools): Promise<unknown> {
  return listed(wanted, query, tools, {
    show: document => listedId(document, tools),
    open: '{"data":{"keys":[',
    close: count => `]},"pages":${Math.min(1, count)}}`,
    page: (keys, pages) => ({ data: { keys }, pages })
  })
}

interface Form {
  show(document: KeyDocument): unknown
  /** What stands before the members, and behind so many of them, where everything is streamed. */
  readonly open: string
  close(count: number): string
  page(members: readonly unknown[], pages: number): unknown
}

async function listed(
  wanted: Wanted,
  query: Static<typeof Paging>,
  tools: ControlTools,
  { show, open, close, page }: Form
): Promise<unknown> {
  if (!mayList(tools.settings)) throw new Refused(404, 'Could not retrieve keys.')
  const asked = pageAsked(query, tools.settings)
  if (asked.page < 0) return streamedJson(open, mapped(everyKey(wanted, tools), show), close)
  const { documents, pages } = await pageOfKeys(wanted, asked, tools)
  return page(await Promise.all(documents.map(show)), pages)
}
