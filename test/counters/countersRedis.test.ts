import t from 'tap'
import { systemClock } from '../../config/world.ts'
import { rateCharge } from '../../gateway/counters/charges.ts'
import type { Algorithm, Charge, CounterState } from '../../gateway/counters/counters.ts'
import { commandsUsed } from '../../gateway/counters/redis/commands.ts'
import { countersOf } from '../../gateway/counters/redis/countersOf.ts'
import { countersRedis } from '../../gateway/counters/redis/countersRedis.ts'
import { keysOf, placeOf } from '../../gateway/counters/redis/plan.ts'
import type { RedisLink } from '../../gateway/redis/redis.ts'
import { countersContract, quota, rate } from '../contract/counters.ts'
import { oldRedis, redisServer } from '../helpers/redis.ts'
import { quietLog, redisLink, until } from '../helpers/redisLink.ts'

const server = await redisServer(t)
const old = await redisServer(t, { binary: oldRedis })
const link = await redisLink(t, { url: server.url })
const oldLink = await redisLink(t, { url: old.url })
const midnight = 1_767_225_600_000
const algorithms: readonly Algorithm[] = ['bucket', 'fixed_window', 'sliding_log']

let made = 0

/** Counters of their own on a server that others use too. */
function counters(given: Partial<Parameters<typeof countersRedis>[0]> & { prefix?: string } = {}) {
  const { prefix = `p${made++}`, ...rest } = given
  const own: RedisLink = { ...(rest.link ?? link), prefix, isConnected: true }
  return {
    prefix,
    remote: countersRedis({ clock: systemClock, log: quietLog, ledger: () => null, ...rest, link: own })
  }
}

/** At a time that stands until it is set. */
function begin(given: Parameters<typeof counters>[0] = {}) {
  const clock = { time: midnight }
  const { remote, prefix } = counters({ moment: () => clock.time, ...given })
  const charge = (limits: readonly Charge[], most: readonly number[] | null = null, units = 1) =>
    remote.charge(limits, units, most)
  return { clock, remote, prefix, charge }
}

for (const [name, its, runs] of [
  ['this Redis', link, 25],
  ['Redis 6.2', oldLink, 10]
] as const)
  t.test(`on ${name}`, async t => {
    countersContract(t, clock => countersOf(counters({ link: its, moment: () => clock.now() }).remote), { runs })
  })

t.test('decides with commands that Redis 5 has, one call of a script a decision', async t => {
  const used = new Set(Object.keys(commandsUsed))
  const { charge } = begin()
  await charge([rate({}), quota(5, 60)])
  await server.cli('CONFIG', 'RESETSTAT')
  for (let i = 0; i < 20; i++) await charge([rate({ rate: 30 }), quota(50, 60), rate({ id: 'api', rate: 30 })])
  t.equal((await server.calls()).evalsha, 20)
  for (const its of [server, old])
    for (const name of Object.keys(await its.calls())) t.ok(used.has(name) || name.startsWith('config'), name)
})

t.test('keys live no longer than what they say, and end with the place of the key', async t => {
  const { remote, prefix } = counters()
  const smoothing = { threshold: 2, trigger: 0.5, step: 1, delay: 100 }
  const limits = [
    ...algorithms.map(algorithm => rate({ id: algorithm, algorithm, per: 10 })),
    ...algorithms.map(algorithm => rate({ id: `smooth ${algorithm}`, algorithm, per: 10, smoothing })),
    quota(5, 60),
    quota(5, 0, 'never')
  ]
  for (const limit of limits) await remote.charge([limit], 1, null)
  const keys: string[] = await link.commands.keys(`${prefix}:*`)
  t.equal(keys.length, limits.length + 2)
  for (const key of keys) {
    const left = await link.commands.pttl(key)
    t.ok(left > 0 && left <= 34_560_001_000, `${key}: ${left}`)
  }
  const left = async ({ id }: Charge) => link.commands.pttl(keysOf(prefix, id)[0])
  t.ok((await left(limits[0]!)) <= 11_000)
  t.ok((await left(limits[3]!)) > 190_000, 'smoothing outlives the window')
  t.ok((await left(limits[6]!)) <= 61_000)
})

t.test('all limits of a key share a place, whatever stands behind it', t => {
  for (const id of ['rate-aff0', 'quota-aff0', 'rate-aff0-scope', 'quota-aff0-scope', 'rate-aff0\nGET:/a-b'])
    t.equal(placeOf(id), 'aff0')
  t.equal(placeOf('api-rate-1'), 'api-rate-1')
  const [key] = keysOf('svc', 'rate-}{')
  t.match(key, /^svc:\{[\w-]{22}\}[\w-]{22}$/)
  t.end()
})

t.test('goes on after the server has forgotten its scripts', async t => {
  const { charge } = begin()
  const limit = rate({ rate: 1000 })
  await charge([limit])
  await server.cli('SCRIPT', 'FLUSH')
  const verdicts = await Promise.all(Array.from({ length: 50 }, () => charge([limit])))
  t.equal(Math.min(...verdicts.map(({ standings }) => standings[0]!.remaining)), 949)
})

