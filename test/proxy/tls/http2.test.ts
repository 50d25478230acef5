import { once } from 'node:events'
import { request } from 'node:http'
import {
  constants,
  createSecureServer,
  type Http2SecureServer,
  type ServerHttp2Session,
  type ServerHttp2Stream
} from 'node:http2'
import { type AddressInfo, connect, createServer } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { createServer as createTlsServer } from 'node:tls'
import t, { type Test } from 'tap'
import type { RequestBody } from '../../../gateway/proxy/body.ts'
import type { Target } from '../../../gateway/proxy/upstream.ts'
import { upstreamDirect } from '../../../gateway/proxy/upstreamDirect.ts'
import { upstreamHttp2 } from '../../../gateway/proxy/upstreamHttp2.ts'
import { upstreamContract } from '../../contract/upstream.ts'
import { certificate } from '../../contract/upstreamCertificate.ts'
import { front, Heard, send } from '../../contract/upstreamServers.ts'
import { secureTarget } from './profiles.ts'

const pem = certificate()
const HUNDRED_MB = 100 * 1024 * 1024
const MOST_ON_THE_WAY = 32 * 1024 * 1024

interface Far {
  readonly target: Target
  readonly server: Http2SecureServer
  readonly sessions: ServerHttp2Session[]
  /** Header pairs of the requests. */
  readonly heads: string[][]
}

type Serve = (stream: ServerHttp2Stream, path: string) => unknown

/** A server of HTTP/2 alone, unless `http1`. */
async function far(t: Test, serve: Serve, settings: object = {}, http1 = false): Promise<Far> {
  const sessions: ServerHttp2Session[] = []
  const heads: string[][] = []
  const server = createSecureServer({
    ...pem,
    allowHTTP1: http1,
    settings,
    ...({ strictSingleValueFields: false } as object)
  })
  server.on('session', session => {
    sessions.push(session)
    session.on('error', () => {})
  })
  server.on('stream', (stream: ServerHttp2Stream, headers, _flags, raw) => {
    stream.on('error', () => {})
    heads.push(raw as unknown as string[])
    void serve(stream, String(headers[':path']))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const session of sessions) session.destroy()
    server.close()
  })
  return { target: secureTarget((server.address() as AddressInfo).port, true), server, sessions, heads }
}

function client(t: Test, connections = 8, connectTimeoutMs = 5_000) {
  const reach = { connectTimeoutMs, connections }
  const upstream = upstreamHttp2(upstreamDirect(reach), reach)
  t.teardown(() => upstream.close())
  return upstream
}

/** Resets a stream and nothing else: `close` would end its body first. */
function rst(stream: ServerHttp2Stream, code: number): void {
  const handle = Object.getOwnPropertySymbols(stream).find(({ description }) => description === 'kHandle')!
  ;(stream as unknown as Record<symbol, { rstStream(code: number): void }>)[handle]!.rstStream(code)
}

const ok: Serve = stream => {
  stream.respond({ ':status': 200 })
  stream.end('ok')
}

// What is not for HTTP/2 passes as before.
upstreamContract(t, options => upstreamHttp2(upstreamDirect(options), options), {
  lenient: new Set(),
  knowsReuse: true,
  sendsTrailers: true,
  takesEarlyAnswers: true,
  readsUntilClose: true,
  takes100: true,
  trims: true
})

t.test('a request goes out as it was given, and its answer comes back as it was given', async t => {
  const up = await far(t, stream => {
    stream.additionalHeaders({ ':status': 103, link: '</a>' })
    stream.respond(
      { ':status': 201, 'x-two': ['a', 'b'], 'x-latin': '\xe9', 'content-length': '3' },
      { waitForTrailers: true }
    )
    stream.on('wantTrailers', () => stream.sendTrailers({ 'x-sum': '6' }))
    stream.end('abc')
  })
  const pairs = [
    'Host',
    'other.test',
    'X-Odd',
    'v:  \xe9',
    'x-odd',
    '',
    'Cookie',
    'a=1',
    'Cookie',
    'b=2',
    'User-Agent',
    'u',
    'User-Agent',
    'v'
  ]
  const heard = await send(client(t), up.target, { path: '/a%20b?c=/d', pairs, trailers: true }).over
  t.equal(heard.failed, null)
  t.same(up.heads[0], [
    ':method',
    'GET',
    ':scheme',
    'https',
    ':authority',
    'other.test',
    ':path',
    '/a%20b?c=/d',
    'x-odd',
    'v:  \xe9',
    'x-odd',
    '',
    'cookie',
    'a=1',
    'cookie',
    'b=2',
    'user-agent',
    'u',
    'user-agent',
    'v',
    'te',
    'trailers'
  ])
  t.equal(heard.status, 201)
  t.equal(heard.reason, '')
  t.same(heard.informations, [[103, ['link', '</a>']]])
  t.same(heard.pairs.slice(0, 8), ['x-two', 'a', 'x-two', 'b', 'x-latin', '\xe9', 'content-length', '3'])
  t.equal(heard.body, 'abc')
  t.same(heard.trailers, ['x-sum', '6'])
  t.equal(heard.strays, 0)
})

