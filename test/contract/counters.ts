import fc from 'fast-check'
import type { Test } from 'tap'
import { quotaCharge, rateCharge } from '../../gateway/counters/charges.ts'
import type { Algorithm, Charge, Counters, Standing, Verdict } from '../../gateway/counters/counters.ts'

/** Counters whose time is `given.now()`, milliseconds since the epoch, asked anew for every call. */
export type MakeCounters = (given: { now(): number }) => Counters | Promise<Counters>

const algorithms: readonly Algorithm[] = ['bucket', 'fixed_window', 'sliding_log']
/** A multiple of every `per` used here, so that fixed windows begin where the timelines do. */
const midnight = 1_767_225_600_000

interface Smooth {
  threshold: number
  trigger: number
  step: number
  delay: number
}

interface Given {
  id?: string
  algorithm?: Algorithm
  rate?: number
  per?: number
  smoothing?: Smooth
  countsRefused?: boolean
}

export function rate({
  id = 'key',
  algorithm = 'bucket',
  rate = 3,
  per = 10,
  smoothing,
  countsRefused = false
}: Given): Charge {
  const given = { rate, per, ...(smoothing && { smoothing: { enabled: true, ...smoothing } }) }
  return rateCharge(`rate-${id}`, given, { algorithm, countsRefused, smoothing: true })!
}

export function quota(max: number, renewal: number, id = 'key'): Charge {
  return quotaCharge(`quota-${id}`, { quota_max: max, quota_renewal_rate: renewal })!
}

