import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { promisify } from 'node:util'
import t from 'tap'
import { api } from '../helpers/gateway.ts'
import { upstream } from '../helpers/upstream.ts'
import { block, END_HEADERS, END_STREAM, type Frames, frame, frames, GOAWAY, HEADERS, SETTINGS } from './frames.ts'
import { ask, files, http2, issued, pemOf, secure } from './secure.ts'

t.setTimeout(60_000)
const whole = promisify(execFile)
const { a } = files(t, { a: pemOf(issued('a.example')) })
const up = await upstream(t, (req, res) => {
  if (req.url === '/events') {
    res.writeHead(200, { 'Content-Type': 'text/event-stream' })
    return void res.write('data: 1\n\n')
  }
  res.end('ok')
})

const ACK = 1
const fields = (...more: (readonly [string, string])[]) =>
  block([[':method', 'GET'], [':scheme', 'https'], [':path', '/x/'], [':authority', 'a.example'], ...more])
const requests = (from: number, count: number) =>
  Array.from({ length: count }, (_, i) => frame(HEADERS, END_HEADERS | END_STREAM, from + 2 * i, fields()))
const begin = async (...given: Parameters<typeof frames>) => {
  const connection = await frames(...given)
  connection.send(frame(SETTINGS, ACK, 0))
  return connection
}
const all = (connection: Frames, ids: readonly number[]) => Promise.all(ids.map(id => each(connection, id)))

/** The status, however many are waited for. */
async function each(connection: Frames, id: number): Promise<boolean> {
  for (let i = 0; i < 100; i++) {
    if (connection.got.some(({ type, stream }) => type === HEADERS && stream === id)) return true
    await new Promise(resolve => setTimeout(resolve, 20))
  }
  return false
}

t.test('half a head holds no connection', async t => {
  const gw = await secure(t, [a!], { options: { read_timeout: 1 }, apis: [api('x', up.url)] })
  for (const before of [0, 1]) {
    const connection = await begin(t, gw.port)
    connection.send(...requests(1, before))
    if (before > 0) t.ok(await each(connection, 1))
    const from = Date.now()
    connection.send(frame(HEADERS, END_STREAM, 1 + 2 * before, fields()))
    await connection.closed
    const ms = Date.now() - from
    t.ok(ms >= 900 && ms < 3_000, `after ${ms} ms, behind ${before} request(s)`)
  }
})

t.test('a head that was refused is no half one', async t => {
  const gw = await secure(t, [a!], { options: { read_timeout: 1 }, apis: [api('x', up.url)] })
  const session = http2(t, gw.port)
  let isClosed = false
  session.on('close', () => {
    isClosed = true
  })
  const events = session.request({ ':path': '/x/events' })
  events.on('error', () => {})
  await once(events, 'data')
  // More than fits: Node refuses the stream, and nobody hears of it.
  const large = Object.fromEntries(Array.from({ length: 80 }, (_, i) => [`x-${i}`, 'b'.repeat(800)]))
  t.match(await ask(session, { ':path': '/x/', ...large }), { status: 0, code: 11 })
  await new Promise(resolve => setTimeout(resolve, 2_500))
  t.notOk(isClosed, 'what goes on there goes on')
  t.equal((await ask(session, { ':path': '/x/' })).status, 200)
})

t.test('half a head does not hold up a stop', async t => {
  for (const before of [0, 1]) {
    const settings = { graceful_shutdown_timeout_duration: 10 }
    const gw = await secure(t, [a!], { settings, apis: [api('x', up.url)] })
    const connection = await begin(t, gw.port)
    connection.send(...requests(1, before), frame(HEADERS, END_STREAM, 1 + 2 * before, fields()))
    if (before > 0) t.ok(await each(connection, 1))
    else await new Promise(resolve => setTimeout(resolve, 100))
    const from = Date.now()
    await gw.stop()
    t.ok(Date.now() - from < 1_000, `after ${Date.now() - from} ms`)
  }
})

t.test('before a stop all requests are served that still come', async t => {
  const settings = { graceful_shutdown_delay_seconds: 1.5, graceful_shutdown_timeout_duration: 5 }
  const gw = await secure(t, [a!], { settings, apis: [api('x', up.url)] })
  const kept = await begin(t, gw.port)
  kept.send(...requests(1, 1))
  t.ok(await each(kept, 1))
  const idle = await begin(t, gw.port)
  idle.send(...requests(1, 1))
  t.ok(await each(idle, 1))
  const stopped = gw.stop()
  await new Promise(resolve => setTimeout(resolve, 300))
  const fresh = await begin(t, gw.port)
  fresh.send(...requests(1, 5))
  kept.send(...requests(3, 5))
  t.same(await all(fresh, [1, 3, 5, 7, 9]), [true, true, true, true, true], 'on a new connection')
  t.same(await all(kept, [3, 5, 7, 9, 11]), [true, true, true, true, true], 'on one that was kept')
  // The next flight, as the answers come.
  kept.send(...requests(13, 5))
  t.same(await all(kept, [13, 15, 17, 19, 21]), [true, true, true, true, true], 'and once more')
  await kept.closed
  const ends = kept.got.filter(({ type }) => type === GOAWAY).map(({ payload }) => payload.toString('hex'))
  t.same(ends, ['0000001500000000'], 'when its client pauses it is sent elsewhere, with all answered')
  t.notOk(
    idle.got.some(({ type }) => type === GOAWAY),
    'an idle one is still there'
  )
  await stopped
  await idle.closed
})

t.test('load goes on over the delay of a stop', async t => {
  const settings = { graceful_shutdown_delay_seconds: 2.5, graceful_shutdown_timeout_duration: 5 }
  const gw = await secure(t, [a!], { settings, apis: [api('x', up.url)] })
  const url = `https://127.0.0.1:${gw.port}/x/`
  const load = whole('h2load', ['-D', '1', '-c', '4', '-m', '10', url])
  await new Promise(resolve => setTimeout(resolve, 300))
  const stopped = gw.stop()
  const { stdout } = await load
  t.match(stdout, / 0 failed, 0 errored, 0 timeout/)
  await stopped
})
