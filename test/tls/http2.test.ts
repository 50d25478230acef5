import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { type ClientHttp2Stream, constants } from 'node:http2'
import { promisify } from 'node:util'
import t from 'tap'
import { api, type Line, withKey } from '../helpers/gateway.ts'
import { rawUpstream, upstream } from '../helpers/upstream.ts'
import { block, DATA, END_HEADERS, END_STREAM, frame, frames, HEADERS, RESET } from './frames.ts'
import { type Answer, ask, files, http2, issued, pemOf, secure, shake } from './secure.ts'

t.setTimeout(60_000)
const paths = files(t, { a: pemOf(issued('a.example')) })
const whole = promisify(execFile)

/** Told of answers that are not as upstreams gave them. */
const tenMega = Buffer.alloc(10_000_000, 'ab')

const up = await upstream(t, (req, res) => {
  const { pathname, search } = new URL(req.url!, 'http://x')
  switch (pathname) {
    case '/echo':
      res.setHeader('X-Length', req.headers['content-length'] ?? 'unknown')
      req.on('data', chunk => {
        if (!res.write(chunk)) req.pause()
      })
      res.on('drain', () => req.resume())
      req.on('end', () => res.end())
      return
    case '/told': {
      const { method, url, rawHeaders } = req
      let body = ''
      req.on('data', chunk => {
        body += chunk
      })
      req.on('end', () => {
        res.setHeader('Content-Type', 'application/json')
        res.end(JSON.stringify({ method, url, rawHeaders, body, trailers: req.rawTrailers }))
      })
      return
    }
    case '/none':
      return void res.writeHead(204).end()
    case '/unchanged':
      return void res.writeHead(304, { ETag: '"1"' }).end()
    case '/hints':
      res.writeEarlyHints({ link: '</a.css>; rel=preload' })
      return void res.end('after hints')
    case '/trailers':
      res.writeHead(200, { Trailer: 'X-Sum', 'Set-Cookie': ['a=1', 'b=2'] })
      res.write('body')
      res.addTrailers({ 'X-Sum': '42' })
      return void res.end()
    case '/strange':
      res.writeHead(200, { 'X-Bytes': '\xe9\xff', Trailer: 'TE, X-End', TE: 'gzip', 'Keep-Alive': 'timeout=1' })
      res.write(req.headers['x-bytes'] ?? '', 'latin1')
      res.addTrailers({ TE: 'gzip', 'X-End': '\xe9' })
      return void res.end()
    case '/events':
      res.writeHead(200, { 'Content-Type': 'text/event-stream' })
      res.write('data: 1\n\n')
      return void req.once('close', () => res.end())
    case '/torn':
      res.writeHead(200, search === '' ? { 'Content-Length': 1_000 } : {})
      res.write('only this')
      return void setImmediate(() => setImmediate(() => res.destroy()))
    case '/large':
      return void res.end(tenMega)
    case '/short':
      return void res.end('never taken')
    case '/early':
      return void res.end('no need for more')
    case '/hangs':
      return
    default:
      res.end(`hello ${req.method}`)
  }
})

const gw = await secure(t, [paths.a!], { apis: [api('x', up.url), api('shut', up.url, { server: withKey })] })

async function json(answer: Promise<Answer>) {
  return JSON.parse(String((await answer).body))
}