t.test('methods, empty answers and bodies that are held', async t => {
  const got: string[] = []
  const up = await far(t, async (stream, path) => {
    let body = ''
    for await (const chunk of stream) body += chunk
    got.push(body)
    if (path === '/204') stream.respond({ ':status': 204 }, { endStream: true })
    else if (path === '/304') stream.respond({ ':status': 304, 'content-length': '9' }, { endStream: true })
    else ok(stream, path)
  })
  const upstream = client(t)
  for (const [method, path, body] of [
    ['GET', '/', null],
    ['HEAD', '/204', null],
    ['PROPFIND', '/304', null],
    ['POST', '/', null],
    ['PUT', '/', Buffer.from('x'.repeat(70_000))],
    ['DELETE', '/', Buffer.alloc(0)]
  ] as const) {
    const heard = await send(upstream, up.target, { method, path, body }).over
    t.equal(heard.failed, null, method)
    t.equal(got.at(-1)!.length, body?.length ?? 0)
    const head = up.heads.at(-1)!
    const length = head.indexOf('content-length')
    t.equal(length < 0 ? null : head[length + 1], body === null && method !== 'POST' ? null : String(body?.length ?? 0))
  }
  t.equal(up.sessions.length, 1)
})

t.test('a hundred requests share a connection, more open another', async t => {
  const waiting: ServerHttp2Stream[] = []
  const up = await far(t, stream => waiting.push(stream))
  const upstream = client(t)
  const all = Array.from({ length: 150 }, () => send(upstream, up.target))
  while (waiting.length < 150) await turn()
  t.equal(up.sessions.length, 2)
  for (const stream of waiting) ok(stream, '')
  for (const heard of all) t.equal((await heard.over).body, 'ok')
})

t.test('what the upstream allows counts; without more connections requests wait in turn', async t => {
  const waiting: ServerHttp2Stream[] = []
  let most = 0
  const up = await far(
    t,
    stream => {
      most = Math.max(most, waiting.push(stream))
    },
    { maxConcurrentStreams: 3 }
  )
  const upstream = client(t, 1)
  const all = Array.from({ length: 20 }, (_, i) => send(upstream, up.target, { path: `/${i}` }))
  all[15]!.flight!.abort()
  for (let answered = 0; answered < 19; answered++) {
    while (waiting.length === 0) await turn()
    ok(waiting.shift()!, '')
  }
  for (const [i, heard] of all.entries()) if (i !== 15) t.equal((await heard.over).body, 'ok')
  t.ok(most <= 3, `${most} at a time`)
  t.notOk(up.heads.some(head => head.includes('/15')))
})