t.test('what is of another type or unreadable begins anew, and is told once a minute', async t => {
  const told: unknown[] = []
  const { remote, prefix, charge } = begin({ log: { warn: (_, fields) => void told.push(fields) } })
  const all = [...algorithms.map(algorithm => rate({ id: algorithm, algorithm })), quota(3, 60, 'q')]
  const spoil: readonly ((key: string) => Promise<unknown>)[] = [
    key => link.commands.hset(key, 'a', 'b'),
    key => link.commands.set(key, 'nonsense'),
    key => link.commands.lpush(key, 'x')
  ]
  for (const limit of all)
    for (const break_ of spoil) {
      const key = keysOf(prefix, limit.id)[0]
      await link.commands.del(key)
      await break_(key)
      t.equal((await remote.look([limit])).standings[0]!.remaining, 3)
      const { refused, standings } = await charge([limit])
      t.same([refused, standings[0]!.remaining], [-1, 2])
      t.equal((await charge([limit])).standings[0]!.remaining, 1)
    }
  const log = all[2]!
  await link.commands.set(keysOf(prefix, log.id)[1], 'x')
  t.equal((await charge([log])).standings[0]!.remaining, 2)
  await link.commands.del(keysOf(prefix, log.id)[1])
  await link.commands.rpush(keysOf(prefix, log.id)[1], 'x', 'y')
  t.equal((await charge([log])).standings[0]!.remaining, 2)
  t.equal(told.length, 1)
  await link.commands.set(`${prefix}:members`, 'x')
  t.equal(await remote.alive(), 1)
})

t.test('one counter in one charge twice counts twice', async t => {
  const { charge } = begin()
  for (const algorithm of algorithms) {
    const limit = rate({ id: algorithm, algorithm, rate: 3 })
    t.same(
      (await charge([limit, { ...limit }])).standings.map(({ remaining }) => remaining),
      [2, 1]
    )
    t.equal((await charge([limit, limit])).refused, 1)
  }
})

t.test('takes as many units as there are, for who spends them alone', async t => {
  const { charge, remote, clock } = begin()
  for (const algorithm of algorithms) {
    const limit = rate({ id: algorithm, algorithm, rate: 10, per: 10 })
    t.match(await charge([limit], [4]), { taken: [4], standings: [{ remaining: 6 }] })
    t.match(await charge([limit], [40]), { taken: [6], standings: [{ remaining: 0 }] })
    t.match(await charge([limit], [4]), { taken: [0], refused: 0 })
    await remote.giveBack(limit, 3, clock.time)
    t.match(await charge([limit], [2]), { taken: [2], standings: [{ remaining: 1 }] })
    await remote.giveBack(limit, 1)
    t.match(await remote.look([limit]), { standings: [{ remaining: 2 }] })
    const before = clock.time
    clock.time += 30_000
    t.match(await charge([limit], [10]), { taken: [10] })
    await remote.giveBack(limit, 5, before)
    t.equal((await charge([limit])).refused, 0, 'another window has nothing back')
    clock.time += 30_000
  }
  const period = quota(10, 60)
  t.match(await charge([period], [4], 2), { taken: [4], standings: [{ remaining: 6 }] })
  t.match(await charge([period], [4], 7), { taken: [0], refused: 0, standings: [{ remaining: 0 }] })
  await remote.giveBack(period, 4, clock.time)
  t.match(await remote.look([period]), { standings: [{ remaining: 3 }] })
})

t.test('a long sliding log empties at once, and takes a thousand entries a call', async t => {
  const { charge, remote, clock, prefix } = begin()
  const limit = rate({ algorithm: 'sliding_log', rate: 20_000, per: 60 })
  for (let i = 0; i < 20; i++) {
    t.match(await charge([limit], [5000]), { taken: [1000] })
    clock.time += 10
  }
  t.match(await charge([limit]), { refused: 0, standings: [{ remaining: 0, reset: midnight + 60_000 }] })
  clock.time = midnight + 60_000 + 95
  t.match(await remote.look([limit]), { standings: [{ remaining: 10_000, reset: clock.time }] })
  t.match(await charge([limit]), { standings: [{ remaining: 9999 }] })
  t.equal(await link.commands.llen(keysOf(prefix, limit.id)[1]), 10_001)
  clock.time = midnight + 200_000
  t.match(await charge([limit]), { standings: [{ remaining: 19_999 }] })
  t.equal(await link.commands.llen(keysOf(prefix, limit.id)[1]), 1)
})

