import type { Clock } from '../../config/world.ts'
import { backoffMs } from '../backoff.ts'
import { words } from '../seldom.ts'
import { Fifo } from './fifo.ts'
import type { HubGiven } from './hub.ts'
import type { Entry } from './partitionQueue.ts'

export interface DeadLettersHost {
  deadLettered(entry: Entry): void
  deadLetterFailed(entry: Entry, why: string): void
}

/** What was delivered too often on its way to the dead-letter topic: one after the other, again and again until it is there. */
export class DeadLetters {
  readonly #send: NonNullable<HubGiven['deadLetter']>
  readonly #clock: Clock
  readonly #host: DeadLettersHost
  /** Bounded by what may be under way of each partition. */
  readonly #waiting = new Fifo<Entry>()
  #isRunning = false
  #isStopped = false
  #cancel: (() => void) | null = null
  #failures = 0

  constructor(send: NonNullable<HubGiven['deadLetter']>, clock: Clock, host: DeadLettersHost) {
    this.#send = send
    this.#clock = clock
    this.#host = host
  }

  add(entry: Entry): void {
    this.#waiting.push(entry)
    if (!this.#isRunning && this.#cancel === null) void this.#run()
  }

  stop(): void {
    this.#isStopped = true
    this.#cancel?.()
    this.#cancel = null
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    for (let entry = this.#waiting.peek(); entry !== undefined && !this.#isStopped; entry = this.#waiting.peek()) {
      if (!entry.queue.isLost) {
        try {
          await this.#send(entry.record)
        } catch (fault) {
          this.#later(entry, words(fault))
          break
        }
        this.#failures = 0
        this.#host.deadLettered(entry)
      }
      this.#waiting.shift()
    }
    this.#isRunning = false
  }

  #later(entry: Entry, why: string): void {
    this.#host.deadLetterFailed(entry, why)
    if (this.#isStopped) return
    this.#cancel = this.#clock.after(backoffMs(this.#failures++), () => {
      this.#cancel = null
      void this.#run()
    })
  }
}
