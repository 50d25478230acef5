import { percentile } from '../table.ts'
import { FIRST_PROBE } from './job.ts'
import type { Sink } from './socket.ts'

/** Counts what arrives, at a few comparisons a message. */
export class Tally implements Sink {
  readonly #to: 'each' | 'one'
  readonly #clients: number
  /** The number that each client got last. */
  readonly #last: Float64Array
  /** Messages by client, and by number (`one`). */
  readonly counts: Float64Array
  #seen = new Uint8Array(1 << 16)
  /** Clients that got a probe. */
  readonly #flows: Uint8Array
  flowing = 0
  total = 0
  missing = 0
  repeated = 0
  gone = 0
  /** When messages were sent, by number; only these are timed. */
  sentAt = new Float64Array(0)
  readonly times: number[] = []
  /** Called after each read. */
  onRead: () => void = () => {}

  constructor(to: 'each' | 'one', clients: number) {
    this.#to = to
    this.#clients = clients
    this.#last = new Float64Array(clients).fill(-1)
    this.counts = new Float64Array(clients)
    this.#flows = new Uint8Array(clients)
  }

  arrived(client: number, number: number): void {
    if (number >= FIRST_PROBE) {
      if (this.#flows[client] === 0) this.flowing++
      this.#flows[client] = 1
      return
    }
    this.total++
    this.counts[client] = this.counts[client]! + 1
    const sentAt = this.sentAt[number]!
    if (sentAt > 0) this.times.push(performance.now() - sentAt)
    if (this.#to === 'one') return this.#one(number)
    const expected = this.#last[client]! + 1
    if (number > expected) this.missing += number - expected
    else if (number < expected) this.repeated++
    this.#last[client] = number
  }

  #one(number: number): void {
    if (number >= this.#seen.length) {
      const more = new Uint8Array(Math.max(number + 1, this.#seen.length * 2))
      more.set(this.#seen)
      this.#seen = more
    }
    if (this.#seen[number] !== 0) this.repeated++
    this.#seen[number] = 1
  }

  read(): void {
    this.onRead()
  }

  lost(): void {
    this.gone++
  }

  /** What has not come of so many messages. */
  absent(sent: number): number {
    if (this.#to === 'each') return this.#last.reduce((sum, last) => sum + Math.max(0, sent - 1 - last), this.missing)
    let absent = 0
    for (let number = 0; number < sent; number++) if (this.#seen[number] !== 1) absent++
    return absent
  }

  /** Of so many messages, how many have come, on average over the clients. */
  get done(): number {
    return this.#to === 'each' ? this.total / this.#clients : this.total
  }

  latency(): { p50: number; p99: number; worst: number } {
    const sorted = Float64Array.from(this.times).sort()
    return { p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99), worst: sorted.at(-1) ?? Number.NaN }
  }
}
