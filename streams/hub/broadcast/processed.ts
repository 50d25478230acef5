import type { Log } from '../../../config/world.ts'
import type { Process } from '../../connector.ts'
import type { Arrived, Message } from '../../message.ts'
import { Undelivered } from '../../undelivered.ts'

/** What became of everything, over the life of a hub. */
export interface Tally {
  delivered: number
  deliveredBytes: number
  dropped: number
  /** What went wrong last, for the status page. */
  fault: string | null
}

/** What processors make of a record; null: nobody is to have it. */
export function processed(record: Arrived, process: readonly Process[], tally: Tally, log: Log): Arrived | null {
  let message: Message = record
  try {
    for (let i = 0; i < process.length; i++) {
      const made = process[i]!(message)
      if (made === null) return null
      message = made
    }
  } catch (error) {
    tally.dropped++
    const { topic, partition, offset } = record
    const reason = error instanceof Error ? error.message : String(error)
    tally.fault = `${topic}:${partition}@${offset}: ${reason}`
    // What a document asked to be rejected is no fault of ours; anything else is.
    if (!(error instanceof Undelivered)) log.error('stream processor', { topic, partition, offset, error: reason })
    return null
  }
  if (message === record) return record
  const { key, value, headers } = message
  const { topic, partition, offset, timestamp } = record
  return { key, value, headers, topic, partition, offset, timestamp }
}
