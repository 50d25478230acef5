import t from 'tap'
import { api, gateway, rights, withKey } from '../helpers/gateway.ts'
import { upstream } from '../helpers/upstream.ts'
import { type Answered, type Asked, ask, eventsOf, tell, valuesOf } from './ask.ts'

const MISSING = [401, '{"error":"Authorization field missing"}']
const UNKNOWN = [403, '{"error":"Access to this API has been disallowed"}']
const said = ({ status, text }: Answered) => [status, text]

/** Authentication by one scheme `key`: what the document says, and what the extension adds. */
function withScheme(id: string, url: string, described: object, scheme: object, strip = false) {
  const document: any = api(id, url, {
    server: {
      authentication: {
        enabled: true,
        stripAuthorizationData: strip,
        securitySchemes: { key: { enabled: true, ...scheme } }
      }
    }
  })
  document.components.securitySchemes.key = { type: 'apiKey', ...described }
  return document
}

t.test('a token is taken from the header, bare or as Bearer in any case', async t => {
  const gw = await gateway(t, { apis: [api('a', 'svc://echo', { server: withKey })] })
  const key = await gw.key(rights('a'))
  for (const value of [key, `Bearer ${key}`, `bearer ${key}`, `BEARER   ${key}`, `bEaReR ${key}  `])
    t.equal((await ask(gw, '/a/', { headers: { Authorization: value } })).status, 200, value)
  for (const name of ['AUTHORIZATION', 'authorization'])
    t.equal((await ask(gw, '/a/', { headers: { [name]: key } })).status, 200, name)
  for (const value of [`Basic ${key}`, `Bearer,${key}`, `Bearer${key}`, `Bearer Bearer ${key}`, `"${key}"`])
    t.same(said(await ask(gw, '/a/', { headers: { Authorization: value } })), UNKNOWN, value)
})

t.test('without a token it is 401 with WWW-Authenticate; places that the API does not name say nothing', async t => {
  const gw = await gateway(t, { apis: [api('a', 'svc://echo', { server: withKey })] })
  const key = await gw.key(rights('a'))
  const cases: [string, Asked][] = [
    ['/a/', {}],
    ['/a/', { headers: { Authorization: '' } }],
    ['/a/', { headers: { Authorization: '   ' } }],
    [`/a/?authorization=${key}&Authorization=${key}`, {}],
    ['/a/', { headers: { Cookie: `Authorization=${key}` } }],
    ['/a/', { headers: { 'X-Api-Key': key, 'Proxy-Authorization': key } }],
    ['/a/', { method: 'POST', body: key }]
  ]
  for (const [path, asked] of cases) {
    const answer = await ask(gw, path, asked)
    t.same(said(answer), MISSING, JSON.stringify(asked))
    t.equal(answer.headers['www-authenticate'], 'Bearer')
    t.equal(answer.headers['x-svc-error'], 'auth_missing')
    t.equal(answer.headers['content-type'], 'application/json')
    t.equal(answer.headers['x-ratelimit-limit'], undefined)
  }
  t.same(eventsOf(gw), [])
})

t.test('whatever is no key is refused like an unknown one, with an event that does not show it', async t => {
  const gw = await gateway(t, { apis: [api('a', 'svc://echo', { server: withKey })] })
  await gw.key(rights('a'))
  const odd = [
    'nobody',
    'x',
    'ab',
    'x'.repeat(512),
    'x'.repeat(4096),
    '__proto__',
    'constructor',
    '../../etc/passwd',
    '%00',
    '\u00fc\u00e9',
    'a\tb',
    '{"org":"default"}',
    'eyJvcmciOiJkZWZhdWx0IiwiaWQiOiJ4IiwiaCI6InNoYTI1NiJ9',
    'bearer'
  ]
  for (const value of odd) {
    const answer = await ask(gw, '/a/some/path', { headers: { Authorization: value } })
    t.same(said(answer), UNKNOWN, value.slice(0, 40))
    t.equal(answer.headers['x-svc-error'], 'key_unknown')
  }
  const [first] = eventsOf(gw)
  t.match(first, { event: 'AuthFailure', api_id: 'a', path: '/a/some/path', origin: '127.0.0.1', key: '' })
  t.notMatch(JSON.stringify(gw.log.lines), /nobody|xxxx/)
})