t.test('a quota that Redis lost comes from the ledger, which is asked once a period', async t => {
  const asked: string[] = []
  const kept = new Map<string, CounterState>([
    ['quota-a', { id: 'quota-a', count: 4, renews: midnight + 30_000 }],
    ['quota-ended', { id: 'quota-ended', count: 4, renews: midnight }],
    ['quota-never', { id: 'quota-never', count: 4, renews: 0 }]
  ])
  const ledger = async (id: string) => {
    asked.push(id)
    return kept.get(id) ?? null
  }
  const { charge, remote } = begin({ ledger })
  const both = [rate({ rate: 100 }), quota(5, 60, 'a')]
  const verdicts = await Promise.all([charge(both), charge(both), charge(both)])
  t.same(
    verdicts.map(({ refused }) => refused),
    [-1, 1, 1]
  )
  t.equal(verdicts[0]!.standings[1]!.reset, midnight + 30_000)
  t.same(asked, ['quota-a'])
  t.match(await charge([quota(5, 60, 'ended')]), { standings: [{ remaining: 4 }] })
  t.match(await charge([quota(5, 0, 'never')]), { standings: [{ remaining: 0, reset: 0 }] })
  t.match(await remote.look([quota(5, 60, 'none')]), { standings: [{ remaining: 5 }] })
  const refusing = [rate({ id: 'tight', rate: 1 }), quota(5, 60, 'tight')]
  for (let i = 0; i < 3; i++) await charge(refusing)
  t.equal(asked.filter(id => id === 'quota-tight').length, 1)
  const failing = begin({
    ledger: () => {
      throw new Error('no store')
    }
  })
  await t.rejects(failing.charge([quota(5, 60)]), { message: 'no store' })
})

t.test('adds what was counted elsewhere on top of what is there or in the ledger', async t => {
  const ledger = (id: string) => (id === 'quota-b' ? { id, count: 3, renews: midnight + 60_000 } : null)
  const { charge, remote } = begin({ ledger })
  await charge([quota(10, 60, 'a')])
  await remote.add([
    { id: 'quota-a', count: 2, renews: midnight + 50_000 },
    { id: 'quota-b', count: 2, renews: midnight + 60_000 },
    { id: 'quota-c', count: 2, renews: midnight },
    { id: 'quota-d', count: 2, renews: 0 }
  ])
  t.match((await remote.look([quota(10, 60, 'a')])).standings[0], { remaining: 7, reset: midnight + 50_000 })
  t.match((await remote.look([quota(10, 60, 'b')])).standings[0], { remaining: 5 })
  t.match((await remote.look([quota(10, 60, 'c')])).standings[0], { remaining: 10 })
  t.match((await remote.look([quota(10, 0, 'd')])).standings[0], { remaining: 8 })
  t.same(remote.dump(), [{ id: 'quota-a', count: 1, renews: midnight + 60_000 }])
})

t.test('thousands are forgotten and restored in parts, and all processes hear of it', async t => {
  const { remote, prefix } = begin()
  const other = counters({ prefix }).remote
  const heard: (readonly string[] | null)[] = []
  other.onForgotten(ids => heard.push(ids))
  await until(() => heard.length === 1)
  t.same(heard, [null])
  const ids = Array.from({ length: 1200 }, (_, i) => `quota-${i}`)
  await remote.restore(ids.map(id => ({ id, count: 1, renews: midnight + 60_000 })))
  t.equal((await link.commands.keys(`${prefix}:{*`)).length, 1200)
  await remote.forget(ids)
  await until(() => heard.length === 4)
  t.same(heard.flat().slice(1), ids)
  t.equal((await link.commands.keys(`${prefix}:{*`)).length, 0)
  t.equal(remote.dump().length, 1200)
  await other.close()
})

t.test('what another process forgot is not dumped any more', async t => {
  const { prefix, charge, remote } = begin()
  let heard = 0
  remote.onForgotten(() => heard++)
  await until(() => heard === 1)
  await charge([quota(5, 60)])
  await counters({ prefix }).remote.forget(['quota-key'])
  await until(() => heard === 2)
  t.same(remote.dump(), [])
  await remote.close()
})

t.test('counts the processes that live', async t => {
  const { prefix, remote } = counters()
  const other = counters({ prefix }).remote
  t.equal(await remote.alive(), 1)
  t.equal(await other.alive(), 2)
  t.equal(await remote.alive(), 2)
  await other.close()
  t.equal(await remote.alive(), 1)
  await link.commands.zadd(`${prefix}:members`, Date.now() - 11_000, 'long gone', Date.now() - 5000, 'here')
  t.equal(await remote.alive(), 2)
})

t.test('a clock that is set back by little keeps the log, by much it begins anew', async t => {
  const { charge, clock } = begin()
  const limit = rate({ algorithm: 'sliding_log', rate: 3, per: 60 })
  await charge([limit])
  clock.time -= 500
  t.match(await charge([limit]), { standings: [{ remaining: 1 }] })
  clock.time -= 3_600_000
  t.match(await charge([limit]), { standings: [{ remaining: 2 }] })
})

t.test('numbers without end are cut to what Redis can hold', async t => {
  const { charge } = begin()
  const habits = { algorithm: 'bucket', countsRefused: false, smoothing: true } as const
  t.match(await charge([rateCharge('rate-huge', { rate: 1e300, per: 1e300 }, habits)!]), { refused: -1 })
  t.match(await charge([quota(9e18, 9e18, 'huge')]), { refused: -1 })
})
