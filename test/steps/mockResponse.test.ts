import t from 'tap'
import { api, gateway, rights, withKey } from '../helpers/gateway.ts'
import { upstream } from '../helpers/upstream.ts'
import { ask, tell, valuesOf } from './ask.ts'

const fromExamples = (more: object = {}) => ({ enabled: true, fromOASExamples: { enabled: true, ...more } })
const paths = {
  '/users/{id}': {
    get: {
      operationId: 'user',
      responses: {
        '200': {
          headers: {
            'X-Total': { schema: { type: 'integer', example: 3 } },
            'X-Tags': { schema: { type: 'array' }, example: ['a', 'b'] },
            'X-None': { schema: { type: 'string' } },
            'Content-Length': { schema: { type: 'integer', example: 1 } }
          },
          content: {
            'application/json': {
              examples: {
                zoe: { value: { name: 'Zoe' } },
                ann: { $ref: '#/components/examples/ann' },
                far: { externalValue: 'http://localhost/x' }
              }
            },
            'application/xml; charset=utf-8': { example: '<user/>' },
            'text/plain': { example: 'plain' }
          }
        },
        '201': { description: 'no content' },
        '404': { $ref: '#/components/responses/missing' },
        '5xx': { content: { 'application/json': { example: 'down' } } }
      }
    },
    head: { operationId: 'head', responses: { default: { content: { 'application/json': { example: { a: 1 } } } } } }
  },
  '/sample': {
    get: {
      operationId: 'sample',
      responses: {
        '200': {
          content: {
            'application/json': { schema: { $ref: '#/components/schemas/node' } },
            'application/xml': { schema: { $ref: '#/components/schemas/named' } },
            'application/problem+json': {}
          }
        }
      }
    }
  },
  '/huge': {
    get: {
      operationId: 'huge',
      responses: { '200': { content: { 'application/json': { schema: { $ref: '#/components/schemas/h0' } } } } }
    }
  },
  '/fixed': { get: { operationId: 'fixed' }, post: { operationId: 'json' } },
  '/none': { get: { operationId: 'none' }, delete: { operationId: 'gone' } }
}
const huge = Object.fromEntries(
  Array.from({ length: 40 }, (_, i) => {
    const next = { $ref: `#/components/schemas/h${i + 1}` }
    const items = { type: 'array', minItems: 1_000_000_000, items: next }
    return [
      `h${i}`,
      { type: 'object', properties: { a: next, b: items, c: { type: 'string', minLength: 1_000_000_000 } } }
    ]
  })
)
const components = {
  examples: { ann: { value: { name: 'Ann' } } },
  responses: { missing: { content: { 'application/json': { example: { error: 'no' } } } } },
  schemas: {
    node: {
      type: 'object',
      properties: {
        id: { type: 'integer', example: 7 },
        secret: { type: 'string', writeOnly: true },
        next: { $ref: '#/components/schemas/node' },
        kind: { type: 'string', enum: ['x', 'y'] }
      }
    },
    named: { type: 'object', xml: { name: 'thing' }, properties: { name: { type: 'string', example: 'n' } } },
    ...huge,
    h40: { type: 'string' }
  }
}
const middleware = {
  global: { transformResponseHeaders: { enabled: true, add: [{ name: 'X-Added', value: 'yes' }], remove: [] } },
  operations: {
    user: { mockResponse: fromExamples() },
    head: { mockResponse: fromExamples({ code: 503, contentType: 'application/json' }) },
    sample: { mockResponse: fromExamples() },
    huge: { mockResponse: fromExamples() },
    fixed: {
      mockResponse: {
        enabled: true,
        code: 418,
        body: 'short',
        headers: [
          { name: 'Set-Cookie', value: 'a' },
          { name: 'Set-Cookie', value: 'b' }
        ]
      }
    },
    json: { mockResponse: { enabled: true, body: '{"a":1}', headers: [] } },
    gone: { mockResponse: { enabled: true, code: 204, body: 'dropped' } }
  }
}

