import t from 'tap'
import { Refused } from '../../../control/endpoint.ts'
import { type Configured, configure, merge } from '../../../control/import/configure.ts'
import { readSource } from '../../../control/import/source.ts'
import { readApi } from '../../../gateway/documents/readApi.ts'
import { bounds, description, form, input, YAML_TYPE } from './given.ts'

type Query = Record<string, string>

async function imported(body: unknown, query: Query = {}, template: Record<string, unknown> | null = null) {
  return configure(await readSource(input(body), bounds(), template), query, { template, dbId: '' })
}

async function patched(stored: Record<string, unknown>, body: unknown, query: Query = {}) {
  return merge(stored, await readSource(input(body), bounds()), query)
}

async function refusal(run: () => Promise<unknown>): Promise<string> {
  try {
    await run()
  } catch (cause) {
    if (cause instanceof Refused && cause.status === 400) return cause.message
    throw cause
  }
  return ''
}

const extensionOf = ({ document }: Configured) => document['x-svc-api-gateway'] as Record<string, any>
const operationsOf = (made: Configured) => extensionOf(made).middleware?.operations ?? {}
/** Entries as `outcome pointer`, those of one keyword alone. */
const told = ({ report }: Configured, keyword: string) =>
  report.filter(entry => entry.keyword === keyword).map(({ outcome, pointer }) => `${outcome} ${pointer}`)

t.test(
  'a description alone becomes an active API at / with its title, its first server and no credentials',
  async t => {
    const made = await imported(description())
    t.same(extensionOf(made), {
      info: { name: 'pets', state: { active: true, internal: false } },
      server: { listenPath: { value: '/', strip: true } },
      upstream: { url: 'http://pets.example/v1' }
    })
    const { 'x-svc-api-gateway': _, ...rest } = made.document
    t.same(rest, description())
    t.same(
      made.report.filter(({ outcome }) => outcome === 'defaulted').map(({ pointer }) => pointer),
      ['info/id', 'info/name', 'info/state', 'server/listenPath/strip', 'server/listenPath/value', 'upstream/url'].map(
        member => `/x-svc-api-gateway/${member}`
      )
    )
    t.same(told(made, 'contextVariables'), ['ignored /x-svc-api-gateway/middleware/global/contextVariables'])
    t.same(told(made, 'trafficLogs'), ['ignored /x-svc-api-gateway/middleware/global/trafficLogs'])
  }
)

t.test('texts of the query always count', async t => {
  const made = await imported(description(), {
    upstreamURL: 'https://other.example/x',
    customDomain: 'api.example.com',
    apiID: 'pets-1'
  })
  const { info, server, upstream } = extensionOf(made)
  t.equal(info.id, 'pets-1')
  t.equal(upstream.url, 'https://other.example/x')
  t.same(server.customDomain, { enabled: true, name: 'api.example.com' })
  t.equal(server.listenPath.value, '/')
  t.equal(extensionOf(await imported(description(), { listenPath: '/pets/' })).server.listenPath.value, '/pets/')
  t.same(told(made, 'servers'), ['ignored /servers/0'])
})

t.test('the upstream is the first server with its variables filled in', async t => {
  const servers = (...list: unknown[]) => description({ servers: list })
  const url = async (...list: unknown[]) => extensionOf(await imported(servers(...list))).upstream.url
  t.equal(await url({ url: 'https://a.example' }, { url: 'https://b.example' }), 'https://a.example')
  const variables = { host: { default: 'a.example' }, port: { default: '8443', enum: ['8443'] } }
  t.equal(await url({ url: 'https://{host}:{port}/v1', variables }), 'https://a.example:8443/v1')
  for (const [list, message] of [
    [[], /^servers is empty, so upstreamURL must be given$/],
    [undefined, /^servers is empty/],
    [[{ url: '/v1' }], /^\/servers\/0\/url must be an absolute/],
    [[{ url: 'v1' }], /absolute/],
    [[{ url: '//host/v1' }], /absolute/],
    [[{ url: 'ftp://host/v1' }], /absolute/],
    [[{}], /^\/servers\/0\/url must be a text/],
    [[{ url: 'https://{host}/' }], /variable host has no default/],
    [[{ url: 'https://{host}/', variables: { host: { enum: ['a'] } } }], /variable host has no default/],
    [[{ url: 'https://{constructor}/', variables: {} }], /variable constructor has no default/]
  ] as const)
    t.match(await refusal(() => imported(description({ servers: list }))), message)
  t.equal(await refusal(() => imported(description({ servers: [] }), { upstreamURL: 'http://a.example' })), '')
  for (const upstreamURL of ['/v1', 'a.example', 'ftp://a.example', 'http://', 'http:///x'])
    t.match(await refusal(() => imported(description(), { upstreamURL })), /^upstreamURL must be an absolute/)
})

