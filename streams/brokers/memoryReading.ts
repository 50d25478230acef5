import type { Place, Position, Reading, Taker } from '../broker.ts'
import { Cursor, type MemoryDelivery } from './memoryDelivery.ts'
import type { MemoryLog } from './memoryLog.ts'
import type { MemoryTopic } from './memoryTopic.ts'

/** Tells a partition within one broker. */
export const placeName = ({ topic, partition }: Place) => `${topic}:${partition}`

/** One who reads partitions, by itself or for a group. */
export class MemoryReading implements Reading {
  readonly #taker: Taker
  readonly #delivery: MemoryDelivery
  readonly #cursors = new Map<string, Cursor>()
  /** Outlasts the partition's coming and going. */
  readonly #paused = new Set<string>()
  #isTelling = false
  #isClosed = false
  /** Called once, at `close`. */
  onClose: () => void = () => {}
  /** Keeps commits; without a group there are none. */
  onCommit: (positions: readonly Position[]) => Promise<void> = () => Promise.resolve()

  constructor(taker: Taker, delivery: MemoryDelivery) {
    this.#taker = taker
    this.#delivery = delivery
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Reads this one too. `tell` must follow. */
  add(log: MemoryLog, position: number): void {
    const name = placeName(log)
    const state = this.#paused.has(name) ? 'paused' : 'reading'
    this.#cursors.set(name, new Cursor(log, position, state, this.#taker, this.#delivery))
  }

  /** Reads it no more, from now on. `tell` must follow. */
  remove(place: Place): void {
    this.#cursors.get(placeName(place))?.end()
    this.#cursors.delete(placeName(place))
  }

  /** Its taker hears what it reads, before the next record. */
  tell(): void {
    if (this.#isTelling) return
    this.#isTelling = true
    this.#delivery.soon(() => {
      this.#isTelling = false
      if (this.#isClosed) return
      const positions: Position[] = []
      for (const { log, position } of this.#cursors.values())
        positions.push({ topic: log.topic, partition: log.partition, offset: position })
      this.#taker.assigned(positions)
    })
  }

  tellState(fault: string | null): void {
    this.#delivery.soon(() => {
      if (!this.#isClosed) this.#taker.state(fault)
    })
  }

  pause(place: Place): void {
    this.#paused.add(placeName(place))
    this.#cursors.get(placeName(place))?.pause()
  }

  resume(place: Place): void {
    this.#paused.delete(placeName(place))
    this.#cursors.get(placeName(place))?.resume()
  }

  commit(positions: readonly Position[]): Promise<void> {
    return this.onCommit(positions)
  }

  close(): Promise<void> {
    if (this.#isClosed) return Promise.resolve()
    this.#isClosed = true
    for (const cursor of this.#cursors.values()) cursor.end()
    this.#cursors.clear()
    this.onClose()
    return Promise.resolve()
  }
}

/** Keeps a reading without a group to what it was asked for, also when its topics grow. */
export class LoneReader {
  readonly #reading: MemoryReading
  readonly #from = new Map<string, number>()
  readonly #isExact: boolean
  readonly #topics: ReadonlySet<string>
  #isComplete = true

  constructor(from: readonly Position[], isExact: boolean, reading: MemoryReading) {
    this.#reading = reading
    this.#isExact = isExact
    this.#topics = new Set(from.map(({ topic }) => topic))
    for (const position of from) this.#from.set(placeName(position), position.offset)
  }

  /** @param topics of the positions, as they are now */
  begin(topics: readonly MemoryTopic[]): void {
    for (const { logs } of topics)
      for (const log of logs) {
        const offset = this.#from.get(placeName(log))
        if (offset !== undefined) this.#add(log, offset)
      }
    this.#reading.tell()
    this.#isComplete = this.#from.size === 0
    if (!this.#isComplete) this.#reading.tellState(`no such partition: ${[...this.#from.keys()].join(', ')}`)
  }

  /** A topic has more partitions: those from `before` on are new. */
  grown({ name, logs }: MemoryTopic, before: number): void {
    if (!this.#topics.has(name)) return
    for (const log of logs.slice(before)) {
      const offset = this.#from.get(placeName(log))
      if (offset !== undefined) this.#add(log, offset)
      else if (!this.#isExact) this.#reading.add(log, 0)
    }
    this.#reading.tell()
    if (this.#isComplete || this.#from.size > 0) return
    this.#isComplete = true
    this.#reading.tellState(null)
  }

  #add(log: MemoryLog, offset: number): void {
    this.#from.delete(placeName(log))
    this.#reading.add(log, offset)
  }
}
