import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { connect, createServer as createTcp, type Socket } from 'node:net'
import { createServer as createTls, type TLSSocket } from 'node:tls'
import t from 'tap'
import { load } from '../../config/load.ts'
import { systemClock } from '../../config/world.ts'
import { certificateOf } from '../../gateway/certificates/openCertificates.ts'
import { readApi } from '../../gateway/documents/readApi.ts'
import { listenerTls } from '../../gateway/tls/listenerTls.ts'
import { Tickets, ticketSeed } from '../../gateway/tls/tickets.ts'
import { CN, certificate, hosts, isCa } from '../helpers/certificates.ts'
import { api, collectedLog, gateway, SECRET } from '../helpers/gateway.ts'
import { upstream } from '../helpers/upstream.ts'
import { files, issued, pemOf, root, secure, shake, shownTo } from './secure.ts'

t.test('who is asked for decides what is shown', async t => {
  const paths = files(t, {
    first: pemOf(issued('first.example', 'second.example')),
    other: pemOf(issued('exact.example')),
    wild: pemOf(issued('*.example', '*.deep.example'))
  })
  const gw = await secure(t, [paths.first!, paths.other!, paths.wild!])
  const { body: own } = await gw.svc('POST', '/svc/certs', pemOf(issued('bears.example')))
  const domain = { server: { customDomain: { enabled: true, name: 'api.example', certificates: [own.id] } } }
  t.equal((await gw.svc('POST', '/svc/apis/oas', api('own', 'svc://echo', domain))).status, 200)
  for (const [asked, shown] of [
    [undefined, 'first.example'],
    ['first.example', 'first.example'],
    ['second.example', 'first.example'],
    ['exact.example', 'exact.example'],
    ['EXACT.example', 'exact.example'],
    ['any.example', '*.example'],
    ['any.deep.example', '*.example'],
    ['two.labels.example', 'first.example'],
    ['example', 'first.example'],
    ['unknown.test', 'first.example'],
    ['api.example', 'bears.example'],
    ['bears.example', '*.example']
  ] as const)
    t.equal(await shownTo(t, gw.port, asked), shown, `${asked ?? 'no name'}: ${shown}`)
  t.equal((await gw.svc('DELETE', '/svc/apis/oas/own')).status, 200)
  t.equal(await shownTo(t, gw.port, 'api.example'), '*.example', 'an API that is gone has no domain')
})

t.test('a chain is shown whole', async t => {
  const intermediate = certificate({ issuer: root, subject: [[CN, 'intermediate of the tests']], extensions: [isCa] })
  const names = [hosts('chain.example')]
  const leaf = certificate({ issuer: intermediate, subject: [[CN, 'chain.example']], extensions: names })
  const paths = files(t, { chain: pemOf(leaf, intermediate) })
  const gw = await secure(t, [paths.chain!])
  const socket = await shake(t, gw.port, { servername: 'chain.example', rejectUnauthorized: true })
  t.ok(socket.authorized, 'a client that knows the root alone can verify it')
})

t.test('the oldest version of TLS', async t => {
  const paths = files(t, { a: pemOf(issued('a.example')) })
  const modern = await secure(t, [paths.a!], { options: { min_version: '1.3' } })
  const usual = await secure(t, [paths.a!])
  const old = { maxVersion: 'TLSv1.2', minVersion: 'TLSv1.2' } as const
  await t.rejects(shake(t, modern.port, old), { code: /ERR_SSL/ }, '1.2 is refused where 1.3 is the oldest')
  t.equal((await shake(t, modern.port)).getProtocol(), 'TLSv1.3')
  t.equal((await shake(t, usual.port, old)).getProtocol(), 'TLSv1.2')
  t.equal((await shake(t, usual.port)).getProtocol(), 'TLSv1.3')
  const ancient = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const
  await t.rejects(shake(t, usual.port, ancient), 'older ones never')
  t.same(
    modern.log.lines.filter(({ level }) => level !== 'debug'),
    [],
    'no fault of ours'
  )
})

