import { once } from 'node:events'
import t from 'tap'
import { WebSocket } from 'ws'
import type { Message, Placed } from '../../../streams/message.ts'
import { Undelivered } from '../../../streams/undelivered.ts'
import { front, type Said, until } from './front.ts'
import { made, type Wanted } from './sink.ts'

async function serving(t: Parameters<typeof front>[0], want: Wanted = {}, said: Said = {}) {
  const all = made(want)
  const server = await front(t, call => all.producer.websocket(call), said)
  async function opened(protocols: string[] = [], headers: Record<string, string> = {}) {
    const socket = new WebSocket(`ws://127.0.0.1:${server.port}/post/ws`, protocols, { headers })
    const got: string[] = []
    const closes: [number, string][] = []
    socket.on('message', (data, isBinary) => got.push(`${isBinary ? 'binary ' : ''}${data}`))
    socket.on('error', () => {})
    socket.on('close', (code, reason) => closes.push([code, String(reason)]))
    t.teardown(() => socket.terminate())
    await once(socket, 'open')
    return { socket, got, closes }
  }
  return { ...all, server, opened }
}

const V1 = ['svc.stream.v1']

t.test('each frame is a message, text or binary, empty or not, in its order', async t => {
  const { opened, sink, producer } = await serving(t, {}, { secretHeaders: ['x-key'] })
  const { socket, got } = await opened([], { 'X-Request-Id': 'r', Authorization: 'x', 'X-Key': 'x' })
  const bodies = ['one', Buffer.from([0, 255]), '', 'four']
  for (const body of bodies) socket.send(body)
  await until(() => producer.produced() === 4)
  t.same(
    sink.messages.map(({ value }) => value),
    bodies.map(body => Buffer.from(body))
  )
  t.same(sink.messages[0]!.headers, [['x-request-id', Buffer.from('r')]])
  t.same(got, [], 'without the subprotocol nothing is said of what went well')
})

t.test('the welcome is a text, and a frame that is too long ends the connection with 1009', async t => {
  const options = { ws_welcome_message: 'hello $svc_context.who', max_body: 100 }
  const { opened, sink, log } = await serving(t, { options }, { variables: { 'svc_context.who': 'you' } })
  const { socket, got, closes } = await opened()
  await until(() => got.length === 1)
  t.same(got, ['hello you'])
  socket.send('x'.repeat(101))
  await until(() => closes.length === 1)
  t.equal(closes[0]![0], 1009)
  await until(() => log.length === 1)
  t.match(log[0]!.fields, { reason: 'protocol', messages: 0, bytes: 0 })
  t.equal(sink.messages.length, 0)
})

t.test('a frame that fails is told, and those behind it go on', async t => {
  const { opened, sink } = await serving(t)
  const faults: Record<string, Undelivered> = {
    down: new Undelivered('unavailable', 'secret'),
    lost: new Undelivered('unknown', 'secret'),
    odd: new Undelivered('invalid', 'no id')
  }
  sink.behave = ([message]) => {
    const fault = faults[String(message!.value)]
    if (fault !== undefined) throw fault
    return [null]
  }
  const { socket, got } = await opened()
  for (const body of ['down', 'fine', 'lost', 'odd']) socket.send(body)
  await until(() => got.length === 3)
  t.match(
    got.map(text => JSON.parse(text)),
    [
      { type: 'error', code: 'broker_unavailable', retry: true },
      { type: 'error', code: 'delivery_unknown', retry: false },
      { type: 'error', code: 'message_invalid', message: 'no id', retry: false }
    ]
  )
  t.notOk(got.join().includes('secret'))
})

t.test('with the subprotocol every frame is answered, in the order of the frames', async t => {
  const process = [(message: Message) => (String(message.value) === 'drop' ? null : message)]
  const { opened, sink } = await serving(t, { process })
  const settle: ((placed: readonly (Placed | null)[]) => void)[] = []
  sink.behave = () => new Promise(resolve => settle.push(resolve))
  const { socket, got } = await opened(V1)
  for (const body of ['a', 'drop', 'b']) socket.send(body)
  await until(() => settle.length === 2)
  settle[1]!([null])
  settle[0]!([{ topic: 't', partition: 2, offset: 9, timestamp: 5 }])
  await until(() => got.length === 3)
  t.same(
    got.map(text => JSON.parse(text)),
    [
      { type: 'ok', topic: 't', partition: 2, offset: 9, timestamp: 5 },
      { type: 'ok', filtered: true },
      { type: 'ok', delivered: true }
    ]
  )
})

