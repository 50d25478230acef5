import type { Item } from '../hub/hub.ts'
import type { DeliveryOptions } from '../options.ts'
import { type No, no, nos } from '../refusals.ts'
import { headerValue } from './envelope.ts'

/** What a poll asks for. */
export interface Asked {
  /** Members at most; 0: one message, as it is. */
  readonly limit: number
  readonly waitMs: number
  /** Of `cursor`; null: none. */
  readonly cursor: string | null
}

const badLimit = no(nos.badRequest.code, 400, '`limit` must be a whole number from 1 to 1000')
const badWait = no(nos.badRequest.code, 400, '`wait` must be a whole number of milliseconds')

export function askedOf(query: URLSearchParams, options: DeliveryOptions): Asked | No {
  const limit = query.get('limit')
  const wait = query.get('wait')
  const cursor = query.get('cursor')
  if (limit !== null && (!/^\d{1,4}$/.test(limit) || Number(limit) < 1 || Number(limit) > 1000)) return badLimit
  if (wait !== null && !/^\d{1,9}$/.test(wait)) return badWait
  return {
    limit: limit === null ? 0 : Number(limit),
    waitMs: wait === null ? options.timeoutMs : Math.min(options.timeoutMs, Number(wait)),
    cursor: cursor === '' ? null : cursor
  }
}

/** What the head of an answer tells of the one message that is its body. */
export function messagePairs({ record, cursor }: Item): string[] {
  const { topic, partition, offset, key } = record
  const pairs = ['Content-Type', contentType(headerValue(record, 'content-type'))]
  // A producer's page must not run as one of this host.
  pairs.push('X-Content-Type-Options', 'nosniff', 'Content-Security-Policy', "default-src 'none'; sandbox")
  if (cursor !== null) pairs.push('svc-id', cursor)
  if (key !== null) named(pairs, 'svc-key', key)
  named(pairs, 'svc-topic', Buffer.from(topic))
  pairs.push('svc-partition', String(partition), 'svc-offset', String(offset))
  return pairs
}

/** RFC 9110 §8.3.1, without quoted strings. */
const MEDIA_TYPE =
  /^[\w!#$%&'*+.^`|~-]{1,100}\/[\w!#$%&'*+.^`|~-]{1,100}(?:[ \t]*;[ \t]*[\w!#$%&'*+.^`|~=-]{1,100}){0,5}$/

function contentType(given: Buffer | null): string {
  if (given === null || given.length > 256) return 'application/octet-stream'
  const text = given.toString('latin1').trim()
  return MEDIA_TYPE.test(text) ? text : 'application/octet-stream'
}

/** Whatever could not stand in a header goes in base64, under a name that tells. */
function named(pairs: string[], name: string, value: Buffer): void {
  const text = value.toString('latin1')
  if (/^[!-~](?:[ -~]{0,1022}[!-~])?$/.test(text)) pairs.push(name, text)
  else if (value.length > 0 && value.length <= 1024) pairs.push(`${name}-base64`, value.toString('base64'))
}
