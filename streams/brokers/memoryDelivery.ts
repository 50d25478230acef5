import type { Clock } from '../../config/world.ts'
import type { Taker } from '../broker.ts'
import type { LogReader, MemoryLog } from './memoryLog.ts'

/** So many records leave in one turn of the event loop, so that requests keep their latency. */
const turnRecords = 500

/** Brings records to readers in turns: never inside the call that appended them. */
export class MemoryDelivery {
  readonly #clock: Clock
  // Cursors with more to read, each once; those before `#first` have had their turn.
  readonly #ready: Cursor[] = []
  #first = 0
  #tasks: (() => void)[] = []
  #isScheduled = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Runs in the next turn, before any more records. */
  soon(task: () => void): void {
    this.#tasks.push(task)
    this.#schedule()
  }

  ready(cursor: Cursor): void {
    this.#ready.push(cursor)
    this.#schedule()
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(turn, this)
  }

  /** For the event loop alone. */
  turn(): void {
    const now = this.#clock.now()
    let left = turnRecords
    this.#runTasks()
    while (left > 0 && this.#first < this.#ready.length) {
      left -= this.#ready[this.#first++]!.deliver(left, now)
      this.#runTasks()
    }
    if (this.#first === this.#ready.length || this.#first > 1000) {
      this.#ready.splice(0, this.#first)
      this.#first = 0
    }
    this.#isScheduled = false
    if (this.#ready.length > this.#first) this.#schedule()
  }

  #runTasks(): void {
    if (this.#tasks.length === 0) return
    const tasks = this.#tasks
    this.#tasks = []
    for (const task of tasks) task()
    if (this.#tasks.length > 0) this.#runTasks()
  }
}

function turn(delivery: MemoryDelivery): void {
  delivery.turn()
}

/** Where one reader stands in one partition. Nothing waits in it: what it has not read yet lies in the log alone. */
export class Cursor implements LogReader {
  readonly log: MemoryLog
  readonly #taker: Taker
  readonly #delivery: MemoryDelivery
  #position: number
  #isPaused: boolean
  #isQueued = false
  #isOpen = true
  #isLost = false

  /** @param state whether it begins paused */
  constructor(log: MemoryLog, position: number, state: 'reading' | 'paused', taker: Taker, delivery: MemoryDelivery) {
    this.log = log
    this.#taker = taker
    this.#delivery = delivery
    // Above the end: the offset comes from an earlier life of this broker, and this log knows nothing of that.
    this.#isLost = position > log.high
    this.#position = this.#isLost ? log.low : position
    this.#isPaused = state === 'paused'
    if (!this.#isPaused) this.#attach()
  }

  /** The next offset that its reader gets. */
  get position(): number {
    return this.#position
  }

  appended(): void {
    if (this.#isQueued) return
    this.#isQueued = true
    this.#delivery.ready(this)
  }

  pause(): void {
    this.#isPaused = true
    this.log.readers.delete(this)
  }

  resume(): void {
    if (!this.#isPaused || !this.#isOpen) return
    this.#isPaused = false
    this.#attach()
  }

  end(): void {
    this.#isOpen = false
    this.log.readers.delete(this)
  }

  /** Hands over at most so many records; how many it was. */
  deliver(most: number, now: number): number {
    this.#isQueued = false
    if (this.#isPaused || !this.#isOpen) return 0
    const { log } = this
    log.trim(now)
    if (this.#isLost || this.#position < log.low) {
      const from = this.#isLost ? log.low : this.#position
      this.#isLost = false
      this.#position = log.low
      this.#taker.gap(log, from, log.low)
      if (this.#isPaused || !this.#isOpen) return 1
    }
    if (this.#position >= log.high) return 0
    const records = log.slice(this.#position, most)
    // Moved before the call: its reader may pause, close or commit in it.
    this.#position += records.length
    this.#taker.records(log, records, log.high)
    if (this.#position < log.high && !this.#isPaused && this.#isOpen) this.appended()
    return records.length
  }

  #attach(): void {
    this.log.readers.add(this)
    this.appended()
  }
}
