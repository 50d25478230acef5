import { once } from 'node:events'
import { type ClientRequest, get, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http'
import t from 'tap'
import type { Call } from '../../../streams/call.ts'
import { nos } from '../../../streams/refusals.ts'
import { until } from '../produce/front.ts'
import { item, type Stand, stand } from './stand.ts'

interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

function ask(server: Stand, path = '/get', method = 'GET'): { asked: ClientRequest; answer: Promise<Answer> } {
  const asked = request(`${server.url}${path}`, { method })
  asked.on('error', () => {})
  const answer = new Promise<Answer>(resolve => {
    asked.on('response', (incoming: IncomingMessage) => {
      const chunks: Buffer[] = []
      incoming.on('data', chunk => chunks.push(chunk))
      incoming.on('end', () =>
        resolve({ status: incoming.statusCode!, headers: incoming.headers, body: Buffer.concat(chunks) })
      )
    })
  })
  asked.end()
  return { asked, answer }
}

t.test('a poll waits for one message, which is delivered once the answer has gone', async t => {
  const server = await stand(t, 'poll')
  const { answer } = ask(server)
  await until(() => server.seats[0]?.readies === 1)
  const seat = server.seats[0]!
  const value = Buffer.from([0xff, 10])
  const headers = [['Content-Type', Buffer.from('image/x-thing; v=1')]] as const
  t.equal(seat.give(item(value, { key: Buffer.from('k 1'), headers }), item('second')), 1)
  t.equal(seat.written, 0)
  const { status, headers: got, body } = await answer
  t.equal(status, 200)
  t.same(body, value)
  t.match(got, {
    'svc-id': 'c7',
    'svc-cursor': 'c7',
    'svc-key': 'k 1',
    'svc-topic': 'orders',
    'svc-partition': '2',
    'svc-offset': '7',
    'content-type': 'image/x-thing; v=1',
    'x-content-type-options': 'nosniff',
    'x-of-the-api': 'yes'
  })
  await until(() => seat.leaves === 1)
  t.equal(seat.written, 1)
  t.equal(server.connections.count, 0)
  t.match(server.lines, [{ transport: 'poll', messages: 1, bytes: 2, reason: 'answered' }])
})

t.test('nothing of a message gets into the head but what may stand there', async t => {
  const cases: [type: string, key: string, got: object][] = [
    ['text/plain\r\nx-forged: 1', 'k\r\nx-forged: 1', { 'svc-key-base64': 'aw0KeC1mb3JnZWQ6IDE=' }],
    ['text', 'grün', { 'svc-key-base64': 'Z3LDvG4=' }],
    ['a/b; charset="x"', ' k', { 'svc-key-base64': 'IGs=' }],
    ['\0', '', {}]
  ]
  for (const [type, key, got] of cases) {
    const server = await stand(t, 'poll')
    const { answer } = ask(server)
    await until(() => server.seats[0]?.readies === 1)
    server.seats[0]!.give(
      item('v', { key: Buffer.from(key), headers: [['content-type', Buffer.from(type)]], cursor: null })
    )
    const { headers } = await answer
    t.equal(headers['content-type'], 'application/octet-stream', JSON.stringify(type))
    t.match(headers, got)
    t.notOk('x-forged' in headers || 'svc-key' in headers || 'svc-cursor' in headers)
  }
})

t.test('a poll with nothing to give is answered 204 when its time is over', async t => {
  const cases: [path: string, ms: number][] = [
    ['/get', 5000],
    ['/get?wait=100', 100],
    ['/get?wait=0', 0],
    ['/get?wait=999999', 5000],
    ['/get?limit=3', 5000]
  ]
  for (const [path, ms] of cases) {
    const server = await stand(t, 'poll')
    const { answer } = ask(server, path)
    await until(() => server.seats[0]?.readies === 1)
    server.seats[0]!.now = 'c40'
    await server.clock.move(ms)
    const { status, headers } = await answer
    t.equal(status, 204, path)
    if (ms > 0) t.equal(headers['svc-cursor'], 'c40')
    await until(() => server.seats[0]!.leaves === 1)
    t.equal(server.seats[0]!.written, 0)
    t.match(server.lines, [{ reason: 'empty', duration_ms: ms }])
  }
})

t.test('with a limit the answer is a list of envelopes, and the cursor behind the last', async t => {
  const server = await stand(t, 'poll')
  const { answer } = ask(server, '/get?limit=3')
  await until(() => server.seats[0]?.readies === 1)
  const seat = server.seats[0]!
  seat.give(item('1'))
  t.equal(seat.give(item('2', { offset: 8 }), item(null, { offset: 9, cursor: null }), item('4')), 2)
  const { headers, body } = await answer
  t.equal(headers['content-type'], 'application/json')
  t.equal(headers['svc-cursor'], 'c8', 'of the last that has one')
  t.match(JSON.parse(String(body)), [
    { id: 'c7', value: '1' },
    { id: 'c8', value: '2' },
    { id: null, value: null }
  ])
  await until(() => seat.leaves === 1)
  t.equal(seat.written, 3)
})

t.test('of a batch for all a poll takes what it asked for', async t => {
  const server = await stand(t, 'poll', { options: { mode: 'broadcast' } })
  const { answer } = ask(server, '/get?limit=2&cursor=c1')
  await until(() => server.seats[0]?.readies === 1)
  t.same(server.seats[0]!.from, { cursor: 'c1' })
  server.seats[0]!.giveAll(item('1'), item('2', { offset: 8 }), item('3', { offset: 9 }))
  const { headers, body } = await answer
  t.equal(JSON.parse(String(body)).length, 2)
  t.equal(headers['svc-cursor'], 'c8')
})

t.test('tombstones alone do not end the waiting, and count as delivered', async t => {
  const server = await stand(t, 'poll')
  const { answer } = ask(server)
  await until(() => server.seats[0]?.readies === 1)
  const seat = server.seats[0]!
  seat.give(item(null), item(null))
  await until(() => seat.written === 2)
  seat.give(item(null), item('one'))
  t.equal(String((await answer).body), 'one')
  await until(() => seat.leaves === 1)
  t.equal(seat.written, 4)
})

t.test('with `ack: client` the whole answer is the acknowledgement', async t => {
  const server = await stand(t, 'poll', { options: { ack: 'client' } })
  const { answer } = ask(server)
  await until(() => server.seats[0]?.readies === 1)
  server.seats[0]!.give(item('one'))
  await answer
  await until(() => server.seats[0]!.leaves === 1)
  t.same(server.seats[0]!.acknowledged, ['c7'])
})

t.test('a client that leaves while it waits leaves the hub at once', async t => {
  const server = await stand(t, 'poll')
  const { asked } = ask(server)
  await until(() => server.seats[0]?.readies === 1)
  asked.destroy()
  await until(() => server.seats[0]!.leaves === 1)
  t.equal(server.seats[0]!.give(item('late')), 0)
  t.equal(server.connections.count, 0)
  t.equal(server.clock.waiters(5000), 0)
  t.match(server.lines, [{ reason: 'left', messages: 0 }])
})

t.test('a message that does not reach its client is not delivered', async t => {
  const server = await stand(t, 'poll')
  const { asked } = ask(server)
  await until(() => server.seats[0]?.readies === 1)
  asked.on('response', answer => answer.pause())
  // More than the kernel takes of a client that reads nothing.
  server.seats[0]!.give(item(Buffer.alloc(32 * 1_048_576)))
  await once(asked, 'response')
  asked.destroy()
  await until(() => server.seats[0]!.leaves === 1)
  t.equal(server.seats[0]!.written, 0)
})

t.test('a poll whose waiting we end gets a status that says why', async t => {
  for (const [why, status] of [
    ['stopping', 503],
    ['key', 403],
    ['quota', 429],
    ['disabled', 503]
  ] as const) {
    const server = await stand(t, 'poll')
    const { answer } = ask(server)
    await until(() => server.seats[0]?.readies === 1)
    server.seats[0]!.client.close(why)
    t.equal((await answer).status, status)
    await until(() => server.seats[0]!.leaves === 1)
    t.match(server.lines, [{ reason: why }])
  }
})

t.test('what the quota does not cover is not delivered', async t => {
  const cases: [Call['charge'], number][] = [
    [() => -1, 429],
    [() => Promise.resolve(-1), 429],
    [() => Promise.reject(new Error('away')), 503]
  ]
  for (const [charge, status] of cases) {
    const server = await stand(t, 'poll', { options: { count: 'byte' }, charge })
    const { answer } = ask(server)
    await until(() => server.seats[0]?.readies === 1)
    server.seats[0]!.give(item('one'))
    t.equal((await answer).status, status)
    await until(() => server.seats[0]!.leaves === 1)
    t.equal(server.seats[0]!.written, 0)
  }
})

t.test('a gap is told in the head', async t => {
  const server = await stand(t, 'poll', { options: { mode: 'broadcast' } })
  const { answer } = ask(server, '/get?cursor=c1')
  await until(() => server.seats[0]?.readies === 1)
  server.seats[0]!.client.gap(4, 'c6')
  server.seats[0]!.give(item('one'))
  t.match((await answer).headers, { 'svc-gap': '4', 'svc-cursor': 'c7' })
})

t.test('what cannot be is refused, and nothing is left behind', async t => {
  const cases: [Parameters<typeof stand>[2], path: string, method: string, status: number][] = [
    [{}, '/get?limit=0', 'GET', 400],
    [{}, '/get?limit=1001', 'GET', 400],
    [{}, '/get?limit=1e2', 'GET', 400],
    [{}, '/get?wait=-1', 'GET', 400],
    [{}, '/get?wait=1s', 'GET', 400],
    [{ no: nos.badCursor }, '/get?cursor=x', 'GET', 400],
    [{ maxClients: 0 }, '/get', 'GET', 503],
    [{}, '/get', 'HEAD', 204]
  ]
  for (const [wanted, path, method, status] of cases) {
    const server = await stand(t, 'poll', wanted)
    const { answer } = ask(server, path, method)
    t.equal((await answer).status, status, path)
    t.equal(server.seats.length, 0)
    t.equal(server.connections.count, 0)
  }
})

t.test('a connection can be used for the next poll', async t => {
  const server = await stand(t, 'poll')
  const agent = new (await import('node:http')).Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const sockets = new Set<unknown>()
  for (let i = 0; i < 3; i++) {
    const asked = get(`${server.url}/get`, { agent })
    const response = once(asked, 'response')
    await until(() => server.seats[i]?.readies === 1)
    server.seats[i]!.give(item('one'))
    const [answer] = (await response) as [IncomingMessage]
    sockets.add(answer.socket)
    answer.resume()
    await once(answer, 'end')
  }
  t.equal(sockets.size, 1)
})
