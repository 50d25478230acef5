import t from 'tap'
import { Invalid } from '../../config/validate.ts'
import { parseJson } from '../../config/yaml.ts'
import type { Api } from '../../gateway/api.ts'
import { readApi } from '../../gateway/documents/readApi.ts'

const EXTENSION = 'x-svc-api-gateway'

type Json = Record<string, unknown>

/** What to put where, by JSON pointer; `@` is the extension, undefined takes out. */
type Change = Record<string, unknown>
/** A change, and the pointers of the faults that it leads to. */
type Case = [change: Change, pointers: string[]]

/** A document with everything that a test may point at. */
function documentOf(change: Change = {}): Json {
  const document: Json = {
    openapi: '3.0.3',
    info: { title: 'orders', version: '1' },
    paths: {
      '/items': { get: { operationId: 'list', responses: {} }, post: { operationId: 'add' } },
      '/items/{id}': { parameters: [], get: { operationId: 'one' }, 'x-more': 1 },
      '/items/me': { get: {} }
    },
    components: {
      securitySchemes: {
        key: { type: 'apiKey', in: 'header', name: 'Authorization' },
        token: { type: 'apiKey', in: 'query', name: 'token' },
        jwt: { type: 'http', scheme: 'bearer' }
      }
    },
    [EXTENSION]: {
      info: { id: 'orders', name: 'orders', state: { active: true } },
      upstream: { url: 'http://127.0.0.1:9000/' },
      server: { listenPath: { value: '/orders/', strip: true } }
    }
  }
  for (const [pointer, value] of Object.entries(change)) put(document, pointer.replace('@', `/${EXTENSION}`), value)
  return document
}

function put(document: Json, pointer: string, value: unknown): void {
  const names = pointer
    .split('/')
    .slice(1)
    .map(name => name.replaceAll('~1', '/').replaceAll('~0', '~'))
  const last = names.pop()!
  let at = document
  for (const name of names) {
    at[name] ??= {}
    at = at[name] as Json
  }
  if (value === undefined) delete at[last]
  else at[last] = value
}

const given = { source: 'store', matching: 'exact' } as const

function read(change?: Change): Api {
  return readApi(documentOf(change), given)
}

function faultsOf(change: Change): string[] {
  try {
    read(change)
  } catch (cause) {
    if (cause instanceof Invalid) return cause.faults.map(({ path }) => path.replace(`/${EXTENSION}`, '@'))
    throw cause
  }
  return []
}

t.test('the smallest document has all defaults', async t => {
  t.match(read(), {
    id: 'orders',
    orgId: 'default',
    active: true,
    internal: false,
    expires: Number.POSITIVE_INFINITY,
    domain: '',
    listenPath: '/orders',
    listenSegments: ['orders'],
    strip: true,
    authentication: null,
    addresses: null,
    upstream: {
      targets: [{ protocol: 'http:', host: '127.0.0.1:9000', hostname: '127.0.0.1', port: 9000, path: '', weight: 1 }],
      balanced: false,
      skipUnavailable: false,
      preserveHost: false,
      preserveTrailingSlash: false,
      timeoutMs: null
    },
    rate: null,
    cors: null,
    sizeLimit: null,
    skipRateLimit: false,
    skipQuota: false,
    skipQuotaReset: false,
    requestHeaders: null,
    responseHeaders: null,
    allowList: false,
    operations: []
  })
})

t.test('the document stays as it was given', async t => {
  const document = documentOf({ '@/middleware': { global: { cors: { enabled: true } } } })
  const before = JSON.stringify(document)
  t.equal(readApi(document, given).document, document)
  t.equal(JSON.stringify(document), before)
})

