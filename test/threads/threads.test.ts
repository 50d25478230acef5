import { once } from 'node:events'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { api, gateway, rights, SECRET, type TestGateway, withKey } from '../helpers/gateway.ts'
import { sse, streamApi, streamsOn, until, webSocket } from '../helpers/streamClients.ts'
import { upstream } from '../helpers/upstream.ts'

t.setTimeout(120_000)

interface Connection {
  /** On one connection that stays open. */
  get(path: string, headers?: Record<string, string>): Promise<number>
  close(): void
}

/** Connections that stay open: each belongs to the thread that took it. */
function connections(t: { teardown(run: () => void): void }, gw: { url: string }, count: number): Connection[] {
  return Array.from({ length: count }, () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    t.teardown(() => agent.destroy())
    return {
      async get(path, headers = {}) {
        const call = request(gw.url + path, { agent, headers }).end()
        const [answer] = (await once(call, 'response')) as [IncomingMessage]
        answer.resume()
        await once(answer, 'end')
        return answer.statusCode!
      },
      close: () => agent.destroy()
    }
  })
}

/** Bytes of a connection until its end. */
async function raw(gw: { url: string }, text: string): Promise<string> {
  const { hostname, port } = new URL(gw.url)
  const socket = connect(Number(port), hostname)
  socket.setEncoding('latin1')
  let got = ''
  socket.on('data', chunk => {
    got += chunk
  })
  socket.on('error', () => {})
  socket.write(text, 'latin1')
  await once(socket, 'close')
  return got
}

const memory = { addresses: ['memory://threads'] }
const folder = t.testdir({ apis: { 'filed.json': JSON.stringify(api('filed', 'svc://echo')) } })
const filed = join(folder, 'apis', 'filed.json')
const accessLog = join(folder, 'access.log')
const on = streamsOn()
const gw: TestGateway = await gateway(t, {
  settings: {
    ...on,
    gateway: {
      ...on.gateway,
      workers: 2,
      app_path: join(folder, 'apis'),
      trusted_proxies: ['127.0.0.0/8'],
      graceful_shutdown_timeout_duration: 20,
      access_logs: { enabled: true, path: accessLog }
    }
  },
  apis: [
    api('open', 'svc://echo'),
    api('closed', 'svc://echo', { server: withKey }),
    streamApi('feed', {
      in: { input: { http_server: { path: '/in' } }, output: { kafka: { ...memory, topic: 'round' } } },
      out: {
        input: { kafka: { ...memory, topics: ['round'], consumer_group: 'round' } },
        output: { http_server: { path: '/poll', stream_path: '/sse', ws_path: '/ws' } }
      }
    })
  ]
})

/** Threads that logged the event, by their numbers. */
function threadsWith(event: string, path: string): unknown[] {
  const lines = gw.log.lines.filter(line => line.event === event && line.path === path)
  return [...new Set(lines.map(({ thread }) => thread))].sort()
}

t.test('requests reach all threads, whose log lines tell which one it was', async t => {
  for (const { get } of connections(t, gw, 64)) t.equal(await get('/closed/spread', { Authorization: 'nobody' }), 403)
  await until(() => threadsWith('AuthFailure', '/closed/spread').length === 2, 'both threads have logged')
  t.same(threadsWith('AuthFailure', '/closed/spread'), [1, 2])
})

t.test('what a call of the management writes counts on every thread once the call is answered', async t => {
  const all = connections(t, gw, 64)
  const everywhere = (path: string, headers?: Record<string, string>) =>
    Promise.all(all.map(({ get }) => get(path, headers))).then(statuses => [...new Set(statuses)])
  for (let round = 0; round < 5; round++) {
    t.same(await everywhere('/written/'), [404])
    await gw.svc('POST', '/svc/apis/oas', api('written', 'svc://echo', { server: withKey }))
    t.same(await everywhere('/written/'), [401])
    const key = await gw.key(rights('written'))
    const headers = { Authorization: key }
    t.same(await everywhere('/written/', headers), [200])
    await gw.svc('PUT', `/svc/keys/${key}`, rights('closed'))
    t.same(await everywhere('/written/', headers), [403])
    await gw.svc('PUT', `/svc/keys/${key}`, rights('written'))
    t.same(await everywhere('/written/', headers), [200])
    await gw.svc('DELETE', `/svc/keys/${key}`)
    t.same(await everywhere('/written/', headers), [403])
    await gw.svc('DELETE', '/svc/apis/oas/written')
  }
})

