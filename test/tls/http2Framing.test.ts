import t from 'tap'
import { requestText } from '../../gateway/tls/http2/requestText.ts'
import { api } from '../helpers/gateway.ts'
import { upstream } from '../helpers/upstream.ts'
import {
  block,
  CONTINUATION,
  DATA,
  END_HEADERS,
  END_STREAM,
  frame,
  frames,
  HEADERS,
  PING,
  RESET,
  SETTINGS
} from './frames.ts'
import { ask, files, http2, issued, pemOf, secure } from './secure.ts'

t.setTimeout(60_000)
const { a } = files(t, { a: pemOf(issued('a.example')) })
const up = await upstream(t, (req, res) => {
  req.resume()
  req.on('end', () => res.end('ok'))
})
const gw = await secure(t, [a!], { apis: [api('x', up.url)] })

type Fields = readonly (readonly [string, string])[]
const usual: Fields = [
  [':method', 'GET'],
  [':scheme', 'https'],
  [':path', '/x/'],
  [':authority', 'a.example']
]
/** The usual request with some fields in other words; '' leaves one out. */
const but = (changes: Record<string, string>, ...more: Fields): Fields => [
  ...usual.map(([name, value]) => [name, changes[name] ?? value] as const).filter(([, value]) => value !== ''),
  ...more
]

const refused = /^(?:status:400|reset:1|goaway:1)$/
/** What HTTP/2 cannot bear in a field, nghttp2 leaves out with the field. */
const dropped = /^status:200$/
for (const [what, fields, expected] of [
  ['the usual request', usual, /^status:200$/],
  ['a host that agrees', but({}, ['host', 'a.example']), /^status:200$/],
  ['a host that agrees but for the usual port', but({}, ['host', 'A.example:443']), /^status:200$/],
  ['a host alone', but({ ':authority': '' }, ['host', 'a.example']), /^status:200$/],
  ['a host that differs', but({}, ['host', 'b.example']), refused],
  ['two hosts', but({}, ['host', 'a.example'], ['host', 'b.example']), refused],
  ['no host at all', but({ ':authority': '' }), refused],
  ['a host with a user', but({ ':authority': 'user@a.example' }), refused],
  ['two authorities', but({}, [':authority', 'b.example']), refused],
  ['a pseudo-header behind others', [...usual.slice(0, 3), ['x-a', '1'], [':authority', 'a.example']], refused],
  ['an unknown pseudo-header', but({}, [':protocol', 'websocket']), refused],
  ['a status in a request', but({}, [':status', '200']), refused],
  ['a path with a space', but({ ':path': '/x/ HTTP/1.1' }), refused],
  ['a path with a line', but({ ':path': '/x/ HTTP/1.1\r\nHost: b\r\n\r\nGET /x/evil' }), refused],
  ['a path with a control character', but({ ':path': '/x/\x01' }), refused],
  ['a path with a fragment', but({ ':path': '/x/#a' }), refused],
  ['a path beyond ASCII', but({ ':path': '/x/\xe4' }), refused],
  ['a path that is a whole address', but({ ':path': 'http://b.example/x/' }), refused],
  ['a path that is relative', but({ ':path': 'x/' }), refused],
  ['no path', but({ ':path': '' }), refused],
  ['no method', but({ ':method': '' }), refused],
  ['a method with a space', but({ ':method': 'GET /x/evil HTTP/1.1\r\nA:' }), refused],
  ['no scheme', but({ ':scheme': '' }), refused],
  ['another scheme', but({ ':scheme': 'ftp' }), refused],
  ['a value with a line', but({}, ['x-a', '1\r\nx-b: 2']), dropped],
  ['a value with a line feed', but({}, ['x-a', '1\nx-b: 2']), dropped],
  ['a value with a null', but({}, ['x-a', '1\x002']), dropped],
  ['a cookie with a line', but({}, ['cookie', 'a=1\r\nx-b: 2']), dropped],
  ['a name with a colon', but({}, ['x-a: 1\r\nx-b', '2']), dropped],
  ['a name with a space', but({}, ['x a', '1']), dropped],
  ['a name in upper case', but({}, ['X-A', '1']), refused],
  ['an empty name', but({}, ['', '1']), dropped],
  ['transfer-encoding', but({}, ['transfer-encoding', 'chunked']), refused],
  ['transfer_encoding', but({}, ['transfer_encoding', 'chunked']), refused],
  ['connection', but({}, ['connection', 'x-a']), refused],
  ['keep-alive', but({}, ['keep-alive', 'timeout=1']), refused],
  ['proxy-connection', but({}, ['proxy-connection', 'close']), refused],
  ['upgrade', but({}, ['upgrade', 'h2c']), refused],
  ['te with anything but trailers', but({}, ['te', 'gzip']), refused],
  ['te: trailers', but({}, ['te', 'trailers']), /^status:200$/],
  ['two lengths', but({}, ['content-length', '0'], ['content-length', '0']), refused],
  ['a length that is no number', but({}, ['content-length', '+0']), refused],
  ['a length without a body', but({}, ['content-length', '5']), refused],
  ['a method that nobody knows', but({ ':method': 'FOO' }), /^status:48/],
  ['OPTIONS of everything', but({ ':method': 'OPTIONS', ':path': '*' }), /^status:404$/],
  ['* of another method', but({ ':path': '*' }), refused],
  [
    'CONNECT',
    [
      [':method', 'CONNECT'],
      [':authority', 'b.example:443']
    ],
    /^status:48/
  ],
  ['CONNECT with a protocol', but({ ':method': 'CONNECT' }, [':protocol', 'websocket']), refused]
] as [string, Fields, RegExp][])
  t.test(what, async t => {
    const before = up.requests.length
    const connection = await frames(t, gw.port)
    const isConnect = fields[0]![1] === 'CONNECT'
    connection.send(frame(HEADERS, END_HEADERS | (isConnect ? 0 : END_STREAM), 1, block(fields)))
    t.match(await connection.outcome(1), expected)
    const came = up.requests.slice(before)
    t.equal(
      came.length,
      expected.source === '^status:200$' ? 1 : 0,
      'the upstream sees what was taken, and nothing else'
    )
    for (const { url, headers } of came)
      t.match({ url, headers }, { url: '/', headers: { 'x-a': undefined, 'x-b': undefined, cookie: undefined } })
    connection.socket.destroy()
  })

