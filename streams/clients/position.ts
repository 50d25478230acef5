import type { Call } from '../call.ts'
import type { From } from '../hub/hub.ts'
import type { DeliveryOptions } from '../options.ts'
import { type No, no, nos } from '../refusals.ts'

export interface Position {
  /** Null: where the stream lets everybody begin. */
  readonly from: From | null
}

/** Names by which clients without control of their headers say where they were. */
const NAMES = ['last_event_id', 'lastEventId', 'evs_last_event_id'] as const
const MOST_CURSOR = 4096
const INSTANT = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?$/
const START: Position = { from: null }

const noSeek = no(nos.badRequest.code, 400, '`from` is not allowed here')
const badFrom = no(nos.badRequest.code, 400, '`from` must be `earliest`, `latest` or a time (ISO 8601)')

/**
 * Where a client wants to begin (facts/streams R13). A cursor goes before `from`: an event source that comes again
 * repeats its address, and has got further since.
 * @param cursor of a poll, which goes before all
 */
export function positionOf(
  call: Call,
  options: DeliveryOptions,
  query: URLSearchParams,
  cursor: string | null
): Position | No {
  const from = query.get('from')
  if (from !== null && (!options.allowSeek || options.mode !== 'broadcast')) return noSeek
  const seek = from === null ? null : seekOf(from)
  if (seek === false) return badFrom
  const last = cursor ?? lastOf(call, query)
  // A browser gives up for good on a 400: of its own id the hub says that nothing is known of it.
  if (cursor !== null && cursor.length > MOST_CURSOR) return nos.badCursor
  // What a client of a group had and did not acknowledge has gone back to the others.
  if (options.mode !== 'broadcast') return START
  if (cursor !== null || (last !== null && options.resume)) return { from: { cursor: last! } }
  return seek === null ? START : { from: seek }
}

function lastOf(call: Call, query: URLSearchParams): string | null {
  const header = call.header('last-event-id')
  if (header !== null && header !== '') return header
  for (const name of NAMES) {
    const value = query.get(name)
    if (value !== null && value !== '') return value
  }
  return null
}

function seekOf(text: string): From | false {
  if (text === 'earliest' || text === 'latest') return text
  // A plus that was not escaped reads as a space.
  const instant = text.replace(' ', '+')
  const timestamp = INSTANT.test(instant) ? Date.parse(instant) : Number.NaN
  return Number.isNaN(timestamp) || timestamp < 0 ? false : { timestamp }
}
