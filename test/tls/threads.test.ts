import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import t from 'tap'
import { api } from '../helpers/gateway.ts'
import { upstream } from '../helpers/upstream.ts'
import { ask, files, http2, issued, pemOf, secure, shake, shownTo } from './secure.ts'

t.setTimeout(60_000)
/** So many connections meet each thread. */
const MANY = 16

const up = await upstream(t, (req, res) => {
  res.write('begun')
  req.resume()
  req.on('end', () => res.end())
})

t.test('all threads show and serve the same', async t => {
  const { a } = files(t, { a: pemOf(issued('before.example')) })
  const gw = await secure(t, [a!], { settings: { workers: 2 }, apis: [api('x', up.url)] })
  const all = () => Array.from({ length: MANY })
  for (const _ of all()) t.match(await ask(http2(t, gw.port), { ':path': '/x/' }), { status: 200, code: 0 })
  for (const _ of all()) t.match(await ask(http2(t, gw.port), { ':path': '/hello' }), { status: 200, code: 0 })
  const { body } = await gw.svc('POST', '/svc/certs', pemOf(issued('own.example')))
  const domain = { server: { customDomain: { enabled: true, name: 'own.example', certificates: [body.id] } } }
  t.equal((await gw.svc('POST', '/svc/apis/oas', api('own', 'svc://echo', domain))).status, 200)
  for (const _ of all()) t.equal(await shownTo(t, gw.port, 'own.example'), 'own.example', 'an API that was just saved')
  writeFileSync(a!, pemOf(issued('after.example')))
  t.same(await gw.reload(), [])
  for (const _ of all()) t.equal(await shownTo(t, gw.port), 'after.example', 'a file that was just read again')
})

t.test('sessions go on, whichever thread has the next connection', async t => {
  const { a } = files(t, { a: pemOf(issued('a.example')) })
  const gw = await secure(t, [a!], { settings: { workers: 2 } })
  const first = await shake(t, gw.port)
  const told = once(first, 'session')
  first.resume()
  const [session] = (await told) as [Buffer]
  for (let i = 0; i < MANY; i++) {
    const next = await shake(t, gw.port, { session })
    t.ok(next.isSessionReused())
    next.destroy()
  }
})

t.test('a stop ends connections of HTTP/2 in all threads, behind their requests', async t => {
  const { a } = files(t, { a: pemOf(issued('a.example')) })
  const gw = await secure(t, [a!], {
    settings: { workers: 2, graceful_shutdown_timeout_duration: 5 },
    apis: [api('x', up.url)]
  })
  const calls = Array.from({ length: MANY }, () => {
    const session = http2(t, gw.port)
    const stream = session.request({ ':method': 'POST', ':path': '/x/' })
    stream.on('error', () => {})
    return { session, stream, begun: once(stream, 'data') }
  })
  await Promise.all(calls.map(({ begun }) => begun))
  const stopped = gw.stop()
  await Promise.all(calls.map(({ session }) => once(session, 'goaway')))
  const ended = calls.map(({ stream }) => once(stream, 'close'))
  for (const { stream } of calls) stream.end('done')
  await Promise.all(ended)
  for (const { stream } of calls) t.equal(stream.rstCode, 0, 'its request ends well')
  await stopped
})
