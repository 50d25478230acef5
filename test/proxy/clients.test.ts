import { createServer } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { eventually, OK, recorder, values, wire } from '../framing/wire.ts'
import { api, gateway } from '../helpers/gateway.ts'
import { rawUpstream, upstream } from '../helpers/upstream.ts'

const GET = 'GET /all/x HTTP/1.1\r\nHost: a.test\r\n\r\n'

/** An upstream that counts what comes and never answers by itself. */
async function patient(t: Test, serve: (socket: Socket) => void = () => {}) {
  let open = 0
  let bytes = 0
  const sockets: Socket[] = []
  const up = await rawUpstream(t, socket => {
    open++
    sockets.push(socket)
    socket.on('close', () => open--)
    socket.on('data', data => {
      bytes += data.length
    })
    serve(socket)
  })
  return { ...up, open: () => open, bytes: () => bytes, sockets }
}

t.test('a client that goes, at whatever stage and by whatever way, takes the upstream request with it', async t => {
  const HEAD = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n'
  const stages: [string, string, boolean][] = [
    ['while the upstream thinks', GET, false],
    ['while the answer flows', GET, true],
    [
      'within a long body',
      `POST /all/x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 900000\r\n\r\n${'a'.repeat(1000)}`,
      false
    ],
    [
      'within chunks',
      'POST /all/x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n',
      false
    ],
    [
      'within chunks, with an answer that flows',
      'POST /all/x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n',
      true
    ]
  ]
  for (const [name, bytes, answers] of stages)
    for (const way of ['end', 'destroy', 'resetAndDestroy'] as const)
      await t.test(`${name}, by ${way}`, async t => {
        const up = await patient(t)
        const gw = await gateway(t, { apis: [api('all', up.url)] })
        const client = wire(t, gw.url)
        client.send(bytes)
        await eventually(() => up.bytes() > 0, 'it is under way')
        if (answers) {
          up.sockets[0]!.write(HEAD)
          await client.until(() => client.text().includes('hello'), 'the answer flows')
        }
        client.socket[way]()
        await eventually(() => up.open() === 0, 'the upstream connection closes')
        t.same(
          gw.log.lines.filter(({ level }) => level === 'error' || level === 'warn'),
          [],
          'nobody is blamed'
        )
      })
})

t.test('a client that goes within a body that is held reaches no upstream', async t => {
  const up = await patient(t)
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  const client = wire(t, gw.url)
  client.send('POST /all/x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nhello')
  client.socket.end()
  await client.until(client.closed, 'the end')
  t.equal((await gw.get('/hello')).status, 200)
  t.equal(up.open(), 0)
})

t.test('pipelined requests are taken one after the other and answered in their order', async t => {
  const under: string[] = []
  let most = 0
  let now = 0
  const up = await upstream(t, (req, res) => {
    under.push(req.url!)
    now++
    most = Math.max(most, now)
    setTimeout(
      () => {
        now--
        res.end(req.url)
      },
      req.url === '/0' ? 30 : 0
    )
  })
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  const client = wire(t, gw.url)
  const paths = Array.from({ length: 50 }, (_, i) => `/${i}`)
  client.send(
    paths
      .map((path, i) =>
        i % 3 === 0
          ? `POST /all${path} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello`
          : `GET /all${path} HTTP/1.1\r\nHost: a.test\r\n\r\n`
      )
      .join('')
  )
  await client.until(() => client.answers.length === 50, 'fifty answers')
  t.same(
    client.answers.map(({ body }) => body),
    paths
  )
  t.same(under, paths)
  t.equal(most, 1)
})

t.test('more pipelined requests than wait are not answered: the connection closes behind the last that is', async t => {
  const up = await recorder(t)
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  const client = wire(t, gw.url)
  client.send(GET.repeat(1_000))
  await client.until(client.closed, 'the end')
  t.ok(client.answers.length > 100 && client.answers.length < 1_000, String(client.answers.length))
  t.equal(up.requests.length, client.answers.length)
  t.same(values(client.answers[client.answers.length - 1]!.pairs, 'connection'), ['close'])
})

t.test('requests behind one that closes the connection never start', async t => {
  const up = await recorder(t)
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  const client = wire(t, gw.url)
  client.send(`${GET}GET /all/last HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n${GET.repeat(20)}`)
  await client.until(client.closed, 'the end')
  t.equal(client.answers.length, 2)
  t.equal(up.requests.length, 2)
})

t.test('a client that goes with requests waiting leaves none to run', async t => {
  const up = await patient(t)
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  const client = wire(t, gw.url)
  client.send(GET.repeat(100))
  await eventually(() => up.bytes() > 0, 'the first is under way')
  client.socket.resetAndDestroy()
  await eventually(() => up.open() === 0, 'it is aborted')
  t.equal((await gw.get('/hello')).status, 200)
  t.equal(up.sockets.length, 1, 'no other began')
})

