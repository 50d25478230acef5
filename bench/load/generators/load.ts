import type { Place } from '../machine.ts'

/** Requests to send, as many as a bound says: `seconds` or `amount`. */
export interface Load {
  /** Address and path. */
  readonly url: string
  readonly connections: number
  /** Where the generator runs; default: beside the upstream. */
  readonly place?: Place
  readonly seconds?: number
  /** So many requests in all, instead of seconds. */
  readonly amount?: number
  /** Requests a second, held; without it as many as come back. */
  readonly rate?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Bytes of a body to POST; without it GET. */
  readonly post?: number
  /** Paths to take in turn instead of that of `url`. */
  readonly paths?: readonly string[]
  /** Each request carries one of these in `Authorization`. */
  readonly tokens?: Tokens
}

/** A file of texts of equal length, one a line. */
export interface Tokens {
  readonly file: string
  readonly length: number
  readonly count: number
  /** `in turn`: one after the other, from the first again behind the last; absent: any. */
  readonly order?: 'in turn'
}

/** Times are milliseconds. */
export interface Measured {
  /** Answered, whatever with. */
  readonly requests: number
  readonly seconds: number
  readonly p50: number
  readonly p99: number
  readonly worst: number
  /** Answers of status 400 and above. */
  readonly refused: number
  /** Without an answer: connection errors, time-outs. */
  readonly broken: number
  /** When each request began (ms since the epoch) and how long it took; null where the generator does not tell. */
  readonly each: { readonly at: Float64Array; readonly ms: Float64Array } | null
}