t.test('every member is read', async t => {
  const edits = { enabled: true, remove: ['X-Old'], add: [{ name: 'X-New', value: 'a $svc_meta.user' }] }
  const api = read({
    '@/info': {
      id: 'orders',
      name: 'orders',
      dbId: 'db',
      orgId: 'acme',
      expiration: '2030-02-01 10:30',
      state: { active: true, internal: true }
    },
    '@/server': {
      listenPath: { value: '/orders/' },
      slug: 'orders-slug',
      customDomain: { enabled: true, name: 'API.Example.com.' },
      ipAccessControl: { enabled: true, allow: ['10.0.0.0/8', '::1'], block: ['10.1.1.1'] },
      authentication: {
        enabled: true,
        stripAuthorizationData: true,
        securitySchemes: {
          token: { enabled: true },
          key: {
            enabled: true,
            cookie: { enabled: true, name: 'session' },
            query: { enabled: true },
            header: { enabled: true, name: 'X-Key' }
          }
        }
      }
    },
    '@/upstream': {
      url: 'http://unused/',
      loadBalancing: {
        enabled: true,
        skipUnavailableHosts: true,
        targets: [
          { url: 'https://a.example/base/', weight: 2 },
          { url: 'http://b.example', weight: 0 }
        ]
      },
      rateLimit: { enabled: true, rate: 10, per: '1m30s' },
      preserveHostHeader: { enabled: true },
      preserveTrailingSlash: { enabled: true },
      enforceTimeout: { enabled: true, duration: '1.5s' }
    },
    '@/middleware': {
      global: {
        cors: {
          enabled: true,
          allowedOrigins: ['https://*.example.com'],
          allowedMethods: ['GET'],
          maxAge: 10,
          allowCredentials: true
        },
        requestSizeLimit: { enabled: true, value: 1000 },
        skipRateLimit: true,
        skipQuota: true,
        skipQuotaReset: true,
        transformRequestHeaders: edits,
        transformResponseHeaders: edits
      },
      operations: {
        one: {
          allow: { enabled: true },
          ignoreAuthentication: { enabled: true },
          requestSizeLimit: { enabled: true, value: 5 },
          rateLimit: { enabled: true, rate: 2, per: '1s' },
          enforceTimeout: { enabled: true, value: 0.5 },
          transformRequestHeaders: edits,
          transformResponseHeaders: edits
        },
        add: { block: { enabled: true, ignoreCase: true } }
      }
    }
  })
  const read2 = { remove: ['x-old'], add: edits.add }
  t.match(api, {
    dbId: 'db',
    orgId: 'acme',
    slug: 'orders-slug',
    internal: true,
    expires: Date.UTC(2030, 1, 1, 10, 30),
    domain: 'api.example.com',
    addresses: { allow: ['10.0.0.0/8', '::1'], block: ['10.1.1.1'] },
    upstream: {
      balanced: true,
      skipUnavailable: true,
      preserveHost: true,
      preserveTrailingSlash: true,
      timeoutMs: 1500
    },
    rate: { rate: 10, perMs: 90_000 },
    sizeLimit: 1000,
    skipRateLimit: true,
    skipQuota: true,
    skipQuotaReset: true,
    requestHeaders: read2,
    responseHeaders: read2,
    allowList: true
  })
  t.same(api.cors, {
    allowedOrigins: ['https://*.example.com'],
    allowedMethods: ['GET'],
    allowedHeaders: [],
    exposedHeaders: [],
    allowCredentials: true,
    maxAge: 10,
    optionsPassthrough: false,
    debug: false
  })
  t.same(
    api.upstream.targets.map(({ host, port, path, weight }) => [host, port, path, weight]),
    [['a.example', 443, '/base', 2]]
  )
  t.equal(api.authentication!.strip, true)
  t.same(api.authentication!.groups, [
    [
      {
        kind: 'token',
        takesCertificate: false,
        signature: null,
        locations: [
          { in: 'header', name: 'authorization' },
          { in: 'header', name: 'x-key' },
          { in: 'query', name: 'token' },
          { in: 'query', name: 'X-Key' },
          { in: 'cookie', name: 'session' }
        ]
      }
    ]
  ])
  t.match(api.operation('GET', '/items/7'), {
    id: 'one',
    allow: true,
    block: false,
    ignoreAuthentication: true,
    sizeLimit: 5,
    rate: { rate: 2, perMs: 1000 },
    timeoutMs: 500,
    requestHeaders: read2,
    responseHeaders: read2
  })
  t.match(api.operation('POST', '/ITEMS'), { id: 'add', block: true })
  t.match(api.operation('GET', '/items/me'), { id: '', allow: false }, 'an operation of its own')
  t.equal(api.operation('GET', '/ITEMS'), null)
  t.equal(api.operation('DELETE', '/items'), null)
  t.equal(api.operation('GET', '/items/7/x'), null)
})