const rich = description({
  security: [{ key: [] }],
  components: {
    securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'X-Key' } },
    requestBodies: {
      Json: { content: { 'application/json; charset=utf-8': {} } },
      Text: { content: { 'text/plain': {} } }
    },
    responses: { Some: { content: { 'application/json': { schema: {} } } } },
    examples: { Named: { value: 1 } }
  },
  paths: {
    '/own': { get: { operationId: 'own', parameters: [{ name: 'a', in: 'query' }], responses: {} } },
    '/path': {
      parameters: [{ name: 'a', in: 'query' }],
      get: { operationId: 'path', parameters: [], responses: { 200: { content: { 'a/b': {} } } } }
    },
    '/json': {
      post: {
        operationId: 'json',
        requestBody: { $ref: '#/components/requestBodies/Json' },
        responses: { 200: { content: { 'a/b': { example: null } } } }
      }
    },
    '/text': {
      post: {
        operationId: 'text',
        requestBody: { $ref: '#/components/requestBodies/Text' },
        responses: { default: { $ref: '#/components/responses/Some' } }
      }
    },
    '/named': {
      get: {
        operationId: 'named',
        responses: { 200: { content: { 'a/b': { examples: { a: { $ref: '#/components/examples/Named' } } } } } }
      }
    },
    '/nothing': {
      get: { operationId: 'nothing', responses: { 200: { content: { 'a/b': { examples: { a: { summary: 'x' } } } } } } }
    }
  }
})
const ALL = ['own', 'path', 'json', 'text', 'named', 'nothing']
const SWITCHES = ['authentication', 'allowList', 'validateRequest', 'mockResponse']
const all = (value: string) => Object.fromEntries(SWITCHES.map(name => [name, value]))
const on = (made: Configured, name: string) =>
  Object.entries(operationsOf(made)).flatMap(([id, own]) => ((own as any)[name]?.enabled ? [id] : []))

t.test('automatic options act together with listenPath, each where it has something to act on', async t => {
  const made = await imported(rich, { ...all('true'), listenPath: '/p/' })
  t.same(extensionOf(made).server.authentication, { enabled: true, securitySchemes: { key: { enabled: true } } })
  t.same(on(made, 'allow'), ALL)
  t.same(on(made, 'validateRequest'), ['own', 'path', 'json'])
  t.same(operationsOf(made).own.validateRequest, { enabled: true, errorResponseCode: 422 })
  t.same(on(made, 'mockResponse'), ['json', 'text', 'named'])
  t.same(operationsOf(made).text.mockResponse, { enabled: true, fromOASExamples: { enabled: true } })
  for (const name of [...SWITCHES, 'securitySchemes', 'security', 'responses']) t.same(told(made, name), [], name)
})

t.test('without listenPath they have no effect, and the report says so', async t => {
  for (const query of [{}, { listenPath: '' }] as Query[]) {
    const made = await imported(rich, { ...all('true'), ...query, securityProcessingMode: 'compliant' })
    t.equal(extensionOf(made).middleware, undefined)
    t.equal(extensionOf(made).server.authentication, undefined)
    for (const name of [...SWITCHES, 'securityProcessingMode']) t.same(told(made, name), ['ignored '], name)
    t.same(told(made, 'securitySchemes'), ['ignored /components/securitySchemes/key'])
    t.same(told(made, 'security'), ['ignored /security'])
    t.same(told(made, 'parameters'), [
      'ignored /paths/~1own/get/parameters',
      'ignored /paths/~1path/parameters',
      'ignored /paths/~1path/get/parameters'
    ])
    t.same(told(made, 'requestBody'), [
      'ignored /paths/~1json/post/requestBody',
      'ignored /paths/~1text/post/requestBody'
    ])
    t.equal(told(made, 'responses').length, 6)
  }
})

t.test('booleans are those of Go; anything else counts as not given, and the report says so', async t => {
  for (const value of ['1', 't', 'T', 'true', 'TRUE', 'True'])
    t.same(on(await imported(rich, { allowList: value, listenPath: '/p' }), 'allow'), ALL, value)
  for (const value of ['0', 'f', 'F', 'false', 'FALSE', 'False', '']) {
    const made = await imported(rich, { allowList: value, listenPath: '/p' })
    t.same([on(made, 'allow'), told(made, 'allowList')], [[], []], value)
  }
  for (const value of ['yes', 'on', 'tRUE', '2', ' true', 'compliant']) {
    const made = await imported(rich, { allowList: value, listenPath: '/p' })
    t.same([on(made, 'allow'), told(made, 'allowList')], [[], ['ignored ']], value)
  }
})

