import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { eventually, OK, recorder, values, type Wire, wire } from '../framing/wire.ts'
import { api, gateway, type TestGateway } from '../helpers/gateway.ts'
import { rawUpstream } from '../helpers/upstream.ts'

const GET = 'GET /all/x HTTP/1.1\r\nHost: a.test\r\n\r\n'
const POST = 'POST /all/x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello'

/** Reads whole heads (without bodies) and hands each to `serve` with its number on all connections. */
async function scripted(t: Test, serve: (socket: Socket, number: number) => void) {
  let heads = 0
  const lines: string[] = []
  const up = await rawUpstream(t, socket => {
    let text = ''
    socket.on('data', bytes => {
      text += bytes.toString('latin1')
      for (let end = text.indexOf('\r\n\r\n'); end >= 0; end = text.indexOf('\r\n\r\n')) {
        lines.push(text.slice(0, text.indexOf('\r\n')))
        text = text.slice(end + 4)
        serve(socket, ++heads)
      }
    })
  })
  return { ...up, heads: () => heads, lines: () => lines }
}

const warnings = (gw: TestGateway) => gw.log.lines.filter(({ msg }) => msg === 'upstream failed')

/** The answer is a refusal by the gateway, told in one line of the log. */
function refusedOnce(t: Test, gw: TestGateway, client: Wire, status: number, code: string) {
  const answer = client.answers[client.answers.length - 1]
  t.match(answer?.line, new RegExp(`^HTTP/1\\.1 ${status} `))
  t.same(values(answer?.pairs ?? [], 'content-type'), ['application/json'])
  t.same(values(answer?.pairs ?? [], 'x-svc-error'), [code])
  t.type(JSON.parse(answer?.body || '{}').error, 'string')
  const lines = warnings(gw)
  t.equal(lines.length, 1, 'one line of the log')
  t.match(lines[0], { level: 'warn', cause: /\S/, api_id: 'all' })
}

async function send(t: Test, gw: TestGateway, bytes = GET) {
  const client = wire(t, gw.url)
  client.send(bytes)
  await client.until(() => client.answers.length > 0 || client.closed(), 'an answer')
  return client
}

const all = (url: string, extension: object = {}) => api('all', url, extension)

t.test('what an upstream does wrongly before its answer is 502, with one line of the log', async t => {
  const cases: [string, string, (socket: Socket) => void][] = [
    ['closes at once', 'upstream_reset', socket => socket.end()],
    ['resets', 'upstream_reset', socket => socket.resetAndDestroy()],
    ['closes within the head', 'upstream_reset', socket => socket.end('HTTP/1.1 200 OK\r\nContent-')],
    ['sends no HTTP', 'upstream_garbage', socket => socket.end('SSH-2.0-OpenSSH_9.9\r\n')],
    ['sends HTTP/2', 'upstream_garbage', socket => socket.end('\0\0\x12\x04\0\0\0\0\0')],
    [
      'sends two lengths',
      'upstream_garbage',
      socket => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok')
    ],
    ['sends a bad length', 'upstream_garbage', socket => socket.end('HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nok')],
    [
      'sends two framings',
      'upstream_garbage',
      socket =>
        socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n')
    ],
    ['sends a bad field', 'upstream_garbage', socket => socket.end('HTTP/1.1 200 OK\r\nno colon\r\n\r\n')]
  ]
  for (const [name, code, act] of cases)
    await t.test(name, async t => {
      const up = await scripted(t, act)
      const gw = await gateway(t, { apis: [all(up.url)] })
      refusedOnce(t, gw, await send(t, gw, POST), 502, code)
      t.equal(up.heads(), 1, 'a POST is not sent again')
    })
})

t.test('a refused connection and an unknown host are 502', async t => {
  const gw = await gateway(t, { apis: [all('http://127.0.0.1:1')] })
  refusedOnce(t, gw, await send(t, gw, POST), 502, 'upstream_connect')
  const nowhere = await gateway(t, { apis: [all('http://no-such-host.invalid')] })
  refusedOnce(t, nowhere, await send(t, nowhere), 502, 'upstream_lookup')
})

