import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { api, gateway, rights, type TestGateway } from '../helpers/gateway.ts'
import { description, form, zipped } from './import/given.ts'

const ECHO = { listenPath: '/pets/', upstreamURL: 'svc://echo' }
const query = (options: Record<string, string>) => `?${new URLSearchParams(options)}`
const IMPORT = '/api/apis/oas/import'

/** Imports with a media type of its own. */
function send(gw: TestGateway, path: string, body: string | Buffer, type: string, method = 'POST') {
  return gw.api(method, path, body, { headers: { 'Content-Type': type } })
}

const YAML = `openapi: 3.0.3
info: {title: pets, version: '1'}
paths:
  /pets:
    get: {callbacks: {}, responses: {'200': {description: all}}}
`

t.test('a description becomes an API that serves, from JSON, YAML, a zip file and a form', async t => {
  const gw = await gateway(t)
  const pieces = {
    'openapi.yaml': 'openapi: 3.0.3\ninfo: {title: pets, version: "1"}\npaths: {/pets: {$ref: paths/pets.yaml}}\n',
    'paths/pets.yaml': 'get: {operationId: listPets, responses: {}}\n'
  }
  const many = await form(pieces)
  for (const [body, type] of [
    [JSON.stringify(description()), 'application/json'],
    [YAML, 'application/yaml'],
    [YAML, 'text/plain'],
    [await zipped(pieces), 'application/zip'],
    [many.body, many.contentType]
  ] as const) {
    const { status, body: told, headers } = await send(gw, IMPORT + query(ECHO), body, type)
    t.equal(status, 200, type)
    t.match(told, { Status: 'OK', Message: 'API created', Meta: /^[0-9a-f]{24}$/, ID: /^[0-9a-f]{32}$/ })
    t.ok(Array.isArray(told.report))
    t.equal(headers.get('etag'), '"1"')
    const stored = (await gw.svc('GET', `/svc/apis/oas/${told.ID}`)).body
    t.match(stored, {
      info: { title: 'pets' },
      'x-svc-api-gateway': {
        info: { name: 'pets', orgId: 'default', dbId: told.Meta },
        upstream: { url: 'svc://echo' }
      }
    })
    t.ok(stored.paths['/pets'].get.operationId)
    t.equal((await gw.get('/pets/pets')).status, 200)
    t.equal((await gw.svc('DELETE', `/svc/apis/oas/${told.ID}`)).status, 200)
  }
})

t.test('the gateway interface imports as well', async t => {
  const gw = await gateway(t)
  const made = await gw.svc('POST', `/svc/apis/oas/import${query({ ...ECHO, apiID: 'pets' })}`, description())
  t.match(made, { status: 200, body: { Status: 'OK', Message: 'API created', Meta: /^[0-9a-f]{24}$/, ID: 'pets' } })
  const title = { info: { title: 'more pets', version: '2' } }
  const again = await gw.svc('PATCH', '/svc/apis/oas/pets', description(title))
  t.match(again, { status: 200, body: { Status: 'OK', Message: 'API updated', Meta: made.body.Meta, ID: 'pets' } })
  t.equal((await gw.svc('GET', '/svc/apis/oas/pets')).body.info.title, 'more pets')
  for (const [path, body, status, message] of [
    ['/svc/apis/oas/import', '', 400, 'request malformed'],
    ['/svc/apis/oas/import', '{', 400, 'request malformed'],
    ['/svc/apis/oas/import', api('x', 'svc://echo'), 400, 'the import payload should not contain x-svc-api-gateway'],
    ['/svc/apis/oas/import?apiID=pets&upstreamURL=svc://echo', description(), 409, /same ID|is taken/]
  ] as const)
    t.match(await gw.svc('POST', path, body), { status, body: { status: 'error', message } })
  t.match(await gw.svc('PATCH', '/svc/apis/oas/none', description()), {
    status: 404,
    body: { message: 'API not found' }
  })
})

