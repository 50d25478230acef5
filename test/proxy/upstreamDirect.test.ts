import t from 'tap'
import type { Clock } from '../../config/world.ts'
import { upstreamDirect } from '../../gateway/proxy/upstreamDirect.ts'
import { upstreamContract } from '../contract/upstream.ts'
import { rawServer, send } from '../contract/upstreamServers.ts'

upstreamContract(t, options => upstreamDirect(options), {
  lenient: new Set(),
  knowsReuse: true,
  sendsTrailers: true,
  takesEarlyAnswers: true,
  readsUntilClose: true,
  takes100: true,
  trims: true
})

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

/** Runs what is due when it is moved. */
class HandClock implements Clock {
  private time = 0
  private due: { at: number; run: () => void }[] = []

  now(): number {
    return this.time
  }

  after(ms: number, run: () => void): () => void {
    const entry = { at: this.time + ms, run }
    this.due.push(entry)
    return () => {
      this.due = this.due.filter(each => each !== entry)
    }
  }

  get pending(): number {
    return this.due.length
  }

  move(ms: number): void {
    const until = this.time + ms
    for (;;) {
      const next = this.due.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)[0]
      if (next === undefined) break
      this.time = next.at
      this.due = this.due.filter(each => each !== next)
      next.run()
    }
    this.time = until
  }
}

t.test('an idle connection is kept for 3.5 s and closed by 4 s, and then no timer is left', async t => {
  const clock = new HandClock()
  const upstream = upstreamDirect({ connectTimeoutMs: 5_000, connections: 8 }, clock)
  t.teardown(() => upstream.close())
  const server = await rawServer(t, socket => socket.write(OK))
  await send(upstream, server.target).over
  clock.move(3_400)
  await send(upstream, server.target).over
  clock.move(3_400)
  await send(upstream, server.target).over
  t.equal(server.sockets.length, 1)
  clock.move(4_000)
  await server.closed(0)
  clock.move(500)
  t.equal(clock.pending, 0)
  await send(upstream, server.target).over
  t.equal(server.sockets.length, 2)
})

t.test('an upstream that keeps idle connections for 2 s only is believed', async t => {
  const clock = new HandClock()
  const upstream = upstreamDirect({ connectTimeoutMs: 5_000, connections: 8 }, clock)
  t.teardown(() => upstream.close())
  const server = await rawServer(t, socket =>
    socket.write('HTTP/1.1 200 OK\r\nKeep-Alive: timeout=2, max=9\r\nContent-Length: 0\r\n\r\n')
  )
  await send(upstream, server.target).over
  clock.move(1_000)
  await server.closed(0)
})

t.test('a connection that was found closed takes the other idle ones with it', async t => {
  const upstream = upstreamDirect({ connectTimeoutMs: 5_000, connections: 8 })
  t.teardown(() => upstream.close())
  const server = await rawServer(
    t,
    (socket, head) => void (head.includes('/dies') ? socket.destroy() : socket.write(OK))
  )
  await Promise.all([1, 2, 3].map(() => send(upstream, server.target).over))
  t.equal(server.sockets.length, 3)
  t.equal((await send(upstream, server.target, { path: '/dies' }).over).failed?.retry, 'unanswered')
  await Promise.all([0, 1, 2].map(i => server.closed(i)))
})

t.test('requests beyond the bound of the queue are refused at once', async t => {
  const upstream = upstreamDirect({ connectTimeoutMs: 5_000, connections: 1 })
  t.teardown(() => upstream.close())
  const server = await rawServer(t, () => {})
  const waiting = Array.from({ length: 10_000 }, () => send(upstream, server.target))
  const heard = await send(upstream, server.target).over
  t.equal(heard.failed?.code, 'connect')
  t.equal(heard.failed?.retry, 'no')
  for (const each of waiting) each.flight!.abort()
})

t.test('framing among the header fields, and a method of two lines, are refused', async t => {
  const upstream = upstreamDirect({ connectTimeoutMs: 5_000, connections: 1 })
  t.teardown(() => upstream.close())
  const server = await rawServer(t, socket => socket.write(OK))
  const refused = [
    { pairs: ['Host', 'h', 'Content-length', '3'] },
    { pairs: ['Host', 'h', 'transfer-encoding', 'chunked'] },
    { method: 'GET / HTTP/1.1\r\n\r\nGET' },
    { method: '' },
    { path: '' },
    { pairs: ['Host', 'h', 'X:', 'y'] },
    { pairs: ['Host', 'h', '', 'y'] }
  ]
  for (const request of refused) {
    const heard = await send(upstream, server.target, request).over
    t.equal(heard.failed?.code, 'garbage', JSON.stringify(request))
    t.equal(heard.failed?.retry, 'no')
  }
  t.equal(server.sockets.length, 0)
})

t.test('a flight that was aborted before it could be refused hears nothing', async t => {
  const upstream = upstreamDirect({ connectTimeoutMs: 5_000, connections: 1 })
  await upstream.close()
  const server = await rawServer(t, socket => socket.write(OK))
  const aborted = send(upstream, server.target)
  aborted.flight!.abort()
  t.ok((await send(upstream, server.target).over).failed, 'nothing is sent after the close')
  t.equal(aborted.failed, null)
})

t.test('a listener that throws gets a fault, and the process goes on', async t => {
  const upstream = upstreamDirect({ connectTimeoutMs: 5_000, connections: 1 })
  t.teardown(() => upstream.close())
  const server = await rawServer(t, socket => socket.write(OK))
  const heard = send(upstream, server.target)
  heard.takes = () => {
    throw new Error('of the listener')
  }
  t.match((await heard.over).failed, { code: 'garbage', cause: { message: 'of the listener' } })
  t.equal((await send(upstream, server.target).over).body, 'ok')
})
