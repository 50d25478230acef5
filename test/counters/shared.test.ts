import t, { type Test } from 'tap'
import type { CountersFailure, RateLimitMode } from '../../config/shape/limit.ts'
import { asked, type Charge, CountersUnavailable, type Verdict } from '../../gateway/counters/counters.ts'
import { countersMemory } from '../../gateway/counters/countersMemory.ts'
import { countersShared, type KeptQuotas } from '../../gateway/counters/shared/countersShared.ts'
import { quota as plainQuota, rate as plainRate } from '../contract/counters.ts'
import { handClock } from '../helpers/clock.ts'
import { collectedLog } from '../helpers/gateway.ts'
import { fakeServer } from './fakeRemote.ts'

const BUDGET = 50

function begin(t: Test, { policy = 'local', kept }: { policy?: CountersFailure; kept?: KeptQuotas } = {}) {
  const clock = handClock()
  const server = fakeServer(clock)
  const log = collectedLog()
  const failures: (string | null)[] = []
  const settings = { counters_timeout_ms: BUDGET, counters_failure: policy }
  const process = () => {
    const local = countersMemory({ clock, maxEntries: 1024 })
    const shared = countersShared({
      ...{ remote: server.remote(), local, clock, log, settings },
      status: failure => void failures.push(failure),
      ...(kept && { kept })
    })
    t.teardown(() => shared.close())
    return shared
  }
  const like = (mode: RateLimitMode) => (limit: Charge) => asked(limit, mode, policy)
  return { clock, server, log, failures, process, exact: like('exact'), lease: like('lease') }
}

const passes = ({ refused }: Verdict) => refused < 0
const turn = () => new Promise<void>(resolve => setImmediate(resolve))

t.test('a decision is one call, and a refusal is asked for once until its end', async t => {
  const { clock, server, process, exact } = begin(t)
  const counters = process()
  const [a, b] = [exact(plainRate({ rate: 2 })), exact(plainQuota(5, 600))]
  const end = clock.now() + 10_000
  for (const remaining of [1, 0])
    t.match(await counters.charge([a, b]), { refused: -1, standings: [{ remaining }, {}], now: clock.now() })
  t.match(await counters.charge([a, b]), { refused: 0, standings: [{ remaining: 0, reset: end }] })
  t.equal(server.calls.charge, 3)
  await clock.move(4_000)
  const known = counters.charge([a, b])
  t.notOk(known instanceof Promise)
  t.match(known, { refused: 0, standings: [{ allowed: 2, remaining: 0, reset: end }], now: clock.now() })
  t.notOk(counters.look([a]) instanceof Promise)
  t.ok(passes(await counters.charge([exact(plainRate({ rate: 3 }))])), 'another rate is asked for')
  t.equal(server.calls.charge, 4)
  await clock.move(6_001)
  t.ok(passes(await counters.charge([a, b])))
})

t.test('a refusal of a later limit is told at once, and the limits before it stay uncharged', async t => {
  const { server, process, exact } = begin(t)
  const counters = process()
  const [key, other, api] = [
    plainRate({ rate: 9 }),
    plainRate({ rate: 9, id: 'x' }),
    plainRate({ rate: 1, id: 'api' })
  ].map(exact) as [Charge, Charge, Charge]
  await counters.charge([key, api])
  const first = await counters.charge([key, api])
  t.match(first, { refused: 1, standings: [{ remaining: 7 }, { remaining: 0 }] })
  t.strictSame(await counters.charge([key, api]), first)
  t.equal(server.calls.charge, 2)
  t.match(await counters.charge([other, api]), { refused: 1, standings: [{ remaining: 8 }, {}] }, 'of another key')
  t.match(server.counters.look([key]).standings, [{ remaining: 7 }])
})

t.test('a refusal is not remembered where refused requests count, and is forgotten with its counter', async t => {
  const { clock, server, process, exact } = begin(t)
  const [counters, other] = [process(), process()]
  const smoothing = { threshold: 1, trigger: 0, step: 1, delay: 5 }
  for (const limit of [
    exact(plainRate({ id: 'l', rate: 1, algorithm: 'sliding_log', countsRefused: true })),
    exact(plainRate({ id: 's', rate: 2, smoothing }))
  ]) {
    const before = server.calls.charge
    for (let i = 0; i < 4; i++) await counters.charge([limit])
    t.equal(server.calls.charge - before, 4)
  }
  const limit = exact(plainQuota(2, 600))
  for (const should of [true, true, false, false]) t.equal(passes(await counters.charge([limit])), should)
  await other.forget([limit.id])
  t.ok(passes(await counters.charge([limit])))
  t.notOk(passes(await counters.charge([limit], 2)))
  server.counters.forget([limit.id])
  t.notOk(passes(await counters.charge([limit])))
  clock.jump(-1)
  t.ok(passes(await counters.charge([limit])), 'a clock that was set back tells nothing')
})

