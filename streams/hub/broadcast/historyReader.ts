import type { Place, Reading } from '../../broker.ts'
import { type Arrived, sizeOf } from '../../message.ts'
import { Fifo } from '../fifo.ts'
import type { HubGiven } from '../hub.ts'
import type { Part, Vector } from './parts.ts'

/** Records that wait for one client; above it its reader is told to wait. */
const MOST_WAITING = 500
const MOST_WAITING_BYTES = 1_048_576

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
export class HistoryReader {
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
