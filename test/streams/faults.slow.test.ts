import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Kafka, logLevel } from 'kafkajs'
import t from 'tap'
import { type Clock, systemClock } from '../../config/world.ts'
import { gateway, type TestGateway } from '../helpers/gateway.ts'
import { kafka } from '../helpers/kafka.ts'
import {
  crowd,
  post,
  type SseClient,
  sse,
  statusOf,
  streamApi,
  streamsOn,
  until,
  webSocket
} from '../helpers/streamClients.ts'

/* What goes wrong around streams, through the whole gateway on a Kafka that is killed, hangs, and holds what nobody can read. */

t.setTimeout(120_000)
const data = mkdtempSync(join(tmpdir(), 'svc-stream-faults-'))
t.teardown(() => rmSync(data, { recursive: true, force: true }))
// With users, since only then the store is made where the properties say.
const server = await kafka(t, { sasl: true, properties: { 'log.dirs': join(data, 'log') } })
const via = { addresses: server.brokers }

/** A topic behind `/ID/in` and `/ID/sse`, `/ID/ws`. */
function feed(id: string, { topic = id, input = {}, to = {}, from = {}, output = {} }: Record<string, any> = {}) {
  return streamApi(id, {
    in: { input: { http_server: { path: '/in', ...input } }, output: { kafka: { ...via, topic, ...to } } },
    out: {
      input: { kafka: { ...via, topics: [topic], consumer_group: id, commit_period: '100ms', ...from } },
      output: { http_server: { stream_path: '/sse', ws_path: '/ws', ...output } }
    }
  })
}

const events = (gw: TestGateway) => gw.log.lines.map(({ event }) => event)
const all = (clients: readonly SseClient[]) => clients.flatMap(client => client.texts())

/** Posts until it is told to stop: what was answered, by status. */
function posting(gw: TestGateway, path: string, workers: number) {
  const acknowledged: string[] = []
  const statuses = new Map<number, number>()
  let slowest503 = 0
  let isOn = true
  const done = Promise.all(
    Array.from({ length: workers }, async (_, worker) => {
      for (let i = 0; isOn; i++) {
        const value = `${worker}-${i}`
        const began = performance.now()
        const answer = await post(gw, path, value)
        await answer.text()
        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
        if (answer.status === 200) acknowledged.push(value)
        if (answer.status === 503 && events(gw).includes('BrokerDown'))
          slowest503 = Math.max(slowest503, performance.now() - began)
        if (answer.status === 504 && answer.headers.get('svc-delivery') !== 'unknown')
          throw new Error('504 without hint')
        if (answer.status === 503 && answer.headers.get('retry-after') === null) throw new Error('503 without hint')
      }
    })
  )
  return {
    acknowledged,
    statuses,
    slowest503: () => slowest503,
    stop() {
      isOn = false
      return done
    }
  }
}

t.test('a broker that is away from the start is told at once, and used as soon as it is there', async t => {
  await server.topic('late')
  await server.stop()
  const gw = await gateway(t, { settings: streamsOn(), apis: [feed('late')] })
  const client = await sse(t, gw, '/late/sse')
  t.equal(client.status, 200, 'listeners are taken in')
  for (let i = 0; i < 10; i++) {
    const began = performance.now()
    const answer = await post(gw, '/late/in', 'x')
    t.match([answer.status, answer.headers.get('retry-after')], [503, /\d/])
    t.ok(performance.now() - began < 2_500)
  }
  await until(() => events(gw).includes('BrokerDown'), 'BrokerDown')
  const began = performance.now()
  for (let i = 0; i < 20; i++) t.equal((await post(gw, '/late/in', 'x')).status, 503)
  t.ok(performance.now() - began < 4_000, 'known to be away, it costs nothing')
  for (const stream of ['in', 'out']) {
    await until(async () => (await statusOf(gw, stream)).state === 'degraded', `${stream} is degraded`)
    t.type((await statusOf(gw, stream)).last_error, 'string')
  }
  await server.start()
  await until(async () => (await post(gw, '/late/in', 'there')).status === 200, 'it is used again')
  t.equal((await client.until(1))[0], 'there')
  await until(() => events(gw).includes('BrokerUp'), 'BrokerUp')
  for (const stream of ['in', 'out'])
    await until(async () => (await statusOf(gw, stream)).state === 'active', `${stream} is active`)
})

