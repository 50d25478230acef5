import { randomBytes } from 'node:crypto'
import type { Clock, Random } from '../../config/world.ts'
import { quotaEnd, quotaRuns } from '../limits/quota.ts'
import { bucketEnd, bucketRuns, fixedEnd, fixedRuns, logBlocker, logBound } from '../limits/rate.ts'
import { heldAllowance, nextAllowance } from '../limits/smoothing.ts'
import {
  type Charge,
  type CounterState,
  type Counters,
  type Standing,
  type Verdict,
  type Words,
  wordsOf
} from './counters.ts'
import { leaving } from './leaving.ts'
import { Logs } from './logs.ts'
import {
  ASIDE,
  BUCKET,
  CHANGED,
  COUNT,
  CURRENT,
  END,
  FIXED,
  KIND,
  LOG,
  NEXT_AT,
  QUOTA,
  Records,
  SEEN
} from './records.ts'

export interface CountersMemoryOptions {
  readonly clock: Pick<Clock, 'now'>
  readonly random?: Random
  /** At most so many counters (75 to 110 bytes each); then the least used leave, ended ones first, quotas last. */
  readonly maxEntries?: number
  /** At most so many bytes of sliding-log entries; then the logs of the least used begin anew. */
  readonly maxLogBytes?: number
}

/** `Counters` whose answers are never promises. */
export interface CountersMemory extends Counters {
  charge(limits: readonly Charge[]): Verdict
  look(limits: readonly Charge[]): Verdict
  forget(ids: readonly string[]): void
  dump(limit?: number): readonly CounterState[]
  restore(states: readonly CounterState[]): void
  /** How many counters are held, ended ones included, and the bytes that they and their logs lie in. */
  size(): { entries: number; bytes: number; logBytes: number }
}