t.test('certificates change under load without a dropped connection', async t => {
  const paths = files(t, { a: pemOf(issued('before.example')) })
  const gw = await secure(t, [paths.a!], { apis: [api('x', 'svc://echo')] })
  const agents = Array.from(
    { length: 4 },
    () => new Agent({ keepAlive: true, maxSockets: 1, rejectUnauthorized: false })
  )
  t.teardown(() => {
    for (const agent of agents) agent.destroy()
  })
  const sockets = new Set<unknown>()
  let isOver = false
  let count = 0
  const loads = agents.map(async agent => {
    while (!isOver) {
      const call = request({ port: gw.port, path: '/x/', agent }).end()
      call.once('socket', socket => sockets.add(socket))
      const [answer] = await once(call, 'response')
      answer.resume()
      await once(answer, 'end')
      t.equal(answer.statusCode, 200)
      count++
    }
  })
  for (const name of ['second.example', 'third.example']) {
    writeFileSync(paths.a!, pemOf(issued(name)))
    t.same(await gw.reload(), [])
    t.equal(await shownTo(t, gw.port), name, 'the next handshake shows it')
  }
  const enough = count + 20
  while (count < enough) await new Promise(setImmediate)
  isOver = true
  await Promise.all(loads)
  t.equal(sockets.size, 4, 'the connections are those of before')
})

t.test('sessions go on over a change', async t => {
  const paths = files(t, { a: pemOf(issued('before.example')), b: pemOf(issued('b.example')) })
  const gw = await secure(t, [paths.a!, paths.b!])
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const)
    for (const servername of [undefined, 'b.example']) {
      const options = { minVersion: version, maxVersion: version, ...(servername === undefined ? {} : { servername }) }
      const session = await sessionOf(await shake(t, gw.port, options))
      writeFileSync(paths.a!, pemOf(issued('after.example')))
      t.same(await gw.reload(), [])
      const again = await shake(t, gw.port, { ...options, session })
      t.ok(again.isSessionReused(), `${version} ${servername ?? ''}`)
      again.destroy()
    }
})

t.test('a certificate that goes away is told once, and the first one is shown', async t => {
  const read = (id: string) => {
    const { pem, keyPem } = issued(`${id}.example`)
    return certificateOf(id, 'default', pem, keyPem)
  }
  const held = new Map([
    ['first', read('first')],
    ['own', read('own')]
  ])
  const heard = new Set<() => void>()
  const log = collectedLog()
  const { gateway: settings } = load({
    file: JSON.stringify({
      gateway: { secret: SECRET, http_server_options: { use_ssl: true, ssl_certificates: ['first'] } }
    }),
    env: {}
  })
  const domain = { server: { customDomain: { enabled: true, name: 'own.test', certificates: ['own'] } } }
  const own = readApi(api('own', 'svc://echo', domain), { source: 'store', matching: 'exact' })
  const tls = listenerTls({
    settings,
    certificates: {
      held: id => held.get(id) ?? null,
      onChange(listener) {
        heard.add(listener)
        return () => void heard.delete(listener)
      }
    },
    apis: {
      all: () => [own],
      rows: () => [{ api: own, rev: 1, sequence: 1, created: null, updated: null }],
      onChange: () => () => {}
    },
    tickets: new Tickets(ticketSeed({ bytes: randomBytes }, Date.now())),
    thread: 0,
    clock: systemClock,
    log
  })
  const server = createTls(tls.options)
  const answer = (name: string) =>
    new Promise(resolve => tls.options.SNICallback(name, (_cause, context) => resolve(context)))
  tls.refresh(server)
  t.ok(await answer('own.test'))
  held.delete('own')
  for (let i = 0; i < 3; i++) {
    for (const listener of heard) listener()
    tls.refresh(server)
    t.equal(await answer('own.test'), undefined, 'the first one is shown')
  }
  t.match(log.lines, [{ level: 'warn', certificate: 'own', msg: /it is missing/ }])
  t.equal(log.lines.length, 1, 'told once')
  held.delete('first')
  for (const listener of heard) listener()
  tls.refresh(server)
  t.match(log.lines[1], { level: 'warn', certificate: 'first' }, 'rather the last one than none')
  tls.close()
  t.equal(heard.size, 0)
})

