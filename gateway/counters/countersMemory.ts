import type { Clock } from '../../config/world.ts'
import { quotaEnd, quotaRuns } from '../limits/quota.ts'
import { bucketEnd, bucketRuns, fixedEnd, fixedRuns, logBlocker, logBound } from '../limits/rate.ts'
import { heldAllowance, nextAllowance } from '../limits/smoothing.ts'
import { changedQuotas } from './changed.ts'
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
import { Lock } from './lock.ts'
import { Logs } from './logs.ts'
import { LATEST, type MemoryOptions, type SharedCounters, sharedCounters } from './memory.ts'
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

export interface ThreadOptions {
  readonly clock: Pick<Clock, 'now'>
  /** The same for all threads; what it was made with counts. */
  readonly shared: SharedCounters
  /** The number of this thread, 0 (the main one) to 2^23 - 1: no two that live have the same. After its end: `repair`. */
  readonly owner: number
}

/** `Counters` whose answers are never promises. */
export interface CountersMemory extends Counters {
  charge(limits: readonly Charge[], units?: number): Verdict
  look(limits: readonly Charge[]): Verdict
  forget(ids: readonly string[]): void
  /**
   * With threads: of the quotas that this thread was the first to charge since somebody's last dump, and the ids that it
   * forgot; each in its newest state, whoever charged it last. All threads must dump. States of several threads may reach
   * the ledger in another order than they were taken; `adopt` avoids that.
   */
  dump(limit?: number): readonly CounterState[]
  /**
   * Takes over what another thread dumped: it comes with this thread's next dumps, in the state of that time, whoever has
   * charged it since: so one thread alone writes the ledger, and what was forgotten since stays forgotten.
   */
  adopt(states: readonly CounterState[]): void
  restore(states: readonly CounterState[]): void
  /** How many counters are held, ended ones included, and the bytes that they and their logs lie in. */
  size(): { entries: number; bytes: number; logBytes: number }
}

/**
 * Counters in this process: exact, synchronous, bounded, outside of the heap. Several threads count together where each
 * makes its own of one `shared`: a charge or look is then one step among those of all threads. Without `shared` nothing
 * is locked.
 */
