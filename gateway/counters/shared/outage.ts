import { type Charge, CountersUnavailable, type Standing, type Verdict } from '../counters.ts'
import type { CountersMemory } from '../countersMemory.ts'
import type { Moments } from './moments.ts'
import type { Quotas } from './quotas.ts'
import type { Refusals } from './refusals.ts'

/** One for all: a flood of refusals captures no stacks. */
const unavailable = new CountersUnavailable('limits cannot be checked')

export interface OutageTools {
  readonly local: CountersMemory
  readonly quotas: Quotas
  readonly refusals: Refusals
  readonly moments: Moments
  /** How many processes share each limit. */
  readonly processes: () => number
}

interface Share {
  readonly processes: number
  readonly limit: Charge
}

/** What holds while Redis does not answer: `counters_failure` of the limits, which is the same for all of one request. */
export class Outage {
  readonly #tools: OutageTools
  readonly #shares = new WeakMap<Charge, Share>()

  constructor(tools: OutageTools) {
    this.#tools = tools
  }

  /** @throws CountersUnavailable where the limits say `refuse` */
  charge(limits: readonly Charge[], units: number): Verdict {
    return this.#decide(limits, units)
  }

  /** @throws CountersUnavailable where the limits say `refuse` */
  look(limits: readonly Charge[]): Verdict {
    return this.#decide(limits, null)
  }

  /** @param units null: nothing is counted */
  #decide(limits: readonly Charge[], units: number | null): Verdict {
    const { refusals, moments, local } = this.#tools
    const now = moments.now()
    if (limits.length === 0) return { refused: -1, standings: [], now }
    const policy = limits[0]!.onFailure
    if (policy === 'refuse') throw unavailable
    const processes = policy === 'allow' ? null : this.#tools.processes()
    const refused = processes === null ? null : refusals.find(limits, now)
    if (refused !== null) return refused
    const standings: Standing[] = []
    for (let i = 0; i < limits.length; i++) {
      const limit = limits[i]!
      let passes = true
      if (limit.kind === 'quota') passes = this.#quota(limit, units, now, processes, standings)
      else if (processes === null)
        standings.push({ allowed: limit.allowed, remaining: limit.allowed, reset: 0, smoothed: null })
      else {
        const share = [this.#share(limit, processes)]
        const verdict = units === null ? local.look(share) : local.charge(share)
        standings.push(verdict.standings[0]!)
        passes = verdict.refused < 0
      }
      if (!passes) return { refused: i, standings, now }
    }
    return { refused: -1, standings, now }
  }

  #quota(limit: Charge, units: number | null, now: number, processes: number | null, standings: Standing[]): boolean {
    const { quotas, moments } = this.#tools
    const there = moments.there(now)
    if (units === null) {
      const standing = quotas.look(limit, there, processes)
      standings.push(here(standing, moments))
      return processes === null || standing.remaining > 0
    }
    const { passes, ...standing } = quotas.charge(limit, units, there, processes)
    standings.push(here(standing, moments))
    return passes
  }

  /** The same rate for this process alone: never less than one request. */
  #share(limit: Charge, processes: number): Charge {
    if (processes === 1) return limit
    const known = this.#shares.get(limit)
    if (known?.processes === processes) return known.limit
    const part = (whole: number) => Math.max(1, Math.floor(whole / processes))
    const allowed = part(limit.allowed)
    const { slope } = limit
    const smaller = slope === null ? null : { ...slope, threshold: part(slope.threshold), step: part(slope.step) }
    const made = { ...limit, allowed, slope: smaller !== null && smaller.threshold < allowed ? smaller : null }
    this.#shares.set(limit, { processes, limit: made })
    return made
  }
}

/** A verdict tells one clock, and rates are on ours. */
function here(standing: Standing, moments: Moments): Standing {
  return standing.reset === 0 ? standing : { ...standing, reset: moments.here(standing.reset) }
}
