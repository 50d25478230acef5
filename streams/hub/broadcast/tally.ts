import type { Arrived } from '../../message.ts'
import { seldom } from '../../seldom.ts'
import type { HubGiven } from '../hub.ts'
import { processed } from '../processed.ts'

/** What became of everything, over the life of a hub. */
export class Tally {
  delivered = 0
  deliveredBytes = 0
  dropped = 0
  /** What went wrong last, for the status page. */
  fault: string | null = null
  readonly #process: HubGiven['process']
  readonly #warn: (why: string) => void

  constructor({ process, log, clock, api, stream }: HubGiven) {
    this.#process = process
    this.#warn = seldom(log, clock, 'stream message rejected', { api_id: api, stream })
  }

  /** What processors make of a record; null: nobody is to have it. */
  processed(record: Arrived): Arrived | null {
    const made = processed(record, this.#process)
    if (typeof made !== 'string') return made
    const { topic, partition, offset } = record
    this.dropped++
    this.fault = `${topic}:${partition}@${offset}: ${made}`
    this.#warn(this.fault)
    return null
  }
}
