import t from 'tap'
import { handClock } from '../helpers/clock.ts'
import { api, gateway, rights, withKey } from '../helpers/gateway.ts'
import { postgres } from '../helpers/postgres.ts'
import { soon } from '../helpers/soon.ts'
import { upstream } from '../helpers/upstream.ts'

t.setTimeout(120_000)
const server = await postgres(t, { version: 17 })
const documents = (url: string) => ({ storage: { documents: { type: 'postgres', url, pool_size: 4 } } })

t.test('what one process writes counts in another within a second', async t => {
  const settings = documents(await server.database())
  const target = await upstream(t)
  const [one, two] = [await gateway(t, { settings }), await gateway(t, { settings })]
  const open = (key: string) => () => two.get('/orders/', { Authorization: key })
  const ok = async (answer: Promise<{ status: number; body: unknown }>) => {
    const { status, body } = await answer
    t.equal(status, 200, JSON.stringify(body))
  }

  const document = api('orders', target.url, { server: withKey })
  await ok(one.svc('POST', '/svc/apis/oas', document))
  await soon(t, 'a new API', 401, () => two.get('/orders/'))

  t.equal((await open('alice')()).status, 403, 'remembered as unknown')
  await ok(one.svc('POST', '/svc/keys/alice', rights('orders')))
  await soon(t, 'a new key', 200, open('alice'))

  await ok(one.svc('POST', '/svc/policies', { id: 'gold', name: 'gold', active: true, ...rights('orders') }))
  const key = await one.key({ apply_policies: ['gold'] })
  await soon(t, 'a key of a policy', 200, open(key))
  const inactive = { id: 'gold', name: 'gold', active: true, is_inactive: true, ...rights('orders') }
  await ok(one.svc('PUT', '/svc/policies/gold', inactive))
  await soon(t, 'a changed policy', 403, open(key))

  await ok(one.svc('DELETE', '/svc/keys/alice'))
  await soon(t, 'a deleted key', 403, open('alice'))

  const person = await one.user({ org_id: 'default' })
  const me = () => two.api('GET', '/api/users/me', undefined, { key: person })
  await soon(t, 'a new user', 200, me)

  await ok(one.svc('PUT', '/svc/apis/oas/orders', api('orders', target.url)))
  await soon(t, 'a changed API', 200, () => two.get('/orders/'))
  await ok(two.svc('DELETE', '/svc/apis/oas/orders'))
  await soon(t, 'a deleted API, the other way round', 404, () => one.get('/orders/'))
})

t.test('a database that forgot deletions makes a process read everything anew', async t => {
  const url = await server.database()
  const settings = documents(url)
  const target = await upstream(t)
  const clock = handClock()
  const [one, two] = [await gateway(t, { settings }), await gateway(t, { settings, clock })]
  await one.svc('POST', '/svc/apis/oas', api('orders', target.url, { server: withKey }))
  await one.svc('POST', '/svc/keys/alice', rights('orders'))
  const look = async () => {
    await clock.move(250)
    return two.get('/orders/', { Authorization: 'alice' })
  }
  await soon(t, 'the key', 200, look)
  await one.svc('DELETE', '/svc/keys/alice')
  await one.svc('POST', '/svc/apis/oas', api('more', target.url))
  await server.sql('DELETE FROM svc_deletions; UPDATE svc_meta SET forgotten = sequence', url)
  await soon(t, 'the key is gone', 403, look)
  t.equal((await two.get('/more/')).status, 200)
  t.ok(two.log.lines.some(({ msg }) => msg === 'documents changed beyond what can be told: everything is read anew'))
})

