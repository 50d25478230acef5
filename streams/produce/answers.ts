import type { Clock, Fields, Log } from '../../config/world.ts'
import type { Placed } from '../message.ts'
import { type No, no, nos } from '../refusals.ts'
import { Undelivered } from '../undelivered.ts'

/** What a producer is told of its messages (facts/streams §4.6). */

const LONGEST_REASON = 500
const FAILURE_LOG_MS = 1000

const refused = no('message_invalid', 422, 'the message was refused')

/** The answer to what did not arrive. Its text is neutral, but for what we found `invalid`: the sender's own matter. */
export function refusalOf(fault: unknown): No {
  if (!(fault instanceof Undelivered)) return nos.failed
  switch (fault.reason) {
    case 'unavailable':
      return nos.unavailable
    case 'unknown':
      return nos.unknown
    case 'busy':
      return nos.busy
    case 'too_large':
      return nos.bodyTooLarge
    case 'invalid':
      return fault.isForeign ? refused : no('message_invalid', 422, fault.message.slice(0, LONGEST_REASON))
    case 'misconfigured':
      return nos.misconfigured
    case 'rejected':
    case 'failed':
      return nos.failed
  }
}

/** Whether the same message may be sent again at once without a chance that it arrives twice. */
export function isSafeToRetry(refusal: No): boolean {
  return refusal.status === 503
}

/** From the worst on: what may have been written, what an operator must mend, what passes, what the sender did. */
const BADNESS = [504, 502, 503, 413, 422]

export function worst(refusals: readonly No[]): No {
  return refusals.reduce((a, b) => (BADNESS.indexOf(b.status) < BADNESS.indexOf(a.status) ? b : a))
}

/** What became of one message: where it went, that it was filtered out, or why it did not arrive. */
export type Result = Placed | 'filtered' | 'delivered' | No

export function told(result: Result): object {
  if (typeof result === 'string') return { [result]: true }
  if ('code' in result) return { error: { code: result.code, message: result.message } }
  const { topic, partition, offset, timestamp } = result
  return { topic, partition, offset, timestamp }
}

/** Logs failures of one stream, at most one line a second, with the count of those in between. */
export class Failures {
  readonly #clock: Clock
  readonly #log: Log
  readonly #fields: Fields
  #next = 0
  #unsaid = 0

  constructor(clock: Clock, log: Log, fields: Fields) {
    this.#clock = clock
    this.#log = log
    this.#fields = fields
  }

  add(fault: unknown): void {
    // The sender hears of it and can mend it alone.
    if (fault instanceof Undelivered && fault.reason === 'invalid' && !fault.isForeign) return
    const now = this.#clock.now()
    if (now < this.#next) return void this.#unsaid++
    this.#next = now + FAILURE_LOG_MS
    this.#log.warn('message not delivered', {
      ...this.#fields,
      reason: fault instanceof Undelivered ? fault.reason : 'fault',
      cause: fault instanceof Error ? fault.message : String(fault),
      ...(fault instanceof Undelivered ? {} : { stack: fault instanceof Error ? fault.stack : undefined }),
      unsaid: this.#unsaid
    })
    this.#unsaid = 0
  }
}