t.test('the second line of defence holds by itself', async t => {
  const pairs = (fields: Fields) => fields.flat()
  for (const fields of [
    but({ ':path': '/x/ HTTP/1.1\r\nHost: b' }),
    but({ ':path': 'http://b/' }),
    but({ ':method': 'GET /' }),
    but({}, ['x-a', '1\r\nx-b: 2']),
    but({}, ['x-a\r\n', '1']),
    but({}, ['transfer-encoding', 'chunked']),
    but({}, ['connection', 'close']),
    but({}, ['content-length', '5']),
    but({}, ['content-length', '0'], ['content-length', '1']),
    but({}, [':path', '/late']),
    but({}, ['te', 'gzip'])
  ])
    t.equal(requestText(pairs(fields), true), null, JSON.stringify(fields.at(-1)))
  t.match(
    requestText(pairs(but({}, ['host', 'b'])), true)?.head,
    /Host: a\.example\r\nHost: b\r\n/,
    'two hosts are refused like those of HTTP/1.1'
  )
})

t.test('a body that is not as long as announced', async t => {
  for (const [what, sent] of [
    ['shorter', 'abc'],
    ['longer', 'abcdefg']
  ] as const) {
    const connection = await frames(t, gw.port)
    const fields = but({ ':method': 'POST' }, ['content-length', '5'])
    connection.send(frame(HEADERS, END_HEADERS, 1, block(fields)), frame(DATA, END_STREAM, 1, Buffer.from(sent)))
    // Node ends the whole connection where more comes.
    t.match(await connection.outcome(1), /^(?:reset:1|goaway:2)$/, what)
  }
})

