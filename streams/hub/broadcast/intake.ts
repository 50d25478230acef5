import { backoffMs } from '../../backoff.ts'
import type { Place, Position, Reading, Span } from '../../broker.ts'
import { type Arrived, sizeOf } from '../../message.ts'
import { Fifo } from '../fifo.ts'
import type { HubGiven } from '../hub.ts'
import type { Part, Parts, Vector } from './parts.ts'

/** Records of one partition as they came, history that is gone, or where another history begins. */
interface Arrival {
  readonly part: Part
  readonly records: readonly Arrived[]
  /** Of the next to be taken. */
  index: number
  /** Behind history that is gone, or where another one begins; -1: these are records. */
  readonly to: number
  readonly isAnew: boolean
}

/** Whom an intake tells. */
export interface IntakeListener {
  /** Before reading begins: whether the newest messages are wanted too, as many as the window holds. */
  wantsHistory(): boolean
  /** Since when somebody waits for the newest, ms since the epoch; infinite: nobody. */
  since(): number
  stands(): void
  arrived(): void
}

/** Reads the topics of a broadcast, once for all its clients, into a bounded inbox. */
export class Intake {
  readonly #given: HubGiven
  readonly #parts: Parts
  readonly #listener: IntakeListener
  readonly #inbox = new Fifo<Arrival>()
  readonly #faults: (string | null)[]
  #readings: readonly Reading[] = []
  #cancel: (() => void) | null = null
  #failures = 0
  #isClosed = false
  /** Positions are known and reading has begun. */
  isStanding = false
  /** Since when those waited for the newest who came first, and where that is. */
  sinceMs = Number.POSITIVE_INFINITY
  readonly since: Vector = []
  /** What `next` came to. */
  part: Part | null = null
  /** Null: history is gone up to `lostTo`, or begins anew there. */
  record: Arrived | null = null
  lostTo = -1
  isAnew = false
  /** Why positions could not be found out. */
  #fault: string | null = null

  constructor(given: HubGiven, parts: Parts, listener: IntakeListener) {
    this.#given = given
    this.#parts = parts
    this.#listener = listener
    this.#faults = given.sources.map(() => null)
    void this.#stand()
  }

  /** Null: nothing is wrong. */
  get fault(): string | null {
    return this.#fault ?? this.#faults.find(fault => fault !== null) ?? null
  }

