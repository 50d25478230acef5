import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { Refused } from '../../../control/endpoint.ts'
import { type Fetching, fetched } from '../../../control/import/fetch.ts'
import { handClock } from '../../helpers/clock.ts'
import { bounds } from './given.ts'

const LOOPBACK = ['127.0.0.1/32']

/** A server on 127.0.0.1; its base URL. */
async function serving(t: Test, answer: (req: IncomingMessage, res: ServerResponse) => void): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function refusal(url: string, more: Partial<Fetching> = {}): Promise<[number, string]> {
  try {
    await fetched(url, bounds({ privateNetworks: LOOPBACK, ...more }))
  } catch (cause) {
    if (cause instanceof Refused) return [cause.status, cause.message]
    throw cause
  }
  return [200, '']
}

t.test('a document comes with its media type, compressed or not', async t => {
  const text = '{"openapi":"3.0.3"}'
  const bodies: Record<string, Buffer> = {
    identity: Buffer.from(text),
    gzip: gzipSync(text),
    deflate: deflateSync(text),
    br: brotliCompressSync(text)
  }
  const base = await serving(t, (req, res) => {
    const name = req.url!.slice(1)
    t.notOk(req.headers.authorization ?? req.headers.cookie)
    res
      .writeHead(200, { 'Content-Type': 'Application/JSON; charset=utf-8', 'Content-Encoding': name })
      .end(bodies[name])
  })
  for (const name of Object.keys(bodies)) {
    const { bytes, contentType } = await fetched(`${base}/${name}`, bounds({ privateNetworks: LOOPBACK }))
    t.equal(bytes.toString(), text)
    t.equal(contentType, 'application/json')
  }
  t.same(await refusal(`${base}/zstd`), [
    400,
    `the description could not be fetched from ${base.slice(7)}: its content encoding is not read`
  ])
})

t.test('only absolute http and https addresses without credentials are fetched', async t => {
  for (const [url, message] of [
    ['', /not absolute/],
    ['/openapi.json', /not absolute/],
    ['file:///etc/passwd', /only http and https/],
    ['ftp://example.com/a', /only http and https/],
    ['data:application/json,{}', /only http and https/],
    ['http://user@127.0.0.1/', /credentials/],
    ['http://user:pass@127.0.0.1/', /credentials/]
  ] as const) {
    const [status, told] = await refusal(url)
    t.equal(status, 400)
    t.match(told, message)
    t.notMatch(told, /pass/)
  }
})

t.test('addresses inside are refused however they are named, before anything is sent', async t => {
  let calls = 0
  const base = await serving(t, (_req, res) => {
    calls++
    res.end('{}')
  })
  const { port } = new URL(base)
  for (const host of [
    '127.0.0.1',
    'localhost',
    '0x7f.1',
    '2130706433',
    '0177.0.0.1',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '0',
    '127.0.0.1.'
  ]) {
    const [status, told] = await refusal(`http://${host}:${port}/`, { privateNetworks: [] })
    t.equal(status, 400, host)
    t.match(told, /its address is not public|its name is unknown/, host)
  }
  for (const host of ['169.254.169.254', '[fe80::1]', '[::ffff:169.254.169.254]'])
    t.match(await refusal(`http://${host}/`, { privateNetworks: ['0.0.0.0/0', '::/0'] }), [400, /not public/])
  t.equal(calls, 0)
  t.same(await refusal(`http://localhost:${port}/`), [200, ''], 'a name is looked up, and goes where it may')
})

