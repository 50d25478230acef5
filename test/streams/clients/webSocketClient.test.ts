import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { WebSocket } from 'ws'
import type { Ending } from '../../../streams/hub/hub.ts'
import type { DeliveryOptions } from '../../../streams/options.ts'
import { nos } from '../../../streams/refusals.ts'
import { until } from '../produce/front.ts'
import { item, type Stand, stand } from './stand.ts'

interface Peer {
  readonly socket: WebSocket
  readonly frames: (string | Buffer)[]
  readonly closes: { code: number; reason: string }[]
  readonly pings: () => number
}

const V1 = 'svc.stream.v1'

async function open(server: Stand, protocols: string[] = [], path = '/ws', options = {}): Promise<Peer> {
  const socket = new WebSocket(`ws://127.0.0.1:${server.port}${path}`, protocols, options)
  const frames: (string | Buffer)[] = []
  const closes: { code: number; reason: string }[] = []
  let pings = 0
  socket.on('message', (data: Buffer, isBinary) => frames.push(isBinary ? data : data.toString()))
  socket.on('close', (code, reason) => closes.push({ code, reason: reason.toString() }))
  socket.on('error', () => {})
  socket.on('ping', () => pings++)
  await once(socket, 'open')
  return { socket, frames, closes, pings: () => pings }
}

t.test('a frame is a message: text where it is UTF-8, else binary', async t => {
  const binary = Buffer.from([0xff, 0xfe])
  const cases: [Partial<DeliveryOptions>, (string | Buffer)[]][] = [
    [{}, ['text', '', binary]],
    [{ wsMessageType: 'binary' }, [Buffer.from('text'), Buffer.alloc(0), binary]],
    [{ wsMessageType: 'text' }, ['text', '', '//4=']],
    [{ wsMessageType: 'text', payload: 'drop' }, ['text', '']],
    [{ wsMessageType: 'text', payload: 'error' }, ['text', '', '{"type":"error","code":"payload_not_text","id":"c7"}']]
  ]
  for (const [options, frames] of cases) {
    const server = await stand(t, 'websocket', { options })
    const peer = await open(server)
    server.seats[0]!.give(item('text'), item(''), item(null), item(binary))
    await until(() => peer.frames.length === frames.length && server.seats[0]!.written === 4)
    t.same(peer.frames, frames)
    peer.socket.terminate()
  }
})

t.test('frames of every length arrive whole', async t => {
  const server = await stand(t, 'websocket')
  const peer = await open(server)
  const lengths = [0, 1, 125, 126, 127, 65_535, 65_536, 1_048_576]
  for (const length of lengths) {
    await until(() => server.seats[0]!.client.hasRoom())
    server.seats[0]!.give(item(Buffer.alloc(length, 'x')))
  }
  await until(() => peer.frames.length === lengths.length)
  t.same(
    peer.frames.map(frame => frame.length),
    lengths
  )
  server.seats[0]!.giveAll(item('a'), item('b'))
  await until(() => peer.frames.length === lengths.length + 2)
  t.same(peer.frames.slice(-2), ['a', 'b'])
})

t.test('svc.stream.v1 wraps messages, tells gaps, and takes cumulative acknowledgements', async t => {
  const server = await stand(t, 'websocket', { options: { ack: 'client' } })
  const peer = await open(server, ['other', V1])
  t.equal(peer.socket.protocol, V1)
  const seat = server.seats[0]!
  seat.give(item('one', { key: Buffer.from('k') }))
  seat.client.gap(3, 'c11')
  await until(() => peer.frames.length === 2)
  const [message, gap] = peer.frames.map(frame => JSON.parse(String(frame)))
  t.same(message, {
    type: 'msg',
    id: 'c7',
    topic: 'orders',
    partition: 2,
    offset: 7,
    ts: 1_900_000_000_000,
    key: 'k',
    headers: {},
    value: 'one'
  })
  t.same(gap, { type: 'gap', missed: 3, id: 'c11' })
  peer.socket.send('{"type":"ack","id":"c7"}')
  peer.socket.send('{ "id": "c9", "type": "ack" }')
  await until(() => seat.acknowledged.length === 2)
  t.same(seat.acknowledged, ['c7', 'c9'])
  t.equal(peer.socket.readyState, WebSocket.OPEN)
})

