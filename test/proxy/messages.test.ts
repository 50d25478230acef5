import t, { type Test } from 'tap'
import { type Message, OK, type Recorder, recorder, values, wire } from '../framing/wire.ts'
import { api, gateway } from '../helpers/gateway.ts'

/** A gateway before an upstream that answers with these bytes. */
async function through(t: Test, answer: (message: Message) => string = () => OK, settings: object = {}) {
  const up = await recorder(t, answer)
  const gw = await gateway(t, {
    settings: { gateway: settings },
    apis: [api('all', up.url, { server: { listenPath: { value: '/', strip: false } } })]
  })
  return { up, gw }
}

/** Pairs without those that the gateway adds by its own rules: forwarding, limits, its connection with the client. */
function end2end(pairs: readonly string[]): string[] {
  const kept: string[] = []
  for (let i = 0; i < pairs.length; i += 2) {
    if (/^(?:x-forwarded-.*|x-request-id|via|host|x-ratelimit-.*|connection|keep-alive)$/i.test(pairs[i]!)) continue
    kept.push(pairs[i]!, pairs[i + 1]!)
  }
  return kept
}

async function one(t: Test, gw: { url: string }, bytes: string, method = 'GET') {
  const client = wire(t, gw.url, [method])
  client.send(bytes)
  await client.until(() => client.answers.some(({ line }) => !/ 1\d\d /.test(line)), 'the answer')
  return client
}

const last = (up: Recorder) => up.requests[up.requests.length - 1]!

t.test('header names, their order, duplicates and odd values go up as they came, and nothing is added', async t => {
  const { up, gw } = await through(t)
  const sent = [
    ['x-LOWER', '1'],
    ['X-Upper', 'a  b'],
    ['Accept', '*/*'],
    ['x-lower', '2'],
    ['Cookie', 'a=1'],
    ['Cookie', 'b=2'],
    ['X-Empty', ''],
    ['X-Latin', 'caf\xe9'],
    ['X-Utf8', '\xc3\xa9'],
    ['X-Odd', '"\\;,=\t(x)'],
    ["!#$%&'*+-.^_`|~", 'odd']
  ]
  await one(t, gw, `GET /x HTTP/1.1\r\nHost: a.test\r\n${sent.map(pair => pair.join(': ')).join('\r\n')}\r\n\r\n`)
  t.same(
    end2end(last(up).pairs),
    sent.flat().filter(text => text !== 'Connection')
  )
})

t.test('a request without a body gets no framing, no User-Agent, no Accept-Encoding and no Content-Type', async t => {
  const { up, gw } = await through(t)
  await one(t, gw, 'GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n')
  t.same(end2end(last(up).pairs), [])
  await one(t, gw, 'POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n', 'POST')
  t.same(
    end2end(last(up).pairs).map(text => text.toLowerCase()),
    ['content-length', '0']
  )
})

t.test('the answer goes down as it came: reason, names, order, duplicates, odd values', async t => {
  const head = [
    ['x-LOWER', '1'],
    ['Set-Cookie', 'a=1'],
    ['SERVER', 'own'],
    ['Set-Cookie', 'b=2'],
    ['Date', 'yesterday'],
    ['X-Latin', 'caf\xe9'],
    ['X-Empty', ''],
    ['Content-Length', '2']
  ]
  const text = head.map(pair => pair.join(': ')).join('\r\n')
  const { gw } = await through(t, () => `HTTP/1.1 299 Odd, but legal\r\n${text}\r\n\r\nok`)
  const { answers } = await one(t, gw, 'GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n')
  t.equal(answers[0]!.line, 'HTTP/1.1 299 Odd, but legal')
  t.same(end2end(answers[0]!.pairs), head.flat())
})

t.test('an answer without Date, Server, Content-Type or reason gets none', async t => {
  const { gw } = await through(t, () => 'HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok')
  const { answers } = await one(t, gw, 'GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n')
  t.equal(answers[0]!.line, 'HTTP/1.1 200 ')
  t.same(end2end(answers[0]!.pairs), ['Content-Length', '2'])
})