t.test('requests and answers are as over HTTP/1.1', async t => {
  const session = http2(t, gw.port)
  const got = await ask(session, { ':path': '/x/' })
  t.match(got, { status: 200, code: 0 })
  t.equal(String(got.body), 'hello GET')
  t.notOk(Object.keys(got.headers).some(name => /^(?:connection|keep-alive|transfer-encoding)$/.test(name)))
  t.match(await ask(session, { ':path': '/x/', ':method': 'HEAD' }), { status: 200, code: 0, body: { length: 0 } })
  t.match(await ask(session, { ':path': '/x/none' }), { status: 204, code: 0, body: { length: 0 } })
  t.match(await ask(session, { ':path': '/x/unchanged' }), { status: 304, code: 0, headers: { etag: '"1"' } })
  t.match(await ask(session, { ':path': '/nowhere' }), { status: 404, code: 0 }, 'refusals too')
  t.match(await ask(session, { ':path': '/shut/' }), { status: 401, code: 0 })
  t.match(await ask(session, { ':path': '/x/hints' }), {
    status: 200,
    informations: [{ ':status': 103, link: '</a.css>; rel=preload' }]
  })
  const ended = await ask(session, { ':path': '/x/trailers', te: 'trailers' })
  t.match(ended, { status: 200, code: 0, trailers: { 'x-sum': '42' }, headers: { 'set-cookie': ['a=1', 'b=2'] } })
  t.equal(String(ended.body), 'body')
})

t.test('what reaches the upstream', async t => {
  const session = http2(t, gw.port)
  const pairs = [':method', 'GET', ':scheme', 'https', ':path', '/x/told?q=1', ':authority', 'a.example:444']
  const { url, rawHeaders } = await json(
    ask(session, [...pairs, 'cookie', 'a=1', 'x-two', '1', 'cookie', 'b=2', 'x-two', '2'])
  )
  t.equal(url, '/told?q=1')
  const all = (name: string) =>
    rawHeaders.filter((_: string, i: number) => i % 2 === 1 && rawHeaders[i - 1].toLowerCase() === name)
  t.same(all('cookie'), ['a=1; b=2'], 'cookies are one line')
  t.same(all('x-two'), ['1', '2'], 'other lines stay apart')
  t.same(all('x-forwarded-host'), ['a.example:444'], 'the authority is the host')
  t.same(all('x-forwarded-proto'), ['https'])
  t.same(all('x-forwarded-for'), ['127.0.0.1'], 'the client is the real one')
  const posted = await json(ask(session, { ':method': 'POST', ':path': '/x/told', 'content-length': '3' }, 'abc'))
  t.match(posted, { method: 'POST', body: 'abc' })
  const trailed = await json(
    ask(session, { ':method': 'POST', ':path': '/x/told', trailer: 'x-sum' }, 'abc', { 'x-sum': '6' })
  )
  t.match(trailed, { body: 'abc', trailers: ['x-sum', '6'] })
  t.match(await json(ask(session, { ':method': 'POST', ':path': '/x/told' }, '')), { body: '' }, 'an empty body')
})

t.test('bytes beyond ASCII, and fields that HTTP/2 has no place for', async t => {
  const got = await ask(http2(t, gw.port), { ':path': '/x/strange', 'x-bytes': '\xfc\x80' })
  t.match(got, { status: 200, code: 0, headers: { 'x-bytes': '\xe9\xff', te: undefined }, trailers: { te: undefined } })
  t.equal(got.body.toString('latin1'), '\xfc\x80')
  t.equal(got.trailers['x-end'], '\xe9')
})

t.test('large bodies flow both ways', async t => {
  const session = http2(t, gw.port)
  for (const headers of [{}, { 'content-length': String(tenMega.length) }]) {
    const { status, body, code } = await ask(session, { ':method': 'POST', ':path': '/x/echo', ...headers }, tenMega)
    t.equal(status, 200)
    t.ok(body.equals(tenMega))
    t.equal(code, 0)
  }
})

t.test('a client that reads nothing slows the upstream', async t => {
  let sent = 0
  const source = await rawUpstream(t, socket => {
    socket.once('data', () => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n')
      const piece = Buffer.alloc(65_536)
      const more = () => {
        while (socket.write(piece)) sent += piece.length
      }
      socket.on('drain', more)
      more()
    })
  })
  t.equal((await gw.svc('POST', '/svc/apis/oas', api('endless', source.url))).status, 200)
  const session = http2(t, gw.port)
  const stream = session.request({ ':path': '/endless/' })
  stream.on('error', () => {})
  await once(stream, 'response')
  stream.pause()
  let last = -1
  while (sent !== last) {
    last = sent
    await new Promise(resolve => setTimeout(resolve, 200))
  }
  t.ok(sent < 20_000_000, `${sent} bytes were taken for it`)
  stream.close(constants.NGHTTP2_CANCEL)
  t.match(await ask(session, { ':path': '/x/' }), { status: 200 }, 'others on its connection go on')
})