t.test('with `ack: client` a client without the subprotocol gets ids too, and acknowledges the same way', async t => {
  const server = await stand(t, 'websocket', { options: { ack: 'client' } })
  const peer = await open(server)
  t.equal(peer.socket.protocol, '')
  server.seats[0]!.give(item('one'))
  await until(() => peer.frames.length === 1)
  const { id, value } = JSON.parse(String(peer.frames[0]))
  t.equal(value, 'one')
  peer.socket.send('whatever')
  peer.socket.send(JSON.stringify({ type: 'ack', id }))
  await until(() => server.seats[0]!.acknowledged.length === 1)
  t.same(server.seats[0]!.acknowledged, ['c7'])
})

t.test('with `ack: client` what a client never sees is acknowledged behind what it has acknowledged', async t => {
  const server = await stand(t, 'websocket', { options: { ack: 'client', payload: 'drop' } })
  const peer = await open(server, [V1])
  const seat = server.seats[0]!
  const unseen = (offset: number) => item(Buffer.from([0xff]), { offset })
  seat.give(unseen(1))
  await until(() => seat.acknowledged.length === 1)
  seat.give(unseen(2), item('a', { offset: 3 }), item('b', { offset: 4 }), unseen(5))
  await until(() => peer.frames.length === 2 && seat.written === 5)
  t.same(seat.acknowledged, ['c1'])
  peer.socket.send('{"type":"ack","id":"c3"}')
  peer.socket.send('{"type":"ack","id":"c4"}')
  await until(() => seat.acknowledged.length === 4)
  t.same(seat.acknowledged, ['c1', 'c3', 'c4', 'c5'])
  seat.give(unseen(6))
  await until(() => seat.acknowledged.length === 5)
})

t.test('with `envelope` each frame is the envelope, and gaps are told', async t => {
  const server = await stand(t, 'websocket', { options: { envelope: true } })
  const peer = await open(server)
  server.seats[0]!.give(item(Buffer.from([0xff])), item(null))
  server.seats[0]!.client.gap(-1, 'c9')
  await until(() => peer.frames.length === 3)
  const [binary, tombstone, gap] = peer.frames.map(frame => JSON.parse(String(frame)))
  t.match(binary, { id: 'c7', value: '/w==', base64: true })
  t.notOk('type' in binary)
  t.equal(tombstone.value, null)
  t.same(gap, { type: 'gap', missed: null, id: 'c9' })
})

t.test('in svc.stream.v1 a client that says anything else is told so and closed', async t => {
  const cases: [string | Buffer, number][] = [
    ['hello', 1008],
    ['{"type":"ack"}', 1008],
    ['{"type":"ack","id":7}', 1008],
    ['null', 1008],
    ['[]', 1008],
    [Buffer.from('{"type":"ack","id":"c1"}'), 1003]
  ]
  for (const [frame, code] of cases) {
    const server = await stand(t, 'websocket')
    const peer = await open(server, [V1])
    peer.socket.send(frame)
    peer.socket.send(frame)
    await until(() => peer.closes.length === 1 && server.seats[0]!.leaves === 1)
    t.equal(peer.closes[0]!.code, code, String(frame))
    t.equal(peer.frames.length, 1)
    t.match(JSON.parse(String(peer.frames[0])), { type: 'error', code: 'protocol' })
    t.match(server.lines, [{ reason: 'protocol', transport: 'websocket' }])
  }
})

t.test('what a raw client says is passed over, up to 64 KiB a message', async t => {
  const server = await stand(t, 'websocket')
  const peer = await open(server)
  for (let i = 0; i < 50; i++) peer.socket.send('{"type":"ack","id":"c7"}')
  peer.socket.send(Buffer.alloc(65_536))
  server.seats[0]!.give(item('still here'))
  await until(() => peer.frames.length === 1)
  t.same(server.seats[0]!.acknowledged, [])
  peer.socket.send(Buffer.alloc(65_537))
  await until(() => peer.closes.length === 1 && server.seats[0]!.leaves === 1)
  t.equal(peer.closes[0]!.code, 1009)
  t.match(server.lines, [{ reason: 'protocol' }])
})

t.test('each ending has its close code and a reason in JSON', async t => {
  const cases: [Ending, number, number | null][] = [
    ['stopping', 1012, 2.75],
    ['changed', 1012, 2.75],
    ['age', 1001, 2.75],
    ['disabled', 1001, null],
    ['key', 1008, null],
    ['quota', 4429, null],
    ['slow', 1013, 1],
    ['fault', 1011, 5]
  ]
  const server = await stand(t, 'websocket')
  for (const [why, code, retryAfter] of cases) {
    const peer = await open(server)
    const seat = server.seats.at(-1)!
    seat.give(item('last'))
    seat.client.close(why)
    seat.client.close('fault')
    t.equal(seat.give(item('late')), 0)
    await until(() => peer.closes.length === 1 && seat.leaves === 1)
    t.same(peer.frames, ['last'])
    t.equal(peer.closes[0]!.code, code, why)
    t.same(JSON.parse(peer.closes[0]!.reason), { code: why, retry_after: retryAfter })
    t.match(server.lines.at(-1), { reason: why, messages: 1 })
  }
  t.equal(server.connections.count, 0)
})

