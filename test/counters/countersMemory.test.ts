import t from 'tap'
import type { Charge } from '../../gateway/counters/counters.ts'
import { countersMemory } from '../../gateway/counters/countersMemory.ts'
import type { MemoryOptions } from '../../gateway/counters/memory.ts'
import { countersContract, quota, rate } from '../contract/counters.ts'

countersContract(t, clock => countersMemory({ clock, maxEntries: 1000 }))

function begin(options: Partial<MemoryOptions> = {}) {
  const clock = {
    time: 1_767_225_600_000,
    now() {
      return this.time
    }
  }
  const counters = countersMemory({ clock, ...options })
  const passes = (...limits: Charge[]) => counters.charge(limits).refused === -1
  const left = (limit: Charge) => counters.look([limit]).standings[0]!.remaining
  return { clock, counters, passes, left }
}

t.test('no more counters are held than may be', async t => {
  for (const maxEntries of [1, 3, 100, 20_000]) {
    const { counters, passes } = begin({ maxEntries })
    let passed = 0
    for (let i = 0; i < maxEntries * 3; i++) if (passes(quota(1, 0, `${i}`))) passed++
    t.equal(passed, maxEntries * 3)
    const { entries } = counters.size()
    t.ok(entries <= maxEntries, `${entries} of ${maxEntries}`)
    t.ok(entries >= maxEntries * 0.9, `${entries} of ${maxEntries}`)
  }
})

t.test('the counters in use stay when others must leave', async t => {
  const { clock, passes, left } = begin({ maxEntries: 1000 })
  const used = Array.from({ length: 100 }, (_, i) => rate({ id: `used ${i}`, rate: 1000, per: 86_400 }))
  for (let round = 1; round <= 200; round++) {
    clock.time += 1000
    for (const limit of used) passes(limit)
    for (let i = 0; i < 100; i++) passes(rate({ id: `${round}.${i}`, rate: 1000, per: 86_400 }))
  }
  const kept = used.filter(limit => left(limit) === 800).length
  t.ok(kept >= 95, `${kept} of 100 never left`)
})

t.test('ended counters leave first, and quotas last', async t => {
  const { clock, passes, left } = begin({ maxEntries: 1000 })
  const quotas = Array.from({ length: 500 }, (_, i) => quota(5, 0, `${i}`))
  for (const limit of quotas) passes(limit)
  clock.time += 1000
  for (let i = 0; i < 500; i++) passes(rate({ id: `short ${i}`, per: 1 }))
  clock.time += 5000
  for (let i = 0; i < 500; i++) passes(rate({ id: `new ${i}`, per: 60 }))
  for (let i = 0; i < 400; i++) passes(rate({ id: `newer ${i}`, per: 60 }))
  const kept = quotas.filter(limit => left(limit) === 4).length
  t.ok(kept >= 490, `${kept} of 500 quotas stayed`)
})

t.test('ended counters make room instead of growth', async t => {
  const { clock, counters, passes } = begin({ maxEntries: 100_000 })
  for (let round = 0; round < 50; round++) {
    clock.time += 11_000
    for (let i = 0; i < 1000; i++) passes(rate({ id: `${round}.${i}` }))
  }
  t.ok(counters.size().bytes < 50_000 * 64, `${counters.size().bytes} bytes`)
})

t.test('growing loses no count', async t => {
  for (const algorithm of ['bucket', 'fixed_window', 'sliding_log'] as const) {
    const { passes, left, counters } = begin()
    const many = Array.from({ length: 30_000 }, (_, i) => rate({ id: `${i}`, algorithm, rate: 10, per: 3600 }))
    many.forEach((limit, i) => {
      for (let times = 0; times <= i % 7; times++) passes(limit)
    })
    t.equal(counters.size().entries, 30_000)
    t.equal(
      many.findIndex((limit, i) => left(limit) !== 9 - (i % 7)),
      -1
    )
  }
})