t.test('a client that takes nothing of an answer is cut off', async t => {
  const strict = await secure(t, [paths.a!], { apis: [api('x', up.url)], options: { write_timeout: 1 } })
  for (const [what, path] of [
    ['the answer is long', '/x/large'],
    ['all of it waits for the client already', '/x/short']
  ] as const) {
    const connection = await frames(t, strict.port, Buffer.from('000400000000', 'hex'))
    const fields = [
      [':method', 'GET'],
      [':scheme', 'https'],
      [':path', path],
      [':authority', 'a.example']
    ] as const
    connection.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, block(fields)))
    t.equal(await connection.outcome(1), 'status:200')
    const until = Date.now() + 15_000
    const isReset = () => connection.got.some(({ type, stream }) => type === RESET && stream === 1)
    while (!isReset() && Date.now() < until) await new Promise(resolve => setTimeout(resolve, 50))
    t.ok(isReset(), what)
    connection.socket.destroy()
  }
})

t.test('events come as they happen, and the upstream hears when the client leaves', async t => {
  const session = http2(t, gw.port)
  const stream = session.request({ ':path': '/x/events' })
  const [chunk] = (await once(stream, 'data')) as [Buffer]
  t.equal(String(chunk), 'data: 1\n\n')
  const left = once(up.requests.at(-1)!.socket, 'close')
  stream.close(constants.NGHTTP2_CANCEL)
  await left
  t.match(await ask(session, { ':path': '/x/' }), { status: 200 })
})

t.test('a client that leaves in the middle of its body', async t => {
  // Node's own client ends the body in good order before it takes the request back.
  const connection = await frames(t, gw.port)
  const fields = block([
    [':method', 'POST'],
    [':scheme', 'https'],
    [':path', '/x/hangs'],
    [':authority', 'a.example']
  ])
  connection.send(frame(HEADERS, END_HEADERS, 1, fields), frame(DATA, 0, 1, Buffer.from('the first of many')))
  const [req] = await once(up.server, 'request')
  const left = new Promise(resolve => req.socket.once('close', resolve))
  connection.send(frame(RESET, 0, 1, Buffer.of(0, 0, 0, 8)))
  await left
  t.notOk(req.complete, 'the upstream does not take it for a whole request')
})

t.test('100 requests at once on one connection', async t => {
  const session = http2(t, gw.port)
  await once(session, 'remoteSettings')
  t.equal(session.remoteSettings.maxConcurrentStreams, 128)
  const answers = await Promise.all(Array.from({ length: 100 }, (_, i) => ask(session, { ':path': `/x/told?n=${i}` })))
  for (const [i, { body }] of answers.entries()) t.equal(JSON.parse(String(body)).url, `/told?n=${i}`)
})

t.test('an answer that breaks off has no good end', async t => {
  const session = http2(t, gw.port)
  const torn = await ask(session, { ':path': '/x/torn' })
  t.match(torn, { status: 200, code: constants.NGHTTP2_INTERNAL_ERROR })
  t.equal(String(torn.body), 'only this', 'what came of it')
  const unknown = await ask(session, { ':path': '/x/torn?chunked' })
  t.match(unknown, { status: 200, code: constants.NGHTTP2_INTERNAL_ERROR }, 'nor has one of unknown length')
  t.match(await ask(session, { ':path': '/x/' }), { status: 200, code: 0 })
})

