import t, { type Test } from 'tap'
import { type Clock, systemClock } from '../../config/world.ts'
import { gateway, type TestGateway } from '../helpers/gateway.ts'
import { kafka } from '../helpers/kafka.ts'
import { crowd, post, type SseClient, sse, statusOf, streamApi, streamsOn, until } from '../helpers/streamClients.ts'

/* Several gateways before one Kafka: partitions follow the clients, and who stops hands over. */

t.setTimeout(90_000)
const server = await kafka(t)
const via = { addresses: server.brokers }
/** A member that said nothing when it left would keep its partitions so long, which is longer than any wait here. */
const group = { session_timeout: '60s', heartbeat_interval: '300ms' }

/** A topic behind `/ID/in` and `/ID/sse`. */
function feed(id: string, output: object = {}) {
  return streamApi(id, {
    in: {
      input: { http_server: { path: '/in' } },
      output: { kafka: { ...via, topic: id, partitioner: 'round_robin' } }
    },
    out: {
      input: { kafka: { ...via, topics: [id], consumer_group: id, commit_period: '100ms', group } },
      output: { http_server: { stream_path: '/sse', ...output } }
    }
  })
}

const open = (t: Test, api: unknown, streaming: object = {}) =>
  gateway(t, { settings: streamsOn(streaming), apis: [api] })
const texts = (...clients: readonly SseClient[]) => clients.flatMap(client => client.texts())

async function partitions(...gateways: readonly TestGateway[]): Promise<string> {
  const rows = await Promise.all(gateways.map(gw => statusOf(gw, 'out')))
  return rows.map(({ partitions }) => partitions).join()
}

/** All that is there has been delivered and committed. */
async function committed(id: string): Promise<boolean> {
  const [found] = await (await server.admin()).fetchOffsets({ groupId: id, topics: [id] })
  const offsets = new Map(found!.partitions.map(({ partition, offset }) => [partition, Number(offset)]))
  return (await server.ends(id)).every((end, partition) => end === 0 || offsets.get(partition) === end)
}

t.test('partitions go to the gateway that has clients, and come back', async t => {
  await server.topic('shared', 4)
  const [a, b] = await Promise.all([open(t, feed('shared')), open(t, feed('shared'))])
  let sent = 0
  const clients: SseClient[] = []
  /** What each of them got of so many more. */
  async function more(count: number, of: readonly SseClient[]): Promise<number[]> {
    const before = of.map(client => client.texts().length)
    for (let i = 0; i < count; i++) t.equal((await post(i % 2 === 0 ? a : b, '/shared/in', `m${sent++}`)).status, 200)
    await until(() => texts(...clients).length >= sent, `${sent} messages, whoever gets them`)
    await until(() => committed('shared'), 'they are committed')
    return of.map((client, i) => client.texts().length - before[i]!)
  }
  const atA = await sse(t, a, '/shared/sse')
  clients.push(atA)
  await until(async () => (await partitions(a, b)) === '4,0', 'all for the one with a client')
  t.same(await more(8, [atA]), [8])
  t.equal((await statusOf(b, 'out')).state, 'idle')

  const atB = await sse(t, b, '/shared/sse')
  clients.push(atB)
  await until(async () => (await partitions(a, b)) === '2,2', 'half for each')
  const [toA, toB] = await more(16, [atA, atB])
  t.ok(toA! > 0 && toB! > 0, `${toA}, ${toB}`)

  atA.stop()
  await until(async () => (await partitions(a, b)) === '0,4', 'all for the other, without waiting for a session to end')
  t.equal((await statusOf(a, 'out')).state, 'idle')
  t.same(await more(8, [atB]), [8])

  const back = await sse(t, a, '/shared/sse')
  clients.push(back)
  await until(async () => (await partitions(a, b)) === '2,2', 'half for each again')
  t.ok((await more(16, [back]))[0]! > 0)
  t.same(texts(...clients).sort(), Array.from({ length: sent }, (_, i) => `m${i}`).sort(), 'each message once')
})