for (const algorithm of ['bucket', 'fixed_window', 'sliding_log', 'quota'] as const)
  t.test(`${algorithm}: leases let through no more and no less than they say, with few calls`, async t => {
    const { clock, server, process, lease } = begin(t)
    const [n, largest, per] = [2_000, 100, 10_000]
    const limit = lease(
      algorithm === 'quota' ? plainQuota(n, per / 1000) : plainRate({ algorithm, rate: n, per: per / 1000 })
    )
    const processes = [process(), process(), process()]
    const passed: number[] = []
    let requests = 0
    // A demand of four times the limit, spread unevenly; the clocks differ by an hour.
    server.skew = 3_600_000
    for (let step = 0; step < 120; step++) {
      const weights = step % 40 < 20 ? [60, 20, 0] : [0, 10, 80]
      for (const [p, counters] of processes.entries())
        for (let i = 0; i < weights[p]!; i++) {
          requests++
          if (passes(await counters.charge([limit]))) passed.push(clock.now())
        }
      await clock.move(250)
    }
    const longest = passed.map((at, i) => {
      const span = algorithm === 'sliding_log' ? per : 0
      return span === 0 ? 0 : passed.findLastIndex(later => later < at + span) - i + 1
    })
    t.ok(Math.max(...longest) <= n + 3 * largest, `${Math.max(...longest)} in a window`)
    const windows = Math.ceil(30_000 / per) + (algorithm === 'fixed_window' ? 1 : 0)
    t.ok(algorithm === 'sliding_log' || passed.length <= windows * n, `${passed.length} in all`)
    t.ok(passed.length >= 3 * (n - 2 * largest), `${passed.length} at least`)
    t.ok(server.calls.charge <= requests / 10, `${server.calls.charge} calls for ${requests} requests`)
  })

t.test('requests that come while a take is under way wait for it, and one take serves them all', async t => {
  const { server, process, lease } = begin(t)
  const counters = process()
  const [key, api] = [lease(plainRate({ rate: 1_000 })), lease(plainQuota(2_000, 600))]
  const verdicts = await Promise.all(Array.from({ length: 40 }, () => counters.charge([key, api])))
  t.ok(verdicts.every(passes))
  t.ok(server.calls.charge <= 3, `${server.calls.charge} calls`)
  t.strictSame(
    verdicts.map(({ standings }) => standings[0]!.remaining),
    verdicts.map((_, i) => 999 - i),
    'each is told what is left behind it'
  )
  const small = lease(plainRate({ id: 'small', rate: 19 }))
  const before = server.calls.charge
  for (let i = 0; i < 19; i++) await counters.charge([small])
  t.equal(server.calls.charge - before, 19, 'small limits are exact')
})

t.test('units are not spent behind the end of their window, and go back when nobody needs them', async t => {
  const { clock, server, process, lease } = begin(t)
  const counters = process()
  const limit = lease(plainRate({ algorithm: 'fixed_window', rate: 1_000, per: 10 }))
  const use = async (count: number, of = limit) => {
    for (let i = 0; i < count; i++) await counters.charge([of])
  }
  await clock.move(9_000)
  await use(70)
  const before = server.calls.charge
  t.notOk(counters.charge([limit]) instanceof Promise)
  await clock.move(1_000)
  t.ok((await counters.charge([limit])) && server.calls.charge === before + 1, 'the next window is asked for')
  const quota = lease(plainQuota(1_000, 0))
  await use(70, quota)
  await clock.move(8_000)
  const gone = server.returned.filter(({ id }) => id === quota.id)
  t.equal(gone.length, 1)
  t.equal(server.counters.look([quota]).standings[0]!.remaining, 1_000 - 70 - gone[0]!.units)
  await use(20, quota)
  await counters.close()
  t.ok(server.returned.filter(({ id }) => id === quota.id).length <= 2)
})

