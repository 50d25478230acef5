import type { Charge, Standing, Verdict } from '../counters.ts'
import type { Remote, Taken } from '../remote.ts'
import { type Breaker, causeOf } from './breaker.ts'
import type { Decision } from './decisions.ts'
import type { Lease, Leases } from './leases.ts'
import type { Moments } from './moments.ts'
import type { Quotas } from './quotas.ts'
import { isSame, type Refusals } from './refusals.ts'

export interface AskingTools {
  readonly remote: Pick<Remote, 'charge' | 'look'>
  readonly leases: Leases
  readonly refusals: Refusals
  readonly quotas: Quotas
  readonly moments: Moments
  /** Opening takes over what still waits. */
  readonly breaker: Breaker
}

/** How one limit of a request is decided: by units in hand, or by Redis. */
interface Part {
  readonly limit: Charge
  readonly units: number
  readonly lease: Lease | null
  /** A unit in hand was set aside; `until` tells of which lease. */
  readonly isReserved: boolean
  readonly until: number
  readonly isTake: boolean
}

/** What a limit counts a request for: a rate counts requests alone. */
function unitsOf({ kind }: Charge, units: number): number {
  return kind === 'quota' ? units : 1
}

/** Decides requests by what this process holds, and by Redis where that does not do. */
export class Asking {
  readonly #tools: AskingTools

  constructor(tools: AskingTools) {
    this.#tools = tools
  }

  /** The verdict, where a refusal or a lease tells it; null: Redis must be asked. */
  atOnce(limits: readonly Charge[], units: number, now: number): Verdict | null {
    const { leases, refusals, moments } = this.#tools
    const refused = refusals.find(limits, now)
    if (refused !== null) return refused
    for (const limit of limits) {
      const lease = limit.mode === 'lease' ? leases.of(limit, now) : null
      if (lease === null || !lease.has(unitsOf(limit, units), now)) return null
    }
    const there = moments.there(now)
    const standings: Standing[] = []
    for (const limit of limits) {
      const lease = leases.get(limit.id)!
      lease.spare -= unitsOf(limit, units)
      standings.push(lease.standing(there))
    }
    return { refused: -1, standings, now: there }
  }

  /**
   * Settles the decision once Redis has answered, or another's take of the same counter.
   * @param behind how many others wait for what it takes
   */
  pursue(decision: Decision, now: number, behind = 0): void {
    const { leases } = this.#tools
    const parts: Part[] = []
    for (const limit of decision.limits) {
      const units = unitsOf(limit, decision.units)
      const lease = leases.of(limit, now)
      const isReserved = lease?.has(units, now) === true
      if (lease !== null && !isReserved && lease.isTaking(now) && !decision.isAlone) {
        lease.waiting.push(decision)
        return
      }
      const until = lease?.until ?? 0
      parts.push({ limit, units, lease, isReserved, until, isTake: lease !== null && !isReserved && !decision.isAlone })
    }
    this.#ask(decision, parts, now, behind)
  }