t.test('blocks that are not enabled act as if they were absent', async t => {
  const off = { enabled: false }
  const api = read({
    '@/server/authentication': { enabled: false, securitySchemes: { key: off } },
    '@/server/customDomain': { enabled: false, name: '' },
    '@/server/ipAccessControl': off,
    '@/upstream/rateLimit': { enabled: false, rate: 0, per: '' },
    '@/upstream/loadBalancing': off,
    '@/upstream/enforceTimeout': off,
    '@/middleware': {
      global: {
        cors: off,
        requestSizeLimit: { enabled: false, value: 1 },
        transformRequestHeaders: off,
        ignoreCase: off
      },
      operations: { one: { allow: off, block: off, rateLimit: { enabled: false, rate: 1, per: '1s' } } }
    }
  })
  t.match(api, {
    authentication: null,
    domain: '',
    addresses: null,
    rate: null,
    cors: null,
    sizeLimit: null,
    allowList: false
  })
  t.equal(api.upstream.timeoutMs, null)
  t.equal(api.operation('GET', '/items/7'), null)
})

t.test('a location that the extension turns off is none', async t => {
  const key = { enabled: true, header: { enabled: false, name: '' }, cookie: { enabled: true } }
  const api = read({ '@/server/authentication': { enabled: true, securitySchemes: { key } } })
  t.same(api.authentication!.groups[0]![0]!.locations, [{ in: 'cookie', name: 'Authorization' }])
})

t.test('whatever the extension does not know is refused, with its pointer', async t => {
  const table: Case[] = [
    [{ '@/more': 1 }, ['@/more']],
    [{ '@/errorOverrides': {} }, ['@/errorOverrides']],
    [{ '@/info/versioning': {} }, ['@/info/versioning']],
    [{ '@/info/state/more': 1 }, ['@/info/state/more']],
    [{ '@/server/gatewayTags': {} }, ['@/server/gatewayTags']],
    [{ '@/server/clientCertificates': { enabled: true, list: [] } }, ['@/server/clientCertificates/list']],
    [{ '@/server/listenPath/more': 1 }, ['@/server/listenPath/more']],
    [
      { '@/server/customDomain': { enabled: true, name: 'a.b', certificate: '' } },
      ['@/server/customDomain/certificate']
    ],
    [{ '@/server/authentication': { enabled: false, oidc: {} } }, ['@/server/authentication/oidc']],
    [
      {
        '/components/securitySchemes/k~1~0': { type: 'apiKey', in: 'header', name: 'k' },
        '@/server/authentication': { enabled: true, securitySchemes: { 'k/~': { enabled: true, source: '' } } }
      },
      ['@/server/authentication/securitySchemes/k~1~0/source', '@/server/authentication/securitySchemes']
    ],
    [{ '@/upstream/tlsTransport': { proxyURL: '' } }, ['@/upstream/tlsTransport/proxyURL']],
    [{ '@/upstream/mutualTLS': { enabled: true, more: 1 } }, ['@/upstream/mutualTLS/more']],
    [{ '@/upstream/authentication': {} }, ['@/upstream/authentication']],
    [{ '@/middleware': { more: 1 } }, ['@/middleware/more']],
    [
      { '@/middleware': { global: { cache: {}, trafficLogs: {} } } },
      ['@/middleware/global/cache', '@/middleware/global/trafficLogs']
    ],
    [{ '@/middleware': { global: { cors: { enabled: true, more: 1 } } } }, ['@/middleware/global/cors/more']],
    [
      { '@/middleware': { operations: { one: { cache: {}, urlRewrite: {} } } } },
      ['@/middleware/operations/one/cache', '@/middleware/operations/one/urlRewrite']
    ],
    [
      { '@/middleware': { operations: { one: { allow: { enabled: true, more: 1 } } } } },
      ['@/middleware/operations/one/allow/more']
    ]
  ]
  for (const [change, pointers] of table) t.same(faultsOf(change), pointers, pointers.join())
})

