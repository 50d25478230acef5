import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import t from 'tap'
import type { CountersFailure } from '../../config/shape/limit.ts'
import { systemClock } from '../../config/world.ts'
import { asked, type Charge } from '../../gateway/counters/counters.ts'
import { countersMemory } from '../../gateway/counters/countersMemory.ts'
import { countersRedis } from '../../gateway/counters/redis/countersRedis.ts'
import { countersShared } from '../../gateway/counters/shared/countersShared.ts'
import { openRedis } from '../../gateway/redis/openRedis.ts'
import { quota, rate } from '../contract/counters.ts'
import { collectedLog } from '../helpers/gateway.ts'
import { redisServer } from '../helpers/redis.ts'

const redis = await redisServer(t)
const log = collectedLog()
const clock = systemClock

interface Begun {
  readonly url?: string
  readonly budgetMs?: number
  readonly failure?: CountersFailure
  readonly status?: (failure: string | null) => void
}

// A machine that is busy with other tests answers late.
async function begin({ url = redis.url, budgetMs = 5_000, failure = 'refuse', status = () => {} }: Begun = {}) {
  const nodes: string[] = []
  const settings = { type: 'redis', url, nodes, ca_file: '', key_prefix: 'svc', max_entries: 1024 } as const
  const link = await openRedis(settings, { clock, log })
  const remote = countersRedis({ link, clock, log, random: { bytes: randomBytes }, ledger: () => null })
  const counters = countersShared({
    ...{ remote, clock, log, local: countersMemory({ clock, maxEntries: 1024 }), status },
    settings: { counters_timeout_ms: budgetMs, counters_failure: failure }
  })
  let closed: Promise<void> | null = null
  const close = () => {
    closed ??= counters
      .close()
      .then(() => remote.close())
      .then(() => link.close())
    return closed
  }
  t.teardown(close)
  return { counters, close }
}

for (const mode of ['exact', 'lease'] as const)
  t.test(`${mode}: three processes let through what they say`, async t => {
    const [n, largest] = [400, 20]
    const three = [await begin(), await begin(), await begin()]
    for (const algorithm of ['bucket', 'sliding_log', 'quota'] as const) {
      const plain = algorithm === 'quota' ? quota(n, 3_600, mode) : rate({ id: mode, algorithm, rate: n, per: 3_600 })
      const limit = asked(plain, mode, 'refuse')
      await redis.cli('CONFIG', 'RESETSTAT')
      let passed = 0
      const demand = three.map(async ({ counters }) => {
        for (let i = 0; i < 60; i++) {
          const verdicts = await Promise.all(Array.from({ length: 10 }, () => counters.charge([limit])))
          passed += verdicts.filter(({ refused }) => refused < 0).length
        }
      })
      await Promise.all(demand)
      const calls = (await redis.calls()).evalsha ?? 0
      if (mode === 'exact') t.equal(passed, n, `${algorithm}: exactly ${n}`)
      else {
        t.ok(passed <= n && passed >= n - 2 * largest, `${algorithm}: ${passed} passed`)
        t.ok(calls <= 180, `${algorithm}: ${calls} calls for 1800 requests`)
      }
    }
  })

t.test('what a process has taken and not spent goes back when it stops', async t => {
  const limit = asked(quota(1_000, 3_600, 'returned'), 'lease', 'refuse')
  const [one, other] = [await begin(), await begin()]
  for (let i = 0; i < 100; i++) await one.counters.charge([limit])
  await one.close()
  const { standings } = await other.counters.look([limit])
  t.equal(standings[0]!.remaining, 900)
})

/** A way to Redis that can be cut. */
async function way() {
  const sockets = new Set<Socket>()
  let isOpen = true
  const server = createServer(client => {
    if (!isOpen) return void client.resetAndDestroy()
    const upstream = connect(redis.port, '127.0.0.1')
    for (const [one, other] of [
      [client, upstream],
      [upstream, client]
    ] as const) {
      sockets.add(one)
      one.setNoDelay()
      one.on('error', () => {})
      one.on('close', () => other.destroy())
      one.pipe(other)
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const cut = () => {
    isOpen = false
    for (const socket of sockets) socket.destroy()
    sockets.clear()
  }
  t.teardown(() => {
    cut()
    server.close()
  })
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut,
    mend() {
      isOpen = true
    }
  }
}

async function until(what: string, done: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + 10_000
  while (!(await done())) {
    if (Date.now() > end) throw new Error(`${what}: not within ten seconds`)
    await soon(5)
  }
}

const soon = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))
const listeners = async () => Number((await redis.cli('PUBSUB', 'NUMSUB', 'svc:forgotten'))[1])