t.test('header, query and cookie under one name; a later one that is not empty wins', async t => {
  const scheme = { query: { enabled: true }, cookie: { enabled: true } }
  const gw = await gateway(t, {
    apis: [withScheme('a', 'svc://echo', { in: 'header', name: 'X-Key' }, scheme)]
  })
  const key = await gw.key(rights('a'))
  const wrong = 'someone else'.replace(' ', '-')
  const cases: [boolean, string, Asked][] = [
    [true, '/a/', { headers: { 'x-key': key } }],
    [true, '/a/', { headers: { 'X-KEY': `Bearer ${key}` } }],
    [true, `/a/?X-Key=${key}`, {}],
    [true, `/a/?b=1&X-Key=Bearer%20${key}&c=2`, {}],
    [true, `/a/?X-Key=bearer+${key}`, {}],
    [true, `/a/?X%2DKey=${key}`, {}],
    [true, '/a/', { headers: { Cookie: `X-Key=${key}` } }],
    [true, '/a/', { headers: { Cookie: `a=1; X-Key="${key}"; b=2` } }],
    [true, `/a/?X-Key=${key}`, { headers: { 'X-Key': wrong } }],
    [true, '/a/', { headers: { 'X-Key': wrong, Cookie: `X-Key=${key}` } }],
    [true, `/a/?X-Key=${wrong}`, { headers: { Cookie: `X-Key=${key}` } }],
    [true, '/a/?X-Key=', { headers: { 'X-Key': key } }],
    [true, '/a/?X-Key', { headers: { 'X-Key': key, Cookie: 'X-Key=' } }],
    [true, '/a/?%ZZ=%&&=', { headers: { 'X-Key': key, Cookie: ';;=;X-Keys=1; X-Ke=2' } }],
    [false, `/a/?X-Key=${wrong}`, { headers: { 'X-Key': key } }],
    [false, '/a/', { headers: { 'X-Key': key, Cookie: `X-Key=${wrong}` } }],
    [false, `/a/?X-Key=${key}`, { headers: { Cookie: `X-Key=${wrong}` } }]
  ]
  for (const [passes, path, asked] of cases) {
    const answer = await ask(gw, path, asked)
    if (passes) t.equal(answer.status, 200, `${path} ${JSON.stringify(asked)}`)
    else t.same(said(answer), UNKNOWN, `${path} ${JSON.stringify(asked)}`)
  }
  for (const path of [`/a/?x-key=${key}`, `/a/#X-Key=${key}`.replace('#', '?%23'), '/a/?X-Key=Bearer%20'])
    t.same(said(await ask(gw, path)), MISSING, path)
})

t.test('several Cookie lines are one', async t => {
  const gw = await gateway(t, { apis: [withScheme('a', 'svc://echo', { in: 'cookie', name: 'sid' }, {}, true)] })
  const key = await gw.key(rights('a'))
  const { status, json } = await ask(gw, '/a/', {
    headers: ['Host', 'x', 'Cookie', 'a=1', 'Cookie', `sid=${key}; b=2`]
  })
  t.equal(status, 200)
  t.same(json.headers.cookie, ['a=1', 'b=2'])
})

t.test('locations may be renamed or turned off', async t => {
  const gw = await gateway(t, {
    apis: [
      withScheme('renamed', 'svc://echo', { in: 'query', name: 'key' }, { header: { enabled: true, name: 'X-Other' } }),
      withScheme(
        'moved',
        'svc://echo',
        { in: 'header', name: 'Authorization' },
        {
          header: { enabled: false },
          cookie: { enabled: true, name: 'sid' }
        }
      )
    ]
  })
  const key = await gw.key(rights('renamed', 'moved'))
  t.equal((await ask(gw, `/renamed/?key=${key}`)).status, 200)
  t.equal((await ask(gw, '/renamed/', { headers: { 'X-Other': key } })).status, 200)
  t.same(said(await ask(gw, '/renamed/', { headers: { Authorization: key } })), MISSING)
  t.same(said(await ask(gw, '/moved/', { headers: { Authorization: key } })), MISSING)
  t.equal((await ask(gw, '/moved/', { headers: { Cookie: `sid=${key}` } })).status, 200)
})

t.test('several schemes: each names a place, and a disabled one none', async t => {
  const document: any = api('a', 'svc://echo', {
    server: {
      authentication: {
        enabled: true,
        securitySchemes: { one: { enabled: true }, two: { enabled: true }, three: { enabled: false } }
      }
    }
  })
  document.components.securitySchemes = {
    one: { type: 'apiKey', in: 'header', name: 'X-One' },
    two: { type: 'apiKey', in: 'query', name: 'two' },
    three: { type: 'apiKey', in: 'header', name: 'X-Three' }
  }
  const gw = await gateway(t, { apis: [document] })
  const key = await gw.key(rights('a'))
  t.equal((await ask(gw, '/a/', { headers: { 'X-One': key } })).status, 200)
  t.equal((await ask(gw, `/a/?two=${key}`)).status, 200)
  t.same(said(await ask(gw, '/a/', { headers: { 'X-Three': key } })), MISSING)
})