t.test('what cannot be meant is refused, with its pointer', async t => {
  const operation = (block: Json): Change => ({ '@/middleware': { operations: { one: block } } })
  const edit = (name: string, value = ''): Change => ({
    '@/middleware': { global: { transformRequestHeaders: { enabled: true, add: [{ name, value }] } } }
  })
  const add = '@/middleware/global/transformRequestHeaders/add/0'
  const table: Case[] = [
    [{ '@': undefined }, ['@']],
    [{ '@': [] }, ['@']],
    [{ '/openapi': undefined }, ['/openapi']],
    [{ '/openapi': '2.0' }, ['/openapi']],
    [{ '/openapi': 3 }, ['/openapi']],
    [{ '/info': undefined }, ['/info']],
    [{ '/info': { title: 1 } }, ['/info/title', '/info/version']],
    [{ '/paths': undefined }, ['/paths']],
    [{ '/paths': [] }, ['/paths']],
    [{ '/paths/items': {} }, ['/paths/items']],
    [{ '/paths/~1items': null }, ['/paths/~1items']],
    [{ '/paths/~1items/put': 'x' }, ['/paths/~1items/put']],
    [{ '/paths/~1items/put': { operationId: 5 } }, ['/paths/~1items/put/operationId']],
    [{ '/paths/~1items/put': { operationId: 'one' } }, ['/paths/~1items~1{id}/get/operationId']],
    [{ '@/info/id': undefined }, ['@/info/id']],
    [{ '@/info/id': 'a/b' }, ['@/info/id']],
    [{ '@/info/id': '..' }, ['@/info/id']],
    [{ '@/info/id': '__proto__' }, ['@/info/id']],
    [{ '@/info/id': '' }, ['@/info/id']],
    [{ '@/info/id': 'x'.repeat(4096) }, ['@/info/id']],
    [{ '@/info/name': ' ' }, ['@/info/name']],
    [{ '@/info/state': undefined }, ['@/info/state']],
    [{ '@/info/expiration': '2030-02-30 10:00' }, ['@/info/expiration']],
    [{ '@/info/expiration': 'soon' }, ['@/info/expiration']],
    [{ '@/server/listenPath/value': 'orders' }, ['@/server/listenPath/value']],
    ...[
      '/svc',
      '/svc/',
      '/svc/x',
      '/hello',
      '/hello/',
      '/ready',
      '/a//b',
      '/a/../b',
      '/%61',
      '/a;b',
      '/a/*',
      '/{a:.*}/',
      '/a{b}/',
      '/a b',
      '/a%2fb',
      '/a\\b',
      '//',
      '/a?b'
    ].map(value => [{ '@/server/listenPath/value': value }, ['@/server/listenPath/value']] as Case),
    [{ '@/server/customDomain': { enabled: true, name: 'a.b:80' } }, ['@/server/customDomain/name']],
    [{ '@/server/customDomain': { enabled: true, name: '' } }, ['@/server/customDomain/name']],
    [
      { '@/server/ipAccessControl': { enabled: true, allow: ['10.0.0.0/8', '10.0.0.0/33'], block: ['x'] } },
      ['@/server/ipAccessControl/allow/1', '@/server/ipAccessControl/block/0']
    ],
    [{ '@/server/authentication': { enabled: true } }, ['@/server/authentication/securitySchemes']],
    [
      { '@/server/authentication': { enabled: true, securitySchemes: { key: { enabled: false } } } },
      ['@/server/authentication/securitySchemes']
    ],
    [
      { '@/server/authentication': { enabled: false, securitySchemes: { none: { enabled: true } } } },
      ['@/server/authentication/securitySchemes/none']
    ],
    [
      { '@/server/authentication': { enabled: false, securitySchemes: { constructor: { enabled: true } } } },
      ['@/server/authentication/securitySchemes/constructor']
    ],
    [
      {
        '/components/securitySchemes/jwt/scheme': 'digest',
        '@/server/authentication': { enabled: false, securitySchemes: { jwt: { enabled: true } } }
      },
      ['@/server/authentication/securitySchemes/jwt']
    ],
    [
      {
        '@/server/authentication': {
          enabled: true,
          securitySchemes: { key: { enabled: true, header: { enabled: true, name: 'a b' } } }
        }
      },
      ['@/server/authentication/securitySchemes/key/header/name']
    ],
    [{ '@/upstream/url': undefined }, ['@/upstream/url']],
    ...[
      'ftp://a',
      'http:a',
      'a',
      '',
      'svc://self',
      'http://',
      'http://u:p@a/',
      'http://a/?x=1',
      'http://a/#x',
      'javascript:x'
    ].map(url => [{ '@/upstream/url': url }, ['@/upstream/url']] as Case),
    [{ '@/upstream/loadBalancing': { enabled: true } }, ['@/upstream/loadBalancing/targets']],
    [
      { '@/upstream/loadBalancing': { enabled: true, targets: [{ url: 'http://a', weight: 0 }] } },
      ['@/upstream/loadBalancing/targets']
    ],
    [
      { '@/upstream/loadBalancing': { enabled: true, targets: [{ url: 'svc://echo', weight: 1 }] } },
      ['@/upstream/loadBalancing/targets/0/url']
    ],
    [{ '@/upstream/rateLimit': { enabled: true, rate: 0, per: '1s' } }, ['@/upstream/rateLimit']],
    [{ '@/upstream/rateLimit': { enabled: true, rate: 1, per: '' } }, ['@/upstream/rateLimit']],
    [{ '@/upstream/rateLimit': { enabled: true, rate: 1, per: '1 s' } }, ['@/upstream/rateLimit/per']],
    [{ '@/upstream/rateLimit': { enabled: true, rate: 1 } }, ['@/upstream/rateLimit/per']],
    [{ '@/upstream/enforceTimeout': { enabled: true } }, ['@/upstream/enforceTimeout']],
    [{ '@/upstream/enforceTimeout': { enabled: true, duration: '1h' } }, ['@/upstream/enforceTimeout/duration']],
    [
      { '@/middleware': { global: { requestSizeLimit: { enabled: true, value: -1 } } } },
      ['@/middleware/global/requestSizeLimit/value']
    ],
    [
      { '@/middleware': { global: { cors: { enabled: true, allowedOrigins: ['*.*'], allowedMethods: ['a b'] } } } },
      ['@/middleware/global/cors/allowedMethods/0', '@/middleware/global/cors/allowedOrigins/0']
    ],
    [
      { '@/middleware': { operations: { nobody: {}, constructor: {} } } },
      ['@/middleware/operations/nobody', '@/middleware/operations/constructor']
    ],
    [{ '@/middleware': { operations: { '': {} } } }, ['@/middleware/operations/']],
    [operation({ enforceTimeout: { enabled: true } }), ['@/middleware/operations/one/enforceTimeout']],
    [
      operation({ enforceTimeout: { enabled: true, value: 1, duration: '2s' } }),
      ['@/middleware/operations/one/enforceTimeout']
    ],
    [operation({ rateLimit: { enabled: true, rate: 0, per: '1s' } }), ['@/middleware/operations/one/rateLimit']],
    [operation({ allow: {} }), ['@/middleware/operations/one/allow/enabled']],
    [edit('Content-Length', '1'), [`${add}/name`]],
    [edit('transfer-encoding'), [`${add}/name`]],
    [edit('Host'), [`${add}/name`]],
    [edit('X-A', 'a\r\nX-B: b'), [`${add}/value`]],
    [edit('X-A', '$svc_context.unknown'), [`${add}/value`]],
    [edit('X A'), [`${add}/name`]],
    [
      { '/paths/~1bad~1{': { get: { operationId: 'bad' } }, ...operation({ block: { enabled: true } }) },
      ['/paths/~1bad~1{']
    ]
  ]
  for (const [i, [change, pointers]] of table.entries()) t.same(faultsOf(change), pointers, `${i}: ${pointers[0]}`)
})

