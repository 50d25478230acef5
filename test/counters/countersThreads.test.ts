import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import t, { type Test } from 'tap'
import { systemClock } from '../../config/world.ts'
import type { CounterState } from '../../gateway/counters/counters.ts'
import { countersMemory } from '../../gateway/counters/countersMemory.ts'
import { Lock } from '../../gateway/counters/lock.ts'
import { type MemoryOptions, type SharedCounters, sharedCounters, USED } from '../../gateway/counters/memory.ts'
import { repair } from '../../gateway/counters/repair.ts'
import { countersContract, quota, rate } from '../contract/counters.ts'
import type { Task } from './countersThread.ts'

countersContract(
  t,
  clock => countersMemory({ clock, owner: 3, shared: sharedCounters({ clock, maxEntries: 1000, maxLogBytes: 0 }) }),
  { runs: 10 }
)

/** Limits that no test lives long enough to see end, of every algorithm. */
function manyLimits() {
  const smoothing = { threshold: 300, trigger: 0, step: 1, delay: 3600 }
  return [
    ...(['bucket', 'sliding_log'] as const).flatMap(algorithm => [
      rate({ id: `${algorithm}`, algorithm, rate: 1000, per: 86_400 }),
      rate({ id: `${algorithm} smoothed`, algorithm, rate: 1000, per: 86_400, smoothing })
    ]),
    rate({ id: 'fixed', algorithm: 'fixed_window', rate: 1000, per: 1e9 }),
    quota(1000, 86_400, 'ends'),
    quota(1000, 0, 'never ends')
  ]
}

const limits = manyLimits()

/** Counters of which this thread is 0. */
function begin(options: Partial<MemoryOptions> = {}) {
  const shared = sharedCounters({ clock: systemClock, ...options })
  return { shared, counters: countersMemory({ clock: systemClock, shared, owner: 0 }) }
}

async function thread(t: Test, shared: SharedCounters, owner: number) {
  const workerData = { shared, owner, limits }
  const worker = new Worker(new URL('./countersThread.ts', import.meta.url), { workerData })
  t.teardown(() => worker.terminate())
  await once(worker, 'online')
  return {
    async ask<T>(task: Task): Promise<T> {
      worker.postMessage(task)
      return (await once(worker, 'message'))[0]
    },
    end: () => worker.terminate()
  }
}

t.test('of what several threads ask at once exactly as much passes as may', async t => {
  const { shared, counters } = begin()
  const threads = await Promise.all([1, 2, 3].map(owner => thread(t, shared, owner)))
  const times = 1000
  const passed = await Promise.all(threads.map(({ ask }) => ask<number[]>({ do: 'hammer', times })))
  t.same(
    limits.map((_, i) => passed.reduce((sum, one) => sum + one[i]!, 0)),
    limits.map(({ slope }) => slope?.threshold ?? 1000)
  )
  for (const limit of limits) t.equal(counters.look([limit]).standings[0]!.remaining, 0, limit.id)

  // One thread lists each of the two quotas, with what all threads counted.
  const dumps = await Promise.all(threads.map(({ ask }) => ask<CounterState[]>({ do: 'dump' })))
  t.same(
    dumps.flat().map(({ id, count }) => [id, count]),
    [
      ['quota-ends', 3 * times],
      ['quota-never ends', 3 * times]
    ].sort(() => (dumps.flat()[0]?.id === 'quota-ends' ? 0 : -1))
  )
})

t.test('what another thread dumped comes with the dump of the one that adopts it, in its newest state', async t => {
  const { shared, counters } = begin()
  const other = countersMemory({ clock: systemClock, shared, owner: 1 })
  const ids = ['stays', 'goes on', 'elsewhere', 'forgotten', 'forgotten there']
  const all = ids.map(id => quota(10, 0, id))
  for (const limit of all) other.charge([limit])
  other.forget(['quota-forgotten there'])
  counters.charge([all[1]!])
  t.same(counters.dump(), [], 'the other thread lists them')
  const states = other.dump()
  t.equal(states.length, 5)
  counters.charge([all[1]!])
  other.charge([all[2]!])
  counters.forget(['quota-forgotten'])
  counters.adopt(states)
  const count = (id: string, count: number) => ({ id: `quota-${id}`, count, renews: 0 })
  const sorted = (states: readonly CounterState[]) => [...states].sort((a, b) => (a.id < b.id ? -1 : 1))
  t.same(sorted(counters.dump()), [
    count('elsewhere', 2),
    count('forgotten', 0),
    count('forgotten there', 0),
    count('goes on', 3),
    count('stays', 1)
  ])
  t.same(other.dump(), [count('elsewhere', 2)], 'and once more, since it was charged after the dump')
  t.same([...counters.dump(), ...other.dump()], [])

  other.charge([all[0]!])
  const late = other.dump()
  counters.forget(['quota-stays'])
  t.same(counters.dump(), [count('stays', 0)])
  counters.adopt(late)
  t.same(counters.dump(), [], 'what was forgotten since a dump does not come back with it')
})