/** Runs every test of the port. `runs`: how many random histories each property tries. */
export function countersContract(t: Test, make: MakeCounters, { runs = 300 } = {}): void {
  /** Counters at `midnight`, and a clock in seconds after it. */
  async function begin() {
    let now = midnight
    const counters = await make({ now: () => now })
    const at = (seconds: number) => {
      now = midnight + seconds * 1000
    }
    const passes = async (seconds: number, ...limits: Charge[]) => {
      at(seconds)
      return (await counters.charge(limits)).refused === -1
    }
    const stands = async (seconds: number, limit: Charge) => {
      at(seconds)
      return (await counters.charge([limit])).standings[0]!
    }
    const looks = async (seconds: number, limit: Charge) => {
      at(seconds)
      return (await counters.look([limit])).standings[0]!
    }
    return { counters, at, passes, stands, looks }
  }
  const second = (seconds: number) => midnight + seconds * 1000

  t.test('a bucket fills again after the last millisecond of its window', async t => {
    const { passes, stands, looks } = await begin()
    const limit = rate({ algorithm: 'bucket' })
    t.same(await looks(0, limit), { allowed: 3, remaining: 3, reset: 0, smoothed: null })
    for (const [seconds, remaining] of [
      [0, 2],
      [1, 1],
      [2, 0],
      [3, 0]
    ] as const)
      t.same(await stands(seconds, limit), { allowed: 3, remaining, reset: second(10), smoothed: null })
    for (const seconds of [4, 5, 6, 7, 8, 9, 9.999, 10]) t.notOk(await passes(seconds, limit), `refused at ${seconds}`)
    for (const seconds of [10.001, 11, 12]) t.ok(await passes(seconds, limit), `passes at ${seconds}`)
    t.notOk(await passes(13, limit))
    t.notOk(await passes(20.001, limit), 'the second window began with its first request')
    t.ok(await passes(20.002, limit))
  })

  t.test('a fixed window ends at the multiple of its length', async t => {
    const { passes, stands, looks } = await begin()
    const limit = rate({ algorithm: 'fixed_window' })
    for (const remaining of [2, 1, 0, 0])
      t.same(await stands(9, limit), { allowed: 3, remaining, reset: second(10), smoothed: null })
    t.notOk(await passes(9.999, limit))
    for (let i = 0; i < 3; i++) t.ok(await passes(10, limit))
    t.notOk(await passes(19.999, limit))
    t.same(await looks(20, limit), { allowed: 3, remaining: 3, reset: second(30), smoothed: null })
  })

  t.test('a sliding log lets an entry go when it is as old as the window is long', async t => {
    const { passes, stands, looks } = await begin()
    const limit = rate({ algorithm: 'sliding_log' })
    t.same(await looks(0, limit), { allowed: 3, remaining: 3, reset: second(0), smoothed: null })
    t.same(await stands(0, limit), { allowed: 3, remaining: 2, reset: second(0), smoothed: null })
    for (const seconds of [1, 2]) t.ok(await passes(seconds, limit))
    t.same(await stands(5, limit), { allowed: 3, remaining: 0, reset: second(10), smoothed: null })
    t.same(await looks(5, limit), { allowed: 3, remaining: 0, reset: second(10), smoothed: null })
    t.notOk(await passes(9.999, limit))
    t.same(await stands(10, limit), { allowed: 3, remaining: 0, reset: second(11), smoothed: null })
    t.notOk(await passes(10.999, limit))
    t.ok(await passes(11, limit))
    t.ok(await passes(12, limit))
    t.notOk(await passes(12, limit))
  })

  t.test('a sliding log that counts refused requests keeps a client out that goes on knocking', async t => {
    const { passes, stands } = await begin()
    const knocking = rate({ id: 'knocking', algorithm: 'sliding_log', countsRefused: true })
    const waiting = rate({ id: 'waiting', algorithm: 'sliding_log', countsRefused: true })
    for (const limit of [knocking, waiting]) for (const seconds of [0, 1, 2]) t.ok(await passes(seconds, limit))
    for (let seconds = 3; seconds < 40; seconds++) t.notOk(await passes(seconds, knocking), `refused at ${seconds}`)
    t.same(
      await stands(5, waiting),
      { allowed: 3, remaining: 0, reset: second(11), smoothed: null },
      '1, 2 and 5 are left at 10'
    )
    t.notOk(await passes(10, waiting))
    t.notOk(await passes(11, waiting))
    t.ok(await passes(20.001, waiting), 'only 11 is left')
  })

  t.test('a quota counts refused requests, and a higher maximum counts at once', async t => {
    const { passes, stands, looks } = await begin()
    t.same(await looks(0, quota(2, 60)), { allowed: 2, remaining: 2, reset: 0, smoothed: null })
    t.same(await stands(0, quota(2, 60)), { allowed: 2, remaining: 1, reset: second(60), smoothed: null })
    t.same(await stands(5, quota(2, 60)), { allowed: 2, remaining: 0, reset: second(60), smoothed: null })
    t.notOk(await passes(6, quota(2, 60)))
    t.same(await looks(6, quota(2, 60)), { allowed: 2, remaining: 0, reset: second(60), smoothed: null })
    t.same(await looks(10, quota(5, 60)), { allowed: 5, remaining: 2, reset: second(60), smoothed: null })
    t.same(await stands(10, quota(5, 60)), { allowed: 5, remaining: 1, reset: second(60), smoothed: null })
  })

  t.test('a quota counts what is said to be several units as so many', async t => {
    let now = midnight
    const counters = await make({ now: () => now })
    const charged = async (units: number) => {
      const { refused, standings } = await counters.charge([quota(10, 60)], units)
      return { refused, remaining: standings[0]!.remaining }
    }
    t.same(await charged(4), { refused: -1, remaining: 6 })
    t.same(await charged(6), { refused: -1, remaining: 0 })
    t.same(await charged(1), { refused: 0, remaining: 0 })
    now += 60_000
    t.same(await charged(9), { refused: -1, remaining: 1 })
    t.same(await charged(2), { refused: 0, remaining: 0 })
  })

  t.test('a quota begins its next period with the first request at or after the end of the last', async t => {
    const { passes, stands } = await begin()
    for (const seconds of [0, 1]) t.ok(await passes(seconds, quota(2, 60)))
    t.notOk(await passes(59.999, quota(2, 60)))
    t.same(await stands(60, quota(2, 60)), { allowed: 2, remaining: 1, reset: second(120), smoothed: null })
    t.same(await stands(200, quota(2, 60)), { allowed: 2, remaining: 1, reset: second(260), smoothed: null })
  })

  t.test('a quota without renewal never renews', async t => {
    const { passes, stands } = await begin()
    t.same(await stands(0, quota(1, 0)), { allowed: 1, remaining: 0, reset: 0, smoothed: null })
    t.notOk(await passes(10_000_000, quota(1, 0)))
  })

  t.test('charges stop at the first that refuses, and those before it stay charged', async t => {
    const { counters, looks } = await begin()
    const key = rate({ rate: 3 })
    const api = rate({ id: 'api', rate: 10 })
    const limits = [key, quota(2, 60), api]
    for (let i = 0; i < 2; i++) t.equal((await counters.charge(limits)).refused, -1)
    const { refused, standings } = await counters.charge(limits)
    t.equal(refused, 1)
    t.equal(standings.length, 2)
    t.equal((await looks(0, key)).remaining, 0)
    t.equal((await looks(0, api)).remaining, 8)
    t.equal((await counters.charge(limits)).refused, 0)
    t.equal((await looks(0, quota(5, 60))).remaining, 2, 'a request that the rate refused costs no quota')
    t.same(await counters.look(limits), { refused: 0, standings: [await looks(0, key)], now: second(0) })
    t.same(await counters.charge([]), { refused: -1, standings: [], now: second(0) })
  })

  for (const algorithm of algorithms) {
    t.test(`${algorithm}: exactly N of many interleaved charges pass`, async t => {
      const { counters } = await begin()
      const limits = ['a', 'b', 'c'].map((id, i) => rate({ id, algorithm, rate: 100 * (i + 1), per: 60 }))
      const quotas = ['a', 'b', 'c'].map(id => quota(150, 600, id))
      const all = Array.from({ length: 1200 }, (_, i) => counters.charge([limits[i % 3]!, quotas[i % 3]!]))
      const verdicts = await Promise.all(all)
      const passed = [0, 0, 0]
      verdicts.forEach(({ refused }, i) => {
        if (refused === -1) passed[i % 3]!++
      })
      t.same(passed, [100, 150, 150])
    })

    t.test(`${algorithm}: another rate under the same counter keeps the count`, async t => {
      const { passes, looks } = await begin()
      for (let i = 0; i < 3; i++) t.ok(await passes(0, rate({ algorithm, rate: 3 })))
      t.equal((await looks(1, rate({ algorithm, rate: 5 }))).remaining, 2)
      t.ok(await passes(1, rate({ algorithm, rate: 5 })))
      t.equal((await looks(2, rate({ algorithm, rate: 2 }))).remaining, 0)
      t.notOk(await passes(2, rate({ algorithm, rate: 2 })))
      t.ok(await passes(11.001, rate({ algorithm, rate: 2 })))
    })

    t.test(`${algorithm}: a shorter window under the same counter ends after its own length`, async t => {
      const { passes } = await begin()
      for (let i = 0; i < 3; i++) t.ok(await passes(0, rate({ algorithm, per: 3600 })))
      t.notOk(await passes(1, rate({ algorithm, per: 3600 })))
      await passes(12, rate({ algorithm, per: 2 }))
      t.ok(await passes(14.001, rate({ algorithm, per: 2 })))
    })

    t.test(`${algorithm}: a forgotten rate begins anew`, async t => {
      const { counters, passes } = await begin()
      const limit = rate({ algorithm })
      for (let i = 0; i < 3; i++) t.ok(await passes(0, limit))
      t.notOk(await passes(1, limit))
      await counters.forget([limit.id, 'unheard of'])
      for (let i = 0; i < 3; i++) t.ok(await passes(1, limit))
      t.notOk(await passes(1, limit))
    })

    t.test(`${algorithm}: smoothing begins at the threshold and climbs by its steps`, async t => {
      const { stands, looks } = await begin()
      const smoothing = { threshold: 2, trigger: 0.5, step: 2, delay: 5 }
      const limit = rate({ algorithm, rate: 5, per: 60, smoothing })
      t.same((await stands(0, limit)).allowed, 2)
      t.match(await stands(1, limit), { allowed: 2, remaining: 0, smoothed: null })
      t.match(await stands(5, limit), { allowed: 2, remaining: 0, smoothed: null }, 'at nextUpdateAt it still holds')
      t.match(await looks(5.001, limit), { allowed: 4, remaining: 2, smoothed: null })
      t.match(await stands(5.001, limit), { allowed: 4, remaining: 1, smoothed: 'up' })
      t.match(await stands(10, limit), { allowed: 4, remaining: 0, smoothed: null })
      t.match(await stands(10.002, limit), { allowed: 5, remaining: 0, smoothed: 'up' }, 'the rate is the upper end')
      t.match(await stands(15.003, limit), { allowed: 5, remaining: 0, smoothed: null })
      t.match(await stands(25.003, limit), { allowed: 2, remaining: 0, smoothed: null }, 'idle for twice the delay')
    })
  }

  t.test('changed quotas are dumped once, forgotten ones with count 0', async t => {
    const { counters, passes } = await begin()
    await passes(0, quota(10, 60, 'a'), rate({}))
    await passes(1, quota(10, 60, 'a'), quota(10, 0, 'b'))
    const sorted = async () => [...(await counters.dump())].sort((a, b) => (a.id < b.id ? -1 : 1))
    t.same(await sorted(), [
      { id: 'quota-a', count: 2, renews: second(60) },
      { id: 'quota-b', count: 1, renews: 0 }
    ])
    t.same(await counters.dump(), [])
    await passes(2, quota(10, 60, 'a'))
    await counters.forget(['quota-a', 'quota-b', 'quota-c', 'rate-key'])
    await passes(3, quota(10, 60, 'b'))
    t.same(await sorted(), [
      { id: 'quota-a', count: 0, renews: 0 },
      { id: 'quota-b', count: 1, renews: second(63) },
      { id: 'quota-c', count: 0, renews: 0 }
    ])
    t.same(await counters.dump(), [])
  })

  t.test('a dump gives no more than it is asked for, and the rest next time', async t => {
    const { counters, passes } = await begin()
    for (let i = 0; i < 5; i++) await passes(0, quota(10, 60, `${i}`))
    const ids = new Set<string>()
    for (const length of [2, 2, 1, 0]) {
      const states = await counters.dump(2)
      t.equal(states.length, length)
      for (const { id } of states) ids.add(id)
    }
    t.equal(ids.size, 5)
  })

  t.test('what was dumped is restored, but for ended periods', async t => {
    const before = await begin()
    for (const limit of [quota(3, 60, 'a'), quota(3, 60, 'a'), quota(3, 10, 'b'), quota(3, 0, 'c')])
      await before.passes(0, limit)
    const states = await before.counters.dump()
    const { counters, at, looks } = await begin()
    at(30)
    await counters.restore(states)
    t.same(await looks(30, quota(3, 60, 'a')), { allowed: 3, remaining: 1, reset: second(60), smoothed: null })
    t.same(await looks(30, quota(3, 10, 'b')), { allowed: 3, remaining: 3, reset: 0, smoothed: null })
    t.same(await looks(30, quota(3, 0, 'c')), { allowed: 3, remaining: 2, reset: 0, smoothed: null })
    t.same(await counters.dump(), [], 'the ledger has them already')
  })

  t.test('a restored count never lowers one that runs', async t => {
    const { counters, passes, looks } = await begin()
    for (let i = 0; i < 3; i++) await passes(0, quota(10, 60, 'a'))
    await passes(0, quota(10, 60, 'b'))
    await counters.restore([
      { id: 'quota-a', count: 2, renews: second(60) },
      { id: 'quota-b', count: 5, renews: second(20) }
    ])
    t.match(await looks(1, quota(10, 60, 'a')), { remaining: 7, reset: second(60) })
    t.match(await looks(1, quota(10, 60, 'b')), { remaining: 5, reset: second(20) })
  })

  for (const algorithm of algorithms)
    for (const countsRefused of algorithm === 'sliding_log' ? [false, true] : [false])
      t.test(
        `${algorithm}${countsRefused ? ' with refused requests' : ''} decides as the plain model does`,
        async t => {
          await fc.assert(
            fc.asyncProperty(
              fc.array(limitGiven, { minLength: 3, maxLength: 3 }),
              fc.array(event, { maxLength: 120 }),
              async (givens, events) => {
                let now = midnight
                const counters = await make({ now: () => now })
                const keys = givens.map((given, i) => {
                  const limit = rate({ ...given, id: `${i}`, algorithm, countsRefused })
                  return { limit, model: new Model(limit, given) }
                })
                for (const { wait, key, look } of events) {
                  const { limit, model } = keys[key]!
                  now += wait
                  const verdict = look ? await counters.look([limit]) : await counters.charge([limit])
                  same(verdict, look ? model.look(now) : model.charge(now))
                }
              }
            ),
            { numRuns: runs }
          )
          t.pass()
        }
      )

  t.test('quotas decide as the plain model does', async t => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 4 }),
        fc.constantFrom(0, 1, 2),
        fc.array(event, { maxLength: 60 }),
        async (max, renewal, events) => {
          let now = midnight
          const counters = await make({ now: () => now })
          const requests: number[][] = [[], [], []]
          for (const { wait, key, look } of events) {
            now += wait
            const { start, n } = renewal === 0 ? always(requests[key]!, now) : period(requests[key]!, now, renewal)
            const verdict = await counters[look ? 'look' : 'charge']([quota(max, renewal, `${key}`)])
            if (!look) requests[key]!.push(now)
            const begins = look ? start : (start ?? now)
            const reset = begins === null || renewal === 0 ? 0 : begins + renewal * 1000
            const remaining = Math.max(0, max - n - (look ? 0 : 1))
            same(verdict, {
              refused: n < max ? -1 : 0,
              standings: [{ allowed: max, remaining, reset, smoothed: null }],
              now
            })
          }
        }
      ),
      { numRuns: runs }
    )
    t.pass()
  })
}