t.test('a mocked operation answers from the examples that were asked for', async t => {
  const up = await upstream(t, tell)
  const gw = await gateway(t, { apis: [{ ...api('m', up.url, { middleware }, paths), components }] })
  const code = (value: string) => ({ 'X-Svc-Accept-Example-Code': value })
  const name = (value: string) => ({ 'X-Svc-Accept-Example-Name': value })
  const accept = (value: string) => ({ Accept: value })
  const cases: [path: string, headers: Record<string, string>, status: number, type: string, body: unknown][] = [
    ['/m/users/1', {}, 200, 'application/json', { name: 'Ann' }],
    ['/m/users/1', accept('*/*'), 200, 'application/json', { name: 'Ann' }],
    ['/m/users/1', name('zoe'), 200, 'application/json', { name: 'Zoe' }],
    ['/m/users/1', code('404'), 404, 'application/json', { error: 'no' }],
    ['/m/users/1', code('502'), 502, 'application/json', '"down"'],
    ['/m/users/1', code('201'), 201, '', ''],
    ['/m/users/1', accept('text/plain'), 200, 'text/plain', 'plain'],
    ['/m/users/1', accept('application/xml'), 200, 'application/xml; charset=utf-8', '<user/>'],
    ['/m/users/1', accept('image/png, text/*;q=0.5, application/json;q=0.1'), 200, 'text/plain', 'plain'],
    ['/m/users/1', accept('text/plain;q=0, */*;q=0.1'), 200, 'application/json', { name: 'Ann' }],
    ['/m/users/1', accept('application/*'), 200, 'application/json', { name: 'Ann' }],
    ['/m/sample', {}, 200, 'application/json', { id: 7, next: {}, kind: 'x' }],
    ['/m/fixed', {}, 418, 'text/plain; charset=utf-8', 'short'],
    ['/m/none', {}, 200, 'application/json', null]
  ]
  for (const [path, headers, status, type, body] of cases) {
    const answer = await ask(gw, path, { headers })
    const told = `${path} ${JSON.stringify(headers)}`
    t.same([answer.status, answer.headers['content-type'] ?? ''], [status, type], told)
    if (body !== null) t.same(typeof body === 'string' ? answer.text : answer.json, body, told)
    t.equal(answer.headers['x-added'], 'yes', 'headers are edited as those of the upstream')
  }
  t.equal(up.requests.length, 1, 'only what is not mocked reaches the upstream')

  const { raw, headers } = await ask(gw, '/m/users/1')
  t.same([headers['x-total'], headers['x-tags'], headers['x-none']], ['3', 'a,b', undefined])
  t.same(valuesOf(raw, 'content-length'), ['14'])
  t.match(
    (await ask(gw, '/m/sample', { headers: accept('application/xml') })).text,
    /<thing>\s*<name>n<\/name>\s*<\/thing>/
  )
  t.same((await ask(gw, '/m/fixed')).headers['set-cookie'], ['a', 'b'])
  t.same((await ask(gw, '/m/fixed', { method: 'POST' })).json, { a: 1 })
  const gone = await ask(gw, '/m/none', { method: 'DELETE' })
  t.same([gone.status, gone.text, gone.headers['content-length']], [204, '', undefined])
  const head = await ask(gw, '/m/users/1', { method: 'HEAD' })
  t.same([head.status, head.text, head.headers['content-length']], [503, '', '7'])
  t.ok((await ask(gw, '/m/huge')).text.length < 1_000_000, 'a sample is no larger than is sensible')

  const misses: [headers: Record<string, string>, reason: string][] = [
    [code('418'), 'there is no example response for the code: 418'],
    [code('42'), 'there is no example response for the code: 42'],
    [code('2x'), 'given code 2x is not a valid integer value'],
    [accept('image/png'), 'there is no example response for the content type: image/png'],
    [name('bob'), 'there is no example response for the example name: bob'],
    [name('far'), 'there is no example response for the example name: far']
  ]
  for (const [headers, reason] of misses) {
    const answer = await ask(gw, '/m/users/1', { headers })
    t.same([answer.status, answer.text], [500, JSON.stringify({ error: `failed to mock response: mock: ${reason}` })])
    t.equal(answer.headers['x-svc-error'], 'mock_failed')
  }
})

t.test('mocks stand behind keys, limits and checks, and their answers tell the limits', async t => {
  const up = await upstream(t, tell)
  const operations = {
    user: { mockResponse: fromExamples(), validateRequest: { enabled: true } }
  }
  const item = {
    get: {
      ...paths['/users/{id}'].get,
      parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'integer' } }]
    }
  }
  const document = {
    ...api('k', up.url, { server: withKey, middleware: { operations } }, { '/users/{id}': item }),
    components: { ...components, securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'Authorization' } } }
  }
  const gw = await gateway(t, { apis: [document] })
  const key = await gw.key({ ...rights('k'), rate: 2, per: 60, quota_max: 5, quota_renewal_rate: 60 })
  const headers = { Authorization: key }
  t.equal((await ask(gw, '/k/users/1')).status, 401)
  t.equal((await ask(gw, '/k/users/x', { headers })).status, 422)
  const mocked = await ask(gw, '/k/users/1', { headers })
  t.same([mocked.status, mocked.headers['x-ratelimit-limit'], mocked.headers['x-ratelimit-remaining']], [200, '5', '3'])
  t.equal((await ask(gw, '/k/users/1', { headers })).status, 429)
  t.equal(up.requests.length, 0)
})

t.test('a mock that cannot be given is refused with its place', async t => {
  const gw = await gateway(t)
  const fixed = (name: string, value: string) => ({ enabled: true, body: '', headers: [{ name, value }] })
  const responses = (given: object) => ({ '/x': { get: { operationId: 'x', responses: given } } })
  const at = '/paths/~1x/get/responses'
  const block = '/x-svc-api-gateway/middleware/operations/x/mockResponse'
  const content = (given: object) => ({ 200: { content: { 'application/json': given } } })
  const cases: [mockResponse: object, paths: object, expected: string][] = [
    [fixed('X-A', 'a\r\nB: c'), responses({}), `${block}/headers/0/value`],
    [fixed('X A', 'a'), responses({}), `${block}/headers/0/name`],
    [fixed('Content-Length', '1'), responses({}), `${block}/headers/0/name`],
    [{ enabled: true, code: 101 }, responses({}), `${block}/code`],
    [{ enabled: true, code: 200, delay: 1 }, responses({}), `${block}/delay`],
    [fromExamples(), responses({ 200: { $ref: '#/components/responses/none' } }), `${at}/200/$ref`],
    [
      fromExamples(),
      responses(content({ schema: { $ref: '#/none' } })),
      `${at}/200/content/application~1json/schema/$ref`
    ],
    [fromExamples(), responses(content({ examples: { a: { $ref: 'x.yaml' } } })), 'examples/a/$ref'],
    [fromExamples(), responses({ 200: { headers: { 'X-A': { example: 'a\nb' } } } }), `${at}/200/headers/X-A`]
  ]
  for (const [mockResponse, paths, expected] of cases) {
    const document = api('x', 'http://localhost', { middleware: { operations: { x: { mockResponse } } } }, paths)
    const { status, body } = await gw.svc('POST', '/svc/apis/oas', document)
    t.equal(status, 400, expected)
    t.ok(JSON.stringify(body).includes(expected), `${expected} in ${JSON.stringify(body)}`)
  }
})
