import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { handClock } from '../helpers/clock.ts'
import { api, gateway, rights, withKey } from '../helpers/gateway.ts'
import { upstream } from '../helpers/upstream.ts'
import { ask, eventsOf, tell } from './ask.ts'

async function throttled(t: Test, settings: object = {}, extension: object = {}) {
  const clock = handClock()
  const up = await upstream(t)
  const gw = await gateway(t, {
    clock,
    settings: { gateway: { rate_limit_response_headers: 'rate_limits', ...settings } },
    apis: [api('a', up.url, { server: withKey, ...extension })]
  })
  const start = clock.now()
  const get = (key: string, agent?: undefined) =>
    ask(gw, '/a/', { headers: { Authorization: key }, ...(agent ?? {}) }).then(answer => ({
      ...answer,
      at: (clock.now() - start) / 1000
    }))
  return { clock, up, gw, get }
}

const limited = { ...rights('a'), rate: 1, per: 10, throttle_interval: 4 }

for (const rate_limiter of ['bucket', 'fixed_window', 'sliding_log'])
  t.test(`${rate_limiter}: a held request asks again every interval and passes when it may (§12.6)`, async t => {
    const { clock, gw, get, up } = await throttled(t, { rate_limiter, sliding_log_counts_refused: true })
    // The window begins with the first request in each of them.
    const key = await gw.key({ ...limited, throttle_retry_limit: 3 })
    t.equal((await get(key)).status, 200)
    clock.jump(1000)
    const second = get(key)
    await clock.waiting(4000)
    await clock.move(11_999)
    t.equal(up.requests.length, 1)
    await clock.move(1)
    const { status, at } = await second
    // The sliding log counted the first refusal at 1 s: at 13 s it has left.
    t.same([status, at], [200, 13])
    t.equal(eventsOf(gw, 'RatelimitExceeded').length, 1)
  })

t.test('after interval × retries it is refused; the event came once, at the beginning', async t => {
  const { clock, gw, get } = await throttled(t)
  const key = await gw.key({ ...limited, throttle_retry_limit: 2 })
  await get(key)
  clock.jump(1000)
  const second = get(key)
  await clock.waiting(4000)
  t.equal(eventsOf(gw, 'RatelimitExceeded').length, 1)
  await clock.move(8000)
  const { status, text, at, headers } = await second
  t.same([status, text, at], [429, '{"error":"Rate Limit Exceeded"}', 9])
  t.equal(headers['retry-after'], '1', 'from now, not from when it came')
  t.same([headers['x-ratelimit-limit'], headers['x-ratelimit-remaining']], ['1', '0'])
  t.equal(eventsOf(gw, 'RatelimitExceeded').length, 1)
  await clock.move(2001)
  t.equal((await get(key)).status, 200, 'looks were not counted')
})

t.test(
  'without an interval or retries nothing is held; a right with a limit of its own brings its own throttling',
  async t => {
    const { gw, get, clock } = await throttled(t)
    for (const more of [
      { throttle_interval: 0, throttle_retry_limit: 3 },
      { throttle_interval: -1, throttle_retry_limit: 3 },
      { throttle_interval: 4, throttle_retry_limit: 0 },
      { throttle_interval: 4, throttle_retry_limit: -1 },
      {
        throttle_interval: 4,
        throttle_retry_limit: 3,
        access_rights: { a: { api_id: 'a', limit: { rate: 1, per: 10 } } }
      }
    ]) {
      const key = await gw.key({ ...limited, ...more })
      t.equal((await get(key)).status, 200)
      t.equal((await get(key)).status, 429, JSON.stringify(more))
    }
    const key = await gw.key({
      ...rights('a'),
      access_rights: {
        a: { api_id: 'a', limit: { rate: 1, per: 10, throttle_interval: 0.7, throttle_retry_limit: 1 } }
      }
    })
    await get(key)
    const second = get(key)
    await clock.waiting(700)
    await clock.move(700)
    t.equal((await second).status, 429)
  }
)

t.test('quotas and rates of the API hold nobody', async t => {
  const { gw, get } = await throttled(t, {}, { upstream: { rateLimit: { enabled: true, rate: 2, per: '1m' } } })
  const held = { ...rights('a'), throttle_interval: 4, throttle_retry_limit: 3 }
  const key = await gw.key({ ...held, quota_max: 1, quota_renewal_rate: 60 })
  await get(key)
  t.equal((await get(key)).status, 403)
  const other = await gw.key({ ...held, rate: 100, per: 60 })
  await get(other)
  t.equal((await get(other)).text, '{"error":"API Rate Limit Exceeded"}')
})

