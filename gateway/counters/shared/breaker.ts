import type { CountersFailure } from '../../../config/shape/limit.ts'
import type { Clock, Log } from '../../../config/world.ts'
import type { Remote } from '../remote.ts'

export interface BreakerGiven {
  readonly remote: Pick<Remote, 'alive' | 'isConnected' | 'onConnected'>
  readonly clock: Clock
  readonly log: Log
  readonly budgetMs: number
  /** The gateway's own: stands in the log. */
  readonly policy: CountersFailure
  /** Null: Redis answers. */
  readonly status: (failure: string | null) => void
  /** From now on nothing is asked. */
  readonly onOpen: () => void
  /** Brings Redis what it missed; the breaker closes behind it. Rejects: it stays open. */
  readonly recover: () => Promise<void>
  /** At least once a second while it is closed and nothing is overdue. */
  readonly onSecond: () => void
}

const ALIVE_MS = 1_000
const PROBE_MS = 100
/** Which opens again so soon after it closed stays open longer each time, up to the second. */
const STEADY_MS = 5_000
const LONGEST_HOLD_MS = 800
/** What is overdue must be followed by so much more without a timely answer; a shorter budget: by as much again. */
const DOUBT_MS = 40
/** A timer this late is a stall of our own. */
const STALL_MS = 10
/** In a row: a process that always stalls must be able to tell as well. */
const MOST_STALLS = 4

/**
 * Whether Redis is asked at all. Open: it is gone, takes no writes, or answers too late; then a probe that writes tries
 * it every 100 ms.
 */
export class Breaker {
  isOpen = false
  /** Processes that count there, this one included: as the last probe told. */
  processes = 1
  readonly #given: BreakerGiven
  #openedAt = 0
  #closedAt = Number.NEGATIVE_INFINITY
  #holdMs = 0
  #isProbing = false
  #hasProbed = false
  /** Something is overdue, and nothing was answered in time since. */
  #isDoubted = false
  #cancel: () => void = () => {}
  #cancelLate: () => void = () => {}
  #cancelDoubt: () => void = () => {}
  #isClosed = false

  constructor(given: BreakerGiven) {
    this.#given = given
    given.remote.onConnected(isConnected => {
      if (this.#isClosed) return
      if (!isConnected) this.open('the connection is lost')
      else if (this.isOpen) this.#probe()
    })
  }

  start(): void {
    if (!this.#given.remote.isConnected) this.open('there is no connection')
    this.#probe()
  }

  /** An answer came within the budget. */
  timely(): void {
    if (!this.#isDoubted) return
    this.#isDoubted = false
    this.#cancelDoubt()
  }

  /** One did not, and is decided without Redis. A probe tells whether Redis is gone, unless other answers do before. */
  overdue(): void {
    if (this.#isDoubted || this.isOpen || this.#isClosed) return
    this.#isDoubted = true
    this.#doubt(0)
  }

  #doubt(stalls: number): void {
    const { clock, budgetMs } = this.#given
    const ms = Math.min(budgetMs, DOUBT_MS)
    const due = clock.now() + ms
    this.#cancelDoubt = clock.after(ms, () => {
      const isStall = clock.now() - due > STALL_MS && stalls < MOST_STALLS
      // Timers come before sockets: answers may lie there unread.
      setImmediate(() => {
        if (!this.#isDoubted) return
        if (isStall) this.#doubt(stalls + 1)
        else this.#open(`no answer within ${budgetMs} ms`, false)
      })
    })
    this.#probe()
  }

  /** It is gone, or answered that it cannot: nothing to be in doubt about. */
  open(cause: string): void {
    this.#open(cause, true)
  }

  #open(cause: string, isFault: boolean): void {
    if (this.isOpen || this.#isClosed) return
    const { clock, log, policy, status, onOpen } = this.#given
    this.timely()
    this.isOpen = true
    this.#openedAt = clock.now()
    if (this.#openedAt - this.#closedAt >= STEADY_MS) this.#holdMs = 0
    else if (isFault) this.#holdMs = Math.min(LONGEST_HOLD_MS, Math.max(2 * PROBE_MS, 2 * this.#holdMs))
    log.warn('Redis does not answer: limits are decided without it', { cause, counters_failure: policy })
    status('Redis connection not available')
    onOpen()
    this.#next()
  }

  close(): void {
    this.#isClosed = true
    this.#cancel()
    this.#cancelLate()
    this.timely()
  }

  #next(): void {
    this.#cancel()
    if (this.#isClosed) return
    this.#cancel = this.#given.clock.after(this.isOpen ? PROBE_MS : ALIVE_MS, () => this.#probe())
  }

  /** One at a time: what was sent into a connection that stands still waits there. */
  #probe(): void {
    this.#next()
    const { remote, clock, budgetMs, onSecond } = this.#given
    if (this.#isProbing || !remote.isConnected) return
    // What is overdue may have counted there: its answer is heard first.
    if (!this.isOpen && !this.#isDoubted) onSecond()
    this.#isProbing = true
    // A process that starts is busy: how long its first probe takes says nothing.
    const isFirst = !this.#hasProbed
    this.#hasProbed = true
    let isLate = false
    this.#cancelLate = clock.after(budgetMs, () =>
      setImmediate(() => {
        if (!this.#isProbing) return
        isLate = true
        if (!isFirst) this.overdue()
      })
    )
    remote
      .alive()
      .then(processes => {
        this.processes = Math.max(1, processes)
        // A late answer shows that it is back, but not that it is quick enough.
        if (this.isOpen) return isLate ? undefined : this.#back()
        if (!isLate) this.timely()
        return undefined
      })
      .catch((cause: unknown) => this.open(causeOf(cause)))
      .finally(() => {
        this.#cancelLate()
        this.#isProbing = false
        if (isLate && (this.isOpen || this.#isDoubted) && !this.#isClosed) this.#probe()
      })
  }

  async #back(): Promise<void> {
    const { clock, log, status, recover } = this.#given
    if (clock.now() - this.#openedAt < this.#holdMs) return
    await recover()
    if (this.#isClosed) return
    this.isOpen = false
    this.#closedAt = clock.now()
    log.info('Redis answers again', { after_ms: this.#closedAt - this.#openedAt })
    status(null)
    this.#next()
  }
}

export function causeOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause)
}