t.test('what the settings name must be there', async t => {
  const bare = issued('bare.example')
  const old = certificate({
    issuer: root,
    subject: [[CN, 'old.example']],
    extensions: [hosts('old.example')],
    to: '2021-01-01T00:00:00Z'
  })
  const paths = files(t, { bare: bare.pem, old: pemOf(old), good: pemOf(issued('good.example')), broken: 'no PEM' })
  await t.rejects(secure(t, ['/nowhere/at/all.pem']), /\/nowhere\/at\/all\.pem cannot be read.*ssl_certificates/)
  await t.rejects(secure(t, [paths.good!, paths.broken!]), /broken\.pem cannot be read/)
  await t.rejects(secure(t, ['unknown-id']), /unknown-id cannot be read/)
  await t.rejects(secure(t, [paths.bare!]), /no certificate has a private key/)
  const gw = await secure(t, [paths.bare!, paths.old!])
  t.equal(await shownTo(t, gw.port), 'old.example', 'an expired one is still used')
  const ofListener = gw.log.lines.filter(({ msg }) => msg.startsWith('a certificate of the TLS listener'))
  const told = ofListener.map(({ msg, certificate }) => [certificate, msg])
  t.same(told, [
    [paths.bare, 'a certificate of the TLS listener: it has no private key'],
    [paths.old, 'a certificate of the TLS listener: it has expired']
  ])
  const http_server_options = { use_ssl: true }
  const file = JSON.stringify({ gateway: { secret: SECRET, http_server_options } })
  t.throws(() => load({ file, env: {} }), /http_server_options\/ssl_certificates is required with use_ssl/)
})

t.test('what is no TLS', async t => {
  const paths = files(t, { a: pemOf(issued('a.example')) })
  const gw = await secure(t, [paths.a!], { apis: [api('x', 'svc://echo')] })
  for (const bytes of [
    'GET / HTTP/1.1\r\nHost: x\r\n\r\n',
    '\x16\x03\x01\xff\xff',
    '\0\0\0\0',
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
  ]) {
    const socket = connect(gw.port, '127.0.0.1')
    socket.on('error', () => {})
    socket.end(bytes, 'latin1')
    socket.resume()
    await once(socket, 'close')
    t.pass(`${JSON.stringify(bytes)}: closed`)
  }
  const torn = await shake(t, gw.port)
  torn.write('GET /x/ HTTP/1.1\r\nHost: x')
  torn.destroy()
  t.equal(await statusOf(gw.port, '/x/'), 200, 'the next client is served')
  t.same(
    gw.log.lines.filter(({ level }) => level === 'error' || level === 'warn'),
    [],
    'none of it is a fault of ours'
  )
})

t.test('handshakes that never end hold up nothing', async t => {
  const paths = files(t, { a: pemOf(issued('a.example')) })
  const gw = await secure(t, [paths.a!], { settings: { graceful_shutdown_timeout_duration: 5 } })
  const silent = connect(gw.port, '127.0.0.1')
  silent.on('error', () => {})
  silent.resume()
  await once(silent, 'connect')
  const idle = await shake(t, gw.port)
  idle.on('error', () => {})
  idle.resume()
  // A reset is an end as well.
  const closed = [silent, idle].map(socket => new Promise(resolve => socket.once('close', resolve)))
  const from = Date.now()
  await gw.stop()
  await Promise.all(closed)
  t.ok(Date.now() - from < 2_000, 'the gateway stops at once')
})

t.test('upstreams and rules hear that the client came over TLS', async t => {
  const paths = files(t, { a: pemOf(issued('a.example')) })
  const up = await upstream(t)
  const gw = await secure(t, [paths.a!], { apis: [api('x', up.url)] })
  t.match(gw.url, /^https:\/\/127\.0\.0\.1:\d+$/, 'so does the base URL')
  t.match(gw.controlUrl, /^http:/, 'control_api_port stays plain')
  t.match(gw.managementUrl, /^http:/, 'so does the management interface')
  t.equal(await statusOf(gw.port, '/x/'), 200)
  t.equal(up.requests[0]?.headers['x-forwarded-proto'], 'https')
  const raw = await shake(t, gw.port)
  raw.write('GET https://a.example/x/ HTTP/1.1\r\nHost: a.example\r\n\r\n')
  t.match(String((await once(raw, 'data'))[0]), /^HTTP\/1\.1 200/, 'an https target is ours')
})