t.test('limits are exact over all threads', async t => {
  const all = connections(t, gw, 32)
  /** How many of a flood pass. */
  const passing = async (key: string) => {
    const flood = all.map(async ({ get }) => {
      let passed = 0
      for (let i = 0; i < 10; i++) if ((await get('/closed/', { Authorization: key })) === 200) passed++
      return passed
    })
    return (await Promise.all(flood)).reduce((sum, each) => sum + each)
  }
  t.equal(await passing(await gw.key({ ...rights('closed'), rate: 100, per: 1000 })), 100)
  const quota = { ...rights('closed'), quota_max: 70, quota_renewal_rate: 3600 }
  const key = await gw.key(quota)
  t.equal(await passing(key), 70)
  const { hash } = (await gw.svc('GET', `/svc/keys/${key}`)).body
  t.equal(hash, undefined)
  await gw.svc('PUT', `/svc/keys/${key}`, quota)
  t.equal(await passing(key), 70, 'a written key begins anew')
})

t.test('a message of a group goes to one client after the other, whichever threads they are at', async t => {
  const clients = await Promise.all(Array.from({ length: 6 }, () => sse(t, gw, '/feed/sse')))
  const sockets = await Promise.all(Array.from({ length: 6 }, () => webSocket(t, gw, '/feed/ws')))
  const count = () => [...clients.map(({ events }) => events.length), ...sockets.map(({ frames }) => frames.length)]
  for (let i = 0; i < 60; i++)
    t.equal((await fetch(`${gw.url}/feed/in`, { method: 'POST', body: `m${i}` })).status, 200)
  await until(() => count().reduce((sum, each) => sum + each) === 60, 'all messages have come')
  for (const each of count()) t.ok(Math.abs(each - 5) <= 1, `${each} of 60 for one of 12`)
  for (const { socket } of sockets) socket.close(1000)
  await until(() => sockets.every(({ closed }) => closed?.code === 1000), 'the closing handshakes are through')
  for (const client of clients) client.stop()
})

t.test('what the main thread answers passes through unchanged', async t => {
  const long = 'x'.repeat(3_000_000)
  const chunked = Array.from({ length: 3 }, () => `${(1000).toString(16)}\r\n${'y'.repeat(1000)}\r\n`).join('')
  const put = (rest: string) => `PUT /svc/keys/nobody HTTP/1.1\r\nHost: a\r\nX-Svc-Authorization: ${SECRET}\r\n${rest}`
  const close = 'Connection: close\r\n'
  for (const [request, pattern] of [
    [`GET /hello HTTP/1.0\r\n\r\n`, /^HTTP\/1\.1 200 OK\r\n(?!.*chunked).*\r\n\r\n\{"status":"pass".*\}$/s],
    [`HEAD /hello HTTP/1.1\r\nHost: a\r\n${close}\r\n`, /^HTTP\/1\.1 200 OK\r\n(?=.*Content-Length: \d\d).*\r\n\r\n$/s],
    [`POST /hello HTTP/1.1\r\nHost: a\r\n${close}\r\n`, /^HTTP\/1\.1 405 .*Allow: GET, HEAD/s],
    [`GET /svc/nothing HTTP/1.1\r\nHost: a\r\n${close}\r\n`, /^HTTP\/1\.1 (403|404) /],
    [put(`${close}Content-Length: 5\r\n\r\n{"a":`), /^HTTP\/1\.1 400 .*JSON/s],
    [
      put(`${close}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}`),
      /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 404 /
    ],
    [put(`${close}Transfer-Encoding: chunked\r\n\r\n${chunked}0\r\nTrailer: x\r\n\r\n`), /^HTTP\/1\.1 400 /],
    [put(`${close}Content-Length: ${long.length}\r\n\r\n${long}`), /^HTTP\/1\.1 400 /],
    [put(`Content-Length: 90000000\r\n\r\n{`), /^HTTP\/1\.1 413 .*Connection: close/s],
    [
      `GET /open/1 HTTP/1.1\r\nHost: a\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\nGET /open/2 HTTP/1.1\r\nHost: a\r\n${close}\r\n`,
      /"path": "\/1".*"status":"pass".*"path": "\/2"/s
    ],
    [
      `GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /svc/nothing HTTP/1.0\r\n\r\n`,
      /^HTTP\/1\.1 200 .*Connection: keep-alive.*HTTP\/1\.1 40[34] .*Connection: close/s
    ],
    [
      `GET /feed/ws HTTP/1.1\r\nHost: a\r\n${close}\r\n`,
      /^HTTP\/1\.1 426 (?=.*Upgrade: websocket\r\n)(?=.*Connection: Upgrade(, close)?\r\n)/s
    ]
  ] as const)
    t.match(await raw(gw, request), pattern, request.slice(0, 100))
})

