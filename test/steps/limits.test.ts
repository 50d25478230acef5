import t, { type Test } from 'tap'
import { type HandClock, handClock } from '../helpers/clock.ts'
import { api, gateway, rights, type TestGateway, withKey } from '../helpers/gateway.ts'
import { upstream } from '../helpers/upstream.ts'
import { type Answered, ask, eventsOf } from './ask.ts'

const KEY_RATE = '{"error":"Rate Limit Exceeded"}'
const API_RATE = '{"error":"API Rate Limit Exceeded"}'
const said = ({ status, text }: Answered) => (status === 200 ? 200 : `${status} ${text}`)
const limitsOf = ({ headers }: Answered) => ['limit', 'remaining', 'reset'].map(name => headers[`x-ratelimit-${name}`])

async function keyed(t: Test, given: { settings?: object; extension?: any; paths?: object; clock?: HandClock } = {}) {
  const { settings = {}, extension = {}, paths = {}, clock = handClock() } = given
  const gw = await gateway(t, {
    clock,
    settings: { gateway: settings },
    apis: [
      api('a', 'svc://echo', { ...extension, server: withKey }, paths),
      api('b', 'svc://echo', { server: withKey })
    ]
  })
  const get = (key: string, path = '/a/x', more: { method?: string; headers?: Record<string, string> } = {}) =>
    ask(gw, path, { ...more, headers: { Authorization: key, ...more.headers } })
  return { gw, clock, get }
}

async function times(count: number, run: () => Promise<Answered>) {
  const all: (number | string)[] = []
  for (let i = 0; i < count; i++) all.push(said(await run()))
  return all
}

t.test('bucket: the whole rate again when more than per has passed since the first request (§12.5)', async t => {
  const { clock, get, gw } = await keyed(t)
  const key = await gw.key({ ...rights('a'), rate: 3, per: 10 })
  for (const _ of [0, 1, 2]) {
    t.equal((await get(key)).status, 200)
    clock.jump(1000)
  }
  const refused = await get(key)
  t.equal(said(refused), `429 ${KEY_RATE}`)
  t.equal(refused.headers['retry-after'], '7')
  t.equal(refused.headers['x-svc-error'], 'rate_exceeded')
  t.same(limitsOf(refused), [undefined, undefined, undefined])
  clock.jump(7000)
  t.equal((await get(key)).status, 429)
  clock.jump(1)
  t.same(await times(4, () => get(key)), [200, 200, 200, `429 ${KEY_RATE}`])
  t.match(eventsOf(gw)[0], { event: 'RatelimitExceeded', message: 'Rate Limit Exceeded', api_id: 'a', path: '/a/x' })
})

t.test('fixed window: windows lie on multiples of per', async t => {
  const { clock, get, gw } = await keyed(t, { settings: { rate_limiter: 'fixed_window' } })
  const key = await gw.key({ ...rights('a'), rate: 3, per: 10 })
  clock.jump(9000)
  t.same(await times(3, () => get(key)), [200, 200, 200])
  const refused = await get(key)
  t.equal(refused.headers['retry-after'], '1')
  clock.jump(1000)
  t.same(await times(4, () => get(key)), [200, 200, 200, `429 ${KEY_RATE}`])
})

t.test('sliding log: any span of per holds at most the rate; refused requests count only when told so', async t => {
  for (const counts of [false, true]) {
    const { clock, get, gw } = await keyed(t, {
      settings: { rate_limiter: 'sliding_log', sliding_log_counts_refused: counts }
    })
    const key = await gw.key({ ...rights('a'), rate: 3, per: 10 })
    const seen: number[] = []
    for (let second = 0; second <= 14; second++) {
      seen.push((await get(key)).status)
      clock.jump(1000)
    }
    const open = [200, 200, 200]
    const shut = [429, 429, 429, 429, 429, 429, 429]
    t.same(seen, counts ? [...open, ...shut, 429, 429, 429, 429, 429] : [...open, ...shut, ...open, 429, 429])
  }
})

