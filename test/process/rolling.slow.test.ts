import { Agent, request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { api, rights, withKey } from '../helpers/gateway.ts'
import { haproxy } from '../helpers/haproxy.ts'
import { freePorts } from '../helpers/kafkaFiles.ts'
import { postgres } from '../helpers/postgres.ts'
import { type Launched, launch, settings } from '../helpers/process.ts'
import { redisServer } from '../helpers/redis.ts'
import { upstream } from '../helpers/upstream.ts'

t.setTimeout(120_000)

/** Longer than HAProxy's checks need to see that `/ready` answers 503. */
const DELAY_S = 2
const CLIENTS = 8
/** Redis is here and well, however busy this machine is: each request is counted there. */
const PATIENT_MS = 10_000

interface Sent {
  /** Requests that were answered, by `METHOD status`; without an answer, by `METHOD code-of-the-error`. */
  readonly outcomes: Record<string, number>
  /** Answers after which the client's connection had to close. */
  closed: number
}

/** Clients that each send one request after the other on a connection of their own, GET and POST in turns, until told to stop. */
function load(t: Test, url: string, key: string): { sent: Sent; stop: () => Promise<void> } {
  const sent: Sent = { outcomes: {}, closed: 0 }
  let going = true
  let number = 0
  const agents = Array.from({ length: CLIENTS }, () => new Agent({ keepAlive: true, maxSockets: 1 }))
  t.teardown(() => {
    going = false
    for (const agent of agents) agent.destroy()
  })
  const one = (agent: Agent, method: string) =>
    new Promise<void>(resolve => {
      const end = (outcome: string) => {
        sent.outcomes[outcome] = (sent.outcomes[outcome] ?? 0) + 1
        resolve()
      }
      const req = request(`${url}/up/${++number}`, { method, agent, headers: { Authorization: key } }, res => {
        if (res.headers.connection === 'close') sent.closed++
        res.on('error', cause => end(`${method} broken off: ${cause.message}`))
        res.on('end', () => end(`${method} ${res.statusCode}`))
        res.resume()
      })
      req.on('error', (cause: NodeJS.ErrnoException) => end(`${method} ${cause.code}`))
      req.end(method === 'POST' ? '{"order":7}' : '')
    })
  const clients = agents.map(async agent => {
    for (let i = 0; going; i++) {
      await one(agent, i % 2 === 0 ? 'GET' : 'POST')
      await pause(2)
    }
  })
  const stop = async () => {
    going = false
    await Promise.all(clients)
  }
  return { sent, stop }
}

const names = ['gateway-1', 'gateway-2'] as const
const ports = (await freePorts(4)) as [number, number, number, number]
const [database, redis, up] = await Promise.all([
  postgres(t, { version: 17 }),
  redisServer(t),
  // Long enough that requests are under way whenever a gateway is told to stop.
  upstream(t, (req, res) => {
    req.resume()
    req.on('end', () => setTimeout(() => res.end('done'), 10))
  })
])
const start = (i: 0 | 1): Launched =>
  launch(t, {
    settings: settings(
      { listen_port: ports[i], graceful_shutdown_delay_seconds: DELAY_S, counters_timeout_ms: PATIENT_MS },
      { storage: { documents: { type: 'postgres', url: database.url }, counters: { type: 'redis', url: redis.url } } }
    ),
    env: { SVC_MANAGEMENT__LISTEN_PORT: String(ports[2 + i]), SVC_GATEWAY__ACCESS_LOGS__ENABLED: 'false' }
  })
const running = [start(0), start(1)]
await Promise.all(running.map(each => each.ready))
const front = await haproxy(t, { gateways: [ports[0], ports[1]], managements: [ports[2], ports[3]] })
await running[0]!.svc('POST', '/svc/apis/oas', api('up', up.url, { server: withKey }))
const QUOTA = 1_000_000
const limits = { rate: QUOTA, per: 60, quota_max: QUOTA, quota_renewal_rate: 3600 }
const { key } = (await running[0]!.svc('POST', '/svc/keys/create', { ...limits, ...rights('up') })).body
const call = (url: string, path = '') => fetch(`${url}/up/${path}`, { headers: { Authorization: key } })
for (const { ready } of running) while ((await call(await ready)).status !== 200) await pause(20)
const remaining = async () => (await running[1]!.svc('GET', `/svc/keys/${key}`)).body.quota_remaining
for (const name of names) await front.until(name, 'UP')

/** Requests that reached the upstream more than once, by method. */
function repeated(): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const [{ method }, ...again] of Map.groupBy(up.requests, ({ url }) => url).values() as Iterable<any[]>)
    if (again.length > 0) counts[method] = (counts[method] ?? 0) + 1
  return counts
}

t.test('both restarted in turn under load: no request fails, and none reaches the upstream twice', async t => {
  up.requests.length = 0
  const before = await remaining()
  const { sent, stop } = load(t, front.url, key)
  for (const i of [0, 1] as const) {
    const old = running[i]!
    old.child.kill('SIGTERM')
    await front.until(names[i], 'DOWN')
    const last = await call(await old.ready, `last-${i}`)
    t.equal(last.status, 200, 'it still serves when the load balancer has noticed')
    t.equal(last.headers.get('connection'), 'close')
    t.equal(await old.ended, 0)
    running[i] = start(i)
    await running[i]!.ready
    await front.until(names[i], 'UP')
  }
  await stop()
  t.same(Object.keys(sent.outcomes).sort(), ['GET 200', 'POST 200'], JSON.stringify(sent.outcomes))
  t.ok(sent.outcomes['POST 200']! > 100)
  t.same(repeated(), {})
  t.equal(up.requests.length, sent.outcomes['GET 200']! + sent.outcomes['POST 200']! + 2)
  t.equal(before - (await remaining()), up.requests.length, 'each was counted once')
  t.equal(sent.closed, 0, 'clients keep their connections')
})

t.test('one killed under load: reading requests do not fail, and no POST is repeated', async t => {
  up.requests.length = 0
  const { sent, stop } = load(t, front.url, key)
  while (up.requests.length < 100) await pause(5)
  running[0]!.child.kill('SIGKILL')
  await front.until('gateway-1', 'DOWN')
  await stop()
  // On a connection that was used before, HAProxy closes the client's instead of answering 502.
  const {
    'GET 200': read,
    'POST 200': written,
    'POST 502': bad = 0,
    'POST ECONNRESET': cut = 0,
    ...rest
  } = sent.outcomes
  t.same(rest, {})
  t.ok(read! > 0 && written! > 0)
  t.ok(bad + cut <= CLIENTS, `${bad + cut} were under way in the process`)
  t.notOk(repeated().POST)
})