t.test('a broker that is killed under produce and consume loses nothing acknowledged and no listener', async t => {
  await server.topic('killed', 2)
  const apis = [
    feed('killed', { input: { timeout: '2s' }, to: { partitioner: 'round_robin' } }),
    feed('killed-all', { topic: 'killed', output: { mode: 'broadcast' } })
  ]
  const gw = await gateway(t, { settings: streamsOn(), apis })
  const group = await Promise.all([0, 1, 2].map(() => sse(t, gw, '/killed/sse')))
  const everything = await sse(t, gw, '/killed-all/sse')
  await until(async () => (await statusOf(gw, 'out', 'killed-all')).state === 'active', 'it is read')
  const senders = posting(gw, '/killed/in', 4)
  await until(() => all(group).length > 100, 'messages flow')
  await server.stop('SIGKILL')
  await until(() => events(gw).includes('BrokerDown'), 'BrokerDown')
  await until(() => (senders.statuses.get(503) ?? 0) > 20, 'refusals')
  await server.start()
  const before = senders.acknowledged.length
  await until(() => senders.acknowledged.length > before + 50, 'messages flow again')
  await senders.stop()
  await until(() => events(gw).includes('BrokerUp'), 'BrokerUp')
  t.same(
    [...senders.statuses.keys()].filter(status => ![200, 503, 504].includes(status)),
    [],
    JSON.stringify([...senders.statuses])
  )
  t.ok(senders.slowest503() < 2_500, `${senders.slowest503()} ms`)
  for (const clients of [group, [everything]]) {
    const missing = () => {
      const got = new Set(all(clients))
      return senders.acknowledged.filter(value => !got.has(value))
    }
    await until(() => missing().length === 0, 'everything that was acknowledged').catch(() => {})
    t.same(missing(), [], 'of what was acknowledged')
    t.ok(
      clients.every(({ isComplete }) => !isComplete),
      'nobody was sent away'
    )
  }
  const places = everything.events.map(({ id }) => id)
  t.equal(new Set(places).size, places.length, 'no record came twice in the broadcast')
  await until(async () => {
    const [found] = await (await server.admin()).fetchOffsets({ groupId: 'killed', topics: ['killed'] })
    const committed = found!.partitions.map(({ offset }) => Number(offset))
    return `${committed}` === `${await server.ends('killed')}`
  }, 'the group goes on to commit')
})

t.test('a broker that hangs: those under way may have arrived, later ones surely have not', async t => {
  await server.topic('hangs')
  const gw = await gateway(t, { settings: streamsOn(), apis: [feed('hangs', { input: { timeout: '700ms' } })] })
  t.equal((await post(gw, '/hangs/in', 'before')).status, 200)
  server.hang(true)
  t.teardown(() => server.hang(false))
  const under = await post(gw, '/hangs/in', 'under way')
  t.match([under.status, under.headers.get('svc-delivery')], [504, 'unknown'])
  await until(async () => (await post(gw, '/hangs/in', 'not sent')).status === 503, 'refused at once')
  const began = performance.now()
  for (let i = 0; i < 10; i++) t.equal((await post(gw, '/hangs/in', 'not sent')).status, 503)
  t.ok(performance.now() - began < 2_500)
  server.hang(false)
  await until(async () => (await post(gw, '/hangs/in', 'after')).status === 200, 'it is used again')
  const client = await sse(t, gw, '/hangs/sse')
  await until(() => client.texts().includes('after'), 'after')
  t.ok(client.texts().filter(text => text === 'under way').length <= 1)
})

/** A clock that runs so many times as fast: what waits waits shorter. */
function fast(times: number): Clock {
  const began = Date.now()
  return {
    now: () => began + (Date.now() - began) * times,
    after: (ms, run) => systemClock.after(ms / times, run)
  }
}

