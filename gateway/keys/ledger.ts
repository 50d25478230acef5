import type { Clock, Log } from '../../config/world.ts'
import type { CounterState, Counters } from '../counters/counters.ts'
import { Conflict, type Document, type Store, type Write } from '../store/store.ts'

export interface LedgerTools {
  readonly counters: Pick<Counters, 'dump' | 'restore'>
  readonly store: Pick<Store, 'get' | 'list' | 'commit'>
  readonly clock: Clock
  readonly log: Log
  /**
   * Whose counters they are. `process`: they lie in this process, and nobody else writes the ledger. `all`: they lie
   * outside, and each process writes what it was answered.
   */
  readonly of?: 'process' | 'all'
}

const EVERY_MS = 1_000
/** Between two looks for periods that ended. */
const SWEEP_MS = 10_000
/** Where several look, each looks more rarely. */
const SHARED_SWEEP_MS = 60_000
/** Clocks of several processes differ: what ended by one of them may run by another. */
const SKEW_MS = 24 * 3_600_000
/** Most documents a commit, and a page. */
const BATCH = 1_000
/** A store that just failed is not waited for again. */
const AWAY_MS = 1_000

/**
 * Keeps quota counters in the store as well, written behind once a second: so that `kill -9`, or a Redis that comes back
 * empty, forgets at most the last second of counting, and `stop` forgets nothing. Counters in memory are read back at
 * start; those outside ask for what they miss.
 */
export class Ledger {
  readonly #counters: LedgerTools['counters']
  readonly #store: LedgerTools['store']
  readonly #clock: Clock
  readonly #log: Log
  readonly #isShared: boolean
  /** Taken from the counters, not yet in the store: the newest state of each; fewer than two batches. */
  readonly #unsaved = new Map<string, CounterState>()
  #cancel: (() => void) | null = null
  #writing: Promise<void> = Promise.resolve()
  #stopped = false
  #isFailing = false
  #sweptAt = 0
  #sweepPage = 1
  #awayUntil = Number.NEGATIVE_INFINITY

  constructor({ counters, store, clock, log, of = 'process' }: LedgerTools) {
    this.#counters = counters
    this.#store = store
    this.#clock = clock
    this.#log = log
    this.#isShared = of === 'all'
  }

  /**
   * Reads counters of this process back, then writes behind until `stop`.
   * @throws Unavailable when the store cannot be read
   */
  async start(): Promise<void> {
    for (let page = 1; !this.#isShared; page++) {
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

  /**
   * How a quota stood when it was kept last; null: nothing is kept. While the store is away as well, nothing is known:
   * a request then waits for neither.
   */
  find(id: string): CounterState | null | Promise<CounterState | null> {
    const unsaved = this.#unsaved.get(id)
    if (unsaved !== undefined) return unsaved.count > 0 ? unsaved : null
    if (this.#clock.now() < this.#awayUntil) return null
    try {
      const found = this.#store.get<CounterState>('ledger', id)
      return found instanceof Promise ? found.then(bodyOf, () => this.#away()) : bodyOf(found)
    } catch {
      return this.#away()
    }
  }

  /**
   * Deletes at once, before the counters outside are cleared: whoever misses them then must find nothing here.
   * @throws Unavailable
   */
  async forget(ids: readonly string[]): Promise<void> {
    await this.#writing
    for (const id of ids) this.#unsaved.delete(id)
    for (let i = 0; i < ids.length; i += BATCH)
      await this.#store.commit(ids.slice(i, i + BATCH).map(id => ({ kind: 'ledger', id, body: null })))
  }

  #away(): null {
    this.#awayUntil = this.#clock.now() + AWAY_MS
    return null
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
      for (let isLast = false; !isLast; ) {
        // What a failing store does not take stays in the counters, but for one batch.
        if (this.#unsaved.size < BATCH) {
          const dumped = await this.#counters.dump(BATCH)
          for (const state of dumped) this.#unsaved.set(state.id, state)
          // What is counted while this is written waits for the next turn: under load there is always something.
          isLast = dumped.length < BATCH
        }
        const states = [...this.#unsaved.values()]
        if (states.length === 0) break
        const writes = this.#isShared ? states.flatMap(raised) : states.map(written)
        if (writes.length > 0) await this.#store.commit(writes)
        for (const state of states) if (this.#unsaved.get(state.id) === state) this.#unsaved.delete(state.id)
      }
      await this.#sweep()
      this.#isFailing = false
    } catch (cause) {
      // The states wait for the next turn; saying so once is enough.
      if (!this.#isFailing) this.#log.error('quota counters cannot be saved', { cause: String(cause) })
      this.#isFailing = true
    }
  }

  /** Deletes ended periods, a page each time. Another process may do the same, or begin one of them anew: then next time. */
  async #sweep(): Promise<void> {
    const now = this.#clock.now()
    if (now - this.#sweptAt < (this.#isShared ? SHARED_SWEEP_MS : SWEEP_MS)) return
    this.#sweptAt = now
    const { documents } = await this.#store.list<CounterState>('ledger', { page: this.#sweepPage, size: BATCH })
    const bound = this.#isShared ? now - SKEW_MS : now
    const ended = documents.filter(({ body }) => body.renews > 0 && body.renews <= bound)
    if (ended.length > 0) await this.#delete(ended)
    // What follows moves up into the places that became free.
    if (documents.length < BATCH) this.#sweepPage = 1
    else if (ended.length === 0) this.#sweepPage++
  }

  async #delete(ended: readonly Document[]): Promise<void> {
    try {
      await this.#store.commit(
        ended.map(({ kind, id, rev }) => ({ kind, id, body: null, ...(this.#isShared && { expect: rev }) }))
      )
    } catch (cause) {
      if (!(cause instanceof Conflict)) throw cause
    }
  }
}

function bodyOf(document: Document<CounterState> | null): CounterState | null {
  return document === null ? null : document.body
}

function written(state: CounterState): Write {
  if (state.count === 0) return { kind: 'ledger', id: state.id, body: null }
  return { kind: 'ledger', id: state.id, org: '', body: state }
}

/** What was forgotten has left the ledger already (`forget`), and others may have begun it anew since. */
function raised(state: CounterState): Write[] {
  return state.count === 0 ? [] : [{ kind: 'ledger', id: state.id, org: '', body: state, raise: true }]
}
