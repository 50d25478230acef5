import t from 'tap'
import { handClock } from '../helpers/clock.ts'
import { api, gateway, rights, withKey } from '../helpers/gateway.ts'
import { type Answered, ask, eventsOf } from './ask.ts'

const said = ({ status, text }: Answered) => [status, text]
const CLOSED = [403, '{"error":"Access to this API has been disallowed"}']

t.test('an inactive key is 403, a key is 401 from the moment it expires; both are events', async t => {
  const clock = handClock()
  const gw = await gateway(t, { clock, apis: [api('a', 'svc://echo', { server: withKey })] })
  const now = clock.now() / 1000
  const inactive = await gw.key({ ...rights('a'), is_inactive: true })
  const headers = { Authorization: inactive }
  t.same(said(await ask(gw, '/a/x', { headers })), [403, '{"error":"Key is inactive, please renew"}'])
  const both = await gw.key({ ...rights('a'), is_inactive: true, expires: now - 1 })
  t.same(said(await ask(gw, '/a/x', { headers: { Authorization: both } })), [
    403,
    '{"error":"Key is inactive, please renew"}'
  ])
  for (const expires of [0, -1, -5, now + 1]) {
    const key = await gw.key({ ...rights('a'), expires })
    t.equal((await ask(gw, '/a/x', { headers: { Authorization: key } })).status, 200, `expires ${expires}`)
  }
  const key = await gw.key({ ...rights('a'), expires: now + 10 })
  clock.jump(9_999)
  t.equal((await ask(gw, '/a/x', { headers: { Authorization: key } })).status, 200)
  clock.jump(1)
  const expired = await ask(gw, '/a/x', { headers: { Authorization: key } })
  t.same(said(expired), [401, '{"error":"Key has expired, please renew"}'])
  t.equal(expired.headers['www-authenticate'], 'Bearer error="invalid_token"')
  t.match(
    eventsOf(gw).map(({ event, message, api_id, path }) => ({ event, message, api_id, path })),
    [
      { event: 'KeyExpired', message: 'Key is inactive, please renew', api_id: 'a', path: '/a/x' },
      { event: 'KeyExpired', message: 'Key is inactive, please renew' },
      { event: 'KeyExpired', message: 'Key has expired, please renew' }
    ]
  )
  t.notOk(JSON.stringify(eventsOf(gw)).includes(key))
})

t.test('a key opens the APIs that its rights name, and none of another organisation', async t => {
  const gw = await gateway(t, {
    apis: [
      api('a', 'svc://echo', { server: withKey }),
      api('b', 'svc://echo', { server: withKey }),
      api('other', 'svc://echo', { server: withKey, info: { orgId: 'o2' } })
    ]
  })
  const key = await gw.key(rights('a', 'other', 'unknown'))
  const theirs = await gw.key({ org_id: 'o2', ...rights('a', 'other') })
  const as = (Authorization: string) => ({ headers: { Authorization } })
  t.equal((await ask(gw, '/a/', as(key))).status, 200)
  t.same(said(await ask(gw, '/b/', as(key))), CLOSED)
  t.same(said(await ask(gw, '/other/', as(key))), CLOSED)
  t.equal((await ask(gw, '/other/', as(theirs))).status, 200)
  t.same(said(await ask(gw, '/a/', as(theirs))), CLOSED)
})

t.test('allowed_urls: method and whole path behind the listen path, in any spelling', async t => {
  const gw = await gateway(t, { apis: [api('a', 'svc://echo', { server: withKey })] })
  const key = await gw.key({
    access_rights: {
      a: {
        api_id: 'a',
        allowed_urls: [
          { url: '/items/{id}', methods: ['GET', 'delete'] },
          { url: '/all/*', methods: ['GET'] },
          { url: '^/v[12]/x$', methods: ['POST'] },
          { url: '/none', methods: [] }
        ]
      }
    }
  })
  const cases: [method: string, path: string, passes: boolean][] = [
    ['GET', '/a/items/7', true],
    ['DELETE', '/a/items/7', true],
    ['POST', '/a/items/7', false],
    ['HEAD', '/a/items/7', false],
    ['GET', '/a/items/7?x=/all/', true],
    ['GET', '/a//items/%37', true],
    ['GET', '/a/items', false],
    ['GET', '/a/items/', false],
    ['GET', '/a/items/7/x', false],
    ['GET', '/a/items/7/../../secret', false],
    ['GET', '/a/items/7%2F..%2F..%2Fsecret', false],
    ['GET', '/a/items/x%2Fy', false],
    ['GET', '/a/Items/7', false],
    ['GET', '/a/all/x/y', true],
    ['GET', '/a/all/../secret', false],
    ['GET', '/a/all/..;/secret', false],
    ['POST', '/a/v1/x', true],
    ['POST', '/a/v3/x', false],
    ['POST', '/a/x/v1/x', false],
    ['GET', '/a/none', false],
    ['GET', '/a/', false],
    ['GET', '/a', false]
  ]
  for (const [method, path, passes] of cases) {
    const answer = await ask(gw, path, { method, headers: { Authorization: key } })
    if (passes) t.equal(answer.status, 200, `${method} ${path}`)
    else
      t.same(
        said(answer),
        [403, method === 'HEAD' ? '' : '{"error":"Access to this resource has been disallowed"}'],
        `${method} ${path}`
      )
  }
})

