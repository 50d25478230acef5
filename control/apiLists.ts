import { basename } from 'node:path'
import Type, { type Static } from 'typebox'
import type { Scheme } from '../gateway/api.ts'
import type { Api, ApiRow } from '../gateway/apis.ts'
import { schemesOf } from '../gateway/documents/readAuthentication.ts'
import { isStreaming } from './apis.ts'
import type { Caller } from './caller.ts'
import { pageAsked, pagesOf, paging, slicePage, streamedList } from './page.ts'
import type { ControlTools } from './tools.ts'

/** Lists of APIs: all are in memory, so a page is a walk through them (semantics §2.5). */

/** How callers show who they are: one way, or `multiple`, together or one of them. */
const AUTHS = [
  'keyless',
  'token',
  'basic',
  'jwt',
  'oauth',
  'hmac',
  'message_signature',
  'certificate',
  'multiple'
] as const
type Auth = (typeof AUTHS)[number]
/** As `baseIdentityProvider` and lists of policies call them. */
const OTHER_NAMES = {
  auth_token: 'token',
  basic_auth_user: 'basic',
  jwt_claim: 'jwt',
  oauth_key: 'oauth',
  hmac_key: 'hmac',
  mtls: 'certificate'
} as const
type OtherName = keyof typeof OTHER_NAMES

const SORTS = ['name', '-name', 'created_at', '-created_at', 'updated_at', '-updated_at'] as const
type Sort = (typeof SORTS)[number]

export const apiFilters = {
  ...paging,
  q: Type.Optional(
    Type.String({ maxLength: 1024, description: 'Text in the name, the id or the listen path, in any case' })
  ),
  auth_type: Type.Optional(
    Type.Enum([...AUTHS, ...(Object.keys(OTHER_NAMES) as OtherName[])], {
      description:
        'A way in which callers show who they are, alone or beside others; multiple: several ways. auth_token, basic_auth_user, jwt_claim, oauth_key, hmac_key and mtls are other names'
    })
  ),
  sort: Type.Optional(Type.Enum([...SORTS], { description: 'Default: -created_at' }))
}
const Asked = Type.Object(apiFilters)
export const apiType = Type.Optional(Type.Enum(['oas', 'streams'], { description: 'Default: both' }))

/** What a list tells of an API beside its document. */
export const ApiEntry = Type.Object(
  {
    id: Type.String(),
    db_id: Type.String({ description: 'Database id; empty where none was given' }),
    name: Type.String(),
    org_id: Type.String(),
    slug: Type.String(),
    type: Type.Enum(['oas', 'streams']),
    auth_type: Type.Enum([...AUTHS], { description: 'multiple: several ways, together or one of them' }),
    domain: Type.String({ description: 'Empty: any host' }),
    listen_path: Type.String(),
    active: Type.Boolean(),
    internal: Type.Boolean(),
    source: Type.String({ description: '`store`, or the name of the file that it is read from' }),
    revision: Type.Integer({ minimum: 0, description: '0: it is read from a file' }),
    created_at: Type.Union([Type.String({ format: 'date-time' }), Type.Null()], { description: 'null: unknown' }),
    updated_at: Type.Union([Type.String({ format: 'date-time' }), Type.Null()], { description: 'null: unknown' })
  },
  { additionalProperties: false }
)

export function entryOf({ api, rev, created, updated }: ApiRow): Static<typeof ApiEntry> {
  const time = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString())
  return {
    id: api.id,
    db_id: api.dbId,
    name: api.name,
    org_id: api.orgId,
    slug: api.slug,
    type: factsOf(api).type,
    auth_type: factsOf(api).auth,
    domain: api.domain,
    listen_path: `${api.listenPath}/`,
    active: api.active,
    internal: api.internal,
    source: basename(api.source),
    revision: rev,
    created_at: time(created),
    updated_at: time(updated)
  }
}