t.test('while the broker is well', async t => {
  t.jobs = 3
  t.test(
    'a partition that is added is written and read from its beginning, by those who are there',
    { buffered: true },
    async t => {
      await server.topic('grows')
      const apis = [
        feed('grows', { to: { partitioner: 'round_robin' }, output: { envelope: true } }),
        feed('grows-all', { topic: 'grows', output: { mode: 'broadcast', envelope: true } })
      ]
      // Gateways look for partitions again every 15 s.
      const gw = await gateway(t, { settings: streamsOn(), apis, clock: fast(4) })
      const clients = [await sse(t, gw, '/grows/sse'), await sse(t, gw, '/grows-all/sse')]
      await until(async () => (await statusOf(gw, 'out', 'grows-all')).state === 'active', 'it is read')
      t.equal((await post(gw, '/grows/in', 'first')).status, 200)
      await Promise.all(clients.map(client => client.until(1)))
      await server.addPartitions('grows', 3)
      let sent = 1
      await until(
        async () => {
          t.equal((await post(gw, '/grows/in', `m${sent++}`)).status, 200)
          return (await server.ends('grows')).every(end => end > 0)
        },
        'messages in each partition',
        40_000
      )
      for (const client of clients) {
        await until(() => client.texts().length === sent, 'every message', 40_000)
        const values = client.texts().map(text => JSON.parse(text))
        t.equal(new Set(values.map(({ value }) => value)).size, sent)
        t.same([...new Set(values.map(({ partition }) => partition))].sort(), [0, 1, 2])
      }
    }
  )

  t.test('a topic that is missing: 502 and a degraded stream, until it is there', { buffered: true }, async t => {
    const gw = await gateway(t, { settings: streamsOn(), apis: [feed('absent')] })
    const client = await sse(t, gw, '/absent/sse')
    t.equal(client.status, 200)
    const answer = await post(gw, '/absent/in', 'x')
    t.equal(answer.status, 502)
    t.notMatch(await answer.text(), /absent/)
    await until(async () => (await statusOf(gw, 'out')).state === 'degraded', 'the stream is degraded')
    t.match(await statusOf(gw, 'out'), { last_error: /absent|topic/i, clients: { sse: 1 } })
    await server.topic('absent')
    await until(async () => (await post(gw, '/absent/in', 'there')).status === 200, 'it is found')
    t.same(await client.until(1), ['there'])
    t.equal((await statusOf(gw, 'out')).state, 'active')
  })

  t.test(
    'a client that stops reading holds nobody up, and what it has not got comes to others when it dies',
    { buffered: true },
    async t => {
      await server.topic('stops')
      const gw = await gateway(t, { settings: streamsOn(), apis: [feed('stops', { output: { write_wait: '60s' } })] })
      const reader = await sse(t, gw, '/stops/sse')
      const stuck = await sse(t, gw, '/stops/sse')
      stuck.pause()
      const padding = 'x'.repeat(700_000)
      const count = 40
      for (let i = 0; i < count; i++) t.equal((await post(gw, '/stops/in', `${i} ${padding}`)).status, 200)
      const numbers = () => reader.texts().map(text => Number(text.split(' ', 1)[0]))
      // More than half, since its turn is passed over once the kernels hold what they can.
      await until(
        () => numbers().includes(count - 1) || numbers().includes(count - 2),
        'the reader has gone on to the end'
      )
      const had = numbers().length
      t.ok(had > count / 2, `${had} of ${count}`)
      t.match(await statusOf(gw, 'out'), { clients: { sse: 2 } })
      stuck.kill()
      await until(async () => (await statusOf(gw, 'out')).clients.sse === 1, 'the dead one is gone')
      await until(async () => (await statusOf(gw, 'out')).lag === 0, 'everything is delivered')
      await until(() => numbers().length > had, 'what it had not got came to the other')
      t.equal(new Set(numbers()).size, numbers().length, 'nothing twice')
    }
  )

  t.test(
    'what a client did not acknowledge before it was killed comes to another, nothing is lost',
    { buffered: true },
    async t => {
      await server.topic('acked')
      const gw = await gateway(t, { settings: streamsOn(), apis: [feed('acked', { output: { ack: 'client' } })] })
      const victim = await sse(t, gw, '/acked/sse')
      const count = 200
      const values = Array.from({ length: count }, (_, i) => `m${i}`)
      const sent = await post(gw, '/acked/in', values.join('\n'), { 'Content-Type': 'application/x-ndjson' })
      t.equal(sent.status, 200)
      await victim.until(50)
      const heir = await webSocket(t, gw, '/acked/ws', { protocol: 'svc.stream.v1' })
      victim.kill()
      const got: string[] = []
      await until(() => {
        for (const frame of heir.frames.splice(0)) {
          const { type, id, value } = JSON.parse(frame)
          if (type !== 'msg') continue
          got.push(value)
          heir.socket.send(JSON.stringify({ type: 'ack', id }))
        }
        return got.length >= count
      }, 'all messages')
      t.same(got.toSorted(), values.toSorted())
      await until(async () => {
        const [found] = await (await server.admin()).fetchOffsets({ groupId: 'acked', topics: ['acked'] })
        return found!.partitions[0]!.offset === `${count}`
      }, 'all is committed')
      t.match(await statusOf(gw, 'out'), { dropped: 0 })
    }
  )

  t.test('1,000 clients that come back at once miss nothing and get nothing twice', { buffered: true }, async t => {
    const count = 1_000
    await server.topic('herd')
    const gw = await gateway(t, { settings: streamsOn(), apis: [feed('herd', { output: { mode: 'broadcast' } })] })
    const before = await crowd(t, gw, '/herd/sse', count)
    await until(async () => (await statusOf(gw, 'out')).state === 'active', 'it is read')
    await until(async () => (await statusOf(gw, 'out')).state === 'active', 'it is read')
    t.equal((await post(gw, '/herd/in', 'first')).status, 200)
    await until(() => before.every(client => client.texts().length === 1), 'the first message')
    for (const { socket } of before) socket.destroy()
    const missed = Array.from({ length: 20 }, (_, i) => `missed ${i}`)
    for (const value of missed) t.equal((await post(gw, '/herd/in', value)).status, 200)
    const lastIds = before.map(({ lastId }) => lastId)
    const after = await crowd(t, gw, '/herd/sse', count, lastIds)
    t.equal(after.filter(({ status }) => status === 200).length, count)
    t.equal((await post(gw, '/herd/in', 'last')).status, 200)
    await until(() => after.every(({ text }) => text.includes('data: last\n')), 'the last message')
    const expected = [...missed, 'last'].join()
    t.equal(after.filter(client => client.texts().join() === expected).length, count)
    await until(async () => (await statusOf(gw, 'out')).clients.sse === count, 'those who left are gone')
    for (const { socket } of after) socket.destroy()
    await until(async () => (await statusOf(gw, 'out')).clients.sse === 0, 'all are gone')
  })

  t.test('history that is gone is told and passed over, whoever reads', { buffered: true }, async t => {
    await server.topic('gone')
    const apis = [feed('gone'), feed('gone-all', { topic: 'gone', output: { mode: 'broadcast' } })]
    const gw = await gateway(t, { settings: streamsOn(), apis })
    const first = await sse(t, gw, '/gone/sse')
    t.equal((await post(gw, '/gone/in', 'a')).status, 200)
    await first.until(1)
    first.stop()
    await until(async () => (await statusOf(gw, 'out', 'gone')).state === 'idle', 'the group is left')
    for (const value of ['b', 'c', 'd']) await post(gw, '/gone/in', value)
    await server.truncate('gone', 0, 3)
    const next = await sse(t, gw, '/gone/sse')
    t.same(await next.until(1), ['d'])
    t.match(await statusOf(gw, 'out', 'gone'), { dropped: 2, state: 'active', last_error: /2 messages/ })
  })

  t.test('a topic that is deleted and made again is read from its beginning by all', { buffered: true }, async t => {
    await server.topic('remade')
    const apis = [feed('remade'), feed('remade-all', { topic: 'remade', output: { mode: 'broadcast' } })]
    const gw = await gateway(t, { settings: streamsOn(), apis })
    const clients = [await sse(t, gw, '/remade/sse'), await sse(t, gw, '/remade-all/sse')]
    const states = () => Promise.all(['remade', 'remade-all'].map(async api => (await statusOf(gw, 'out', api)).state))
    await until(async () => (await states()).every(state => state === 'active'), 'both read')
    for (const value of [...Array(20).keys()]) t.equal((await post(gw, '/remade/in', String(value))).status, 200)
    for (const client of clients) await client.until(20)
    await (await server.admin()).deleteTopics({ topics: ['remade'] })
    await until(async () => (await states()).every(state => state === 'degraded'), 'it is missed')
    await server.topic('remade')
    const sent: string[] = []
    await until(async () => {
      const value = `new${sent.length}`
      if ((await post(gw, '/remade/in', value)).status === 200) sent.push(value)
      return sent.length === 5
    }, 'it takes messages again')
    const has = () => clients.every(client => sent.every(value => client.texts().includes(value)))
    await until(has, 'all of the new ones came')
    t.match(await statusOf(gw, 'out', 'remade'), { state: 'active', last_error: null })
  })
})

