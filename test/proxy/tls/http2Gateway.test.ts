import { once } from 'node:events'
import {
  constants,
  createSecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Stream
} from 'node:http2'
import type { AddressInfo } from 'node:net'
import type { TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { wire } from '../../framing/wire.ts'
import { api, gateway } from '../../helpers/gateway.ts'
import { CA, CLIENT, chains, idOf, LOCALHOST, SERVER } from './chains.ts'

const make = chains(t)
const root = make({ name: 'root', extensions: CA })
const good = make({ name: 'localhost', issuer: root, extensions: [...SERVER, LOCALHOST] })
const alice = make({ name: 'alice', issuer: root, extensions: CLIENT })

type Answer = (req: Http2ServerRequest, res: Http2ServerResponse) => void

async function far(t: Test, answer: Answer): Promise<{ url: string; sockets: TLSSocket[] }> {
  const sockets: TLSSocket[] = []
  const server = createSecureServer(
    { ...good, ca: root.cert, requestCert: true, rejectUnauthorized: false, allowHTTP1: true },
    answer
  )
  server.on('secureConnection', (socket: TLSSocket) => {
    sockets.push(socket)
    socket.on('error', () => {})
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { url: `https://localhost:${(server.address() as AddressInfo).port}`, sockets }
}

const insecure = { tlsTransport: { insecureSkipVerify: true } }

t.test('HTTP/2 goes to upstreams where the API asks for it, else where the settings do', async t => {
  const up = await far(t, (req, res) => void res.end(req.httpVersion))
  for (const upstream_client of ['direct', 'undici']) {
    for (const proxy_enable_http2 of [false, true]) {
      const gw = await gateway(t, {
        settings: { gateway: { upstream_client, proxy_enable_http2 } },
        apis: [
          api('unsaid', up.url, { upstream: insecure }),
          api('on', up.url, { upstream: { ...insecure, http2: { enabled: true } } }),
          api('off', up.url, { upstream: { ...insecure, http2: { enabled: false } } })
        ]
      })
      const versions = []
      for (const id of ['unsaid', 'on', 'off']) versions.push(await (await gw.get(`/${id}/`)).text())
      t.same(versions, [proxy_enable_http2 ? '2.0' : '1.1', '2.0', '1.1'], `${upstream_client} ${proxy_enable_http2}`)
    }
  }
})

t.test('messages pass through over HTTP/2', async t => {
  const seen: Record<string, unknown>[] = []
  const up = await far(t, (req, res) => {
    seen.push({ ...req.headers, trailers: req.trailers })
    const { subject } = (req.socket as TLSSocket).getPeerCertificate()
    switch (req.url) {
      case '/echo':
        return void req.pipe(res)
      case '/204':
        res.statusCode = 204
        return void res.end()
      case '/head':
        res.setHeader('content-length', '5')
        return void res.end()
      case '/trailers':
        res.setHeader('trailer', 'x-sum')
        res.write('abc')
        res.addTrailers({ 'x-sum': '6' })
        return void res.end()
      case '/cut':
        res.setHeader('content-length', '9')
        return void res.write('part', () => res.stream.session!.destroy())
      case '/sse':
        res.setHeader('content-type', 'text/event-stream')
        return void res.write('data: 1\n\n')
      default:
        res.setHeader('set-cookie', ['a=1', 'b=2'])
        res.end(String(subject?.CN))
    }
  })
  const mutualTLS = {
    enabled: true,
    domainToCertificateMapping: [{ domain: '*', certificate: idOf('default', alice.cert) }]
  }
  const upstream = { ...insecure, mutualTLS, http2: { enabled: true } }
  const gw = await gateway(t, { apis: [api('a', up.url, { upstream })] })
  t.equal((await gw.svc('POST', '/svc/certs', alice.cert + alice.key)).status, 200)

  const plain = await gw.get('/a/x', { 'X-Given': 'y' })
  t.equal(await plain.text(), 'alice')
  t.same(plain.headers.getSetCookie(), ['a=1', 'b=2'])
  t.equal(seen[0]!['x-given'], 'y')
  t.equal(seen[0]![':authority'], new URL(up.url).host)
  t.match(seen[0]!.via, '1.1 svc')

  const big = 'x'.repeat(3_000_000)
  t.equal(await (await fetch(`${gw.url}/a/echo`, { method: 'POST', body: big })).text(), big)
  const chunked = new Blob([big]).stream()
  const streamed = { method: 'POST', body: chunked, duplex: 'half' } as RequestInit
  t.equal(await (await fetch(`${gw.url}/a/echo`, streamed)).text(), big)
  t.equal((await gw.get('/a/204')).status, 204)
  const head = await fetch(`${gw.url}/a/head`, { method: 'HEAD' })
  t.equal(head.headers.get('content-length'), '5')

  const client = wire(t, gw.url)
  client.send('GET /a/trailers HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\nConnection: TE\r\n\r\n')
  await client.until(() => client.text().endsWith('\r\n\r\n') && client.text().includes('x-sum: 6'), 'the trailers')
  t.match(client.text(), /\r\n3\r\nabc\r\n0\r\nx-sum: 6\r\n\r\n$/)

  const cut = await gw.get('/a/cut')
  await t.rejects(cut.text())
  const events = (await gw.get('/a/sse')).body!.getReader()
  t.equal(Buffer.from((await events.read()).value!).toString(), 'data: 1\n\n')
  await events.cancel()
  t.equal(await (await gw.get('/a/x')).text(), 'alice')
})

/** Resets a stream and nothing else: `close` would end its body first. */
function refuse(stream: ServerHttp2Stream): void {
  const handle = Object.getOwnPropertySymbols(stream).find(({ description }) => description === 'kHandle')!
  ;(stream as unknown as Record<symbol, { rstStream(code: number): void }>)[handle]!.rstStream(
    constants.NGHTTP2_REFUSED_STREAM
  )
}

t.test(
  'what the upstream has not looked at is sent again, whatever its method, with the body that was kept',
  async t => {
    const tries = new Map<string, number>()
    const up = await far(t, (req, res) => {
      const { stream } = res
      const [, how = '', name = ''] = req.url.split('/')
      const count = (tries.get(name) ?? 0) + 1
      tries.set(name, count)
      if (count > 1 && how !== 'never') {
        res.setHeader('trailer', 'x-got')
        req.on('end', () => res.addTrailers({ 'x-got': req.trailers['x-sum'] ?? 'none' }))
        return void req.pipe(res)
      }
      if (how === 'goaway') return stream.session!.goaway(0, stream.id! - 2)
      let seen = 0
      const least = Number(how) || 0
      if (least === 0) return refuse(stream)
      req.on('data', (chunk: Buffer) => {
        seen += chunk.length
        if (seen >= least) refuse(stream)
      })
    })
    const gw = await gateway(t, { apis: [api('a', up.url, { upstream: { ...insecure, http2: { enabled: true } } })] })
    let number = 0
    const post = async (how: string, body: RequestInit['body']) => {
      const init = { method: 'POST', body, duplex: 'half' } as RequestInit
      const answer = await fetch(`${gw.url}/a/${how}/${++number}`, init)
      return [answer.status, await answer.text(), tries.get(`${number}`)]
    }
    const flowing = (...pieces: string[]) => ReadableStream.from(pieces.map(piece => Buffer.from(piece)))
    const long = 'x'.repeat(60_000)
    // Streams have low numbers at first, and 0 stands for "all that I have seen" in Node.
    t.same(await post('refuse', 'abc'), [200, 'abc', 2])
    for (const how of ['refuse', 'goaway', '1', '3']) {
      t.same(await post(how, 'abc'), [200, 'abc', 2], how)
      t.same(await post(how, flowing('a', 'b', 'c')), [200, 'abc', 2], how)
      t.same(await post(how, flowing(long)), [200, long, 2], how)
    }
    const big = 'y'.repeat(300_000)
    t.same(await post('200000', big), [502, '{"error":"Upstream closed the connection before it answered"}', 1])
    t.match(await post('never', flowing('abc')), [502, String, 2])

    const client = wire(t, gw.url)
    client.send(
      'POST /a/3/trailers HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\nConnection: TE\r\nTransfer-Encoding: chunked\r\n\r\n'
    )
    client.send('3\r\nabc\r\n')
    for (let i = 0; i < 200 && tries.get('trailers') !== 2; i++) await new Promise(resolve => setTimeout(resolve, 10))
    client.send('3\r\ndef\r\n0\r\nx-sum: 6\r\n\r\n')
    await client.until(() => client.text().includes('x-got: 6'), 'the trailers')
    t.match(client.text(), /abc[\s\S]*def/)
  }
)

t.test('an upgrade goes over HTTP/1.1 all the same', async t => {
  const up = await far(t, (_req, res) => void res.end('no'))
  const gw = await gateway(t, { apis: [api('a', up.url, { upstream: { ...insecure, http2: { enabled: true } } })] })
  const client = wire(t, gw.url)
  client.send('GET /a/ HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  await client.until(client.closed, 'the answer')
  t.equal(client.answers[0]!.body, 'no')
  t.equal(up.sockets[0]?.alpnProtocol, 'http/1.1')
})