  get waiting(): number {
    let waiting = 0
    for (const part of this.#parts.list) waiting += part.waiting
    return waiting
  }

  /** What comes next is history that is gone, or another one. */
  get isAtLoss(): boolean {
    return (this.#inbox.peek()?.to ?? -1) !== -1
  }

  /** Moves on to what came next: `part` and `record`, or `lostTo`. False: nothing has come. */
  next(): boolean {
    const arrival = this.#inbox.peek()
    if (arrival === undefined) return false
    const { part, records, to, isAnew } = arrival
    this.part = part
    this.lostTo = to
    this.isAnew = isAnew
    this.record = records[arrival.index++] ?? null
    if (arrival.index >= records.length) this.#inbox.shift()
    if (this.record === null) return true
    this.#counted(part, -1, -sizeOf(this.record))
    this.#flow(part)
    return true
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancel?.()
    for (let arrival = this.#inbox.shift(); arrival !== undefined; arrival = this.#inbox.shift());
    for (const part of this.#parts.list) this.#counted(part, -part.waiting, -part.waitingBytes)
    await Promise.all(this.#readings.map(reading => reading.close()))
  }

  async #stand(): Promise<void> {
    const { sources, clock, log, api, stream } = this.#given
    try {
      const spans = await Promise.all(
        sources.map(({ broker, joining }) => Promise.all(joining.topics.map(topic => broker.spans(topic))))
      )
      const since = this.#listener.since()
      // After the ends: what is written between the two answers is then behind one of them.
      const times = Number.isFinite(since) ? await this.#timesOf(since) : sources.map(() => [])
      if (!this.#isClosed)
        this.#begin(
          spans.map(ofTopics => ofTopics.flat()),
          since,
          times
        )
    } catch (error) {
      if (this.#isClosed) return
      this.#fault = error instanceof Error ? error.message : String(error)
      log.warn('broadcast does not find its positions', { api_id: api, stream, error: this.#fault })
      this.#cancel = clock.after(backoffMs(this.#failures++), () => void this.#stand())
    }
  }

  /**
   * Clients were let in before the ends were known, and what came since then is theirs: it is found by its time. A producer whose
   * clock is behind ours writes times before the joining, and so much of the newest may be missing until the ends are known; with
   * one that is ahead some older messages come along.
   */
  #timesOf(since: number): Promise<readonly (readonly Position[])[]> {
    return Promise.all(
      this.#given.sources.map(async ({ broker, joining }) =>
        (await Promise.all(joining.topics.map(topic => broker.positionsAt(topic, since)))).flat()
      )
    )
  }

  #begin(spans: readonly (readonly Span[])[], since: number, times: readonly (readonly Position[])[]): void {
    const { sources, options } = this.#given
    this.#fault = null
    const back = this.#listener.wantsHistory() ? options.window.messages : 0
    spans.forEach((ofSource, source) => {
      const ofTime = new Map(times[source]!.map(position => [nameOf(position), position.offset]))
      for (const span of ofSource) {
        const newest = Math.min(span.high, ofTime.get(nameOf(span)) ?? span.high)
        this.#parts.add(source, span, Math.max(span.low, Math.min(newest, span.high - back)), span.high)
        const part = this.#parts.get(source, span)
        if (part !== null) this.since[part.index] = newest
      }
    })
    this.sinceMs = since
    this.isStanding = true
    this.#readings = sources.map(({ broker }, source) =>
      broker.read(this.#positions(source), false, this.#taker(source))
    )
    this.#listener.stands()
  }

  #positions(source: number): readonly Position[] {
    return this.#parts.list
      .filter(part => part.source === source)
      .map(({ topic, partition, received }) => ({ topic, partition, offset: received }))
  }

  #taker(source: number) {
    return {
      assigned: (positions: readonly Position[]) => {
        if (this.#isClosed) return
        for (const position of positions) {
          const part = this.#parts.get(source, position)
          if (part === null) this.#parts.add(source, position, position.offset, position.offset)
          else if (position.offset < part.received) this.#anew(part, position.offset)
        }
      },
      records: (place: Place, records: readonly Arrived[], high: number) => this.#records(source, place, records, high),
      gap: (place: Place, _from: number, to: number) => this.#gap(source, place, to),
      state: (fault: string | null) => {
        this.#faults[source] = fault
      }
    }
  }

  #records(source: number, place: Place, records: readonly Arrived[], high: number): void {
    const part = this.#parts.get(source, place)
    if (part === null || this.#isClosed) return
    part.high = high
    const fresh =
      records.length > 0 && records[0]!.offset < part.received
        ? records.filter(({ offset }) => offset >= part.received)
        : records
    if (fresh.length === 0) return
    part.received = fresh.at(-1)!.offset + 1
    this.#counted(part, fresh.length, bytesOf(fresh))
    this.#inbox.push({ part, records: fresh, index: 0, to: -1, isAnew: false })
    this.#flow(part)
    this.#listener.arrived()
  }

  #gap(source: number, place: Place, to: number): void {
    const part = this.#parts.get(source, place)
    if (part === null || this.#isClosed || to <= part.received) return
    part.received = to
    this.#inbox.push({ part, records: [], index: 0, to, isAnew: false })
    this.#listener.arrived()
  }

  /** A broker that goes back reads another history: the topic was made anew, or has lost its end. */
  #anew(part: Part, to: number): void {
    const { api, stream, log } = this.#given
    const { topic, partition, received } = part
    log.warn('broadcast partition begins anew', { api_id: api, stream, topic, partition, position: received, to })
    part.received = to
    this.#inbox.push({ part, records: [], index: 0, to, isAnew: true })
    this.#listener.arrived()
  }

  #counted(part: Part, records: number, bytes: number): void {
    part.waiting += records
    part.waitingBytes += bytes
    this.#given.budget.add(bytes)
  }

  /** Who hands out slower than the broker gives tells it to wait, and at half to go on. */
  #flow(part: Part): void {
    const { bufferMessages, bufferBytes } = this.#given
    const { waiting, waitingBytes, isPaused } = part
    if (!isPaused && (waiting > bufferMessages || waitingBytes > bufferBytes)) {
      part.isPaused = true
      this.#readings[part.source]!.pause(part)
    } else if (isPaused && waiting <= bufferMessages / 2 && waitingBytes <= bufferBytes / 2) {
      part.isPaused = false
      this.#readings[part.source]!.resume(part)
    }
  }
}

function nameOf({ topic, partition }: Place): string {
  return `${partition}:${topic}`
}

function bytesOf(records: readonly Arrived[]): number {
  let bytes = 0
  for (let i = 0; i < records.length; i++) bytes += sizeOf(records[i]!)
  return bytes
}