function same(is: Verdict, should: Verdict): void {
  const [a, b] = [JSON.stringify(is), JSON.stringify(should)]
  if (a !== b) throw new Error(`${a} should be ${b}`)
}

const event = fc.record({
  wait: fc.oneof(
    fc.constant(0),
    fc.integer({ min: 1, max: 40 }),
    fc.constantFrom(99, 100, 101, 500, 999, 1000, 1001, 2000, 2001, 5000)
  ),
  key: fc.integer({ min: 0, max: 2 }),
  look: fc.boolean()
})

const smooth = fc.record({
  threshold: fc.integer({ min: 1, max: 12 }),
  trigger: fc.integer({ min: 0, max: 200 }).map(hundredths => hundredths / 100),
  step: fc.integer({ min: 1, max: 4 }),
  delay: fc.constantFrom(0.02, 0.1, 1)
})

const limitGiven = fc.record(
  { rate: fc.integer({ min: 1, max: 12 }), per: fc.constantFrom(0.001, 0.1, 1, 2), smoothing: smooth },
  { requiredKeys: ['rate', 'per'] }
)

/** One rate as a list of everything that ever came, counted anew for every question. */
class Model {
  readonly #limit: Charge
  readonly #smoothing: Smooth | null
  /** Times of the requests that count, oldest first. */
  readonly #times: number[] = []
  #current: number | null = null
  #nextUpdateAt = 0
  #last = Number.NEGATIVE_INFINITY

