import t from 'tap'
import { api, gateway, rights, withKey } from '../helpers/gateway.ts'
import { upstream } from '../helpers/upstream.ts'
import { ask, tell } from './ask.ts'

const NAMES = [
  'access-control-allow-origin',
  'access-control-allow-methods',
  'access-control-allow-headers',
  'access-control-allow-credentials',
  'access-control-expose-headers',
  'access-control-max-age',
  'vary'
]
const SHORT = ['origin', 'methods', 'headers', 'credentials', 'expose', 'age', 'vary']

/** The CORS headers of an answer under short names. */
function corsOf(headers: NodeJS.Dict<string | string[]>): Record<string, unknown> {
  return Object.fromEntries(
    NAMES.flatMap((name, i) => (headers[name] === undefined ? [] : [[SHORT[i], headers[name]]]))
  )
}

const withCors = (id: string, cors: object, url = 'svc://echo', server: object = {}) =>
  api(id, url, { server, middleware: { global: { cors: { enabled: true, ...cors } } } })

const from = (Origin: string, more: Record<string, string> = {}) => ({ headers: { Origin, ...more } })
const preflight = (Origin: string, method: string, headers?: string) => ({
  method: 'OPTIONS',
  headers: {
    Origin,
    'Access-Control-Request-Method': method,
    ...(headers === undefined ? {} : { 'Access-Control-Request-Headers': headers })
  }
})
const ASKED = 'Access-Control-Request-Method, Access-Control-Request-Headers'

t.test('with nothing but enabled, any origin may make simple requests', async t => {
  const gw = await gateway(t, { apis: [withCors('a', {})] })
  const simple = await ask(gw, '/a/', from('https://one.example'))
  t.equal(simple.status, 200)
  t.same(corsOf(simple.headers), { origin: '*' })
  t.same(corsOf((await ask(gw, '/a/')).headers), {})
  const allowed = await ask(gw, '/a/', preflight('https://one.example', 'POST', 'content-type, x-requested-with'))
  t.equal(allowed.status, 204)
  t.equal(allowed.text, '')
  t.same(corsOf(allowed.headers), {
    origin: '*',
    methods: 'GET, POST, HEAD',
    headers: 'Origin, Accept, Content-Type, X-Requested-With',
    vary: ASKED
  })
  for (const name of ['x-ratelimit-limit', 'content-length', 'content-type', 'x-svc-error'])
    t.equal(allowed.headers[name], undefined, name)
  for (const asked of [
    preflight('https://one.example', 'PUT'),
    preflight('https://one.example', 'POST', 'x-other'),
    { method: 'OPTIONS', headers: { Origin: 'https://one.example' } },
    { method: 'OPTIONS' }
  ]) {
    const refused = await ask(gw, '/a/', asked)
    t.equal(refused.status, 204)
    t.same(corsOf(refused.headers), { vary: ASKED })
  }
})

t.test(
  'named origins, with wildcards, in any case; methods, headers, credentials, exposed headers and age',
  async t => {
    const gw = await gateway(t, {
      apis: [
        withCors('a', {
          allowedOrigins: ['https://One.example', 'https://*.two.example', 'http://localhost:*'],
          allowedMethods: ['get', 'PUT'],
          allowedHeaders: ['Authorization', 'X-Own'],
          exposedHeaders: ['X-RateLimit-Limit', 'X-Other'],
          allowCredentials: true,
          maxAge: 600
        })
      ]
    })
    const open = (origin: string) => ({
      origin,
      credentials: 'true',
      expose: 'X-RateLimit-Limit, X-Other',
      vary: 'Origin'
    })
    for (const origin of [
      'https://one.example',
      'https://a.two.example',
      'https://a.b.two.example',
      'http://localhost:8080'
    ])
      t.same(corsOf((await ask(gw, '/a/', from(origin))).headers), open(origin), origin)
    for (const origin of [
      'http://one.example',
      'https://one.example.evil',
      'https://xone.example',
      'https://two.example',
      'https://.evil',
      'null',
      'https://a.two.example.evil',
      '*'
    ])
      t.same(corsOf((await ask(gw, '/a/', from(origin))).headers), { vary: 'Origin' }, origin)
    t.same(corsOf((await ask(gw, '/a/')).headers), { vary: 'Origin' })
    t.same(corsOf((await ask(gw, '/a/', preflight('https://one.example', 'PUT', 'x-own,authorization'))).headers), {
      origin: 'https://one.example',
      credentials: 'true',
      methods: 'GET, PUT',
      headers: 'Authorization, X-Own',
      age: '600',
      vary: `Origin, ${ASKED}`
    })
    for (const asked of [
      preflight('https://evil.example', 'PUT'),
      preflight('https://one.example', 'POST'),
      preflight('https://one.example', 'PUT', 'x-own, x-more')
    ])
      t.same(corsOf((await ask(gw, '/a/', asked)).headers), { vary: `Origin, ${ASKED}` })
  }
)