t.test('a quota that several threads charge all the time is told with each dump', async t => {
  const { shared, counters } = begin()
  const others = [1, 2].map(owner => countersMemory({ clock: systemClock, shared, owner }))
  const hot = quota(1000, 0, 'hot')
  const charge = () => {
    for (const other of others) other.charge([hot])
  }
  for (let round = 1; round <= 10; round++) {
    charge()
    const dumps = others.map(other => other.dump())
    // Before the main thread has heard of them.
    charge()
    for (const dump of dumps) counters.adopt(dump)
    t.same(counters.dump(1), [{ id: 'quota-hot', count: 4 * round, renews: 0 }])
  }
})

t.test('counters grow, and the least used leave, while several threads count', async t => {
  const maxEntries = 10_000
  const shared = { ...sharedCounters({ clock: systemClock, maxEntries }), maxChunks: 2000 }
  const counters = countersMemory({ clock: systemClock, shared, owner: 0 })
  const threads = await Promise.all([1, 2, 3].map(owner => thread(t, shared, owner)))
  const count = 6000
  const wrong = await Promise.all(
    threads.map(({ ask }, i) => ask<number>({ do: 'press', from: (i + 1) * 1_000_000, count }))
  )
  t.same(wrong, [0, 0, 0])
  const { entries, logBytes } = counters.size()
  t.ok(entries <= maxEntries && entries > maxEntries * 0.9, `${entries} counters`)
  t.equal(logBytes, 2000 * 64)
  // Each id has at most one record and each record one id, or one of these would not be as it was left.
  let known = 0
  for (let owner = 1; owner <= 3; owner++)
    for (let i = owner * 1_000_000; i < owner * 1_000_000 + count; i++) {
      const algorithm = (['bucket', 'fixed_window', 'sliding_log'] as const)[i % 3]!
      const { remaining } = counters.look([rate({ id: `${i}`, algorithm, rate: 10, per: 1e6 })]).standings[0]!
      if (remaining === 9) known++
      else if (remaining !== 10) t.fail(`${i}: ${remaining}`)
    }
  t.ok(known > 5000 && known < entries, `${known} known`)
})

t.test('a thread that ends in the middle of counting holds nobody up', async t => {
  const { shared, counters } = begin({ maxEntries: 2000 })
  const stays = await thread(t, shared, 1)
  await stays.ask({ do: 'forever' })
  let cleared = 0
  for (let round = 0; round < 12; round++) {
    const leaves = await thread(t, shared, 2)
    await leaves.ask({ do: 'forever' })
    await leaves.end()
    if (repair(shared, 2)) cleared++
    for (let i = 0; i < 20; i++) {
      const limit = rate({ id: `${round} ${i}`, rate: 3, per: 1e6 })
      const passes = [1, 2, 3, 4].filter(() => counters.charge([limit]).refused === -1)
      // The thread that stays may have made this one leave.
      if (passes.length < 3 || (passes.length > 3 && counters.size().entries < 2000))
        t.fail(`${round}: ${passes.length}`)
    }
  }
  t.comment(`${cleared} of 12 ended under the lock`)
  await stays.end()
  repair(shared, 1)
  const limit = rate({ id: 'after', algorithm: 'sliding_log', rate: 100, per: 1e6 })
  t.equal(
    Array.from({ length: 300 }, () => counters.charge([limit]).refused).filter(refused => refused === -1).length,
    100
  )
})

t.test('what a thread leaves half changed is let go, and those that wait for it go on', async t => {
  const { shared, counters } = begin()
  const used = [rate({ id: 'used' }), quota(10, 0, 'used')]
  counters.charge(used)
  new Lock(shared, 2).enter()
  new Int32Array(shared.state).fill(-1, USED)
  new Int32Array(shared.index).fill(77, 0, 5000)
  new Int32Array(shared.records).fill(77, 0, 5000)
  const other = await thread(t, shared, 1)
  const waits = other.ask<number[]>({ do: 'hammer', times: 1100 })
  t.ok(repair(shared, 2))
  t.same(
    await waits,
    limits.map(({ slope }) => slope?.threshold ?? 1000)
  )
  t.same(
    counters.look(used).standings.map(({ remaining }) => remaining),
    [3, 10]
  )
  t.same(counters.dump(), [], 'what it listed is gone')
  counters.restore([{ id: used[1]!.id, count: 4, renews: 0 }])
  t.equal(counters.look(used).standings[1]!.remaining, 6)
})

t.test('quotas that a thread had yet to dump when it ended come with the next charge', async t => {
  const { shared, counters } = begin()
  const ended = countersMemory({ clock: systemClock, shared, owner: 1 })
  const lives = countersMemory({ clock: systemClock, shared, owner: 2 })
  const many = Array.from({ length: 10_000 }, (_, i) => quota(10, 0, `${i}`))
  for (const limit of many) ended.charge([limit])
  lives.charge([quota(10, 0, 'lives')])
  t.notOk(repair(shared, 1))
  for (const limit of many) counters.charge([limit])
  const states = counters.dump()
  t.equal(states.length, 10_000)
  t.ok(states.every(({ count }) => count === 2))
  t.same(lives.dump(), [{ id: 'quota-lives', count: 1, renews: 0 }])
})
