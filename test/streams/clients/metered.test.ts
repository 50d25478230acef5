import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import t from 'tap'
import { WebSocket } from 'ws'
import type { DeliveryOptions } from '../../../streams/options.ts'
import { gateway, rights, withKey } from '../../helpers/gateway.ts'
import { redisServer } from '../../helpers/redis.ts'
import { post, sse, streamApi, streamsOn, until as untilSlow } from '../../helpers/streamClients.ts'
import { until } from '../produce/front.ts'
import { item, type Stand, stand } from './stand.ts'

/** A quota that is asked elsewhere: it answers a charge when it is told to. */
class Elsewhere {
  left: number
  readonly charged: number[] = []
  readonly #open: (() => void)[] = []

  constructor(left: number) {
    this.left = left
  }

  readonly charge = (units: number): Promise<number> => {
    this.charged.push(units)
    return new Promise(resolve => this.#open.push(() => resolve(this.#take(units))))
  }

  /** A charge that is refused is spent as well. */
  #take(units: number): number {
    this.left -= units
    return this.left < 0 ? -1 : this.left
  }

  /** The oldest charge is answered, and what follows from it has happened. */
  async answer(): Promise<void> {
    this.#open.shift()!()
    await new Promise(setImmediate)
  }

  async answerAll(): Promise<void> {
    while (this.#open.length > 0) await this.answer()
  }
}

interface Reader {
  /** Messages, `gap`, and `END`. */
  readonly got: string[]
  leave(): void
}

type Kind = 'stream' | 'websocket'
const KINDS: readonly Kind[] = ['stream', 'websocket']

async function open(kind: Kind, server: Stand): Promise<Reader> {
  const before = server.seats.length
  const reader = await (kind === 'stream' ? eventSource(server) : webSocket(server))
  await until(() => server.seats[before]?.readies === 1)
  return reader
}

async function eventSource(server: Stand): Promise<Reader> {
  const asked = get(`${server.url}/s`)
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  const got: string[] = []
  let rest = ''
  answer.setEncoding('utf8')
  answer.on('error', () => {})
  answer.on('data', (text: string) => {
    const events = (rest + text).split('\n\n')
    rest = events.pop()!
    for (const event of events)
      if (event.includes('event: svc-gap')) got.push('gap')
      else if (!event.includes('event:') && event.includes('data: ')) got.push(event.split('data: ')[1]!)
  })
  answer.on('end', () => got.push('END'))
  return { got, leave: () => void asked.destroy() }
}

async function webSocket(server: Stand): Promise<Reader> {
  const socket = new WebSocket(`ws://127.0.0.1:${server.port}/ws`, ['svc.stream.v1'])
  const got: string[] = []
  socket.on('message', (data: Buffer) => {
    const frame = JSON.parse(String(data))
    got.push(frame.type === 'msg' ? frame.value : frame.type)
  })
  socket.on('close', () => got.push('END'))
  await once(socket, 'open')
  return { got, leave: () => socket.terminate() }
}

const names = (count: number, from = 0) => Array.from({ length: count }, (_, i) => `m${from + i}`)
const items = (count: number, from = 0) => names(count, from).map(name => item(name))
const byMessage: Partial<DeliveryOptions> = { count: 'message' }

t.test('nothing goes out before it is covered, and what came meanwhile is one charge', async t => {
  for (const kind of KINDS) {
    const quota = new Elsewhere(100_000)
    const server = await stand(t, kind, { options: byMessage, charge: quota.charge })
    const { got, leave } = await open(kind, server)
    const seat = server.seats[0]!
    t.equal(seat.give(...items(10)), 10)
    seat.giveAll(...items(20, 10))
    t.same(quota.charged, [1])
    await quota.answer()
    await until(() => got.length === 1)
    t.same(quota.charged, [1, 29])
    t.equal(seat.written, 1)
    await quota.answer()
    await until(() => got.length === 30 && seat.written === 30)
    t.same(got, names(30))
    t.same(quota.charged, [1, 29])
    leave()
  }
})

t.test('what remains of a quota is delivered to the last unit, whoever of the key gets it', async t => {
  for (const kind of KINDS)
    for (const [left, clients] of [
      [0, 1],
      [5, 1],
      [20, 3],
      [600, 4]
    ] as const) {
      const quota = new Elsewhere(left)
      const server = await stand(t, kind, { options: byMessage, charge: quota.charge })
      const readers: Reader[] = []
      for (let i = 0; i < clients; i++) readers.push(await open(kind, server))
      for (const seat of server.seats) for (let i = 0; i < left + 5; i += 50) seat.giveAll(...items(50, i))
      await quota.answerAll()
      await until(() => readers.every(({ got }) => got.at(-1) === 'END') && server.lines.length === clients)
      const all = readers.map(({ got }) => got.slice(0, -1))
      for (const got of all) t.same(got, names(got.length))
      t.equal(all.flat().length, left)
      t.equal(
        server.seats.reduce((sum, { written }) => sum + written, 0),
        left
      )
      for (const { reason } of server.lines) t.equal(reason, 'quota')
    }
})

t.test('bytes are charged together as well, and a message that does not fit ends it', async t => {
  const [small, large] = ['small', 'l'.repeat(2000)]
  const quota = new Elsewhere(1_000_000)
  const server = await stand(t, 'stream', { options: { count: 'byte' }, charge: quota.charge })
  const { got } = await open('stream', server)
  server.seats[0]!.give(item(small), item(large), item(small), item(small))
  await quota.answer()
  await until(() => quota.charged.length === 2)
  const [first, second] = quota.charged
  t.ok(second! > first! + 2000 && second! < 2 * first! + 2500, 'a large one with those that fit')
  quota.left = second! - 1
  await quota.answer()
  await until(() => got.includes('END'))
  t.same(got, [small, 'END'])
})

t.test('what costs nothing keeps its place', async t => {
  for (const kind of KINDS) {
    const quota = new Elsewhere(1_000)
    const server = await stand(t, kind, { options: byMessage, charge: quota.charge })
    const { got, leave } = await open(kind, server)
    const seat = server.seats[0]!
    seat.give(item('m0'), item('m1'))
    seat.client.gap(3, 'c8')
    seat.give(item('m2'))
    await new Promise(setImmediate)
    t.same(got, [])
    await quota.answerAll()
    await until(() => got.length === 4 && seat.written === 3)
    t.same(got, ['m0', 'm1', 'gap', 'm2'])
    t.same(quota.charged, [1, 2])
    leave()
  }
})

t.test('a client holds no more than its queue, and says when there is room again', async t => {
  const queues: [Partial<DeliveryOptions['queue']>, number][] = [
    [{ messages: 4 }, 4],
    [{ bytes: 100 }, 5]
  ]
  for (const [bounds, count] of queues) {
    const quota = new Elsewhere(100_000)
    const queue = { messages: 1_000, bytes: 1_000_000, policy: 'disconnect' as const, ...bounds }
    const server = await stand(t, 'stream', { options: { ...byMessage, queue }, charge: quota.charge })
    const { got, leave } = await open('stream', server)
    const seat = server.seats[0]!
    t.equal(seat.give(...items(10)), count)
    seat.client.gap(6, 'c8')
    const { readies } = seat
    await quota.answerAll()
    await until(() => seat.readies > readies && seat.client.hasRoom())
    await until(() => got.length === count + 1)
    t.same(got, [...names(count), 'gap'])
    leave()
  }
})

t.test('a connection that ends while a charge is open gets nothing more, and charges nothing more', async t => {
  for (const kind of KINDS)
    for (const isLeft of [true, false]) {
      const quota = new Elsewhere(1_000)
      const server = await stand(t, kind, { options: byMessage, charge: quota.charge })
      const { got, leave } = await open(kind, server)
      const seat = server.seats[0]!
      seat.give(...items(3))
      if (isLeft) leave()
      else seat.client.close('age')
      if (isLeft) await until(() => seat.leaves === 1)
      t.notOk(seat.client.hasRoom())
      await quota.answerAll()
      await until(() => seat.leaves === 1 && server.lines.length === 1)
      t.same(quota.charged, [1])
      t.same(
        got.filter(name => name !== 'END'),
        []
      )
      t.equal(seat.written, 0)
      t.match(server.lines[0], { reason: isLeft ? 'left' : 'age', messages: 0 })
    }
})

t.test('a charge that nobody can answer ends the connection, and nothing behind it is delivered', async t => {
  for (const kind of KINDS) {
    let count = 0
    const charge = () => (count++ < 2 ? Promise.resolve(9) : Promise.reject(new Error('away')))
    const server = await stand(t, kind, { options: byMessage, charge })
    const { got } = await open(kind, server)
    server.seats[0]!.give(...items(4))
    await until(() => got.includes('END') && server.lines.length === 1)
    t.same(
      got.filter(name => name !== 'error'),
      ['m0', 'm1', 'END']
    )
    t.match(server.lines[0], { reason: 'fault', messages: 2 })
  }
})

t.test('counters that answer now and then at once leave the order as it is', async t => {
  let left = 40
  const charge = (units: number) => {
    left -= units
    const told = left < 0 ? -1 : left
    return left % 3 === 0 ? told : Promise.resolve(told)
  }
  const server = await stand(t, 'stream', { options: byMessage, charge })
  const { got } = await open('stream', server)
  for (let i = 0; i < 60 && server.seats[0]!.give(...items(6, i)) > 0; i += 6) if (i % 4 === 0) await null
  await until(() => got.includes('END'))
  t.same(got, [...names(40), 'END'])
})

t.test('a quota that is counted in Redis delivers as much as it covers', async t => {
  const redis = await redisServer(t)
  const storage = { documents: { type: 'memory' }, counters: { type: 'redis', url: redis.url } }
  const feed = (id: string, mode: string) =>
    streamApi(
      id,
      {
        in: {
          input: { http_server: { path: '/in' } },
          output: { kafka: { addresses: ['memory://metered'], topic: id } }
        },
        out: {
          input: { kafka: { addresses: ['memory://metered'], topics: [id], consumer_group: id } },
          output: { http_server: { stream_path: '/sse', mode, count: 'message' } }
        }
      },
      { server: withKey }
    )
  const gw = await gateway(t, {
    settings: streamsOn({}, { storage }),
    apis: [feed('all', 'broadcast'), feed('turn', 'group')]
  })
  for (const id of ['all', 'turn']) {
    const sender = { Authorization: await gw.key(rights(id)) }
    const few = { Authorization: await gw.key({ ...rights(id), quota_max: 50, quota_renewal_rate: 3600 }) }
    const clients = []
    for (let i = 0; i < 6; i++) clients.push(await sse(t, gw, `/${id}/sse`, few))
    const answers = await Promise.all(Array.from({ length: 300 }, (_, i) => post(gw, `/${id}/in`, `${i}`, sender)))
    t.ok(answers.every(({ status }) => status === 200))
    await Promise.all(clients.map(({ ended }) => ended))
    const texts = clients.flatMap(client => client.texts())
    t.equal(clients.length + texts.length, 50, id)
    for (const { events } of clients) t.match(events.at(-1), { event: 'svc-error', data: /"quota"/ })
    if (id !== 'turn') continue
    const other = await sse(t, gw, '/turn/sse', sender)
    await untilSlow(() => other.texts().length >= 256, 'the others')
    t.equal(new Set([...texts, ...other.texts()]).size, 300, 'what was held is with another')
  }
})