  constructor(limit: Charge, given: { rate: number; smoothing?: Smooth }) {
    this.#limit = limit
    this.#smoothing = given.smoothing && given.smoothing.threshold < given.rate ? given.smoothing : null
  }

  charge(now: number): Verdict {
    const n = this.#inWindow(now).length
    const { allowance, smoothed } = this.#allowance(now, n)
    const passes = n < allowance
    if (this.#smoothing !== null) {
      const delay = this.#smoothing.delay * 1000
      if (this.#current === null || now - this.#last >= 2 * delay || smoothed !== null) this.#nextUpdateAt = now + delay
      this.#current = allowance
    }
    this.#last = now
    if (passes || this.#limit.countsRefused) this.#times.push(now)
    const remaining = passes ? allowance - n - 1 : 0
    return this.#verdict(now, passes, { allowed: allowance, remaining, reset: this.#reset(now, allowance), smoothed })
  }

  look(now: number): Verdict {
    const n = this.#inWindow(now).length
    const { allowance } = this.#allowance(now, n)
    const remaining = Math.max(0, allowance - n)
    return this.#verdict(now, n < allowance, {
      allowed: allowance,
      remaining,
      reset: this.#reset(now, allowance),
      smoothed: null
    })
  }

  #verdict(now: number, passes: boolean, standing: Standing): Verdict {
    return { refused: passes ? -1 : 0, standings: [standing], now }
  }

  #inWindow(now: number): number[] {
    const { algorithm, perMs } = this.#limit
    if (algorithm === 'fixed_window')
      return this.#times.filter(time => Math.floor(time / perMs) === Math.floor(now / perMs))
    if (algorithm === 'sliding_log') return this.#times.filter(time => time > now - perMs)
    const start = this.#bucketStart(now)
    return start === null ? [] : this.#times.filter(time => time >= start)
  }

  #bucketStart(now: number): number | null {
    let start: number | null = null
    for (const time of this.#times) if (start === null || time > start + this.#limit.perMs) start = time
    return start === null || now > start + this.#limit.perMs ? null : start
  }

  #allowance(now: number, n: number): { allowance: number; smoothed: Standing['smoothed'] } {
    const max = this.#limit.allowed
    if (this.#smoothing === null) return { allowance: max, smoothed: null }
    const { threshold, trigger, step, delay } = this.#smoothing
    const current = this.#current
    if (current === null || now - this.#last >= 2 * delay * 1000) return { allowance: threshold, smoothed: null }
    // Far below a hundredth, far above what sums of a few doubles are wrong by.
    const almost = 1e-6
    if (now > this.#nextUpdateAt) {
      if (n >= current - trigger * step - almost && Math.min(current + step, max) !== current)
        return { allowance: Math.min(current + step, max), smoothed: 'up' }
      if (n <= current - step - trigger * step + almost && Math.max(current - step, threshold) !== current)
        return { allowance: Math.max(current - step, threshold), smoothed: 'down' }
    }
    return { allowance: current, smoothed: null }
  }

  #reset(now: number, allowance: number): number {
    const { algorithm, perMs } = this.#limit
    if (algorithm === 'fixed_window') return (Math.floor(now / perMs) + 1) * perMs
    if (algorithm === 'bucket') {
      const start = this.#bucketStart(now)
      return start === null ? 0 : start + perMs
    }
    let free = now
    while (this.#times.filter(time => time > free - perMs).length >= allowance) free++
    return free
  }
}

/** The period of a quota that holds at `now`: since when, and how many requests it has counted. */
function period(requests: number[], now: number, renewal: number): { start: number | null; n: number } {
  let start: number | null = null
  let n = 0
  for (const time of requests) {
    if (start === null || time >= start + renewal * 1000) {
      start = time
      n = 0
    }
    n++
  }
  return start === null || now >= start + renewal * 1000 ? { start: null, n: 0 } : { start, n }
}

function always(requests: number[], now: number): { start: number | null; n: number } {
  return { start: requests.length === 0 ? null : Math.min(now, requests[0]!), n: requests.length }
}