t.test('authentication that was asked for never ends in an open API', async t => {
  const of = (security: unknown, securitySchemes: unknown, authentication = 'true') =>
    imported(description({ security, components: { securitySchemes } }), { authentication, listenPath: '/p' })
  const key = { type: 'apiKey', in: 'query', name: 'k' }
  const o = { type: 'oauth2', flows: {} }
  const digest = { type: 'http', scheme: 'digest' }
  for (const mode of ['true', 'compliant'])
    for (const [security, schemes, message] of [
      [undefined, { key }, /needs security/],
      [[], { key }, /needs security/],
      [[{}], { key }, /needs security/],
      [{ key: [] }, { key }, /needs security/],
      [[{ other: [] }], { key }, /security names other/],
      [[{ constructor: [] }], { key }, /security names constructor/],
      [[{ o: [] }], { o }, /no scheme that security names can be switched on/],
      [[{ o: [] }, {}], { o }, /no scheme that security names can be switched on/],
      [[{ digest: [] }], { digest }, /no scheme that security names can be switched on/],
      [[{ key: [], o: [] }], { key, o }, /^\/security\/0 asks for key and o together, but o cannot be switched on$/],
      [[{ key: [], o: [] }, {}], { key, o }, /^\/security\/0 asks for key and o together/]
    ] as const)
      t.match(await refusal(() => of(security, schemes, mode)), message, mode)
})

const securitySchemes = {
  a: { type: 'apiKey', in: 'header', name: 'a' },
  b: { type: 'apiKey', in: 'header', name: 'b' },
  jwt: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
  basic: { type: 'http', scheme: 'Basic' },
  digest: { type: 'http', scheme: 'digest' },
  oidc: { type: 'openIdConnect', openIdConnectUrl: 'https://id.example/.well-known/openid-configuration' },
  oauth: { type: 'oauth2', flows: {} },
  tls: { type: 'mutualTLS' },
  ref: { $ref: '#/components/securitySchemes/basic' },
  spare: { type: 'apiKey', in: 'header', name: 'spare' }
}
type Names = readonly (readonly string[])[]
/** @param names of the schemes of each alternative */
const secured = (names: Names) =>
  description({
    security: names.map(group => Object.fromEntries(group.map(name => [name, []]))),
    components: { securitySchemes }
  })
const provider = { jwt: { enabled: true, signingMethod: 'rsa', source: 'https://id.example/jwks' } }
/** Keeps the key that JWTs and OAuth need. */
const furnished = {
  'x-svc-api-gateway': {
    server: {
      authentication: {
        securitySchemes: {
          jwt: { enabled: false, source: 'https://id.example/jwks', signingMethod: 'rsa' },
          oauth: { enabled: false, providers: [provider] }
        }
      }
    }
  }
}

t.test('schemes are switched on as the alternatives of security and the mode say', async t => {
  const table: readonly [names: Names, mode: string, on: string, base: string | undefined, told: readonly string[]][] =
    [
      [[['a']], 'true', 'a', undefined, []],
      [[['basic']], 'true', 'basic', undefined, []],
      [[['ref']], 'true', 'ref', undefined, []],
      [[['tls']], 'true', 'tls', undefined, []],
      [[['jwt']], 'true', 'jwt', undefined, ['warned jwt']],
      [[['oidc']], 'true', 'oidc', undefined, ['warned oidc']],
      [[['oauth'], ['a']], 'true', 'a', undefined, ['ignored oauth', 'ignored 0']],
      [[['a'], ['basic']], 'true', 'a', undefined, ['ignored 1', 'ignored basic']],
      [[['a'], ['a']], 'true', 'a', undefined, []],
      [[['a', 'b']], 'true', 'a b', 'auth_token', []],
      [[['basic', 'jwt']], 'true', 'basic jwt', 'jwt_claim', ['warned jwt']],
      [[['basic', 'tls']], 'true', 'basic tls', 'oauth_key', []],
      [[['a', 'digest'], ['b']], 'true', 'b', undefined, ['ignored digest', 'ignored 0', 'ignored a']],
      [[[], ['a']], 'true', 'a', undefined, ['ignored 0']],
      [[['a'], []], 'legacy', 'a', undefined, ['ignored 1']],
      [[['a'], ['basic']], 'compliant', 'a basic', 'auth_token', []],
      [[['jwt'], ['basic', 'tls']], 'compliant', 'jwt basic tls', 'jwt_claim', ['warned jwt']],
      [[['a'], []], 'compliant', 'a', undefined, ['warned 1']],
      [[[], ['oauth'], ['a']], 'compliant', 'a', undefined, ['ignored oauth', 'ignored 1', 'warned 0']],
      [[['a', 'oauth'], ['b']], 'compliant', 'b', undefined, ['ignored oauth', 'ignored 0', 'ignored a']]
    ]
  for (const [names, mode, expected, base, report] of table) {
    const query: Query =
      mode === 'legacy' ? { authentication: 'true', securityProcessingMode: mode } : { authentication: mode }
    const made = await imported(secured(names), { ...query, listenPath: '/p' })
    const { enabled, baseIdentityProvider, securityProcessingMode, securitySchemes } =
      extensionOf(made).server.authentication
    const name = `${mode}: ${JSON.stringify(names)}`
    t.equal(enabled, true, name)
    t.same(securitySchemes, Object.fromEntries(expected.split(' ').map(each => [each, { enabled: true }])), name)
    t.equal(baseIdentityProvider, base, name)
    t.equal(securityProcessingMode, mode === 'true' ? undefined : mode, name)
    const used = new Set(names.flat())
    const lines = made.report
      .filter(({ pointer }) => /^\/(security|components)\b/.test(pointer))
      .map(({ outcome, pointer }) => [outcome, pointer.slice(pointer.lastIndexOf('/') + 1)] as const)
      // Those that security does not name.
      .filter(([, place]) => /^\d/.test(place) || used.has(place))
    t.same(
      lines.map(line => line.join(' ')),
      report,
      name
    )
  }
})

