import type { Charge, CounterState } from '../counters.ts'
import type { Moments } from './moments.ts'
import type { Quotas } from './quotas.ts'

/** What the store keeps of quotas, as far as counting asks for it. */
export interface KeptQuotas {
  /** Null: nothing. */
  find(id: string): CounterState | null | Promise<CounterState | null>
  forget(ids: readonly string[]): Promise<void>
}

/** Asks the ledger how quotas stood, where this process's own knowledge is missing or stale. */
export class Learning {
  readonly #kept: KeptQuotas | undefined
  readonly #quotas: Quotas
  readonly #moments: Moments
  /** Asked and not yet answered: nobody else asks the same. */
  readonly #asked = new Map<string, Promise<void>>()

  constructor(kept: KeptQuotas | undefined, quotas: Quotas, moments: Moments) {
    this.#kept = kept
    this.#quotas = quotas
    this.#moments = moments
  }

  /** A promise: what may be waited for. Null: all that can be known is known. */
  learn(limits: readonly Charge[]): Promise<unknown> | null {
    if (this.#kept === undefined) return null
    let waits: Promise<void>[] | null = null
    for (const { id, kind } of limits) {
      if (kind !== 'quota' || this.#quotas.isTold(id)) continue
      const asked = this.#asked.get(id) ?? this.#ask(this.#kept, id)
      if (asked === null) continue
      waits ??= []
      waits.push(asked)
    }
    return waits === null ? null : Promise.all(waits)
  }

  /** What is being asked of these says nothing any more. */
  forget(ids: readonly string[]): void {
    for (const id of ids) this.#asked.delete(id)
  }

  #ask(kept: KeptQuotas, id: string): Promise<void> | null {
    const learnt = (state: CounterState | null) => {
      this.#quotas.learnt(id, state, this.#moments.there(this.#moments.now()))
    }
    try {
      const found = kept.find(id)
      if (!(found instanceof Promise)) {
        learnt(found)
        return null
      }
      const asked: Promise<void> = found
        .catch(() => null)
        .then(state => {
          if (this.#asked.get(id) !== asked) return
          this.#asked.delete(id)
          learnt(state)
        })
      this.#asked.set(id, asked)
      return asked
    } catch {
      // The store is away as well: counted from what is known until Redis or the store tells more.
      return null
    }
  }
}