t.test('authentication and the allow list act on requests when listenPath is given, and not without', async t => {
  const gw = await gateway(t)
  const secured = description({
    security: [{ key: [] }],
    components: { securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'X-Key' } } }
  })
  const asked = { upstreamURL: 'svc://echo', authentication: 'true', allowList: 'true' }
  t.equal(
    (await gw.api('POST', IMPORT + query({ ...asked, apiID: 'shut', listenPath: '/shut/' }), secured)).status,
    200
  )
  t.equal((await gw.api('POST', IMPORT + query({ ...asked, apiID: 'open' }), secured)).status, 200)
  const key = { 'X-Key': await gw.key(rights('shut')) }
  t.equal((await gw.get('/shut/pets')).status, 401)
  t.equal((await gw.get('/shut/pets', key)).status, 200)
  t.equal((await gw.get('/shut/other', key)).status, 403)
  t.equal((await gw.get('/pets')).status, 200)
  t.equal((await gw.get('/other')).status, 200)
})

t.test('checks of requests and made-up answers act on requests when listenPath is given, and not without', async t => {
  const gw = await gateway(t)
  const schema = { type: 'object', required: ['name'] }
  const paths = {
    '/pets': {
      post: {
        requestBody: { required: true, content: { 'application/json': { schema } } },
        responses: { 200: { description: 'made', content: { 'application/json': { example: { made: 'up' } } } } }
      }
    }
  }
  const asked = { upstreamURL: 'svc://echo', validateRequest: 'true', mockResponse: 'true' }
  const on = query({ ...asked, apiID: 'on', listenPath: '/on/' })
  t.equal((await gw.api('POST', IMPORT + on, description({ paths }))).status, 200)
  t.equal((await gw.api('POST', IMPORT + query({ ...asked, apiID: 'off' }), description({ paths }))).status, 200)
  const post = async (path: string, body: string): Promise<{ status: number; body: any }> => {
    const answer = await fetch(gw.url + path, { method: 'POST', body, headers: { 'Content-Type': 'application/json' } })
    return { status: answer.status, body: await answer.json() }
  }
  t.match(await post('/on/pets', '{}'), { status: 422 })
  t.same(await post('/on/pets', '{"name":"Rex"}'), { status: 200, body: { made: 'up' } })
  const plain = await post('/pets', '{}')
  t.equal(plain.status, 200)
  t.notOk('made' in plain.body)
})

t.test('a dry run shows what an import would make and keeps nothing', async t => {
  const gw = await gateway(t)
  const asked = { ...ECHO, apiID: 'pets', allowList: '1', validateRequest: '1', mockResponse: '1' }
  const paths = {
    '/pets': {
      get: { parameters: [{ name: 'q', in: 'query' }], responses: { 200: { content: { 'a/b': { example: 1 } } } } }
    }
  }
  const { status, body } = await gw.api('POST', `/api/apis/oas/dry-run${query(asked)}`, description({ paths }))
  t.equal(status, 200)
  const { 'x-svc-api-gateway': extension, ...rest } = body.svc_oas
  t.same(body.oas, rest)
  t.match(extension, {
    info: { id: 'pets', name: 'pets' },
    server: { listenPath: { value: '/pets/' } },
    middleware: {
      operations: {
        petsGET: {
          allow: { enabled: true },
          validateRequest: { enabled: true, errorResponseCode: 422 },
          mockResponse: { enabled: true, fromOASExamples: { enabled: true } }
        }
      }
    }
  })
  t.match(body.report, [{ outcome: /./, pointer: /^/, keyword: /./, message: /./ }])
  t.same((await gw.svc('GET', '/svc/apis/oas')).body, [])
  const faulty = await gw.api('POST', '/api/apis/oas/dry-run?listenPath=x', description({ paths: { pets: {} } }))
  t.equal(faulty.status, 200)
  t.match(
    faulty.body.report.filter(({ outcome }: { outcome: string }) => outcome === 'refused'),
    [{ pointer: '/paths/pets' }, { pointer: '/x-svc-api-gateway/server/listenPath/value' }]
  )
})

