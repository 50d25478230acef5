import t from 'tap'
import { api, gateway, rights, withKey } from '../helpers/gateway.ts'
import { upstream } from '../helpers/upstream.ts'
import { ask, tell, valuesOf } from './ask.ts'

const edits = (remove: string[], ...add: [name: string, value: string][]) => ({
  enabled: true,
  remove,
  add: add.map(([name, value]) => ({ name, value }))
})

t.test('request headers: API remove, API add, operation remove, operation add; add replaces', async t => {
  const up = await upstream(t, tell)
  const gw = await gateway(t, {
    apis: [
      api(
        'a',
        up.url,
        {
          middleware: {
            global: {
              transformRequestHeaders: edits(
                ['x-gone', 'X-BACK'],
                ['X-Set', 'api'],
                ['X-Back', 'again'],
                ['X-Api', '1'],
                ['x-twice', '2']
              )
            },
            operations: {
              own: { transformRequestHeaders: edits(['X-Api'], ['X-Set', 'operation'], ['X-Own', 'o']) },
              off: { transformRequestHeaders: { ...edits(['X-Api']), enabled: false } }
            }
          }
        },
        { '/own': { get: { operationId: 'own' } }, '/off': { get: { operationId: 'off' } } }
      )
    ]
  })
  const headers = {
    'X-Gone': 'x',
    'x-back': 'x',
    'X-SET': ['one', 'two'],
    'X-Kept': ['k1', 'k2'],
    'X-Twice': '1',
    'X-Own': 'client'
  }
  const api_ = (await ask(gw, '/a/x', { headers })).json.headers
  const own = (await ask(gw, '/a/own', { headers })).json.headers
  const off = (await ask(gw, '/a/off', { headers })).json.headers
  const cases: [name: string, api: string[], own: string[]][] = [
    ['x-gone', [], []],
    ['x-back', ['again'], ['again']],
    ['x-set', ['api'], ['operation']],
    ['x-api', ['1'], []],
    ['x-twice', ['2'], ['2']],
    ['x-own', ['client'], ['o']],
    ['x-kept', ['k1', 'k2'], ['k1', 'k2']]
  ]
  for (const [name, ofApi, ofOwn] of cases) {
    t.same(valuesOf(api_, name), ofApi, name)
    t.same(valuesOf(own, name), ofOwn, name)
    t.same(valuesOf(off, name), ofApi, name)
  }
})

t.test('response headers the same way; on answers of the upstream, not on refusals', async t => {
  const up = await upstream(t, (_req, res) => {
    res.setHeader('X-Gone', 'x')
    res.setHeader('X-Set', ['one', 'two'])
    res.setHeader('X-Kept', ['k1', 'k2'])
    res.setHeader('Server', 'secret/1.0')
    res.end('x')
  })
  const gw = await gateway(t, {
    apis: [
      api(
        'a',
        up.url,
        {
          server: withKey,
          middleware: {
            global: {
              transformResponseHeaders: edits(
                ['x-gone', 'server', 'X-RateLimit-Reset'],
                ['X-Set', 'api'],
                ['X-Api', '1']
              )
            },
            operations: { own: { transformResponseHeaders: edits(['X-Api'], ['X-Set', 'operation']) } }
          }
        },
        { '/own': { get: { operationId: 'own' } } }
      )
    ]
  })
  const key = await gw.key(rights('a'))
  const { raw } = await ask(gw, '/a/x', { headers: { Authorization: key } })
  const own = await ask(gw, '/a/own', { headers: { Authorization: key } })
  t.same(
    ['x-gone', 'server', 'x-set', 'x-api', 'x-kept', 'x-ratelimit-limit', 'x-ratelimit-reset'].map(name =>
      valuesOf(raw, name)
    ),
    [[], [], ['api'], ['1'], ['k1', 'k2'], ['0'], []]
  )
  t.same(
    ['x-set', 'x-api'].map(name => valuesOf(own.raw, name)),
    [['operation'], []]
  )
  const refused = await ask(gw, '/a/x')
  t.equal(refused.status, 401)
  t.same(
    ['x-set', 'x-api'].map(name => valuesOf(refused.raw, name)),
    [[], []]
  )
})