t.test('WebSocket over TLS', async t => {
  const paths = files(t, { a: pemOf(issued('a.example')) })
  const up = await upstream(t)
  up.server.on('upgrade', (_req, socket: Socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    socket.pipe(socket)
  })
  const gw = await secure(t, [paths.a!], { apis: [api('x', up.url)] })
  const socket = await shake(t, gw.port, { ALPNProtocols: ['http/1.1'] })
  socket.write(
    'GET /x/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'
  )
  t.match(String((await once(socket, 'data'))[0]), /^HTTP\/1\.1 101/)
  socket.write('there and back')
  t.equal(String((await once(socket, 'data'))[0]), 'there and back')
})

t.test('a small answer is one TLS record', async t => {
  const paths = files(t, { a: pemOf(issued('a.example')) })
  const up = await upstream(t, (_req, res) => void res.end('x'.repeat(1_000)))
  const gw = await secure(t, [paths.a!], { apis: [api('x', up.url)] })
  let seen: Buffer = Buffer.alloc(0)
  const between = createTcp(client => {
    const far = connect(gw.port, '127.0.0.1')
    client.pipe(far).pipe(client)
    far.on('data', bytes => {
      seen = Buffer.concat([seen, Buffer.from(bytes)])
    })
    for (const socket of [client, far]) socket.on('error', () => {})
  })
  await new Promise<void>(resolve => between.listen(0, '127.0.0.1', resolve))
  t.teardown(() => between.close())
  const socket = await shake(t, (between.address() as { port: number }).port, { ALPNProtocols: ['http/1.1'] })
  for (let i = 0; i < 3; i++) {
    seen = Buffer.alloc(0)
    socket.write('GET /x/ HTTP/1.1\r\nHost: a\r\n\r\n')
    let got = ''
    while (!got.includes('x'.repeat(1_000))) got += (await once(socket, 'data'))[0]
  }
  const records: number[] = []
  for (let at = 0; at < seen.length; at += 5 + seen.readUInt16BE(at + 3)) records.push(seen[at]!)
  t.same(records, [23], 'head and body together')
  socket.destroy()
})

t.test('more authorities for outgoing TLS', async t => {
  const paths = files(t, { root: root.pem, broken: 'no PEM' })
  await t.rejects(
    gateway(t, { settings: { gateway: { ca_file: '/nowhere.pem' } } }),
    /nowhere\.pem cannot be read.*gateway\.ca_file/
  )
  await t.rejects(gateway(t, { settings: { gateway: { ca_file: paths.broken } } }), /holds no certificate/)
  const served = files(t, { up: pemOf(issued('localhost')) })
  const far = await secure(t, [served.up!], { apis: [api('far', 'svc://echo')] })
  const target = `https://localhost:${far.port}/far`
  const before = await gateway(t, { apis: [api('x', target)] })
  t.equal((await before.get('/x/')).status, 502, 'unknown without it')
  const gw = await gateway(t, { settings: { gateway: { ca_file: paths.root } }, apis: [api('x', target)] })
  t.equal((await gw.get('/x/')).status, 200)
  rmSync(paths.root!)
})

/** Of TLS 1.3 it comes behind the handshake. */
async function sessionOf(socket: TLSSocket): Promise<Buffer> {
  const told = socket.getProtocol() === 'TLSv1.3' ? once(socket, 'session') : null
  socket.write('GET /hello HTTP/1.1\r\nHost: a\r\n\r\n')
  const session = told === null ? socket.getSession()! : ((await told) as [Buffer])[0]
  socket.resume()
  socket.destroy()
  return session
}

async function statusOf(port: number, path: string): Promise<number> {
  const call = request({ port, path, rejectUnauthorized: false, agent: false }).end()
  const [answer] = await once(call, 'response')
  answer.resume()
  return answer.statusCode
}