/** One page of the APIs that the caller may see, as `{"apis":[…],"pages":n}`. @param type null: both */
export function listApis(
  { query, caller }: { query: Static<typeof Asked>; caller: Caller },
  type: 'oas' | 'streams' | null,
  show: (row: ApiRow) => unknown,
  { apis, settings }: Pick<ControlTools, 'apis' | 'settings'>
): unknown {
  const asked = pageAsked(query, settings)
  const text = (query.q ?? '').toLowerCase()
  const auth = OTHER_NAMES[query.auth_type as OtherName] ?? (query.auth_type as Auth | undefined)
  const all = ordered(apis.rows(), { sort: query.sort ?? '-created_at', org: caller.org, type })
  const found =
    text === '' && auth === undefined
      ? all
      : all.filter(
          ({ facts }) =>
            (auth === undefined || facts.auth === auth || facts.ways.has(auth)) &&
            facts.texts.some(member => member.includes(text))
        )
  if (asked.page < 0) return streamedList('apis', 'pages', each(found, show))
  return { apis: slicePage(found, asked).map(({ row }) => show(row)), pages: pagesOf(found.length, asked) }
}

async function* each(listed: readonly Listed[], show: (row: ApiRow) => unknown) {
  for (const { row } of listed) yield show(row)
}

/** What lists look at, worked out once for each API. */
interface Facts {
  readonly type: 'oas' | 'streams'
  readonly auth: Auth
  /** Empty: keyless. */
  readonly ways: ReadonlySet<Auth>
  /** Lower case. */
  readonly texts: readonly string[]
  readonly name: string
}

const known = new WeakMap<Api, Facts>()

function factsOf(api: Api): Facts {
  const facts = known.get(api) ?? read(api)
  known.set(api, facts)
  return facts
}

function read(api: Api): Facts {
  const ways = new Set(schemesOf(api.authentication).map(wayOf))
  const [first = 'keyless'] = ways
  return {
    type: isStreaming(api.document) ? 'streams' : 'oas',
    auth: ways.size > 1 ? 'multiple' : first,
    ways,
    texts: [api.name, api.id, `${api.listenPath}/`].map(text => text.toLowerCase()),
    name: api.name.toLowerCase()
  }
}

function wayOf(scheme: Scheme): Auth {
  if (scheme.kind === 'introspection' || (scheme.kind === 'jwt' && scheme.external)) return 'oauth'
  return scheme.kind === 'message-signature' ? 'message_signature' : scheme.kind
}

interface Order {
  readonly sort: Sort
  /** Null: all. */
  readonly org: string | null
  readonly type: 'oas' | 'streams' | null
}

interface Listed {
  readonly row: ApiRow
  readonly facts: Facts
}

/** Lists of one state of all APIs: picking and sorting 10,000 for each page would take longer than a page may. */
const orders = new WeakMap<readonly ApiRow[], Map<string, readonly Listed[]>>()
const MOST_ORDERS = 100

function ordered(rows: readonly ApiRow[], order: Order): readonly Listed[] {
  const lists = orders.get(rows) ?? new Map<string, readonly Listed[]>()
  orders.set(rows, lists)
  const key = JSON.stringify(order)
  const done = lists.get(key) ?? sorted(picked(rows, order), order.sort)
  if (lists.size === MOST_ORDERS) lists.clear()
  lists.set(key, done)
  return done
}

function picked(rows: readonly ApiRow[], { org, type }: Order): readonly Listed[] {
  return rows
    .filter(({ api }) => org === null || api.orgId === org)
    .map(row => ({ row, facts: factsOf(row.api) }))
    .filter(({ facts }) => type === null || facts.type === type)
}

/** @param listed in order of creation */
function sorted(listed: readonly Listed[], sort: Sort): readonly Listed[] {
  if (sort.startsWith('-')) return sorted(listed, sort.slice(1) as Sort).toReversed()
  if (sort === 'created_at') return listed
  if (sort === 'updated_at') return listed.toSorted((a, b) => a.row.sequence - b.row.sequence)
  return listed.toSorted((a, b) => (a.facts.name < b.facts.name ? -1 : a.facts.name > b.facts.name ? 1 : 0))
}
