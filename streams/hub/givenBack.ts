import { DeadLetters } from './deadLetters.ts'
import type { GroupSeat } from './groupSeat.ts'
import type { HubGiven } from './hub.ts'
import type { Entry, PartitionQueue } from './partitionQueue.ts'

/** Late acknowledgements are looked for at least so far apart. */
const LATE_APART_MS = 250

export interface GivenBackHost {
  readonly seats: Iterable<GroupSeat>
  readonly counts: { dropped: number; deadLettered: number }
  /** It was with a client or a dead letter, and is done. */
  done(entry: Entry): void
  arrived(queue: PartitionQueue): void
  /** A message was dropped, or could not become a dead letter. */
  givenUp(entry: Entry, why: string): void
}

/** Messages that clients had and did not get delivered: others get them, a bounded number of times. */
export class GivenBack {
  readonly #given: HubGiven
  readonly #host: GivenBackHost
  readonly #deadLetters: DeadLetters | null
  #isStopped = false
  #cancelLate: (() => void) | null = null

  constructor(given: HubGiven, host: GivenBackHost) {
    this.#given = given
    this.#host = host
    this.#deadLetters =
      given.deadLetter === null
        ? null
        : new DeadLetters(given.deadLetter, given.clock, {
            deadLettered: entry => {
              if (entry.queue.isLost) return
              host.counts.deadLettered++
              host.done(entry)
            },
            deadLetterFailed: (entry, why) => host.givenUp(entry, `dead letter: ${why}`)
          })
  }

  /** Nothing is given up any more: who reads next begins to count anew. */
  stop(): void {
    this.#isStopped = true
    this.#deadLetters?.stop()
    this.#cancelLate?.()
    this.#cancelLate = null
  }

  /**
   * What one client had, to the front in order of the offsets. That counts against the first one alone: those behind it
   * waited for it, and must not be given up for that.
   */
  take(entries: readonly Entry[]): void {
    const first = entries.find(({ queue }) => !queue.isLost)
    if (first !== undefined) first.failures++
    for (const [queue, all] of byQueue(entries)) {
      for (const entry of all) {
        entry.holder = null
        // Who acknowledges what another client has by now, with the same key perhaps, must not speak for that one.
        if (this.#given.options.ack === 'client') queue.renew(entry)
      }
      queue.takeBack(all.filter(entry => entry !== first || !this.#isTooMuch(entry)))
      if (queue === first!.queue && this.#isTooMuch(first!)) this.#giveUp(first!)
      this.#host.arrived(queue)
    }
  }

  /** A client has something to acknowledge. */
  watch(): void {
    if (this.#cancelLate === null) this.#lookAfter(this.#given.options.ackTimeoutMs)
  }

  #isTooMuch({ failures }: Entry): boolean {
    return !this.#isStopped && failures >= this.#given.options.maxDeliveries
  }

  #giveUp(entry: Entry): void {
    entry.isOver = true
    if (this.#deadLetters !== null) return this.#deadLetters.add(entry)
    this.#host.counts.dropped++
    this.#host.givenUp(entry, `delivered ${entry.failures} times without success`)
    this.#host.done(entry)
  }

  #lookAfter(ms: number): void {
    this.#cancelLate = this.#given.clock.after(ms, this.#late)
  }

  /** Takes back what was not acknowledged in time, and goes on with those who paused for that. */
  readonly #late = (): void => {
    const { ackTimeoutMs } = this.#given.options
    const now = this.#given.clock.now()
    let next = Number.POSITIVE_INFINITY
    for (const seat of this.#host.seats) {
      if (seat.timeUpAt <= now) this.take(seat.timeUp())
      next = Math.min(next, seat.timeUpAt)
    }
    this.#cancelLate = null
    if (next < Number.POSITIVE_INFINITY)
      this.#lookAfter(Math.max(next - now, Math.min(LATE_APART_MS, ackTimeoutMs / 10)))
  }
}

/** Without those of partitions that were taken away. */
export function byQueue(entries: readonly Entry[]): Map<PartitionQueue, Entry[]> {
  const found = new Map<PartitionQueue, Entry[]>()
  for (const entry of entries) {
    if (entry.queue.isLost) continue
    const some = found.get(entry.queue)
    if (some === undefined) found.set(entry.queue, [entry])
    else some.push(entry)
  }
  return found
}