t.test('a client that sends more than can be under way is not read until there is room', async t => {
  const { opened, sink, producer, budget } = await serving(t)
  const settle: ((placed: readonly null[]) => void)[] = []
  sink.behave = () => new Promise(resolve => settle.push(resolve))
  const { socket } = await opened()
  const count = 3000
  for (let i = 0; i < count; i++) socket.send(Buffer.alloc(1000, i))
  await until(() => settle.length === 64 && socket.bufferedAmount === 0)
  t.ok(budget.used < 1_500_000, 'what is here is bounded')
  let most = 0
  for (let done = 0; done < count; done++) {
    await until(() => settle.length > done)
    most = Math.max(most, settle.length - done)
    settle[done]!([null])
  }
  t.equal(most, 64)
  await until(() => producer.produced() === count)
  t.same(
    sink.messages.map(({ value }) => value![0]),
    Array.from({ length: count }, (_, i) => i % 256)
  )
  t.equal(budget.used, 0)
})

t.test('thousands of frames that are filtered out in one read do no harm', async t => {
  const { opened, sink } = await serving(t, { process: [message => (message.value!.length === 1 ? null : message)] })
  const settle: ((placed: readonly null[]) => void)[] = []
  sink.behave = () => new Promise(resolve => settle.push(resolve))
  const { socket, got } = await opened(V1)
  for (let i = 0; i < 64; i++) socket.send('long')
  for (let i = 0; i < 20_000; i++) socket.send('x')
  await until(() => settle.length === 64)
  for (const one of settle) one([null])
  await until(() => got.length === 20_064)
  t.equal(sink.messages.length, 64)
})

t.test('a connection that shows no sign of life is ended, one that answers pings is not', async t => {
  const { opened, clock } = await serving(t)
  const alive = await opened()
  const dead = new WebSocket(alive.socket.url, { autoPong: false })
  dead.on('error', () => {})
  await once(dead, 'open')
  let pings = 0
  alive.socket.on('ping', () => pings++)
  const closed = once(dead, 'close')
  for (let i = 1; i <= 3; i++) {
    await clock.waiting(25_000)
    await clock.move(25_000)
    await until(() => pings === i)
  }
  await closed
  t.same(alive.closes, [])
})

t.test('each reason to end has its close code', async t => {
  const cases = [
    ['key', 1008],
    ['quota', 4429],
    ['disabled', 1001],
    ['changed', 1012],
    ['stopping', 1012]
  ] as const
  for (const [why, code] of cases) {
    const { opened, connections, server, log } = await serving(t)
    const { closes } = await opened()
    t.equal(connections.count, 1)
    connections.end(() => true, why)
    await until(() => closes.length === 1 && server.closed === 1)
    t.same(closes, [[code, why]])
    t.equal(connections.count, 0)
    t.match(log, [{ msg: 'stream connection ended', fields: { reason: why } }])
  }
})

t.test('what is under way is answered before a producer that closes ends the connection', async t => {
  const { opened, sink, producer } = await serving(t)
  let settle = (_: readonly null[]) => {}
  sink.behave = () => new Promise<readonly null[]>(resolve => (settle = resolve))
  const { socket, got, closes } = await opened(V1)
  socket.send('a')
  await until(() => sink.messages.length === 1)
  const closed = producer.close('stopping', 0)
  socket.send('b')
  await new Promise(resolve => socket.ping(undefined, undefined, resolve))
  settle([null])
  await closed
  await until(() => closes.length === 1)
  t.same(closes, [[1012, 'stopping']])
  t.equal(got.length, 1)
  t.equal(sink.messages.length, 1)
})

t.test('connections are closed one after the other over the time given', async t => {
  const { opened, producer, clock } = await serving(t)
  const all = await Promise.all(Array.from({ length: 4 }, () => opened()))
  const closed = producer.close('changed', 8000)
  const ended = () => all.filter(({ closes }) => closes.length > 0).length
  for (let i = 1; i <= 4; i++) {
    await until(() => ended() === i)
    t.equal(ended(), i)
    await clock.move(2000)
  }
  await closed
})

t.test('who is one too many, or comes when it closes, is refused before the handshake', async t => {
  const { opened, producer, server, connections } = await serving(t)
  const all = await Promise.all(Array.from({ length: 100 }, () => opened()))
  const refused = new WebSocket(all[0]!.socket.url)
  const [error] = await once(refused, 'error')
  t.match(String(error), '503')
  t.same(server.refused, ['stream_clients'])
  const wrong = await fetch(server.url)
  t.equal(wrong.status, 503)
  all[0]!.socket.close()
  await until(() => connections.count === 99)
  t.equal((await fetch(server.url)).status, 426)
  t.equal(connections.count, 99, 'a refused handshake holds no place')
  void producer.close('stopping', 0)
  t.equal((await fetch(server.url)).status, 503)
})
