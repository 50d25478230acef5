import t from 'tap'
import { api, gateway, withKey } from '../helpers/gateway.ts'
import { type Asked, ask } from '../steps/ask.ts'
import { introspectedApi, jwtApi, signed } from './withTokens.ts'

const WELL_KNOWN = '.well-known/oauth-protected-resource'
const told = (more: object = {}) => ({ authentication: { protectedResourceMetadata: { enabled: true, ...more } } })
const FULL = { authorizationServers: ['https://id.example.com'], scopesSupported: ['read', 'write'] }

t.test('the document: without a credential, for whoever asks', async t => {
  const gw = await gateway(t, {
    settings: { gateway: { trusted_proxies: ['127.0.0.1/32'] } },
    apis: [
      jwtApi('a', {}, told(FULL)),
      jwtApi('b', {}, told({ resource: 'https://api.example.com/b', wellKnownPath: 'meta/data' })),
      jwtApi(
        'p',
        { query: { enabled: true, name: 'access_token' } },
        { ...told(), server: { listenPath: { value: '/p/{tenant}/', strip: true } } }
      ),
      jwtApi('off', {}, { authentication: { protectedResourceMetadata: { enabled: false, ...FULL } } }),
      introspectedApi('i', 'http://127.0.0.1:1/', {}, {}, told({ scopesSupported: ['x'] })),
      api('root', 'svc://echo', { server: { listenPath: { value: '/', strip: true } } })
    ]
  })
  const origin = gw.url
  const header = { bearer_methods_supported: ['header'] }
  const servers = { authorization_servers: ['https://id.example.com'], scopes_supported: ['read', 'write'] }
  const forwarded = { 'X-Forwarded-Proto': 'https', 'X-Forwarded-Host': 'api.example.com:8443' }
  const rows: [path: string, asked: Asked, document: unknown][] = [
    [`/a/${WELL_KNOWN}`, {}, { resource: `${origin}/a`, ...servers, ...header }],
    [
      `/a/${WELL_KNOWN}?x=1`,
      { headers: { Authorization: 'nonsense' } },
      { resource: `${origin}/a`, ...servers, ...header }
    ],
    [`/a/x/../${WELL_KNOWN}`, {}, { resource: `${origin}/a`, ...servers, ...header }],
    [
      `/a/${WELL_KNOWN}`,
      { headers: { Host: 'api.example.com' } },
      { resource: 'http://api.example.com/a', ...servers, ...header }
    ],
    [`/a/${WELL_KNOWN}`, { headers: forwarded }, { resource: 'https://api.example.com:8443/a', ...servers, ...header }],
    ['/b/meta/data', {}, { resource: 'https://api.example.com/b', ...header }],
    [`/p/acme/${WELL_KNOWN}`, {}, { resource: `${origin}/p/acme`, bearer_methods_supported: ['header', 'query'] }],
    [`/i/${WELL_KNOWN}`, {}, { resource: `${origin}/i`, scopes_supported: ['x'], ...header }]
  ]
  for (const [path, asked, document] of rows) {
    const { status, json, headers } = await ask(gw, path, asked)
    t.same([status, headers['content-type'], json], [200, 'application/json', document], path)
  }
  const head = await ask(gw, `/a/${WELL_KNOWN}`, { method: 'HEAD' })
  t.same([head.status, head.text], [200, ''])
  for (const [path, method] of [
    [`/a/${WELL_KNOWN}`, 'POST'],
    [`/a/${WELL_KNOWN}/x`, 'GET'],
    [`/b/${WELL_KNOWN}`, 'GET']
  ] as const)
    t.equal((await ask(gw, path, { method })).status, 401, `${method} ${path}: as any path of the API`)
  t.equal((await ask(gw, `/off/${WELL_KNOWN}`)).status, 400)
})