t.test(
  'no decision waits longer than the budget, and without a timely answer the breaker opens soon after',
  async t => {
    const { clock, server, log, failures, process, exact } = begin(t)
    const counters = process()
    await turn()
    const limit = exact(plainRate({ rate: 100 }))
    await counters.charge([limit])
    server.set('silent')
    await clock.move(60)
    const first = counters.charge([limit])
    await clock.move(20)
    const second = counters.charge([limit])
    let settled = 0
    for (const each of [first, second]) void Promise.resolve(each).then(() => settled++)
    await clock.move(29)
    t.equal(settled, 0)
    await clock.move(1)
    t.equal(settled, 1, 'each at its own time')
    await clock.move(39)
    t.equal(settled, 2)
    t.strictSame(failures, [])
    await clock.move(1)
    const { charge } = server.calls
    t.notOk(counters.charge([limit]) instanceof Promise)
    t.equal(server.calls.charge, charge)
    t.match(log.lines, [{ level: 'warn', cause: 'no answer within 50 ms', counters_failure: 'local' }])
    t.strictSame(failures, ['Redis connection not available'])
    server.set('up')
    await clock.move(250)
    t.strictSame(failures, ['Redis connection not available', null])
    t.equal(log.lines.length, 2)
    await counters.charge([limit])
    t.equal(server.calls.charge, charge + 1)
  }
)

t.test('late answers open the breaker only where no timely one comes between, and no stall of our own', async t => {
  const { clock, server, log, failures, process, exact } = begin(t)
  const limit = exact(plainRate({ rate: 100 }))
  server.set('silent')
  const counters = process()
  await clock.move(200)
  t.strictSame(failures, [], 'the first probe may take its time')
  server.set('up')
  await turn()
  const late = async (ms: number) => {
    server.set('silent')
    const verdict = counters.charge([limit])
    await clock.move(ms)
    server.set('up')
    t.ok(passes(await verdict))
    await turn()
  }
  for (let i = 0; i < 3; i++) await late(BUDGET + 30)
  await clock.move(500)
  t.strictSame(failures, [], 'the probe behind it was answered')
  server.set('silent')
  const verdict = counters.charge([limit])
  await clock.move(BUDGET)
  t.ok(passes(await verdict))
  clock.jump(300)
  await turn()
  t.strictSame(failures, [], 'nobody was there to hear an answer')
  server.set('up')
  await clock.move(500)
  t.strictSame([failures, log.lines], [[], []])
  await late(BUDGET + 40)
  t.equal(failures[0], 'Redis connection not available')
})

t.test('answers that already lie there when a slow turn ends are not too late', async t => {
  const { clock, server, failures, process, exact } = begin(t)
  const counters = process()
  await turn()
  await clock.move(500)
  server.set('silent')
  const verdict = counters.charge([exact(plainRate({ rate: 100 }))])
  await turn()
  clock.jump(300)
  server.set('up')
  t.match(await verdict, { standings: [{ allowed: 100, remaining: 99, reset: clock.now() + 10_000 }] })
  t.strictSame(failures, [])
})

for (const fault of ['gone', 'READONLY You cannot write against a read only replica.', 'OOM command not allowed'])
  t.test(`${fault}: nothing is asked from then on, until a probe succeeds`, async t => {
    const { clock, server, failures, process, exact } = begin(t)
    const counters = process()
    await turn()
    const limit = exact(plainRate({ rate: 100 }))
    server.set(fault)
    await counters.charge([limit])
    const { charge } = server.calls
    for (let i = 0; i < 10; i++) counters.charge([limit])
    t.equal(server.calls.charge, charge)
    await clock.move(1_000)
    t.equal(failures.at(-1), 'Redis connection not available')
    server.set('up')
    await clock.move(200)
    t.equal(failures.at(-1), null)
    t.match(await counters.charge([limit]), { standings: [{ remaining: 99 }] })
  })

t.test('while Redis is away each policy holds, in looks as well', async t => {
  const limits = [plainRate({ rate: 9 }), plainQuota(2, 600)]
  for (const policy of ['allow', 'refuse', 'local'] as const) {
    const { clock, server, process, exact } = begin(t, { policy })
    const counters = process()
    server.processes = 2
    await clock.move(1_000)
    const given = limits.map(exact)
    server.set('gone')
    if (policy === 'refuse') {
      let known: unknown
      for (const ask of [() => counters.charge(given), () => counters.charge(given), () => counters.look(given)])
        try {
          ask()
          t.fail('is not refused')
        } catch (cause) {
          known ??= cause
          t.ok(cause instanceof CountersUnavailable && cause === known)
        }
      continue
    }
    const verdicts = [0, 1, 2].map(() => counters.charge(given) as Verdict)
    const rest = [3, 2, 1, 0].map(() => (counters.charge([given[0]!]) as Verdict).refused)
    if (policy === 'allow') {
      t.ok(verdicts.every(passes))
      t.match(verdicts[2], {
        standings: [
          { allowed: 9, remaining: 9 },
          { allowed: 2, remaining: 0 }
        ]
      })
      t.match(counters.look(given), { refused: -1, standings: [{}, { remaining: 0 }] })
      t.strictSame(rest, [-1, -1, -1, -1])
    } else {
      t.match(verdicts[0], {
        refused: -1,
        standings: [
          { allowed: 4, remaining: 3 },
          { allowed: 2, remaining: 0 }
        ]
      })
      t.match(verdicts[1], { refused: 1 })
      t.match(counters.look([given[1]!]), { refused: 0 })
      t.strictSame(rest, [-1, 0, 0, 0], 'four of nine for one of two')
    }
  }
})