t.test('stripAuthorizationData takes the credential out of every place and leaves the rest as it was', async t => {
  const up = await upstream(t, tell)
  const scheme = { query: { enabled: true, name: 'key' }, cookie: { enabled: true, name: 'sid' } }
  const gw = await gateway(t, {
    apis: [
      withScheme('kept', up.url, { in: 'header', name: 'X-Key' }, scheme),
      withScheme('gone', up.url, { in: 'header', name: 'X-Key' }, scheme, true)
    ]
  })
  const key = await gw.key(rights('kept', 'gone'))
  const asked = { headers: { 'X-Key': ['first', key], Cookie: `a=1; sid=${key}; b="2;3"`, 'X-Keys': 'x' } }
  const path = `z=%2F&key=${key}&a=1&a=2&k%65y=again&keys=3&b`
  const kept = (await ask(gw, `/kept/x?${path}`, asked)).json
  t.equal(kept.url, `/x?${path}`)
  t.same(valuesOf(kept.headers, 'x-key'), ['first', key])
  t.same(valuesOf(kept.headers, 'cookie'), [asked.headers.Cookie])
  const gone = (await ask(gw, `/gone/x?${path}`, asked)).json
  t.equal(gone.url, '/x?z=%2F&a=1&a=2&keys=3&b')
  t.same(valuesOf(gone.headers, 'x-key'), [])
  t.same(valuesOf(gone.headers, 'x-keys'), ['x'])
  t.same(valuesOf(gone.headers, 'cookie'), ['a=1; b="2;3"'])
  const alone = (await ask(gw, `/gone/x?key=${key}`)).json
  t.equal(alone.url, '/x')
  t.same(valuesOf((await ask(gw, '/gone/', { headers: { Cookie: `sid=${key}` } })).json.headers, 'cookie'), [])
})

t.test('an operation that ignores authentication passes without a key, the others of the API do not', async t => {
  const gw = await gateway(t, {
    apis: [
      api(
        'a',
        'svc://echo',
        { server: withKey, middleware: { operations: { open: { ignoreAuthentication: { enabled: true } } } } },
        { '/open/{id}': { get: { operationId: 'open' }, post: { operationId: 'shut' } } }
      )
    ]
  })
  t.equal((await ask(gw, '/a/open/7')).status, 200)
  t.equal((await ask(gw, '/a/open/7', { headers: { Authorization: 'whoever' } })).status, 200)
  for (const path of ['/a/open', '/a/open/7/x', '/a/Open/7', '/a/', '/a/open/7/../../x', '/a/shut/..;/open/7/x'])
    t.same(said(await ask(gw, path)), MISSING, path)
  t.same(said(await ask(gw, '/a/open/7', { method: 'POST' })), MISSING)
  t.same(said(await ask(gw, '/a/open/7', { method: 'HEAD' })), [401, ''])
})

t.test('min_token_length is counted behind Bearer', async t => {
  const gw = await gateway(t, {
    settings: { gateway: { min_token_length: 8 } },
    apis: [api('a', 'svc://echo', { server: withKey })]
  })
  t.equal((await gw.svc('POST', '/svc/keys/exactly8', rights('a'))).status, 200)
  t.equal((await ask(gw, '/a/', { headers: { Authorization: 'Bearer exactly8' } })).status, 200)
  t.same(said(await ask(gw, '/a/', { headers: { Authorization: 'Bearer short' } })), UNKNOWN)
})

t.test('stripping a credential adds nothing to a request without a query', async t => {
  const up = await upstream(t, (req, res) => res.end(req.url))
  const server = {
    authentication: {
      enabled: true,
      stripAuthorizationData: true,
      securitySchemes: { key: { enabled: true, query: { enabled: true, name: 'k' } } }
    }
  }
  const gw = await gateway(t, { apis: [api('a', up.url, { server })] })
  const key = await gw.key(rights('a'))
  t.equal(await (await gw.get('/a/x', { Authorization: key })).text(), '/x')
  t.equal(await (await gw.get(`/a/x?b=1&k=${key}&c`)).text(), '/x?b=1&c')
})
