import type { Charge, Standing, Verdict } from '../counters.ts'
import { endOf, type Moments } from './moments.ts'

/** Of each kind; then the longest known leaves. */
const MOST = 100_000
/** Whatever gives units back elsewhere, a client that waits is let through again after this. */
const LONGEST_MS = 60_000

interface Known {
  readonly limit: Charge
  readonly standing: Standing
  /** On our clock. */
  readonly until: number
}

/**
 * Refusals that Redis gave, until their end: a client that goes on knocking costs it nothing. With each, how the limits
 * before it stood: they are told again and not charged.
 */
export class Refusals {
  readonly #moments: Moments
  readonly #refusing = new Map<string, Known>()
  readonly #before = new Map<string, Known>()

  constructor(moments: Moments) {
    this.#moments = moments
  }

  /** The verdict, when one of them is known to refuse still. */
  find(limits: readonly Charge[], now: number): Verdict | null {
    if (this.#refusing.size === 0) return null
    for (let i = 0; i < limits.length; i++) {
      const refusing = known(this.#refusing, limits[i]!, now)
      if (refusing === null) continue
      const standings: Standing[] = []
      for (let before = 0; before < i; before++) {
        const stands = known(this.#before, limits[before]!, now)
        // Without a rest it may refuse itself, and is the one to tell of.
        if (stands === null || stands.standing.remaining === 0) return null
        standings.push(stands.standing)
      }
      standings.push(refusing.standing)
      return { refused: i, standings, now: this.#moments.there(now) }
    }
    return null
  }

  /** @param sent when this verdict was asked for, on our clock */
  remember(limits: readonly Charge[], { refused, standings, now: there }: Verdict, sent: number): void {
    const limit = limits[refused]!
    const standing = standings[refused]!
    if (limit.slope !== null || limit.countsRefused || standing.remaining > 0) return
    const until = Math.min(endOf(standing.reset, sent, there), sent + LONGEST_MS)
    keep(this.#refusing, limit, { ...standing, smoothed: null }, until)
    for (let i = 0; i < refused; i++) {
      const before = standings[i]!
      const isLog = limits[i]!.kind === 'rate' && limits[i]!.algorithm === 'sliding_log'
      const ends = isLog ? until : Math.min(until, endOf(before.reset, sent, there))
      keep(this.#before, limits[i]!, { ...before, smoothed: null }, ends)
    }
  }

  /** Null: all. */
  forget(ids: readonly string[] | null): void {
    if (ids === null) {
      this.#refusing.clear()
      this.#before.clear()
      return
    }
    for (const id of ids) {
      this.#refusing.delete(id)
      this.#before.delete(id)
    }
  }
}

function known(of: Map<string, Known>, limit: Charge, now: number): Known | null {
  const found = of.get(limit.id)
  if (found === undefined) return null
  if (now < found.until && isSame(found.limit, limit)) return found
  of.delete(limit.id)
  return null
}

function keep(of: Map<string, Known>, limit: Charge, standing: Standing, until: number): void {
  of.delete(limit.id)
  if (of.size >= MOST) of.delete(of.keys().next().value!)
  of.set(limit.id, { limit, standing, until })
}

/** What was counted under the one says how the other stands. */
export function isSame(a: Charge, b: Charge): boolean {
  return (
    a === b ||
    (a.kind === b.kind &&
      a.algorithm === b.algorithm &&
      a.allowed === b.allowed &&
      a.perMs === b.perMs &&
      a.slope === b.slope)
  )
}
