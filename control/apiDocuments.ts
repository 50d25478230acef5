import Type from 'typebox'
import { isObject } from '../config/report.ts'
import { EXTENSION } from '../gateway/api.ts'
import type { Api } from '../gateway/apis.ts'
import { fromStored } from '../gateway/documents/storedApi.ts'
import { STREAMING } from '../streams/document/readStreaming.ts'
import { apiFilters, listApis } from './apiLists.ts'
import { isStreaming, ownApi, removeApi, type Saved, saveApi } from './apis.ts'
import { type AssetRecord, findAsset } from './assets.ts'
import type { Caller } from './caller.ts'
import { Answer, type Call, type Endpoint, endpoint, etag, Refused } from './endpoint.ts'
import { asFile, documentTypes, givenTypes, inForm } from './forms.ts'
import { denial } from './permissions.ts'
import { revisionEndpoints } from './revisions.ts'
import type { ControlTools } from './tools.ts'

/** The operations that OpenAPI and streaming documents have in common (semantics §1.16, §2.5). */

const strict = { additionalProperties: false } as const
export const UNREADABLE = "Couldn't read body."
export const UNKNOWN = 'Could not retrieve API detail.'
const UNKNOWN_TO_UPDATE = 'API definition does not exist'

const apiId = { apiID: Type.String({ minLength: 1, maxLength: 256, description: 'API id, or database id' }) }
export const ApiId = Type.Object(apiId, strict)
export const NoQuery = Type.Object({}, strict)
export const ApiDocument = Type.Unknown({ description: `An OpenAPI document (3.0.x, 3.1.x) with ${EXTENSION}` })
export const Written = Type.Object(
  {
    Status: Type.Literal('OK'),
    Message: Type.String(),
    Meta: Type.String({ description: 'Database id' }),
    ID: Type.String({ description: 'API id' })
  },
  strict
)
const Deleted = Type.Object({ Status: Type.Literal('OK'), Message: Type.String(), Meta: Type.Null() }, strict)

export interface Noun {
  readonly type: 'oas' | 'streams'
  readonly path: string
  /** Of one of them, with its article. */
  readonly noun: string
  /** Media types of its bodies beside JSON and YAML. */
  readonly takes: readonly string[]
}

type Asked = Pick<Call<unknown, unknown, unknown>, 'caller' | 'matched' | 'changed'>

export function written(Message: string, { api, rev }: Saved): Answer {
  return new Answer(200, { Status: 'OK', Message, Meta: api.dbId, ID: api.id }, etag(rev))
}

/** The revision of what lies in the store; files have none. */
function tag(api: Api, { apis }: Pick<ControlTools, 'apis'>): Record<string, string> {
  const rev = apis.revision(api.id)
  return rev === 0 ? {} : etag(rev)
}

/** @throws Refused 400 for what is no document of this kind */
export function documentOf(body: unknown, { type }: Noun): Record<string, unknown> {
  if (!isObject(body)) throw new Refused(400, UNREADABLE)
  if (!Object.hasOwn(body, EXTENSION)) throw new Refused(400, `The payload should contain ${EXTENSION}.`)
  if (type === 'streams' && !isStreaming(body)) throw new Refused(400, `The payload should contain ${STREAMING}.`)
  if (type === 'oas' && isStreaming(body))
    throw new Refused(400, `The payload contains ${STREAMING}: send it to /api/apis/streams`)
  return body
}

/** An API of this kind that the caller may see. @throws Refused 404 */
export function ownDocument(
  id: string,
  { type }: Noun,
  asked: Pick<Asked, 'caller'>,
  tools: ControlTools,
  unknown = UNKNOWN
): Api {
  const api = ownApi(id, asked, tools)
  if (api === null) throw new Refused(404, unknown)
  const real = isStreaming(api.document) ? 'streams' : 'oas'
  if (real !== type) throw new Refused(404, `${unknown} See /api/apis/${real}/${api.id}`)
  return api
}

/**
 * The data of the asset that a new API begins from: it comes out again in the API, so it is for those who may read assets.
 * @throws Refused 403, 404
 */
export async function templateData(id: string, caller: Caller, tools: ControlTools): Promise<AssetRecord['data']> {
  const { user } = caller
  const no = user === null ? null : denial(user.permissions, `/api/assets/${id}`, 'read', '/api/assets/{assetID}')
  if (no !== null) throw new Refused(403, no)
  const asset = await findAsset(id, caller, tools)
  if (asset === null) throw new Refused(404, 'Asset not found.')
  return asset.body.data
}

