import { once } from 'node:events'
import { request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { Worker } from 'node:worker_threads'
import type { Test } from 'tap'
import type { RequestBody } from '../../gateway/proxy/body.ts'
import type { Upstream } from '../../gateway/proxy/upstream.ts'
import { badAnswers, goodAnswers } from './upstreamAnswers.ts'
import { certificate } from './upstreamCertificate.ts'
import { front, Heard, rawServer, send, targetOf } from './upstreamServers.ts'

/** Where implementations may differ. */
export interface Traits {
  /** Bad answers, by their name, that it does not take for garbage; it must not hang or crash on them all the same. */
  readonly lenient: ReadonlySet<string>
  /** A reset before the answer is `unanswered` on a reused connection only, as the port says. */
  readonly knowsReuse: boolean
  /** The trailers of a request with a chunked body go up. */
  readonly sendsTrailers: boolean
  /** An answer that is complete before the request is: it counts, and the rest of the request is dropped. */
  readonly takesEarlyAnswers: boolean
  /** A body that ends with the connection is complete at a clean end only, and not while the listener is full. */
  readonly readsUntilClose: boolean
  /** A 100 that nobody waits for is information, not a fault. */
  readonly takes100: boolean
  /** Blanks behind a value are not part of it (RFC 9112 §5.1). */
  readonly trims: boolean
}

export interface MakeOptions {
  readonly connectTimeoutMs: number
  readonly connections: number
}

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
// More than there are bad heads: undici's pool never gives back the connection that was to take one.
const MANY = { connections: 32 }
const HUNDRED_MB = 100 * 1024 * 1024
/** What may be on its way between two slow ends: buffers of the kernel and of the streams. */
const MOST_ON_THE_WAY = 32 * 1024 * 1024

/** What every upstream keeps to. */
export function upstreamContract(t: Test, make: (options: MakeOptions) => Upstream, traits: Traits): void {
  const withUpstream = (
    name: string,
    run: (t: Test, upstream: Upstream) => Promise<void>,
    options: Partial<MakeOptions> = {}
  ) =>
    t.test(name, async t => {
      const upstream = make({ connectTimeoutMs: 5_000, connections: 8, ...options })
      t.teardown(() => upstream.close())
      await run(t, upstream)
    })

  withUpstream('a request goes out as it was given, and its answer comes back as it was given', async (t, upstream) => {
    const server = await rawServer(t, socket =>
      socket.write(
        'HTTP/1.1 201 Made it\r\nX-One: a\r\nx-one:\tb \r\nX-Empty:\r\nX-Latin: \xe9\r\nContent-Length: 3\r\n\r\nabc',
        'latin1'
      )
    )
    const pairs = ['Host', 'h', 'X-Odd', 'v:  é', 'x-odd', '']
    const heard = await send(upstream, server.target, { path: '/a%20b?c=/d', pairs }).over
    t.match(server.heads[0], /^GET \/a%20b\?c=\/d HTTP\/1\.1\r\nHost: h\r\n/i)
    t.match(server.heads[0], /\r\nX-Odd: v: {2}é\r\nx-odd: ?\r\n/)
    t.notMatch(server.heads[0], /content-length|transfer-encoding/i)
    t.equal(heard.failed, null)
    t.equal(heard.status, 201)
    t.equal(heard.reason, 'Made it')
    t.strictSame(heard.pairs, [
      'X-One',
      'a',
      'x-one',
      traits.trims ? 'b' : 'b ',
      'X-Empty',
      '',
      'X-Latin',
      'é',
      'Content-Length',
      '3'
    ])
    t.equal(heard.body, 'abc')
    t.equal(heard.trailers, null)
    t.equal(heard.strays, 0)
  })

  withUpstream('methods go out by their name', async (t, upstream) => {
    const server = await rawServer(t, socket => socket.write(OK))
    for (const method of ['GET', 'DELETE', 'OPTIONS', 'PATCH', 'POST', 'PUT', 'PROPFIND', 'QUERY']) {
      t.equal((await send(upstream, server.target, { method }).over).body, 'ok')
      t.ok(server.heads.at(-1)!.startsWith(`${method} / `))
      if (/^P[AOU]/.test(method)) t.match(server.heads.at(-1), /\r\ncontent-length: 0\r\n/i, 'an absent body is told')
    }
  })

  for (const [name, bytes, expected] of goodAnswers) {
    if (!traits.takes100 && expected.informations?.[0]?.[0] === 100) continue
    withUpstream(`it reads ${name}, whole and byte by byte`, async (t, upstream) => {
      const server = await rawServer(t, async (socket, head) => {
        const whole = Buffer.from(bytes, 'latin1')
        if (head.includes('/whole')) socket.write(whole)
        else {
          for (let i = 0; i < whole.length; i++) {
            socket.write(whole.subarray(i, i + 1))
            await turn()
          }
        }
        if (expected.closes) socket.end()
      })
      const pairs = ['Host', 'h']
      for (const path of ['/whole', '/bytes']) {
        const heard = await send(upstream, server.target, { method: expected.method ?? 'GET', path, pairs: [...pairs] })
          .over
        t.equal(heard.failed, null, path)
        t.equal(heard.status, expected.status ?? 200)
        t.equal(heard.body, expected.body)
        t.strictSame(heard.trailers, expected.trailers ?? null)
        t.strictSame(heard.informations, expected.informations ?? [])
        t.equal(heard.strays, 0)
      }
    })
  }

  t.test('bad answers', async t => {
    for (const [name, bytes] of badAnswers) {
      withBad(t, name, bytes)
    }
  })
  const withBad = (t: Test, name: string, bytes: string) =>
    t.test(`an upstream that sends ${name} is garbage, and the next request is answered`, async t => {
      const upstream = make({ connectTimeoutMs: 5_000, connections: 1 })
      t.teardown(() => upstream.close())
      const lenient = traits.lenient.has(name)
      const server = await rawServer(t, (socket, head) => {
        if (head.includes('/good')) return socket.write(OK)
        socket.write(Buffer.from(bytes, 'latin1'))
        if (lenient) socket.end()
      })
      const heard = await send(upstream, server.target, { path: '/bad' }).over
      if (!lenient) {
        t.equal(heard.failed?.code, 'garbage')
        t.equal(heard.failed?.retry, 'no')
      }
      const next = await send(upstream, server.target, { path: '/good' }).over
      t.equal(next.failed, null)
      t.equal(next.body, 'ok')
      t.equal(heard.strays + next.strays, 0)
    })

  withUpstream('bytes behind an answer never become the next one', async (t, upstream) => {
    const poison = 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison'
    const server = await rawServer(t, (socket, head) => {
      if (head.includes('/together')) socket.write(OK + poison)
      else if (head.includes('/later')) {
        socket.write(OK)
        setImmediate(() => socket.write(poison))
      } else socket.write(OK)
    })
    t.equal((await send(upstream, server.target, { path: '/together' }).over).status, 200)
    t.equal((await send(upstream, server.target, { path: '/good' }).over).body, 'ok')
    const before = server.sockets.length
    t.equal((await send(upstream, server.target, { path: '/later' }).over).body, 'ok')
    await server.closed(before - 1)
    t.equal((await send(upstream, server.target, { path: '/good' }).over).body, 'ok')
  })

  withUpstream('an answer that nobody asked for closes the connection', async (t, upstream) => {
    const server = await rawServer(t, socket => socket.write(OK))
    await send(upstream, server.target).over
    server.sockets[0]!.write('HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n')
    await server.closed(0)
    t.equal((await send(upstream, server.target).over).body, 'ok')
    t.equal(server.sockets.length, 2)
  })

  withUpstream('answers that break off are faults of the kind reset', async (t, upstream) => {
    const cut = [
      '',
      'HTTP/1.1 2',
      'HTTP/1.1 200 OK\r\nContent-Le',
      'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n',
      'HTTP/1.1 103 Early Hints\r\n\r\n'
    ]
    for (const end of ['end', 'resetAndDestroy'] as const) {
      for (const bytes of cut) {
        const server = await rawServer(t, socket => void socket.write(bytes, () => setImmediate(() => socket[end]())))
        const heard = await send(upstream, server.target).over
        t.equal(heard.failed?.code, 'reset', `${end} behind ${JSON.stringify(bytes)}`)
        if (traits.knowsReuse) t.equal(heard.failed?.retry, 'no', 'a first request was not stale')
        t.equal(heard.strays, 0)
      }
    }
    const server = await rawServer(t, socket => socket.write('HTTP/1.1 200 OK\r\n\r\nabc'))
    const heard = send(upstream, server.target)
    await heard.headed
    server.sockets[0]!.resetAndDestroy()
    await heard.over
    if (traits.readsUntilClose) t.equal(heard.failed?.code, 'reset', 'a reset does not complete a body')
  })

  withUpstream('a connection is used again, and not after the upstream said that it closes', async (t, upstream) => {
    const server = await rawServer(t, (socket, head) =>
      socket.write(head.includes('/last') ? 'HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n' : OK)
    )
    for (let i = 0; i < 5; i++) {
      await send(upstream, server.target).over
      await turn()
    }
    t.equal(server.sockets.length, 1)
    await send(upstream, server.target, { path: '/last' }).over
    t.equal((await send(upstream, server.target).over).body, 'ok')
    t.equal(server.sockets.length, 2)
  })

  withUpstream('a reused connection that closes before any byte of an answer is unanswered', async (t, upstream) => {
    for (const end of ['destroy', 'resetAndDestroy'] as const) {
      const server = await rawServer(
        t,
        (socket, head) => void (head.includes('/dies') ? socket[end]() : socket.write(OK))
      )
      await send(upstream, server.target).over
      await turn()
      const heard = await send(upstream, server.target, { path: '/dies' }).over
      t.equal(heard.failed?.code, 'reset')
      t.equal(heard.failed?.retry, 'unanswered')
      t.equal(server.sockets.length, 1)
      t.equal((await send(upstream, server.target).over).body, 'ok')
    }
  })

  withUpstream('an idle connection that the upstream closes is left', async (t, upstream) => {
    const server = await rawServer(t, socket => socket.write(OK))
    await send(upstream, server.target).over
    server.sockets[0]!.end()
    await server.closed(0)
    t.equal((await send(upstream, server.target).over).body, 'ok')
    t.equal(server.sockets.length, 2)
  })

  withUpstream(
    'no more connections than allowed are opened; requests beyond wait in turn',
    async (t, upstream) => {
      const waiting: Socket[] = []
      const paths: string[] = []
      const server = await rawServer(t, (socket, head) => {
        paths.push(head.split(' ')[1]!)
        waiting.push(socket)
      })
      const all = Array.from({ length: 10 }, (_, i) => send(upstream, server.target, { path: `/${i}` }))
      for (let answered = 0; answered < 10; answered++) {
        while (waiting.length === 0) await turn()
        waiting.shift()!.write(OK)
      }
      for (const heard of all) t.equal((await heard.over).body, 'ok')
      t.equal(server.sockets.length, 2)
      t.strictSame(paths.slice(2), ['/2', '/3', '/4', '/5', '/6', '/7', '/8', '/9'])
    },
    { connections: 2 }
  )

  withUpstream(
    'what is aborted while it waits is never sent',
    async (t, upstream) => {
      const waiting: Socket[] = []
      const server = await rawServer(t, socket => waiting.push(socket))
      const all = Array.from({ length: 4 }, (_, i) => send(upstream, server.target, { path: `/${i}` }))
      for (const i of [1, 3]) all[i]!.flight!.abort()
      for (const i of [0, 2]) {
        while (waiting.length === 0) await turn()
        waiting.shift()!.write(OK)
        t.equal((await all[i]!.over).body, 'ok')
      }
      t.strictSame(
        server.heads.map(head => head.split(' ')[1]),
        ['/0', '/2']
      )
      t.equal(all[1]!.failed ?? all[3]!.failed, null)
    },
    { connections: 1 }
  )

  withUpstream(
    'an abort closes the connection at once, at every stage, and nothing more is heard',
    async (t, upstream) => {
      const stages: Record<string, string> = {
        'before any byte': '',
        'inside the head': 'HTTP/1.1 200 OK\r\nContent-',
        'inside the body': 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc',
        'inside a chunk': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc',
        'before a body that ends with the connection': 'HTTP/1.1 200 OK\r\n\r\n'
      }
      for (const [stage, bytes] of Object.entries(stages)) {
        const server = await rawServer(t, socket => socket.write(bytes))
        const heard = send(upstream, server.target)
        while (server.heads.length === 0) await turn()
        if (bytes.includes('\r\n\r\n')) await heard.headed
        heard.flight!.abort()
        await server.closed(0)
        heard.flight!.abort()
        heard.flight!.resume()
        await turn()
        t.equal(heard.failed, null, stage)
        t.equal(heard.strays, 0)
      }
      const server = await rawServer(t, socket => socket.write(OK))
      const heard = new Heard()
      heard.takes = () => {
        heard.flight!.abort()
        return true
      }
      send(upstream, server.target, {}, heard)
      await server.connections(1)
      await server.closed(0)
      t.equal(heard.body, 'ok')
      const early = send(upstream, server.target, { path: '/early' })
      early.flight!.abort()
      t.equal((await send(upstream, server.target, { path: '/next' }).over).body, 'ok')
      t.notOk(
        server.heads.some(head => head.includes('/early')),
        'aborted before it was connected: never sent'
      )
    }
  )

  withUpstream('an abort behind the end of an answer leaves the connection to others', async (t, upstream) => {
    const server = await rawServer(t, socket => socket.write(OK))
    const first = await send(upstream, server.target).over
    await turn()
    const second = send(upstream, server.target)
    first.flight!.abort()
    t.equal((await second.over).body, 'ok')
    t.equal(server.sockets.length, 1)
  })

  withUpstream('a held body goes out with its length', async (t, upstream) => {
    const body = Buffer.from(Array.from({ length: 70_000 }, (_, i) => i & 255))
    let got = Buffer.alloc(0)
    const server = await rawServer(t, (socket, _head, rest) => {
      const take = (chunk: Buffer) => {
        got = Buffer.concat([got, chunk])
        if (got.length === body.length) socket.write(OK)
      }
      take(rest)
      socket.on('data', take)
    })
    t.equal((await send(upstream, server.target, { method: 'POST', body }).over).body, 'ok')
    t.match(server.heads[0], /\r\ncontent-length: 70000\r\n/i)
    t.ok(got.equals(body))
    const empty = await rawServer(t, socket => socket.write(OK))
    t.equal((await send(upstream, empty.target, { method: 'POST', body: Buffer.alloc(0) }).over).body, 'ok')
    t.match(empty.heads[0], /\r\ncontent-length: 0\r\n/i)
  })

  withUpstream('100 MB flow up in bounded memory, with and without a length', async (t, upstream) => {
    for (const length of [HUNDRED_MB, -1]) {
      let got = 0
      let most = 0
      let body: RequestBody | null = null
      const server = await rawServer(t, (socket, _head, rest) => {
        let tail = ''
        const take = (chunk: Buffer) => {
          got += chunk.length
          most = Math.max(most, body!.seen - got)
          tail = (tail + chunk.toString('latin1', Math.max(0, chunk.length - 5))).slice(-5)
          if (length < 0 ? tail === '0\r\n\r\n' : got === length) return socket.write(OK)
          // A reader that takes a piece a turn is slower than the sender.
          socket.pause()
          setImmediate(() => socket.resume())
        }
        socket.on('data', take)
        if (rest.length > 0) take(rest)
      })
      const port = await front(t, given => {
        body = given
        return send(upstream, server.target, { method: 'PUT', body: given }).over
      })
      const client = request({ port, method: 'PUT', headers: length < 0 ? {} : { 'Content-Length': length } })
      const piece = Buffer.alloc(65_536, 'x')
      for (let sent = 0; sent < HUNDRED_MB; sent += piece.length) {
        if (!client.write(piece)) await once(client, 'drain')
      }
      client.end()
      const [answer] = await once(client, 'response')
      answer.resume()
      t.equal(body!.seen, HUNDRED_MB)
      t.ok(length < 0 ? got > HUNDRED_MB : got === HUNDRED_MB)
      t.ok(most < MOST_ON_THE_WAY, `at most ${most} bytes on their way`)
    }
  })

  withUpstream('100 MB flow down in bounded memory, with and without a length', async (t, upstream) => {
    const piece = Buffer.alloc(65_536, 'x')
    for (const chunked of [false, true]) {
      const server = await rawServer(t, async socket => {
        socket.write(
          `HTTP/1.1 200 OK\r\n${chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${HUNDRED_MB}`}\r\n\r\n`
        )
        const frame = chunked ? Buffer.concat([Buffer.from('10000\r\n'), piece, Buffer.from('\r\n')]) : piece
        for (let sent = 0; sent < HUNDRED_MB; sent += piece.length)
          if (!socket.write(frame)) await once(socket, 'drain')
        if (chunked) socket.write('0\r\n\r\n')
      })
      const heard = new Heard()
      heard.keeps = false
      let most = 0
      heard.takes = () => {
        const socket = server.sockets[0]!
        most = Math.max(most, socket.bytesWritten - socket.writableLength - heard.bytes)
        setImmediate(() => heard.resume())
        return false
      }
      send(upstream, server.target, {}, heard)
      t.equal((await heard.over).failed, null)
      t.equal(heard.bytes, HUNDRED_MB)
      t.equal(heard.strays, 0, 'nothing comes while the listener is full')
      t.ok(most < MOST_ON_THE_WAY, `at most ${most} bytes on their way`)
    }
  })

  withUpstream('a listener that is full hears nothing until it resumes, the end included', async (t, upstream) => {
    const answers = [
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\nX: y\r\n\r\n',
      'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc',
      'HTTP/1.1 200 OK\r\n\r\nabc'
    ]
    for (const bytes of answers) {
      const server = await rawServer(t, socket => (bytes.includes(': ') ? socket.write(bytes) : socket.end(bytes)))
      const heard = new Heard()
      heard.takes = () => {
        setImmediate(() => setImmediate(() => heard.resume()))
        return false
      }
      t.equal((await send(upstream, server.target, {}, heard).over).body, 'abc')
      if (traits.readsUntilClose || bytes.includes(': ')) t.equal(heard.strays, 0)
    }
  })

  withUpstream('a flowing body goes out in chunks as they come, trailers behind', async (t, upstream) => {
    let got = ''
    const server = await rawServer(t, (socket, _head, rest) => {
      const take = (chunk: Buffer) => {
        got += chunk.toString('latin1')
        if (got.endsWith('0\r\n\r\n') || /\r\n0\r\n(?:[^\r]+\r\n)+\r\n$/.test(got)) socket.write(OK)
      }
      take(rest)
      socket.on('data', take)
    })
    const port = await front(t, body => send(upstream, server.target, { method: 'POST', body }).over)
    const client = connect(port, '127.0.0.1')
    client.write('POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n')
    while (!got.includes('hello')) await turn()
    client.write('1\r\n!\r\n0\r\nX-Sum: 6\r\nAuthorization: x\r\n\r\n')
    await once(client, 'data')
    client.destroy()
    t.match(server.heads[0], /\r\ntransfer-encoding: chunked\r\n/i)
    if (traits.sendsTrailers)
      t.equal(got, '5\r\nhello\r\n1\r\n!\r\n0\r\nX-Sum: 6\r\n\r\n', 'but for those that no trailer may be')
    else t.equal(got, '5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n')
  })

  withUpstream('who takes trailers says so', async (t, upstream) => {
    const server = await rawServer(t, socket => socket.write(OK))
    await send(upstream, server.target, { trailers: true }).over
    t.match(server.heads[0], /\r\nTE: trailers\r\n/i)
    await send(upstream, server.target, { trailers: false }).over
    t.notMatch(server.heads[1], /\r\nTE:/i)
  })

  withUpstream('the client that expects 100 Continue gets it when its request is on its way', async (t, upstream) => {
    const server = await rawServer(t, (socket, _head, rest) => {
      const take = (chunk: Buffer) => void (chunk.length > 0 && socket.write(OK))
      take(rest)
      socket.on('data', take)
    })
    const port = await front(t, body => send(upstream, server.target, { method: 'POST', body }).over)
    const client = request({ port, method: 'POST', headers: { 'Content-Length': 2, Expect: '100-continue' } })
    client.flushHeaders()
    client.end('hi')
    const [answer] = await once(client, 'response')
    t.equal(answer.statusCode, 200)
    answer.resume()
  })

  withUpstream(
    'an answer that comes before the request is whole is heard, and the connection not used again',
    async (t, upstream) => {
      const server = await rawServer(t, (socket, head) =>
        socket.write(head.startsWith('POST') ? 'HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\n\r\nmuch' : OK)
      )
      const answers: Heard[] = []
      const port = await front(t, async body => {
        answers.push(await send(upstream, server.target, { method: 'POST', body }).over)
      })
      const client = request({ port, method: 'POST', headers: { 'Content-Length': 1_000_000 } })
      client.on('error', () => {})
      client.write('part')
      await once(client, 'response')
      client.destroy()
      await server.closed(0)
      t.equal(answers[0]!.status, 413)
      t.equal(answers[0]!.body, 'much')
      if (traits.takesEarlyAnswers) t.equal(answers[0]!.failed, null)
      t.equal((await send(upstream, server.target).over).body, 'ok')
    }
  )

  withUpstream('an abort while a body flows up closes the connection and lets the rest go', async (t, upstream) => {
    const server = await rawServer(t, socket => socket.pause())
    let flowing: RequestBody | null = null
    const port = await front(t, async body => {
      flowing = body
      const heard = send(upstream, server.target, { method: 'POST', body })
      while (!body.paused) await turn()
      heard.flight!.abort()
      while (!body.ended) await turn()
    })
    const client = request({ port, method: 'POST', headers: { 'Content-Length': HUNDRED_MB } })
    const answered = once(client, 'response')
    const piece = Buffer.alloc(1_048_576)
    for (let sent = 0; sent < HUNDRED_MB; sent += piece.length) if (!client.write(piece)) await once(client, 'drain')
    client.end()
    const [answer] = await answered
    answer.resume()
    server.sockets[0]!.resume()
    await server.closed(0)
    t.equal(flowing!.seen, HUNDRED_MB)
  })

  withUpstream('an upstream that refuses is told as connect, unsent', async (t, upstream) => {
    // Nobody but root may listen on port 1, and nobody does.
    const heard = await send(upstream, targetOf(1)).over
    t.equal(heard.failed?.code, 'connect')
    t.equal(heard.failed?.retry, 'unsent')
  })

  withUpstream('a name that does not resolve is told as lookup, unsent', async (t, upstream) => {
    const heard = await send(upstream, targetOf(80, 'http', 'a..b')).over
    t.equal(heard.failed?.code, 'lookup')
    t.equal(heard.failed?.retry, 'unsent')
  })

  withUpstream(
    'an upstream that does not accept in time is told as connect_timeout, unsent',
    async (t, upstream) => {
      const worker = new Worker(
        `const { parentPort } = require('node:worker_threads')
        const server = require('node:net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
          parentPort.postMessage(server.address().port)
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
        })`,
        { eval: true }
      )
      t.teardown(() => worker.terminate())
      const [port] = await once(worker, 'message')
      // The kernel completes as many connections as the backlog holds, and lets all others wait.
      const fillers = Array.from({ length: 8 }, () => connect(port, '127.0.0.1').on('error', () => {}))
      t.teardown(() => fillers.map(each => each.destroy()))
      await Promise.all(fillers.slice(0, 2).map(each => once(each, 'connect')))
      const heard = await send(upstream, targetOf(port)).over
      t.equal(heard.failed?.code, 'connect_timeout')
      t.equal(heard.failed?.retry, 'unsent')
    },
    { connectTimeoutMs: 200 }
  )

  withUpstream(
    'a certificate that nobody vouches for is told as tls, unsent; one that is trusted serves',
    async (t, upstream) => {
      const pem = certificate()
      const server = await rawServer(t, socket => socket.write(OK), pem)
      const heard = await send(upstream, server.target).over
      t.equal(heard.failed?.code, 'tls')
      t.equal(heard.failed?.retry, 'unsent')
      t.equal(server.heads.length, 0, 'nothing was sent')
      const before = getCACertificates()
      setDefaultCACertificates([...before, pem.cert])
      t.teardown(() => setDefaultCACertificates(before))
      const trusting = make({ connectTimeoutMs: 5_000, connections: 1 })
      t.teardown(() => trusting.close())
      for (let i = 0; i < 3; i++) t.equal((await send(trusting, server.target).over).body, 'ok')
      const length = 3_000_000
      const large = await rawServer(
        t,
        socket => socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\n${'x'.repeat(length)}`),
        pem
      )
      const slow = new Heard()
      slow.takes = () => {
        setImmediate(() => slow.resume())
        return false
      }
      await send(trusting, large.target, {}, slow).over
      t.equal(slow.body.length, length)
      t.equal(slow.strays, 0)
    }
  )

  withUpstream(
    'no request ever hears the answer of another, whatever happens to its neighbours',
    async (t, upstream) => {
      const server = await rawServer(t, async (socket, head) => {
        const id = /\/(\d+) /.exec(head)![1]!
        const chunked = `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${id.length}\r\n${id}\r\n0\r\n\r\n`
        switch (Number(id) % 11) {
          case 3:
            return socket.write(
              `HTTP/1.1 200 OK\r\nContent-Length: ${id.length}\r\n\r\n${id}HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n?`
            )
          case 5:
            return socket.destroy()
          case 6:
            return socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart', () => socket.destroy())
          case 7:
            for (const each of chunked) {
              socket.write(each)
              await turn()
            }
            return
          case 8:
            return socket.end(`HTTP/1.1 200 OK\r\n\r\n${id}`)
          case 9:
            return socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n${id}`)
          default:
            return socket.write(chunked)
        }
      })
      const all = Array.from({ length: 2_000 }, (_, i) => {
        const heard = new Heard()
        if (i % 11 === 9) {
          heard.takes = () => {
            heard.flight!.abort()
            return i % 2 === 0
          }
        }
        return send(upstream, server.target, { path: `/${i}` }, heard)
      })
      const wrong: Heard[] = []
      for (const [i, heard] of all.entries()) {
        const aborted = i % 11 === 9
        if (!aborted) await heard.over
        const { failed } = heard
        // A neighbour's end may take along a request that came behind it on the same connection, never others.
        const right =
          failed === null
            ? aborted || heard.body === `${i}`
            : failed.code === 'reset' && ([5, 6].includes(i % 11) || failed.retry === 'unanswered')
        if (!right || heard.strays > 0) wrong.push(heard)
      }
      t.strictSame(wrong, [])
    }
  )

  withUpstream('what closes the upstream ends every request', async (t, upstream) => {
    const server = await rawServer(t, () => {})
    const all = Array.from({ length: 12 }, () => send(upstream, server.target))
    while (server.heads.length < 8) await turn()
    await upstream.close()
    for (const heard of all) t.ok((await heard.over).failed)
    for (let i = 0; i < 8; i++) await server.closed(i)
  })

  withUpstream(
    'a head that would break into more lines is never written',
    async (t, upstream) => {
      const server = await rawServer(t, socket => socket.write(OK))
      const broken = [
        { pairs: ['Host', 'h', 'X', 'a\r\nY: b'] },
        { pairs: ['Host', 'h', 'X', 'a\nb'] },
        { pairs: ['Host', 'h', 'X', 'a\rb'] },
        { pairs: ['Host', 'h', 'X', 'a\0b'] },
        { pairs: ['Host', 'h', 'X\r\nY', 'a'] },
        { pairs: ['Host', 'h', 'X', 'a\u010a\u010db'] },
        { path: '/ HTTP/1.1\r\nX: y' },
        { path: '/\r\n' }
      ]
      for (const request of broken) {
        let heard: Heard | null = null
        try {
          heard = await send(upstream, server.target, request).over
        } catch {}
        t.ok(heard === null || heard.failed !== null, JSON.stringify(request))
      }
      await send(upstream, server.target, { path: '/good' }).over
      t.strictSame(
        server.heads.map(head => head.split(' ')[1]),
        ['/good']
      )
    },
    MANY
  )
}