t.test('what is refused is told with its line and file, by an import, a dry run and a PATCH', async t => {
  const gw = await gateway(t, { apis: [api('pets', 'svc://echo')] })
  const options = query({ ...ECHO, listenPath: '/x/', validateRequest: '1' })
  const parts = {
    'openapi.yaml':
      'openapi: 3.0.3\ninfo: {title: a}\npaths:\n  /a: {$ref: paths/a.yaml}\n  /b: {$ref: paths/b.yaml}\n',
    'paths/a.yaml': '# a\nget: {operationId: same, responses: {}}\n',
    'paths/b.yaml': `# b
get:
  operationId: same
  parameters:
    - name: q
      in: query
      schema:
        type: strin
  responses: {}
`
  }
  const several = await form(parts)
  const single = `openapi: 3.0.3
info: {title: a}
paths:
  /a: {get: {operationId: same, responses: {}}}
  /b:
    get:
      operationId: same
      parameters: [{name: q, in: query, schema: {type: strin}}]
      responses: {}
`
  const b = '/paths/~1b/get'
  const type = 'parameters/0/schema/type'
  for (const [body, form, expected] of [
    [
      single,
      'application/yaml',
      [
        { pointer: '/info/version', line: 2 },
        { pointer: `${b}/operationId`, line: 7 },
        { pointer: `${b}/${type}`, line: 8 }
      ]
    ],
    [
      several.body,
      several.contentType,
      [
        { pointer: '/info/version', line: 2, file: 'openapi.yaml' },
        { pointer: '/get/operationId', line: 3, file: 'paths/b.yaml' },
        { pointer: `/get/${type}`, line: 8, file: 'paths/b.yaml' }
      ]
    ]
  ] as const)
    for (const [path, method, status] of [
      [IMPORT, 'POST', 400],
      ['/api/apis/oas/dry-run', 'POST', 200],
      ['/api/apis/oas/pets', 'PATCH', 400]
    ] as const) {
      const answer = await send(gw, path + options, body, form, method)
      t.equal(answer.status, status)
      const refused = answer.body.report.filter(({ outcome }: any) => outcome === 'refused')
      t.match(refused, expected, `${method} ${path}`)
    }
})

t.test('a dry run tells a listen path and an id that are taken, as the import would', async t => {
  const gw = await gateway(t, { apis: [api('pets', 'svc://echo')] })
  const key = await gw.user({ org_id: 'other', user_permissions: { apis: 'write' } })
  const refused = async (options: Record<string, string>, given = {}) => {
    const asked = query({ upstreamURL: 'svc://echo', ...options })
    const { body, status } = await gw.api('POST', `/api/apis/oas/dry-run${asked}`, description(), given)
    t.equal(status, 200)
    const found = body.report.filter(({ outcome }: any) => outcome === 'refused')
    const real = await gw.api('POST', IMPORT + asked, description(), given)
    t.equal(real.status, found.length > 0 ? 409 : 200)
    return found
  }
  const path = { pointer: '/x-svc-api-gateway/server/listenPath/value', keyword: 'listenPath' }
  const id = { pointer: '/x-svc-api-gateway/info/id', keyword: 'id', message: 'Found API with the same ID' }
  t.match(await refused({ listenPath: '/pets/' }), [{ ...path, message: /^Found API with same url.*API pets/ }])
  const strange = await refused({ listenPath: '/pets/' }, { key })
  t.match(strange, [{ ...path, message: /by an API of another organisation$/ }])
  t.match(await refused({ listenPath: '/free/', apiID: 'pets' }), [id])
  t.match(await refused({ listenPath: '/pets/', apiID: 'pets' }), [id, path])
  t.same(await refused({ listenPath: '/pets/', customDomain: 'a.example' }), [])
  t.same(await refused({ listenPath: '/new/', apiID: 'new' }), [])
  t.same(await refused({ listenPath: '/newer/' }), [], 'an id that is to be made is free')
})