export function countersMemory(options: MemoryOptions | ThreadOptions): CountersMemory {
  const isShared = 'shared' in options
  const memory = isShared ? options.shared : sharedCounters(options)
  const owner = isShared ? options.owner : 0
  const lock = isShared ? new Lock(memory, owner) : null
  const { clock } = options
  const records = new Records(memory)
  const logs = new Logs(memory)
  const { whole, real } = records
  const times = new Float64Array(memory.state, 0, LATEST + 1)
  const { kindAt, clear, remove, makeRoom, freeLog } = leaving(records, logs, new Int32Array(memory.state))
  const { mark, list, noteForgotten, dump, adopt } = changedQuotas(records, lock, owner)
  /** Standings as numbers: objects are made of them after the lock, since the garbage collector may come in between. */
  let told = new Float64Array(4 * TOLD)

  // A system clock that is set back by little stands still instead; one set back by more is followed. Asked under the
  // lock: a thread that waited would bring a time from before.
  function moment(): number {
    const now = Math.floor(clock.now())
    const latest = times[LATEST]!
    if (now <= latest && latest - now <= 1000) return latest
    times[LATEST] = now
    return now
  }

  /** The record of this id, new or as it was. */
  function place(words: Words, kind: number, now: number): number {
    const found = records.find(words)
    if (found === 0) {
      makeRoom(now)
      return records.add(words, kind)
    }
    // Another algorithm than before: what it counted says nothing to this one.
    if (kindAt(found) !== kind) clear(found, kind)
    return found
  }

  function chargeQuota(limit: Charge, now: number, units: number, at: number): boolean {
    const r = place(limit, QUOTA, now) * 8
    const before = real[r + END]!
    const count = quotaRuns(before, now) ? real[r + COUNT]! + units : units
    const end = quotaEnd(before, now, limit.perMs)
    real[r + COUNT] = count
    real[r + END] = end
    real[r + SEEN] = now
    const isListed = (whole[r * 2 + KIND]! & CHANGED) !== 0
    if (!isListed) whole[r * 2 + KIND] = mark
    const { allowed } = limit
    tell(at, allowed, Math.max(0, allowed - count), end === Infinity ? 0 : end)
    told[at + TO_LIST] = isListed ? 0 : 1
    return count <= allowed
  }

  function chargeRate(limit: Charge, now: number, at: number): boolean {
    const { allowed, perMs, slope } = limit
    const kind = kindOfRate(limit)
    const number = place(limit, kind, now)
    const r = number * 8
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
    let smoothed = 0
    if (slope !== null) {
      const held = heldAllowance(real[r + CURRENT]!, real[r + SEEN]!, now, allowed, slope)
      allowance = nextAllowance(held, real[r + NEXT_AT]!, now, n, allowed, slope)
      if (allowance !== held) {
        real[r + NEXT_AT] = now + slope.delayMs
        if (held !== 0) smoothed = allowance > held ? 1 : -1
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
    tell(at, allowance, remaining, reset)
    told[at + SMOOTHED] = smoothed
    return passes
  }

  function logReset(first: number, n: number, allowance: number, now: number, perMs: number): number {
    const blocker = logBlocker(n, allowance)
    return blocker < 0 ? now : logs.timeAt(first, blocker) + perMs
  }

  function lookQuota(limit: Charge, now: number, at: number): boolean {
    const r = known(limit, QUOTA) * 8
    const before = real[r + END]!
    const runs = quotaRuns(before, now)
    const { allowed } = limit
    const remaining = Math.max(0, allowed - (runs ? real[r + COUNT]! : 0))
    const end = runs ? quotaEnd(before, now, limit.perMs) : 0
    tell(at, allowed, remaining, end === Infinity ? 0 : end)
    return remaining > 0
  }

  function lookRate(limit: Charge, now: number, at: number): boolean {
    const { allowed, perMs, slope } = limit
    const kind = kindOfRate(limit)
    const r = known(limit, kind) * 8

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
    tell(at, allowance, remaining, reset)
    return remaining > 0
  }

  /** The record of this id, or the empty one where it counts something else. */
  function known(words: Words, kind: number): number {
    const number = records.find(words)
    return kindAt(number) === kind ? number : 0
  }

  function tell(at: number, allowed: number, remaining: number, reset: number): void {
    told[at] = allowed
    told[at + REMAINING] = remaining
    told[at + RESET] = reset
    told[at + SMOOTHED] = 0
    told[at + TO_LIST] = 0
  }

  function verdict(length: number, refused: number, now: number): Verdict {
    const standings: Standing[] = []
    for (let at = 0; standings.length < length; at += TOLD) {
      const smoothed = told[at + SMOOTHED]!
      standings.push({
        allowed: told[at]!,
        remaining: told[at + REMAINING]!,
        reset: told[at + RESET]!,
        smoothed: smoothed === 0 ? null : smoothed > 0 ? 'up' : 'down'
      })
    }
    return { refused, standings, now }
  }

  return {
    charge(limits, units = 1) {
      const { length } = limits
      if (length * TOLD > told.length) told = new Float64Array(length * TOLD)
      let i = 0
      let passes = true
      let now = 0
      lock?.enter()
      try {
        now = moment()
        for (; i < length && passes; i++) {
          const limit = limits[i]!
          passes = limit.kind === 'quota' ? chargeQuota(limit, now, units, i * TOLD) : chargeRate(limit, now, i * TOLD)
        }
      } finally {
        lock?.leave()
      }
      for (let j = 0; j < i; j++) if (told[j * TOLD + TO_LIST] !== 0) list(limits[j]!)
      return verdict(i, passes ? -1 : i - 1, now)
    },

    look(limits) {
      const { length } = limits
      if (length * TOLD > told.length) told = new Float64Array(length * TOLD)
      let i = 0
      let passes = true
      let now = 0
      lock?.enter()
      try {
        now = moment()
        for (; i < length && passes; i++) {
          const limit = limits[i]!
          passes = limit.kind === 'quota' ? lookQuota(limit, now, i * TOLD) : lookRate(limit, now, i * TOLD)
        }
      } finally {
        lock?.leave()
      }
      return verdict(i, passes ? -1 : i - 1, now)
    },

    forget(ids) {
      for (const id of ids) {
        const words = wordsOf(id)
        lock?.enter()
        const number = records.find(words)
        const isRate = number !== 0 && kindAt(number) !== QUOTA
        if (number !== 0) remove(number)
        lock?.leave()
        // An unknown id may be a quota that left this memory and still lies in the ledger.
        if (!isRate) noteForgotten(id, words)
      }
    },

    dump: (limit = Infinity) => dump(limit),
    adopt,

    restore(states) {
      for (const { id, count, renews } of states) {
        const end = renews === 0 ? Infinity : renews
        if (count <= 0) continue
        const words = wordsOf(id)
        lock?.enter()
        try {
          const now = moment()
          if (!quotaRuns(end, now)) continue
          const r = place(words, QUOTA, now) * 8
          const runs = quotaRuns(real[r + END]!, now)
          real[r + COUNT] = runs ? Math.max(real[r + COUNT]!, count) : count
          real[r + END] = runs ? Math.min(real[r + END]!, end) : end
          real[r + SEEN] = now
        } finally {
          lock?.leave()
        }
      }
    },

    size: () => ({ entries: records.used, bytes: records.bytes, logBytes: logs.bytes })
  }
}

// A standing as numbers; the first is what is allowed.
const REMAINING = 1
const RESET = 2
/** 1: up, -1: down. */
const SMOOTHED = 3
/** 1: a quota that bears this thread's mark since this charge. */
const TO_LIST = 4
const TOLD = 5

function kindOfRate(limit: Charge): number {
  return limit.algorithm === 'bucket' ? BUCKET : limit.algorithm === 'fixed_window' ? FIXED : LOG
}