t.test('a head that does not come in time is 504, and the upstream connection is closed', async t => {
  let closed = 0
  const up = await scripted(t, socket => socket.on('close', () => closed++))
  const gw = await gateway(t, {
    apis: [all(up.url, { upstream: { enforceTimeout: { enabled: true, duration: '100ms' } } })]
  })
  refusedOnce(t, gw, await send(t, gw), 504, 'upstream_timeout')
  await eventually(() => closed === 1, 'the upstream connection closes')
})

t.test('an operation has a time-out of its own, and the body may take longer than it', async t => {
  const up = await scripted(t, socket => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no')
    setTimeout(() => socket.write('k'), 300)
  })
  const gw = await gateway(t, {
    settings: { gateway: { proxy_default_timeout: 0.15 } },
    apis: [all(up.url)]
  })
  const client = await send(t, gw)
  t.equal(client.answers[0]!.body, 'ok')
})

t.test('an answer that is not whole is seen as such by the client, with what came of it', async t => {
  const cases: [string, string, string, RegExp][] = [
    ['chunks', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n', GET, /5\r\nhello\r\n$/],
    ['half a chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello', GET, /5\r\nhello\r\n$/],
    ['a length', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello', GET, /\r\n\r\nhello$/],
    ['a length and no byte', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n', GET, /\r\n\r\n$/],
    [
      'a bad chunk',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nxyz\r\n',
      GET,
      /5\r\nhello\r\n$/
    ]
  ]
  for (const [name, bytes, request, seen] of cases)
    await t.test(name, async t => {
      const up = await scripted(t, socket => socket.end(bytes))
      const gw = await gateway(t, { apis: [all(up.url)] })
      const client = wire(t, gw.url)
      client.send(request)
      await client.until(client.closed, 'the end')
      t.match(client.text(), /^HTTP\/1\.1 200 /)
      t.match(client.text(), seen)
      t.notMatch(client.text(), /0\r\n\r\n$/)
      t.equal(warnings(gw).length, 1)
    })
  await t.test('to HTTP/1.0, whose bodies may end with the connection: by a reset', async t => {
    const up = await scripted(t, socket =>
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n', () =>
        socket.resetAndDestroy()
      )
    )
    const gw = await gateway(t, { apis: [all(up.url)] })
    const client = wire(t, gw.url)
    const errors: string[] = []
    client.socket.on('error', error => errors.push((error as NodeJS.ErrnoException).code!))
    client.send('GET /all/x HTTP/1.0\r\n\r\n')
    await client.until(client.closed, 'the end')
    t.same(errors, ['ECONNRESET'])
  })
})

t.test('a stale connection costs nobody an answer: an idempotent request goes out once more', async t => {
  const up = await scripted(t, (socket, number) => {
    if (number === 2) socket.resetAndDestroy()
    else socket.write(OK)
  })
  const gw = await gateway(t, { apis: [all(up.url)] })
  await send(t, gw)
  const client = await send(t, gw)
  t.equal(client.answers[0]!.body, 'ok')
  t.equal(up.heads(), 3)
  t.same(warnings(gw), [])
})

t.test('a held PUT goes out once more with its whole body', async t => {
  const bodies: string[] = []
  let number = 0
  const up = await rawUpstream(t, socket => {
    let text = ''
    socket.on('data', bytes => {
      text += bytes.toString('latin1')
      const end = text.indexOf('\r\n\r\n')
      if (end < 0 || (text.startsWith('PUT') && !text.endsWith('hello'))) return
      bodies.push(text.slice(end + 4))
      text = ''
      if (++number === 2) socket.resetAndDestroy()
      else socket.write(OK)
    })
  })
  const gw = await gateway(t, { apis: [all(up.url)] })
  await send(t, gw)
  const client = await send(t, gw, POST.replace('POST', 'PUT'))
  t.equal(client.answers[0]!.body, 'ok')
  t.same(bodies, ['', 'hello', 'hello'])
})

t.test('what was sent is not sent again: a POST, a body that flowed, what a new connection took', async t => {
  const cases: [string, string][] = [
    ['a POST', POST],
    [
      'a PUT in chunks',
      'PUT /all/x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n'
    ]
  ]
  for (const [name, bytes] of cases)
    await t.test(name, async t => {
      const up = await scripted(t, (socket, number) => {
        if (number === 1) socket.write(OK)
        else socket.end()
      })
      const gw = await gateway(t, { apis: [all(up.url)] })
      await send(t, gw)
      refusedOnce(t, gw, await send(t, gw, bytes), 502, 'upstream_reset')
      const method = bytes.split(' ')[0]!
      t.equal(up.lines().filter(line => line.startsWith(`${method} `)).length, 1)
    })
  await t.test('on a new connection', async t => {
    const up = await scripted(t, socket => socket.end())
    const gw = await gateway(t, { apis: [all(up.url)] })
    refusedOnce(t, gw, await send(t, gw), 502, 'upstream_reset')
    t.equal(up.heads(), 1)
  })
  await t.test('twice', async t => {
    const up = await scripted(t, (socket, number) => {
      if (number === 1) socket.write(OK)
      else socket.resetAndDestroy()
    })
    const gw = await gateway(t, { apis: [all(up.url)] })
    await send(t, gw)
    refusedOnce(t, gw, await send(t, gw), 502, 'upstream_reset')
    t.equal(up.heads(), 3)
  })
})

t.test('a head at a byte a second is cut with 408', async t => {
  const gw = await gateway(t, {
    settings: { gateway: { http_server_options: { read_timeout: 0.3 } } },
    apis: [all('http://127.0.0.1:1')]
  })
  const client = wire(t, gw.url)
  const trickle = setInterval(() => client.send('a'), 50)
  client.send('GET /all/x HTTP/1.1\r\nX: ')
  await client.until(client.closed, 'the end')
  clearInterval(trickle)
  t.match(client.answers[0]?.line, / 408 /)
  t.same(values(client.answers[0]?.pairs ?? [], 'x-svc-error'), ['head_timeout'])
  t.same(Object.keys(JSON.parse(client.answers[0]?.body ?? '{}')), ['error'])
})

t.test('a body at a byte a moment is cut with 408, held or flowing, and the upstream is aborted', async t => {
  for (const [framing, piece] of [
    ['Content-Length: 5000', 'a'],
    ['Content-Length: 500000', 'a'],
    ['Transfer-Encoding: chunked', '1\r\na\r\n']
  ] as const) {
    const up = await recorder(t)
    const gw = await gateway(t, {
      settings: { gateway: { http_server_options: { read_timeout: 0.3 } } },
      apis: [all(up.url)]
    })
    const client = wire(t, gw.url)
    client.send(`POST /all/x HTTP/1.1\r\nHost: a.test\r\n${framing}\r\n\r\n`)
    const trickle = setInterval(() => client.send(piece), 30)
    await client.until(() => client.answers.length > 0, '408')
    clearInterval(trickle)
    t.match(client.answers[0]!.line, / 408 /)
    t.same(values(client.answers[0]!.pairs, 'x-svc-error'), ['body_timeout'])
    await client.until(client.closed, 'the end')
    t.equal(up.requests.length, 0)
    await eventually(() => up.sockets.size === 0 || up.odd().length === 0, 'the upstream is aborted')
  }
})

t.test('the built-in echo does not wait for a slow body either', async t => {
  const gw = await gateway(t, {
    settings: { gateway: { http_server_options: { read_timeout: 0.3 } } },
    apis: [all('svc://echo')]
  })
  const client = wire(t, gw.url)
  client.send('POST /all/x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 50\r\n\r\na')
  await client.until(client.closed, 'the end')
  t.match(client.answers[0]!.line, / 408 /)
})

t.test('the rest of a refused body may not take for ever either', async t => {
  const gw = await gateway(t, { settings: { gateway: { http_server_options: { read_timeout: 0.3 } } } })
  const client = wire(t, gw.url)
  client.send('POST /nowhere HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5000\r\n\r\n')
  const trickle = setInterval(() => client.send('a'), 30)
  await client.until(client.closed, 'the end')
  clearInterval(trickle)
  t.match(client.answers[0]!.line, / 404 /)

  const prompt = wire(t, gw.url)
  prompt.send('POST /nowhere HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\n')
  await prompt.until(() => prompt.answers.length === 1, '404')
  prompt.send('helloGET /hello HTTP/1.1\r\nHost: a.test\r\n\r\n')
  await prompt.until(() => prompt.answers.length === 2, 'the connection goes on')
})

t.test('max_request_body_size: a length that is too long is 413 at once, chunks are counted', async t => {
  const up = await recorder(t)
  const gw = await gateway(t, {
    settings: { gateway: { http_server_options: { max_request_body_size: 100_000 } } },
    apis: [all(up.url)]
  })
  const known = wire(t, gw.url)
  known.send('POST /all/x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100001\r\n\r\n')
  await known.until(known.closed, 'the end')
  t.match(known.answers[0]!.line, / 413 /)
  t.equal(up.sockets.size, 0, 'nothing went up')

  const chunk = `${(10_000).toString(16)}\r\n${'a'.repeat(10_000)}\r\n`
  const counted = wire(t, gw.url)
  counted.send(`POST /all/x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.repeat(11)}`)
  await counted.until(counted.closed, 'the end')
  t.match(counted.answers[0]!.line, / 413 /)
  t.same(values(counted.answers[0]!.pairs, 'x-svc-error'), ['body_too_large'])
  t.equal(up.requests.length, 0)
  await eventually(() => up.sockets.size === 0, 'the upstream is aborted')

  const exact = wire(t, gw.url)
  exact.send(`POST /all/x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.repeat(10)}0\r\n\r\n`)
  await exact.until(() => exact.answers.length > 0, 'the answer')
  t.match(exact.answers[0]!.line, / 200 /)
})

t.test(
  'an upstream that answers before it has the whole body: its answer counts, and the client connection closes',
  async t => {
    const up = await scripted(t, socket => socket.write('HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno'))
    const gw = await gateway(t, { apis: [all(up.url)] })
    const client = wire(t, gw.url)
    client.send(`POST /all/x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000\r\n\r\n${'a'.repeat(10_000)}`)
    await client.until(client.closed, 'the end')
    t.match(client.answers[0]!.line, / 403 No$/)
    t.equal(client.answers[0]!.body, 'no')
    t.same(values(client.answers[0]!.pairs, 'connection'), ['close'])
  }
)

t.test('a request under way survives a change and the removal of its API', async t => {
  let answer = () => {}
  const up = await scripted(t, socket => {
    answer = () => void socket.write(OK)
  })
  const gw = await gateway(t, { apis: [all(up.url)] })
  const client = wire(t, gw.url)
  client.send(GET)
  await eventually(() => up.heads() === 1, 'the request is under way')
  t.equal((await gw.svc('PUT', '/svc/apis/oas/all', all('http://127.0.0.1:1'))).status, 200)
  t.equal((await gw.get('/all/x')).status, 502)
  t.equal((await gw.svc('DELETE', '/svc/apis/oas/all')).status, 200)
  t.equal((await gw.get('/all/x')).status, 404)
  answer()
  await client.until(() => client.answers.length === 1, 'the answer')
  t.equal(client.answers[0]!.body, 'ok')
})

t.test('a stop lets a request under way finish, closes idle connections, and cuts off what does not end', async t => {
  let answer = () => {}
  const up = await scripted(t, socket => {
    answer = () => void socket.write(OK)
  })
  const gw = await gateway(t, {
    settings: { gateway: { graceful_shutdown_timeout_duration: 5 } },
    apis: [all(up.url)]
  })
  const idle = wire(t, gw.url)
  idle.send('GET /hello HTTP/1.1\r\nHost: a.test\r\n\r\n')
  await idle.until(() => idle.answers.length === 1, 'hello')
  const busy = wire(t, gw.url)
  busy.send(GET)
  await eventually(() => up.heads() === 1, 'the request is under way')
  const stopped = gw.stop()
  await idle.until(idle.closed, 'the idle connection closes')
  t.equal(busy.closed(), false)
  answer()
  await busy.until(busy.closed, 'the busy one closes behind its answer')
  t.equal(busy.answers[0]!.body, 'ok')
  await stopped

  const silent = await scripted(t, () => {})
  const second = await gateway(t, {
    settings: { gateway: { graceful_shutdown_timeout_duration: 0.1 } },
    apis: [all(silent.url)]
  })
  const stuck = wire(t, second.url)
  stuck.send(GET)
  await eventually(() => silent.heads() === 1, 'the request is under way')
  await second.stop()
  await stuck.until(stuck.closed, 'it is cut off')
})