t.test('schemes that the template furnishes are switched on without a word', async t => {
  const made = await imported(
    secured([['jwt'], ['oauth', 'basic']]),
    { authentication: 'compliant', listenPath: '/p' },
    furnished
  )
  t.same(extensionOf(made).server.authentication, {
    enabled: true,
    securityProcessingMode: 'compliant',
    baseIdentityProvider: 'jwt_claim',
    securitySchemes: {
      jwt: { enabled: true, source: 'https://id.example/jwks', signingMethod: 'rsa' },
      oauth: { enabled: true, providers: [provider] },
      basic: { enabled: true }
    }
  })
  t.same(told(made, 'security'), [])
  t.notOk(made.report.some(({ outcome }) => outcome === 'warned'))
  const both = await imported(secured([['oauth', 'basic']]), { authentication: '1', listenPath: '/p' }, furnished)
  t.equal(extensionOf(both).server.authentication.baseIdentityProvider, 'oauth_key')
})

t.test('the mode alone acts on an API that asks for credentials, and tells whom it lets in', async t => {
  const first = await imported(secured([['a'], []]), { authentication: '1', listenPath: '/p' })
  const open = await patched(first.document, secured([['a'], []]), {
    securityProcessingMode: 'compliant',
    listenPath: '/p'
  })
  t.equal(extensionOf(open).server.authentication.securityProcessingMode, 'compliant')
  t.same(told(open, 'security'), ['warned /security/1'])
  const again = await patched(open.document, secured([[], ['a']]))
  t.same(told(again, 'security'), ['warned /security/0'], 'each time')
  const back = await patched(open.document, secured([['a'], []]), {
    authentication: '1',
    securityProcessingMode: 'legacy',
    listenPath: '/p'
  })
  t.same(told(back, 'security'), ['ignored /security/1'])
  const keyless = await imported(secured([['a']]), { securityProcessingMode: 'compliant', listenPath: '/p' })
  t.equal(extensionOf(keyless).server.authentication, undefined)
  for (const securityProcessingMode of ['strict', 'Compliant']) {
    const made = await imported(secured([['a']]), { authentication: '1', securityProcessingMode, listenPath: '/p' })
    t.same(told(made, 'securityProcessingMode'), ['ignored '])
    t.equal(extensionOf(made).server.authentication.securityProcessingMode, undefined)
  }
  const without = await imported(secured([['a']]), { authentication: 'compliant' })
  t.same([told(without, 'authentication'), told(without, 'securityProcessingMode')], [['ignored '], []])
})

t.test('operations without an id get one of path and method that nobody else has', async t => {
  const get = { responses: {} }
  const made = await imported(
    description({
      paths: {
        '/users/{id}': { get, delete: { ...get, operationId: '' } },
        '/taken': { get: { ...get, operationId: 'users/{id}GET' } },
        '/': { trace: get }
      }
    })
  )
  t.same(
    Object.values(made.document.paths as any).flatMap((item: any) =>
      Object.values(item).map((operation: any) => operation.operationId)
    ),
    ['users/{id}GET_2', 'users/{id}DELETE', 'users/{id}GET', 'TRACE']
  )
  t.same(told(made, 'operationId'), [
    'defaulted /paths/~1users~1{id}/get',
    'defaulted /paths/~1users~1{id}/delete',
    'defaulted /paths/~1/trace'
  ])
  const evil = description({ paths: { '/a': { get: { operationId: '__proto__', parameters: [{}] } } } })
  t.match(
    await refusal(() => imported(evil, { validateRequest: '1', listenPath: '/p' })),
    /^\/paths\/~1a\/get\/operationId is not a name/
  )
})

