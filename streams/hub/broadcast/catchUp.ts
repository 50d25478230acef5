import type { Place, Reading } from '../../broker.ts'
import { type Arrived, sizeOf } from '../../message.ts'
import type { Cursors } from '../cursor.ts'
import { Fifo } from '../fifo.ts'
import type { HubGiven } from '../hub.ts'
import { Entry, Pace } from './entry.ts'
import type { Member } from './member.ts'
import type { Part, Parts, Vector } from './parts.ts'
import type { Tally } from './tally.ts'

/** Records that wait for one client; above it its reader is told to wait. */
const MOST_WAITING = 500
const MOST_WAITING_BYTES = 1_048_576
/** Records taken at one go. */
const SLICE = 200
/** So long may its reader stand still before the client is told to come again. */
const FAULT_MS = 10_000
/** Nothing must come for so many of these in a row, the broker answering in each, before what lies in front of the window counts as empty. */
const QUIET_MS = 1000
const QUIETS = 3

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
}

/** Reads history for one client until it meets the window. */
export class CatchUp {
  readonly #host: CatchUpHost
  readonly #member: Member
  readonly #vector: Vector
  readonly #pace: Pace
  #reading: Reader | null = null
  #cancelFault: (() => void) | null = null
  #cancelQuiet: (() => void) | null = null
  #isClosed = false

  /** Reads on from `member.vector`, which it keeps up to date. */
  constructor(host: CatchUpHost, member: Member) {
    this.#host = host
    this.#member = member
    this.#vector = member.vector!
    this.#pace = new Pace(host.given.options.idInterval)
    this.#open()
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
    this.#reading?.close()
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
    this.#reading = new Reader(given, behind, this.#vector, {
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

  #isQuiet(reading: Reader, seen: number): boolean {
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

interface Next {
  readonly part: Part
  /** Null: history is gone up to `to`. */
  readonly record: Arrived | null
  readonly to: number
}

interface ReaderListener {
  arrived(): void
  state(fault: string | null): void
}

/** Reads some partitions into a bounded inbox. */
class Reader {
  readonly #given: HubGiven
  readonly #parts: ReadonlySet<Part>
  readonly #inbox = new Fifo<Next>()
  readonly #readings: readonly Reading[]
  readonly #assigned = new Set<number>()
  #bytes = 0
  #isPaused = false
  #isClosed = false
  /** How often something came. */
  seen = 0

  constructor(given: HubGiven, parts: readonly Part[], from: Vector, listener: ReaderListener) {
    this.#given = given
    this.#parts = new Set(parts)
    this.#readings = given.sources.map(({ broker }, source) => {
      const own = parts.filter(part => part.source === source)
      const positions = own.map(part => ({
        topic: part.topic,
        partition: part.partition,
        offset: from[part.index] ?? 0
      }))
      const partOf = (place: Place) =>
        own.find(({ topic, partition }) => topic === place.topic && partition === place.partition)
      const came = (part: Part, record: Arrived | null, to: number) => {
        this.seen++
        this.#bytes += record === null ? 0 : sizeOf(record)
        given.budget.add(record === null ? 0 : sizeOf(record))
        this.#inbox.push({ part, record, to })
      }
      const taker = {
        assigned: () => void this.#assigned.add(source),
        records: (place: Place, records: readonly Arrived[]) => {
          const part = partOf(place)
          if (part === undefined || this.#isClosed) return
          for (const record of records) came(part, record, 0)
          this.#flow()
          listener.arrived()
        },
        gap: (place: Place, _from: number, to: number) => {
          const part = partOf(place)
          if (part === undefined || this.#isClosed) return
          came(part, null, to)
          listener.arrived()
        },
        state: (fault: string | null) => {
          if (!this.#isClosed) listener.state(fault)
        }
      }
      return own.length === 0 ? NOT_READING : broker.read(positions, true, taker)
    })
  }

  /** Every broker has begun to bring what it was asked for. */
  get isReading(): boolean {
    for (const { source } of this.#parts) if (!this.#assigned.has(source)) return false
    return true
  }

  get isEmpty(): boolean {
    return this.#inbox.length === 0
  }

  reads(parts: readonly Part[]): boolean {
    return parts.every(part => this.#parts.has(part))
  }

  shift(): Next | null {
    const next = this.#inbox.shift()
    if (next === undefined) return null
    if (next.record !== null) {
      this.#bytes -= sizeOf(next.record)
      this.#given.budget.add(-sizeOf(next.record))
    }
    this.#flow()
    return next
  }

  close(): void {
    this.#isClosed = true
    while (this.shift() !== null);
    for (const reading of this.#readings)
      reading.close().catch(error => this.#given.log.warn('catch-up reader', { error: String(error) }))
  }

  #flow(): void {
    if (this.#isClosed) return
    const { length } = this.#inbox
    if (!this.#isPaused && (length > MOST_WAITING || this.#bytes > MOST_WAITING_BYTES)) {
      this.#isPaused = true
      for (const part of this.#parts) this.#readings[part.source]!.pause(part)
    } else if (this.#isPaused && length <= MOST_WAITING / 2 && this.#bytes <= MOST_WAITING_BYTES / 2) {
      this.#isPaused = false
      for (const part of this.#parts) this.#readings[part.source]!.resume(part)
    }
  }
}

const NOT_READING: Reading = {
  pause: () => {},
  resume: () => {},
  commit: () => Promise.resolve(),
  close: () => Promise.resolve()
}