t.test('an answer before the end of the body', async t => {
  const session = http2(t, gw.port)
  const stream = session.request({ ':method': 'POST', ':path': '/x/early' })
  let body = ''
  stream.setEncoding('utf8')
  stream.on('data', chunk => {
    body += chunk
  })
  stream.write('the first of many')
  const [head] = await once(stream, 'response')
  t.equal(head[':status'], 200)
  await once(stream, 'close')
  t.equal(body, 'no need for more')
  t.equal(stream.rstCode, constants.NGHTTP2_NO_ERROR)
  t.match(await ask(session, { ':path': '/x/' }), { status: 200, code: 0 })
})

t.test('a flood of requests taken back is cut off', async t => {
  const session = http2(t, gw.port)
  await once(session, 'connect')
  const before = up.requests.length
  let isClosed = false
  const [code] = await new Promise<unknown[]>(resolve => {
    session.once('goaway', (...given) => resolve(given))
    session.once('close', () => {
      isClosed = true
      resolve(['closed'])
    })
    const flood = () => {
      for (let i = 0; i < 100 && !session.closed && !session.destroyed; i++) {
        const stream: ClientHttp2Stream = session.request({ ':path': '/x/hangs' })
        stream.on('error', () => {})
        stream.close(constants.NGHTTP2_CANCEL)
      }
      if (!isClosed && !session.closed && !session.destroyed) setImmediate(flood)
    }
    flood()
  })
  t.not(code, 0, `told ${code}`)
  t.ok(up.requests.length - before < 5_000, `${up.requests.length - before} reached the upstream`)
  t.match(await ask(http2(t, gw.port), { ':path': '/x/' }), { status: 200 }, 'others are served')
})

t.test('a stop tells clients, and ends with their requests', async t => {
  const slow = await secure(t, [paths.a!], {
    apis: [api('x', up.url)],
    settings: { graceful_shutdown_timeout_duration: 5 }
  })
  const idle = http2(t, slow.port)
  t.match(await ask(idle, { ':path': '/x/' }), { status: 200 })
  const busy = http2(t, slow.port)
  const stream = busy.request({ ':method': 'POST', ':path': '/x/echo' })
  const told = [once(idle, 'goaway'), once(busy, 'goaway'), once(idle, 'close')]
  await once(up.server, 'request')
  const stopped = slow.stop()
  t.same(
    (await Promise.all(told)).map(([code]) => code ?? 0),
    [0, 0, 0],
    'GOAWAY without an error'
  )
  let body = ''
  stream.setEncoding('utf8')
  stream.on('data', chunk => {
    body += chunk
  })
  stream.end('the rest of it')
  await once(stream, 'close')
  t.equal(body, 'the rest of it', 'its request ends well')
  t.equal(stream.rstCode, 0)
  await stopped
})

t.test('before a stop, idle connections have their next request answered', async t => {
  const slow = await secure(t, [paths.a!], {
    apis: [api('x', up.url)],
    settings: { graceful_shutdown_delay_seconds: 0.5, graceful_shutdown_timeout_duration: 5 }
  })
  const session = http2(t, slow.port)
  t.match(await ask(session, { ':path': '/x/' }), { status: 200 })
  const stopped = slow.stop()
  const told = once(session, 'goaway')
  t.match(await ask(session, { ':path': '/x/' }), { status: 200, code: 0 })
  t.equal((await told)[0], 0, 'that is its last')
  await once(session, 'close')
  await stopped
})

t.test('HTTP/2 can be off', async t => {
  const old = await secure(t, [paths.a!], { options: { enable_http2: false } })
  const socket = await shake(t, old.port, { ALPNProtocols: ['h2', 'http/1.1'] })
  t.equal(socket.alpnProtocol, 'http/1.1')
})

t.test('h2load', async t => {
  const args = ['-n', '2000', '-c', '4', '-m', '50', `https://127.0.0.1:${gw.port}/x/`]
  const { stdout } = await whole('h2load', args)
  t.match(stdout, /2000 succeeded, 0 failed, 0 errored/)
})

t.test('none of it was a fault of the gateway', async t => {
  t.same(
    gw.log.lines.filter(({ level }: Line) => level === 'error'),
    []
  )
})