t.test('a key that waits for Retry-After passes then, in every algorithm', async t => {
  for (const rate_limiter of ['bucket', 'fixed_window', 'sliding_log']) {
    const { clock, get, gw } = await keyed(t, { settings: { rate_limiter } })
    for (const offset of [0, 1, 499, 999]) {
      const key = await gw.key({ ...rights('a'), rate: 1, per: 7 })
      await get(key)
      clock.jump(offset)
      const refused = await get(key)
      if (refused.status === 200) continue
      // The way to the gateway takes a moment.
      clock.jump(Number(refused.headers['retry-after']) * 1000 + 1)
      t.equal((await get(key)).status, 200, `${rate_limiter} ${offset}`)
    }
  }
})

t.test('levels of the key: a right with limits of its own, an endpoint of it, and the key elsewhere', async t => {
  const { get, gw } = await keyed(t)
  const key = await gw.key({
    rate: 2,
    per: 60,
    access_rights: {
      a: {
        api_id: 'a',
        limit: { rate: 3, per: 60 },
        allowance_scope: 'a',
        endpoints: [
          { path: '/items/{id}', methods: [{ name: 'GET', limit: { rate: 1, per: 60 } }] },
          { path: '/items/free', methods: [{ name: 'get', limit: { rate: 0, per: 0 } }] }
        ]
      },
      b: { api_id: 'b' }
    }
  })
  t.same(await times(2, () => get(key, '/a/items/1')), [200, `429 ${KEY_RATE}`], 'the endpoint, instead of the right')
  t.equal(said(await get(key, '/a//items/%32')), `429 ${KEY_RATE}`, 'one counter for the endpoint')
  t.same(await times(5, () => get(key, '/a/items/free')), [200, 200, 200, 200, 200], 'unlimited')
  t.same(await times(2, () => get(key, '/a/items/1', { method: 'POST' })), [200, 200])
  t.same(await times(2, () => get(key, '/a/x')), [200, `429 ${KEY_RATE}`], 'the right counts all else')
  t.same(await times(3, () => get(key, '/b/x')), [200, 200, `429 ${KEY_RATE}`], 'the key elsewhere')
})

t.test('one key on several APIs without limits of their own is one counter', async t => {
  const { get, gw } = await keyed(t)
  const key = await gw.key({ ...rights('a', 'b'), rate: 2, per: 60 })
  t.same(
    [said(await get(key, '/a/')), said(await get(key, '/b/')), said(await get(key, '/a/'))],
    [200, 200, `429 ${KEY_RATE}`]
  )
})

t.test('levels of the API: the whole, and an operation instead; over all keys, behind the key', async t => {
  const { get, gw } = await keyed(t, {
    extension: {
      upstream: { rateLimit: { enabled: true, rate: 3, per: '1m' } },
      middleware: { operations: { own: { rateLimit: { enabled: true, rate: 1, per: '1m' } } } }
    },
    paths: { '/own/{id}': { get: { operationId: 'own' }, post: { operationId: 'other' } } }
  })
  const one = await gw.key({ ...rights('a'), rate: 3, per: 60 })
  const two = await gw.key({ ...rights('a'), rate: 100, per: 60 })
  t.same(await times(2, () => get(two, '/a/own/1')), [200, `429 ${API_RATE}`])
  t.equal(said(await get(one, '/a/own/2')), `429 ${API_RATE}`, 'one counter over keys and parameters')
  t.equal(said(await get(one, '/a/own/2', { method: 'POST' })), 200, 'the first of three of the whole API')
  t.equal(said(await get(one)), 200)
  t.equal(said(await get(one)), `429 ${KEY_RATE}`, 'the key is asked first; its three are used up')
  t.same(await times(2, () => get(two)), [200, `429 ${API_RATE}`], 'the API holds over all keys')
  const [event] = eventsOf(gw)
  t.match(event, { event: 'RatelimitExceeded', message: 'API Rate Limit Exceeded', api_id: 'a' })
  const refused = await get(two)
  t.equal(refused.headers['retry-after'], '60')
  t.equal(refused.headers['x-svc-error'], 'api_rate_exceeded')
})

