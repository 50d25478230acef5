import t from 'tap'
import { api, gateway, rights, type TestGateway } from '../helpers/gateway.ts'
import { soon } from '../helpers/soon.ts'
import { rawUpstream, upstream } from '../helpers/upstream.ts'
import { ask, eventsOf } from '../steps/ask.ts'
import { introspectedApi, introspecting, md5, policy } from './withTokens.ts'

const now = () => Math.floor(Date.now() / 1000)
const bearer = (token: string) => ({ headers: { Authorization: `Bearer ${token}` } })
const POLICIES = { defaultPolicies: ['gold'] }
const CACHED = { cache: { enabled: true, timeout: 60 } }

const INVALID = [401, '{"error":"access token is not valid"}']
const FAILED = [500, '{"error":"error happened during the access token validation"}']

async function said(gw: TestGateway, path: string, token: string) {
  const { status, text } = await ask(gw, path, bearer(token))
  return status === 200 ? [status] : [status, text]
}

t.test('who is told active gets in; what is answered otherwise', async t => {
  const answers: Record<string, unknown> = {
    good: { active: true, sub: 'ada', exp: now() + 60, nbf: now() - 1 },
    plain: { active: true, sub: 'ada' },
    number: { active: true, sub: 17 },
    inactive: { active: false },
    'inactive, with a name': { active: false, sub: 'ada' },
    expired: { active: true, sub: 'ada', exp: now() - 1 },
    early: { active: true, sub: 'ada', nbf: now() + 60 },
    'odd exp': { active: true, sub: 'ada', exp: 'tomorrow' },
    'null nbf': { active: true, sub: 'ada', nbf: null },
    nobody: { active: true },
    'empty name': { active: true, sub: '' },
    'a list': { active: true, sub: ['ada'] },
    'a text for active': { active: 'true', sub: 'ada' },
    'no active': { sub: 'ada' },
    'a list for an answer': [],
    nothing: null
  }
  const server = introspecting(token => answers[token])
  const up = await upstream(t, server.answer)
  const gw = await gateway(t, { apis: [introspectedApi('a', `${up.url}/introspect?tenant=1`, {}, POLICIES)] })
  await policy(gw, 'gold', ['a'])
  const rows: [token: string, outcome: unknown[]][] = [
    ['good', [200]],
    ['plain', [200]],
    ['number', [200]],
    ['inactive', INVALID],
    ['inactive, with a name', INVALID],
    ['expired', INVALID],
    ['early', INVALID],
    ['odd exp', INVALID],
    ['null nbf', INVALID],
    ['nobody', INVALID],
    ['empty name', INVALID],
    ['a list', INVALID],
    ['a text for active', FAILED],
    ['no active', FAILED],
    ['a list for an answer', FAILED],
    ['nothing', FAILED]
  ]
  for (const [token, outcome] of rows) t.same(await said(gw, '/a/', token), outcome, token)
  t.same(
    [...server.asked[0]!],
    [
      ['token', 'good'],
      ['client_id', 'gateway'],
      ['client_secret', 'hush-hush']
    ]
  )
  const { method, url, headers } = up.requests[0]!
  t.match(
    { method, url, headers },
    {
      method: 'POST',
      url: '/introspect?tenant=1',
      headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' }
    }
  )
  const refused = await ask(gw, '/a/', bearer('inactive'))
  t.equal(refused.headers['www-authenticate'], 'Bearer error="invalid_token"')
  t.ok(eventsOf(gw, 'AuthFailure').length > 0)
  t.notMatch(JSON.stringify(gw.log.lines), /hush-hush|inactive, with/, 'no secret and no token in the log')
  t.match(
    gw.log.lines.filter(({ msg }) => msg === 'access tokens cannot be validated'),
    [{ reason: 'it does not answer whether a token is active' }],
    'told once'
  )
})

