import { systemClock } from '../../config/world.ts'
import type { Broker, Joining, Place, Position, Reading, Taker } from '../../streams/broker.ts'
import type { Arrived } from '../../streams/message.ts'

/** So long the contract waits for what must come, in ms; a real broker may need seconds to part a group. */
const patienceMs = 30_000

/** A taker that keeps all it is told, and waits for conditions over it. */
export class Reader implements Taker {
  readonly all: Arrived[] = []
  readonly gaps: { readonly place: Place; readonly from: number; readonly to: number }[] = []
  readonly faults: (string | null)[] = []
  /** Of each call of `assigned`. */
  readonly assignments: (readonly Position[])[] = []
  /** What was told out of order; stays empty. */
  readonly wrong: string[] = []
  readonly #next = new Map<string, number>()
  #waiting: { readonly is: () => boolean; readonly resolve: () => void }[] = []
  #isClosed = false
  #reading: Reading | null = null

  /** Runs while a batch is taken, before conditions are looked at. */
  onRecords: ((reading: Reading, place: Place) => void) | null = null

  static join(broker: Broker, topics: readonly string[], group: string, how: Partial<Joining> = {}): Reader {
    const reader = new Reader()
    reader.#reading = broker.join({ ...usual, topics, group, ...how }, reader)
    return reader
  }

  static read(broker: Broker, from: readonly Position[], how: 'exact' | 'growing' = 'growing'): Reader {
    const reader = new Reader()
    reader.#reading = broker.read(from, how === 'exact', reader)
    return reader
  }

  get reading(): Reading {
    return this.#reading!
  }

  /** Texts of the values, of one partition or of all, as they came. */
  values(partition: number | null = null): string[] {
    const wanted = this.all.filter(record => partition === null || record.partition === partition)
    return wanted.map(({ value }) => (value === null ? 'null' : value.toString()))
  }

  /** Partitions of the newest assignment, in order. */
  get partitions(): number[] {
    return (this.assignments.at(-1) ?? []).map(({ partition }) => partition).sort((a, b) => a - b)
  }

  assigned(positions: readonly Position[]): void {
    if (this.#reading === null) this.wrong.push('assigned before the reading was there')
    this.#next.clear()
    for (const position of positions) this.#next.set(nameOf(position), position.offset)
    this.assignments.push(positions)
    this.#changed('assigned')
  }

  records(place: Place, records: readonly Arrived[], high: number): void {
    let next = this.#next.get(nameOf(place))
    if (next === undefined) this.wrong.push(`records of ${nameOf(place)}, which is not assigned`)
    if (records.length === 0) this.wrong.push('no records')
    for (const record of records) {
      if (nameOf(record) !== nameOf(place)) this.wrong.push(`a record of ${nameOf(record)} among ${nameOf(place)}`)
      if (record.offset < next!) this.wrong.push(`offset ${record.offset} below ${next}`)
      if (record.offset >= high) this.wrong.push(`offset ${record.offset} is not below ${high}`)
      next = record.offset + 1
      this.all.push(record)
    }
    this.#next.set(nameOf(place), next!)
    this.onRecords?.(this.reading, place)
    this.#changed('records')
  }

  gap(place: Place, from: number, to: number): void {
    if (!this.#next.has(nameOf(place))) this.wrong.push(`a gap of ${nameOf(place)}, which is not assigned`)
    this.gaps.push({ place: { topic: place.topic, partition: place.partition }, from, to })
    this.#next.set(nameOf(place), to)
    this.#changed('gap')
  }

  state(fault: string | null): void {
    this.faults.push(fault)
    this.#changed('state')
  }

  /** Resolves once it is so. @throws Error with what came, when it does not become so */
  until(is: () => boolean, what = 'what was waited for'): Promise<void> {
    if (is()) return Promise.resolve()
    return new Promise((resolve, reject) => {
      const cancel = systemClock.after(patienceMs, () => {
        this.#waiting = this.#waiting.filter(one => one !== waiter)
        const seen = JSON.stringify({
          values: this.values().slice(-20),
          assigned: this.partitions,
          faults: this.faults
        })
        reject(new Error(`${what} did not come: ${seen}`))
      })
      const waiter = {
        is,
        resolve: () => {
          cancel()
          resolve()
        }
      }
      this.#waiting.push(waiter)
    })
  }

  /** Resolves once so many records have come. */
  count(count: number): Promise<void> {
    return this.until(() => this.all.length >= count, `${count} records`)
  }

  /** Resolves once it has so many partitions. */
  assignedTo(count: number): Promise<void> {
    return this.until(() => this.partitions.length === count, `${count} partitions`)
  }

  close(): Promise<void> {
    const closed = this.reading.close()
    return closed.then(() => {
      this.#isClosed = true
    })
  }

  #changed(by: string): void {
    if (this.#isClosed) this.wrong.push(`${by} after close`)
    const ready = this.#waiting.filter(({ is }) => is())
    this.#waiting = this.#waiting.filter(one => !ready.includes(one))
    for (const { resolve } of ready) resolve()
  }
}

const usual: Omit<Joining, 'topics' | 'group'> = {
  start: 'earliest',
  isolation: 'read_committed',
  sessionMs: 10_000,
  heartbeatMs: 500,
  rebalanceMs: 10_000,
  rackId: ''
}

const nameOf = ({ topic, partition }: Place) => `${topic}:${partition}`