t.test('a keyless API has its own limits, and so has an operation that ignores authentication', async t => {
  const clock = handClock()
  const limited = { rateLimit: { enabled: true, rate: 2, per: '10s' } }
  const gw = await gateway(t, {
    clock,
    settings: { gateway: { rate_limit_response_headers: 'rate_limits' } },
    apis: [
      api('open', 'svc://echo', { upstream: limited }),
      api(
        'part',
        'svc://echo',
        {
          server: withKey,
          upstream: limited,
          middleware: { operations: { free: { ignoreAuthentication: { enabled: true } } } }
        },
        { '/free': { get: { operationId: 'free' } } }
      )
    ]
  })
  for (const path of ['/open/', '/part/free']) {
    const seen = [await ask(gw, path), await ask(gw, path), await ask(gw, path)]
    t.same(seen.map(said), [200, 200, `429 ${API_RATE}`], path)
    const reset = String(clock.now() / 1000 + 10)
    t.same(
      seen.map(limitsOf),
      [
        ['2', '1', reset],
        ['2', '0', reset],
        ['2', '0', reset]
      ],
      path
    )
  }
  t.equal(eventsOf(gw).length, 2)
  t.equal(eventsOf(gw)[0]?.key, '')
})

t.test(
  'quota: refused at its end with 403, counted on, renewed from the first request of a period (§12.7)',
  async t => {
    const { clock, get, gw } = await keyed(t)
    const key = await gw.key({ ...rights('a'), quota_max: 2, quota_renewal_rate: 60 })
    const renews = String(clock.now() / 1000 + 60)
    const first = await get(key)
    t.same([said(first), limitsOf(first)], [200, ['2', '1', renews]])
    clock.jump(5000)
    const second = await get(key)
    t.same([said(second), limitsOf(second)], [200, ['2', '0', renews]])
    clock.jump(1000)
    const over = await get(key)
    t.equal(said(over), '403 {"error":"Quota exceeded"}')
    t.same(limitsOf(over), [undefined, undefined, undefined])
    t.equal(over.headers['retry-after'], undefined)
    t.match(eventsOf(gw), [{ event: 'QuotaExceeded', message: 'Key Quota Limit Exceeded', api_id: 'a', path: '/a/x' }])
    t.equal((await gw.svc('GET', `/svc/keys/${key}`)).body.quota_remaining, 0)
    clock.jump(4000)
    const changed = { ...rights('a'), quota_max: 5, quota_renewal_rate: 60 }
    t.equal((await gw.svc('PUT', `/svc/keys/${key}?suppress_reset=1`, changed)).status, 200)
    t.equal((await gw.svc('GET', `/svc/keys/${key}`)).body.quota_remaining, 2)
    t.same(await times(3, () => get(key)), [200, 200, '403 {"error":"Quota exceeded"}'])
    clock.jump(49_999)
    t.equal((await get(key)).status, 403)
    clock.jump(1)
    t.same(limitsOf(await get(key)), ['5', '4', String(clock.now() / 1000 + 60)])
  }
)

t.test('the rate is asked before the quota, which a rate-limited request does not use', async t => {
  const { clock, get, gw } = await keyed(t)
  const key = await gw.key({ ...rights('a'), rate: 1, per: 10, quota_max: 2, quota_renewal_rate: -1 })
  t.same(await times(4, () => get(key)), [200, `429 ${KEY_RATE}`, `429 ${KEY_RATE}`, `429 ${KEY_RATE}`])
  clock.jump(10_001)
  const second = await get(key)
  t.same(limitsOf(second), ['2', '0', '0'], 'it never renews')
  clock.jump(10_001)
  t.equal(said(await get(key)), '403 {"error":"Quota exceeded"}')
  clock.jump(365 * 24 * 3600_000)
  t.equal(said(await get(key)), '403 {"error":"Quota exceeded"}')
})

t.test('quotas unlimited or absent, and keyless APIs, show zeros; refusals show nothing', async t => {
  const clock = handClock()
  const gw = await gateway(t, {
    clock,
    apis: [api('a', 'svc://echo', { server: withKey }), api('open', 'svc://echo')]
  })
  t.same(limitsOf(await ask(gw, '/open/')), ['0', '0', '0'])
  const key = await gw.key({ ...rights('a'), rate: 5, per: 10 })
  t.same(limitsOf(await ask(gw, '/a/', { headers: { Authorization: key } })), ['0', '0', '0'])
  t.same(limitsOf(await ask(gw, '/a/')), [undefined, undefined, undefined])
  t.same(limitsOf(await ask(gw, '/none')), [undefined, undefined, undefined])
})