t.test('quotas go on from what is known, and Redis gets what was counted', async t => {
  const asksOf = new Map([
    ['quota-kept', { id: 'quota-kept', count: 7, renews: 0 }],
    ['quota-seen', { id: 'quota-seen', count: 1, renews: 0 }]
  ])
  const kept: KeptQuotas = { find: async id => asksOf.get(id) ?? null, forget: async () => {} }
  const { clock, server, process, exact } = begin(t, { kept })
  const counters = process()
  const [seen, stored] = [exact(plainQuota(10, 0, 'seen')), exact(plainQuota(10, 0, 'kept'))]
  for (let i = 0; i < 4; i++) await counters.charge([seen])
  server.set('gone')
  const count = async (limit: Charge) => {
    let passed = 0
    for (let i = 0; i < 12; i++) if (passes(await counters.charge([limit]))) passed++
    return passed
  }
  t.equal(await count(seen), 6)
  t.equal(await count(stored), 3)
  server.set('up')
  await clock.move(200)
  t.strictSame(server.added, [
    { id: 'quota-seen', count: 6, renews: 0 },
    { id: 'quota-kept', count: 3, renews: 0 }
  ])
  await clock.move(2_000)
  t.equal(server.added.length, 2, 'once')
})

t.test(
  'when Redis goes, what others counted is learnt from the ledger: once a quota, and the higher count',
  async t => {
    const asksOf: string[] = []
    const ledger = new Map<string, { id: string; count: number; renews: number }>()
    const stands = (id: string) => {
      asksOf.push(id)
      return ledger.get(id) ?? null
    }
    for (const find of [stands, async (id: string) => stands(id)]) {
      asksOf.length = 0
      const { clock, server, process, exact } = begin(t, { kept: { find, forget: async () => {} } })
      server.processes = 2
      const [one, two] = [process(), process()]
      await turn()
      const limit = (id: string) => exact(plainQuota(100, 600, id))
      const [behind, ahead, ended] = [limit('behind'), limit('ahead'), limit('ended')]
      for (const each of [behind, ahead, ended]) {
        await two.charge([each], 2)
        await one.charge([each])
      }
      await two.charge([behind], 96)
      const renews = clock.now() + 600_000
      for (const [{ id }, count, end] of [
        [behind, 99, renews],
        [ahead, 1, renews],
        [ended, 100, clock.now() - 1]
      ] as const)
        ledger.set(id, { id, count, renews: end })
      server.processes = 2
      await clock.move(1_000)
      for (const state of ['gone', 'READONLY']) {
        // Under way when it begins: that one is not decided by what is stale either.
        const asked = [state === 'gone' ? one.charge([behind]) : null]
        server.set(state)
        t.notOk(asked[0] !== null && passes(await asked[0]!), 'floor(1 / 2)')
        t.notOk(passes(await one.charge([behind])))
        t.match(await one.look([ahead]), { standings: [{ remaining: Math.floor((100 - 3) / 2) }] })
        t.match(await one.look([ended]), { standings: [{ remaining: Math.floor((100 - 3) / 2) }] })
        for (let i = 0; i < 3; i++) await one.look([behind])
        t.strictSame(asksOf.sort(), [ahead.id, behind.id, ended.id])
        asksOf.length = 0
        server.set('up')
        await clock.move(2_000)
      }
    }
  }
)