t.test('hop-by-hop fields and those that Connection names stay on their hop, both ways', async t => {
  const { up, gw } = await through(
    t,
    () =>
      'HTTP/1.1 200 OK\r\nConnection: X-Hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=9\r\nProxy-Authenticate: Basic\r\nUpgrade: h2\r\nTrailer: X-T\r\nX: 2\r\nContent-Length: 2\r\n\r\nok'
  )
  const { answers } = await one(
    t,
    gw,
    'GET /x HTTP/1.1\r\nHost: a.test\r\nConnection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: 9\r\nTE: deflate\r\nProxy-Authorization: x\r\nX: 2\r\n\r\n'
  )
  t.same(end2end(last(up).pairs), ['X', '2'])
  t.same(end2end(answers[0]!.pairs), ['X', '2', 'Content-Length', '2'])
  t.notMatch(values(answers[0]!.pairs, 'connection')[0], /hop/i)
})

t.test('what an untrusted client says about forwarding is replaced; its Via and request id go on', async t => {
  const { up, gw } = await through(t)
  await one(
    t,
    gw,
    'GET /x HTTP/1.1\r\nHost: a.test:81\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Port: 1\r\nX-Real-IP: 192.0.2.1\r\nForwarded: for=192.0.2.1\r\nX-Request-Id: abc-1\r\nVia: 1.0 first\r\n\r\n'
  )
  const { pairs } = last(up)
  t.same(values(pairs, 'x-forwarded-for'), ['127.0.0.1'])
  t.same(values(pairs, 'x-forwarded-proto'), ['http'])
  t.same(values(pairs, 'x-forwarded-host'), ['a.test:81'])
  t.same(values(pairs, 'x-forwarded-port'), [])
  t.same(values(pairs, 'x-real-ip'), [])
  t.same(values(pairs, 'forwarded'), [])
  t.same(values(pairs, 'x-request-id'), ['abc-1'])
  t.same(values(pairs, 'via'), ['1.0 first, 1.1 svc'])
  t.same(values(pairs, 'host'), [`127.0.0.1:${up.port}`])
})

t.test('a request id that is not fit to be logged is replaced by a new one', async t => {
  const { up, gw } = await through(t)
  for (const id of ['a b', 'x"y', 'a'.repeat(129), '', 'caf\xe9']) {
    await one(t, gw, `GET /x HTTP/1.1\r\nHost: a.test\r\nX-Request-Id: ${id}\r\n\r\n`)
    t.match(values(last(up).pairs, 'x-request-id').join(), /^[0-9a-f-]{36}$/)
  }
})

t.test('a trusted proxy is believed, and the gateway adds itself', async t => {
  const { up, gw } = await through(t, undefined, { trusted_proxies: ['127.0.0.0/8'] })
  await one(
    t,
    gw,
    'GET /x HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 192.0.2.1, 192.0.2.2\r\nX-Forwarded-For: 192.0.2.3\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: shop.test\r\nX-Forwarded-Port: 443\r\nForwarded: for=192.0.2.1;proto=https\r\n\r\n'
  )
  const { pairs } = last(up)
  t.same(values(pairs, 'x-forwarded-for'), ['192.0.2.1, 192.0.2.2, 192.0.2.3, 127.0.0.1'])
  t.same(values(pairs, 'x-forwarded-proto'), ['https'])
  t.same(values(pairs, 'x-forwarded-host'), ['shop.test'])
  t.same(values(pairs, 'x-forwarded-port'), ['443'])
  t.same(values(pairs, 'forwarded'), ['for=192.0.2.1;proto=https, for=127.0.0.1'])
  await one(t, gw, 'GET /x HTTP/1.1\r\nHost: a.test\r\nForwarded: for=192.0.2.1\r\nForwarded: for=192.0.2.2\r\n\r\n')
  t.same(values(last(up).pairs, 'forwarded'), ['for=192.0.2.1, for=192.0.2.2, for=127.0.0.1'])
})