t.test('a slow reader slows the upstream, and the gateway holds little', async t => {
  const chunk = Buffer.alloc(65_536, 'a')
  let sent = 0
  const server = createServer((_req, res) => {
    const more = () => {
      for (let flows = true; flows && sent < 400_000_000; sent += chunk.length) flows = res.write(chunk)
    }
    res.on('drain', more)
    more()
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const gw = await gateway(t, { apis: [api('all', `http://127.0.0.1:${(server.address() as AddressInfo).port}`)] })
  const client = connect(Number(new URL(gw.url).port), '127.0.0.1')
  client.on('error', () => {})
  client.write(GET)
  client.pause()
  let before = -1
  await eventually(() => {
    const still = sent === before && sent > 0
    before = sent
    return still
  }, 'the upstream stands still')
  t.ok(sent < 40_000_000, `${sent} bytes were taken`)
  client.destroy()
})

t.test('a client that takes nothing of its answer is cut off, also of the last part', async t => {
  for (const length of [30_000_000, 6_000_000]) {
    const up = await upstream(t, (_req, res) => {
      res.writeHead(200, { 'Content-Length': length })
      res.end(Buffer.alloc(length, 'a'))
    })
    const gw = await gateway(t, {
      settings: { gateway: { http_server_options: { write_timeout: 0.3 } } },
      apis: [api('all', up.url)]
    })
    const client = connect(Number(new URL(gw.url).port), '127.0.0.1')
    t.teardown(() => client.destroy())
    client.on('error', () => {})
    client.write(GET)
    client.pause()
    let open = true
    await eventually(() => up.requests.length === 1, 'it is under way')
    up.requests[0]!.socket.on('close', () => {
      open = false
    })
    await eventually(() => !open, 'the upstream is let go')
    let got = 0
    let ended = false
    client.on('data', data => {
      got += data.length
    })
    client.on('close', () => {
      ended = true
    })
    client.resume()
    await eventually(() => ended, 'the client is cut off')
    t.ok(got < length, `${got} of ${length}`)
  }
})

t.test('a slow upstream slows the client, and the gateway holds little', async t => {
  const up = await patient(t, socket => socket.pause())
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  const client = connect(Number(new URL(gw.url).port), '127.0.0.1')
  t.teardown(() => client.destroy())
  client.on('error', () => {})
  let taken = 0
  const chunk = Buffer.from(`10000\r\n${'a'.repeat(65_536)}\r\n`)
  client.write('POST /all/x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n')
  const more = () => {
    for (let flows = true; flows && taken < 400_000_000; taken += chunk.length) flows = client.write(chunk)
  }
  client.on('drain', more)
  more()
  let before = -1
  await eventually(() => {
    const still = taken === before && taken > 0
    before = taken
    return still
  }, 'the client stands still')
  t.ok(taken < 40_000_000, `${taken} bytes were taken`)
})

t.test('listeners do not pile up on a connection that is used again and again', async t => {
  const up = await recorder(t)
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  const warnings: string[] = []
  const warned = (warning: Error) => warnings.push(warning.name)
  process.on('warning', warned)
  t.teardown(() => process.off('warning', warned))
  const client = wire(t, gw.url)
  for (let i = 1; i <= 60; i++) {
    client.send(i % 2 === 0 ? GET : 'POST /nowhere HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello')
    await client.until(() => client.answers.length === i, 'an answer')
  }
  t.same(warnings, [])
})

t.test('a half-open connection without a request is closed after read_timeout', async t => {
  const gw = await gateway(t, { settings: { gateway: { http_server_options: { read_timeout: 0.2 } } } })
  const silent = wire(t, gw.url)
  await silent.until(silent.closed, 'the end of one that says nothing')
  const half = wire(t, gw.url)
  half.send('GET /hello HTTP/1.1\r\nHo')
  await half.until(half.closed, 'the end of one that stops within its head')
  t.match(half.answers[0]?.line, / 408 /)
})

t.test('an answer that comes in the same moment as the client goes hurts nobody', async t => {
  const up = await patient(t, socket => socket.on('data', () => socket.write(OK)))
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  for (let i = 0; i < 200; i++) {
    const client = connect(Number(new URL(gw.url).port), '127.0.0.1')
    client.on('error', () => {})
    client.write(GET)
    client.once('connect', () => setTimeout(() => client.resetAndDestroy(), i % 7))
  }
  await eventually(() => up.bytes() > 0, 'some went up')
  t.equal((await gw.get('/all/x')).status, 200)
  t.same(
    gw.log.lines.filter(({ level }) => level === 'error'),
    []
  )
})
