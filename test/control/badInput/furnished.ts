import { CN, certificate } from '../../helpers/certificates.ts'
import { api, rights, type TestGateway, withKey } from '../../helpers/gateway.ts'

/** Documents that exist, so that bad input gets behind the question whether they do. */

export type Params = Readonly<Record<string, string>>

/** A document that a creating row would take: the body, and how it is sent. */
export interface Creation {
  readonly body: unknown
  readonly type?: string
}

/** A beginning of paths, what leads to one document below it, and what makes another one. */
interface Place {
  readonly start: string
  make(gw: TestGateway, name: string): Promise<Params>
}

const MEDIA_TYPE = 'application/vnd.svc.streams.oas'

async function made(told: Promise<{ readonly status: number; readonly body: any }>): Promise<any> {
  const { status, body } = await told
  if (status >= 300) throw new Error(`a document was refused: ${JSON.stringify(body)}`)
  return body
}

/** An API that uses most of what the extension has. */
export function richApi(id: string): Record<string, unknown> {
  const rate = { enabled: true, rate: 10, per: '1m' }
  const global = {
    cors: { enabled: true, allowedOrigins: ['https://a.example'], maxAge: 10 },
    requestSizeLimit: { enabled: true, value: 1000 },
    transformRequestHeaders: { enabled: true, remove: ['a'], add: [{ name: 'b', value: 'c' }] },
    ignoreCase: { enabled: true }
  }
  const operation = {
    allow: { enabled: true },
    rateLimit: rate,
    enforceTimeout: { enabled: true, value: 5 },
    validateRequest: { enabled: true, errorResponseCode: 422 },
    mockResponse: { enabled: false, code: 200, body: '{}', headers: [{ name: 'x', value: 'y' }] }
  }
  const paths = {
    '/pets/{id}': {
      parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'integer', minimum: 1 } }],
      post: {
        operationId: 'pet',
        tags: ['pets'],
        requestBody: {
          required: true,
          content: { 'application/json': { schema: { $ref: '#/components/schemas/Pet' } } }
        },
        responses: { 200: { description: 'done', content: { 'application/json': { example: { a: 1 } } } } }
      }
    }
  }
  const document = api(
    id,
    'http://127.0.0.1:1/v1',
    {
      info: { orgId: 'default', expiration: '2099-01-01 00:00' },
      server: withKey,
      upstream: { rateLimit: rate },
      middleware: { global, operations: { pet: operation } }
    },
    paths
  ) as Record<string, any>
  const Pet = { type: 'object', required: ['name'], properties: { name: { type: 'string', pattern: '^a+$' } } }
  return {
    ...document,
    servers: [{ url: 'http://pets.example/v1' }],
    components: { ...document.components, schemas: { Pet } }
  }
}

export function streamApi(id: string): Record<string, unknown> {
  const streams = {
    flow: {
      input: { http_server: { path: '/in' } },
      output: { http_server: { stream_path: '/out' } }
    }
  }
  return { ...api(id, '', { info: { orgId: 'default' } }), 'x-svc-streaming': { streams } }
}

/** Bodies that creating rows take, by path; `name` is in no document yet. */
export function creation(path: string, name: string): Creation | null {
  switch (path) {
    case '/svc/apis/oas':
    case '/api/apis/oas':
      return { body: richApi(name) }
    case '/api/apis/streams':
      return { body: streamApi(name), type: MEDIA_TYPE }
    case '/api/apis/oas/import':
      return {
        body: {
          openapi: '3.0.3',
          info: { title: name, version: '1' },
          servers: [{ url: 'http://a.example' }],
          paths: {}
        }
      }
    case '/svc/keys/create':
    case '/api/keys':
      return { body: { ...rights('nothing'), alias: name, tags: ['a'], meta_data: { a: 1 }, rate: 10, per: 60 } }
    case '/svc/policies':
    case '/api/portal/policies':
      return { body: { id: name, name, ...rights('nothing'), rate: 10, per: 60, active: true } }
    case '/api/assets':
      return { body: { id: name, kind: 'oas-template', name, data: { a: 1 } } }
    case '/api/hooks':
      return { body: { webhook_id: name, method: 'POST', target_path: 'https://a.example/', header_map: { a: 'b' } } }
    case '/api/users':
      return {
        body: {
          email_address: `${name}@a.example`,
          first_name: 'A',
          last_name: 'B',
          user_permissions: { apis: 'read' }
        }
      }
    case '/api/users/search':
      return { body: { email_addresses: [`${name}@a.example`] } }
    case '/admin/users':
      return { body: { email_address: `${name}@a.example`, org_id: 'default', active: true } }
    case '/api/usergroups':
      return { body: { name, user_permissions: { apis: 'read' } } }
    case '/admin/organisations':
      return { body: { id: name, owner_name: name } }
    case '/portal-api/organisations':
    case '/portal-api/organisations/{organisation_id}/teams':
      return { body: { Name: name } }
    case '/portal-api/users':
      return { body: { Email: `${name}@a.example`, First: 'A', Last: 'B', OrganisationID: 1 } }
    default:
      return null
  }
}