t.test('nothing follows a client’s close frame', async t => {
  const server = await stand(t, 'websocket')
  const peer = await open(server)
  peer.socket.close(1000)
  await until(() => !server.seats[0]!.client.hasRoom())
  t.equal(server.seats[0]!.give(item('late')), 0)
  await until(() => server.seats[0]!.leaves === 1)
  t.equal(peer.closes[0]!.code, 1000)
  t.same(peer.frames, [])
  t.match(server.lines, [{ reason: 'left' }])
})

t.test('clients are pinged, and one that stays silent is cut off', async t => {
  const server = await stand(t, 'websocket', { options: { pingPeriodMs: 25_000, pongWaitMs: 60_000, maxAgeMs: 0 } })
  const alive = await open(server)
  const silent = await open(server, [], '/ws', { autoPong: false })
  for (let i = 1; i <= 3; i++) {
    await server.clock.move(25_600)
    await until(() => alive.pings() === i)
    // Its pong is on the way: the server's turn.
    for (let turn = 0; turn < 20; turn++) await new Promise(resolve => setImmediate(resolve))
  }
  await until(() => silent.closes.length === 1 && server.seats[1]!.leaves === 1)
  t.match(server.lines, [{ reason: 'silent' }])
  t.equal(alive.closes.length, 0)
  t.equal(server.connections.count, 1)
})

t.test('a client that does not answer the close frame is cut off', async t => {
  const server = await stand(t, 'websocket')
  const socket = connect(server.port, '127.0.0.1')
  socket.on('error', () => {})
  const [key, version] = ['Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==', 'Sec-WebSocket-Version: 13']
  socket.write(
    `GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n${key}\r\n${version}\r\n\r\n`
  )
  await once(socket, 'data')
  server.seats[0]!.client.close('changed')
  await server.clock.move(6000)
  await until(() => server.seats[0]!.leaves === 1)
  t.match(server.lines, [{ reason: 'changed' }])
  socket.destroy()
})

t.test('what cannot be is refused before the upgrade, and nothing is left behind', async t => {
  const cases: [Parameters<typeof stand>[2], path: string, origin: string, status: number][] = [
    [{ no: nos.tooManyClients }, '/ws', '', 503],
    [{ maxClients: 0 }, '/ws', '', 503],
    [{ options: { mode: 'broadcast' } }, '/ws?from=earliest', '', 400],
    [{ isByCookie: true }, '/ws', 'https://evil.example', 403],
    [{ options: { allowedOrigins: ['https://good.example'] } }, '/ws', 'https://evil.example', 403]
  ]
  for (const [wanted, path, origin, status] of cases) {
    const server = await stand(t, 'websocket', wanted)
    const socket = new WebSocket(`ws://127.0.0.1:${server.port}${path}`, origin === '' ? {} : { origin })
    socket.on('error', () => {})
    const [, answer] = await once(socket, 'unexpected-response')
    t.equal(answer.statusCode, status, path)
    answer.resume()
    await until(() => server.connections.count === 0)
    t.ok(server.seats.every(seat => seat.leaves === 1))
    t.same([server.lines, server.sent], [[], []], 'the refusal is logged by whoever refused')
  }
})

t.test('a WebSocket goes on where its address says', async t => {
  const server = await stand(t, 'websocket', { options: { mode: 'broadcast' } })
  await open(server, [V1], '/ws?last_event_id=c5')
  t.same(server.seats[0]!.from, { cursor: 'c5' })
})

t.test('a client that stops reading has no room soon, and is cut off', async t => {
  const server = await stand(t, 'websocket', { options: { writeWaitMs: 10_000 } })
  const peer = await open(server)
  peer.socket.pause()
  const seat = server.seats[0]!
  const own = server.calls[0]!.req.socket
  let given = 0
  for (let quiet = 0; quiet < 20; quiet++) {
    while (seat.give(item(Buffer.alloc(65_536))) === 1) {
      given++
      quiet = 0
    }
    await new Promise(resolve => setImmediate(resolve))
  }
  t.ok(given < 1000)
  t.ok(own.writableLength <= 2 * 65_536 + 100)
  await server.clock.move(11_000)
  await until(() => seat.leaves === 1)
  t.match(server.lines, [{ reason: 'slow' }])
  peer.socket.terminate()
})
