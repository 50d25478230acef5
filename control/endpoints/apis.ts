import Type from 'typebox'
import { extensionSchema } from '../../config/shape/api.ts'
import { EXTENSION } from '../../gateway/api.ts'
import type { Api } from '../../gateway/apis.ts'
import { exported, exportQuery, publicDocument } from '../apiDocuments.ts'
import { removeApi, type Saved, saveApi } from '../apis.ts'
import { Answer, type Endpoint, endpoint, etag, Refused } from '../endpoint.ts'
import { asFile, documentTypes, givenTypes, inForm } from '../forms.ts'
import type { ControlTools } from '../tools.ts'

/** API documents through the gateway interface (semantics §2.6, §2.7; outside.md §5). */

const strict = { additionalProperties: false } as const
const NoQuery = Type.Object({}, strict)
const NoParams = Type.Object({}, strict)
const ApiId = Type.Object({ apiID: Type.String({ minLength: 1, maxLength: 256 }) }, strict)
const Modified = Type.Object(
  { key: Type.String(), status: Type.Literal('ok'), action: Type.Enum(['added', 'modified', 'deleted']) },
  strict
)
const Status = Type.Object({ status: Type.String(), message: Type.String() }, strict)
const ApiDocument = Type.Unknown({ description: `An OpenAPI document with ${EXTENSION}` })
const malformed = 'request malformed'
const fileTypes = ['application/octet-stream', 'application/yaml']

export const listApis = endpoint({
  method: 'GET',
  path: '/svc/apis/oas',
  door: 'gateway',
  summary: 'All API documents, by id',
  params: NoParams,
  query: Type.Object(
    {
      p: Type.Optional(Type.String({ pattern: '^\\d{1,9}$', description: 'Page from 1; absent: everything' })),
      page_size: Type.Optional(
        Type.String({ pattern: '^[1-9]\\d{0,3}$', description: 'Documents a page; default: management.page_size' })
      )
    },
    strict
  ),
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed,
  answer: Type.Array(ApiDocument),
  gives: givenTypes,
  handle({ query, accept }, { apis, settings }) {
    const all = apis.all()
    const size = Number(query.page_size ?? settings.management.page_size)
    const first = (Math.max(1, Number(query.p ?? 1)) - 1) * size
    const whole = query.p === undefined && query.page_size === undefined
    return inForm(
      (whole ? all : all.slice(first, first + size)).map(({ document }) => document),
      accept
    )
  }
})

export const readApi = endpoint({
  method: 'GET',
  path: '/svc/apis/oas/{apiID}',
  door: 'gateway',
  summary: 'One API document, as it was given',
  params: ApiId,
  query: NoQuery,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed,
  answer: ApiDocument,
  gives: givenTypes,
  handle({ params, accept }, { apis }) {
    const api = present(params.apiID, { apis })
    const rev = apis.revision(api.id)
    return inForm(api.document, accept, rev === 0 ? {} : etag(rev))
  }
})

export const exportApi = endpoint({
  method: 'GET',
  path: '/svc/apis/oas/{apiID}/export',
  door: 'gateway',
  summary: 'One API document as a file',
  params: ApiId,
  query: exportQuery,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed,
  answer: ApiDocument,
  gives: fileTypes,
  handle: ({ params, query, accept }, tools) => exported(present(params.apiID, tools), query.mode, accept)
})

export const exportApis = endpoint({
  method: 'GET',
  path: '/svc/apis/oas/export',
  door: 'gateway',
  summary: 'All API documents, by id, as a file',
  params: NoParams,
  query: exportQuery,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed,
  answer: Type.Array(ApiDocument),
  gives: fileTypes,
  handle({ query, accept }, { apis }) {
    const all = apis.all()
    return query.mode === 'public'
      ? asFile(all.map(publicDocument), accept, 'oas')
      : asFile(
          all.map(({ document }) => document),
          accept,
          'SvcOasApiDef'
        )
  }
})

export const createApi = endpoint({
  method: 'POST',
  path: '/svc/apis/oas',
  door: 'gateway',
  summary: 'Adds an API; without an id it gets one',
  params: NoParams,
  query: NoQuery,
  bodyForm: 'document',
  takes: documentTypes,
  body: ApiDocument,
  malformed,
  answer: Modified,
  handle: async (call, tools) => done('added', await saveApi(given(call.body), null, 'created', call, tools))
})

export const updateApi = endpoint({
  method: 'PUT',
  path: '/svc/apis/oas/{apiID}',
  door: 'gateway',
  summary: 'Replaces an API',
  params: ApiId,
  query: NoQuery,
  bodyForm: 'document',
  takes: documentTypes,
  body: ApiDocument,
  malformed,
  answer: Modified,
  async handle(call, tools) {
    const api = present(call.params.apiID, tools)
    return done('modified', await saveApi(given(call.body), api, 'updated', call, tools))
  }
})

export const deleteApi = endpoint({
  method: 'DELETE',
  path: '/svc/apis/oas/{apiID}',
  door: 'gateway',
  summary: 'Deletes an API',
  params: ApiId,
  query: NoQuery,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed,
  answer: Modified,
  async handle(call, tools) {
    const api = present(call.params.apiID, tools)
    await removeApi(api, call, tools)
    return { key: api.id, status: 'ok', action: 'deleted' }
  }
})

export const readSchema = endpoint({
  method: 'GET',
  path: '/svc/schema',
  door: 'gateway',
  summary: `JSON Schema of ${EXTENSION}`,
  params: NoParams,
  query: Type.Object(
    {
      oasVersion: Type.Optional(
        Type.String({ pattern: '^3\\.[01](\\.\\d+)?$', description: 'The extension is the same in all versions' })
      )
    },
    strict
  ),
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed,
  answer: Type.Unknown(),
  handle: () => extensionSchema()
})

export const reload = reloadAt('/svc/reload', 'Reads the folders of APIs and policies again')
export const reloadGroup = reloadAt(
  '/svc/reload/group',
  'The same; other processes of the installation hear of writes by themselves'
)

function reloadAt(path: string, summary: string): Endpoint {
  return endpoint({
    method: 'GET',
    path,
    door: 'gateway',
    summary,
    params: NoParams,
    query: Type.Object(
      { block: Type.Optional(Type.String({ description: 'The answer always waits for the end' })) },
      strict
    ),
    bodyForm: 'none',
    body: Type.Unknown(),
    malformed,
    answer: Status,
    async handle(_call, tools) {
      const faults = await tools.reload()
      if (faults.length > 0) throw new Refused(422, faults.join('; '), { more: { faults } })
      return { status: 'ok', message: '' }
    }
  })
}

/** @throws Refused 404 */
function present(id: string, { apis }: Pick<ControlTools, 'apis'>): Api {
  const api = apis.get(id)
  if (api === null) throw new Refused(404, 'API not found')
  return api
}

/** @throws Refused 400 for what is no document of an API */
function given(body: unknown): unknown {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw new Refused(400, malformed)
  if (!Object.hasOwn(body, EXTENSION)) throw new Refused(400, `the payload should contain ${EXTENSION}`)
  return body
}

function done(action: 'added' | 'modified', { api, rev }: Saved): Answer {
  return new Answer(200, { key: api.id, status: 'ok', action }, etag(rev))
}

export const apis: readonly Endpoint[] = [
  listApis,
  createApi,
  readApi,
  exportApi,
  exportApis,
  updateApi,
  deleteApi,
  readSchema,
  reload,
  reloadGroup
]
