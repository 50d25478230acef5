import { once } from 'node:events'
import type { TLSSocket } from 'node:tls'
import t from 'tap'
import { CN, certificate, isCa } from '../helpers/certificates.ts'
import { api } from '../helpers/gateway.ts'
import { streamApi, streamsOn } from '../helpers/streamClients.ts'
import { ask, files, http2, issued, pemOf, secure, shake } from './secure.ts'

t.setTimeout(60_000)
const paths = files(t, { a: pemOf(issued('a.example')) })
const authority = certificate({ subject: [[CN, 'authority of clients']], extensions: [isCa] })
const intermediate = certificate({ issuer: authority, subject: [[CN, 'between']], extensions: [isCa] })
const listed = certificate({ subject: [[CN, 'listed']] })
const signed = certificate({ issuer: intermediate, subject: [[CN, 'signed']] })
const stranger = certificate({ subject: [[CN, 'stranger']] })

const client = (...[leaf, ...chain]: (typeof listed)[]) => ({
  key: leaf!.keyPem,
  cert: [leaf!, ...chain].map(({ pem }) => pem).join('')
})

/** Status of a request on this connection. */
async function status(socket: TLSSocket): Promise<number> {
  socket.write('GET /shut/ HTTP/1.1\r\nHost: a\r\n\r\n')
  const [bytes] = await once(socket, 'data')
  return Number(String(bytes).slice(9, 12))
}

for (const workers of [1, 2])
  t.test(`certificates of clients, ${workers} thread(s)`, async t => {
    const gw = await secure(t, [paths.a!], { settings: { workers }, apis: [api('open', 'svc://echo')] })
    const plain = await shake(t, gw.port, client(listed))
    const ids: string[] = []
    for (const { pem } of [listed, authority]) ids.push((await gw.svc('POST', '/svc/certs', pem)).body.id)
    const shut = api('shut', 'svc://echo', { server: { clientCertificates: { enabled: true, allowlist: ids } } })
    t.equal((await gw.svc('POST', '/svc/apis/oas', shut)).status, 200)
    t.equal(await status(plain), 403, 'a connection of before was not asked for any')

    for (const [what, shown, expected] of [
      ['none', {}, 403],
      ['listed', client(listed), 200],
      ['signed by a listed authority, with the one between', client(signed, intermediate), 200],
      ['without the one between', client(signed), 403],
      ['a stranger', client(stranger), 403]
    ] as const) {
      const socket = await shake(t, gw.port, { ...shown, ALPNProtocols: ['http/1.1'] })
      t.equal(await status(socket), expected, `${what}: ${expected}`)
      socket.destroy()
      const session = http2(t, gw.port, shown)
      t.equal((await ask(session, { ':path': '/shut/' })).status, expected, `HTTP/2, ${what}: ${expected}`)
      t.equal((await ask(session, { ':path': '/open/' })).status, 200, 'other APIs are open')
      session.destroy()
    }

    t.test('sessions that go on keep it, with all that came beside it', async t => {
      for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
        const options = { ...client(signed, intermediate), minVersion: version, maxVersion: version }
        let resumed = 0
        // Each thread knows its own sessions: other connections begin anew.
        for (let i = 0; i < 8; i++) {
          const first = await shake(t, gw.port, options)
          const told = version === 'TLSv1.3' ? once(first, 'session') : null
          t.equal(await status(first), 200)
          const session = told === null ? first.getSession()! : ((await told) as [Buffer])[0]
          first.destroy()
          const next = await shake(t, gw.port, { ...options, session })
          if (next.isSessionReused()) resumed++
          t.equal(await status(next), 200, `${version}, ${next.isSessionReused() ? 'goes on' : 'begins anew'}`)
          next.destroy()
        }
        t.ok(workers > 1 || resumed === 8, `${version}: ${resumed} of 8 went on`)
      }
    })

    t.test('a session from before goes on without, so it begins anew', async t => {
      t.equal((await gw.svc('DELETE', '/svc/apis/oas/shut')).status, 200)
      const first = await shake(t, gw.port, client(listed))
      const told = once(first, 'session')
      t.equal(await status(first), 404)
      const [session] = await told
      t.equal((await gw.svc('POST', '/svc/apis/oas', shut)).status, 200)
      const next = await shake(t, gw.port, { ...client(listed), session })
      t.notOk(next.isSessionReused())
      t.equal(await status(next), 200)
    })
    t.same(
      gw.log.lines.filter(({ level }) => level === 'error'),
      []
    )
  })

t.test('threads relay what clients have shown to the main thread', async t => {
  const on = streamsOn()
  const gw = await secure(t, [paths.a!], {
    settings: { workers: 2, ...on.gateway },
    rest: { management: on.management }
  })
  const { body } = await gw.svc('POST', '/svc/certs', authority.pem)
  const server = { clientCertificates: { enabled: true, allowlist: [body.id] } }
  const streams = {
    relayed: {
      input: { http_server: { path: '/post' } },
      output: { http_server: { path: '/get', stream_path: '/sse' } }
    }
  }
  const made = await gw.svc('POST', '/svc/apis/oas', streamApi('streaming', streams, { server }))
  t.equal(made.status, 200, JSON.stringify(made.body))
  const posted = { ':method': 'POST', ':path': '/streaming/post' }
  for (let i = 0; i < 4; i++) {
    const known = await ask(http2(t, gw.port, client(signed, intermediate)), posted, 'message')
    t.equal(known.status, 200, String(known.body))
    t.equal((await ask(http2(t, gw.port), posted, 'message')).status, 403)
    t.equal((await ask(http2(t, gw.port, client(stranger)), posted, 'message')).status, 403)
  }
  const events = http2(t, gw.port, client(signed, intermediate)).request({ ':path': '/streaming/sse' })
  events.on('error', () => {})
  const [head] = await once(events, 'response')
  t.equal(head[':status'], 200)
  events.close()
})
