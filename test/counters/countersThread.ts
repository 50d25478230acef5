import { parentPort, workerData } from 'node:worker_threads'
import { systemClock } from '../../config/world.ts'
import { quotaCharge, rateCharge } from '../../gateway/counters/charges.ts'
import type { Algorithm, Charge } from '../../gateway/counters/counters.ts'
import { countersMemory } from '../../gateway/counters/countersMemory.ts'
import type { SharedCounters } from '../../gateway/counters/memory.ts'

/** A thread of `countersThreads.test.ts`: does what it is posted, and answers. */

export type Task =
  /** Charges each of the limits that it was given so many times; answers how many passed of each. */
  | { do: 'hammer'; times: number }
  /** Counts ids of its own once each, and a quota that must not leave; answers how often a count was wrong. */
  | { do: 'press'; from: number; count: number }
  /** Charges until it is ended; answers once when it has begun. */
  | { do: 'forever' }
  | { do: 'dump' }

const { shared, owner, limits } = workerData as { shared: SharedCounters; owner: number; limits: Charge[] }
// Not those of the contract: it loads much that a thread which is started often has no use for.
function rate(id: string, algorithm: Algorithm, rate: number): Charge {
  return rateCharge(id, { rate, per: 1e6 }, { algorithm, countsRefused: false, smoothing: false })!
}

const counters = countersMemory({ clock: systemClock, shared, owner })

function hammer(times: number): number[] {
  const passed = limits.map(() => 0)
  for (let time = 0; time < times; time++)
    limits.forEach((limit, i) => {
      if (counters.charge([limit]).refused === -1) passed[i]!++
    })
  return passed
}

function press(from: number, count: number): number {
  const kept = quotaCharge(`kept ${owner}`, { quota_max: 1_000_000 })!
  let wrong = 0
  for (let i = from; i < from + count; i++) {
    const algorithm = (['bucket', 'fixed_window', 'sliding_log'] as const)[i % 3]!
    const limit = rate(`rate-${i}`, algorithm, 10)
    const own = counters.charge([limit, kept])
    if (own.standings[0]!.remaining !== 9 || own.refused !== -1) wrong++
    if (counters.look([kept]).standings[0]!.remaining !== 1_000_000 - (i - from + 1)) wrong++
  }
  return wrong
}

function forever(): never {
  parentPort!.postMessage('begun')
  for (let i = 0; ; i++) {
    counters.charge(limits.slice(0, 1 + (i % limits.length)))
    // Growth, logs, and leaving.
    counters.charge([rate(`rate-${owner} ${i % 3000}`, 'sliding_log', 5)])
    if (i % 7 === 0) counters.forget([`rate-${owner} ${(i * 31) % 3000}`])
  }
}

parentPort!.on('message', (task: Task) => {
  if (task.do === 'hammer') parentPort!.postMessage(hammer(task.times))
  if (task.do === 'press') parentPort!.postMessage(press(task.from, task.count))
  if (task.do === 'dump') parentPort!.postMessage(counters.dump())
  if (task.do === 'forever') forever()
})