t.test('ends of streams and connections', async t => {
  const { NGHTTP2_CANCEL, NGHTTP2_INTERNAL_ERROR, NGHTTP2_NO_ERROR, NGHTTP2_REFUSED_STREAM } = constants
  const started = (stream: ServerHttp2Stream) => {
    stream.respond({ ':status': 200 })
    stream.write('part')
  }
  const reset =
    (code: number, begin: (stream: ServerHttp2Stream) => void = () => {}): Serve =>
    stream => {
      begin(stream)
      setImmediate(() => setImmediate(() => rst(stream, code)))
    }
  const rows: [string, Serve, string, string][] = [
    ['a stream that is refused', reset(NGHTTP2_REFUSED_STREAM), 'reset', 'unsent'],
    ['a stream that is cancelled', reset(NGHTTP2_CANCEL), 'reset', 'no'],
    ['a stream that fails', reset(NGHTTP2_INTERNAL_ERROR), 'reset', 'no'],
    ['a body that is cancelled', reset(NGHTTP2_CANCEL, started), 'reset', 'no'],
    [
      'a body that is reset without an error before its length has come',
      reset(NGHTTP2_NO_ERROR, stream => {
        stream.respond({ ':status': 200, 'content-length': '9' })
        stream.write('part')
      }),
      'reset',
      'no'
    ],
    ['a body that fails', reset(NGHTTP2_INTERNAL_ERROR, started), 'reset', 'no'],
    ['a connection that closes', stream => stream.session!.socket.destroy(), 'reset', 'no'],
    [
      'a connection that closes inside of a body',
      stream => {
        started(stream)
        setTimeout(() => stream.session!.destroy(), 20)
      },
      'reset',
      'no'
    ],
    ['GOAWAY with an error', stream => stream.session!.destroy(new Error('x'), NGHTTP2_INTERNAL_ERROR), 'reset', 'no'],
    [
      'a length that the body does not have',
      stream => {
        stream.respond({ ':status': 200, 'content-length': '9' })
        stream.end('ok')
      },
      'garbage',
      'no'
    ]
  ]
  for (const [name, serve, code, retry] of rows) {
    const up = await far(t, serve)
    const upstream = client(t)
    const heard = await send(upstream, up.target).over
    t.equal(heard.failed?.code, code, name)
    t.equal(heard.failed?.retry, retry, name)
    t.equal(heard.strays, 0)
  }
})

t.test('a connection that closes after it has served is unanswered, and the next request has a new one', async t => {
  const up = await far(t, (stream, path) => (path === '/dies' ? stream.session!.socket.destroy() : ok(stream, path)))
  const upstream = client(t)
  t.equal((await send(upstream, up.target).over).body, 'ok')
  const heard = await send(upstream, up.target, { path: '/dies' }).over
  t.equal(heard.failed?.code, 'reset')
  t.equal(heard.failed?.retry, 'unanswered')
  t.equal((await send(upstream, up.target).over).body, 'ok')
  t.equal(up.sessions.length, 2)
})

t.test('behind GOAWAY streams under way end, and new ones have a new connection', async t => {
  const waiting: ServerHttp2Stream[] = []
  const up = await far(t, (stream, path) => (path === '/slow' ? waiting.push(stream) : ok(stream, path)))
  const upstream = client(t)
  const slow = send(upstream, up.target, { path: '/slow' })
  while (waiting.length === 0) await turn()
  up.sessions[0]!.goaway()
  for (let i = 0; i < 5; i++) {
    const heard = await send(upstream, up.target).over
    // It may have left before the news came.
    if (heard.failed === null) t.equal(heard.body, 'ok')
    else t.equal(heard.failed.retry, 'unsent')
  }
  ok(waiting[0]!, '')
  t.equal((await slow.over).body, 'ok')
  t.equal(up.sessions.length, 2)
})

t.test('an abort resets the stream alone, at every stage, and nothing more is heard', async t => {
  const ends: number[] = []
  const up = await far(t, (stream, path) => {
    if (path === '/good') return ok(stream, path)
    stream.on('close', () => ends.push(stream.rstCode))
    if (path !== '/before') stream.respond({ ':status': 200 })
    if (path === '/body') stream.write('part')
  })
  const upstream = client(t)
  for (const path of ['/before', '/head', '/body']) {
    const heard = send(upstream, up.target, { path })
    while (!up.heads.some(head => head.includes(path))) await turn()
    if (path !== '/before') await heard.headed
    heard.flight!.abort()
    while (ends.length === 0) await turn()
    t.equal(ends.pop(), constants.NGHTTP2_CANCEL, path)
    heard.flight!.abort()
    heard.flight!.resume()
    t.equal((await send(upstream, up.target, { path: '/good' }).over).body, 'ok')
    t.equal(heard.failed, null)
    t.equal(heard.strays, 0)
  }
  const early = send(upstream, up.target, { path: '/early' })
  early.flight!.abort()
  t.equal((await send(upstream, up.target, { path: '/good' }).over).body, 'ok')
  t.equal(up.sessions.length, 1)
})

