import type { Cursors } from '../cursor.ts'
import type { HubGiven } from '../hub.ts'
import { Entry, Pace } from './entry.ts'
import { HistoryReader } from './historyReader.ts'
import type { History, Member } from './member.ts'
import type { Part, Parts, Vector } from './parts.ts'
import type { Tally } from './tally.ts'

/** Records taken at one go. */
const SLICE = 200
/** So long may its reader stand still before the client is told to come again. */
const FAULT_MS = 10_000
/** Nothing must come for so many of these in a row, the broker answering in each, before what lies in front of the window counts as empty. */
const QUIET_MS = 1000
const QUIETS = 3

/** So long a client has a place for itself that others wait for, unless it reads faster than the broker brings. */
const TURN_MS = 2000

/** What a catch-up needs of its hub. */
export interface CatchUpHost {
  readonly given: HubGiven
  readonly parts: Parts
  readonly cursors: Cursors
  readonly tally: Tally
  /** Whether it can take one more. */
  hasRoom(member: Member): boolean
  /** Hands it one. */
  give(member: Member, entry: Entry): void
  /** It is to be served. */
  queue(member: Member): void
  /** The window has everything from `member.vector` on. */
  meets(member: Member): void
  end(member: Member, why: 'fault'): void
  /** It reads slowly: others may have the place that it holds. */
  yields(member: Member): void
}

/** Reads history for one client until it meets the window. */
export class CatchUp implements History {
  readonly #host: CatchUpHost
  readonly #member: Member
  readonly #vector: Vector
  readonly #pace: Pace
  #reading: HistoryReader | null = null
  #cancelFault: (() => void) | null = null
  #cancelQuiet: (() => void) | null = null
  #cancelTurn: (() => void) | null = null
  #isClosed = false

  /** Reads on from `member.vector`, which it keeps up to date. */
  constructor(host: CatchUpHost, member: Member) {
    this.#host = host
    this.#member = member
    this.#vector = member.vector!
    this.#pace = new Pace(host.given.options.idInterval)
    this.#open()
    this.#countTurn()
  }

  /** Its turn: hands over what has come. How much work it was, in client writes. */
  serve(): number {
    const { given, parts, cursors, tally } = this.#host
    const member = this.#member
    let count = 0
    while (count < SLICE && this.#host.hasRoom(member)) {
      const next = this.#reading!.shift()
      if (next === null) break
      count++
      const { part, record, to } = next
      if (record === null) {
        const lost = to - (this.#vector[part.index] ?? 0)
        this.#vector[part.index] = to
        if (lost > 0) member.client.gap(lost, this.cursor() ?? '')
        continue
      }
      this.#vector[part.index] = record.offset + 1
      member.vectorMs = record.timestamp
      const arrived = tally.processed(record)
      if (arrived === null) continue
      const entry = new Entry(arrived, -1, part, cursors, null)
      if (member.wants !== null && !member.wants(entry)) continue
      const hasId = given.options.resume && this.#pace.isDue(parts.list.length, given.clock.now())
      this.#host.give(member, hasId ? entry.under(parts.body(this.#vector, arrived.timestamp)) : entry)
    }
    if (count > 0) member.client.flush()
    if (member.isGone || this.#isClosed) return count
    if (parts.covers(this.#vector)) this.#host.meets(member)
    else if (!this.#reading!.reads(this.#uncovered())) this.#open()
    else if (!this.#reading!.isEmpty) {
      if (this.#host.hasRoom(member)) this.#host.queue(member)
    } else if (count > 0) this.#watch()
    return count
  }

  cursor(): string | null {
    const { given, parts, cursors } = this.#host
    return given.options.resume ? cursors.sign(parts.body(this.#vector, this.#member.vectorMs)) : null
  }

  close(): void {
    this.#isClosed = true
    this.#cancelFault?.()
    this.#cancelQuiet?.()
    this.#cancelTurn?.()
    this.#reading?.close()
  }

  #countTurn(): void {
    this.#cancelTurn = this.#host.given.clock.after(TURN_MS, () => {
      this.#countTurn()
      if (!this.#reading!.isEmpty && !this.#host.hasRoom(this.#member)) this.#host.yields(this.#member)
    })
  }

  #uncovered(): Part[] {
    return this.#host.parts.list.filter(part => (this.#vector[part.index] ?? 0) < part.floor)
  }

  /** Begins to read, or anew when the window has moved past a partition that was not read. */
  #open(): void {
    const { given, parts } = this.#host
    this.#reading?.close()
    // What lies behind the window's newest is for the window to bring.
    const behind = parts.list.filter(part => (this.#vector[part.index] ?? 0) < part.next)
    this.#reading = new HistoryReader(given, behind, this.#vector, {
      arrived: () => this.#host.queue(this.#member),
      state: fault => this.#state(fault)
    })
    this.#watch()
  }

  #state(fault: string | null): void {
    const { given, tally } = this.#host
    if (fault === null) {
      this.#cancelFault?.()
      this.#cancelFault = null
      return
    }
    tally.fault = fault
    this.#cancelFault ??= given.clock.after(FAULT_MS, () => this.#host.end(this.#member, 'fault'))
  }

  /** Begins to wait for quiet. */
  #watch(): void {
    this.#cancelQuiet?.()
    const { seen } = this.#reading!
    this.#look({ seen, floors: this.#uncovered().map(part => ({ part, floor: part.floor })) }, QUIETS)
  }

  #look(quiet: Quiet, left: number): void {
    this.#cancelQuiet = this.#host.given.clock.after(QUIET_MS, () => void this.#lookAcross(quiet, left))
  }

  /**
   * Offsets in front of the window may hold no records (marks of transactions, what compaction took): a reader never tells, and the
   * client would read by itself for good. When nothing comes although the broker answers and nothing keeps it, that is so.
   */
  async #lookAcross(quiet: Quiet, left: number): Promise<void> {
    const { given, parts } = this.#host
    const reading = this.#reading!
    const { floors, seen } = quiet
    let isQuiet = this.#isQuiet(reading, seen) && reading.reads(floors.map(({ part }) => part))
    try {
      for (const { part } of isQuiet ? floors : []) await given.sources[part.source]!.broker.spans(part.topic)
    } catch {
      isQuiet = false
    }
    if (this.#isClosed) return
    isQuiet &&= this.#isQuiet(reading, seen)
    if (isQuiet && left > 1) return this.#look(quiet, left - 1)
    if (isQuiet) {
      for (const { part, floor } of floors) this.#vector[part.index] = Math.max(this.#vector[part.index] ?? 0, floor)
      if (parts.covers(this.#vector)) return this.#host.meets(this.#member)
    }
    if (!this.#reading!.reads(this.#uncovered())) this.#open()
    else this.#watch()
  }

  #isQuiet(reading: HistoryReader, seen: number): boolean {
    const isSame = reading === this.#reading && reading.seen === seen && reading.isEmpty
    return isSame && reading.isReading && this.#cancelFault === null
  }
}

/** What stood at the beginning of a quiet time. */
interface Quiet {
  /** By the reader. */
  readonly seen: number
  /** Where the window began, of what is older than it: records below were there already. */
  readonly floors: readonly { readonly part: Part; readonly floor: number }[]
}