t.test('a description beyond what is checked is imported all the same', async t => {
  const gw = await gateway(t)
  const schema = { type: 'string', pattern: '^(?=.*[A-Z]).{8,}$' }
  const anyOf = Array.from({ length: 301 }, () => ({}))
  const paths = {
    '/a': { get: { operationId: 'a', parameters: [{ name: 'q', in: 'query', schema }], responses: {} } },
    '/b': {
      get: {
        operationId: 'b',
        parameters: [{ name: 'q', in: 'query', schema: { type: 'integer' } }],
        responses: { 201: { description: 'x', content: { 'text/plain': { example: 'made up', schema: { anyOf } } } } }
      }
    }
  }
  const options = { ...ECHO, validateRequest: 'true', mockResponse: 'true' }
  const { status, body } = await gw.api('POST', IMPORT + query(options), description({ paths }))
  t.equal(status, 200)
  const pointer = '/paths/~1a/get/parameters/0/schema/pattern'
  t.match(
    body.report.find(({ keyword }: any) => keyword === 'pattern'),
    { outcome: 'ignored', pointer }
  )
  t.equal((await gw.get('/pets/a?q=x')).status, 200)
  t.equal((await gw.get('/pets/b?q=x')).status, 422)
  const mocked = await gw.get('/pets/b?q=1')
  t.same([mocked.status, await mocked.text()], [201, 'made up'])
  const wrong = { type: 'string', pattern: '(' }
  const faulty = { '/a': { get: { parameters: [{ name: 'q', in: 'query', schema: wrong }], responses: {} } } }
  const refused = await gw.api(
    'POST',
    IMPORT + query({ ...options, listenPath: '/f/' }),
    description({ paths: faulty })
  )
  t.match(refused, { status: 400, body: { report: [{ pointer, outcome: 'refused' }] } })
})

t.test('PATCH replaces the description and keeps the extension', async t => {
  const document = api('pets', 'svc://echo', { server: { listenPath: { value: '/pets/', strip: true }, slug: 's' } })
  const gw = await gateway(t, { apis: [document] })
  const before = (await gw.svc('GET', '/svc/apis/oas/pets')).body
  const { status, body, headers } = await send(gw, '/api/apis/oas/pets', YAML, 'application/x-yaml', 'PATCH')
  t.match({ status, body }, { status: 200, body: { Status: 'OK', Message: 'API updated', ID: 'pets' } })
  t.match(
    body.report.find(({ keyword }: { keyword: string }) => keyword === 'callbacks'),
    { outcome: 'ignored', pointer: '/paths/~1pets/get/callbacks', line: 5 }
  )
  const after = (await gw.svc('GET', '/svc/apis/oas/pets')).body
  t.match(after, { paths: { '/pets': { get: { operationId: 'petsGET' } } } })
  t.same(after['x-svc-api-gateway'].server, before['x-svc-api-gateway'].server)
  t.equal(after['x-svc-api-gateway'].info.name, 'pets')
  t.equal(headers.get('etag'), '"2"')
  const old = { headers: { 'If-Match': '"1"' } }
  t.equal((await gw.api('PATCH', '/api/apis/oas/pets', description(), old)).status, 412)
  t.equal((await gw.api('PATCH', `/api/apis/oas/${body.Meta}`, description())).status, 200, 'by database id')
  for (const [path, sent, refused, message] of [
    ['/api/apis/oas/none', description(), 404, 'API definition does not exist'],
    ['/api/apis/oas/pets', document, 400, 'the import payload should not contain x-svc-api-gateway'],
    ['/api/apis/oas/pets', '', 400, /./],
    ['/api/apis/oas/pets', '[', 400, "Couldn't read body."],
    ['/api/apis/oas/pets?apiID=other', description(), 400, /must match/],
    ['/api/apis/oas/pets?surprise=1', description(), 400, /surprise/]
  ] as const)
    t.match(await gw.api('PATCH', path, sent), { status: refused, body: { Status: 'Error', Message: message } })
})