t.test('the address that counts for rules is the one that xff_depth picks, and only from a trusted proxy', async t => {
  const only = (address: string) => ({
    server: { listenPath: { value: '/', strip: false }, ipAccessControl: { enabled: true, allow: [address] } }
  })
  const status = async (settings: object, address: string, fields: string) => {
    const up = await recorder(t)
    const gw = await gateway(t, { settings: { gateway: settings }, apis: [api('all', up.url, only(address))] })
    const client = await one(t, gw, `GET /x HTTP/1.1\r\nHost: a.test\r\n${fields}\r\n`)
    return Number(client.answers[0]!.line.split(' ')[1])
  }
  const trusted = { trusted_proxies: ['127.0.0.1/32'] }
  const list = 'X-Forwarded-For: 192.0.2.1, 192.0.2.2, 192.0.2.3\r\n'
  t.equal(await status({}, '192.0.2.1', list), 403)
  t.equal(await status({}, '127.0.0.1', list), 200)
  t.equal(await status(trusted, '192.0.2.1', list), 200)
  t.equal(await status({ ...trusted, http_server_options: { xff_depth: 1 } }, '192.0.2.3', list), 200)
  t.equal(await status({ ...trusted, http_server_options: { xff_depth: 3 } }, '192.0.2.1', list), 200)
  t.equal(await status({ ...trusted, http_server_options: { xff_depth: 4 } }, '127.0.0.1', list), 200)
  t.equal(await status(trusted, '127.0.0.1', 'X-Forwarded-For: nonsense\r\n'), 200)
  t.equal(await status(trusted, '127.0.0.1', ''), 200)
  t.equal(await status(trusted, '2001:db8::1', 'X-Forwarded-For: 2001:db8::1\r\n'), 200)
  t.equal(await status(trusted, '192.0.2.7', 'Forwarded: for=192.0.2.7;proto=https, for=192.0.2.8\r\n'), 200)
  t.equal(await status(trusted, '2001:db8::1', 'Forwarded: proto=http;For="[2001:db8::1]:4711"\r\n'), 200)
  t.equal(await status({}, '192.0.2.7', 'Forwarded: for=192.0.2.7\r\n'), 403)
})

t.test('bodies go up and down byte by byte, of a known length and in chunks', async t => {
  const all = Array.from({ length: 256 }, (_, code) => String.fromCharCode(code)).join('')
  const large = all.repeat(400)
  const { up, gw } = await through(t, ({ body }) =>
    body.length === 256
      ? `HTTP/1.1 200 OK\r\nContent-Length: 256\r\n\r\n${body}`
      : `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
  )
  for (const body of [all, large]) {
    const fixed = await one(t, gw, `PUT /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
    t.equal(last(up).body, body)
    t.equal(last(up).framing, 'length')
    t.equal(fixed.answers[0]!.body, body)
    const size = body.length.toString(16)
    const flowing = await one(
      t,
      gw,
      `PUT /x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n${size}\r\n${body}\r\n0\r\n\r\n`
    )
    t.equal(last(up).body, body)
    t.equal(last(up).framing, 'chunked')
    t.equal(flowing.answers[0]!.body, body)
  }
})

t.test('answers to HEAD, 204 and 304 have no body, and their Content-Length is told as it came', async t => {
  const { gw } = await through(t, ({ line }) =>
    line.includes('/204')
      ? 'HTTP/1.1 204 No Content\r\nX: 1\r\n\r\n'
      : line.includes('/304')
        ? 'HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\nETag: "a"\r\n\r\n'
        : 'HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n'
  )
  const client = wire(t, gw.url, ['GET', 'GET', 'HEAD', 'GET'])
  for (const [method, path] of [
    ['GET', '/204'],
    ['GET', '/304'],
    ['HEAD', '/x'],
    ['GET', '/204']
  ])
    client.send(`${method} ${path} HTTP/1.1\r\nHost: a.test\r\n\r\n`)
  await client.until(() => client.answers.length === 4, 'four answers')
  t.same(end2end(client.answers[0]!.pairs), ['X', '1'])
  t.same(end2end(client.answers[1]!.pairs), ['Content-Length', '77', 'ETag', '"a"'])
  t.same(end2end(client.answers[2]!.pairs), ['Content-Length', '77'])
  t.same(end2end(client.answers[3]!.pairs), ['X', '1'])
})