t.test(
  'values hold variables of the key and the request; what is absent is empty, and nothing breaks the head',
  async t => {
    const up = await upstream(t, tell)
    const gw = await gateway(t, {
      apis: [
        api('a', up.url, {
          server: withKey,
          middleware: {
            global: {
              transformRequestHeaders: edits(
                [],
                ['X-User', 'id=$svc_meta.user;$svc_meta.none;$svc_meta.number'],
                ['X-Where', '$svc_context.path from $svc_context.remote_addr'],
                ['X-Agent', '$svc_context.headers_User_Agent|$svc_context.headers_X_None|'],
                ['X-Host', '$svc_context.headers_Host'],
                ['X-Evil', '$svc_meta.evil'],
                ['X-Deep', '$svc_meta.deep'],
                ['X-Long', '$svc_meta.long'],
                ['X-Proto', '$svc_meta.constructor$svc_meta.__proto__'],
                ['X-Plain', 'costs $5, not $svc']
              )
            }
          }
        })
      ]
    })
    const meta_data = {
      user: 'alice',
      number: 7,
      evil: 'a\r\nX-Injected: 1\r\n\r\nb\u0000\u2028\u00e9',
      deep: { a: [1] },
      long: 'x'.repeat(20_000)
    }
    const key = await gw.key({ ...rights('a'), meta_data })
    const asked = { headers: { Authorization: key, 'User-Agent': 'tests', Host: 'here.example' } }
    const { headers } = (await ask(gw, '/a/b%20c?d', asked)).json
    const cases: [name: string, value: string][] = [
      ['x-user', 'id=alice;;7'],
      ['x-where', '/a/b%20c from 127.0.0.1'],
      ['x-agent', 'tests||'],
      ['x-host', 'here.example'],
      ['x-evil', 'aX-Injected: 1b\u00e9'],
      ['x-deep', '{"a":[1]}'],
      ['x-long', 'x'.repeat(8192)],
      ['x-proto', ''],
      ['x-plain', 'costs $5, not $svc']
    ]
    for (const [name, value] of cases) t.same(valuesOf(headers, name), [value], name)
    t.same(valuesOf(headers, 'x-injected'), [])
  }
)

t.test('without a key, variables of the key are empty', async t => {
  const up = await upstream(t, tell)
  const gw = await gateway(t, {
    apis: [
      api('a', up.url, {
        middleware: { global: { transformRequestHeaders: edits([], ['X-User', 'u$svc_meta.user']) } }
      })
    ]
  })
  t.same(valuesOf((await ask(gw, '/a/')).json.headers, 'x-user'), ['u'])
})

t.test('what frames a message or routes it cannot be edited: refused on save, with its place', async t => {
  const gw = await gateway(t)
  const path = '/x-svc-api-gateway/middleware/global'
  const request = [
    'Host',
    'Content-Length',
    'Transfer-Encoding',
    'Connection',
    'Keep-Alive',
    'TE',
    'Trailer',
    'Upgrade',
    'Proxy-Connection',
    'Expect'
  ]
  const response = ['content-length', 'transfer-encoding', 'connection', 'keep-alive', 'trailer', 'upgrade']
  for (const [member, names] of [
    ['transformRequestHeaders', request],
    ['transformResponseHeaders', response]
  ] as const)
    for (const name of names)
      for (const [edit, at] of [
        [edits([], [name, '7']), 'add/0/name'],
        [edits([name]), 'remove/0']
      ] as const) {
        const { status, body } = await gw.svc(
          'POST',
          '/svc/apis/oas',
          api('a', 'svc://echo', { middleware: { global: { [member]: edit } } })
        )
        t.equal(status, 400, `${member} ${name}`)
        t.match(JSON.stringify(body), `${path}/${member}/${at}`)
      }
  for (const [name, value] of [
    ['X-A', 'a\r\nb'],
    ['X-A', 'a\u0000'],
    ['X A', 'a'],
    ['X-A:', 'a'],
    ['', 'a'],
    ['X-A', '$svc_context.nothing'],
    ['X-A', '$svc_secret.x']
  ] as const) {
    const { status } = await gw.svc(
      'POST',
      '/svc/apis/oas',
      api('a', 'svc://echo', { middleware: { global: { transformRequestHeaders: edits([], [name, value]) } } })
    )
    t.equal(status, 400, JSON.stringify([name, value]))
  }
})

t.test('edits of bodies of any framing leave the framing whole', async t => {
  const up = await upstream(t, tell)
  const gw = await gateway(t, {
    apis: [
      api('a', up.url, {
        middleware: {
          global: {
            transformRequestHeaders: edits(
              ['Content-Type', 'Via', 'X-Forwarded-For'],
              ['Date', 'today'],
              ['Content-Encoding', 'odd']
            ),
            transformResponseHeaders: edits(['Content-Type', 'Date'], ['Content-Encoding', 'odd'], ['Via', 'us'])
          }
        }
      })
    ]
  })
  for (const [name, value] of [
    ['Content-Length', '3'],
    ['Transfer-Encoding', 'chunked']
  ] as const) {
    const { text, headers: answered } = await ask(gw, '/a/', {
      method: 'POST',
      body: 'abc',
      headers: { [name]: value, 'Content-Type': 'a/b' }
    })
    const got = JSON.parse(text)
    t.equal(got.body, 'abc')
    t.same(
      ['content-type', 'via', 'x-forwarded-for', 'date'].map(name => valuesOf(got.headers, name)),
      [[], [], [], ['today']]
    )
    t.same([answered['content-type'], answered.date, answered.via], [undefined, undefined, 'us'])
  }
})