t.test('nobody but the threads may say who a client is', async t => {
  const { keys, ...headers } = { keys: '', 'x-svc-relay': `${'0'.repeat(64)} 1.1 1 0 192.0.2.1` }
  t.equal(keys, '')
  t.equal((await gw.get('/hello', headers)).status, 200)
  const { headers: seen } = (await (await gw.get('/open/', headers)).json()) as { headers: Record<string, string> }
  t.equal(seen['x-svc-relay'], headers['x-svc-relay'], 'to others it is a header like any')
  const names = readFileSync('/proc/net/unix', 'utf8').match(/@svc-[0-9a-f]{24}$/gm) ?? []
  t.ok(names.length > 0)
  for (const name of new Set(names)) {
    for (const line of [`GET /hello HTTP/1.1\r\nX-Svc-Relay: ${headers['x-svc-relay']}`, 'NONSENSE']) {
      const socket = connect(`\0${name.slice(1)}`)
      let got = ''
      socket.on('data', chunk => {
        got += chunk
      })
      socket.on('error', () => {})
      socket.write(`${line}\r\nHost: a\r\n\r\n`)
      await once(socket, 'close')
      t.equal(got, '')
    }
  }
})

t.test('requests of all threads stand in one access log, whole lines, relayed ones once', async t => {
  const all = connections(t, gw, 16)
  const told = { 'X-Forwarded-For': '198.51.100.7' }
  await Promise.all(
    all.map(async ({ get }, i) => {
      for (let n = 0; n < 20; n++) await get(`/open/logged/${i}/${n}`, told)
      await get(`/feed/none/${i}`, told)
      await get('/hello', told)
    })
  )
  const lines = () =>
    readFileSync(accessLog, 'utf8')
      .split('\n')
      .slice(0, -1)
      .map(line => JSON.parse(line))
      .filter(({ client }) => client === '198.51.100.7')
  await until(() => lines().length >= 16 * 21, 'all lines are there')
  t.equal(lines().length, 16 * 21)
  t.equal(new Set(lines().map(({ path }) => path)).size, 16 * 21)
  t.same([...new Set(lines().map(({ api_id, status }) => `${api_id} ${status}`))].sort(), ['feed 404', 'open 200'])
})

t.test('a reload reaches all threads, whoever asks for it, and one with a fault none', async t => {
  const all = connections(t, gw, 32)
  const statuses = (path: string) => Promise.all(all.map(({ get }) => get(path))).then(each => [...new Set(each)])
  const asked = (url: string | null, headers: Record<string, string>) => async () =>
    (await fetch(url!, { headers })).ok ? 0 : 1
  const own = { 'X-Svc-Authorization': SECRET }
  const ways: [string, () => Promise<number>][] = [
    ['a signal', async () => (await gw.reload()).length],
    ['/svc/reload', asked(`${gw.url}/svc/reload`, own)],
    ['/svc/reload/group', asked(`${gw.url}/svc/reload/group`, own)],
    ['/admin/system/reload', asked(`${gw.managementUrl}/admin/system/reload`, { 'Admin-Auth': SECRET })]
  ]
  let present = '/filed/'
  for (const [i, [way, reload]] of ways.entries()) {
    writeFileSync(filed, '{')
    t.not(await reload(), 0, way)
    t.same(await statuses(present), [200], way)
    writeFileSync(
      filed,
      JSON.stringify(api('filed', 'svc://echo', { server: { listenPath: { value: `/moved${i}/`, strip: true } } }))
    )
    t.same(await Promise.all([reload(), reload(), reload()]), [0, 0, 0], way)
    t.same(await statuses(present), [404], way)
    present = `/moved${i}/`
    t.same(await statuses(present), [200], way)
  }
})

