import t from 'tap'
import { systemClock } from '../../config/world.ts'
import type { Algorithm } from '../../gateway/counters/counters.ts'
import { countersOf } from '../../gateway/counters/redis/countersOf.ts'
import { countersRedis } from '../../gateway/counters/redis/countersRedis.ts'
import { keysOf } from '../../gateway/counters/redis/plan.ts'
import type { RedisLink } from '../../gateway/redis/redis.ts'
import { countersContract, quota, rate } from '../contract/counters.ts'
import { hammer } from '../helpers/countersProcess.ts'
import { redisCluster, redisServer } from '../helpers/redis.ts'
import { quietLog, redisLink } from '../helpers/redisLink.ts'

const server = await redisServer(t)
const cluster = await redisCluster(t)
const link = await redisLink(t, { nodes: [...cluster.urls] })
const algorithms: readonly Algorithm[] = ['bucket', 'fixed_window', 'sliding_log']

let made = 0

function counters(moment?: () => number) {
  const own: RedisLink = { ...link, prefix: `p${made++}`, isConnected: true }
  const remote = countersRedis({
    link: own,
    clock: systemClock,
    log: quietLog,
    ledger: () => null,
    ...(moment && { moment })
  })
  return { remote, prefix: own.prefix }
}

t.test('on a cluster', async t => {
  countersContract(t, clock => countersOf(counters(() => clock.now()).remote), { runs: 10 })
})

t.test('four processes let exactly N through, whatever their clocks say', async t => {
  const smoothing = { threshold: 700, trigger: 0.1, step: 10, delay: 3600 }
  const per = 3600
  const limits = [
    ...algorithms.map(algorithm => rate({ id: algorithm, algorithm, rate: 1000, per })),
    quota(1000, per),
    rate({ id: 'smooth', rate: 1000, per, smoothing })
  ]
  const rounds = limits.map(limit => [limit])
  const processes = await hammer(
    t,
    [0, 3_600_000, -3_600_000, 0].map(skewMs => ({ url: server.url, rounds, charges: 500, atOnce: 20, skewMs }))
  )
  for (const [i, { id }] of limits.entries()) {
    const results = processes.map(rounds => rounds[i]!)
    const passing = id === 'rate-smooth' ? 700 : 1000
    t.equal(
      results.reduce((all, { passed }) => all + passed, 0),
      passing,
      id
    )
    t.equal(
      results.reduce((all, { refused }) => all + refused[0]!, 0),
      2000 - passing
    )
    for (const { last } of results) {
      if (last === null) continue
      const wait = last.standing.reset - last.now
      t.ok(wait > 0 && wait <= per * 1000, `${wait} ms to wait, by the clock of Redis`)
      t.ok(Math.abs(last.now - Date.now()) < 60_000)
    }
  }
})

t.test("what the API's limit refuses in another slot costs the key nothing", async t => {
  const { remote } = counters(() => 1_767_225_600_000)
  for (const algorithm of algorithms) {
    const key = rate({ id: `k ${algorithm}`, algorithm, rate: 5 })
    const period = quota(5, 60, `k ${algorithm}`)
    const api = { ...rate({ id: 'x', algorithm, rate: 2 }), id: `api-rate-${algorithm}` }
    const all = [key, period, rateOfApi(algorithm)]
    t.not(await cluster.slotOf(keysOf('p', key.id)[0]), await cluster.slotOf(keysOf('p', api.id)[0]))
    for (let i = 0; i < 2; i++) t.equal((await remote.charge(all, 1, null)).refused, -1)
    const { refused, standings, taken } = await remote.charge(all, 1, null)
    t.equal(refused, 2)
    t.same(taken, [0, 0, 0])
    t.same(
      standings.map(({ remaining }) => remaining),
      [3, 3, 0]
    )
    const { standings: left } = await remote.look([key, period])
    t.same(
      left.map(({ remaining }) => remaining),
      [3, 3]
    )
  }
})

function rateOfApi(algorithm: Algorithm) {
  return rate({ id: `of the API ${algorithm}`, algorithm, rate: 2 })
}

t.test('slots that move under load lose nothing and count nothing twice', async t => {
  const { remote, prefix } = counters()
  const limits = algorithms.map(algorithm => rate({ id: algorithm, algorithm, rate: 1_000_000, per: 3600 }))
  const passed = limits.map(() => 0)
  let failed = 0
  let isOver = false
  const load = limits.flatMap((limit, i) =>
    Array.from({ length: 4 }, async () => {
      while (!isOver) {
        const count = await remote.charge([limit, quota(1_000_000, 3600, limit.id.slice(5))], 1, null).then(
          () => 1,
          () => 0
        )
        passed[i]! += count
        failed += 1 - count
        await new Promise(resolve => setImmediate(resolve))
      }
    })
  )
  for (let round = 0; round < 3; round++)
    for (const limit of limits) {
      const slot = await cluster.slotOf(keysOf(prefix, limit.id)[0])
      await cluster.moveSlot(slot, (cluster.ownerOf(slot) + 1) % 3)
    }
  isOver = true
  await Promise.all(load)
  for (const [i, limit] of limits.entries()) {
    const { standings } = await remote.look([limit])
    t.equal(1_000_000 - standings[0]!.remaining, passed[i], limit.id)
    t.ok(passed[i]! > 0)
  }
  t.equal(failed, 0)
})