t.test('wildcards for methods and headers; any origin with credentials is named', async t => {
  const gw = await gateway(t, {
    apis: [
      withCors('a', { allowedOrigins: ['*'], allowedMethods: ['*'], allowedHeaders: ['*'], allowCredentials: true })
    ]
  })
  t.same(corsOf((await ask(gw, '/a/', preflight('https://one.example', 'PURGE', 'X-Any'))).headers), {
    origin: 'https://one.example',
    credentials: 'true',
    methods: 'PURGE',
    headers: 'X-Any',
    vary: `Origin, ${ASKED}`
  })
})

t.test('the answers of the upstream get ours instead of its own', async t => {
  const up = await upstream(t, (_req, res) => {
    res.setHeader('Access-Control-Allow-Origin', 'https://elsewhere.example')
    res.setHeader('Access-Control-Allow-Credentials', 'true')
    res.setHeader('Vary', 'X-Origin, Accept')
    res.end('x')
  })
  const gw = await gateway(t, { apis: [withCors('a', { allowedOrigins: ['https://one.example'] }, up.url)] })
  t.same(corsOf((await ask(gw, '/a/', from('https://one.example'))).headers), {
    origin: 'https://one.example',
    vary: 'X-Origin, Accept, Origin'
  })
  t.same(corsOf((await ask(gw, '/a/', from('https://elsewhere.example'))).headers), {
    vary: 'X-Origin, Accept, Origin'
  })
})

t.test('refusals carry them too, and a preflight needs no key, whatever would refuse the request', async t => {
  const gone = await upstream(t)
  gone.server.close()
  const gw = await gateway(t, {
    apis: [
      {
        ...api(
          'a',
          gone.url,
          {
            server: withKey,
            upstream: { rateLimit: { enabled: true, rate: 100, per: '1h' } },
            middleware: {
              global: { cors: { enabled: true, exposedHeaders: ['X-Svc-Error'] } },
              operations: { no: { block: { enabled: true } } }
            }
          },
          { '/no': { get: { operationId: 'no' }, options: { operationId: 'none' } } }
        )
      }
    ]
  })
  const key = await gw.key({ ...rights('a'), rate: 1, per: 60 })
  const inactive = await gw.key({ ...rights('a'), is_inactive: true })
  const cases: [status: number, path: string, headers: Record<string, string>][] = [
    [401, '/a/', {}],
    [403, '/a/', { Authorization: 'nobody' }],
    [403, '/a/', { Authorization: inactive }],
    [403, '/a/no', { Authorization: key }],
    [502, '/a/', { Authorization: key }],
    [429, '/a/', { Authorization: key }]
  ]
  for (const [status, path, headers] of cases) {
    const answer = await ask(gw, path, from('https://one.example', headers))
    t.equal(answer.status, status)
    t.same(corsOf(answer.headers), { origin: '*', expose: 'X-Svc-Error' }, String(status))
  }
  t.equal((await ask(gw, '/a/no', preflight('https://one.example', 'GET'))).status, 204)
})

t.test('optionsPassthrough: OPTIONS goes up past every other step and comes back as it is', async t => {
  const up = await upstream(t, (req, res) => {
    if (req.method === 'OPTIONS') {
      res.setHeader('Access-Control-Allow-Origin', 'https://its.own')
      res.setHeader('Allow', 'GET')
    }
    tell(req, res)
  })
  const gw = await gateway(t, {
    apis: [
      api(
        'a',
        up.url,
        {
          server: { ...withKey, ipAccessControl: { enabled: true, block: ['127.0.0.1'] } },
          upstream: { rateLimit: { enabled: true, rate: 1, per: '1h' } },
          middleware: {
            global: {
              cors: { enabled: true, optionsPassthrough: true },
              requestSizeLimit: { enabled: true, value: 1 }
            },
            operations: { none: { block: { enabled: true } } }
          }
        },
        { '/x': { options: { operationId: 'none' } } }
      )
    ]
  })
  for (let i = 0; i < 3; i++) {
    const answer = await ask(gw, '/a/x?y', preflight('https://one.example', 'DELETE', 'x-any'))
    t.equal(answer.status, 200)
    t.equal(answer.json.url, '/x?y')
    t.same(corsOf(answer.headers), { origin: 'https://its.own' })
    t.equal(answer.headers.allow, 'GET')
  }
  const refused = await ask(gw, '/a/x', from('https://one.example'))
  t.equal(refused.status, 403)
  t.same(corsOf(refused.headers), { origin: '*' })
})

t.test('without cors OPTIONS is a request like any other', async t => {
  const up = await upstream(t, tell)
  const gw = await gateway(t, { apis: [api('open', up.url), api('shut', up.url, { server: withKey })] })
  t.equal((await ask(gw, '/open/', preflight('https://one.example', 'GET'))).json.method, 'OPTIONS')
  t.equal((await ask(gw, '/shut/', preflight('https://one.example', 'GET'))).status, 401)
})