t.test('many descriptions and options sent to one API at once are all done, one after the other', async t => {
  const gw = await gateway(t, { apis: [api('pets', 'svc://echo')] })
  const calls = Array.from({ length: 20 }, (_, i) =>
    gw.api('PATCH', `/api/apis/oas/pets${i % 2 === 0 ? query({ customDomain: 'a.example' }) : ''}`, YAML)
  )
  const answers = await Promise.all(calls)
  t.same(
    answers.map(({ status }) => status),
    calls.map(() => 200)
  )
  t.ok(answers.every(({ body }) => body.report.some(({ keyword }: any) => keyword === 'operationId')))
  t.equal((await gw.api('PATCH', '/api/apis/oas/pets', YAML)).headers.get('etag'), '"22"')
})

t.test('a streaming API is not imported', async t => {
  const gw = await gateway(t)
  const streaming = description({ 'x-svc-streaming': { streams: {} } })
  for (const [send, path] of [
    [gw.api, IMPORT],
    [gw.svc, '/svc/apis/oas/import']
  ] as const)
    t.match(await send('POST', path + query(ECHO), streaming), { status: 400 })
})

t.test('nobody imports into another organisation, or changes its APIs', async t => {
  const gw = await gateway(t, { apis: [api('pets', 'svc://echo')] })
  const key = await gw.user({ org_id: 'other', user_permissions: { apis: 'write' } })
  t.equal((await gw.api('PATCH', '/api/apis/oas/pets', description(), { key })).status, 404)
  const made = await gw.api('POST', IMPORT + query({ upstreamURL: 'svc://echo' }), description(), { key })
  t.equal(made.status, 200)
  const { body } = await gw.svc('GET', `/svc/apis/oas/${made.body.ID}`)
  t.equal(body['x-svc-api-gateway'].info.orgId, 'other')
  const reader = await gw.user({ org_id: 'default', user_permissions: { apis: 'read' } })
  t.equal((await gw.api('POST', IMPORT, description(), { key: reader })).status, 403)
  t.equal((await gw.api('PATCH', '/api/apis/oas/pets', description(), { key: reader })).status, 403)
  t.equal((await gw.api('POST', '/api/apis/oas/dry-run', description(), { key: reader })).status, 200)
})

t.test('a template is laid under the description, for its own organisation alone', async t => {
  const gw = await gateway(t)
  const data = api('template', '', { upstream: { url: 'svc://echo', preserveHostHeader: { enabled: true } } })
  const asset = await gw.api('POST', '/api/assets', { id: 'house', kind: 'oas-template', name: 'house', data })
  t.equal(asset.status, 201)
  for (const templateID of ['house', asset.body.Meta]) {
    const options = { templateID, listenPath: `/${templateID}/` }
    const made = await gw.api('POST', IMPORT + query(options), description())
    t.equal(made.status, 200)
    const extension = (await gw.svc('GET', `/svc/apis/oas/${made.body.ID}`)).body['x-svc-api-gateway']
    t.match(extension, { info: { name: 'pets', orgId: 'default' }, upstream: { url: 'svc://echo' } })
    t.equal(extension.upstream.preserveHostHeader.enabled, true)
  }
  const key = await gw.user({ org_id: 'other' })
  t.equal((await gw.api('POST', `${IMPORT}?templateID=house`, description(), { key })).status, 404)
  t.equal((await gw.api('POST', `${IMPORT}?templateID=none`, description())).status, 404)
})