/** The rows of one kind of document, but for creation and `PATCH`. */
export function documentEndpoints(given: Noun): readonly Endpoint[] {
  const { path, noun, takes } = given
  const reading = { door: 'management', bodyForm: 'none', body: Type.Unknown(), malformed: '' } as const
  return [
    endpoint({
      ...reading,
      method: 'GET',
      path,
      summary: `Documents of ${given.type === 'oas' ? 'APIs' : 'streaming APIs'}, the newest first`,
      params: Type.Object({}, strict),
      query: Type.Object(apiFilters, strict),
      answer: Type.Object({ apis: Type.Array(ApiDocument), pages: Type.Integer({ minimum: 0 }) }, strict),
      handle: (call, tools) => listApis(call, given.type, ({ api }) => api.document, tools)
    }),
    endpoint({
      ...reading,
      method: 'GET',
      path: `${path}/{apiID}`,
      summary: `Reads the document of ${noun}`,
      params: ApiId,
      query: NoQuery,
      answer: ApiDocument,
      gives: givenTypes,
      handle(call, tools) {
        const api = ownDocument(call.params.apiID, given, call, tools)
        return inForm(api.document, call.accept, tag(api, tools))
      }
    }),
    endpoint({
      method: 'PUT',
      path: `${path}/{apiID}`,
      door: 'management',
      summary: `Replaces the document of ${noun}`,
      params: ApiId,
      query: NoQuery,
      bodyForm: 'document',
      takes: [...documentTypes, ...takes],
      body: ApiDocument,
      malformed: UNREADABLE,
      answer: Written,
      async handle(call, tools) {
        const api = ownDocument(call.params.apiID, given, call, tools, UNKNOWN_TO_UPDATE)
        return written('API updated.', await saveApi(documentOf(call.body, given), api, 'updated', call, tools))
      }
    }),
    endpoint({
      ...reading,
      method: 'DELETE',
      path: `${path}/{apiID}`,
      summary: `Deletes ${noun}`,
      params: ApiId,
      query: Type.Object(
        { purge: Type.Optional(Type.String({ description: 'Its versions go too; an API without versions has none' })) },
        strict
      ),
      answer: Deleted,
      async handle(call, tools) {
        await removeApi(ownDocument(call.params.apiID, given, call, tools), call, tools)
        return { Status: 'OK', Message: 'API deleted.', Meta: null }
      }
    }),
    endpoint({
      ...reading,
      method: 'GET',
      path: `${path}/{apiID}/export`,
      summary: `The document of ${noun} as a file`,
      params: ApiId,
      query: exportQuery,
      answer: ApiDocument,
      gives: ['application/octet-stream', 'application/yaml'],
      handle(call, tools) {
        const api = ownDocument(call.params.apiID, given, call, tools)
        return exported(api, call.query.mode, call.accept)
      }
    }),
    ...revisionEndpoints({
      kind: 'api',
      path: `${path}/{apiID}`,
      noun,
      params: apiId,
      document: ApiDocument,
      restored: Written,
      find({ apiID }, call, tools) {
        const { id, orgId } = ownDocument(apiID, given, call, tools)
        return { kind: 'api', id, org: orgId, rev: tools.apis.revision(id), sequence: 0, body: null }
      },
      show: state => fromStored(state).document,
      async restore({ id }, state, summary, call, tools) {
        const api = ownDocument(id, given, call, tools, UNKNOWN_TO_UPDATE)
        return written('API updated.', await saveApi(fromStored(state).document, api, summary, call, tools))
      }
    })
  ]
}

export const exportQuery = Type.Object(
  { mode: Type.Optional(Type.Enum(['public', ''], { description: `public: without ${EXTENSION}` })) },
  strict
)

export function exported(api: Api, mode: string | undefined, accept: string): Promise<Answer> {
  return mode === 'public'
    ? asFile(publicDocument(api), accept, `oas-${api.id}`)
    : asFile(api.document, accept, `SvcOasApiDef-${api.id}`)
}

/** Without the extensions of the gateway. */
export function publicDocument({ document }: Api): unknown {
  const { [EXTENSION]: _extension, [STREAMING]: _streaming, ...rest } = document
  return rest
}
