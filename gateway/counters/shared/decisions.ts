import type { Clock } from '../../../config/world.ts'
import type { Charge, Verdict } from '../counters.ts'

/** A request that waits for Redis, or for another that waits for it. */
export class Decision {
  readonly limits: readonly Charge[]
  readonly units: number
  readonly kind: 'charge' | 'look'
  /** When it is decided without Redis. */
  readonly due: number
  readonly promise: Promise<Verdict>
  settled = false
  /** Decided without Redis, which may have counted it all the same: so many of its limits were counted here. */
  countedHere = 0
  /** Waits for nobody else's take. */
  isAlone = false
  #resolve!: (verdict: Verdict) => void
  #reject!: (cause: unknown) => void

  constructor(limits: readonly Charge[], units: number, kind: 'charge' | 'look', due: number) {
    this.limits = limits
    this.units = units
    this.kind = kind
    this.due = due
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  settle(verdict: Verdict): void {
    this.settled = true
    this.#resolve(verdict)
  }

  fail(cause: unknown): void {
    this.settled = true
    this.#reject(cause)
  }
}

/** Settled ones leave the list when they are more than this and than those that wait. */
const SWEEP = 1_024

/** All decisions that wait, under one timer: they wait equally long, so the first is due first. */
export class Deadlines {
  readonly #clock: Clock
  readonly #budgetMs: number
  readonly #overdue: (decision: Decision) => void
  #waiting: Decision[] = []
  #head = 0
  #cancel: (() => void) | null = null
  #armedAt = 0

  /** @param overdue settles what was not answered in time */
  constructor(clock: Clock, budgetMs: number, overdue: (decision: Decision) => void) {
    this.#clock = clock
    this.#budgetMs = budgetMs
    this.#overdue = overdue
  }

  add(decision: Decision, now: number): void {
    this.#waiting.push(decision)
    if (this.#cancel === null) this.#arm(now, decision.due - now)
  }

  /** All that still wait, which are no longer looked after here. */
  take(): readonly Decision[] {
    const taken = this.#waiting.slice(this.#head).filter(({ settled }) => !settled)
    this.#waiting = []
    this.#head = 0
    return taken
  }

  /** Nothing more is to be waited for: every decision is overdue now. */
  end(): void {
    this.#expire(Number.POSITIVE_INFINITY)
  }

  #arm(now: number, ms: number): void {
    this.#armedAt = now
    this.#cancel = this.#clock.after(ms, () => {
      const at = this.#clock.now()
      // A clock that was set back tells nothing of how long they have waited.
      const until = at < this.#armedAt ? Number.POSITIVE_INFINITY : at
      // Timers come before sockets: after a turn that took long, answers may lie there unread.
      setImmediate(() => {
        this.#cancel = null
        this.#expire(until)
      })
    })
  }

  #expire(until: number): void {
    for (; this.#head < this.#waiting.length; this.#head++) {
      const decision = this.#waiting[this.#head]!
      if (decision.settled) continue
      if (decision.due > until) break
      this.#overdue(decision)
    }
    if (this.#head >= this.#waiting.length) {
      this.#waiting = []
      this.#head = 0
      return
    }
    if (this.#head > SWEEP && this.#head * 2 > this.#waiting.length) {
      this.#waiting = this.#waiting.slice(this.#head)
      this.#head = 0
    }
    if (this.#cancel !== null) return
    const now = this.#clock.now()
    this.#arm(now, Math.min(this.#budgetMs, Math.max(1, this.#waiting[this.#head]!.due - now)))
  }
}