/** Counters in this process: exact, synchronous, bounded, outside of the heap. */
export function countersMemory(options: CountersMemoryOptions): CountersMemory {
  const { clock, random = { bytes: randomBytes }, maxEntries = 4_000_000, maxLogBytes = 256 * 1024 * 1024 } = options
  const records = new Records(maxEntries, random)
  const logs = new Logs(maxLogBytes, Math.floor(clock.now()))
  const { pages } = records
  const { kindAt, clear, remove, makeRoom, freeLog } = leaving(records, logs)
  let latest = -Infinity
  /** What the next dump looks at: charges of changed quotas (each once, by CHANGED), and forgotten ids. */
  let changed: Charge[] = []
  const forgotten = new Map<string, Words>()

  // A system clock that is set back by little stands still instead; one set back by more is followed.
  function moment(): number {
    const now = Math.floor(clock.now())
    if (now > latest || latest - now > 1000) latest = now
    return latest
  }

  /** The record of this id, new or as it was. */
  function place(words: Words, kind: number, now: number): number {
    const found = records.find(words)
    if (found < 0) {
      makeRoom(now)
      return records.add(words, kind)
    }
    // Another algorithm than before: what it counted says nothing to this one.
    if (kindAt(found) !== kind) clear(found, kind)
    return found
  }

  function chargeQuota(limit: Charge, now: number, standings: Standing[], units: number): boolean {
    const number = place(limit, QUOTA, now)
    const { whole, real } = pages.of(number)
    const r = pages.at(number)
    const before = real[r + END]!
    const count = quotaRuns(before, now) ? real[r + COUNT]! + units : units
    const end = quotaEnd(before, now, limit.perMs)
    real[r + COUNT] = count
    real[r + END] = end
    real[r + SEEN] = now
    if ((whole[r * 2 + KIND]! & CHANGED) === 0) {
      whole[r * 2 + KIND] = QUOTA | CHANGED
      // Only where nobody dumps: at least half of them have left this memory.
      if (changed.length >= 2 * maxEntries) changed = changed.filter(limit => findChanged(limit) >= 0)
      changed.push(limit)
    }
    const { allowed } = limit
    standings.push({
      allowed,
      remaining: Math.max(0, allowed - count),
      reset: end === Infinity ? 0 : end,
      smoothed: null
    })
    return count <= allowed
  }

  function chargeRate(limit: Charge, now: number, standings: Standing[]): boolean {
    const { allowed, perMs, slope } = limit
    const kind = kindOfRate(limit)
    const number = place(limit, kind, now)
    const { whole, real } = pages.of(number)
    const r = pages.at(number)
    const w = r * 2

    let n = real[r + COUNT]!
    let end = real[r + END]!
    let first = 0
    if (kind === LOG) {
      first = whole[w + ASIDE]!
      if (first !== 0 && logs.newest(first) > now) {
        // The clock was set back: when these came, nobody knows.
        logs.free(first)
        first = 0
        n = 0
      }
      first = logs.drop(first, logBound(now, perMs))
      n -= logs.dropped
    } else if (kind === BUCKET) {
      if (!bucketRuns(end, now)) n = 0
      end = bucketEnd(end, now, perMs)
    } else {
      if (!fixedRuns(end, now)) n = 0
      end = fixedEnd(now, perMs)
    }

    let allowance = allowed
    let smoothed: Standing['smoothed'] = null
    if (slope !== null) {
      const held = heldAllowance(real[r + CURRENT]!, real[r + SEEN]!, now, allowed, slope)
      allowance = nextAllowance(held, real[r + NEXT_AT]!, now, n, allowed, slope)
      if (allowance !== held) {
        real[r + NEXT_AT] = now + slope.delayMs
        if (held !== 0) smoothed = allowance > held ? 'up' : 'down'
      }
      real[r + CURRENT] = allowance
    } else real[r + CURRENT] = 0

    const passes = n < allowance
    if (kind === LOG) {
      if (passes || limit.countsRefused) {
        // Of more requests than the rate, the newest decide alone.
        for (; n >= allowed; n--) first = logs.dropOldest(first)
        if (logs.full) {
          // The log goes on from what is stored.
          whole[w + ASIDE] = first
          while (logs.full && freeLog(number));
          for (; logs.full && n > 0; n--) first = logs.dropOldest(first)
        }
        first = logs.append(first, now)
        n++
        end = now + perMs
      }
      whole[w + ASIDE] = first
      if (slope !== null) end = Math.max(end, now + 2 * slope.delayMs)
    } else {
      if (passes) n++
      whole[w + ASIDE] = slope === null ? 0 : Math.min(Math.ceil(slope.delayMs / 500), 0x7fffffff)
    }
    real[r + COUNT] = n
    real[r + END] = end
    real[r + SEEN] = now
    const remaining = passes ? allowance - n : 0
    const reset = kind !== LOG ? end : logReset(first, n, allowance, now, perMs)
    standings.push({ allowed: allowance, remaining, reset, smoothed })
    return passes
  }

  function logReset(first: number, n: number, allowance: number, now: number, perMs: number): number {
    const blocker = logBlocker(n, allowance)
    return blocker < 0 ? now : logs.timeAt(first, blocker) + perMs
  }

  function lookQuota(limit: Charge, now: number, standings: Standing[]): boolean {
    const number = records.find(limit)
    const known = number >= 0 && kindAt(number) === QUOTA
    const before = known ? pages.of(number).real[pages.at(number) + END]! : -Infinity
    const runs = quotaRuns(before, now)
    const { allowed } = limit
    const remaining = Math.max(0, allowed - (runs ? pages.of(number).real[pages.at(number) + COUNT]! : 0))
    const end = runs ? quotaEnd(before, now, limit.perMs) : 0
    standings.push({ allowed, remaining, reset: end === Infinity ? 0 : end, smoothed: null })
    return remaining > 0
  }

  function lookRate(limit: Charge, now: number, standings: Standing[]): boolean {
    const { allowed, perMs, slope } = limit
    const kind = kindOfRate(limit)
    const number = records.find(limit)
    const known = number >= 0 && kindAt(number) === kind
    const { whole, real } = known ? pages.of(number) : none
    const r = known ? pages.at(number) : 0

    let n = real[r + COUNT]!
    let reset = 0
    let first = 0
    let left = 0
    if (kind === LOG) {
      first = whole[r * 2 + ASIDE]!
      if (first !== 0) {
        const newest = logs.newest(first)
        const bound = logBound(now, perMs)
        left = newest <= bound || newest > now ? n : logs.countUntil(first, bound)
      }
      n -= left
    } else if (kind === BUCKET) {
      if (bucketRuns(real[r + END]!, now)) reset = bucketEnd(real[r + END]!, now, perMs)
      else n = 0
    } else {
      if (!fixedRuns(real[r + END]!, now)) n = 0
      reset = fixedEnd(now, perMs)
    }

    let allowance = allowed
    if (slope !== null) {
      const held = heldAllowance(real[r + CURRENT]!, real[r + SEEN]!, now, allowed, slope)
      allowance = nextAllowance(held, real[r + NEXT_AT]!, now, n, allowed, slope)
    }
    const remaining = Math.max(0, allowance - n)
    if (kind === LOG) reset = remaining > 0 ? now : logs.timeAt(first, left + logBlocker(n, allowance)) + perMs
    standings.push({ allowed: allowance, remaining, reset, smoothed: null })
    return remaining > 0
  }

  /** The record of this id, if it is a quota that changed since the last dump, or -1. */
  function findChanged(words: Words): number {
    const number = records.find(words)
    return number >= 0 && pages.of(number).whole[pages.at(number) * 2 + KIND] === (QUOTA | CHANGED) ? number : -1
  }

  return {
    charge(limits, units = 1) {
      const now = moment()
      const standings: Standing[] = []
      for (let i = 0; i < limits.length; i++) {
        const limit = limits[i]!
        const passes =
          limit.kind === 'quota' ? chargeQuota(limit, now, standings, units) : chargeRate(limit, now, standings)
        if (!passes) return { refused: i, standings, now }
      }
      return { refused: -1, standings, now }
    },

    look(limits) {
      const now = moment()
      const standings: Standing[] = []
      for (let i = 0; i < limits.length; i++) {
        const limit = limits[i]!
        const passes = limit.kind === 'quota' ? lookQuota(limit, now, standings) : lookRate(limit, now, standings)
        if (!passes) return { refused: i, standings, now }
      }
      return { refused: -1, standings, now }
    },

    forget(ids) {
      for (const id of ids) {
        const words = wordsOf(id)
        const number = records.find(words)
        const isRate = number >= 0 && kindAt(number) !== QUOTA
        if (number >= 0) remove(number)
        // An unknown id may be a quota that left this memory and still lies in the ledger.
        if (isRate) continue
        if (forgotten.size >= maxEntries) forgotten.delete(forgotten.keys().next().value!)
        forgotten.set(id, words)
      }
    },

    dump(limit = Infinity) {
      const states: CounterState[] = []
      for (const [id, words] of forgotten) {
        if (states.length >= limit) return states
        forgotten.delete(id)
        // Counted again since: it comes with the changed ones.
        if (findChanged(words) < 0) states.push({ id, count: 0, renews: 0 })
      }
      let i = 0
      for (; i < changed.length && states.length < limit; i++) {
        const number = findChanged(changed[i]!)
        if (number < 0) continue
        const { whole, real } = pages.of(number)
        const r = pages.at(number)
        whole[r * 2 + KIND] = QUOTA
        const end = real[r + END]!
        states.push({ id: changed[i]!.id, count: real[r + COUNT]!, renews: end === Infinity ? 0 : end })
      }
      changed = changed.slice(i)
      return states
    },

    restore(states) {
      const now = moment()
      for (const { id, count, renews } of states) {
        const end = renews === 0 ? Infinity : renews
        if (!quotaRuns(end, now) || count <= 0) continue
        const number = place(wordsOf(id), QUOTA, now)
        const { real } = pages.of(number)
        const r = pages.at(number)
        const runs = quotaRuns(real[r + END]!, now)
        real[r + COUNT] = runs ? Math.max(real[r + COUNT]!, count) : count
        real[r + END] = runs ? Math.min(real[r + END]!, end) : end
        real[r + SEEN] = now
      }
    },

    size: () => ({ entries: records.used, bytes: records.bytes, logBytes: logs.bytes })
  }
}

/** What an unknown counter looks like. */
const none = { whole: new Int32Array(16), real: new Float64Array(8) }
none.real[SEEN] = -Infinity
none.real[END] = -Infinity

function kindOfRate(limit: Charge): number {
  return limit.algorithm === 'bucket' ? BUCKET : limit.algorithm === 'fixed_window' ? FIXED : LOG
}
