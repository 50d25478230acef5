/**
 * What one decision costs, and what a counter weighs: `node bench/micro/counters.ts`. Each row is the median of rounds in
 * this process; a charge is [rate, quota] unless the row says otherwise.
 */
import { quotaCharge, rateCharge } from '../../gateway/counters/charges.ts'
import type { Algorithm, Charge } from '../../gateway/counters/counters.ts'
import { type CountersMemory, countersMemory } from '../../gateway/counters/countersMemory.ts'

const charges = 1_000_000
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

function nanoseconds(run: () => void): number {
  const rounds: number[] = []
  for (let round = 0; round < 5; round++) {
    const before = process.hrtime.bigint()
    run()
    rounds.push(Number(process.hrtime.bigint() - before) / charges)
  }
  return Math.round(rounds.sort((a, b) => a - b)[2]!)
}

function fill(counters: CountersMemory, limits: Charge[][]): number {
  let longest = 0
  for (const limit of limits) {
    const before = performance.now()
    counters.charge(limit)
    const took = performance.now() - before
    if (took > longest) longest = took
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
    const longest = fill(counters, limits)
    const walk = order(count)
    const ns = nanoseconds(() => {
      for (let i = 0; i < charges; i++) {
        // 40,000 requests a second
        if (i % 40 === 0) now++
        counters.charge(limits[walk[i]!]!)
      }
      counters.dump()
    })
    const look = nanoseconds(() => {
      for (let i = 0; i < charges; i++) counters.look(limits[walk[i]!]!)
    })
    const { entries, bytes, logBytes } = counters.size()
    table.push({
      algorithm: smooth ? `${algorithm}, smoothed` : algorithm,
      keys: count,
      'ns a charge': ns,
      'ns a look': look,
      'bytes a counter': count === 1 ? '' : Math.round(bytes / entries),
      'log bytes a key': count === 1 ? '' : Math.round(logBytes / count),
      'longest first charge, ms': longest.toFixed(2)
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
{
  const counters = countersMemory({ clock, maxEntries: 100_000 })
  const limits = limitsOf('bucket', 300_000, 3600, false)
  const before = process.hrtime.bigint()
  const longest = fill(counters, limits)
  const ns = Math.round(Number(process.hrtime.bigint() - before) / limits.length)
  apart.push({ what: `every charge evicts two, longest ${longest.toFixed(2)} ms`, 'ns a charge': ns })
}
console.table(apart)