t.test('100 MB flow up in bounded memory, with and without a length, trailers behind', async t => {
  for (const length of [HUNDRED_MB, -1]) {
    let got = 0
    let most = 0
    let trailers: object = {}
    let body: RequestBody | null = null
    const up = await far(t, stream => {
      stream.on('trailers', each => {
        trailers = each
      })
      stream.on('data', (chunk: Buffer) => {
        got += chunk.length
        most = Math.max(most, body!.seen - got)
        stream.pause()
        setImmediate(() => stream.resume())
      })
      stream.on('end', () => ok(stream, ''))
    })
    const upstream = client(t)
    const port = await front(t, given => {
      body = given
      return send(upstream, up.target, { method: 'PUT', body: given }).over
    })
    const ask = request({
      port,
      method: 'PUT',
      headers: length < 0 ? { trailer: 'x-sum' } : { 'Content-Length': length }
    })
    const piece = Buffer.alloc(65_536, 'x')
    for (let sent = 0; sent < HUNDRED_MB; sent += piece.length) if (!ask.write(piece)) await once(ask, 'drain')
    if (length < 0)
      ask.addTrailers([
        ['X-Sum', '6'],
        ['Authorization', 'x']
      ])
    ask.end()
    const [answer] = await once(ask, 'response')
    answer.resume()
    t.equal(got, HUNDRED_MB)
    t.same(Object.entries(trailers), length < 0 ? [['x-sum', '6']] : [])
    t.ok(most < MOST_ON_THE_WAY, `at most ${most} bytes on their way`)
  }
})

t.test('100 MB flow down to a slow listener in bounded memory, and others do not wait for it', async t => {
  let sent = 0
  const up = await far(t, async (stream, path) => {
    if (path === '/good') return ok(stream, path)
    stream.respond({ ':status': 200 })
    const piece = Buffer.alloc(65_536, 'x')
    for (; sent < HUNDRED_MB; sent += piece.length) if (!stream.write(piece)) await once(stream, 'drain')
    stream.end()
  })
  const upstream = client(t, 1)
  const heard = new Heard()
  heard.keeps = false
  let most = 0
  heard.takes = () => {
    most = Math.max(most, sent - heard.bytes)
    setImmediate(() => heard.resume())
    return false
  }
  send(upstream, up.target, {}, heard)
  await heard.headed
  t.equal((await send(upstream, up.target, { path: '/good' }).over).body, 'ok')
  t.equal((await heard.over).failed, null)
  t.equal(heard.bytes, HUNDRED_MB)
  t.equal(heard.strays, 0)
  t.ok(most < MOST_ON_THE_WAY, `at most ${most} bytes on their way`)
  t.equal(up.sessions.length, 1)
})

t.test('an answer that comes before the request is whole is heard, and the rest of the request dropped', async t => {
  const up = await far(t, (stream, path) => {
    if (path === '/good') return ok(stream, path)
    stream.respond({ ':status': 413 })
    stream.end('much')
  })
  const upstream = client(t)
  const answers: Heard[] = []
  const port = await front(t, async body => {
    answers.push(await send(upstream, up.target, { method: 'POST', body }).over)
  })
  const ask = request({ port, method: 'POST', headers: { 'Content-Length': 1_000_000 } })
  ask.on('error', () => {})
  ask.write('part')
  await once(ask, 'response')
  ask.destroy()
  t.equal(answers[0]!.failed, null)
  t.equal(answers[0]!.status, 413)
  t.equal(answers[0]!.body, 'much')
  t.equal((await send(upstream, up.target, { path: '/good' }).over).body, 'ok')
})

t.test('an upstream that chooses HTTP/1.1 gets HTTP/1.1, and is not asked each time', async t => {
  let connections = 0
  const heads: string[] = []
  const server = createTlsServer({ ...pem, ALPNProtocols: ['http/1.1'] }, socket => {
    socket.on('error', () => {})
    socket.on('data', chunk => {
      heads.push(String(chunk))
      socket.write('HTTP/1.1 200 Fine\r\nContent-Length: 2\r\n\r\nok')
    })
  })
  server.on('connection', () => connections++)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const upstream = client(t)
  const target = secureTarget((server.address() as AddressInfo).port, true)
  t.equal((await send(upstream, target).over).body, 'ok')
  t.equal(connections, 2, 'one that offers both, and one for HTTP/1.1')
  for (let i = 0; i < 3; i++) t.equal((await send(upstream, target).over).reason, 'Fine')
  t.equal(connections, 2)
  for (const heard of [send(upstream, target), send(upstream, target)]) t.equal((await heard.over).body, 'ok')
  t.match(heads[0], /^GET \/ HTTP\/1\.1\r\n/)
})

