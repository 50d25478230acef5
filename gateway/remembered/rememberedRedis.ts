import { createHash } from 'node:crypto'
import type { Clock, Log, Random } from '../../config/world.ts'
import {
  type Claim,
  KEPT_MS,
  MOST_WAITERS,
  type Outcome,
  type Partial,
  type Remembered,
  type Waiter
} from '../../streams/produce/remembered.ts'
import { causeOf } from '../redis/faults.ts'
import type { RedisLink } from '../redis/redis.ts'
import { claimScript, lookScript, renewScript, settleScript } from './scripts.ts'
import { outcomeOf, outcomeText, partialOf, partialText } from './stored.ts'

export interface RememberedRedisGiven {
  readonly link: Pick<RedisLink, 'prefix' | 'script' | 'onConnected'>
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly times?: Times
}

export interface Times {
  /** How long an outcome is kept. */
  readonly ageMs: number
  /** So long after its last sign a process that has one under way counts as dead. */
  readonly leaseMs: number
}

const TIMES: Times = { ageMs: KEPT_MS, leaseMs: 10_000 }
/** Longest wait for Redis; who did not answer for so long is not asked for as long again. */
const ANSWER_MS = 1_000
/** Between two looks at what another process has under way, growing. */
const FIRST_LOOK_MS = 20
const LONGEST_LOOK_MS = 250
/** Outcomes that wait for Redis to come back, at most; the oldest leave. */
const MOST_UNWRITTEN = 10_000
const MOST_UNWRITTEN_TEXT = 67_108_864

/** Under way here, or waited for here while another process has it. */
interface Here {
  readonly key: string
  readonly digest: string
  readonly owner: string
  readonly waiters: Waiter[]
  isOurs: boolean
}

/** What Redis does not know yet. */
interface Unwritten extends Pick<Here, 'key' | 'digest' | 'owner'> {
  readonly field: 'f' | 'p' | 'o'
  readonly text: string
  readonly outcome: Outcome | null
  /** Milliseconds since the epoch. */
  readonly until: number
}

export interface RememberedShared extends Remembered {
  /** Ends once nothing is under way: looks at nothing any longer. */
  close(): void
}

/**
 * Shared by all processes through Redis: a request with an idempotency key is sent once, whichever process it comes to.
 * While Redis is away such requests are refused (`away`), since nobody can say whether they came before.
 */