t.test('a held request that passes the key may still be refused by quota or API, with their events', async t => {
  const { gw, get, clock } = await throttled(t, {}, { upstream: { rateLimit: { enabled: true, rate: 2, per: '1h' } } })
  const key = await gw.key({ ...limited, throttle_retry_limit: 3, quota_max: 1, quota_renewal_rate: 3600 })
  await get(key)
  const second = get(key)
  await clock.waiting(4000)
  await clock.move(12_000)
  t.equal((await second).text, '{"error":"Quota exceeded"}')
  const other = await gw.key({ ...limited, throttle_retry_limit: 3 })
  await get(other)
  const third = get(other)
  await clock.waiting(4000)
  await clock.move(12_000)
  t.equal((await third).text, '{"error":"API Rate Limit Exceeded"}')
  t.same(
    eventsOf(gw).map(({ event, message }) => [event, message]),
    [
      ['RatelimitExceeded', 'Rate Limit Exceeded'],
      ['QuotaExceeded', 'Key Quota Limit Exceeded'],
      ['RatelimitExceeded', 'Rate Limit Exceeded'],
      ['RatelimitExceeded', 'API Rate Limit Exceeded']
    ]
  )
})

t.test('of several held requests as many pass as the window takes, the others wait on', async t => {
  const { gw, get, clock } = await throttled(t)
  const key = await gw.key({ ...limited, rate: 2, throttle_interval: 11, throttle_retry_limit: 1 })
  await get(key)
  await get(key)
  const waiting = Array.from({ length: 5 }, () => get(key))
  while (clock.waiters(11_000) < 5) await new Promise<void>(resolve => setImmediate(resolve))
  await clock.move(11_000)
  const statuses = (await Promise.all(waiting)).map(({ status }) => status)
  t.same(statuses.sort(), [200, 200, 429, 429, 429])
})

t.test('a client that leaves while it is held is let go at once and costs nothing', async t => {
  const { gw, get, clock, up } = await throttled(t)
  const key = await gw.key({ ...limited, throttle_retry_limit: 3 })
  await get(key)
  const { port } = new URL(gw.url)
  const socket = connect(Number(port), '127.0.0.1')
  socket.write(`GET /a/ HTTP/1.1\r\nHost: x\r\nAuthorization: ${key}\r\n\r\n`)
  await clock.waiting(4000)
  socket.destroy()
  while (clock.waiters(4000) > 0) await new Promise<void>(resolve => setImmediate(resolve))
  await clock.move(12_000)
  t.equal(up.requests.length, 1)
  t.equal((await get(key)).status, 200)
})

t.test('the body of a held request goes up whole', async t => {
  const clock = handClock()
  const up = await upstream(t, tell)
  const gw = await gateway(t, { clock, apis: [api('a', up.url, { server: withKey })] })
  const key = await gw.key({ ...limited, throttle_retry_limit: 3 })
  const headers = { Authorization: key }
  await ask(gw, '/a/', { headers })
  for (const framing of ['Content-Length', 'Transfer-Encoding']) {
    const body = 'x'.repeat(300_000)
    const value = framing === 'Content-Length' ? String(body.length) : 'chunked'
    const held = ask(gw, '/a/', { method: 'POST', headers: { ...headers, [framing]: value }, body })
    await clock.waiting(4000)
    await clock.move(12_000)
    const { status, json } = await held
    t.same([status, json.body.length], [200, body.length], framing)
  }
})

t.test('a body that turns into nonsense while its request is held is refused, and never goes up', async t => {
  const { gw, get, clock, up } = await throttled(t)
  const key = await gw.key({ ...limited, throttle_retry_limit: 9 })
  await get(key)
  const { port } = new URL(gw.url)
  const socket = connect(Number(port), '127.0.0.1')
  const answer = new Promise<string>(resolve => socket.once('data', chunk => resolve(String(chunk))))
  socket.write(
    `POST /a/ HTTP/1.1\r\nHost: x\r\nAuthorization: ${key}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n`
  )
  await clock.waiting(4000)
  socket.write('nonsense\r\n')
  t.match(await answer, /^HTTP\/1.1 400 /)
  await clock.move(12_000)
  t.equal(up.requests.length, 1)
  t.equal((await get(key)).status, 200, 'nor was it counted')
  t.equal(gw.log.lines.filter(({ level }) => level === 'error').length, 0)
})
