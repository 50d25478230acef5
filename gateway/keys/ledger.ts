import type { Clock, Log } from '../../config/world.ts'
import type { CounterState, Counters } from '../counters/counters.ts'
import type { Store, Write } from '../store/store.ts'

export interface LedgerTools {
  readonly counters: Pick<Counters, 'dump' | 'restore'>
  readonly store: Pick<Store, 'list' | 'commit'>
  readonly clock: Clock
  readonly log: Log
}

const EVERY_MS = 1_000
/** Between two looks for periods that ended. */
const SWEEP_MS = 10_000
/** Most documents a commit, and a page. */
const BATCH = 1_000

/**
 * Keeps quota counters that lie in memory in the store as well: written behind once a second, read back at start, so
 * that `kill -9` forgets at most the last second of counting and `stop` forgets nothing.
 */
export class Ledger {
  readonly #counters: LedgerTools['counters']
  readonly #store: LedgerTools['store']
  readonly #clock: Clock
  readonly #log: Log
  /** Taken from the counters, not yet in the store: the newest state of each; fewer than two batches. */
  readonly #unsaved = new Map<string, CounterState>()
  #cancel: (() => void) | null = null
  #writing: Promise<void> = Promise.resolve()
  #stopped = false
  #isFailing = false
  #sweptAt = 0
  #sweepPage = 1

  constructor({ counters, store, clock, log }: LedgerTools) {
    this.#counters = counters
    this.#store = store
    this.#clock = clock
    this.#log = log
  }

  /**
   * Reads the counters back, then writes behind until `stop`.
   * @throws Unavailable when the store cannot be read
   */
  async start(): Promise<void> {
    for (let page = 1; ; page++) {
      const { documents } = await this.#store.list<CounterState>('ledger', { page, size: BATCH })
      await this.#counters.restore(documents.map(({ body }) => body))
      if (documents.length < BATCH) break
    }
    this.#next()
  }

  /** Writes what was counted up to now; resolves when it is safe, or the store refused it (which is logged). */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancel?.()
    await this.#writing
    await this.#write()
  }

  #next(): void {
    this.#cancel = this.#clock.after(EVERY_MS, () => {
      this.#writing = this.#write().then(() => {
        if (!this.#stopped) this.#next()
      })
    })
  }

  async #write(): Promise<void> {
    try {
      for (;;) {
        // What a failing store does not take stays in the counters, but for one batch.
        if (this.#unsaved.size < BATCH) {
          for (const state of await this.#counters.dump(BATCH)) this.#unsaved.set(state.id, state)
        }
        const states = [...this.#unsaved.values()]
        if (states.length === 0) break
        await this.#store.commit(states.map(written))
        this.#unsaved.clear()
      }
      await this.#sweep()
      this.#isFailing = false
    } catch (cause) {
      // The states wait for the next turn; saying so once is enough.
      if (!this.#isFailing) this.#log.error('quota counters cannot be saved', { cause: String(cause) })
      this.#isFailing = true
    }
  }

  /** Deletes ended periods, a page each time. Nobody else writes the ledger, so a page cannot change meanwhile. */
  async #sweep(): Promise<void> {
    const now = this.#clock.now()
    if (now - this.#sweptAt < SWEEP_MS) return
    this.#sweptAt = now
    const { documents } = await this.#store.list<CounterState>('ledger', { page: this.#sweepPage, size: BATCH })
    const ended = documents.filter(({ body }) => body.renews > 0 && body.renews <= now)
    if (ended.length > 0) await this.#store.commit(ended.map(({ kind, id }) => ({ kind, id, body: null })))
    // What follows moves up into the places that became free.
    if (documents.length < BATCH) this.#sweepPage = 1
    else if (ended.length === 0) this.#sweepPage++
  }
}

function written(state: CounterState): Write {
  if (state.count === 0) return { kind: 'ledger', id: state.id, body: null }
  return { kind: 'ledger', id: state.id, org: '', body: state }
}
