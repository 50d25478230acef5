import { type Charge, type Words, wordsOf } from '../counters.ts'

/** A charge as the scripts need it. Made once for each. */
export interface Plan {
  readonly place: string
  readonly key: string
  /** A sliding log's entries; null: there are none. */
  readonly list: string | null
  /** Kind, allowed, window and smoothing in one argument. */
  readonly text: string
  /** A quota's newest state, shared by all charges of the id between two dumps. */
  state: QuotaState | null
}

export interface QuotaState {
  readonly id: string
  count: number
  renews: number
  /** Not yet given to a dump. */
  isChanged: boolean
}

export function planOf(limit: Charge, prefix: string): Plan {
  const { kind, algorithm, allowed, perMs, slope, countsRefused } = limit
  const letter =
    kind === 'quota'
      ? 'q'
      : algorithm === 'bucket'
        ? 'b'
        : algorithm === 'fixed_window'
          ? 'f'
          : countsRefused
            ? 'r'
            : 'l'
  const numbers = [allowed, perMs === Number.POSITIVE_INFINITY ? 0 : perMs]
  if (slope !== null) numbers.push(slope.threshold, slope.triggerHundredths, slope.step, slope.delayMs)
  const place = placeOf(limit.id)
  const key = keyOf(prefix, place, limit)
  const isLog = letter === 'l' || letter === 'r'
  const text = `${letter} ${numbers.map(whole).join(' ')}`
  return { place, key, list: isLog ? `${key}l` : null, text, state: null }
}

/**
 * What counters share that a request is held against together: the key's (its rate, its quota, its endpoints and scopes),
 * or the API's. They lie in one slot of a cluster.
 */
export function placeOf(id: string): string {
  const begin = id.startsWith('rate-') ? 5 : id.startsWith('quota-') ? 6 : 0
  if (begin === 0) return id
  const end = id.slice(begin).search(/[-\n]/)
  return end < 0 ? id.slice(begin) : id.slice(begin, begin + end)
}

/** Both keys that a counter may lie under, whatever its kind. */
export function keysOf(prefix: string, id: string): [string, string] {
  const key = keyOf(prefix, placeOf(id), wordsOf(id))
  return [key, `${key}l`]
}

export function keyOf(prefix: string, place: string, words: Words): string {
  return `${prefix}:{${base64url(wordsOf(place))}}${base64url(words)}`
}

function base64url({ w0, w1, w2, w3 }: Words): string {
  const bytes = Buffer.alloc(16)
  for (const [i, word] of [w0, w1, w2, w3].entries()) bytes.writeInt32LE(word, i * 4)
  return bytes.toString('base64url')
}

/** Numbers that stay whole in Redis, a time on top of them included: 200,000 years. */
export function whole(n: number): string {
  return String(Math.min(n, 7e15))
}