t.test('every 401 names its address; other answers do not', async t => {
  const document: any = jwtApi('a', {}, told())
  const both = api('both', 'svc://echo', {
    server: { authentication: { ...withKey.authentication, ...told().authentication } }
  })
  const basic: any = api('basic', 'svc://echo', {
    server: {
      authentication: { enabled: true, securitySchemes: { pass: { enabled: true } }, ...told().authentication }
    }
  })
  basic.components.securitySchemes = { pass: { type: 'http', scheme: 'basic' } }
  const gw = await gateway(t, { apis: [document, both, basic, jwtApi('off')] })
  const named = (id: string) => `resource_metadata="${gw.url}/${id}/${WELL_KNOWN}"`
  const expired = `Bearer ${signed({ sub: 'ada', exp: 1 })}`
  const rows: [path: string, authorization: string, status: number, challenge: string | undefined][] = [
    ['/a/', '', 401, `Bearer ${named('a')}`],
    ['/a/', expired, 401, `Bearer error="invalid_token", ${named('a')}`],
    ['/a/', 'Bearer x.y.z', 403, undefined],
    ['/both/', '', 401, `Bearer ${named('both')}`],
    ['/both/', 'unknown', 403, undefined],
    ['/basic/', '', 401, `Basic realm="basic", Bearer ${named('basic')}`],
    ['/off/', '', 400, undefined]
  ]
  for (const [path, authorization, status, challenge] of rows) {
    const answer = await ask(gw, path, { headers: authorization === '' ? {} : { Authorization: authorization } })
    t.equal(answer.status, status, path)
    if (path === '/basic/')
      t.match(String(answer.headers['www-authenticate']), /^Basic realm="basic".*, Bearer resource_metadata="/)
    else t.equal(answer.headers['www-authenticate'], challenge, path)
  }
  const odd = await ask(gw, '/a/', { headers: { Host: `a'b(c)` } })
  t.same([odd.status, odd.headers['www-authenticate']?.includes("a'b")], [401, false], 'no host that is none')
})

t.test('with allow lists and blocked operations; addresses that are kept out stay out', async t => {
  const paths = { '/open': { get: { operationId: 'open' } }, '/{any}/{more}': { get: { operationId: 'rest' } } }
  const operations = { open: { allow: { enabled: true } }, rest: { block: { enabled: true } } }
  const gw = await gateway(t, {
    apis: [
      jwtApi('a', {}, { ...told(), middleware: { operations } }, paths),
      jwtApi('b', {}, { ...told(), server: { ipAccessControl: { enabled: true, allow: ['10.0.0.0/8'], block: [] } } }),
      jwtApi('c', {}, { ...told(), info: { expiration: '2020-01-01 00:00' } }),
      jwtApi('d', {}, { ...told(), server: { clientCertificates: { enabled: true, allowlist: [] } } })
    ]
  })
  t.equal((await ask(gw, `/a/${WELL_KNOWN}`)).status, 200)
  t.equal((await ask(gw, '/a/other')).status, 403)
  t.equal((await ask(gw, `/b/${WELL_KNOWN}`)).status, 403)
  t.equal((await ask(gw, `/c/${WELL_KNOWN}`)).status, 403)
  t.equal((await ask(gw, `/d/${WELL_KNOWN}`)).status, 403)
})

t.test('streaming APIs tell it as well', async t => {
  const document: any = jwtApi('s', {}, told())
  document['x-svc-streaming'] = {
    streams: {
      one: {
        input: { http_server: { path: '/post' } },
        output: { kafka: { addresses: ['memory://m'], topic: 'x' } }
      }
    }
  }
  delete document['x-svc-api-gateway'].upstream.url
  const streaming = { enabled: true }
  for (const workers of [1, 2]) {
    const gw = await gateway(t, {
      settings: { gateway: { streaming, workers }, management: { streaming } },
      apis: [document]
    })
    const { status, json } = await ask(gw, `/s/${WELL_KNOWN}`)
    t.same([status, json?.resource], [200, `${gw.url}/s`], `${workers} workers`)
    const refused = await ask(gw, '/s/post', { method: 'POST', body: 'x' })
    t.equal(refused.status, 401)
    t.equal(refused.headers['www-authenticate'], `Bearer resource_metadata="${gw.url}/s/${WELL_KNOWN}"`)
  }
})
