import { once } from 'node:events'
import { Agent, get, type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import t from 'tap'
import type { Ending } from '../../../streams/hub/hub.ts'
import type { DeliveryOptions } from '../../../streams/options.ts'
import { nos } from '../../../streams/refusals.ts'
import { until } from '../produce/front.ts'
import { item, type Stand, stand } from './stand.ts'

interface Source {
  readonly answer: IncomingMessage
  readonly text: () => string
  readonly bytes: () => Buffer
  readonly events: EventSourceMessage[]
  readonly retries: number[]
  /** Behind what the stream begins with. */
  readonly rest: () => string
  readonly hasEnded: () => boolean
}

const OPENING = 'retry: 2000\n\n:\n\n'

async function open(server: Stand, path = '/s', headers: Record<string, string> = {}, agent?: Agent): Promise<Source> {
  const asked = get(`${server.url}${path}`, { headers, agent })
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  const chunks: Buffer[] = []
  const events: EventSourceMessage[] = []
  const retries: number[] = []
  let hasEnded = false
  const parser = createParser({ onEvent: event => events.push(event), onRetry: ms => retries.push(ms) })
  const decoder = new TextDecoder()
  answer.on('data', (chunk: Buffer) => {
    chunks.push(chunk)
    parser.feed(decoder.decode(chunk, { stream: true }))
  })
  answer.on('end', () => {
    hasEnded = true
  })
  answer.on('error', () => {})
  const bytes = () => Buffer.concat(chunks)
  const text = () => bytes().toString()
  return {
    answer,
    text,
    bytes,
    events,
    retries,
    rest: () => text().slice(OPENING.length),
    hasEnded: () => hasEnded
  }
}

t.test('on a quiet topic the head, the retry hint and a comment are there at once', async t => {
  const server = await stand(t, 'stream')
  const source = await open(server)
  await until(() => source.text() === OPENING)
  const { headers } = source.answer
  t.equal(source.answer.statusCode, 200)
  t.equal(headers['content-type'], 'text/event-stream')
  t.match(headers['cache-control'], /no-cache.*no-transform/)
  t.equal(headers['x-accel-buffering'], 'no')
  t.equal(headers['x-of-the-api'], 'yes', 'the API’s own heads')
  t.equal(headers['content-length'], undefined)
  t.same(source.retries, [2000])
  t.equal(server.seats[0]!.readies, 1)
})

t.test('padding comes to those who ask for it in their address', async t => {
  const source = await open(await stand(t, 'stream'), '/s?padding=1')
  await until(() => source.rest() === `:${' '.repeat(2049)}\n\n`)
})

t.test('without a retry hint only the comment comes', async t => {
  const source = await open(await stand(t, 'stream', { options: { retryMs: 0 } }))
  await until(() => source.text() === ':\n\n')
})

t.test('any payload comes out of an event source as it went in', async t => {
  const server = await stand(t, 'stream')
  const source = await open(server)
  const big = 'x'.repeat(1_048_576)
  // CR and CRLF part lines in this format as LF does, so they come out as LF.
  const cases: [given: string, wire: string, parsed: string][] = [
    ['plain', 'data: plain\n', 'plain'],
    ['', 'data: \n', ''],
    ['a\nb', 'data: a\ndata: b\n', 'a\nb'],
    ['a\r\nb\rc', 'data: a\ndata: b\ndata: c\n', 'a\nb\nc'],
    ['\r', 'data: \ndata: \n', '\n'],
    ['a\n', 'data: a\ndata: \n', 'a\n'],
    [' led by a space', 'data:  led by a space\n', ' led by a space'],
    [
      'x\n\nid: forged\nevent: forged\n\n',
      'data: x\ndata: \ndata: id: forged\ndata: event: forged\ndata: \ndata: \n',
      ''
    ],
    ['nul \0 inside', 'data: nul \0 inside\n', 'nul \0 inside'],
    ['\ufeffmark', 'data: \ufeffmark\n', '\ufeffmark'],
    ['grüße 😀 \u2028', 'data: grüße 😀 \u2028\n', 'grüße 😀 \u2028'],
    ['data: twice', 'data: data: twice\n', 'data: twice'],
    [big, `data: ${big}\n`, big]
  ]
  cases[7]![2] = cases[7]![0]
  let expected = ''
  for (const [given, wire] of cases) {
    await until(() => server.seats[0]!.client.hasRoom())
    server.seats[0]!.give(item(given))
    expected += `id: c7\n${wire}\n`
  }
  await until(() => source.rest().length >= expected.length)
  t.ok(source.rest() === expected)
  t.same(
    source.events.map(event => event.data),
    cases.map(([, , parsed]) => parsed)
  )
  t.ok(source.events.every(event => event.id === 'c7' && event.event === undefined))
  t.equal(server.seats[0]!.written, cases.length)
})

t.test('names of events come from topic, key or header, and cannot forge anything', async t => {
  const key = (text: string) => ({ key: Buffer.from(text) })
  const header = (name: string, value: string) => ({ headers: [[name, Buffer.from(value)]] as const })
  const binary = Buffer.from([0xff, 0xfe])
  const cases: [eventFrom: string, given: Parameters<typeof item>, wire: string][] = [
    ['none', ['v', key('k')], 'data: v\n'],
    ['topic', ['v'], 'event: orders\ndata: v\n'],
    ['key', ['v', key('k1')], 'event: k1\ndata: v\n'],
    ['key', ['v', key('a\nid: x\r\n\0b')], 'event: aid: xb\ndata: v\n'],
    ['key', ['v', key('\r\n')], 'data: v\n'],
    ['key', ['v'], 'data: v\n'],
    ['key', ['v', { key: binary }], 'event: //4=\ndata: v\n'],
    ['key', ['v', key('svc-error')], 'data: v\n'],
    ['key', ['v', key('\0svc-gap')], 'data: v\n'],
    ['key', [null, key('k1')], 'event: delete\ndata: \n'],
    ['none', [null, key('k1')], ''],
    ['header:X-Kind', ['v', header('x-kind', 'made')], 'event: made\ndata: v\n'],
    ['header:x-kind', ['v', header('X-KIND', 'made')], 'event: made\ndata: v\n'],
    ['header:x-kind', ['v', header('other', 'made')], 'data: v\n'],
    ['key', [binary, key('k1')], 'event: binary\ndata: //4=\n'],
    ['none', ['v', { cursor: null }], 'data: v\n']
  ]
  for (const [eventFrom, given, wire] of cases) {
    const server = await stand(t, 'stream', { options: { eventFrom } })
    const source = await open(server)
    server.seats[0]!.give(item(...given))
    await until(() => server.seats[0]!.written === 1)
    server.seats[0]!.give(item('last'))
    const id = given[1]?.cursor === null ? '' : 'id: c7\n'
    const expected = wire === '' ? '' : `${id}${wire}\n`
    await until(() => source.text().includes('data: last\n\n'))
    t.ok(source.rest().startsWith(expected) && source.rest().indexOf('data: last') < expected.length + 30, eventFrom)
    source.answer.destroy()
  }
})

t.test('payloads that are no text go in base64, are left out, or leave an error in their place', async t => {
  const cases: [DeliveryOptions['payload'], string][] = [
    ['base64', 'id: c7\nevent: binary\ndata: //4=\n\n'],
    ['drop', ''],
    ['error', 'id: c7\nevent: svc-error\ndata: {"code":"payload_not_text","retry_after":null}\n\n']
  ]
  for (const [payload, wire] of cases) {
    const server = await stand(t, 'stream', { options: { payload } })
    const source = await open(server)
    server.seats[0]!.give(item(Buffer.from([0xff, 0xfe])), item('after'))
    await until(() => source.rest() === `${wire}id: c7\ndata: after\n\n`)
    t.equal(server.seats[0]!.written, 2, payload)
  }
})

t.test('an envelope is one line of JSON', async t => {
  const server = await stand(t, 'stream', { options: { envelope: true, eventFrom: 'key' } })
  const source = await open(server)
  server.seats[0]!.give(item('a\nb', { key: Buffer.from('k') }), item(null, { key: Buffer.from('k') }))
  await until(() => source.events.length === 2)
  const about = { id: 'c7', topic: 'orders', partition: 2, offset: 7, ts: 1_900_000_000_000, key: 'k', headers: {} }
  t.same(JSON.parse(source.events[0]!.data), { ...about, value: 'a\nb' })
  t.equal(source.events[1]!.event, 'delete')
  t.same(JSON.parse(source.events[1]!.data), { ...about, value: null })
})

t.test('what is shared by all goes out together', async t => {
  const server = await stand(t, 'stream')
  const sources = [await open(server), await open(server)]
  const items = [item('one'), item(null), item('two', { offset: 8 })]
  for (const seat of server.seats) seat.giveAll(...items)
  for (const source of sources) await until(() => source.rest() === 'id: c7\ndata: one\n\nid: c8\ndata: two\n\n')
  t.same(
    server.seats.map(seat => seat.written),
    [3, 3]
  )
  t.equal(items[0]!.encoded.filter(bytes => bytes !== undefined).length, 1, 'made once')
})

t.test('a gap is an event of its own', async t => {
  const server = await stand(t, 'stream')
  const source = await open(server)
  server.seats[0]!.give(item('one'))
  server.seats[0]!.client.gap(5, 'c12')
  server.seats[0]!.client.gap(-1, 'c13')
  server.seats[0]!.give(item('two', { offset: 13 }))
  server.seats[0]!.client.gap(1, '')
  await until(() => source.events.length === 5)
  t.equal(
    source.rest(),
    'id: c7\ndata: one\n\nid: c12\nevent: svc-gap\ndata: {"missed":5}\n\nid: c13\nevent: svc-gap\ndata: {"missed":null}\n\nid: c13\ndata: two\n\nevent: svc-gap\ndata: {"missed":1}\n\n'
  )
  t.equal(server.seats[0]!.written, 2)
})

t.test('each ending says what it is, and the connection can be used again', async t => {
  const cases: [Ending, string][] = [
    ['key', 'event: svc-error\ndata: {"code":"key","retry_after":null}\n\n'],
    ['quota', 'event: svc-error\ndata: {"code":"quota","retry_after":null}\n\n'],
    ['disabled', 'event: svc-error\ndata: {"code":"disabled","retry_after":null}\n\n'],
    ['slow', 'event: svc-error\ndata: {"code":"slow","retry_after":1}\n\n'],
    ['fault', 'event: svc-error\ndata: {"code":"fault","retry_after":5}\n\n'],
    ['stopping', 'retry: 2750\n\n'],
    ['changed', 'retry: 2750\n\n'],
    ['age', 'retry: 2750\n\n']
  ]
  const server = await stand(t, 'stream')
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const sockets = new Set<unknown>()
  for (const [why, wire] of cases) {
    const source = await open(server, '/s', {}, agent)
    sockets.add(source.answer.socket)
    const seat = server.seats.at(-1)!
    seat.client.close(why)
    seat.client.close('fault')
    t.equal(seat.give(item('late')), 0)
    await until(() => source.hasEnded() && seat.leaves === 1)
    t.equal(source.rest(), wire)
    const line = server.lines.at(-1)!
    t.equal(line.reason, why)
    t.equal(line.bytes, server.sent.at(-1))
  }
  t.equal(sockets.size, 1)
  t.equal(server.connections.count, 0)
  t.ok(server.seats.every(seat => seat.leaves === 1))
})

t.test('a client that is closed before its head is out gets head and ending', async t => {
  const server = await stand(t, 'stream', { served: connections => connections.end(() => true, 'key') })
  const { hasEnded, rest } = await open(server)
  await until(hasEnded)
  t.equal(rest(), 'event: svc-error\ndata: {"code":"key","retry_after":null}\n\n')
})

t.test('a client that leaves gives back its places once, and one line is logged', async t => {
  const server = await stand(t, 'stream')
  const source = await open(server)
  server.seats[0]!.give(item('one'))
  await until(() => source.events.length === 1)
  t.equal(server.connections.count, 1)
  await server.clock.move(1500)
  source.answer.destroy()
  await until(() => server.seats[0]!.leaves === 1)
  t.equal(server.connections.count, 0)
  t.same(server.lines, [
    {
      api_id: 'api1',
      stream: 'orders',
      transport: 'sse',
      client: '127.0.0.1',
      duration_ms: 1500,
      messages: 1,
      bytes: server.sent[0],
      reason: 'left'
    }
  ])
  server.seats[0]!.client.close('stopping')
  t.equal(server.seats[0]!.give(item('late')), 0)
  t.equal(server.seats[0]!.leaves, 1)
  t.equal(server.lines.length, 1)
})

t.test('only idle clients get heartbeats', async t => {
  const server = await stand(t, 'stream', { options: { heartbeatMs: 15_000 } })
  const source = await open(server)
  await until(() => source.text() === OPENING)
  await server.clock.move(14_000)
  server.seats[0]!.give(item('one'))
  await until(() => source.events.length === 1)
  await server.clock.move(14_000)
  t.notMatch(source.rest(), /^:/m)
  await server.clock.move(1600)
  await until(() => source.rest() === 'id: c7\ndata: one\n\n:\n\n')
  await server.clock.move(15_600)
  await until(() => source.rest().endsWith(':\n\n:\n\n'))
})

t.test('a connection ends with its age', async t => {
  const server = await stand(t, 'stream', { options: { maxAgeMs: 60_000, heartbeatMs: 0 } })
  const source = await open(server)
  await server.clock.move(59_000)
  t.notOk(source.hasEnded())
  await server.clock.move(2000)
  await until(() => source.hasEnded())
  t.match(server.lines[0], { reason: 'age' })
})

t.test('raw streams are values with line feeds, unless the client accepts event streams', async t => {
  const server = await stand(t, 'stream', { options: { isRaw: true } })
  const raw = await open(server)
  t.equal(raw.answer.headers['content-type'], 'application/octet-stream')
  const value = Buffer.from([0xff, 10, 0])
  server.seats[0]!.give(item(value), item(null), item('two'))
  await until(() => raw.bytes().equals(Buffer.concat([value, Buffer.from('\ntwo\n')])))
  t.equal(server.seats[0]!.written, 3)
  const events = await open(server, '/s', { accept: 'text/html, Text/Event-Stream;q=0.9' })
  t.equal(events.answer.headers['content-type'], 'text/event-stream')
  server.seats[0]!.client.close('age')
  await until(() => raw.hasEnded())
})

t.test('raw streams of envelopes are lines of JSON', async t => {
  const server = await stand(t, 'stream', { options: { isRaw: true, envelope: true } })
  const raw = await open(server)
  t.equal(raw.answer.headers['content-type'], 'application/x-ndjson')
  server.seats[0]!.give(item('one'))
  server.seats[0]!.client.gap(2, 'c9')
  await until(() => raw.text().split('\n').length === 3)
  const [message, gap] = raw
    .text()
    .split('\n')
    .slice(0, 2)
    .map(line => JSON.parse(line))
  t.match(message, { id: 'c7', value: 'one' })
  t.same(gap, { type: 'gap', missed: 2, id: 'c9' })
})

t.test('an HTTP/1.0 client gets the bare bytes, and the end of the connection', async t => {
  const server = await stand(t, 'stream')
  const socket = connect(server.port, '127.0.0.1')
  let text = ''
  socket.on('data', chunk => {
    text += chunk
  })
  socket.write('GET /s HTTP/1.0\r\n\r\n')
  await until(() => text.endsWith(OPENING))
  server.seats[0]!.give(item('one'))
  await until(() => text.endsWith(`\r\n\r\n${OPENING}id: c7\ndata: one\n\n`))
  t.notMatch(text.toLowerCase(), /transfer-encoding|content-length/)
  server.seats[0]!.client.close('age')
  await once(socket, 'close')
  t.equal(server.seats[0]!.leaves, 1)
})

t.test('HEAD is answered with the head alone, and nobody joins', async t => {
  const server = await stand(t, 'stream')
  const asked = request(`${server.url}/s`, { method: 'HEAD' }).end()
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  answer.resume()
  t.equal(answer.statusCode, 200)
  t.equal(answer.headers['content-type'], 'text/event-stream')
  t.equal(server.seats.length, 0)
})

t.test('a client goes on where it says it was', async t => {
  const broadcast = { mode: 'broadcast', allowSeek: true } as const
  const cases: [Partial<DeliveryOptions>, path: string, header: string, from: unknown][] = [
    [broadcast, '/s', '', null],
    [broadcast, '/s', 'c1', { cursor: 'c1' }],
    [broadcast, '/s?last_event_id=c2', '', { cursor: 'c2' }],
    [broadcast, '/s?lastEventId=c3', '', { cursor: 'c3' }],
    [broadcast, '/s?evs_last_event_id=c4', '', { cursor: 'c4' }],
    [broadcast, '/s?last_event_id=c2', 'c1', { cursor: 'c1' }],
    [broadcast, '/s?from=earliest', '', 'earliest'],
    [broadcast, '/s?from=latest', '', 'latest'],
    [broadcast, '/s?from=earliest', 'c1', { cursor: 'c1' }],
    [broadcast, '/s?from=2026-01-02T03:04:05Z', '', { timestamp: Date.UTC(2026, 0, 2, 3, 4, 5) }],
    [broadcast, '/s?from=2026-01-02T03:04:05+01:00', '', { timestamp: Date.UTC(2026, 0, 2, 2, 4, 5) }],
    [{ mode: 'broadcast', resume: false }, '/s', 'c1', null],
    [{ mode: 'group' }, '/s', 'c1', null],
    [{ mode: 'group', ack: 'client' }, '/s', 'c1', null]
  ]
  for (const [options, path, header, from] of cases) {
    const server = await stand(t, 'stream', { options })
    await open(server, path, header === '' ? {} : { 'last-event-id': header })
    t.same(server.seats[0]!.from, from, `${path} ${header}`)
  }
})

t.test('what cannot be is refused, and nothing is left behind', async t => {
  const cases: [Parameters<typeof stand>[2], path: string, header: string, status: number][] = [
    [{ options: { mode: 'broadcast' } }, '/s?from=earliest', '', 400],
    [{ options: { mode: 'group', allowSeek: true } }, '/s?from=earliest', '', 400],
    [{ options: { mode: 'broadcast', allowSeek: true } }, '/s?from=yesterday', '', 400],
    [{ options: { mode: 'broadcast', allowSeek: true } }, '/s?from=2026-13-41', '', 400],
    [{ no: nos.badCursor }, '/s', '', 400],
    [{ no: nos.tooManyClients }, '/s', '', 503],
    [{ maxClients: 0 }, '/s', '', 503]
  ]
  for (const [wanted, path, header, status] of cases) {
    const server = await stand(t, 'stream', wanted)
    const source = await open(server, path, header === '' ? {} : { 'last-event-id': header })
    await until(() => source.hasEnded())
    t.equal(source.answer.statusCode, status, path)
    t.equal(server.connections.count, 0)
    t.equal(server.seats.length, 0)
  }
})

t.test('messages or bytes are charged one by one; what the quota does not cover is not delivered', async t => {
  for (const count of ['message', 'byte'] as const) {
    const charged: number[] = []
    const charge = (amount: number) => 3 - charged.push(amount)
    const server = await stand(t, 'stream', { options: { count }, charge })
    const source = await open(server)
    server.seats[0]!.give(item('one'), item(null), item('two'))
    await until(() => source.events.length === 2)
    // Chunks: size line, event, line feed.
    const each = count === 'message' ? 1 : Buffer.byteLength('13\r\nid: c7\ndata: one\n\n\r\n')
    t.same(charged, [each, each])
    server.seats[0]!.give(item('six'), item('ten'), item('two'))
    await until(() => source.hasEnded())
    t.equal(source.events.at(-1)!.event, 'svc-error')
    t.same(
      source.events.map(({ data }) => data.slice(0, 3)),
      ['one', 'two', 'six', '{"c']
    )
    t.equal(server.seats[0]!.written, 4)
    t.equal(charged.length, 4)
    t.match(server.lines[0], { reason: 'quota' })
  }
})

/** Opens a stream and reads nothing behind its head. */
async function stopped(server: Stand) {
  const socket = connect(server.port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write('GET /s HTTP/1.1\r\nHost: a\r\n\r\n')
  await once(socket, 'readable')
  await until(() => server.seats.length === 1 && server.seats[0]!.client.hasRoom())
  return socket
}

t.test('a client that stops reading has no room soon, waits for little, and is cut off', async t => {
  const server = await stand(t, 'stream', { options: { writeWaitMs: 10_000 } })
  const socket = await stopped(server)
  const seat = server.seats[0]!
  const value = Buffer.alloc(65_536, 'x')
  let given = 0
  const own = server.calls[0]!.req.socket
  let most = 0
  // The kernel takes some megabytes before anything waits here.
  for (let quiet = 0; quiet < 20; quiet++) {
    while (seat.give(item(value)) === 1) {
      given++
      quiet = 0
      most = Math.max(most, own.writableLength)
    }
    await new Promise(resolve => setImmediate(resolve))
  }
  t.ok(given < 1000, 'it ends somewhere')
  t.ok(most <= 2 * 65_536 + 100, 'at most a full buffer and one message')
  t.ok(seat.written < given)
  // Gaps grow together while nothing is read.
  for (let i = 0; i < 100_000; i++) seat.client.gap(1, `c${i}`)
  t.ok(own.writableLength <= most)
  await server.clock.move(9000)
  t.equal(seat.leaves, 0)
  await server.clock.move(2000)
  await until(() => seat.leaves === 1)
  t.match(server.lines[0], { reason: 'slow' })
  socket.destroy()
})

t.test('a client that reads again gets the rest, the gap and what follows, in order', async t => {
  const server = await stand(t, 'stream')
  const socket = await stopped(server)
  const seat = server.seats[0]!
  const value = Buffer.alloc(65_536, 'x')
  let given = 0
  for (let quiet = 0; quiet < 20; quiet++) {
    while (seat.give(item(value)) === 1) {
      given++
      quiet = 0
    }
    await new Promise(resolve => setImmediate(resolve))
  }
  const { readies } = seat
  seat.client.gap(3, 'c8')
  seat.client.gap(4, 'c9')
  let text = ''
  socket.on('data', chunk => {
    text += chunk.toString('latin1')
  })
  await until(() => seat.readies > readies && seat.written === given)
  seat.give(item('behind', { offset: 10 }))
  await until(() => text.includes('data: behind'))
  t.match(
    text,
    /x\n\n\r\n[0-9a-f]+\r\nid: c9\nevent: svc-gap\ndata: \{"missed":7\}\n\n\r\n[0-9a-f]+\r\nid: c10\ndata: behind/
  )
  t.equal(text.split('id: c7\n').length - 1, given)
  socket.destroy()
})

t.test('an ending does not wait for a client that reads nothing', async t => {
  for (const [why, ms] of [
    ['key', 900],
    ['stopping', 6000]
  ] as const) {
    const server = await stand(t, 'stream', { options: { writeWaitMs: 60_000 } })
    const socket = await stopped(server)
    const seat = server.seats[0]!
    for (let quiet = 0; quiet < 20; quiet++) {
      while (seat.give(item(Buffer.alloc(65_536))) === 1) quiet = 0
      await new Promise(resolve => setImmediate(resolve))
    }
    seat.client.close(why)
    await server.clock.move(ms)
    await until(() => seat.leaves === 1)
    t.match(server.lines[0], { reason: why })
    socket.destroy()
  }
})

t.test('queues of few messages count too', async t => {
  const server = await stand(t, 'stream', {
    options: { queue: { messages: 2, bytes: 1_000_000, policy: 'disconnect' } }
  })
  const source = await open(server)
  t.equal(server.seats[0]!.give(item('1'), item('2'), item('3')), 2)
  await until(() => server.seats[0]!.readies === 2)
  t.equal(server.seats[0]!.give(item('3')), 1)
  await until(() => source.events.length === 3)
})
