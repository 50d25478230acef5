import type { CounterState } from '../counters.ts'
import type { Plan, QuotaState } from './plan.ts'

/** Quotas whose newest states wait for a dump; more than so many wait until some have left. */
const MOST = 1_000_000

/** What Redis answered of quotas since the last dump, for the ledger. */
export class Quotas {
  readonly #changed = new Map<string, QuotaState>()
  readonly #forgotten = new Set<string>()

  stands(id: string, plan: Plan, count: number, renews: number): void {
    let state = plan.state
    if (state === null || !state.isChanged) {
      state = this.#changed.get(id) ?? null
      if (state === null) {
        if (this.#changed.size >= MOST) return
        state = { id, count, renews, isChanged: true }
        this.#changed.set(id, state)
        if (this.#forgotten.size > 0) this.#forgotten.delete(id)
      }
      plan.state = state
    }
    state.count = count
    state.renews = renews
  }

  /** Cleared here: the ledger is to hear of it. */
  forget(ids: readonly string[]): void {
    this.drop(ids)
    for (const id of ids)
      if (!/^(?:api-)?rate-/.test(id)) {
        if (this.#forgotten.size >= MOST) this.#forgotten.delete(this.#forgotten.values().next().value!)
        this.#forgotten.add(id)
      }
  }

  /** Cleared by whomever: what was answered before says nothing any more. */
  drop(ids: readonly string[]): void {
    for (const id of ids) {
      const state = this.#changed.get(id)
      if (state === undefined) continue
      state.isChanged = false
      this.#changed.delete(id)
    }
  }

  dump(limit = Number.POSITIVE_INFINITY): CounterState[] {
    const states: CounterState[] = []
    for (const id of this.#forgotten) {
      if (states.length >= limit) return states
      this.#forgotten.delete(id)
      states.push({ id, count: 0, renews: 0 })
    }
    for (const state of this.#changed.values()) {
      if (states.length >= limit) return states
      state.isChanged = false
      this.#changed.delete(state.id)
      states.push({ id: state.id, count: state.count, renews: state.renews })
    }
    return states
  }
}