t.test('while the database is away, what is known is served and what is not is no refusal', async t => {
  const clock = handClock()
  const target = await upstream(t)
  const running = await gateway(t, {
    settings: documents(await server.database()),
    clock,
    apis: [api('orders', target.url, { server: withKey }), api('open', target.url)]
  })
  const policy = { id: 'gold', name: 'gold', active: true, quota_max: -1, ...rights('orders') }
  await running.svc('POST', '/svc/policies', policy)
  await running.svc('POST', '/svc/policies', { ...policy, id: 'silver', name: 'silver' })
  const keys = {
    plain: await running.key(rights('orders')),
    gold: await running.key({ apply_policies: ['gold'], quota_max: 1_000, quota_renewal_rate: 3_600 }),
    unused: await running.key(rights('orders')),
    silver: await running.key({ apply_policies: ['silver'] })
  }
  const open = (key: string) => running.get('/orders/', { Authorization: key })
  for (const key of [keys.plain, keys.gold]) t.equal((await open(key)).status, 200)
  t.equal((await running.svc('GET', '/hello')).body.status, 'pass')
  t.equal((await running.api('GET', '/api/users/me')).status, 200)

  await server.stop()
  // Its looks at the sequence fail, its counters cannot be saved.
  for (let i = 0; i < 40; i++) await clock.move(500)
  for (let i = 0; i < 3; i++) for (const key of [keys.plain, keys.gold]) t.equal((await open(key)).status, 200)
  t.equal((await running.get('/open/')).status, 200)
  for (const key of [keys.unused, keys.silver, 'nobody']) {
    const answer = await open(key)
    t.equal(answer.status, 503)
    t.equal(answer.headers.get('retry-after'), '1')
  }
  t.equal((await running.get('/orders/')).status, 401)
  for (const [method, path, body] of [
    ['GET', '/svc/keys/someone', undefined],
    ['POST', '/svc/keys/create', rights('orders')],
    ['POST', '/svc/keys/create', { apply_policies: ['gold'] }],
    ['GET', '/svc/policies', undefined],
    ['DELETE', '/svc/policies/gold', undefined],
    ['POST', '/svc/apis/oas', api('late', target.url)],
    ['DELETE', '/svc/apis/oas/orders', undefined]
  ] as const) {
    const { status, headers, body: answer } = await running.svc(method, path, body)
    t.equal(status, 503, `${method} ${path}`)
    t.equal(headers.get('retry-after'), '1')
    t.notMatch(JSON.stringify(answer), /127\.0\.0\.1|ECONN|svc_/)
  }
  const user = await running.api('GET', '/api/users/me', undefined, { key: 'whoever' })
  t.equal(user.status, 503)
  t.equal(user.headers.get('retry-after'), '1')
  t.match((await running.svc('GET', '/ready')).body, { status: 'error', message: 'Document store not available' })
  t.equal((await running.svc('GET', '/ready')).status, 503)
  t.match(await running.svc('GET', '/hello'), { status: 200, body: { status: 'fail' } })

  await server.start()
  await soon(t, 'a key that was not known', 200, () => open(keys.unused))
  t.equal((await open(keys.silver)).status, 200)
  t.equal((await open('nobody')).status, 403)
  await soon(t, 'ready again', 200, async () => {
    await clock.move(5_000)
    return running.svc('GET', '/ready')
  })
  t.equal((await running.svc('DELETE', '/svc/apis/oas/open')).status, 200)
  t.equal((await running.get('/open/')).status, 404)
  await running.svc('DELETE', `/svc/keys/${keys.plain}`)
  t.equal((await open(keys.plain)).status, 403)
  const count = (msg: string) => running.log.lines.filter(line => line.msg === msg).length
  t.equal(count('the database is away'), 1)
  t.ok(count('quota counters cannot be saved') > 0)
})

t.test('a listen path is given once, whichever processes are asked at the same time', async t => {
  const settings = documents(await server.database())
  const both = [await gateway(t, { settings }), await gateway(t, { settings })]
  for (let round = 0; round < 5; round++) {
    const path = { server: { listenPath: { value: `/path-${round}/`, strip: true } } }
    const answers = await Promise.all(
      both.map((gw, i) => gw.svc('POST', '/svc/apis/oas', api(`api-${round}-${i}`, 'svc://echo', path)))
    )
    t.same(answers.map(({ status }) => status).sort(), [200, 409])
    const [winner] = answers.flatMap(({ status, body }) => (status === 200 ? [body.key] : []))
    const other = both[Number(winner.at(-1)) === 0 ? 1 : 0]!
    await soon(t, 'the other process has it', 200, () => other.get(`/path-${round}/`))
    t.equal((await other.svc('DELETE', `/svc/apis/oas/${winner}`)).status, 200)
    const next = api(`next-${round}`, 'svc://echo', path)
    await soon(t, 'what was given back is free', 200, () => both[round % 2]!.svc('POST', '/svc/apis/oas', next))
  }
})

t.test('an API is changed through any process, one after the other and at once', async t => {
  const settings = documents(await server.database())
  const both = [await gateway(t, { settings }), await gateway(t, { settings })]
  const key = await both[0]!.user({ org_id: 'default' })
  const at = (i: number) => ({
    api: (method: string, path: string, body?: unknown, headers = {}) =>
      both[i % 2]!.api(method, path, body, { key, headers })
  })
  const body = (i: number) => api('a', 'svc://echo', { info: { name: `state ${i}` } })
  t.equal((await at(0).api('POST', '/api/apis/oas', body(0))).status, 200)
  await soon(t, 'the other process has it', 200, () => at(1).api('GET', '/api/apis/oas/a'))
  for (let i = 1; i <= 6; i++) t.equal((await at(i).api('PUT', '/api/apis/oas/a', body(i))).status, 200, `${i}`)
  const headers = { 'If-Match': '"1"' }
  t.equal((await at(1).api('PUT', '/api/apis/oas/a', body(9), headers)).status, 412)
  const many = await Promise.all(Array.from({ length: 20 }, (_, i) => at(i).api('PUT', '/api/apis/oas/a', body(i))))
  t.same([...new Set(many.map(({ status }) => status))], [200])
  t.equal((await at(0).api('DELETE', '/api/apis/oas/a')).status, 200)
  t.equal((await at(1).api('DELETE', '/api/apis/oas/a')).status, 404)
  t.equal((await at(0).api('POST', '/api/apis/oas', body(0))).status, 200)
  t.match((await at(1).api('POST', '/api/apis/oas', body(0))).body, { Message: 'Found API with the same ID' })
})