const stored: Record<string, any> = {
  ...description({ servers: [{ url: 'http://gateway.example/pets' }], paths: {} }),
  'x-svc-api-gateway': {
    info: { id: 'pets', dbId: 'd'.repeat(24), orgId: 'default', name: 'old name', state: { active: false } },
    server: { listenPath: { value: '/old/', strip: false }, slug: 's' },
    upstream: { url: 'http://old.example' },
    middleware: {
      global: { ignoreCase: { enabled: true } },
      operations: {
        listPets: { block: { enabled: true, ignoreCase: true }, requestSizeLimit: { enabled: true, value: 7 } },
        gone: { allow: { enabled: true } }
      }
    }
  }
}

t.test(
  'another description leaves the extension of the stored API as it is, but for operations that are gone',
  async t => {
    const before = structuredClone(stored)
    const { servers: _, ...plain } = description({ info: { title: 'new title', version: '2' } })
    const made = await patched(stored, plain)
    const { middleware, ...rest } = extensionOf(made)
    const { middleware: old, ...oldRest } = stored['x-svc-api-gateway']
    t.same(rest, oldRest)
    t.same(middleware.global, old.global)
    t.same(middleware.operations, { listPets: old.operations.listPets })
    t.same(told(made, 'gone'), ['ignored /x-svc-api-gateway/middleware/operations/gone'])
    t.same(made.document.info, { title: 'new title', version: '2' })
    t.same(made.document.servers, stored.servers, 'its servers stay where the description has none')
    t.same((await patched(stored, description())).document.servers, description().servers)
    t.same(stored, before)
  }
)

t.test('options of another description act on the stored extension', async t => {
  const made = await patched(stored, description(), {
    listenPath: '/new/',
    upstreamURL: 'http://new.example',
    allowList: 'true'
  })
  const { server, upstream } = extensionOf(made)
  t.same(server.listenPath, { value: '/new/', strip: false })
  t.equal(upstream.url, 'http://new.example')
  t.same(operationsOf(made).listPets, {
    allow: { enabled: true },
    block: { enabled: false, ignoreCase: true },
    requestSizeLimit: { enabled: true, value: 7 }
  })
  const rich2 = { ...rich, 'x-svc-api-gateway': extensionOf(await imported(rich, { ...all('1'), listenPath: '/p' })) }
  const off = await patched(rich2, rich, { ...all('0'), listenPath: '/p' })
  t.equal(extensionOf(off).server.authentication.enabled, false)
  for (const name of ['allow', 'validateRequest', 'mockResponse']) t.same(on(off, name), [], name)
  const ignored = await patched(rich2, rich, all('0'))
  t.equal(extensionOf(ignored).server.authentication.enabled, true, 'without listenPath nothing changes')
})

t.test('a template lies under the description', async t => {
  const template = {
    openapi: '3.1.0',
    info: { title: 'template', description: 'of all' },
    servers: [{ url: 'http://template.example' }],
    components: { securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'K' } } },
    paths: { '/health': { get: { operationId: 'health', responses: {} } } },
    'x-svc-api-gateway': {
      info: { id: 'never', dbId: 'never', orgId: 'other', name: 'template', state: { active: false } },
      upstream: { preserveHostHeader: { enabled: true } },
      middleware: {
        global: { requestSizeLimit: { enabled: true, value: 9 } },
        operations: { health: { allow: { enabled: true } }, gone: { allow: { enabled: true } } }
      }
    }
  }
  const before = structuredClone(template)
  const { servers: _, ...plain } = description()
  const made = await imported(plain, { listenPath: '/t/' }, template)
  t.same(extensionOf(made), {
    info: { name: 'pets', state: { active: false, internal: false } },
    upstream: { preserveHostHeader: { enabled: true }, url: 'http://template.example' },
    server: { listenPath: { value: '/t/', strip: true } },
    middleware: {
      global: { requestSizeLimit: { enabled: true, value: 9 } },
      operations: { health: { allow: { enabled: true } } }
    }
  })
  const unstripped = { 'x-svc-api-gateway': { server: { listenPath: { strip: false } } } }
  const kept = await imported(description(), { listenPath: '/t/' }, unstripped)
  t.same(extensionOf(kept).server.listenPath, { value: '/t/', strip: false })
  t.same(told(kept, 'strip'), [], 'what the template says is no default')
  t.equal(made.document.openapi, '3.0.3')
  t.same(made.document.info, { title: 'pets', version: '1', description: 'of all' })
  t.same(Object.keys(made.document.paths as object).sort(), ['/health', '/pets'])
  t.ok((made.document.components as any).securitySchemes.key)
  t.same(template, before)
})

