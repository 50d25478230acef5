import type { TSchema } from 'typebox'
import type { Door, Endpoint } from './endpoint.ts'
import { permissionOf } from './permissions.ts'

/** The interface's own description: OpenAPI 3.1, made from the endpoint table. */

type Json = Record<string, unknown>

const schemes: Record<string, Json> = {
  accessKey: { type: 'http', scheme: 'bearer', description: 'Access key of an active management user' },
  bareAccessKey: { type: 'apiKey', in: 'header', name: 'Authorization', description: 'The same key without a scheme' },
  adminSecret: { type: 'apiKey', in: 'header', name: 'Admin-Auth', description: '`management.admin_secret`' },
  gatewaySecret: { type: 'apiKey', in: 'header', name: 'X-Svc-Authorization', description: '`gateway.secret`' }
}

const security: Record<Door, readonly Json[]> = {
  management: [{ accessKey: [] }, { bareAccessKey: [] }],
  portal: [{ accessKey: [] }, { bareAccessKey: [] }],
  admin: [{ adminSecret: [] }],
  gateway: [{ gatewaySecret: [] }],
  open: []
}

const Faults: Json = {
  type: 'array',
  description: 'What was wrong, member by member; of documents in folders: one line a fault',
  items: { type: ['object', 'string'], properties: { pointer: { type: 'string' }, message: { type: 'string' } } }
}

/** Errors by surface (`outside.md` §3). */
const errors: Record<string, Json> = {
  Error: {
    type: 'object',
    required: ['Status', 'Message', 'Meta'],
    properties: { Status: { const: 'Error' }, Message: { type: 'string' }, Meta: { type: 'null' }, faults: Faults }
  },
  GatewayError: {
    type: 'object',
    required: ['status', 'message'],
    properties: { status: { const: 'error' }, message: { type: 'string' }, faults: Faults }
  },
  PortalError: {
    type: 'object',
    required: ['errors'],
    properties: { errors: { type: 'array', items: { type: 'string' } }, faults: Faults }
  }
}
const errorOf: Record<Door, string> = {
  management: 'Error',
  admin: 'Error',
  open: 'Error',
  gateway: 'GatewayError',
  portal: 'PortalError'
}

const REASONS: Record<number, string> = {
  400: 'What was sent cannot be read, or is not valid',
  401: 'The credential is missing or wrong',
  403: 'Not allowed',
  404: 'There is no such thing',
  408: 'The body did not arrive in time',
  409: 'Something of this name is there already, or was changed meanwhile',
  412: '`If-Match` names another revision',
  413: 'The body is longer than `management.max_body_size`, or takes too long as YAML',
  415: 'The content type is none that is taken here',
  422: 'It can be read, but not meant',
  429: 'Too many wrong credentials from this address; see `Retry-After`',
  500: 'A fault of the gateway',
  503: 'The database is away, or too many such calls are under way; see `Retry-After`',
  507: 'The store has no room left: nothing was written'
}

/** @param servers base URLs of the management interface and of the gateway interface */
export function describe(
  table: readonly Endpoint[],
  { version, management, gateway }: { version: string; management: string; gateway: string }
): Json {
  const named = new Named()
  const paths: Record<string, Json> = {}
  for (const row of table) {
    const item = paths[row.path] ?? (row.door === 'gateway' ? { servers: [{ url: gateway }] } : {})
    paths[row.path] = item
    item[row.method.toLowerCase()] = operation(row, named)
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Management interface of svc-gateway',
      version,
      license: { name: 'MIT', identifier: 'MIT' },
      description: 'Assets, policies, keys, users, certificates, APIs and portal organisations of the gateway.'
    },
    servers: [{ url: management }],
    tags: [...new Set(table.map(tagOf))].sort().map(name => ({ name })),
    paths,
    components: { securitySchemes: schemes, schemas: { ...errors, ...named.schemas } }
  }
}

function operation(row: Endpoint, named: Named): Json {
  const { method, path, door, summary, bodyForm } = row
  const permission = door === 'management' && !row.anyUser ? permissionOf(path.replaceAll(/\{\w+\}/g, 'x')) : null
  return {
    operationId: operationId(row),
    summary,
    ...(permission === null ? {} : { description: `Needs the permission \`${permission}\`.` }),
    tags: [tagOf(row)],
    security: security[door],
    parameters: [
      ...members(row.params, 'path', named),
      ...members(row.query, 'query', named),
      ...(method === 'GET' || (bodyForm === 'none' && method !== 'DELETE') ? [] : [ifMatch])
    ],
    ...(bodyForm === 'none'
      ? {}
      : { requestBody: { required: true, content: content(taken(row), named.schema(row.body)) } }),
    responses: {
      [row.status ?? 200]: {
        description: 'Done',
        headers: { ETag: { description: 'The revision, where there is one', schema: { type: 'string' } } },
        content: content(row.gives ?? ['application/json'], named.schema(row.answer))
      },
      ...Object.fromEntries(
        statuses(row).map(status => [
          status,
          {
            description: REASONS[status],
            content: { 'application/json': { schema: { $ref: `#/components/schemas/${errorOf[door]}` } } }
          }
        ])
      )
    }
  }
}