t.test('103 is passed on before the answer, but not to HTTP/1.0', async t => {
  const { gw } = await through(
    t,
    () => `HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nConnection: x\r\n\r\n${OK}`
  )
  const { answers } = await one(t, gw, 'GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n')
  t.same(
    answers.map(({ line }) => line),
    ['HTTP/1.1 103 Early Hints', 'HTTP/1.1 200 OK']
  )
  t.same(answers[0]!.pairs, ['Link', '</a>; rel=preload'])
  const old = await one(t, gw, 'GET /x HTTP/1.0\r\nHost: a.test\r\n\r\n')
  t.same(
    old.answers.map(({ line }) => line),
    ['HTTP/1.1 200 OK']
  )
})

t.test('trailers of an answer are passed on, but none that could frame, route or authenticate', async t => {
  const { gw } = await through(
    t,
    () =>
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\nSet-Cookie: a=b\r\nx-sum: 2\r\n\r\n'
  )
  const { answers } = await one(t, gw, 'GET /x HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\nConnection: TE\r\n\r\n')
  t.equal(answers[0]!.body, 'ok')
  t.same(values(answers[0]!.pairs, 'trailer'), ['X-Sum'])
  t.same(answers[0]!.trailers, ['X-Sum', '1', 'x-sum', '2'])
})

t.test('an announcement of trailers does no harm where none can come', async t => {
  const { gw } = await through(t, ({ line }) =>
    line.startsWith('HEAD')
      ? 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n'
      : 'HTTP/1.1 200 OK\r\nTrailer: X\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: 1\r\n\r\n'
  )
  const head = await one(t, gw, 'HEAD /x HTTP/1.1\r\nHost: a.test\r\n\r\n', 'HEAD')
  t.match(head.answers[0]!.line, / 200 /)
  const old = wire(t, gw.url)
  old.send('GET /x HTTP/1.0\r\n\r\n')
  await old.until(old.closed, 'the end')
  t.match(old.text(), /\r\n\r\nok$/)
})

t.test('a reason of other bytes than ASCII does not hold up the answer', async t => {
  const { gw } = await through(t, () => 'HTTP/1.1 200 caf\xe9\r\nContent-Length: 2\r\n\r\nok')
  const { answers } = await one(t, gw, 'GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n')
  t.match(answers[0]!.line, /^HTTP\/1\.1 200 caf/)
  t.equal(answers[0]!.body, 'ok')
})

t.test('Expect: 100-continue is told to go on once the upstream is there, and never goes up', async t => {
  const { up, gw } = await through(t)
  for (const length of [5, 100_000]) {
    const body = 'b'.repeat(length)
    const client = wire(t, gw.url)
    client.send(`POST /x HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: ${length}\r\n\r\n`)
    await client.until(() => client.answers.length === 1, '100')
    t.equal(client.answers[0]!.line, 'HTTP/1.1 100 Continue')
    client.send(body)
    await client.until(() => client.answers.length === 2, 'the answer')
    t.equal(last(up).body, body)
    t.same(values(last(up).pairs, 'expect'), [])
    client.send('GET /again HTTP/1.1\r\nHost: a.test\r\n\r\n')
    await client.until(() => client.answers.length === 3, 'the connection goes on')
  }
})

t.test('a client that waits for 100 gets a refusal instead of it', async t => {
  const up = await recorder(t)
  const gw = await gateway(t, {
    apis: [
      api('small', up.url, { middleware: { global: { requestSizeLimit: { enabled: true, value: 10 } } } }),
      api('refusing', 'http://127.0.0.1:1')
    ]
  })
  for (const [path, status] of [
    ['/small/x', 400],
    ['/refusing/x', 502],
    ['/nowhere', 404]
  ] as const) {
    const client = wire(t, gw.url)
    client.send(`POST ${path} HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 50\r\n\r\n`)
    await client.until(client.closed, 'the end')
    t.match(client.answers[0]!.line, new RegExp(` ${status} `))
    t.equal(client.answers.length, 1)
  }
  t.equal(up.requests.length, 0)
})

