import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { WebSocket } from 'ws'
import { handshake, type Wanted } from '../../../streams/clients/handshake.ts'
import { front, type Said, until } from '../produce/front.ts'

const any: Wanted = { protocols: ['svc.stream.v1'], maxPayload: 1000, allowedOrigins: null }

/** A server whose sockets send back what they get. */
function echo(t: Parameters<typeof front>[0], want: Partial<Wanted> = {}, said: Said = {}) {
  return front(
    t,
    call =>
      handshake(call, { ...any, ...want }, socket => {
        socket.on('error', () => {})
        socket.on('message', (data, isBinary) => socket.send(data as Buffer, { binary: isBinary }))
      }),
    said
  )
}

async function status(url: string, options: object, protocols: string[] = []): Promise<number> {
  const socket = new WebSocket(url, protocols, options)
  socket.on('error', () => {})
  return new Promise(resolve => {
    socket.on('open', () => {
      socket.terminate()
      resolve(101)
    })
    socket.on('unexpected-response', (_request, answer) => {
      answer.resume()
      resolve(answer.statusCode!)
    })
  })
}

/** Sends bytes, and answers what came until `isEnough`. */
async function raw(port: number, bytes: string | Buffer, isEnough: (answer: Buffer) => boolean): Promise<Buffer> {
  const socket = connect(port, '127.0.0.1')
  let got = Buffer.alloc(0)
  socket.on('data', (chunk: Buffer) => {
    got = Buffer.concat([got, chunk])
  })
  socket.write(bytes)
  await until(() => isEnough(got) || socket.closed)
  socket.destroy()
  return got
}

const head = (lines: readonly string[]) => `${lines.join('\r\n')}\r\n\r\n`
const good = [
  'GET /ws HTTP/1.1',
  'Host: a.example',
  'Upgrade: websocket',
  'Connection: Upgrade',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
  'Sec-WebSocket-Version: 13'
]

t.test('an upgrade becomes a WebSocket, with the API’s own heads in the answer', async t => {
  const server = await echo(t, {}, { pairs: ['x-of-the-api', 'yes'] })
  const socket = new WebSocket(`ws://127.0.0.1:${server.port}/ws`, ['other', 'svc.stream.v1'])
  const upgraded = once(socket, 'upgrade')
  await once(socket, 'open')
  const [answer] = await upgraded
  t.equal(answer.headers['x-of-the-api'], 'yes')
  t.equal(socket.protocol, 'svc.stream.v1')
  t.notOk(socket.extensions, 'never compressed')
  socket.send('hello')
  t.equal(String((await once(socket, 'message'))[0]), 'hello')
  t.equal(server.closed, 0)
  socket.close()
  await until(() => server.closed === 1)
  t.same(server.refused, [])
})

t.test('a frame that comes in one packet with the head is not lost', async t => {
  const server = await echo(t)
  const frame = Buffer.from([0x81, 0x82, 0, 0, 0, 0, 0x68, 0x69])
  const answer = await raw(server.port, Buffer.concat([Buffer.from(head(good)), frame]), all =>
    all.includes(Buffer.from([0x81, 2, 0x68, 0x69]))
  )
  t.match(answer.toString('latin1'), /^HTTP\/1\.1 101 /)
  t.ok(answer.includes(Buffer.from([0x81, 2, 0x68, 0x69])))
})