/** A server on 127.0.0.1; its base URL. */
async function serving(t: Test, answers: Record<string, readonly [Record<string, string>, string | Buffer]>) {
  const server = createServer((req, res) => {
    const [headers, body]: readonly [Record<string, string>, string | Buffer] = answers[req.url!] ?? [{}, 'secret']
    res.writeHead(headers.location === undefined ? (req.url! in answers ? 200 : 404) : 302, headers).end(body)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

t.test('a description is fetched from a URL, from networks that the settings open alone', async t => {
  const gw = await gateway(t, { settings: { management: { import_private_networks: ['127.0.0.1/32'] } } })
  const shut = await gateway(t)
  const bomb = gzipSync(Buffer.alloc(20_000_000, ' '))
  const base = await serving(t, {
    '/yaml': [{ 'Content-Type': 'application/yaml' }, YAML],
    '/plain': [{ 'Content-Type': 'text/plain', 'Content-Encoding': 'gzip' }, gzipSync(JSON.stringify(description()))],
    '/zip': [{}, await zipped({ 'a/openapi.yaml': YAML })],
    '/again': [{ location: '/yaml' }, ''],
    '/inside': [{ location: 'http://127.0.0.2/' }, ''],
    '/url': [{ 'Content-Type': 'application/json' }, '{"url":"http://127.0.0.1/"}'],
    '/bomb': [{ 'Content-Encoding': 'gzip' }, bomb]
  })
  for (const [path, status, message] of [
    ['/yaml', 200],
    ['/plain', 200],
    ['/zip', 200],
    ['/again', 200],
    ['/inside', 400, /127\.0\.0\.2: its address is not public/],
    ['/url', 400, /must have openapi/],
    ['/none', 400, /answered 404$/],
    ['/bomb', 413, 'Request Entity Too Large']
  ] as const) {
    const options = { ...ECHO, listenPath: `${path}/` }
    const answer = await gw.api('POST', IMPORT + query(options), { url: base + path })
    t.equal(answer.status, status, path)
    if (message !== undefined) t.match(answer.body.Message, message)
    t.notMatch(JSON.stringify(answer.body), /secret/)
    t.equal((await shut.api('POST', IMPORT + query(options), { url: base + path })).status, 400)
  }
  const patched = await gw.api(
    'PATCH',
    `/api/apis/oas/${(await gw.svc('GET', '/svc/apis/oas')).body[0]['x-svc-api-gateway'].info.id}`,
    { url: `${base}/plain` }
  )
  t.equal(patched.status, 200)
})

t.test('what cannot be imported is answered with its place, and nothing is kept', async t => {
  const gw = await gateway(t, { settings: { management: { max_body_size: 100_000 } } })
  const large = JSON.stringify(description({ 'x-large': 'x'.repeat(200_000) }))
  for (const [body, type, status, message] of [
    ['', 'application/json', 400, /./],
    ['{"a":', 'application/json', 400, "Couldn't read body."],
    ['a: [', 'application/yaml', 400, "Couldn't read body."],
    ['null', 'application/json', 400, /must be an object/],
    ['swagger: "2.0"', 'application/yaml', 400, /OpenAPI 3\.0 or 3\.1/],
    ['{"url":"http://169.254.169.254/latest"}', 'application/json', 400, /not public/],
    [JSON.stringify(description({ servers: [] })), 'application/json', 400, /upstreamURL must be given/],
    [
      JSON.stringify(description({ paths: { '/a': { $ref: '/etc/passwd' } } })),
      'application/json',
      400,
      /paths\/~1a\/\$ref refers to/
    ],
    [JSON.stringify(description({ paths: { a: {} } })), 'application/json', 400, /\/paths\/a must begin with/],
    [await zipped({ 'a.json': large }), 'application/zip', 413, 'Request Entity Too Large'],
    [large, 'application/json', 413, 'Request Entity Too Large'],
    ['--x', 'multipart/form-data; boundary=x', 400, /form/],
    [Buffer.from('PK\x03\x04'), 'application/zip', 400, /zip file/]
  ] as const) {
    for (const path of [IMPORT, '/api/apis/oas/dry-run']) {
      const answer = await send(gw, path, body, type)
      if (path !== IMPORT && /must begin/.test(String(message))) t.equal(answer.status, 200)
      else t.match(answer, { status, body: { Status: 'Error', Message: message, Meta: null } })
    }
  }
  const { body } = await gw.api('POST', IMPORT, description({ paths: { a: {} } }))
  t.match(body.report[0], { pointer: '/paths/a', keyword: 'a', outcome: 'refused' })
  t.same((await gw.svc('GET', '/svc/apis/oas')).body, [])
  t.same(
    gw.log.lines.filter(({ level }) => level === 'error'),
    []
  )
})
