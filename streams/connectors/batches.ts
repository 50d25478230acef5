import type { Clock } from '../../config/world.ts'
import type { Message, Placed } from '../message.ts'
import { sizeOf } from '../message.ts'

export type Outgoing = Message & { readonly partition: number }
type Produced = readonly Placed[]

/** Several calls that go to a broker as one. */
interface Batch {
  readonly messages: Outgoing[]
  bytes: number
  /** The earliest of all. */
  deadline: number
  readonly waiting: {
    readonly from: number
    readonly count: number
    resolve(placed: Produced): void
    reject(cause: unknown): void
  }[]
  cancel: (() => void) | null
}

export interface BatchBounds {
  /** Messages and bytes after which a batch goes; Infinity: no bound. */
  readonly count: number
  readonly bytes: number
  /** Longest wait for more; 0: a batch waits only while another is under way. */
  readonly periodMs: number
}

/** Gathers messages of one topic before they are produced. */
export class Batches {
  readonly #bounds: BatchBounds
  readonly #clock: Clock
  readonly #produce: (topic: string, messages: readonly Outgoing[], deadline: number) => Promise<Produced>
  readonly #open = new Map<string, Batch>()
  #underWay = 0

  constructor(
    bounds: BatchBounds,
    clock: Clock,
    produce: (topic: string, messages: readonly Outgoing[], deadline: number) => Promise<Produced>
  ) {
    this.#bounds = bounds
    this.#clock = clock
    this.#produce = produce
  }

  add(topic: string, messages: readonly Outgoing[], deadline: number): Promise<Produced> {
    let batch = this.#open.get(topic)
    if (batch === undefined) {
      batch = { messages: [], bytes: 0, deadline, waiting: [], cancel: null }
      this.#open.set(topic, batch)
    }
    const from = batch.messages.length
    for (const message of messages) {
      batch.messages.push(message)
      batch.bytes += sizeOf(message)
    }
    const { promise, resolve, reject } = Promise.withResolvers<Produced>()
    batch.waiting.push({ from, count: messages.length, resolve, reject })
    const { count, bytes, periodMs } = this.#bounds
    const isSooner = deadline < batch.deadline
    if (isSooner) batch.deadline = deadline
    if (batch.messages.length >= count || batch.bytes >= bytes) this.#go(topic, batch)
    else if (periodMs === 0) {
      if (this.#underWay === 0) this.#go(topic, batch)
    } else if (batch.cancel === null || isSooner) {
      const wait = Math.min(periodMs, (batch.deadline - this.#clock.now()) / 2)
      if (wait < 1) this.#go(topic, batch)
      else if (batch.cancel === null) batch.cancel = this.#clock.after(wait, () => this.#go(topic, batch))
      else if (wait < periodMs) {
        batch.cancel()
        batch.cancel = this.#clock.after(wait, () => this.#go(topic, batch))
      }
    }
    return promise
  }

  /** What waits goes now. */
  flush(): void {
    for (const [topic, batch] of [...this.#open]) this.#go(topic, batch)
  }

  #go(topic: string, batch: Batch): void {
    batch.cancel?.()
    this.#open.delete(topic)
    this.#underWay++
    this.#produce(topic, batch.messages, batch.deadline).then(
      placed => {
        this.#ended()
        for (const { from, count, resolve } of batch.waiting) resolve(placed.slice(from, from + count))
      },
      cause => {
        this.#ended()
        for (const { reject } of batch.waiting) reject(cause)
      }
    )
  }

  #ended(): void {
    this.#underWay--
    if (this.#bounds.periodMs === 0 && this.#underWay === 0) this.flush()
  }
}