t.test('a lost connection costs no lease, and none of a counter that was cleared meanwhile is spent', async t => {
  const [n, lead] = [1_000, 70]
  const { url, cut, mend } = await way()
  let failure: string | null = null
  const status = (told: string | null) => {
    failure = told
  }
  const { counters } = await begin({ url, status })
  const { counters: other } = await begin()
  const limits = (name: string): Charge[] =>
    [
      quota(n, 3_600, `${name} quota`),
      quota(n, 0, `${name} for ever`),
      ...(['bucket', 'fixed_window'] as const).map(algorithm =>
        rate({ id: `${name} ${algorithm}`, algorithm, rate: n, per: 1e6 })
      )
    ].map(limit => asked(limit, 'lease', 'refuse'))
  const [kept, cleared] = [limits('kept'), limits('cleared')]
  const passed = new Map<Charge, number>()
  const charge = async (limit: Charge, most: number) => {
    for (let i = 0; i < most && (await counters.charge([limit])).refused < 0; i++)
      passed.set(limit, (passed.get(limit) ?? 0) + 1)
  }
  await until('they listen', async () => (await listeners()) >= 2)
  const before = await listeners()
  for (let round = 0; round < 5; round++) {
    for (const limit of round < 4 ? kept : [...kept, ...cleared]) await charge(limit, lead)
    cut()
    await until('it is noticed', () => failure !== null)
    await until('it hears nothing', async () => (await listeners()) < before)
    if (round === 4) {
      await other.forget(cleared.map(({ id }) => id))
      for (const limit of cleared) passed.delete(limit)
    }
    mend()
    await until('it is back', async () => failure === null && (await listeners()) === before)
    await soon(100)
  }
  for (const limit of [...kept, ...cleared]) {
    await charge(limit, 2 * n)
    t.equal(passed.get(limit), n, limit.id)
  }
})

t.test('when more was cleared than is kept, or Redis comes back empty, leases are let go', async t => {
  const { url, cut, mend } = await way()
  let failure: string | null = null
  const status = (told: string | null) => {
    failure = told
  }
  const { counters } = await begin({ url, status })
  const { counters: other } = await begin()
  const limit = asked(quota(1_000, 0, 'let go'), 'lease', 'refuse')
  const clearMany = async () => {
    for (let i = 0; i < 300; i++) await other.forget([`quota-many ${i}`])
  }
  for (const lose of [clearMany, () => redis.cli('FLUSHALL')]) {
    for (let i = 0; i < 70; i++) await counters.charge([limit])
    t.notOk(counters.charge([limit]) instanceof Promise, 'a lease is in hand')
    const before = await listeners()
    cut()
    await until('it is noticed', () => failure !== null)
    await lose()
    mend()
    await until('it is back', async () => failure === null && (await listeners()) === before)
    await soon(100)
    const asked = counters.charge([limit])
    t.ok(asked instanceof Promise, 'Redis is asked')
    t.equal((await asked).refused, -1)
  }
})

t.test('a take that is answered too late counts once', async t => {
  const { counters } = await begin({ budgetMs: 50, failure: 'local' })
  let number = 0
  for (const kind of ['quota', 'rate'] as const)
    for (const [n, waiting] of [
      [40, 1],
      [40, 1],
      [400, 15],
      [400, 15]
    ] as const) {
      const id = `late ${++number}`
      const limit = asked(kind === 'quota' ? quota(n, 3_600, id) : rate({ id, rate: n, per: 1e6 }), 'lease', 'local')
      let passed = 0
      const charge = async () => {
        const { refused } = await counters.charge([limit])
        if (refused < 0) passed++
        return refused < 0
      }
      redis.pause()
      const first = Array.from({ length: waiting }, charge)
      await soon(62)
      redis.resume()
      await Promise.all(first)
      await soon(400)
      for (let more = 0; more < 2 * n && (await charge()); more++);
      // What was added to Redis just before the answer is there twice.
      t.ok(passed <= n && passed >= n - waiting, `${limit.id}: ${passed} of ${n}`)
    }
})
