import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { gateway } from '../../helpers/gateway.ts'
import { post, statusOf, streamApi, streamsOn, until } from '../../helpers/streamClients.ts'

/** Kafka to a webhook, through the whole gateway. */

type Test = { teardown(run: () => unknown): unknown }

const memory = { addresses: ['memory://test'] }
const ndjson = { 'Content-Type': 'application/x-ndjson' }
const numbers = (count: number) => Array.from({ length: count }, (_, i) => `m${i}`)

async function webhook(t: Test, statusFor: (body: string) => number) {
  const got: string[] = []
  const server = createServer((req, res) => {
    let body = ''
    req.on('data', chunk => {
      body += chunk
    })
    req.on('end', () => {
      got.push(body)
      res.writeHead(statusFor(body)).end()
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    return new Promise(resolve => server.close(resolve))
  })
  return { got, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

function relay(topic: string, url: string, hook: object, input: object = {}, pipeline: object = {}) {
  return streamApi('feed', {
    in: { input: { http_server: { path: '/in' } }, output: { kafka: { ...memory, topic } } },
    out: {
      input: { kafka: { ...memory, topics: [topic], consumer_group: `${topic}-group`, ...input } },
      output: { http_client: { url, max_in_flight: 1, retry_period: '1ms', retries: 0, ...hook } },
      ...pipeline
    }
  })
}

t.test('a message that a webhook refuses holds up what is behind it, and what is before it comes once', async t => {
  let isOpen = false
  const { got, url } = await webhook(t, body => (body === 'm10' && !isOpen ? 400 : 200))
  const gw = await gateway(t, { settings: streamsOn({ memory: { partitions: 1 } }), apis: [relay('ra', url, {})] })
  await post(gw, '/feed/in', numbers(20).join('\n'), ndjson)
  await until(async () => (await statusOf(gw, 'out')).redelivered > 0, 'it is offered again')
  t.match(await statusOf(gw, 'out'), {
    state: 'degraded',
    delivered: 10,
    dropped: 0,
    lag: 10,
    partitions: 1,
    last_error: 'messages are not delivered: answered 400'
  })
  isOpen = true
  await until(() => got.includes('m19'), 'the rest')
  t.same(got.filter(body => body !== 'm10').slice(0, 10), numbers(10))
  t.equal(new Set(got).size, 20)
  t.same(
    got.filter((body, i) => got.indexOf(body) !== i && body !== 'm10'),
    [],
    'nothing else comes twice'
  )
  await until(async () => (await statusOf(gw, 'out')).lag === 0, 'all are through')
  t.match(await statusOf(gw, 'out'), { state: 'active', delivered: 20, last_error: null })
})

t.test('what the options drop, and what does not fit, is dropped and counted', async t => {
  const { got, url } = await webhook(t, body => (body === 'm3' ? 410 : 200))
  const pipeline = {
    pipeline: { processors: [{ filter: 'value != "m5"' }, { filter: 'value == "m7" ? value : dyn(true)' }] }
  }
  const gw = await gateway(t, { settings: streamsOn(), apis: [relay('rb', url, { drop_on: [410] }, {}, pipeline)] })
  await post(gw, '/feed/in', numbers(10).join('\n'), ndjson)
  await until(async () => (await statusOf(gw, 'out')).delivered === 7, 'seven of ten')
  t.match(await statusOf(gw, 'out'), { delivered: 7, dropped: 2, redelivered: 0, lag: 0 })
  t.same(
    got.sort(),
    numbers(10).filter(body => !['m5', 'm7'].includes(body))
  )
})

t.test('a bound of our own loses nothing, although nothing is replayed', async t => {
  const { got, url } = await webhook(t, () => 200)
  const api = relay('rc', url, {}, { auto_replay_nacks: false })
  const gw = await gateway(t, { settings: streamsOn({ memory: { partitions: 4 } }), apis: [api] })
  await post(gw, '/feed/in', numbers(400).join('\n'), ndjson)
  await until(async () => (await statusOf(gw, 'out')).delivered === 400, 'all')
  t.same(got.sort(), numbers(400).sort())
  t.match(await statusOf(gw, 'out'), { dropped: 0, redelivered: 0, lag: 0, partitions: 4 })
})