t.test('a gateway that stops under load commits and leaves, and the next has everything at once', async t => {
  await server.topic('handed', 2)
  const [a, b] = await Promise.all([open(t, feed('handed')), open(t, feed('handed'))])
  const clients = await Promise.all([a, a, a, b].map(gw => sse(t, gw, '/handed/sse')))
  await until(async () => (await partitions(a, b)) === '1,1', 'one for each')
  const sent: string[] = []
  let isOn = true
  const sending = (async () => {
    while (isOn) {
      const value = `m${sent.length}`
      t.equal((await post(b, '/handed/in', value)).status, 200)
      sent.push(value)
    }
  })()
  await until(() => clients.every(client => client.texts().length > 10), 'messages flow')
  await a.stop()
  for (const { isComplete, retry } of clients.slice(0, 3)) {
    t.ok(isComplete, 'they have their end')
    t.ok(retry! >= 500 && retry! <= 5_000)
  }
  const { groups } = await (await server.admin()).describeGroups(['handed'])
  t.equal(groups[0]!.members.length, 1, 'it has left')
  await until(async () => (await partitions(b)) === '2', 'all for the other')
  const before = sent.length
  await until(() => sent.length > before + 20, 'messages flow on')
  isOn = false
  await sending
  await until(() => new Set(texts(...clients)).size === sent.length, 'all messages')
  t.same(texts(...clients).sort(), sent.toSorted(), 'each message once')
})

t.test(
  'a broadcast goes on over a restart of the gateway: 1,000 clients are sent away in turn and come back at once',
  async t => {
    const count = 1_000
    await server.topic('wide')
    const api = feed('wide', { mode: 'broadcast' })
    const [first, sender] = await Promise.all([open(t, api, { drain_timeout: 1 }), open(t, api)])
    const before = await crowd(t, first, '/wide/sse', count)
    await until(async () => (await statusOf(first, 'out')).state === 'active', 'it is read')
    for (const value of ['a', 'b']) t.equal((await post(sender, '/wide/in', value)).status, 200)
    await until(() => before.every(client => client.texts().length === 2), 'both messages')
    await first.stop()
    await until(() => before.every(({ endedAt }) => endedAt > 0), 'all are ended')
    const ends = before.map(({ endedAt }) => endedAt)
    t.ok(Math.max(...ends) - Math.min(...ends) > 500, 'not all at once')
    const retries = before.map(({ retry }) => retry)
    t.ok(Math.min(...retries) >= 500 && Math.max(...retries) <= 5_000, 'told when to come again')
    t.ok(Math.max(...retries) - Math.min(...retries) > 3_000, 'each at its own time')

    const missed = Array.from({ length: 20 }, (_, i) => `missed ${i}`)
    for (const value of missed) t.equal((await post(sender, '/wide/in', value)).status, 200)
    const second = await open(t, api)
    const lastIds = before.map(({ lastId }) => lastId)
    const after = await crowd(t, second, '/wide/sse', count, lastIds)
    t.equal(after.filter(({ status }) => status === 200).length, count)
    t.equal((await post(second, '/wide/in', 'last')).status, 200)
    await until(() => after.every(({ text }) => text.includes('data: last\n')), 'the last message')
    // Some got nothing but their end after the second message, others one more: each goes on where it was.
    const expected = ['a', 'b', ...missed, 'last'].join()
    const whole = after.filter((client, i) => [...before[i]!.texts(), ...client.texts()].join() === expected)
    t.equal(whole.length, count, 'nothing is missing, nothing came twice')
    for (const { socket } of after) socket.destroy()
    await until(async () => (await statusOf(second, 'out')).clients.sse === 0, 'they have left')
  }
)

t.test('a gateway that has stopped has nothing left to do, whenever its clients left', async t => {
  await server.topic('left')
  const left = new Set<object>()
  const clock: Clock = {
    now: systemClock.now,
    after(ms, run) {
      const one = {}
      left.add(one)
      const cancel = systemClock.after(ms, () => {
        left.delete(one)
        run()
      })
      return () => {
        left.delete(one)
        cancel()
      }
    }
  }
  for (const mode of ['group', 'broadcast']) {
    // What would be left over ends a little later, so that this file does too.
    const age = mode === 'broadcast' ? { replay_window: { age: '5s' } } : {}
    const gw = await gateway(t, { settings: streamsOn(), apis: [feed('left', { mode, ...age })], clock })
    const clients = await Promise.all([0, 1, 2].map(() => sse(t, gw, '/left/sse')))
    await until(async () => (await statusOf(gw, 'out')).state === 'active', 'the stream is read')
    t.equal((await post(gw, '/left/in', 'x')).status, 200)
    await until(() => texts(...clients).length > 0, 'a message')
    const stopped = gw.stop()
    // While they are sent away one by one.
    await Promise.race(clients.map(({ ended }) => ended))
    for (const client of clients) client.stop()
    await stopped
    t.equal(left.size, 0, `timers that are left, mode ${mode}`)
  }
})
