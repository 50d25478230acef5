import type { Charge, CounterState } from '../counters.ts'
import type { Moments } from './moments.ts'
import type { Quotas } from './quotas.ts'

/** What the store keeps of quotas, as far as counting asks for it. */
export interface KeptQuotas {
  /** Null: nothing. */
  find(id: string): CounterState | null | Promise<CounterState | null>
  forget(ids: readonly string[]): Promise<void>
}

export interface LearningTools {
  readonly kept: KeptQuotas | undefined
  readonly quotas: Quotas
  readonly moments: Moments
  /** An answer is waited for no longer than this, whoever asks: behind it, others go on without. */
  readonly budgetMs: number
}

interface Asked {
  readonly at: number
  readonly answer: Promise<void>
}

/** Asks the ledger how quotas stood, where this process's own knowledge is missing or stale. */
export class Learning {
  readonly #tools: LearningTools
  /** Asked and not yet answered: nobody else asks the same. */
  readonly #asked = new Map<string, Asked>()

  constructor(tools: LearningTools) {
    this.#tools = tools
  }

  /** A promise: what may be waited for. Null: all that can be known in time is known. */
  learn(limits: readonly Charge[]): Promise<unknown> | null {
    const { kept, quotas, moments, budgetMs } = this.#tools
    if (kept === undefined) return null
    const now = moments.now()
    let waits: Promise<void>[] | null = null
    for (const { id, kind } of limits) {
      if (kind !== 'quota' || quotas.isTold(id)) continue
      const asked = this.#asked.get(id) ?? this.#ask(kept, id, now)
      if (asked === null || now < asked.at || now - asked.at >= budgetMs) continue
      waits ??= []
      waits.push(asked.answer)
    }
    return waits === null ? null : Promise.all(waits)
  }

  /** What is being asked of these says nothing any more. */
  forget(ids: readonly string[]): void {
    for (const id of ids) this.#asked.delete(id)
  }

  #ask(kept: KeptQuotas, id: string, at: number): Asked | null {
    const { quotas, moments } = this.#tools
    const learnt = (state: CounterState | null) => quotas.learnt(id, state, moments.there(moments.now()))
    try {
      const found = kept.find(id)
      if (!(found instanceof Promise)) {
        learnt(found)
        return null
      }
      const answer = found
        .catch(() => null)
        .then(state => {
          if (this.#asked.get(id) !== asked) return
          this.#asked.delete(id)
          learnt(state)
        })
      const asked: Asked = { at, answer }
      this.#asked.set(id, asked)
      return asked
    } catch {
      // The store is away as well: counted from what is known until Redis or the store tells more.
      return null
    }
  }
}