const ifMatch = {
  name: 'If-Match',
  in: 'header',
  description: 'ETag of the revision that was read: any other present one is answered 412',
  schema: { type: 'string' }
}

function statuses({ door, method, bodyForm, gives }: Endpoint): number[] {
  const writes = method !== 'GET'
  return [
    400,
    ...(door === 'management' || door === 'admin' || door === 'portal' ? [401, 429] : []),
    ...(door === 'open' || door === 'admin' ? [] : [403]),
    404,
    ...(writes ? [409, 412, 507] : []),
    ...(bodyForm === 'none' ? [] : [408, 415]),
    ...(bodyForm === 'none' && gives === undefined ? [] : [413]),
    ...(writes || door === 'gateway' ? [422] : []),
    500,
    503
  ].sort((a, b) => a - b)
}

function taken({ bodyForm, takes }: Endpoint): readonly string[] {
  if (takes !== undefined) return takes
  if (bodyForm === 'json') return ['application/json']
  return bodyForm === 'document' ? ['application/json', 'application/yaml'] : ['application/octet-stream']
}

/** Bytes and texts have no schema of JSON. */
function content(types: readonly string[], schema: unknown): Json {
  const isJson = (type: string) => /[/+](?:json|yaml|x-yaml|vnd\.yaml)$|\.oas$/.test(type)
  return Object.fromEntries(types.map(type => [type, isJson(type) ? { schema } : {}]))
}

function members(shape: TSchema, place: 'path' | 'query', named: Named): Json[] {
  const { properties = {}, required = [] } = shape as { properties?: Record<string, TSchema>; required?: string[] }
  return Object.entries(properties).map(([name, schema]) => {
    const { description, ...rest } = named.schema(schema) as { description?: string }
    return {
      name,
      in: place,
      required: place === 'path' || required.includes(name),
      ...(description ? { description } : {}),
      schema: rest
    }
  })
}

/** `PUT /api/assets/{assetID}` → `putApiAssetsAssetID`. */
function operationId({ method, path }: Endpoint): string {
  const words = path.split(/[^A-Za-z0-9]+/).filter(word => word !== '')
  return method.toLowerCase() + words.map(word => word[0]!.toUpperCase() + word.slice(1)).join('')
}

const TAGS: readonly (readonly [RegExp, string])[] = [
  [/^\/svc\//, 'gateway interface'],
  [/^\/admin\//, 'admin'],
  [/^\/portal-api\//, 'portal'],
  [/^\/api\/apis\/[^/]+\/keys|^\/api\/(apis\/)?keys/, 'keys'],
  [/^\/api\/apis\/streams/, 'streaming APIs'],
  [/^\/api\/(apis|cache)/, 'APIs'],
  [/^\/api\/portal\/policies/, 'policies'],
  [/^(\/api)?\/certs/, 'certificates'],
  [/^\/api\/usergroups/, 'user groups'],
  [/^\/api\/audit-logs/, 'audit']
]

function tagOf({ path }: Endpoint): string {
  return TAGS.find(([rx]) => rx.test(path))?.[1] ?? /^\/(?:api\/)?([a-z-]+)/.exec(path)?.[1] ?? 'interface'
}

/** Schemas with a title stand once, in `components`. */
class Named {
  readonly schemas: Record<string, unknown> = {}

  schema(schema: unknown): Json {
    return this.#seen(schema, true) as Json
  }

  #seen(schema: unknown, isSchema: boolean): unknown {
    if (Array.isArray(schema)) return schema.map(each => this.#seen(each, isSchema))
    if (typeof schema !== 'object' || schema === null) return schema
    const title =
      'title' in schema && typeof schema.title === 'string' && /^\w+$/.test(schema.title) ? schema.title : null
    if (title === null || !isSchema) return this.#copy(schema)
    if (!Object.hasOwn(this.schemas, title)) {
      this.schemas[title] = null
      this.schemas[title] = this.#copy(schema)
    }
    return { $ref: `#/components/schemas/${title}` }
  }

  #copy(schema: object): Json {
    const out: Json = {}
    for (const [name, value] of Object.entries(schema)) {
      // Keywords of ours, for people alone.
      if (name === 'unit' || name === 'secret' || name === 'example') continue
      if (name === 'const' || name === 'enum' || name === 'default') out[name] = value
      else if (name === 'properties' || name === 'patternProperties' || name === '$defs')
        out[name] = Object.fromEntries(
          Object.entries(value as object).map(([key, inner]) => [key, this.#seen(inner, true)])
        )
      else out[name] = this.#seen(value, true)
    }
    return out
  }
}
