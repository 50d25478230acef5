/** What `receiver.ts` is told, and what it tells: clients of a stream, and the messages that they are to get. */

/** Bytes of one message; JSON, so that every kind of stream takes it. */
export const MESSAGE_BYTES = 200
/** Stands once in a message, nowhere else in what surrounds it, and before `DIGITS` digits that count the messages. */
export const MARK = 0x21
export const DIGITS = 9
/** Messages from this number on are sent until clients get any: they show that a stream flows, and count nowhere. */
export const FIRST_PROBE = 900_000_000

/** How messages get into the stream. */
export type Feed = FeedTo & FeedHow

type FeedTo =
  | { readonly to: 'kafka'; readonly brokers: readonly string[]; readonly topic: string }
  /** `alone`: one POST a message, one at a time. `together`: as lines of one POST, what is due at once. */
  | { readonly to: 'http'; readonly url: string; readonly posts: 'alone' | 'together' }

type FeedHow =
  /** So many messages under way, on average over the clients: one more is sent as soon as one has arrived. */
  | { readonly window: number; readonly amount?: number }
  /** So many a second, whether the earlier ones have arrived or not. */
  | { readonly rate: number }

export interface Job {
  readonly url: string
  readonly transport: 'sse' | 'websocket'
  readonly clients: number
  /** Of the process that serves them. */
  readonly pid: number
  /** `each`: every client gets every message. `one`: one client gets it. */
  readonly to: 'each' | 'one'
  /** Null: messages come by themselves. */
  readonly feed: Feed | null
  /** Counted before the measurement begins; 0 with an amount. */
  readonly warmUp: number
  /** Length of the measurement; with an amount the longest wait for it. */
  readonly seconds: number
  /** Ends when so many messages have come. */
  readonly amount?: number
  /** Messages are numbered without gaps, so that missing ones show. */
  readonly isChecked: boolean
  /** File for the findings. */
  readonly report: string
}

/** All of the time measured. */
export interface Received {
  /** Of all clients together. */
  readonly messages: number
  readonly seconds: number
  /** CPU time of the process that serves, µs. */
  readonly cpu: number
  /** Its write calls to the system. */
  readonly writes: number
  /** Its memory in MiB: before the first client came, with all of them quiet, at the end. */
  readonly before: number
  readonly quiet: number
  readonly rss: number
  /** The fewest and the most messages of one client. */
  readonly least: number
  readonly most: number
  readonly missing: number
  readonly repeated: number
  /** Connections that ended by themselves. */
  readonly lost: number
  /** From the sending of a message to its arrival, ms; NaN unless a rate was held. */
  readonly p50: number
  readonly p99: number
  readonly worst: number
  /** Messages sent meanwhile and not accepted. */
  readonly refused: number
  /** Share of its core that the receiver itself took, 0 to 1: near 1 it is the bound. */
  readonly busy: number
}

const pad = 'x'.repeat(MESSAGE_BYTES - '{"n":"!000000000","pad":""}'.length)

export function message(number: number): string {
  return `{"n":"!${String(number).padStart(DIGITS, '0')}","pad":"${pad}"}`
}
