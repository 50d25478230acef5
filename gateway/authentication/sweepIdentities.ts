import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock, Log } from '../../config/world.ts'
import type { Changes } from '../changes/changes.ts'
import type { KeyRecord } from '../keys/keys.ts'
import { Conflict, type Document, type Store } from '../store/store.ts'
import { isOver } from './identityKeys.ts'

export interface SweepGiven {
  readonly store: Pick<Store, 'each' | 'commit'>
  readonly changes: Pick<Changes, 'publish'>
  readonly clock: Clock
  readonly log: Log
}

export const SWEEP_MS = 600_000

/**
 * Deletes sessions of callers that are over, from the first that this process has written on and for as long as there
 * are any: all keys are walked through, so seldom, and slice by slice.
 */
export class SweepIdentities {
  readonly #given: SweepGiven
  #cancel: (() => void) | null = null
  #sweeping: Promise<void> | null = null
  #isClosed = false

  constructor(given: SweepGiven) {
    this.#given = given
  }

  /** Sessions were written: they will end some time. */
  plan(): void {
    if (this.#isClosed || this.#cancel !== null || this.#sweeping !== null) return
    this.#cancel = this.#given.clock.after(SWEEP_MS, () => {
      this.#cancel = null
      this.#sweeping = this.#sweep()
        .catch(cause => {
          this.#given.log.warn('sessions of callers that are over cannot be deleted', { cause: cause.message })
          return true
        })
        .then(remain => {
          this.#sweeping = null
          if (remain) this.plan()
        })
    })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancel?.()
    await this.#sweeping
  }

  /** Whether sessions remain. */
  async #sweep(): Promise<boolean> {
    const { store, clock } = this.#given
    let remain = false
    for await (const slice of store.each<KeyRecord>('key', {})) {
      if (this.#isClosed) return remain
      const now = clock.now()
      const over = slice.filter(({ body }) => isOver(body, now))
      if (over.length > 0) await this.#delete(over)
      remain ||= slice.some(({ body }) => body.isIdentity === true && !isOver(body, now))
      await nextTurn()
    }
    return remain
  }

  async #delete(over: readonly Document[]): Promise<void> {
    const { store, changes } = this.#given
    try {
      const sequence = await store.commit(over.map(({ kind, id, rev }) => ({ kind, id, body: null, expect: rev })))
      await changes.publish(over.map(({ kind, id }) => ({ sequence, kind, id, deleted: true })))
    } catch (cause) {
      // One of them lives again, or is gone already: the next round takes the others.
      if (!(cause instanceof Conflict)) throw cause
    }
  }
}