t.test('when Redis and the ledger both hang, a quota is waited for once', async t => {
  let answer: (state: { id: string; count: number; renews: number }) => void = () => {}
  const asksOf: string[] = []
  const kept: KeptQuotas = {
    find(id) {
      asksOf.push(id)
      return new Promise(resolve => {
        answer = resolve
      })
    },
    forget: async () => {}
  }
  const { clock, server, process, exact } = begin(t, { kept })
  const counters = process()
  await turn()
  const [limit, other] = [exact(plainQuota(100, 0)), exact(plainQuota(100, 0, 'other'))]
  server.set('gone')
  const first = counters.charge([limit])
  await clock.move(BUDGET - 10)
  const second = counters.charge([limit])
  t.ok(first instanceof Promise && second instanceof Promise)
  await clock.move(BUDGET)
  for (const verdict of [await first, await second]) t.ok(passes(verdict))
  for (let i = 0; i < 5; i++) {
    t.notOk(counters.charge([limit]) instanceof Promise, 'nobody waits any more')
    await clock.move(400)
  }
  t.ok(counters.charge([other]) instanceof Promise, 'of another one nothing is known yet')
  await clock.move(BUDGET)
  t.notOk(counters.look([other]) instanceof Promise)
  t.strictSame(asksOf, [limit.id, other.id], 'each was asked for once')
  answer({ id: other.id, count: 99, renews: 0 })
  await turn()
  t.match(counters.look([other]), { refused: 0 }, 'what it tells later counts from then on')
})

t.test('a clock that is set back gives leases back', async t => {
  const { clock, server, process, lease } = begin(t)
  const counters = process()
  const limit = lease(plainQuota(1_000, 600))
  for (let i = 0; i < 70; i++) await counters.charge([limit])
  const held = 1_000 - 70 - server.counters.look([limit]).standings[0]!.remaining
  t.ok(held > 0)
  clock.jump(-1)
  await counters.charge([limit])
  t.strictSame(server.returned, [{ id: limit.id, units: held }])
})

t.test('a key is forgotten without a long wait for a Redis that hangs', async t => {
  const { clock, server, failures, process } = begin(t)
  const counters = process()
  await turn()
  for (const [isBusy, ms] of [
    [false, 250],
    [true, 90]
  ] as const) {
    server.set('silent')
    let isDone = false
    const done = Promise.resolve(counters.forget(['a'])).then(() => {
      isDone = true
    })
    await turn()
    const busy = isBusy ? counters.charge([asked(plainRate({ rate: 9 }), 'exact', 'local')]) : null
    await clock.move(ms - 1)
    t.notOk(isDone)
    await clock.move(1)
    await turn()
    t.ok(isDone)
    await Promise.all([done, busy])
    t.strictSame(failures, isBusy ? ['Redis connection not available'] : [])
    server.set('up')
    await turn()
  }
})

t.test('what Redis counted and answered too late is not counted a second time', async t => {
  const { clock, server, process, exact } = begin(t)
  const counters = process()
  const limit = exact(plainQuota(10, 600))
  t.ok(passes(await counters.charge([limit])))
  await clock.move(60)
  server.set('silent')
  const late = [counters.charge([limit]), counters.charge([limit])]
  for (let i = 0; i < 10; i++) {
    await clock.move(10)
    await turn()
  }
  for (const verdict of await Promise.all(late)) t.ok(passes(verdict), 'decided here')
  const apart = await counters.charge([limit])
  t.ok(passes(apart))
  server.set('up')
  for (let i = 0; i < 30; i++) {
    await clock.move(100)
    await turn()
  }
  t.match(server.counters.look([limit]).standings, [{ remaining: 7 }], 'three arrived')
  t.match(server.added, [{ count: 1 }], 'and one was counted while nothing was asked')
})

t.test('a counter forgotten while Redis is away is forgotten there as well, before anything is added', async t => {
  const { clock, server, process, exact } = begin(t)
  const counters = process()
  const limit = exact(plainQuota(3, 600))
  for (let i = 0; i < 3; i++) await counters.charge([limit])
  server.set('gone')
  t.notOk(passes(await counters.charge([limit])))
  await counters.forget([limit.id])
  t.ok(passes(await counters.charge([limit])))
  server.set('up')
  await clock.move(200)
  t.equal(server.counters.look([limit]).standings[0]!.remaining, 3)
  t.match(server.added, [{ id: limit.id, count: 1 }])
})

t.test('what Redis never heard of is dumped at the end', async t => {
  const { server, process, exact } = begin(t)
  const counters = process()
  const limit = exact(plainQuota(9, 0))
  await counters.charge([limit])
  await counters.dump()
  server.set('gone')
  await counters.charge([limit])
  t.strictSame(await counters.dump(), [])
  await counters.close()
  t.strictSame(await counters.dump(), [{ id: limit.id, count: 2, renews: 0 }])
})