t.test('redirects are followed three times and looked at each time', async t => {
  let inner = 0
  const inside = await serving(t, (_req, res) => {
    inner++
    res.end('{}')
  })
  const base = await serving(t, (req, res) => {
    const [, left, to] = /^\/(\d+)(?:\/(.*))?$/.exec(req.url!) ?? []
    if (left === undefined || left === '0') return void res.end('{"a":1}')
    const next = to === undefined ? `/${Number(left) - 1}` : decodeURIComponent(to)
    res.writeHead([301, 302, 303, 307, 308][Number(left) % 5]!, { Location: next }).end('a body that nobody reads')
  })
  t.equal((await fetched(`${base}/3`, bounds({ privateNetworks: LOOPBACK }))).bytes.toString(), '{"a":1}')
  t.match(await refusal(`${base}/4`), [400, /redirects more than 3 times/])
  const port = new URL(inside).port
  for (const [to, message] of [
    [`http://127.0.0.2:${port}/`, /from 127\.0\.0\.2:\d+: its address is not public/],
    [`http://[::1]:${port}/`, /not public/],
    [`//127.0.0.3:${port}/`, /not public/],
    ['http://169.254.169.254/latest/meta-data/', /not public/],
    ['file:///etc/passwd', /only http and https/],
    [`http://user:word@127.0.0.1:${port}/`, /credentials/],
    ['http://', /redirects to no URL/]
  ] as const) {
    const [status, told] = await refusal(`${base}/1/${encodeURIComponent(to)}`)
    t.equal(status, 400)
    t.match(told, message)
    t.notMatch(told, /passwd|meta-data|word/)
  }
  t.equal(inner, 0)
})

t.test('what is too large ends while it comes, unpacked or not', async t => {
  const bomb = gzipSync(Buffer.alloc(20_000_000, 'x'))
  const base = await serving(t, (req, res) => {
    if (req.url === '/bomb') return void res.writeHead(200, { 'Content-Encoding': 'gzip' }).end(bomb)
    res.writeHead(200)
    const more = () => {
      while (!res.destroyed && res.write(Buffer.alloc(65_536, 'x')));
      if (!res.destroyed) res.once('drain', more)
    }
    more()
  })
  t.same(await refusal(`${base}/bomb`), [413, 'Request Entity Too Large'])
  t.same(await refusal(`${base}/endless`), [413, 'Request Entity Too Large'])
})

t.test('nothing of an answer that is no document is told', async t => {
  const base = await serving(t, (req, res) => {
    if (req.url === '/torn')
      return void res.writeHead(200, { 'Content-Length': 100 }).write('secret', () => res.destroy())
    if (req.url === '/garbage') return void req.socket.end('secret\r\n\r\n')
    if (req.url === '/gzip') return void res.writeHead(200, { 'Content-Encoding': 'gzip' }).end('secret')
    res.writeHead(403, { 'X-Secret': 'secret' }).end('secret')
  })
  for (const [path, message] of [
    ['/', /it answered 403$/],
    ['/torn', /broke off|no answer/],
    ['/garbage', /no answer/],
    ['/gzip', /no answer/]
  ] as const) {
    const [status, told] = await refusal(base + path)
    t.equal(status, 400)
    t.match(told, message)
    t.match(told, `from ${base.slice(7)}: `)
    t.notMatch(told, /secret/)
  }
  const closed = createServer().listen(0, '127.0.0.1')
  await once(closed, 'listening')
  const { port } = closed.address() as AddressInfo
  closed.close()
  await once(closed, 'close')
  t.match(await refusal(`http://127.0.0.1:${port}/`), [400, /it refuses connections$/])
})

t.test('a server that does not come to an end is left after ten seconds', async t => {
  const clock = handClock()
  const base = await serving(t, (_req, res) => {
    res.writeHead(200).write('{', () => clock.move(10_000))
  })
  t.match(await refusal(base, { clock }), [400, /it takes too long$/])
})

t.test('at most eight descriptions are fetched at once, and then the next may come', async t => {
  const waiting: ServerResponse[] = []
  const eight = Promise.withResolvers<void>()
  const base = await serving(t, (req, res) => {
    if (req.url === '/next') return void res.end('{}')
    if (waiting.push(res) === 8) eight.resolve()
  })
  const first = Array.from({ length: 8 }, () => refusal(base))
  await eight.promise
  await t.rejects(fetched(`${base}/next`, bounds({ privateNetworks: LOOPBACK })), {
    status: 503,
    message: /^8 descriptions are being fetched/,
    headers: { 'Retry-After': '10' }
  })
  for (const res of waiting) res.end('{}')
  for (const each of first) t.same(await each, [200, ''])
  t.same(await refusal(`${base}/next`), [200, ''])
})
