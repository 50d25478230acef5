/**
 * What one decision costs, and what a counter weighs: `node bench/micro/counters.ts`. A charge is [rate, quota] unless
 * the row says otherwise. With many keys it is the way to memory that counts: compare 'ns to touch the limits'.
 */
import { quotaCharge, rateCharge } from '../../gateway/counters/charges.ts'
import type { Algorithm, Charge } from '../../gateway/counters/counters.ts'
import { type CountersMemory, countersMemory } from '../../gateway/counters/countersMemory.ts'

const charges = 500_000
const smoothing = { enabled: true, threshold: 500, trigger: 0.5, step: 10, delay: 1 }
let now = Date.now()
const clock = { now: () => now }

function limitsOf(algorithm: Algorithm, count: number, per: number, smooth: boolean): Charge[][] {
  const habits = { algorithm, countsRefused: false, smoothing: smooth }
  return Array.from({ length: count }, (_, i) => [
    rateCharge(`rate-${i}`, { rate: 1000, per, smoothing }, habits)!,
    quotaCharge(`quota-${i}`, { quota_max: 1e9, quota_renewal_rate: 86_400 })!
  ])
}

/** A walk through all of them that no cache foresees. */
function order(count: number): Uint32Array {
  const order = new Uint32Array(charges)
  let x = 1
  for (let i = 0; i < charges; i++) {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0
    order[i] = Math.floor((x / 4294967296) * count)
  }
  return order
}

/** CPU time of this thread: on a shared machine steadier than the clock on the wall. */
function cpuMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

/** The median of five rounds. */
function nanoseconds(run: () => void): number {
  const rounds: number[] = []
  for (let round = 0; round < 5; round++) {
    const before = cpuMs()
    run()
    rounds.push(((cpuMs() - before) * 1e6) / charges)
  }
  return Math.round(rounds.sort((a, b) => a - b)[2]!)
}

/** The longest charge while new counters come in, in milliseconds. */
function longestOfNew(counters: CountersMemory, count: number): number {
  // One charge under ever other ids, so that the garbage collector has nothing to do with it.
  const words = { w0: 0, w1: 0, w2: 0, w3: 0 }
  const limit = Object.assign(quotaCharge('quota', { quota_max: 1e9 })!, words) as Charge & typeof words
  const list = [limit]
  let longest = 0
  let x = 1
  for (let i = 0; i < count; i++) {
    limit.w0 = i
    limit.w1 = x = Math.imul(x, 1664525) + 1013904223
    const before = cpuMs()
    counters.charge(list)
    const took = cpuMs() - before
    if (took > longest) longest = took
    if (i % 1000 === 0) counters.dump()
  }
  return longest
}

const table: Record<string, string | number>[] = []
for (const count of [1, 10_000, 1_000_000])
  for (const [algorithm, smooth] of [
    ['bucket', false],
    ['fixed_window', false],
    ['sliding_log', false],
    ['sliding_log', true]
  ] as const) {
    const limits = limitsOf(algorithm, count, count === 1 ? 0.01 : 60, smooth)
    const counters = countersMemory({ clock })
    for (const limit of limits) counters.charge(limit)
    const walk = order(count)
    let sum = 0
    const touch = nanoseconds(() => {
      for (let i = 0; i < charges; i++) for (const limit of limits[walk[i]!]!) sum += limit.w0 + limit.allowed
    })
    const ns = nanoseconds(() => {
      for (let i = 0; i < charges; i++) {
        // 40,000 requests a second
        if (i % 40 === 0) now++
        counters.charge(limits[walk[i]!]!)
      }
    })
    const look = nanoseconds(() => {
      for (let i = 0; i < charges; i++) counters.look(limits[walk[i]!]!)
    })
    const { entries, bytes, logBytes } = counters.size()
    table.push({
      algorithm: smooth ? `${algorithm}, smoothed` : algorithm,
      keys: count,
      'ns to touch the limits': sum === 0 ? 0 : touch,
      'ns a charge': ns,
      'ns a look': look,
      'bytes a counter': count === 1 ? '' : Math.round(bytes / entries),
      'log bytes a key': count === 1 ? '' : Math.round(logBytes / count)
    })
  }
console.table(table)

const apart: Record<string, string | number>[] = []
for (const [what, algorithm, per] of [
  ['bucket, half refused', 'bucket', 0.05],
  ['fixed_window, half refused', 'fixed_window', 0.05],
  ['sliding_log, half refused', 'sliding_log', 0.05]
] as const) {
  const limit = limitsOf(algorithm, 1, per, false)[0]!.slice(0, 1)
  const counters = countersMemory({ clock })
  const ns = nanoseconds(() => {
    for (let i = 0; i < charges; i++) {
      if (i % 40 === 0) now++
      counters.charge(limit)
    }
  })
  apart.push({ what, 'ns a charge': ns })
}
{
  const [limit] = limitsOf('bucket', 1, 60, false)
  const three = [
    ...limit!,
    rateCharge('api', { rate: 1e9, per: 60 }, { algorithm: 'bucket', countsRefused: false, smoothing: false })!
  ]
  const counters = countersMemory({ clock })
  const ns = nanoseconds(() => {
    for (let i = 0; i < charges; i++) {
      if (i % 40 === 0) now++
      counters.charge(three)
    }
  })
  apart.push({ what: '[rate, quota, api rate], bucket', 'ns a charge': ns })
}
{
  const limit = rateCharge(
    'large',
    { rate: 1_000_000, per: 3600 },
    { algorithm: 'sliding_log', countsRefused: false, smoothing: false }
  )!
  const counters = countersMemory({ clock })
  const ns = nanoseconds(() => {
    for (let i = 0; i < charges; i++) {
      if (i % 4 !== 0) now++
      counters.charge([limit])
    }
  })
  apart.push({ what: `sliding_log of 1,000,000 an hour, ${counters.size().logBytes / 1048576} MiB`, 'ns a charge': ns })
}
for (const maxEntries of [4_000_000, 100_000]) {
  const counters = countersMemory({ clock, maxEntries })
  const before = cpuMs()
  const longest = longestOfNew(counters, 2_000_000)
  const ns = Math.round(((cpuMs() - before) * 1e6) / 2_000_000)
  const { entries, bytes } = counters.size()
  // The measuring itself is in this figure.
  const what = `2,000,000 new quotas into ${maxEntries}: ${Math.round(bytes / entries)} bytes each, longest ${longest.toFixed(2)} ms`
  apart.push({ what, 'ns a charge': ns })
}
console.table(apart)