const YAML = `openapi: 3.0.3
info:
  title: pets
  version: '1'
  description: for readers
servers:
  - url: http://a.example
  - url: http://b.example
webhooks: {}
x-logo: {url: logo.png}
paths:
  x-order: 1
  /pets:
    servers: [{url: http://c.example}]
    x-path: 1
    post:
      deprecated: true
      tags: [a]
      opertionId: typo
      security: []
      callbacks: {}
      requestBody:
        content:
          multipart/form-data:
            encoding: {}
            schema:
              const: 1
              xml: {}
              surprise: 1
              properties: {a: {description: again, x-go-name: A}}
      responses:
        x-response: 1
        '200':
          description: all
          links: {}
          content: {a/b: {examples: {a: {externalValue: 'http://x'}}}}
components:
  links: {}
  callbacks: {}
  x-part: 1
`

t.test('every keyword that has no effect is told with its place and line', async t => {
  const made = configure(await readSource(input(YAML, YAML_TYPE), bounds()), {}, { template: null, dbId: '' })
  const lines = YAML.split('\n')
  const ignored = made.report.filter(({ outcome, pointer }) => outcome === 'ignored' && !pointer.startsWith('/x-svc'))
  for (const { line, keyword, pointer } of ignored)
    t.match(lines[line! - 1], pointer === '/servers/1' ? 'b.example' : `${keyword}:`, pointer)
  const media = '/paths/~1pets/post/requestBody/content/multipart~1form-data'
  t.same(
    ignored.map(({ pointer }) => pointer).sort(),
    [
      '/info/description',
      '/paths/~1pets/post/responses/200/description',
      `${media}/schema/properties/a/description`,
      `${media}/schema`,
      '/info/version',
      '/servers/1',
      '/webhooks',
      '/x-logo',
      '/paths/x-order',
      '/paths/~1pets/servers',
      '/paths/~1pets/x-path',
      '/paths/~1pets/post/deprecated',
      '/paths/~1pets/post/tags',
      '/paths/~1pets/post/opertionId',
      '/paths/~1pets/post/security',
      '/paths/~1pets/post/callbacks',
      '/paths/~1pets/post/requestBody',
      `${media}/encoding`,
      `${media}/schema/const`,
      `${media}/schema/xml`,
      `${media}/schema/surprise`,
      `${media}/schema/properties/a/x-go-name`,
      '/paths/~1pets/post/responses',
      '/paths/~1pets/post/responses/x-response',
      '/paths/~1pets/post/responses/200/links',
      '/paths/~1pets/post/responses/200/content/a~1b/examples/a/externalValue',
      '/components/links',
      '/components/callbacks',
      '/components/x-part'
    ].sort()
  )
  const id = made.report.find(({ keyword }) => keyword === 'operationId')
  t.match(id, { outcome: 'defaulted', pointer: '/paths/~1pets/post', line: 16 })
  t.ok(made.report.every(entry => entry.message !== '' && !('file' in entry)))
})

t.test('what stands in another file is told with that file', async t => {
  const files = {
    'openapi.yaml':
      'openapi: 3.1.0\ninfo: {title: a, version: "1"}\nservers: [{url: http://a.example}]\npaths:\n  /a: {$ref: paths/a.yaml}\n',
    'paths/a.yaml': '# a comment\nget:\n  callbacks: {}\n  responses: {"200": {$ref: "../r.json#/ok"}}\n',
    'r.json': '{"ok":{"description":"x","links":{},"content":{"a/b":{"schema":{"const":1}}}}}'
  }
  const made = configure(await readSource(await form(files), bounds()), {}, { template: null, dbId: '' })
  t.match(
    made.report.filter(({ keyword }) => ['callbacks', 'operationId', 'links'].includes(keyword)),
    [
      { file: 'paths/a.yaml', pointer: '/get', line: 2, keyword: 'operationId' },
      { file: 'paths/a.yaml', pointer: '/get/callbacks', line: 3, keyword: 'callbacks' },
      { file: 'r.json', pointer: '/ok/links', line: undefined, keyword: 'links' }
    ]
  )
  t.same(told(made, 'const'), [])
})

t.test('a report names every place, those that matter first, and ends after two thousand', async t => {
  const paths = Object.fromEntries(
    Array.from({ length: 300 }, (_, i) => [`/p${i}`, { get: { callbacks: {}, summary: 'x', responses: {} } }])
  )
  const made = await imported(description({ paths }))
  t.equal(told(made, 'callbacks').length, 300)
  t.equal(told(made, 'summary').length, 300)
  const extensions = Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`x-${i}`, i]))
  const { report } = await imported(description({ tags: [{ description: 'first' }], ...extensions }))
  t.equal(report.length, 2001)
  t.match(report.at(-1)?.message, /^\d+ more entries are not listed$/)
  t.notOk(report.some(({ keyword }) => keyword === 'description'))
})