t.test('HTTP/1.0 clients get no chunks: a length where there is one, else the end of the connection', async t => {
  const { up, gw } = await through(t, ({ line }) =>
    line.includes('chunks') ? 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n' : OK
  )
  for (const path of ['/chunks', '/length']) {
    const client = wire(t, gw.url)
    client.send(`GET ${path} HTTP/1.0\r\n\r\n`)
    await client.until(client.closed, 'the end')
    t.match(client.text(), /\r\n\r\nok$/)
    t.notMatch(client.text(), /transfer-encoding/i)
    t.same(values(last(up).pairs, 'via'), ['1.0 svc'])
  }
})

t.test('an answer that ends with its connection reaches the client whole, in chunks', async t => {
  const up = await recorder(t, () => '')
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  const client = wire(t, gw.url)
  client.send('GET /all/x HTTP/1.1\r\nHost: a.test\r\n\r\n')
  while (up.requests.length === 0) await new Promise(resolve => setTimeout(resolve, 2))
  for (const socket of (up.sockets as unknown as Map<import('node:net').Socket, unknown>).keys())
    socket.end('HTTP/1.1 200 OK\r\n\r\nall of it')
  await client.until(() => client.answers.length === 1, 'the answer')
  t.equal(client.answers[0]!.body, 'all of it')
  t.equal(client.answers[0]!.framing, 'chunked')
})

t.test('preserveHostHeader, base paths and trailing slashes', async t => {
  const up = await recorder(t)
  const gw = await gateway(t, {
    apis: [
      api('own', `${up.url}/base`, { upstream: { preserveHostHeader: { enabled: true } } }),
      api('slash', `${up.url}/base/`, { upstream: { preserveTrailingSlash: { enabled: true } } }),
      api('plain', up.url)
    ]
  })
  const line = async (path: string) => {
    await one(t, gw, `GET ${path} HTTP/1.1\r\nHost: shop.test:81\r\n\r\n`)
    return last(up).line.split(' ')[1]
  }
  t.equal(await line('/own/a/b?x=1&y=%2F'), '/base/a/b?x=1&y=%2F')
  t.same(values(last(up).pairs, 'host'), ['shop.test:81'])
  t.equal(await line('/own/a/'), '/base/a/')
  t.equal(await line('/own/'), '/base')
  t.equal(await line('/slash/'), '/base/')
  t.equal(await line('/slash/a//b/%2e%2e/c'), '/base/a//c')
  t.equal(await line('/plain'), '/')
  t.equal(await line('/plain/'), '/')
  t.equal(await line('/plain/a%20b%zz'), '/a%20b%zz')
  t.same(values(last(up).pairs, 'host'), [`127.0.0.1:${up.port}`])
})

t.test('trailers of a request go up, and 100 of an upstream that nobody asked for goes no further', async t => {
  const { up, gw } = await through(t, () => `HTTP/1.1 100 Continue\r\n\r\n${OK}`)
  const { answers } = await one(
    t,
    gw,
    'POST /x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\nCookie: a=b\r\n\r\n'
  )
  t.same(
    answers.map(({ line }) => line),
    ['HTTP/1.1 200 OK']
  )
  t.same(last(up).trailers, ['X-Sum', '1'])
})

t.test('small answers in pieces, one behind the other to a client that reads late, lose no byte', async t => {
  const piece = 'p'.repeat(6_000)
  const rest = 'r'.repeat(60_000)
  const { gw } = await through(
    t,
    () => `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1770\r\n${piece}\r\nea60\r\n${rest}\r\n0\r\n\r\n`
  )
  const client = wire(t, gw.url)
  client.socket.pause()
  client.send('GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n'.repeat(200))
  await gw.get('/x')
  client.socket.resume()
  await client.until(() => client.answers.length === 200, 'every answer')
  t.ok(client.answers.every(({ body }) => body === piece + rest))
})
