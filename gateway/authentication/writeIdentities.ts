import type { Key } from '../../config/shape/key.ts'
import type { Clock, Log } from '../../config/world.ts'
import type { Changes } from '../changes/changes.ts'
import type { KeyRecord } from '../keys/keys.ts'
import { Conflict, type Revision, type Sequence, type Store, Unavailable, type Write } from '../store/store.ts'

/** A session as it is known here and as it stands in the store. */
export interface Kept {
  /** Storage id. */
  readonly id: string
  readonly org: string
  /** What is to be written; null: nothing counts. */
  record: KeyRecord | null
  /** As the store has it, if it counts. */
  stored: Key | null
  /** Of the document in the store; 0: there is none. */
  rev: Revision
  sequence: Sequence
  /** When it was written last, by whomever; milliseconds since the epoch. */
  writtenAt: number
}

export interface WritingGiven {
  readonly store: Pick<Store, 'get' | 'commit'>
  readonly changes: Pick<Changes, 'publish'>
  readonly clock: Clock
  readonly log: Log
  /** Somebody else has written this one: it must be read again. */
  readonly onConflict: (kept: Kept) => void
  readonly onWritten: () => void
}

/** From the first that waits to the commit: what comes in between goes along. */
const BEHIND_MS = 200
const BATCH = 500
/** Beyond, sessions are not kept for now; their next request tries again. */
const MOST_WAITING = 10_000
/** A store that just failed is not asked again. */
const AWAY_MS = 2_000
/** Commits of one batch while others get ahead. */
const MOST_TRIES = 5
/** What is still to be written when the gateway stops. */
const CLOSE_MS = 2_000

/** Writes sessions behind requests: batched, bounded, one commit at a time. */
export class WriteIdentities {
  readonly #given: WritingGiven
  readonly #waiting = new Map<string, Kept>()
  #cancel: (() => void) | null = null
  #writing: Promise<void> | null = null
  #isFailing = false
  #isClosed = false

  constructor(given: WritingGiven) {
    this.#given = given
  }

  /** False: too many wait, so it is not going to be written. */
  queue(kept: Kept): boolean {
    if (this.#waiting.size >= MOST_WAITING && !this.#waiting.has(kept.id)) return false
    this.#waiting.set(kept.id, kept)
    this.#plan(BEHIND_MS)
    return true
  }

  /** Writes what waits, if the store takes it in time. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancel?.()
    const { promise: late, resolve } = Promise.withResolvers<void>()
    const cancel = this.#given.clock.after(CLOSE_MS, resolve)
    await Promise.race([this.#rest(), late])
    cancel()
  }

  async #rest(): Promise<void> {
    await this.#writing
    if (this.#waiting.size > 0) await this.#write()
    while (this.#waiting.size > 0 && !this.#isFailing) await this.#write()
  }

  #plan(ms: number): void {
    if (this.#isClosed || this.#cancel !== null || this.#writing !== null) return
    this.#cancel = this.#given.clock.after(ms, () => {
      this.#cancel = null
      this.#writing = this.#write().finally(() => {
        this.#writing = null
        if (this.#waiting.size > 0) this.#plan(this.#isFailing ? AWAY_MS : 0)
      })
    })
  }

  async #write(): Promise<void> {
    const { log } = this.#given
    const batch = [...this.#waiting.values()].slice(0, BATCH)
    for (const { id } of batch) this.#waiting.delete(id)
    try {
      await this.#commit(batch)
      if (this.#isFailing) log.info('sessions of callers are written again')
      this.#isFailing = false
    } catch (cause) {
      // A fault would come again with the same sessions: they are dropped, their next request makes them anew.
      const passes = cause instanceof Unavailable
      for (const kept of batch)
        if (!passes) this.#given.onConflict(kept)
        else if (!this.#waiting.has(kept.id)) this.#waiting.set(kept.id, kept)
      if (!this.#isFailing) log.warn('sessions of callers cannot be written', { cause: (cause as Error).message })
      this.#isFailing = passes
    }
  }

  async #commit(batch: readonly Kept[]): Promise<void> {
    const { store, changes, clock, onConflict, onWritten } = this.#given
    let rest = batch.filter(({ record }) => record !== null)
    for (let tries = 0; rest.length > 0; tries++) {
      const records = rest.map(({ record }) => record!)
      const writes = rest.map(
        ({ id, org, rev }, i): Write => ({ kind: 'key', id, org, body: records[i]!, expect: rev })
      )
      try {
        const sequence = await store.commit(writes)
        for (const [i, kept] of rest.entries()) {
          kept.rev++
          kept.sequence = sequence
          kept.stored = records[i]!.key
          kept.writtenAt = clock.now()
        }
        onWritten()
        await changes.publish(rest.map(({ id }) => ({ sequence, kind: 'key', id, deleted: false })))
        return
      } catch (cause) {
        if (!(cause instanceof Conflict)) throw cause
        const present = await Promise.all(rest.map(({ id }) => store.get('key', id)))
        const isAhead = (kept: Kept, i: number) => (present[i]?.rev ?? 0) !== kept.rev || tries >= MOST_TRIES
        const [ahead = [], still = []] = parted(rest, isAhead)
        for (const kept of ahead) onConflict(kept)
        rest = still
      }
    }
  }
}

function parted<T>(all: readonly T[], isFirst: (one: T, i: number) => boolean): [T[], T[]] {
  const first: T[] = []
  const second: T[] = []
  for (const [i, one] of all.entries()) (isFirst(one, i) ? first : second).push(one)
  return [first, second]
}
