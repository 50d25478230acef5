import type { Clock } from '../../config/world.ts'
import type { No } from '../refusals.ts'
import type { Result } from './answers.ts'

/** The answer to a request. */
export type Outcome = No | { readonly status: number; readonly pairs: readonly string[]; readonly body: Buffer | null }

/** What a request of several messages came to when some of them failed; null: not delivered, to be sent again. */
export interface Partial {
  readonly results: readonly (Result | null)[]
}

/** Called once with the first one's outcome; null: it came to none that is final, so another may try. */
export type Waiter = (outcome: Outcome | null) => void

/**
 * `yours`: nobody has tried; who claims must settle, with a `Partial` too: then a part of its messages has arrived before.
 * `other`: the key came with another request. `waiting`: the waiter will be called. `crowded`: too many wait for that.
 * `away`: nobody can say now; nothing was claimed.
 */
export type Claim = 'yours' | 'other' | 'waiting' | 'crowded' | 'away' | Outcome | Partial

/**
 * The port behind which lies what came of requests that carried an idempotency key. `rememberedMemory` and the gateway's
 * `rememberedRedis` pass `test/contract/remembered.ts`.
 */
export interface Remembered {
  /**
   * Never rejects.
   * @param digest tells one request from another
   */
  claim(id: string, digest: string, waiter: Waiter): Claim | Promise<Claim>
  /** Null: not final, forgotten, but for what `partial` says. */
  settle(id: string, outcome: Outcome | null, partial?: Partial | null): void
}

export interface Bounds {
  readonly ageMs: number
  readonly entries: number
  readonly bytes: number
}

/** How long an outcome is kept. */
export const KEPT_MS = 600_000
const DEFAULTS: Bounds = { ageMs: KEPT_MS, entries: 100_000, bytes: 67_108_864 }
export const MOST_WAITERS = 100
/** Of an entry without its texts, estimated. */
const OVERHEAD = 256
/** Of one message's result, estimated. */
const RESULT = 128

interface Kept {
  readonly digest: string
  readonly outcome: Outcome | Partial
  readonly until: number
  readonly size: number
}

interface UnderWay {
  readonly digest: string
  readonly waiters: Waiter[]
}

/** In this process alone: the oldest leave first. Those under way are bounded by whoever has them under way. */
export function rememberedMemory(clock: Clock, bounds: Bounds = DEFAULTS): Remembered {
  const underWay = new Map<string, UnderWay>()
  /** In order of their age. */
  const kept = new Map<string, Kept>()
  let bytes = 0

  function drop(id: string, { size }: Kept): void {
    kept.delete(id)
    bytes -= size
  }

  function tidy(): void {
    const now = clock.now()
    for (const [id, entry] of kept) {
      if (entry.until > now && kept.size <= bounds.entries && bytes <= bounds.bytes) return
      drop(id, entry)
    }
  }

  return {
    claim(id, digest, waiter) {
      tidy()
      const done = kept.get(id)
      if (done !== undefined) {
        if (done.digest !== digest) return 'other'
        if (!('results' in done.outcome)) return done.outcome
        drop(id, done)
        underWay.set(id, { digest, waiters: [] })
        return done.outcome
      }
      const first = underWay.get(id)
      if (first === undefined) {
        underWay.set(id, { digest, waiters: [] })
        return 'yours'
      }
      if (first.digest !== digest) return 'other'
      if (first.waiters.length >= MOST_WAITERS) return 'crowded'
      first.waiters.push(waiter)
      return 'waiting'
    },
    settle(id, outcome, partial = null) {
      const { digest, waiters } = underWay.get(id)!
      underWay.delete(id)
      const result = outcome ?? partial
      if (result !== null) {
        const size = OVERHEAD + id.length + digest.length + sizeOf(result)
        kept.set(id, { digest, outcome: result, until: clock.now() + bounds.ageMs, size })
        bytes += size
        tidy()
      }
      for (const waiter of waiters) waiter(outcome)
    }
  }
}

function sizeOf(what: Outcome | Partial): number {
  if ('results' in what) return RESULT * what.results.length
  const body = 'code' in what ? what.message.length : (what.body?.length ?? 0)
  return body + what.pairs.reduce((sum, text) => sum + text.length, 0)
}
