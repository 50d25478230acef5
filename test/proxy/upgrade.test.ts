import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { eventually, OK, values, type Wire, wire } from '../framing/wire.ts'
import { api, gateway, rights, type TestGateway, withKey } from '../helpers/gateway.ts'
import { rawUpstream } from '../helpers/upstream.ts'

const ask = (path: string, fields = '') =>
  `GET ${path} HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n${fields}\r\n`
const SWITCH = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Up: 1\r\n\r\n'

interface Far {
  readonly url: string
  /** Heads that came, as text. */
  readonly heads: string[]
  /** What came behind the heads. */
  readonly bytes: () => string
  readonly sockets: Socket[]
  readonly open: () => number
}

/** An upstream that answers each head with these bytes and keeps what comes then. */
async function far(t: Test, answer: string | ((socket: Socket) => void) = SWITCH): Promise<Far> {
  const heads: string[] = []
  const sockets: Socket[] = []
  let bytes = ''
  let open = 0
  const { url } = await rawUpstream(t, socket => {
    sockets.push(socket)
    open++
    socket.on('close', () => open--)
    let head: string | null = ''
    socket.on('data', data => {
      if (head === null) {
        bytes += data.toString('latin1')
        return
      }
      head += data.toString('latin1')
      const end = head.indexOf('\r\n\r\n')
      if (end < 0) return
      heads.push(head.slice(0, end))
      bytes += head.slice(end + 4)
      head = null
      if (typeof answer === 'string') socket.write(answer, 'latin1')
      else answer(socket)
    })
  })
  return { url, heads, bytes: () => bytes, sockets, open: () => open }
}

async function switched(t: Test, gw: TestGateway, path = '/all/x'): Promise<Wire> {
  const client = wire(t, gw.url)
  client.send(ask(path))
  await client.until(() => client.text().includes('\r\n\r\n'), 'the switch')
  return client
}

t.test('bytes pass both ways untouched behind 101, whose head is the upstream’s', async t => {
  const up = await far(t)
  const gw = await gateway(t, { apis: [api('all', `${up.url}/base`)] })
  const client = await switched(t, gw, '/all/x?y=1')
  t.match(client.text(), /^HTTP\/1\.1 101 Switching Protocols\r\n/)
  t.match(client.text(), /X-Up: 1\r\n/)
  t.match(up.heads[0], /^GET \/base\/x\?y=1 HTTP\/1\.1\r\n/)
  t.match(up.heads[0], /\r\nHost: 127\.0\.0\.1:\d+\r\nSec-WebSocket-Key: x\r\n/)
  t.match(up.heads[0], /Upgrade: websocket/i)
  t.match(up.heads[0], /Connection: Upgrade/i)
  t.match(up.heads[0], /X-Forwarded-For: 127\.0\.0\.1/)
  const all = Array.from({ length: 256 }, (_, code) => String.fromCharCode(code)).join('')
  client.send(all)
  await eventually(() => up.bytes() === all, 'up')
  up.sockets[0]!.write(all, 'latin1')
  await client.until(() => client.text().endsWith(all), 'down')
})

t.test('bytes that come with the head of either side are part of the stream', async t => {
  const up = await far(t, `${SWITCH}early`)
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  const client = wire(t, gw.url)
  client.send(`${ask('/all/x')}first`)
  await client.until(() => client.text().endsWith('early'), 'down')
  await eventually(() => up.bytes() === 'first', 'up')
})

t.test('any protocol and any method may switch', async t => {
  const up = await far(t, SWITCH.replace('websocket', 'tcp'))
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  const client = wire(t, gw.url)
  client.send('POST /all/attach HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n')
  await client.until(() => client.text().includes('\r\n\r\n'), 'the switch')
  t.match(client.text(), /^HTTP\/1\.1 101 /)
})

t.test('authentication and limits come first, with ordinary answers', async t => {
  const up = await far(t)
  const gw = await gateway(t, { apis: [api('all', up.url, { server: withKey })] })
  const key = await gw.key({ rate: 1, per: 60, ...rights('all') })
  for (const [fields, status, code] of [
    ['', 401, 'auth_missing'],
    ['Authorization: nobody\r\n', 403, 'key_unknown'],
    [`Authorization: ${key}\r\n`, 101, ''],
    [`Authorization: ${key}\r\n`, 429, 'rate_exceeded']
  ] as const) {
    const client = wire(t, gw.url)
    client.send(ask('/all/x', fields))
    await client.until(() => client.text().includes('\r\n\r\n'), 'an answer')
    t.match(client.text(), new RegExp(`^HTTP/1\\.1 ${status} `))
    if (status === 101) continue
    await client.until(client.closed, 'the end')
    t.same(values(client.answers[0]!.pairs, 'x-svc-error'), [code])
    t.same(Object.keys(JSON.parse(client.answers[0]!.body)), ['error'])
  }
  t.equal(up.heads.length, 1)
})

t.test('an upstream that does not switch gives an ordinary answer', async t => {
  const up = await far(
    t,
    'HTTP/1.1 426 Not Here\r\nX-Why: no\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nnope\r\n0\r\n\r\n'
  )
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  const client = wire(t, gw.url)
  client.send(ask('/all/x'))
  await client.until(client.closed, 'the end')
  t.equal(client.answers[0]!.line, 'HTTP/1.1 426 Not Here')
  t.same(values(client.answers[0]!.pairs, 'x-why'), ['no'])
  t.equal(client.answers[0]!.body, 'nope')
  await eventually(() => up.open() === 0, 'the upstream connection closes')
})