t.test('forgetting one of many leaves the others reachable', async t => {
  const { passes, left, counters } = begin({ maxEntries: 4000 })
  const many = Array.from({ length: 3000 }, (_, i) => rate({ id: `${i}`, per: 3600 }))
  for (const limit of many) passes(limit)
  counters.forget(many.filter((_, i) => i % 3 === 0).map(({ id }) => id))
  t.equal(counters.size().entries, 2000)
  t.equal(
    many.findIndex((limit, i) => left(limit) !== (i % 3 === 0 ? 3 : 2)),
    -1
  )
})

t.test('a log of a large rate is exact and small while its requests come together', async t => {
  const { clock, counters, passes } = begin()
  const limit = rate({ algorithm: 'sliding_log', rate: 1_000_000, per: 3600 })
  let passed = 0
  for (let i = 0; i < 1_000_100; i++) {
    if (i % 5000 === 0) clock.time += 1000
    if (passes(limit)) passed++
  }
  t.equal(passed, 1_000_000)
  t.ok(counters.size().logBytes <= 1024 * 1024)
  t.equal(counters.look([limit]).standings[0]!.reset, 1_767_225_600_000 + 1000 + 3_600_000)
  clock.time = 1_767_225_600_000 + 1000 + 3_600_000
  passed = 0
  for (let i = 0; i < 6000; i++) if (passes(limit)) passed++
  t.equal(passed, 5000)
})

t.test('logs never take more than their bound, and those in use stay', async t => {
  const { clock, counters, passes, left } = begin({ maxLogBytes: 1024 * 1024 })
  const used = rate({ id: 'used', algorithm: 'sliding_log', rate: 100_000, per: 3600 })
  for (let i = 0; i < 20_000; i++) {
    clock.time += 10
    passes(rate({ id: `${i}`, algorithm: 'sliding_log', rate: 10, per: 3600 }))
    passes(used)
  }
  t.equal(counters.size().logBytes, 1024 * 1024)
  t.equal(left(used), 80_000)
})

t.test('one log larger than the bound forgets its oldest entries', async t => {
  const { clock, counters, passes, left } = begin({ maxLogBytes: 1024 * 1024 })
  const limit = rate({ algorithm: 'sliding_log', rate: 1_000_000, per: 36_000 })
  for (let i = 0; i < 150_000; i++) {
    clock.time++
    passes(limit)
  }
  t.equal(counters.size().logBytes, 1024 * 1024)
  const held = 1_000_000 - left(limit)
  t.ok(held > 7 * 16_000 && held <= 7 * 16_384, `${held} entries`)
})

t.test('a log gives its memory back when it has ended', async t => {
  const { clock, counters, passes } = begin({ maxLogBytes: 2 * 1024 * 1024 })
  for (let round = 0; round < 20; round++) {
    const limit = rate({ id: `${round}`, algorithm: 'sliding_log', rate: 100_000, per: 100 })
    for (let i = 0; i < 100_000; i++) {
      clock.time++
      passes(limit)
    }
    clock.time += 100_000
    passes(limit)
  }
  t.ok(counters.size().logBytes <= 1024 * 1024)
})

t.test('a counter that changes its algorithm begins anew', async t => {
  const { passes, left } = begin()
  for (const algorithm of ['bucket', 'sliding_log', 'fixed_window', 'sliding_log', 'bucket'] as const) {
    t.equal(left(rate({ algorithm })), 3)
    t.ok(passes(rate({ algorithm })))
    t.equal(left(rate({ algorithm })), 2)
  }
})

t.test('a clock that is set back a little stands still, and one set back far leaves nobody shut out', async t => {
  for (const algorithm of ['bucket', 'fixed_window', 'sliding_log'] as const) {
    const { clock, passes } = begin()
    const limit = rate({ algorithm })
    for (let i = 0; i < 3; i++) t.ok(passes(limit))
    clock.time -= 500
    t.notOk(passes(limit), algorithm)
    clock.time -= 86_400_000
    passes(limit)
    clock.time += 10_001
    t.ok(passes(limit), algorithm)
  }
  const { clock, passes } = begin()
  t.ok(passes(quota(1, 60)))
  clock.time -= 3_600_000
  t.notOk(passes(quota(1, 60)), 'a quota is not given again')
  clock.time += 60_000
  t.ok(passes(quota(1, 60)))
})