t.test('what is no handshake is refused through the call, and never by ws itself', async t => {
  const server = await echo(t)
  const without = (name: string) => good.filter(line => !line.startsWith(name))
  const cases: [name: string, lines: string[], code: string, status: number][] = [
    ['no key', without('Sec-WebSocket-Key'), 'bad_handshake', 400],
    ['a short key', [...without('Sec-WebSocket-Key'), 'Sec-WebSocket-Key: abc='], 'bad_handshake', 400],
    ['two keys', [...good, 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='], 'bad_handshake', 400],
    ['no version', without('Sec-WebSocket-Version'), 'bad_handshake', 426],
    ['version 8', [...without('Sec-WebSocket-Version'), 'Sec-WebSocket-Version: 8'], 'bad_handshake', 426],
    ['another protocol', [...without('Upgrade'), 'Upgrade: h2c'], 'bad_handshake', 400],
    ['a POST', ['POST /ws HTTP/1.1', ...good.slice(1)], 'bad_handshake', 400],
    ['broken subprotocols', [...good, 'Sec-WebSocket-Protocol: a,,b'], 'bad_handshake', 400],
    ['a subprotocol twice', [...good, 'Sec-WebSocket-Protocol: a, a'], 'bad_handshake', 400],
    ['no upgrade at all', ['GET /ws HTTP/1.1', 'Host: a.example'], 'upgrade_required', 426]
  ]
  for (const [name, lines, code, wanted] of cases) {
    const answer = (await raw(server.port, head(lines), all => all.includes('}'))).toString('latin1')
    t.match(answer, new RegExp(`^HTTP/1\\.1 ${wanted} `), name)
    t.match(answer, `x-svc-error: ${code}`, name)
  }
  t.equal(server.refused.length, cases.length)
})

t.test('pages of other origins get in by a list, or without a cookie', async t => {
  const list = ['https://shop.example', 'http://[::1]:8080']
  const cases: [want: Partial<Wanted>, said: Said, origin: string | null, status: number][] = [
    [{}, {}, 'https://evil.example', 101],
    [{}, { isByCookie: true }, null, 101],
    [{}, { isByCookie: true }, 'http://own.example', 101],
    [{}, { isByCookie: true }, 'https://own.example', 101],
    [{}, { isByCookie: true }, 'https://own.example:8443', 403],
    [{}, { isByCookie: true }, 'https://own.example.evil.example', 403],
    [{}, { isByCookie: true }, 'null', 403],
    [{}, { isByCookie: true }, 'file://own.example', 403],
    [{}, { isByCookie: true }, '', 403],
    [{ allowedOrigins: list }, {}, 'https://shop.example', 101],
    [{ allowedOrigins: list }, {}, 'https://shop.example:443', 101],
    [{ allowedOrigins: list }, {}, 'HTTPS://SHOP.example', 101],
    [{ allowedOrigins: list }, {}, 'http://[::1]:8080', 101],
    [{ allowedOrigins: list }, { isByCookie: true }, 'https://shop.example', 101],
    [{ allowedOrigins: list }, {}, null, 101],
    [{ allowedOrigins: list }, {}, 'http://shop.example', 403],
    [{ allowedOrigins: list }, {}, 'https://shop.example:444', 403],
    [{ allowedOrigins: list }, {}, 'https://shop.example.evil.example', 403],
    [{ allowedOrigins: list }, {}, 'https://a.shop.example', 403],
    [{ allowedOrigins: list }, {}, 'null', 403],
    [{ allowedOrigins: [] }, {}, 'http://own.example', 403],
    [{ allowedOrigins: ['*'] }, { isByCookie: true }, 'https://evil.example', 101],
    [{ allowedOrigins: ['null'] }, {}, 'null', 101]
  ]
  for (const [want, said, origin, wanted] of cases) {
    const server = await echo(t, want, said)
    const headers = { Host: 'own.example', ...(origin === null ? {} : { Origin: origin }) }
    t.equal(
      await status(`ws://127.0.0.1:${server.port}/ws`, { headers }),
      wanted,
      JSON.stringify({ want, said, origin })
    )
    t.same(server.refused, wanted === 403 ? ['origin_disallowed'] : [])
  }
})

t.test('a subprotocol that nobody here speaks is not answered, and a long frame ends with 1009', async t => {
  const server = await echo(t)
  const socket = new WebSocket(`ws://127.0.0.1:${server.port}/ws`, { maxPayload: 10_000 })
  await once(socket, 'open')
  t.equal(socket.protocol, '')
  socket.send(Buffer.alloc(1001))
  const [code] = await once(socket, 'close')
  t.equal(code, 1009)
  const answer = await raw(server.port, head([...good, 'Sec-WebSocket-Protocol: other']), all =>
    all.includes('\r\n\r\n')
  )
  t.match(answer.toString('latin1'), /^HTTP\/1\.1 101 /)
  t.notMatch(answer.toString('latin1'), /sec-websocket-protocol/i)
})