t.test('an ordinary answer that breaks off is seen as such', async t => {
  const up = await far(t, socket => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal'))
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  const client = wire(t, gw.url)
  client.send(ask('/all/x'))
  await client.until(client.closed, 'the end')
  t.match(client.text(), /Content-Length: 9\r\n/)
  t.equal(client.answers.length, 0)
})

t.test('refused, closed, garbage and slow upstreams are 502 and 504, in one line of the log', async t => {
  const closing = await far(t, socket => socket.end())
  const garbage = await far(t, 'SSH-2.0\r\n\r\n')
  const silent = await far(t, () => {})
  for (const [url, status, code] of [
    ['http://127.0.0.1:1', 502, 'upstream_connect'],
    ['http://no-such-host.invalid', 502, 'upstream_lookup'],
    [closing.url, 502, 'upstream_reset'],
    [garbage.url, 502, 'upstream_garbage'],
    [silent.url, 504, 'upstream_timeout']
  ] as const) {
    const gw = await gateway(t, { settings: { gateway: { proxy_default_timeout: 0.3 } }, apis: [api('all', url)] })
    const client = wire(t, gw.url)
    client.send(ask('/all/x'))
    await client.until(client.closed, `the end of ${code}`)
    t.match(client.answers[0]!.line, new RegExp(` ${status} `))
    t.same(values(client.answers[0]!.pairs, 'x-svc-error'), [code])
    t.equal(gw.log.lines.filter(({ msg }) => msg === 'upstream failed').length, 1)
  }
  await eventually(() => silent.open() === 0, 'the slow one is let go')
})

t.test('when one side goes, by its end or by a reset, both sockets close', async t => {
  const up = await far(t)
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  const gone = async (act: (client: Wire, far: Socket) => void, name: string) => {
    const client = await switched(t, gw)
    const socket = up.sockets[up.sockets.length - 1]!
    act(client, socket)
    await client.until(client.closed, `${name}: the client’s`)
    await eventually(() => up.open() === 0, `${name}: the upstream’s`)
  }
  await gone(({ socket }) => socket.end(), 'the client ends')
  await gone(({ socket }) => socket.resetAndDestroy(), 'the client resets')
  await gone(({ socket }) => socket.destroy(), 'the client closes')
  await gone((_, socket) => socket.end(), 'the upstream ends')
  await gone((_, socket) => socket.end('last words'), 'the upstream ends with a word')
  await gone((_, socket) => socket.resetAndDestroy(), 'the upstream resets')
})

t.test('what the upstream says last arrives whole', async t => {
  const up = await far(t, socket => socket.end(SWITCH + 'b'.repeat(3_000_000)))
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  const client = wire(t, gw.url)
  client.send(ask('/all/x'))
  await client.until(client.closed, 'the end')
  t.equal(client.text().length - client.text().indexOf('\r\n\r\n') - 4, 3_000_000)
})

t.test('a client that leaves before the switch ends the upstream’s side at once', async t => {
  const up = await far(t, () => {})
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  for (const leave of [
    (socket: Socket) => socket.end(),
    (socket: Socket) => socket.destroy(),
    (socket: Socket) => socket.resetAndDestroy()
  ]) {
    const before = up.heads.length
    const client = connect(Number(new URL(gw.url).port), '127.0.0.1')
    client.on('error', () => {})
    client.write(ask('/all/x'))
    await eventually(() => up.heads.length === before + 1, 'it is under way')
    leave(client)
    await eventually(() => up.open() === 0, 'the upstream’s side closes')
  }
  t.same(
    gw.log.lines.filter(({ level }) => level === 'error' || level === 'warn'),
    []
  )
})

t.test('an upgrade behind an unanswered request is an ordinary request', async t => {
  let answer = () => {}
  const up = await far(t, socket => {
    answer = () => void socket.write(OK)
  })
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  const client = wire(t, gw.url)
  client.send(`GET /all/slow HTTP/1.1\r\nHost: a.test\r\n\r\n${ask('/all/x')}`)
  await eventually(() => up.heads.length === 1, 'the first is under way')
  answer()
  await client.until(() => client.answers.length >= 1, 'the first answer')
  t.equal(client.answers[0]!.body, 'ok')
  client.socket.destroy()
  t.equal((await gw.get('/nowhere')).status, 404)
})

t.test('a refused upgrade whose client stays silent does not keep its socket', async t => {
  const gw = await gateway(t)
  const client = connect({ port: Number(new URL(gw.url).port), host: '127.0.0.1', allowHalfOpen: true })
  t.teardown(() => client.destroy())
  let ended = false
  client.on('end', () => {
    ended = true
  })
  client.on('error', () => {})
  client.resume()
  client.write(ask('/nowhere'))
  await eventually(() => ended, 'the answer ends')
  let broken = false
  client.on('close', () => {
    broken = true
  })
  await eventually(() => {
    if (!broken) client.write('x')
    return broken
  }, 'writing to it fails')
})
