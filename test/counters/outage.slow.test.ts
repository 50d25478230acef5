import { Redis } from 'ioredis'
import t from 'tap'
import { api, gateway, rights, type TestGateway, withKey } from '../helpers/gateway.ts'
import { redisServer, type TestRedis } from '../helpers/redis.ts'

/** What a request may wait for Redis; an answer comes 50 ms later at the latest. Both are waited for twice as long. */
const BUDGET_MS = 50
const LATEST_MS = 2 * (BUDGET_MS + 50)
const OPENS_MS = 2 * 100
const BACK_MS = 2 * 2_000
const QUOTA = 10_000

const redis = await redisServer(t, { args: ['--maxmemory-policy', 'noeviction'] })
const other = await redisServer(t)
const policies = ['allow', 'refuse', 'local'] as const
const apis = policies.map(name =>
  api(name, 'svc://echo', { server: withKey, middleware: { global: { countersFailure: name } } })
)
const storage = { documents: { type: 'memory' }, counters: { type: 'redis', url: redis.url } }
const all = await gateway(t, { settings: { storage }, apis })
const strict = await gateway(t, {
  settings: {
    storage: { ...storage, counters: { ...storage.counters, key_prefix: 'strict' } },
    gateway: { counters_failure: 'refuse' }
  },
  apis: [api('plain', 'svc://echo', { server: withKey })]
})
const key = await all.key({ ...rights(...policies), rate: 5, per: 1, quota_max: QUOTA, quota_renewal_rate: 3600 })
const strictKey = await strict.key({ ...rights('plain'), rate: 1_000, per: 60 })
/** Only quotas: so that what passes is what was counted. */
const counted = await all.key({ ...rights('allow', 'local'), quota_max: QUOTA, quota_renewal_rate: 3600 })
let passed = 0
let longest = 0

async function ask(of: TestGateway, path: string, Authorization: string): Promise<number> {
  const start = performance.now()
  const answer = await of.get(path, { Authorization })
  await answer.arrayBuffer()
  longest = Math.max(longest, performance.now() - start)
  if (Authorization === counted && answer.status === 200) passed++
  return answer.status
}

async function until(what: string, ms: number, done: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + ms
  while (!(await done())) {
    if (performance.now() > end) throw new Error(`${what} took longer than ${ms} ms`)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}

const ready = async (of: TestGateway) => {
  const answer = await of.get('/ready')
  return { status: answer.status, body: (await answer.json()) as any }
}

/** Read where the key lies. */
const remaining = async () => (await all.svc('GET', `/svc/keys/${counted}`)).body.quota_remaining as number

const left = async () => {
  await ask(all, '/local/', counted)
  return (await all.get('/local/', { Authorization: counted })).headers.get('x-ratelimit-remaining')
}

/** Before: Redis decides, and the ledger knows. */
async function steady(): Promise<void> {
  for (let i = 0; i < 10; i++) await ask(all, i % 2 === 0 ? '/allow/' : '/local/', counted)
  await until('the ledger', 5_000, async () => {
    const { documents } = await all.store.list<{ count: number }>('ledger', { page: -1, size: 1 })
    return documents.some(({ body }) => body.count >= passed && body.count < QUOTA)
  })
}

interface Fault {
  readonly name: string
  readonly cause: RegExp
  begin(redis: TestRedis): Promise<unknown> | void
  end(redis: TestRedis): Promise<unknown> | void
}

const faults: readonly Fault[] = [
  { name: 'killed', cause: /connection/, begin: () => redis.kill(), end: () => redis.start() },
  { name: 'stopped where it stands', cause: /no answer/, begin: () => redis.pause(), end: () => redis.resume() },
  {
    name: 'read-only',
    cause: /READONLY|connection/,
    begin: () => redis.cli('REPLICAOF', '127.0.0.1', other.port),
    end: () => redis.cli('REPLICAOF', 'NO', 'ONE')
  },
  {
    name: 'out of memory',
    cause: /OOM/,
    begin: () => redis.cli('CONFIG', 'SET', 'maxmemory', '1'),
    end: () => redis.cli('CONFIG', 'SET', 'maxmemory', '0')
  }
]

for (const { name, cause, begin, end } of faults)
  t.test(`Redis ${name}: each policy holds, nobody waits, and quotas are right afterwards`, async t => {
    await steady()
    const before = all.log.lines.length
    await begin(redis)
    longest = 0
    // The first answers may have to find out: what is refused since it took too long is no outage yet, and is not told as one.
    await until('opening', OPENS_MS + LATEST_MS, async () => {
      const statuses = [await ask(all, '/refuse/', key), await ask(strict, '/plain/', strictKey)]
      if (statuses.some(status => status !== 503)) return false
      return (await ready(all)).body.status === 'warn' && (await ready(strict)).status === 503
    })
    const fresh = await all.key({ ...rights(...policies), rate: 3, per: 60 }).catch((fault: Error) => fault.message)
    for (let i = 0; i < 5; i++) {
      t.equal(await ask(all, '/allow/', fresh), 200)
      t.equal(await ask(all, '/refuse/', fresh), 503)
      t.equal(await ask(all, '/local/', fresh), i < 3 ? 200 : 429)
      t.equal(await ask(all, '/allow/', counted), 200)
      t.equal(await ask(all, '/local/', counted), 200)
    }
    t.match(await ready(all), { status: 200, body: { status: 'warn', details: { counters: { status: 'fail' } } } })
    t.match(await ready(strict), { status: 503, body: { message: 'Redis connection not available' } })
    t.equal(await remaining(), QUOTA - passed, 'a key can be read')
    t.ok(longest <= LATEST_MS, `${longest} ms at most`)
    await end(redis)
    await until('the return', BACK_MS, async () => (await ready(all)).body.status === 'pass')
    await until('the return', BACK_MS, async () => (await ready(strict)).status === 200)
    t.equal(await ask(all, '/refuse/', fresh), 200)
    const lost = QUOTA - passed - (await remaining())
    t.ok(lost === 0 || (lost > 0 && lost <= 2 && name.startsWith('stopped')), `${lost} counted twice`)
    t.equal(await left(), String(QUOTA - passed - 1 - lost), 'and so says Redis')
    passed += 1 + lost
    const lines = all.log.lines.slice(before).filter(({ msg }) => msg.startsWith('Redis '))
    t.match(lines, [
      { level: 'warn', cause, counters_failure: 'local' },
      { level: 'info', after_ms: Number }
    ])
    t.equal(lines.length, 2)
  })

t.test('a wrong password is an outage, and told without it', async t => {
  const client = new Redis(redis.url)
  t.teardown(() => client.disconnect())
  await client.config('SET', 'requirepass', 'a password of the tests')
  await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
  await until('opening', OPENS_MS + LATEST_MS, async () => (await ask(strict, '/plain/', strictKey)) === 503)
  t.equal(await ask(all, '/allow/', key), 200)
  await client.config('SET', 'requirepass', '')
  await until('the return', BACK_MS, async () => (await ready(strict)).status === 200)
  t.notMatch(JSON.stringify(all.log.lines), /a password of the tests/)
})