t.test('keywords whose words are not enforced are told', async t => {
  const text = { type: 'string' }
  const one = { $ref: '#/components/schemas/One' }
  const document = (openapi: string) =>
    description({
      openapi,
      servers: [{ url: 'http://{host}.example', variables: { host: { default: 'a', enum: ['a', 'b'] }, port: {} } }],
      components: {
        schemas: {
          One: text,
          Text: {
            title: 't',
            format: 'byte',
            default: 'x',
            readOnly: true,
            contentEncoding: 'base64',
            contentMediaType: 'image/png',
            $comment: 'c',
            $schema: 's',
            discriminator: { propertyName: 'kind' },
            properties: {
              date: { format: 'date' },
              same: { ...one, minLength: 2 },
              choice: { oneOf: [one], discriminator: { propertyName: 'kind' } },
              mixed: { oneOf: [one, text], discriminator: { propertyName: 'kind' } }
            }
          }
        }
      },
      paths: {
        '/a': {
          post: {
            parameters: [
              { name: 'authorization', in: 'header', schema: text },
              { name: 'q', in: 'query', schema: text, allowReserved: true, example: 'e' }
            ],
            requestBody: {
              content: {
                'application/x-www-form-urlencoded': { schema: text },
                'application/xml': { schema: text },
                'application/vnd.a+json': { schema: text, example: 'e' },
                '*/*': { schema: text }
              }
            },
            responses: {
              200: {
                description: 'x',
                headers: { 'content-type': { schema: text }, 'X-A': { schema: text } },
                content: { 'application/json': { schema: { default: 1, readOnly: true }, example: 1 } }
              }
            }
          }
        }
      }
    })
  const ignored = ({ report }: Configured) =>
    report.filter(({ outcome, pointer }) => outcome === 'ignored' && /^\/(?!x-svc)/.test(pointer))
  const post = '/paths/~1a/post'
  const schema = '/components/schemas/Text'
  const options = { listenPath: '/a/', validateRequest: '1', mockResponse: '1' }
  const common = [
    '/info/version',
    '/servers/0/variables/host/enum',
    '/servers/0/variables/port',
    `${post}/parameters/0/name`,
    `${post}/parameters/1/allowReserved`,
    `${post}/parameters/1/example`,
    `${post}/requestBody/content/application~1x-www-form-urlencoded/schema`,
    `${post}/requestBody/content/application~1xml/schema`,
    `${post}/requestBody/content/application~1vnd.a+json/example`,
    `${post}/responses/200/description`,
    `${post}/responses/200/headers/content-type`,
    ...'title format default readOnly contentEncoding contentMediaType $comment $schema discriminator'
      .split(' ')
      .map(name => `${schema}/${name}`),
    `${schema}/properties/mixed/discriminator`
  ]
  const at30 = ignored(await imported(document('3.0.3'), options))
  const places = [...new Set(at30.map(({ pointer }) => pointer))]
  t.same(places.sort(), [...common, `${schema}/properties/same/minLength`].sort())
  const at31 = ignored(await imported(document('3.1.0'), options))
  t.same(at31.map(({ pointer }) => pointer).sort(), common.sort(), 'beside $ref keywords count in 3.1')
})

t.test('scopes that security asks for are told', async t => {
  const key = { type: 'apiKey', in: 'header', name: 'k' }
  const given = description({ security: [{ key: [] }, { key: ['read'] }], components: { securitySchemes: { key } } })
  t.same(told(await imported(given, { listenPath: '/a/', authentication: '1' }), 'security'), [
    'ignored /security/1/key'
  ])
})

t.test('what an import switches on is read as the description says', async t => {
  const kinds = async (names: Names, authentication: string) => {
    const { document } = await imported(secured(names), { authentication, listenPath: '/p', apiID: 'p' }, furnished)
    const api = readApi(document, { source: 'store', matching: 'exact' })
    return api.authentication!.groups.map(group => group.map(scheme => scheme.locations[0]?.name ?? scheme.kind))
  }
  t.same(await kinds([['a', 'b']], 'true'), [['a', 'b']], 'both, not one of them')
  t.same(await kinds([['a'], ['b']], 'true'), [['a']])
  t.same(await kinds([[], ['a'], ['tls', 'ref']], 'compliant'), [['a'], ['authorization', 'certificate'], []])
  t.same(
    await kinds(
      [
        ['a', 'digest'],
        ['b', 'tls']
      ],
      'true'
    ),
    [['certificate', 'b']]
  )
})

