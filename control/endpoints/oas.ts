import Type from 'typebox'
import { isObject } from '../../config/report.ts'
import { EXTENSION } from '../../gateway/api.ts'
import type { Api } from '../../gateway/apis.ts'
import {
  ApiDocument,
  ApiId,
  documentEndpoints,
  documentOf,
  NoQuery,
  type Noun,
  templateData,
  UNREADABLE,
  Written,
  written
} from '../apiDocuments.ts'
import { ApiEntry, apiFilters, apiType, entryOf, listApis } from '../apiLists.ts'
import { ownApi, saveApi } from '../apis.ts'
import type { Caller } from '../caller.ts'
import { type Endpoint, endpoint, Refused } from '../endpoint.ts'
import { documentTypes } from '../forms.ts'
import type { ControlTools } from '../tools.ts'

/** APIs as OpenAPI documents through the management interface (semantics §1.14, §2.5). */

const strict = { additionalProperties: false } as const
const noun: Noun = { type: 'oas', path: '/api/apis/oas', noun: 'an API', takes: [] }

export const listAll = endpoint({
  method: 'GET',
  path: '/api/apis',
  door: 'management',
  summary: 'APIs of all kinds, the newest first, without their documents',
  params: Type.Object({}, strict),
  query: Type.Object({ ...apiFilters, api_type: apiType }, strict),
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed: '',
  answer: Type.Object({ apis: Type.Array(ApiEntry), pages: Type.Integer({ minimum: 0 }) }, strict),
  handle: (call, tools) => listApis(call, call.query.api_type ?? null, entryOf, tools)
})

export const createApi = endpoint({
  method: 'POST',
  path: noun.path,
  door: 'management',
  summary: 'Creates an API; without an id it gets one',
  params: Type.Object({}, strict),
  query: Type.Object(
    {
      templateID: Type.Optional(
        Type.String({
          maxLength: 2048,
          description: 'An asset of kind oas-template, by custom or database id: its data lies under the document'
        })
      )
    },
    strict
  ),
  bodyForm: 'document',
  takes: documentTypes,
  body: ApiDocument,
  malformed: UNREADABLE,
  answer: Written,
  async handle(call, tools) {
    if (!isObject(call.body)) throw new Refused(400, UNREADABLE)
    const { templateID } = call.query
    const whole = templateID ? over(call.body, await templateOf(templateID, call.caller, tools)) : call.body
    return written('API created', await saveApi(documentOf(whole, noun), null, 'created', call, tools))
  }
})

/** What an API may take from a template: not who it is. @throws Refused 403, 404 */
async function templateOf(id: string, caller: Caller, tools: ControlTools): Promise<Record<string, unknown>> {
  const data = await templateData(id, caller, tools)
  const extension = data[EXTENSION]
  if (!isObject(extension) || !isObject(extension.info)) return data
  const { id: _id, dbId: _dbId, orgId: _orgId, ...info } = extension.info
  return { ...data, [EXTENSION]: { ...extension, info } }
}

/** Objects go into each other, member by member; everything else of the document takes the place of the template's. */
function over(document: Record<string, unknown>, template: Record<string, unknown>): Record<string, unknown> {
  const whole = { ...template }
  for (const [name, value] of Object.entries(document)) {
    const under = Object.hasOwn(whole, name) ? whole[name] : undefined
    whole[name] = isObject(value) && isObject(under) ? over(value, under) : value
  }
  return whole
}

const Pairs = Type.Array(Type.Object({ name: Type.String(), value: Type.String() }, strict))

export const readUrls = endpoint({
  method: 'GET',
  path: `${noun.path}/{apiID}/urls`,
  door: 'management',
  summary: 'Base addresses of an API on the data plane',
  params: ApiId,
  query: NoQuery,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed: '',
  answer: Type.Object(
    {
      api_id: Type.String(),
      urls: Type.Array(
        Type.Object(
          {
            protocol: Type.Enum(['http', 'https']),
            domain: Type.String({ description: 'The custom domain, else the host of the gateway' }),
            port: Type.Union([Type.Integer(), Type.Null()], { description: 'null: the usual one of the protocol' }),
            listen_path: Type.String({ description: 'Without slashes around it' }),
            endpoint_path: Type.String({ description: 'The version, where it stands in the path' }),
            query_parameters: Pairs,
            headers: Pairs,
            url: Type.String()
          },
          strict
        )
      )
    },
    strict
  ),
  handle(call, tools) {
    const api = ownApi(call.params.apiID, call, tools)
    if (api === null) throw new Refused(404, 'API not found')
    return { api_id: api.id, urls: [urlOf(api, new URL(tools.gatewayUrl()))] }
  }
})

function urlOf({ domain: custom, listenPath }: Api, { protocol, hostname, port }: URL) {
  const domain = custom || hostname
  // `URL` leaves out the usual port of the protocol.
  const authority = port === '' ? domain : `${domain}:${port}`
  return {
    protocol: protocol.slice(0, -1),
    domain,
    port: port === '' ? null : Number(port),
    listen_path: listenPath.slice(1),
    endpoint_path: '',
    query_parameters: [],
    headers: [],
    url: `${protocol}//${authority}${listenPath}`
  }
}

export const oas: readonly Endpoint[] = [listAll, createApi, ...documentEndpoints(noun), readUrls]
