import type { Charge, Standing } from '../counters.ts'
import type { Decision } from './decisions.ts'
import { endOf, type Moments } from './moments.ts'
import { isSame } from './refusals.ts'

/** Of the allowance, at most so much at once. */
const LARGEST_SHARE = 0.05
const LARGEST = 1_000
/** Used up within this: the next one is twice as large. Lasted longer than four times this: half as large. */
const QUICK_MS = 1_000
/** What was not used for this long goes back. */
const IDLE_MS = 5_000
/** A sliding log forgets when a unit was taken, not when it was spent: the time between the two is bounded. */
const LOG_SHARE = 0.1
const LONGEST_LOG_MS = 1_000
/** A take that was not answered for so long holds nobody up. */
const LOST_MS = 1_000
/** Counters with leases; further ones are asked about each time. */
const MOST = 100_000
/** Looked at in one sweep. */
const SWEPT = 10_000

/** Units that are taken at once at most; 1: each request is asked about. */
export function largestLease({ mode, allowed, slope, countsRefused }: Charge): number {
  // Their state moves with every request, refused ones too.
  if (mode !== 'lease' || slope !== null || countsRefused) return 1
  return Math.max(1, Math.min(LARGEST, Math.floor(allowed * LARGEST_SHARE)))
}

/** What of one counter this process has taken and spends by itself. */
export class Lease {
  limit: Charge
  /** Taken and not spent. Counts before `until` alone. */
  spare = 0
  until = Number.NEGATIVE_INFINITY
  seen: number
  /** Decisions that wait for the take under way. */
  waiting: Decision[] = []
  #size = 1
  #given = 0
  #takenAt = Number.NEGATIVE_INFINITY
  #takingUntil = Number.NEGATIVE_INFINITY
  #remaining = 0
  #reset = 0
  /** Units that passed uncounted: the next ones that are taken stand for them. */
  #owed = 0
  /** The remote clock when the last units were taken. */
  #there = 0

  constructor(limit: Charge, now: number) {
    this.limit = limit
    this.seen = now
  }

  has(units: number, now: number): boolean {
    return this.spare >= units && now < this.until
  }

  isTaking(now: number): boolean {
    return now < this.#takingUntil
  }

  /**
   * How many units to ask for now.
   * @param behind how many others wait
   */
  take(units: number, now: number, behind: number): number {
    this.#takingUntil = now + LOST_MS
    const lasted = now - this.#takenAt
    if (this.#given > 0) {
      const isUsed = this.spare < units
      if (isUsed && lasted < QUICK_MS) this.#size *= 2
      else if (lasted > 4 * QUICK_MS || (!isUsed && this.spare * 2 > this.#given)) this.#size >>= 1
    }
    const largest = largestLease(this.limit)
    this.#size = Math.max(1, Math.min(largest, this.#size))
    return Math.max(units, Math.min(largest, Math.max(this.#size, units + behind)))
  }

  /** The take was answered, or failed. */
  taken(): void {
    this.#takingUntil = Number.NEGATIVE_INFINITY
  }

  /**
   * @param taken units beyond the request's own
   * @param sent when they were asked for, on our clock
   * @param there the remote clock in the answer
   */
  add(taken: number, standing: Standing, sent: number, there: number): void {
    const isSameWindow = this.#reset === standing.reset
    // A rest under which nothing could be spent is of no use beside a new window.
    const spare = taken + (this.until > sent && isSameWindow ? this.spare : 0)
    const owed = this.#countedHere() + (isSameWindow || isLog(this.limit) ? this.#owed : 0)
    this.spare = Math.max(0, spare - owed)
    this.#owed = owed - (spare - this.spare)
    this.until = endOf(standing.reset, sent, there)
    if (isLog(this.limit)) this.until = sent + Math.min(this.limit.perMs * LOG_SHARE, LONGEST_LOG_MS)
    this.#given = taken + 1
    this.#takenAt = sent
    this.#remaining = standing.remaining
    this.#reset = standing.reset
    this.#there = there
  }

  /** Requests that waited for this take, were decided without Redis when it was late, and passed. A quota knows of them. */
  #countedHere(): number {
    const { kind, id } = this.limit
    if (kind === 'quota') return 0
    return this.waiting.filter(({ limits, countedHere }) => limits.findIndex(limit => limit.id === id) < countedHere)
      .length
  }

  get takenThere(): number {
    return this.#there
  }

  /** What it holds is worth nothing any more. */
  drop(): void {
    this.spare = 0
    this.#owed = 0
    this.until = Number.NEGATIVE_INFINITY
  }

  /** A unit more, where nothing came between: what a request had taken that another limit refused. */
  putBack(units: number, until: number): void {
    if (this.until === until) this.spare += units
  }

  standing(there: number): Standing {
    const remaining = this.#remaining + this.spare
    const reset = isLog(this.limit) && remaining > 0 ? there : this.#reset
    return { allowed: this.limit.allowed, remaining, reset, smoothed: null }
  }
}

function isLog({ kind, algorithm }: Charge): boolean {
  return kind === 'rate' && algorithm === 'sliding_log'
}

/** All leases of this process. */
export class Leases {
  readonly #moments: Moments
  readonly #giveBack: (limit: Charge, units: number, at: number) => void
  readonly #leases = new Map<string, Lease>()
  #sweeping: Iterator<[string, Lease]> | null = null

  constructor(moments: Moments, giveBack: (limit: Charge, units: number, at: number) => void) {
    this.#moments = moments
    this.#giveBack = giveBack
  }

  get(id: string): Lease | undefined {
    return this.#leases.get(id)
  }

  /** The lease of this limit, empty if it is new; null: it is asked about each time. */
  of(limit: Charge, now: number): Lease | null {
    if (largestLease(limit) === 1) return null
    const known = this.#leases.get(limit.id)
    if (known === undefined) {
      if (this.#leases.size >= MOST) return null
      const lease = new Lease(limit, now)
      this.#leases.set(limit.id, lease)
      return lease
    }
    known.seen = now
    if (known.limit !== limit) {
      // What was taken under another rate is not spent under this one.
      if (!isSame(known.limit, limit)) this.return(known, now)
      known.limit = limit
    }
    return known
  }

  /** Gives back what nobody used; some of them each time. */
  sweep(now: number): void {
    this.#sweeping ??= this.#leases.entries()
    for (let i = 0; i < SWEPT; i++) {
      const next = this.#sweeping.next()
      if (next.done) {
        this.#sweeping = null
        return
      }
      const [id, lease] = next.value
      if (now - lease.seen < IDLE_MS || lease.isTaking(now) || lease.waiting.length > 0) continue
      this.return(lease, now)
      this.#leases.delete(id)
    }
  }

  /** What is held of these counters is worth nothing any more; null: of all. */
  forget(ids: readonly string[] | null): void {
    if (ids === null) for (const lease of this.#leases.values()) lease.drop()
    else for (const id of ids) this.#leases.get(id)?.drop()
  }

  /** Everything back. */
  returnAll(): void {
    const now = this.#moments.now()
    for (const lease of this.#leases.values()) this.return(lease, now)
  }

  /** Everything back, and nothing more is held. */
  close(): void {
    this.returnAll()
    this.#leases.clear()
  }

  /** Gives back what it holds. Units of a sliding log that are too old to be spent, too: their entries are still there. */
  return(lease: Lease, now: number): void {
    if (lease.spare > 0 && (now < lease.until || isLog(lease.limit)))
      this.#giveBack(lease.limit, lease.spare, lease.takenThere)
    lease.drop()
  }
}