t.test('all faults are told at once', async t => {
  t.same(faultsOf({ '/openapi': 'x', '@/info/name': '', '@/server/more': 1, '@/upstream/url': 5 }), [
    '/openapi',
    '@/info/name',
    '@/server/more',
    '@/upstream/url'
  ])
})

t.test('what is no document at all is refused', async t => {
  for (const value of [null, 5, 'x', [], true])
    t.throws(() => readApi(value, given), new Invalid([{ path: '', message: 'must be an object' }]))
})

t.test('listen paths have a normal form; placeholders take a segment', async t => {
  const forms: [value: string, path: string, segments: (string | null)[]][] = [
    ['/', '', []],
    ['/app', '/app', ['app']],
    ['/app/', '/app', ['app']],
    ['/api/{v}/', '/api/{v}', ['api', null]],
    ['/svcs/', '/svcs', ['svcs']],
    ['/hello/world', '/hello/world', ['hello', 'world']]
  ]
  for (const [value, listenPath, listenSegments] of forms) {
    const api = read({ '@/server/listenPath/value': value })
    t.same([api.listenPath, api.listenSegments], [listenPath, listenSegments], value)
  }
})

t.test('the operation that a request is follows the precedence of paths', async t => {
  const paths = ['/users/{id}', '/users/me', '/users/{id}/x', '/users/a{n}', '/files/*', '/files/readme', '/f/{p:.*}']
  const document = documentOf({
    '/paths': Object.fromEntries(paths.map(path => [path, { get: { operationId: path } }])),
    '@/middleware': { operations: { '/users/me': { block: { enabled: true } } } }
  })
  const table: [path: string, operation: string | null][] = [
    ['/users/me', '/users/me'],
    ['/users/7', '/users/{id}'],
    ['/users/a7', '/users/a{n}'],
    ['/users/7/x', '/users/{id}/x'],
    ['/users/', null],
    ['/files/readme', '/files/readme'],
    ['/files/a/b', '/files/*'],
    ['/f/', '/f/{p:.*}'],
    ['/x', null]
  ]
  const exact = readApi(document, given)
  for (const [path, operation] of table) t.equal(exact.operation('GET', path)?.path ?? null, operation, path)
  const prefix = readApi(document, { source: 'store', matching: 'prefix' })
  t.equal(prefix.operation('GET', '/users/me/more')?.path, '/users/me')
  t.equal(prefix.operation('GET', '/users/7/x/more')?.path, '/users/{id}/x')
})