t.test('mode rate_limits: the rate of the key on refusals too, instead of headers of the upstream', async t => {
  const up = await upstream(t, (_req, res) => {
    res.setHeader('x-ratelimit-limit', 'its own')
    res.setHeader('X-RateLimit-Used', 'its own')
    res.end('x')
  })
  const clock = handClock()
  const gw = await gateway(t, {
    clock,
    settings: { gateway: { rate_limit_response_headers: 'rate_limits' } },
    apis: [
      api('a', up.url, { server: withKey, upstream: { rateLimit: { enabled: true, rate: 100, per: '1m' } } }),
      api('open', up.url)
    ]
  })
  const as = (key: string) => ({ headers: { Authorization: key } })
  const key = await gw.key({ ...rights('a'), rate: 3, per: 10, quota_max: 4, quota_renewal_rate: 60 })
  const reset = String(clock.now() / 1000 + 10)
  for (const left of ['2', '1', '0', '0']) t.same(limitsOf(await ask(gw, '/a/', as(key))), ['3', left, reset])
  clock.jump(10_001)
  await ask(gw, '/a/', as(key))
  const over = await ask(gw, '/a/', as(key))
  t.equal(over.status, 403)
  t.same(limitsOf(over), ['3', '1', String(Math.ceil((clock.now() + 10_000) / 1000))])
  const free = await gw.key(rights('a'))
  t.same(limitsOf(await ask(gw, '/a/', as(free))).slice(0, 2), ['100', '95'], 'the API, where the key has no rate')
  t.same(limitsOf(await ask(gw, '/open/'))[0], 'its own')
  t.equal((await ask(gw, '/a/', as(free))).headers['x-ratelimit-used'], 'its own')
})

t.test('the IETF pair tells all limits, on refusals too', async t => {
  const { clock, get, gw } = await keyed(t, {
    settings: { rate_limit_ietf_headers: true },
    extension: { upstream: { rateLimit: { enabled: true, rate: 9, per: '1m' } } }
  })
  const key = await gw.key({ ...rights('a'), rate: 2, per: 10, quota_max: 5, quota_renewal_rate: 3600 })
  const pair = ({ headers }: Answered) => [headers['ratelimit-policy'], headers.ratelimit]
  t.same(pair(await get(key)), [
    '"key";q=2;w=10, "quota";q=5;w=3600, "api";q=9;w=60',
    '"key";r=1;t=10, "quota";r=4;t=3600, "api";r=8;t=60'
  ])
  clock.jump(2500)
  await get(key)
  t.same(pair(await get(key)), ['"key";q=2;w=10', '"key";r=0;t=8'])
  t.same(pair(await ask(gw, '/a/')), [undefined, undefined])
})

t.test('svc/rate-limits/ tells how the key stands and is not counted', async t => {
  const { clock, get, gw } = await keyed(t)
  const key = await gw.key({ ...rights('a'), rate: 2, per: 10, quota_max: 5, quota_renewal_rate: 60 })
  await get(key)
  for (const path of ['/a/svc/rate-limits/', '/a/svc/rate-limits', '/a/svc/rate-limits/?x', '/a//svc/rate-limits/']) {
    const page = await get(key, path)
    t.equal(page.status, 200)
    t.same(page.json, {
      quota: { quota_max: 5, quota_remaining: 4, quota_renews: clock.now() / 1000 + 60 },
      rate_limit: { requests: 2, per_unit: 10 }
    })
    t.equal(page.headers['content-type'], 'application/json')
    t.same(limitsOf(page), [undefined, undefined, undefined])
  }
  t.same(await times(2, () => get(key)), [200, `429 ${KEY_RATE}`])
  t.equal((await get(key, '/a/svc/rate-limits/')).json.quota.quota_remaining, 3)
  t.equal((await get('nobody', '/a/svc/rate-limits/')).status, 403)
  t.equal((await ask(gw, '/a/svc/rate-limits/')).status, 401)
  const free = await gw.key(rights('a'))
  t.same((await get(free, '/a/svc/rate-limits/')).json, {
    quota: { quota_max: 0, quota_remaining: 0, quota_renews: 0 },
    rate_limit: { requests: 0, per_unit: 0 }
  })
})

t.test("svc/rate-limits/ is the gateway's only on APIs with keys", async t => {
  const gw = await gateway(t, { apis: [api('open', 'svc://echo')] })
  t.equal((await ask(gw, '/open/svc/rate-limits/')).json.path, '/svc/rate-limits/')
})