const create = (gw: TestGateway, path: string, name: string): Promise<any> => {
  const { body, type } = creation(path, name)!
  if (path.startsWith('/svc/')) return made(gw.svc('POST', path, body))
  if (path.startsWith('/admin/')) return made(gw.admin('POST', path, body))
  return made(gw.api('POST', path, body, type === undefined ? {} : { headers: { 'Content-Type': type } }))
}

const newApi = async (gw: TestGateway, name: string) => (await create(gw, '/api/apis/oas', name)).ID as string
const newKey = (gw: TestGateway, apiID: string) => gw.key({ ...rights(apiID), meta_data: { a: 1 } })
const newCertificate = async (gw: TestGateway, name: string): Promise<string> =>
  (await made(gw.api('POST', '/api/certs', certificate({ subject: [[CN, name]] }).pem))).id

/** The longest beginning that fits counts. */
const places: readonly Place[] = [
  { start: '/svc/keys', make: async gw => ({ keyID: await newKey(gw, 'nothing') }) },
  { start: '/api/keys', make: async gw => ({ keyID: await newKey(gw, 'nothing') }) },
  {
    start: '/api/apis',
    async make(gw, name) {
      const apiID = await newApi(gw, name)
      return { apiID, keyID: await newKey(gw, apiID), username: name, n: '1' }
    }
  },
  { start: '/svc/apis', make: async (gw, name) => ({ apiID: await newApi(gw, name) }) },
  { start: '/api/cache/jwks', make: async (gw, name) => ({ apiID: await newApi(gw, name) }) },
  { start: '/svc/cache/jwks', make: async (gw, name) => ({ apiID: await newApi(gw, name) }) },
  {
    start: '/api/apis/streams',
    make: async (gw, name) => ({ apiID: (await create(gw, '/api/apis/streams', name)).ID, n: '1' })
  },
  { start: '/svc/policies', make: async (gw, name) => ({ id: (await create(gw, '/svc/policies', name)).key }) },
  {
    start: '/api/portal/policies',
    make: async (gw, name) => ({ id: (await create(gw, '/api/portal/policies', name)).Message, n: '1' })
  },
  { start: '/api/assets', make: async (gw, name) => ({ assetID: (await create(gw, '/api/assets', name)).ID, n: '1' }) },
  { start: '/api/hooks', make: async (gw, name) => ({ id: (await create(gw, '/api/hooks', name)).Meta }) },
  { start: '/api/users', make: async (gw, name) => ({ id: (await create(gw, '/api/users', name)).Meta }) },
  {
    start: '/admin/users',
    make: async (gw, name) => ({ userId: (await create(gw, '/admin/users', name)).Meta.id })
  },
  { start: '/api/usergroups', make: async (gw, name) => ({ id: (await create(gw, '/api/usergroups', name)).Meta }) },
  {
    start: '/admin/organisations',
    async make(gw, name) {
      await create(gw, '/admin/organisations', name)
      return { id: name }
    }
  },
  { start: '/api/certs', make: async (gw, name) => ({ certId: await newCertificate(gw, name) }) },
  { start: '/certs', make: async (gw, name) => ({ certificateId: await newCertificate(gw, name) }) },
  { start: '/svc/certs', make: async (gw, name) => ({ certID: await newCertificate(gw, name) }) },
  {
    start: '/api/audit-logs',
    make: async gw => ({ id: (await gw.api('GET', '/api/audit-logs')).body.audit_logs[0]._id })
  },
  {
    start: '/portal-api/organisations',
    async make(gw, name) {
      const organisation_id = String((await create(gw, '/portal-api/organisations', name)).ID)
      const teams = `/portal-api/organisations/${organisation_id}/teams`
      return { organisation_id, team_id: String((await made(gw.api('POST', teams, { Name: name }))).ID) }
    }
  },
  {
    start: '/portal-api/users',
    async make(gw, name) {
      const OrganisationID = (await create(gw, '/portal-api/organisations', name)).ID
      const user = { Email: `${name}@a.example`, First: 'A', Last: 'B', OrganisationID }
      return { user_id: String((await made(gw.api('POST', '/portal-api/users', user))).ID) }
    }
  }
]

/** What leads to existing documents, for each row. */
export class Furniture {
  readonly #gw: TestGateway
  readonly #known = new Map<Place, Params>()
  #count = 0

  constructor(gw: TestGateway) {
    this.#gw = gw
  }

  /** A name that nothing has yet. */
  name(): string {
    this.#count++
    return `walked-${this.#count}`
  }

  /** Parameters of a row's path; null: nothing is known to be there. */
  async params(path: string): Promise<Params | null> {
    const place = placeOf(path)
    if (place === null) return null
    let params = this.#known.get(place)
    if (params === undefined) {
      params = await place.make(this.#gw, this.name())
      this.#known.set(place, params)
    }
    return params
  }

  /** The document there may be another one by now: the next that asks gets a new one. */
  spent(path: string): void {
    const place = placeOf(path)
    if (place !== null) this.#known.delete(place)
  }
}

function placeOf(path: string): Place | null {
  const fitting = places.filter(({ start }) => path === start || path.startsWith(`${start}/`))
  return fitting.sort((a, b) => b.start.length - a.start.length)[0] ?? null
}

export function filled(path: string, params: Params | null, missing = 'x1234'): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params?.[name] ?? missing))
}