t.test('missing is 400, or 401 where metadata tells where tokens come from', async t => {
  const told = { authentication: { protectedResourceMetadata: { enabled: true } } }
  const gw = await gateway(t, {
    apis: [
      introspectedApi('a', 'http://127.0.0.1:1/', {}, POLICIES),
      introspectedApi('b', 'http://127.0.0.1:1/', {}, POLICIES, told)
    ]
  })
  for (const headers of [{}, { Authorization: '' }, { Authorization: '   ' }] as Record<string, string>[]) {
    const { status, text, headers: got } = await ask(gw, '/a/', { headers })
    t.same([status, text], [400, '{"error":"authorization field missing"}'])
    t.equal(got['www-authenticate'], undefined)
  }
  const { status, text, headers } = await ask(gw, '/b/')
  t.same([status, text], [401, '{"error":"authorization field missing"}'])
  t.match(
    headers['www-authenticate'],
    /^Bearer resource_metadata="http:\/\/127\.0\.0\.1:\d+\/b\/\.well-known\/oauth-protected-resource"$/
  )
})

t.test('whatever keeps an answer away is 500', async t => {
  const status = (code: number, text = '{"active":true,"sub":"ada"}') =>
    upstream(t, (_req, res) => void res.writeHead(code, { Location: 'http://127.0.0.1:1/' }).end(text))
  const garbage = await rawUpstream(t, socket => socket.end('nonsense\r\n\r\n'))
  const reset = await rawUpstream(t, socket => socket.resetAndDestroy())
  const places: [what: string, url: string][] = [
    ['500', (await status(500)).url],
    ['204', (await status(204)).url],
    ['a redirect', (await status(302)).url],
    ['401', (await status(401)).url],
    ['no JSON', (await status(200, 'active')).url],
    ['too much', (await status(200, JSON.stringify({ active: true, sub: 'ada', more: 'x'.repeat(300_000) }))).url],
    ['nonsense', garbage.url],
    ['a reset', reset.url],
    ['nobody there', 'http://127.0.0.1:1/'],
    ['a name that nobody has', 'http://nowhere.invalid/']
  ]
  const gw = await gateway(t, { apis: places.map(([, url], n) => introspectedApi(`a${n}`, url, {}, POLICIES)) })
  for (const [n, [what]] of places.entries()) t.same(await said(gw, `/a${n}/`, 'token'), FAILED, what)
  t.match(
    gw.log.lines
      .filter(({ level }) => level === 'warn')
      .map(({ reason }) => reason)
      .slice(0, 6),
    [
      'it answers 500',
      'it answers 204',
      'it answers 302',
      'it answers 401',
      'it answers no JSON',
      'it answers more than 262144 bytes'
    ]
  )
})

t.test('answers are remembered as long as the token lasts, refusals briefly, failures not', async t => {
  const active = new Map<string, unknown>([['short', { active: true, sub: 'ada', exp: now() + 1 }]])
  const server = introspecting(token => active.get(token) ?? { active: token.startsWith('good'), sub: 'ada' })
  const up = await upstream(t, server.answer)
  let away = true
  const flaky = await upstream(t, (req, res) => (away ? void res.writeHead(500).end() : server.answer(req, res)))
  const gw = await gateway(t, {
    apis: [
      introspectedApi('a', up.url, CACHED, POLICIES),
      introspectedApi('b', up.url, {}, POLICIES),
      introspectedApi('c', flaky.url, CACHED, POLICIES)
    ]
  })
  await policy(gw, 'gold', ['a', 'b', 'c'])
  const times = (token: string) => server.asked.filter(form => form.get('token') === token).length
  for (let n = 0; n < 3; n++) t.same(await said(gw, '/a/', 'good'), [200])
  t.equal(times('good'), 1)
  for (let n = 0; n < 3; n++) t.same(await said(gw, '/b/', 'good'), [200])
  t.equal(times('good'), 4, 'without a cache each request asks')
  for (let n = 0; n < 3; n++) t.same(await said(gw, '/a/', 'bad'), INVALID)
  t.equal(times('bad'), 1)
  t.same(await said(gw, '/a/', 'short'), [200])
  await soon(t, 'nothing is remembered beyond its end', 401, () => ask(gw, '/a/', bearer('short')))
  t.same(await said(gw, '/c/', 'good too'), FAILED)
  away = false
  t.same(await said(gw, '/c/', 'good too'), [200])
})