export function rememberedRedis(given: RememberedRedisGiven): RememberedShared {
  const { link, clock, random, log, times = TIMES } = given
  const claims = link.script(claimScript)
  const looks = link.script(lookScript)
  const renews = link.script(renewScript)
  const settles = link.script(settleScript)
  const process = random.bytes(12).toString('base64url')
  let claimed = 0
  const here = new Map<string, Here>()
  /** By id; those that only let go, by their owner. In order of their age. */
  const unwritten = new Map<string, Unwritten>()
  let unwrittenText = 0
  let cancelTend: (() => void) | null = null
  let isAway = false
  let askAt = Number.NEGATIVE_INFINITY
  let isClosed = false
  const stop = link.onConnected(isConnected => {
    if (isConnected && cancelTend !== null) tend()
  })

  /** The first word of the answer says what it is. */
  async function asked(answer: Promise<unknown>): Promise<readonly string[]> {
    const reply = await within(answer)
    return Array.isArray(reply) ? reply.map(String) : [String(reply)]
  }

  function within(answer: Promise<unknown>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const cancel = clock.after(ANSWER_MS, () => {
        askAt = clock.now() + ANSWER_MS
        reject(new Error(`no answer within ${ANSWER_MS} ms`))
      })
      answer.then(
        reply => {
          cancel()
          if (isAway) log.info('idempotency keys are shared again')
          isAway = false
          askAt = Number.NEGATIVE_INFINITY
          resolve(reply)
        },
        cause => {
          cancel()
          reject(cause)
        }
      )
    })
  }

  function failed(cause: unknown): void {
    if (!isAway && !isClosed)
      log.error('idempotency keys cannot be shared: requests that have one are refused', {
        cause: causeOf(cause)
      })
    isAway = true
  }

  function end(id: string, outcome: Outcome | null): void {
    const { waiters } = here.get(id)!
    // First: a waiter may claim it at once.
    here.delete(id)
    for (const waiter of waiters) waiter(outcome)
  }

  async function ask(id: string, mine: Here, waiter: Waiter): Promise<Claim> {
    const { key, digest, owner } = mine
    try {
      const [what, text] = await asked(claims([key], [digest, owner, times.leaseMs]))
      if (what === 'yours' || what === 'partial') {
        const claim = what === 'yours' ? what : partialOf(text!)
        mine.isOurs = true
        tendLater()
        return claim
      }
      if (what === 'busy') {
        mine.waiters.push(waiter)
        watch(id, mine, FIRST_LOOK_MS)
        return 'waiting'
      }
      const outcome = what === 'final' ? outcomeOf(text!) : null
      end(id, outcome)
      return outcome ?? 'other'
    } catch (cause) {
      failed(cause)
      // It may have been claimed all the same, behind our back.
      keep(owner, { key, digest, owner, field: 'o', text: '', outcome: null, until: clock.now() + times.leaseMs })
      end(id, null)
      return 'away'
    }
  }

  /** Another process has it under way: asks until that has ended. */
  function watch(id: string, mine: Here, ms: number): void {
    clock.after(ms, () => {
      if (isClosed) return
      asked(looks([mine.key], [mine.digest]))
        .then(([what, text]) => (what === 'final' ? outcomeOf(text!) : what === 'busy' ? what : null))
        .catch(cause => {
          failed(cause)
          return null
        })
        .then(now => {
          if (now === 'busy') watch(id, mine, Math.min(ms * 2, LONGEST_LOOK_MS))
          else end(id, now)
        })
    })
  }

  function keep(name: string, one: Unwritten): void {
    drop(name)
    unwritten.set(name, one)
    unwrittenText += one.text.length
    for (const oldest of unwritten.keys()) {
      if (unwritten.size <= MOST_UNWRITTEN && unwrittenText <= MOST_UNWRITTEN_TEXT) break
      drop(oldest)
    }
    tendLater()
  }

  function drop(name: string): void {
    unwrittenText -= unwritten.get(name)?.text.length ?? 0
    unwritten.delete(name)
  }

  function write(name: string, one: Unwritten): void {
    const { key, digest, owner, field, text, until } = one
    const ms = Math.max(1, Math.round(until - clock.now()))
    within(settles([key], [digest, owner, field, text, ms])).then(
      () => {
        if (unwritten.get(name) === one) drop(name)
      },
      cause => {
        failed(cause)
        if (!unwritten.has(name)) keep(name, one)
      }
    )
  }

  function tendLater(): void {
    if (cancelTend === null && !isClosed) cancelTend = clock.after(times.leaseMs / 3, tend)
  }

  /** Gives signs of life for what is under way, and writes what could not be written. */
  function tend(): void {
    cancelTend?.()
    cancelTend = null
    const now = clock.now()
    for (const { isOurs, key, digest, owner } of here.values())
      if (isOurs) within(renews([key], [digest, owner, times.leaseMs])).catch(failed)
    for (const [name, one] of unwritten) {
      if (one.until <= now) drop(name)
      else write(name, one)
    }
    if (here.size + unwritten.size > 0) tendLater()
  }

  return {
    claim(id, digest, waiter) {
      const known = unwritten.get(id)
      if (known !== undefined && known.until > clock.now()) {
        if (known.digest !== digest) return 'other'
        return known.outcome ?? 'away'
      }
      const first = here.get(id)
      if (first !== undefined) {
        if (first.digest !== digest) return 'other'
        if (first.waiters.length >= MOST_WAITERS) return 'crowded'
        first.waiters.push(waiter)
        return 'waiting'
      }
      if (clock.now() < askAt) return 'away'
      const key = `${link.prefix}:once:${createHash('sha256').update(id).digest('base64url')}`
      const mine: Here = { key, digest, owner: `${process}.${++claimed}`, waiters: [], isOurs: false }
      here.set(id, mine)
      return ask(id, mine, waiter)
    },
    settle(id, outcome, partial: Partial | null = null) {
      const { key, digest, owner } = here.get(id)!
      const until = clock.now() + times.ageMs
      const one = { key, digest, owner, until, outcome }
      if (outcome !== null) write(id, { ...one, field: 'f', text: outcomeText(outcome) })
      else if (partial !== null) write(id, { ...one, field: 'p', text: partialText(partial) })
      // Otherwise its lease runs out.
      else within(settles([key], [digest, owner, '', '', 1])).catch(failed)
      end(id, outcome)
    },
    close() {
      isClosed = true
      stop()
      cancelTend?.()
    }
  }
}