t.test('poison never stops a stream: unreadable records, null, 1 MiB, bytes that are no text', async t => {
  const large = 1024 * 1024
  await (await server.admin()).createTopics({
    topics: [{ topic: 'poison', configEntries: [{ name: 'max.message.bytes', value: '3000000' }] }],
    waitForLeaders: true
  })
  await server.ends('poison')
  const size = { input: { max_body: '2MiB' }, to: { max_msg_bytes: '2MiB' } }
  const apis = [
    feed('poison', size),
    feed('poison-all', { topic: 'poison', output: { mode: 'broadcast', start: 'earliest' } })
  ]
  const gw = await gateway(t, { settings: streamsOn(), apis })
  const send = async (body: string | Uint8Array<ArrayBuffer>) =>
    t.equal((await post(gw, '/poison/in', body)).status, 200)
  for (const value of ['a', 'codec', 'b', 'damaged', 'c']) await send(value)
  await send(Uint8Array.of(0xff, 0xfe, 0x80))
  await send('x'.repeat(large))
  spoil(join(data, 'log', 'poison-0', '00000000000000000000.log'))
  const producer = new Kafka({ brokers: [...server.brokers], logLevel: logLevel.NOTHING }).producer()
  await producer.connect()
  await producer.send({ topic: 'poison', messages: [{ key: 'gone', value: null }] })
  await producer.disconnect()
  await send('end')
  const clients = [await sse(t, gw, '/poison/sse'), await sse(t, gw, '/poison-all/sse')]
  for (const client of clients) {
    await until(() => client.texts().includes('end'), 'the end')
    t.same(
      client.texts().map(text => (text.length === large ? 'large' : text)),
      ['a', 'b', 'c', 'large', 'end']
    )
    t.match(
      client.events.find(({ event }) => event === 'binary'),
      { data: Buffer.of(0xff, 0xfe, 0x80).toString('base64') }
    )
  }
  for (const id of ['poison', 'poison-all']) t.match(await statusOf(gw, 'out', id), { state: 'active' })
  t.match(await statusOf(gw, 'out', 'poison'), { dropped: 2 })
  await until(async () => {
    const [found] = await (await server.admin()).fetchOffsets({ groupId: 'poison', topics: ['poison'] })
    return Number(found!.partitions[0]!.offset) === (await server.ends('poison'))[0]
  }, 'all is committed')
})

/** In the log of a partition: the batch of `codec` is in a compression that nobody knows, that of `damaged` has a byte changed. */
function spoil(file: string): void {
  const bytes = readFileSync(file)
  const handle = openSync(file, 'r+')
  for (let at = 0; at + 61 <= bytes.length; ) {
    const batch = bytes.subarray(at, at + 12 + bytes.readInt32BE(at + 8))
    if (batch.includes('codec')) {
      // KIP-98: attributes at 21, whose last three bits are the codec; the CRC at 17 is of all from there on.
      batch.writeInt16BE(5, 21)
      batch.writeUInt32BE(crc32c(batch.subarray(21)), 17)
    }
    if (batch.includes('damaged')) batch.write('D', batch.indexOf('damaged'))
    writeSync(handle, batch, 0, batch.length, at)
    at += batch.length
  }
  closeSync(handle)
}

/** CRC-32C (RFC 3720, appendix B.4), bit by bit. */
function crc32c(bytes: Buffer): number {
  let crc = -1
  for (const byte of bytes) {
    crc ^= byte
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (0x82f63b78 & -(crc & 1))
  }
  return ~crc >>> 0
}