t.test('one token that comes many times at once is asked about once', async t => {
  const waiting: (() => void)[] = []
  const server = introspecting(() => ({ active: true, sub: 'ada' }))
  const up = await upstream(t, (req, res) => void waiting.push(() => server.answer(req, res)))
  const gw = await gateway(t, { apis: [introspectedApi('a', up.url, CACHED, POLICIES)] })
  await policy(gw, 'gold', ['a'])
  const calls = Array.from({ length: 20 }, () => said(gw, '/a/', 'token'))
  await soon(t, 'it is asked', 200, async () => ({ status: waiting.length === 1 ? 200 : 0 }))
  waiting[0]!()
  for (const answer of await Promise.all(calls)) t.same(answer, [200])
  t.equal(server.asked.length, 1)
})

t.test('whose session: defaults, a key that somebody made, or nobody’s', async t => {
  const server = introspecting(token => ({ active: true, sub: token, client_id: 'app', user: { name: token } }))
  const up = await upstream(t, server.answer)
  const gw = await gateway(t, {
    apis: [
      introspectedApi('a', up.url, CACHED, POLICIES),
      introspectedApi('none', up.url, { ...CACHED, identityBaseField: 'user.name' }),
      introspectedApi('wrong', up.url, CACHED, { defaultPolicies: ['nowhere'] }),
      api('open', 'svc://echo')
    ]
  })
  await policy(gw, 'gold', ['a'])
  t.same(await said(gw, '/a/', 'ada'), [200])
  const NONE = [403, '{"error":"key not authorized: no matching policy found"}']
  t.same(await said(gw, '/none/', 'bob'), NONE)
  t.same(await said(gw, '/wrong/', 'bob'), [403, '{"error":"key not authorized: no matching policy"}'])
  const made = await gw.svc('POST', `/svc/keys/${md5('eve')}`, rights('none'))
  t.equal(made.status, 200)
  t.same(await said(gw, '/none/', 'eve'), [200], 'a key that somebody made')
  t.same(
    await said(gw, '/a/', 'eve'),
    [403, '{"error":"Access to this API has been disallowed"}'],
    'keeps its own rights'
  )
})

t.test('the credential does not reach the upstream when it is stripped; variables know the answer', async t => {
  const server = introspecting(() => ({ active: true, sub: 'ada', scope: 'read', org: { unit: 'x' } }))
  const up = await upstream(t, server.answer)
  const values = ['$svc_context.jwt_claims_sub', '$svc_context.jwt_claims_org.unit', '$svc_context.token']
  const gw = await gateway(t, {
    apis: [
      introspectedApi(
        'a',
        up.url,
        CACHED,
        { ...POLICIES, query: { enabled: true, name: 'access_token' } },
        {
          authentication: { stripAuthorizationData: true },
          middleware: {
            global: {
              transformRequestHeaders: { enabled: true, add: values.map((value, n) => ({ name: `X-V${n}`, value })) }
            }
          }
        }
      )
    ]
  })
  await policy(gw, 'gold', ['a'])
  for (const [path, headers] of [
    ['/a/?x=1', { Authorization: 'Bearer the-token' }],
    ['/a/?x=1&access_token=the-token', {}]
  ] as [string, Record<string, string>][]) {
    const { status, json } = await ask(gw, path, { headers })
    t.equal(status, 200)
    t.match(json.headers, { 'x-v0': 'ada', 'x-v1': 'x', 'x-v2': 'the-token' })
    t.notOk(json.headers.authorization)
    t.notMatch(json.path, /access_token/)
  }
})