t.test('an upstream that refuses, closes, stays silent or is none', async t => {
  const upstream = client(t, 8, 300)
  const refused = await send(upstream, secureTarget(1, true)).over
  t.equal(refused.failed?.code, 'connect')
  t.equal(refused.failed?.retry, 'unsent')
  for (const [act, code] of [
    ['close', 'tls'],
    ['garbage', 'tls'],
    ['silence', 'connect_timeout']
  ] as const) {
    const server = createServer(socket => {
      socket.on('error', () => {})
      socket.resume()
      if (act === 'close') socket.end()
      if (act === 'garbage') socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')
      t.teardown(() => socket.destroy())
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => server.close())
    const heard = await send(upstream, secureTarget((server.address() as AddressInfo).port, true)).over
    t.equal(heard.failed?.code, code, act)
    t.equal(heard.failed?.retry, 'unsent')
  }
})

t.test('an upstream that says h2 and speaks none is garbage or reset, and the process goes on', async t => {
  const server = createTlsServer({ ...pem, ALPNProtocols: ['h2'] }, socket => {
    socket.on('error', () => {})
    socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const heard = await send(client(t), secureTarget((server.address() as AddressInfo).port, true)).over
  t.ok(heard.failed)
  t.equal(heard.strays, 0)
})

t.test('a connection that has died silently is found out when a request on it is given up', async t => {
  let silent = false
  const up = await far(t, (stream, path) => void (path === '/good' && ok(stream, path)))
  const relay = createServer(near => {
    const on = connect(up.target.port, '127.0.0.1')
    near.on('error', () => {})
    on.on('error', () => {})
    near.on('data', chunk => void (silent || on.write(chunk)))
    on.on('data', chunk => near.write(chunk))
    near.on('close', () => on.destroy())
    t.teardown(() => near.destroy())
  })
  relay.listen(0, '127.0.0.1')
  await once(relay, 'listening')
  t.teardown(() => relay.close())
  const upstream = client(t, 8, 100)
  const target = secureTarget((relay.address() as AddressInfo).port, true)
  t.equal((await send(upstream, target, { path: '/good' }).over).body, 'ok')
  silent = true
  const lost = send(upstream, target, { path: '/good' })
  const other = send(upstream, target, { path: '/good' })
  await turn()
  lost.flight!.abort()
  t.equal((await other.over).failed?.code, 'reset')
  silent = false
  t.equal((await send(upstream, target, { path: '/good' }).over).body, 'ok')
})

t.test('a new client certificate counts for the next request, and what is under way ends', async t => {
  const waiting: ServerHttp2Stream[] = []
  const up = await far(t, (stream, path) => (path === '/slow' ? waiting.push(stream) : ok(stream, path)))
  const upstream = client(t)
  const target = secureTarget(up.target.port, true)
  const slow = send(upstream, target, { path: '/slow' })
  while (waiting.length === 0) await turn()
  const { cert, key } = pem
  target.tls.change({
    id: 'x',
    org: '',
    chain: [],
    publicKey: null as never,
    pem: cert,
    privateKey: key,
    fingerprint: '',
    startsMs: 0,
    expiresMs: 0
  })
  t.equal((await send(upstream, target).over).body, 'ok')
  t.equal(up.sessions.length, 2)
  ok(waiting[0]!, '')
  t.equal((await slow.over).body, 'ok')
  while (!up.sessions[0]!.destroyed) await turn()
})

t.test('what closes the upstream ends every request', async t => {
  const up = await far(t, () => {})
  const upstream = client(t)
  const flying = [send(upstream, up.target), send(upstream, up.target)]
  while (up.heads.length < 2) await turn()
  const connecting = send(upstream, secureTarget(up.target.port, true, { minVersion: 'TLSv1.3' }))
  await upstream.close()
  for (const heard of [...flying, connecting]) t.ok((await heard.over).failed)
  t.ok((await send(upstream, up.target).over).failed)
})

t.test('a head that would break as HTTP/1.1 is never sent', async t => {
  const up = await far(t, ok)
  const upstream = client(t)
  for (const bad of [
    { path: '/ x' },
    { path: '' },
    { method: 'A B' },
    { pairs: ['Host', 'h', 'X', 'a\r\nY: b'] },
    { pairs: ['Host', 'h', 'X Y', 'a'] },
    { pairs: ['Host', 'h', 'Transfer-Encoding', 'chunked'] },
    { pairs: ['Host', 'h', 'Keep-Alive', 'timeout=5'] }
  ]) {
    const heard = await send(upstream, up.target, bad).over
    t.equal(heard.failed?.code, 'garbage', JSON.stringify(bad))
  }
  t.equal(up.heads.length, 0)
})