t.test('expressions in paths are bounded together, plain paths are not', async t => {
  const paths = (count: number, path: (i: number) => string) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [path(i), { get: { operationId: `o${i}` } }]))
  const operations = { o0: { block: { enabled: true } } }
  const change = { '@/middleware': { operations } }
  t.doesNotThrow(() => read({ ...change, '/paths': paths(10_000, i => `/p/{id}/${i}`) }))
  t.doesNotThrow(() => read({ ...change, '/paths': paths(300, i => `/p/{id:[0-9]+}/${i}`) }))
  t.same(
    faultsOf({ ...change, '/paths': paths(2000, i => `/p{n:[a-z]{1,200}}/${i}`) }).map(path =>
      path.replace(/1\d+$/, '1N')
    ),
    ['/paths/~1p{n:[a-z]{1,200}}~1N']
  )
})

t.test('an integer that no double carries is a fault in the extension', async t => {
  const document = parseJson(
    JSON.stringify(
      documentOf({ '@/middleware': { global: { requestSizeLimit: { enabled: true, value: 7 } } } })
    ).replace('"value":7', '"value":9223372036854775807'),
    'exact'
  )
  t.throws(() => readApi(document, given), {
    message: `/${EXTENSION}/middleware/global/requestSizeLimit/value is an integer that a double cannot carry (beyond 2^53)`
  })
  const many = { value: Array(150_000).fill(parseJson('9223372036854775807', 'exact')) }
  t.equal(faultsOf({ '@/middleware': { global: { requestSizeLimit: many } } }).length, 150_000)
})