for (const [matching, passing] of [
  ['prefix', ['/a/json', '/a/json/data', '/a/jsonish']],
  ['contains', ['/a/json', '/a/json/data', '/a/jsonish', '/a/api/v1/json']]
] as const)
  t.test(`allowed_urls with endpoint_matching ${matching}`, async t => {
    const gw = await gateway(t, {
      settings: { gateway: { endpoint_matching: matching } },
      apis: [api('a', 'svc://echo', { server: withKey })]
    })
    const key = await gw.key({
      access_rights: { a: { api_id: 'a', allowed_urls: [{ url: '/json', methods: ['GET'] }] } }
    })
    for (const path of ['/a/json', '/a/json/data', '/a/jsonish', '/a/api/v1/json', '/a/jso', '/a/'])
      t.equal(
        (await ask(gw, path, { headers: { Authorization: key } })).status,
        (passing as readonly string[]).includes(path) ? 200 : 403,
        path
      )
  })

t.test('a changed key or policy counts for the next request', async t => {
  const gw = await gateway(t, {
    apis: [api('a', 'svc://echo', { server: withKey }), api('b', 'svc://echo', { server: withKey })]
  })
  t.equal((await gw.svc('POST', '/svc/policies', { id: 'p', name: 'p', active: true, ...rights('a') })).status, 200)
  const key = await gw.key({ apply_policies: ['p'] })
  const status = async (path: string) => (await ask(gw, path, { headers: { Authorization: key } })).status
  t.same([await status('/a/'), await status('/b/')], [200, 403])
  const put = (body: object) => gw.svc('PUT', '/svc/policies/p', { id: 'p', name: 'p', active: true, ...body })
  t.equal((await put(rights('b'))).status, 200)
  t.same([await status('/a/'), await status('/b/')], [403, 200])
  t.equal((await put({ ...rights('a', 'b'), rate: 1, per: 60 })).status, 200)
  t.same([await status('/a/'), await status('/a/')], [200, 429])
  t.equal((await put({ ...rights('a', 'b'), is_inactive: true })).status, 200)
  t.equal(await status('/a/'), 403)
  t.equal((await put(rights('a', 'b'))).status, 200)
  t.equal(await status('/a/'), 200)
  t.equal((await gw.svc('PUT', `/svc/keys/${key}`, { apply_policies: ['p'], is_inactive: true })).status, 200)
  t.equal(await status('/a/'), 200, 'its policy is active (semantics §12.8)')
  t.equal((await gw.svc('DELETE', `/svc/keys/${key}`)).status, 200)
  t.equal(await status('/a/'), 403)
})

t.test('an API that ignores case does so for the rights of keys as well', async t => {
  const gw = await gateway(t, {
    apis: [
      api('a', 'svc://echo', { server: withKey, middleware: { global: { ignoreCase: { enabled: true } } } }),
      api('b', 'svc://echo', { server: withKey })
    ]
  })
  const right = (id: string) => ({
    api_id: id,
    versions: ['Default'],
    allowed_urls: [{ url: '/json', methods: ['GET'] }]
  })
  const key = await gw.key({ access_rights: { a: right('a'), b: right('b') } })
  t.equal((await gw.get('/a/JSON', { Authorization: key })).status, 200)
  t.equal((await gw.get('/b/JSON', { Authorization: key })).status, 403)
})