t.test('a client that leaves is gone in the main thread too', async () => {
  const { hostname, port } = new URL(gw.url)
  const polls = async () =>
    (await gw.svc('GET', '/svc/streams')).body.streams.find((row: any) => row.stream === 'out').clients.poll
  const socket = connect(Number(port), hostname)
  socket.write('GET /feed/poll HTTP/1.1\r\nHost: a\r\n\r\n')
  await until(async () => (await polls()) === 1, 'the poll waits')
  socket.destroy()
  await until(async () => (await polls()) === 0, 'the poll has ended')
})

t.test('nobody shares the port by accident', async t => {
  const port = Number(new URL(gw.url).port)
  for (const workers of [1, 2])
    await t.rejects(
      gateway(t, { settings: { gateway: { workers, listen_port: port } } }),
      /EADDRINUSE.*\(gateway\.listen_port\)/,
      `workers ${workers}`
    )
})

t.test('while one thread is dead the others serve; it comes again with the state of all others', async t => {
  const { threads } = gw
  const [first] = threads!.workers
  const key = await gw.key(rights('closed'))
  const headers = { Authorization: key }
  // Read by nobody: only a reload makes it count, and this one has a fault besides.
  writeFileSync(filed, '{')
  writeFileSync(join(folder, 'apis', 'unread.json'), JSON.stringify(api('unread', 'svc://echo')))
  await first!.terminate()
  for (let i = 0; i < 20; i++)
    for (const { get, close } of connections(t, gw, 4)) {
      t.equal(await get('/closed/', headers), 200)
      close()
    }
  await gw.svc('DELETE', `/svc/keys/${key}`)
  // While it starts.
  writeFileSync(filed, JSON.stringify(api('filed', 'svc://echo')))
  rmSync(join(folder, 'apis', 'unread.json'))
  t.same(await gw.reload(), [])
  writeFileSync(filed, '{')
  await until(() => threads!.running === 2, 'it serves again')
  const { status, body } = await gw.svc('GET', '/hello')
  t.match([status, body.details.threads.status], [200, 'pass'])
  for (const { get } of connections(t, gw, 64)) {
    t.equal(await get('/closed/again', headers), 403)
    t.equal(await get('/filed/'), 200)
    t.equal(await get('/moved3/'), 404)
    t.equal(await get('/unread/'), 404)
  }
  await until(() => threadsWith('AuthFailure', '/closed/again').length === 2, 'both threads have logged')
})

t.test(
  'upstream answers stream through threads; what is under way, and what they relay, ends before they do',
  async t => {
    let finish = () => {}
    const up = await upstream(t, (_req, res) => {
      res.write('begun ')
      finish = () => res.end('finished')
    })
    await gw.svc('POST', '/svc/apis/oas', api('slow', up.url))
    const answer = await gw.get('/slow/')
    const statuses: number[] = []
    const posts = Array.from({ length: 16 }, async () => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      try {
        for (;;) {
          const call = request(`${gw.url}/feed/in`, { method: 'POST', agent }).end('late')
          const [answer] = (await once(call, 'response')) as [IncomingMessage]
          answer.resume()
          await once(answer, 'end')
          statuses.push(answer.statusCode!)
          if (answer.headers.connection === 'close') return
        }
      } catch {
        // Its connection was idle when it ended.
      } finally {
        agent.destroy()
      }
    })
    await until(() => statuses.length > 100, 'all post')
    const stopped = gw.stop()
    await Promise.all(posts)
    t.same([...new Set(statuses)], [200])
    await until(
      () =>
        fetch(`${gw.url}/hello`).then(
          () => false,
          () => true
        ),
      'nobody listens'
    )
    finish()
    t.equal(await answer.text(), 'begun finished')
    await stopped
    t.equal(gw.threads!.workers.length, 0)
  }
)
