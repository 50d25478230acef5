import Type from 'typebox'
import { extensionSchema } from '../../config/shape/api.ts'
import { Invalid } from '../../config/validate.ts'
import { toYaml } from '../../config/yaml.ts'
import { EXTENSION } from '../../gateway/api.ts'
import { type Api, ApiRefused } from '../../gateway/apis.ts'
import { Conflict } from '../../gateway/store/store.ts'
import { Answer, type Endpoint, endpoint, Refused, toldFaults } from '../endpoint.ts'

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
  handle({ params, accept }, { apis }) {
    const api = apis.get(params.apiID)
    if (api === null) throw new Refused(404, 'API not found')
    return inForm(api.document, accept)
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
  body: ApiDocument,
  malformed,
  answer: Modified,
  async handle({ body }, { apis }) {
    const { id } = await written(body, () => apis.save(body, null))
    return { key: id, status: 'ok', action: 'added' }
  }
})

export const updateApi = endpoint({
  method: 'PUT',
  path: '/svc/apis/oas/{apiID}',
  door: 'gateway',
  summary: 'Replaces an API',
  params: ApiId,
  query: NoQuery,
  bodyForm: 'document',
  body: ApiDocument,
  malformed,
  answer: Modified,
  async handle({ params, body }, { apis }) {
    if (apis.get(params.apiID) === null) throw new Refused(404, 'API not found')
    const { id } = await written(body, () => apis.save(body, params.apiID))
    return { key: id, status: 'ok', action: 'modified' }
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
  async handle({ params }, { apis }) {
    await refusedClearly(() => apis.remove(params.apiID))
    return { key: params.apiID, status: 'ok', action: 'deleted' }
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

/** A document in the form that the client asks for; JSON where it does not care. */
function inForm(document: unknown, accept: string): unknown {
  if (!asksForYaml(accept)) return document
  return new Answer(200, toYaml(document), { 'Content-Type': 'application/yaml' })
}

const YAML = new Set(['application/yaml', 'application/x-yaml', 'text/yaml', 'text/x-yaml', 'text/vnd.yaml'])
const ANYTHING = new Set(['application/json', 'application/*', '*/*'])

/** Whether the range of `Accept` with the highest weight (RFC 9110 §12.5.1) that names a form we have is YAML. */
function asksForYaml(accept: string): boolean {
  let best = { yaml: false, weight: 0 }
  for (const part of accept.split(',')) {
    const [range, ...parameters] = part.split(';').map(text => text.trim().toLowerCase())
    const yaml = YAML.has(range!)
    if (!yaml && !ANYTHING.has(range!)) continue
    const given = Number(parameters.find(text => text.startsWith('q='))?.slice(2) ?? 1)
    if (given > best.weight) best = { yaml, weight: given }
  }
  return best.yaml
}

async function written(body: unknown, save: () => Promise<Api>): Promise<Api> {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw new Refused(400, malformed)
  if (!Object.hasOwn(body, EXTENSION)) throw new Refused(400, `the payload should contain ${EXTENSION}`)
  return refusedClearly(save)
}

const STATUS = { unknown: 404, 'other id': 400, 'id taken': 409, 'path taken': 409, file: 409 } as const

async function refusedClearly<T>(write: () => Promise<T>): Promise<T> {
  try {
    return await write()
  } catch (cause) {
    if (cause instanceof ApiRefused) throw new Refused(STATUS[cause.reason], cause.message)
    if (cause instanceof Conflict) throw new Refused(409, 'The API was changed meanwhile; read it again')
    if (!(cause instanceof Invalid)) throw cause
    throw new Refused(400, cause.message.slice(0, 2000), { more: { faults: toldFaults(cause.faults) } })
  }
}

export const apis: readonly Endpoint[] = [
  listApis,
  createApi,
  readApi,
  updateApi,
  deleteApi,
  readSchema,
  reload,
  reloadGroup
]