t.test('chunks in a body are bytes like others', async t => {
  const got = await ask(
    http2(t, gw.port),
    { ':method': 'POST', ':path': '/x/' },
    '0\r\n\r\nGET /x/evil HTTP/1.1\r\nHost: a\r\n\r\n'
  )
  t.equal(got.status, 200)
  t.notOk(up.requests.some(({ url }) => url === '/evil'))
})

t.test('trailers cannot become headers or requests', async t => {
  const connection = await frames(t, gw.port)
  const post = frame(HEADERS, END_HEADERS, 1, block(but({ ':method': 'POST' })))
  const last = block([
    ['x-a', '1'],
    [':path', '/x/evil']
  ])
  connection.send(post, frame(DATA, 0, 1, Buffer.from('abc')), frame(HEADERS, END_HEADERS | END_STREAM, 1, last))
  t.match(await connection.outcome(1), /^(?:reset|goaway):1$/)
})

t.test('floods end the connection, and hold nothing', async t => {
  const many = (count: number, of: (i: number) => Buffer) =>
    Buffer.concat(Array.from({ length: count }, (_, i) => of(i)))
  for (const [what, flood] of [
    [
      'resets',
      many(5_000, i =>
        Buffer.concat([
          frame(HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, block(usual)),
          frame(RESET, 0, 2 * i + 1, Buffer.of(0, 0, 0, 8))
        ])
      )
    ],
    ['settings', many(20_000, () => frame(SETTINGS, 0, 0))],
    ['pings', many(20_000, () => frame(PING, 0, 0, Buffer.alloc(8)))],
    [
      'continuations',
      Buffer.concat([
        frame(HEADERS, END_STREAM, 1, block(usual)),
        many(5_000, () => frame(CONTINUATION, 0, 1, block([['x-a', 'b'.repeat(100)]])))
      ])
    ],
    [
      'streams beyond the bound',
      many(2_000, i => frame(HEADERS, END_HEADERS, 2 * i + 1, block(but({ ':method': 'POST' }))))
    ]
  ] as const) {
    const connection = await frames(t, gw.port)
    // Nothing is read, so that answers to it pile up.
    connection.socket.pause()
    connection.send(flood)
    connection.socket.resume()
    t.match(await Promise.race([connection.closed.then(() => 'closed'), quiet(connection)]), /closed|bounded/, what)
    connection.socket.destroy()
    t.match(await ask(http2(t, gw.port), { ':path': '/x/' }), { status: 200 }, 'others are served')
  }
})

t.test('a head larger than that of HTTP/1.1', async t => {
  for (const [count, expected] of [
    // 431, as there.
    [20, /^status:4803343331/],
    [40, /^status:4803343331/],
    [200, /^(?:reset|goaway):\d+$/]
  ] as const) {
    const connection = await frames(t, gw.port)
    const whole = block(but({}, ...Array.from({ length: count }, (_, i) => [`x-${i}`, 'b'.repeat(1_000)] as const)))
    const pieces: Buffer[] = []
    for (let at = 0; at < whole.length; at += 16_000) pieces.push(whole.subarray(at, at + 16_000))
    connection.send(
      ...pieces.map((piece, i) => {
        const flags = i === pieces.length - 1 ? END_HEADERS : 0
        return i === 0 ? frame(HEADERS, END_STREAM | flags, 1, piece) : frame(CONTINUATION, flags, 1, piece)
      })
    )
    t.match(await connection.outcome(1), expected, `${count} KB`)
    connection.socket.destroy()
  }
})

t.test('none of it was a fault of the gateway', async t => {
  t.same(
    gw.log.lines.filter(({ level }) => level === 'error'),
    []
  )
})

/** Those that the protocol lets pass are answered one by one, with nothing kept. */
async function quiet(connection: { got: readonly unknown[] }): Promise<string> {
  let last = -1
  while (connection.got.length !== last) {
    last = connection.got.length
    await new Promise(resolve => setTimeout(resolve, 300))
  }
  return 'bounded'
}