  #ask(decision: Decision, parts: readonly Part[], now: number, behind: number): void {
    const { leases, remote } = this.#tools
    const limits: Charge[] = []
    const most: number[] = []
    let isLeased = false
    for (const { limit, units, lease, isReserved, isTake } of parts) {
      if (isReserved) {
        lease!.spare -= units
        continue
      }
      limits.push(limit)
      if (isTake) {
        isLeased = true
        most.push(lease!.take(units, now, behind))
        if (now >= lease!.until) leases.return(lease!, now)
      } else most.push(units)
    }
    remote.charge(limits, decision.units, isLeased ? most : null).then(
      taken => this.#answered(decision, parts, taken, now),
      (cause: unknown) => this.#failed(parts, cause)
    )
  }

  #answered(decision: Decision, parts: readonly Part[], taken: Taken, sent: number): void {
    const { refusals, quotas, moments, breaker, leases } = this.#tools
    const { now: there } = taken
    moments.answered(sent, there)
    const standings: Standing[] = []
    let refused = -1
    let asked = 0
    for (let i = 0; i < parts.length; i++) {
      const part = parts[i]!
      const { limit, units, lease } = part
      // Decided without it: spent is what was counted here, and that is counted there now.
      const isCountedHere = i < decision.countedHere
      // Behind the one that refused nothing is spent.
      const isSpent = refused < 0 && (!decision.settled || isCountedHere)
      if (part.isReserved) {
        if (!isSpent) lease!.putBack(units, part.until)
        else if (isCountedHere && limit.kind === 'quota') quotas.uncount(limit.id, units)
        if (refused < 0) standings.push(lease!.standing(there))
        continue
      }
      if (part.isTake) lease!.taken()
      if (refused >= 0) continue
      const standing = taken.standings[asked]!
      if (limit.kind === 'quota') {
        quotas.answered(limit, standing)
        if (isCountedHere && taken.taken[asked]! > 0) quotas.uncount(limit.id, units)
      }
      const isTaken = lease !== null && isSame(lease.limit, limit)
      // In a cluster, what lies before the one that refused was given back.
      const spare = Math.max(0, taken.taken[asked]! - (isSpent ? units : 0))
      if (asked === taken.refused) refused = i
      else if (isTaken && (part.isTake || spare > 0)) {
        const covered = limit.kind === 'quota' ? quotas.cover(limit.id, spare) : 0
        lease.add(spare - covered, standing, sent, there)
      }
      const own = spare > 0 && asked !== taken.refused ? spare : 0
      standings.push(own === 0 ? standing : { ...standing, remaining: standing.remaining + own })
      asked++
    }
    const verdict = { refused, standings, now: there }
    if (refused >= 0 && !leases.get(parts[refused]!.limit.id)?.spare) refusals.remember(decision.limits, verdict, sent)
    if (!decision.settled) {
      breaker.timely()
      decision.settle(verdict)
    }
    this.#wake(parts, refused < 0 ? parts.length : refused)
  }

  /** Asks Redis; what this process holds of a lease is left as well. */
  look(decision: Decision, now: number, limits = decision.limits, before: readonly Standing[] = []): void {
    const { remote, leases, moments, breaker } = this.#tools
    remote.look(limits).then(
      ({ refused, standings, now: there }) => {
        if (decision.settled) return
        const seen = moments.now()
        moments.answered(now, there)
        breaker.timely()
        const all = before.concat(
          standings.map((standing, i) => {
            const lease = leases.get(limits[i]!.id)
            if (lease === undefined || !lease.has(1, seen)) return standing
            return { ...standing, remaining: standing.remaining + lease.spare }
          })
        )
        const passes = refused < 0 || all.at(-1)!.remaining > 0
        if (passes && all.length < decision.limits.length)
          this.look(decision, now, decision.limits.slice(all.length), all)
        else decision.settle({ refused: passes ? -1 : all.length - 1, standings: all, now: there })
      },
      (cause: unknown) => breaker.open(causeOf(cause))
    )
  }

  #failed(parts: readonly Part[], cause: unknown): void {
    const { breaker } = this.#tools
    for (const { lease, units, isReserved, until, isTake } of parts) {
      if (isReserved) lease!.putBack(units, until)
      if (isTake) lease!.taken()
    }
    breaker.open(causeOf(cause))
    this.#wake(parts, 0)
  }

  /**
   * Those that waited for these takes, in their order.
   * @param vain takes from here on brought nothing: waiting for the next one might do the same again
   */
  #wake(parts: readonly Part[], vain: number): void {
    for (const [number, { isTake, lease }] of parts.entries()) {
      if (!isTake || lease!.waiting.length === 0) continue
      const waiting = lease!.waiting
      lease!.waiting = []
      // They are decided without Redis already.
      if (this.#tools.breaker.isOpen) continue
      const now = this.#tools.moments.now()
      for (const [i, decision] of waiting.entries()) {
        if (decision.settled) continue
        const verdict = this.atOnce(decision.limits, decision.units, now)
        if (verdict !== null) {
          decision.settle(verdict)
          continue
        }
        if (number >= vain) decision.isAlone = true
        this.pursue(decision, now, waiting.length - 1 - i)
      }
    }
  }
}
