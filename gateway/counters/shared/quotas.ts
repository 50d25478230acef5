import { quotaRuns } from '../../limits/quota.ts'
import type { Charge, CounterState, Standing } from '../counters.ts'

/** Then the longest known leaves. */
const MOST = 200_000

interface Quota {
  /** In Redis, as far as this process knows. */
  count: number
  /** End of the period, on the remote clock; Infinity: never; -Infinity: none has begun. */
  end: number
  /** Counted here and not yet added there. */
  own: number
  /** In which age Redis or the ledger told of it last; 0: never. */
  toldIn: number
}

/** What this process knows of the quotas that it counted, and what it counted itself while Redis was away. */
export class Quotas {
  readonly #quotas = new Map<string, Quota>()
  readonly #unadded = new Set<string>()
  #age = 1

  /** Redis is gone: what is known of any quota may be old, as others count as well. */
  doubt(): void {
    this.#age++
  }

  /** Redis answered this. */
  answered({ id, allowed }: Charge, { remaining, reset }: Standing): void {
    const quota = this.#of(id)
    quota.count = allowed - remaining
    quota.end = reset === 0 ? Number.POSITIVE_INFINITY : reset
    quota.toldIn = this.#age
  }

  isTold(id: string): boolean {
    return this.#quotas.get(id)?.toldIn === this.#age
  }

  /**
   * The ledger had this, or nothing. What Redis answered since is newer. Of a period that runs, the higher count and the
   * earlier end win, as everywhere (`Counters.restore`).
   * @param there the remote clock
   */
  learnt(id: string, state: CounterState | null, there: number): void {
    const quota = this.#of(id)
    if (quota.toldIn === this.#age) return
    quota.toldIn = this.#age
    if (state === null) return
    const end = state.renews === 0 ? Number.POSITIVE_INFINITY : state.renews
    if (!quotaRuns(end, there)) return
    if (quotaRuns(quota.end, there)) {
      quota.count = Math.max(quota.count, state.count)
      quota.end = Math.min(quota.end, end)
      return
    }
    quota.count = state.count
    quota.own = 0
    quota.end = end
  }

  /**
   * Counts it here, if it fits.
   * @param there the remote clock
   * @param processes those that share what is left; null: it passes in any case
   */
  charge(limit: Charge, units: number, there: number, processes: number | null): Standing & { passes: boolean } {
    const quota = this.#of(limit.id)
    if (!quotaRuns(quota.end, there)) {
      quota.count = 0
      quota.own = 0
      quota.end = there + limit.perMs
    }
    const share = shareOf(limit.allowed - quota.count, processes)
    const passes = processes === null || quota.own + units <= share
    if (passes) {
      quota.own += units
      this.#unadded.add(limit.id)
    }
    return { ...stands(limit.allowed, share - quota.own, quota.end), passes }
  }

  look(limit: Charge, there: number, processes: number | null): Standing {
    const quota = this.#quotas.get(limit.id)
    if (quota === undefined || !quotaRuns(quota.end, there))
      return stands(limit.allowed, shareOf(limit.allowed, processes), Number.POSITIVE_INFINITY)
    return stands(limit.allowed, shareOf(limit.allowed - quota.count, processes) - quota.own, quota.end)
  }

  /** What was counted here was counted in Redis as well. What was added there already stays twice. */
  uncount(id: string, units: number): void {
    const quota = this.#quotas.get(id)
    if (quota !== undefined) quota.own = Math.max(0, quota.own - units)
  }

  /** Units that were taken there stand for what was counted here. Answers how many of them do. */
  cover(id: string, units: number): number {
    const covered = Math.min(units, this.#quotas.get(id)?.own ?? 0)
    if (covered > 0) this.uncount(id, covered)
    return covered
  }

  /** Nothing waits to be added. */
  get isAdded(): boolean {
    return this.#unadded.size === 0
  }

  /** At most `limit` of what is to be added. */
  unadded(limit: number): readonly CounterState[] {
    const states: CounterState[] = []
    for (const id of this.#unadded) {
      if (states.length >= limit) break
      const quota = this.#quotas.get(id)
      if (quota === undefined || quota.own === 0) this.#unadded.delete(id)
      else states.push({ id, count: quota.own, renews: renewsOf(quota) })
    }
    return states
  }

  /** These were added. What was counted meanwhile is not among them. */
  added(states: readonly CounterState[]): void {
    for (const { id, count, renews } of states) {
      const quota = this.#quotas.get(id)
      if (quota === undefined) this.#unadded.delete(id)
      if (quota === undefined || renewsOf(quota) !== renews) continue
      quota.count += count
      quota.own = Math.max(0, quota.own - count)
      if (quota.own === 0) this.#unadded.delete(id)
    }
  }

  /** How quotas stand that nobody will add any more. */
  leftOver(limit: number): readonly CounterState[] {
    const states = this.unadded(limit).map(({ id, renews }) => {
      const { count, own } = this.#quotas.get(id)!
      return { id, count: count + own, renews }
    })
    for (const { id } of states) this.#unadded.delete(id)
    return states
  }

  forget(ids: readonly string[]): void {
    for (const id of ids) {
      this.#quotas.delete(id)
      this.#unadded.delete(id)
    }
  }

  #of(id: string): Quota {
    let quota = this.#quotas.get(id)
    if (quota === undefined) {
      if (this.#quotas.size >= MOST) this.forget([this.#quotas.keys().next().value!])
      quota = { count: 0, end: Number.NEGATIVE_INFINITY, own: 0, toldIn: 0 }
      this.#quotas.set(id, quota)
    }
    return quota
  }
}

function renewsOf({ end }: Quota): number {
  return Number.isFinite(end) ? end : 0
}

/** Rounded down: all shares together are never more than what is left. */
function shareOf(left: number, processes: number | null): number {
  return Math.max(0, processes === null ? left : Math.floor(left / processes))
}

function stands(allowed: number, remaining: number, end: number): Standing {
  return { allowed, remaining: Math.max(0, remaining), reset: Number.isFinite(end) ? end : 0, smoothed: null }
}
