import t from 'tap'
import { gateway, rights, withKey } from '../helpers/gateway.ts'
import { post, sse, statusOf, streamApi, streamsOn, until, webSocket } from '../helpers/streamClients.ts'

/** Streams through the whole gateway, on the embedded broker. */

const on = streamsOn()
const memory = { addresses: ['memory://test'] }
const feed = (streams: unknown, more: object = {}) => streamApi('feed', streams, more)

const topic = (name: string, output: object = {}, input: object = {}) => ({
  in: { input: { http_server: { path: '/in', ...input } }, output: { kafka: { ...memory, topic: name } } },
  out: {
    input: { kafka: { ...memory, topics: [name], consumer_group: `${name}-group` } },
    output: { http_server: { path: '/poll', stream_path: '/sse', ws_path: '/ws', ...output } }
  }
})

t.test('what is posted reaches a client of each transport', async t => {
  const gw = await gateway(t, { settings: on, apis: [feed(topic('a', { mode: 'broadcast' }))] })
  const client = await sse(t, gw, '/feed/sse')
  t.equal(client.status, 200)
  t.match(client.headers['content-type'], /^text\/event-stream/)
  const { frames } = await webSocket(t, gw, '/feed/ws')
  const polled = fetch(`${gw.url}/feed/poll`)
  await until(async () => (await statusOf(gw, 'out')).clients.poll === 1, 'the poll waits')
  const answer = await post(gw, '/feed/in', 'hello')
  t.equal(answer.status, 200)
  t.equal(await answer.text(), '')
  t.same(await client.until(1), ['hello'])
  t.equal(await (await polled).text(), 'hello')
  await post(gw, '/feed/in', 'again\nand again')
  t.same(await client.until(2), ['hello', 'again\nand again'])
  await until(() => frames.length === 2, 'two frames')
  t.same(frames, ['hello', 'again\nand again'])
})

t.test('messages go round the clients of a group', async t => {
  const gw = await gateway(t, { settings: on, apis: [feed(topic('b'))] })
  const clients = await Promise.all([0, 1, 2].map(() => sse(t, gw, '/feed/sse')))
  for (let i = 0; i < 9; i++) await post(gw, '/feed/in', `m${i}`)
  await Promise.all(clients.map(client => client.until(3)))
  for (const { events } of clients) t.equal(events.length, 3)
  t.same(
    clients.flatMap(({ events }) => events.map(({ data }) => data)).sort(),
    Array.from({ length: 9 }, (_, i) => `m${i}`)
  )
})

t.test('paths that no stream has are 404, and methods and protocols are told', async t => {
  const gw = await gateway(t, { settings: on, apis: [feed(topic('c'))] })
  t.same(await (await gw.get('/feed/none')).json(), { error: 'not found' })
  for (const [method, path, status] of [
    ['GET', '/feed/none', 404],
    ['POST', '/feed/post', 404],
    ['GET', '/feed/in', 405],
    ['GET', '/feed/ws', 426],
    ['POST', '/feed/sse', 405]
  ] as const)
    t.equal((await fetch(gw.url + path, { method })).status, status, `${method} ${path}`)
})

t.test('keys, rates and quotas count before the stream, and a stream ends with its key', async t => {
  const gw = await gateway(t, { settings: on, apis: [feed(topic('d'), { server: withKey })] })
  t.equal((await post(gw, '/feed/in', 'x')).status, 401)
  const key = await gw.key({ ...rights('feed'), rate: 3, per: 1000 })
  const headers = { Authorization: key }
  const client = await sse(t, gw, '/feed/sse', headers)
  t.equal(client.status, 200)
  t.equal((await post(gw, '/feed/in', 'x', headers)).status, 200)
  t.equal((await post(gw, '/feed/in', 'y', headers)).status, 200)
  t.equal((await post(gw, '/feed/in', 'z', headers)).status, 429)
  t.same(await client.until(2), ['x', 'y'])
  t.equal((await gw.svc('DELETE', `/svc/keys/${key}`)).status, 200)
  await client.ended
  t.match(client.events.at(-1), { event: 'svc-error' })
})

t.test('a reload keeps the clients of streams that stayed the same', async t => {
  const streams = topic('e', { mode: 'broadcast' })
  const gw = await gateway(t, { settings: on, apis: [feed(streams)] })
  const client = await sse(t, gw, '/feed/sse')
  const other = { input: { http_server: { path: '/other' } }, output: { kafka: { ...memory, topic: 'e' } } }
  t.equal((await gw.svc('PUT', '/svc/apis/oas/feed', feed({ ...streams, other }))).status, 200)
  t.equal((await post(gw, '/feed/other', 'still here')).status, 200)
  t.same(await client.until(1), ['still here'])
  const off = feed(streams)
  off['x-svc-api-gateway'].info.state.active = false
  t.equal((await gw.svc('PUT', '/svc/apis/oas/feed', off)).status, 200)
  await client.ended
  t.match(client.events.at(-1), { event: 'svc-error', data: /disabled/ })
})

t.test('who must say now who they are come in again', async t => {
  const streams = topic('g', { mode: 'broadcast' })
  const gw = await gateway(t, { settings: on, apis: [feed(streams)] })
  const client = await sse(t, gw, '/feed/sse')
  t.equal(client.status, 200)
  t.equal((await gw.svc('PUT', '/svc/apis/oas/feed', feed(streams, { server: withKey }))).status, 200)
  await client.ended
  t.equal((await gw.get('/feed/sse')).status, 401)
})

t.test('one connection too many of a key is told so', async t => {
  const settings = streamsOn({ max_clients_per_key: 1 })
  const gw = await gateway(t, { settings, apis: [feed(topic('h'), { server: withKey })] })
  const headers = { Authorization: await gw.key({ ...rights('feed'), rate: 100, per: 1 }) }
  t.equal((await sse(t, gw, '/feed/sse', headers)).status, 200)
  const second = await sse(t, gw, '/feed/sse', headers)
  t.equal(second.status, 429)
  t.equal(second.headers['retry-after'], '5')
})