t.test('rate_limit_pattern: rate and quota are counted under what it gives; empty: under the key', async t => {
  const { get, gw } = await keyed(t)
  const meta_data = { team: 'blue', rate_limit_pattern: '$svc_meta.team|$svc_context.headers_X_Id' }
  const key = await gw.key({ ...rights('a'), rate: 2, per: 60, meta_data })
  const mate = await gw.key({ ...rights('a'), rate: 2, per: 60, meta_data })
  const as = (id: string) => ({ headers: { 'X-Id': id } })
  t.same(await times(3, () => get(key, '/a/', as('1'))), [200, 200, `429 ${KEY_RATE}`])
  t.equal(said(await get(mate, '/a/', as('1'))), `429 ${KEY_RATE}`, 'the same counter for another key')
  t.equal(said(await get(key, '/a/', as('2'))), 200)
  const alone = { rate_limit_pattern: '$svc_context.headers_X_Id' }
  const third = await gw.key({ ...rights('a'), quota_max: 1, quota_renewal_rate: 60, meta_data: alone })
  t.same(await times(2, () => get(third, '/a/', as('3'))), [200, '403 {"error":"Quota exceeded"}'])
  t.same(await times(2, () => get(third, '/a/')), [200, '403 {"error":"Quota exceeded"}'])
})

t.test('skipRateLimit and skipQuota turn off limits of keys, not of the API', async t => {
  const limited = { rateLimit: { enabled: true, rate: 4, per: '1m' } }
  const gw = await gateway(t, {
    apis: ['skipRateLimit', 'skipQuota'].map(skip =>
      api(skip, 'svc://echo', { server: withKey, upstream: limited, middleware: { global: { [skip]: true } } })
    )
  })
  const given = { rate: 2, per: 60, quota_max: 3, quota_renewal_rate: 60 }
  const noRate = await gw.key({ ...rights('skipRateLimit'), ...given })
  const noQuota = await gw.key({ ...rights('skipQuota'), ...given, rate: 100 })
  const as = (Authorization: string) => ({ headers: { Authorization } })
  t.same(await times(4, () => ask(gw, '/skipRateLimit/', as(noRate))), [
    200,
    200,
    200,
    '403 {"error":"Quota exceeded"}'
  ])
  t.same(await times(5, () => ask(gw, '/skipQuota/', as(noQuota))), [200, 200, 200, 200, `429 ${API_RATE}`])
})

t.test('a key that is written again begins its quota anew, unless the API says skipQuotaReset', async t => {
  const gw = await gateway(t, {
    apis: [
      api('resets', 'svc://echo', { server: withKey }),
      api('keeps', 'svc://echo', { server: withKey, middleware: { global: { skipQuotaReset: true } } })
    ]
  })
  const cases: [id: string, after: number][] = [
    ['resets', 200],
    ['keeps', 403]
  ]
  for (const [id, after] of cases) {
    const given = { ...rights(id), quota_max: 1, quota_renewal_rate: 3600 }
    const key = await gw.key(given)
    const status = async () => (await ask(gw, `/${id}/`, { headers: { Authorization: key } })).status
    t.same([await status(), await status()], [200, 403], id)
    t.equal((await gw.svc('PUT', `/svc/keys/${key}`, given)).status, 200)
    t.equal(await status(), after, id)
  }
})

t.test('a policy that is changed limits the next request', async t => {
  const { get, gw } = await keyed(t)
  const policy = (more: object): [string, string, object] => [
    'PUT',
    '/svc/policies/p',
    { id: 'p', ...rights('a'), ...more }
  ]
  const put = async (gw: TestGateway, more: object) => t.equal((await gw.svc(...policy(more))).status, 200)
  t.equal((await gw.svc('POST', '/svc/policies', { id: 'p', ...rights('a'), rate: 1, per: 60 })).status, 200)
  const key = await gw.key({ apply_policies: ['p'] })
  t.same(await times(2, () => get(key)), [200, `429 ${KEY_RATE}`])
  await put(gw, { rate: 3, per: 60 })
  t.same(await times(3, () => get(key)), [200, 200, `429 ${KEY_RATE}`], 'what was counted stays')
  await put(gw, { quota_max: 1, quota_renewal_rate: 60 })
  t.same(await times(2, () => get(key)), [200, '403 {"error":"Quota exceeded"}'])
})