t.test('made-up answers begin from what the description has', async t => {
  const of = (responses: unknown) => description({ paths: { '/a': { get: { operationId: 'a', responses } } } })
  const content = (...types: string[]) => ({
    description: 'x',
    content: Object.fromEntries(types.map(type => [type, { example: 'x' }]))
  })
  const empty = { description: 'x' }
  const useless = { description: 'x', content: { 'application/json': {} } }
  const options = { mockResponse: '1', listenPath: '/a/' }
  for (const [responses, expected] of [
    [{ 200: content('application/json') }, {}],
    [{ 200: content('text/plain', 'application/json; charset=utf-8') }, {}],
    [{ 200: content('text/csv') }, { contentType: 'text/csv' }],
    [{ 200: content('text/*') }, { contentType: 'text/plain' }],
    [{ 200: content('*/*') }, {}],
    [{ 404: content('application/json'), 201: content('application/json') }, { code: 201 }],
    [{ 404: content('application/json'), 204: empty }, { code: 204 }],
    [{ 404: content('application/json'), 200: empty }, {}],
    [
      { 200: useless, 202: content('text/plain') },
      { code: 202, contentType: 'text/plain' }
    ],
    [{ default: content('text/html') }, { contentType: 'text/html' }],
    [{ '2XX': content('application/json') }, {}],
    [{ '4xx': content('application/problem+json') }, { code: 400, contentType: 'application/problem+json' }]
  ] as const) {
    const made = await imported(of(responses), options)
    const { enabled, ...rest } = operationsOf(made).a.mockResponse.fromOASExamples
    t.same([enabled, rest], [true, expected], JSON.stringify(responses))
  }
  const first = await imported(of({ 201: content('text/csv') }), options)
  const again = await patched(first.document, of({ 200: content('application/json') }), options)
  t.same(operationsOf(again).a.mockResponse.fromOASExamples, { enabled: true }, 'what fits no longer goes')
  const strange = structuredClone(first.document) as any
  const block = strange['x-svc-api-gateway'].middleware.operations.a.mockResponse
  for (const code of [JSON.parse('{}'), (JSON as any).rawJSON('99999999999999999999'), null]) {
    block.fromOASExamples = { code, contentType: code }
    t.match(operationsOf(await patched(strange, of({ 201: content('a/b') }), options)).a.mockResponse.fromOASExamples, {
      code: 201,
      contentType: 'a/b'
    })
  }
  const own = await patched(first.document, of({ 201: content('text/csv'), 200: empty }), options)
  t.match(operationsOf(own).a.mockResponse.fromOASExamples, { code: 201, contentType: 'text/csv' }, 'what fits stays')
})

t.test('operations whose requests cannot be checked come without the check, and the reasons are told', async t => {
  const long = Array.from({ length: 301 }, () => ({}))
  const text = `openapi: 3.0.3
info: {title: a, version: '1'}
servers: [{url: http://a.example}]
paths:
  /word:
    post:
      operationId: word
      requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/Outer'}}}}
      responses: {}
    put:
      operationId: again
      requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/Outer'}}}}
      responses: {}
    get:
      operationId: list
      parameters: [{name: q, in: query, schema: {anyOf: ${JSON.stringify(long)}}}]
      responses: {}
  /plain:
    get:
      operationId: plain
      parameters: [{name: q, in: query, schema: {type: integer, maxLength: 9223372036854775807}}]
      responses: {}
components:
  schemas:
    Outer: {properties: {self: {$ref: '#/components/schemas/Outer'}, word: {$ref: '#/components/schemas/Word'}}}
    Word:
      type: string
      pattern: '^(?=.*[A-Z]).{8,}$'
`
  const options = { validateRequest: '1', listenPath: '/a/' }
  const made = configure(await readSource(input(text, YAML_TYPE), bounds()), options, { template: null, dbId: '' })
  t.same(on(made, 'validateRequest'), ['plain'])
  const why = (keyword: string) =>
    made.report.filter(entry => entry.keyword === keyword).map(({ pointer, line, message }) => [pointer, line, message])
  t.match(why('pattern'), [['/components/schemas/Word/pattern', 28, /are not checked: it does not compile/]])
  t.match(why('validateRequest'), [
    ['/paths/~1word/get', 14, /\/anyOf must be a list of at most 300/],
    ['/paths/~1word/put', 10, /are not checked: \/components\/schemas\/Word\/pattern does not compile/],
    ['/paths/~1word/post', 6, /are not checked/]
  ])
  t.equal(why('anyOf').length, 1)
})

t.test('a title is needed, and none but a text', async t => {
  for (const info of [undefined, {}, { title: ' ' }, { title: 7 }])
    t.match(await refusal(() => imported(description({ info }))), /^\/info\/title must be a text/)
})
