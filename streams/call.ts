import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { No } from './refusals.ts'

/** One request or upgrade as streams see it, behind authentication and limits. `gateway/steps/stream.ts` makes it. */
export interface Call {
  /** Id of the API. */
  readonly api: string
  readonly req: IncomingMessage
  readonly res: ServerResponse
  /** Null: an ordinary request. `first`: what the client sent behind its head. */
  readonly upgrade: { readonly socket: Duplex; readonly first: Buffer } | null
  readonly method: string
  /** Behind the listen path, in normal form; begins with `/`. */
  readonly path: string
  /** What stood in the placeholders of the stream's path; set by the router. */
  params: Readonly<Record<string, string>>
  /** '' or from the question mark on, without a credential that stood in it. */
  readonly query: string
  /** Milliseconds since the epoch. */
  readonly at: number
  /** Address of the client. */
  readonly client: string
  /** Bytes of the body; 0: none; -1: unknown. */
  readonly bodyLength: number
  /** Hash of the key, '' where the API asks for none: for limits by key and for logs. */
  readonly key: string
  /** The credential came in a cookie, which browsers send along from foreign pages. */
  readonly isByCookie: boolean
  /** Lower-case names of headers that may hold a credential: they never become part of a message. */
  readonly secretHeaders: ReadonlySet<string>
  /** The client has left. */
  readonly isGone: boolean
  /** First value of a header, by its lower-case name. */
  header(name: string): string | null
  /** Value of `$svc_context.…` or `$svc_meta.…`, by its whole name without the dollar sign; '' where absent. */
  variable(name: string): string
  /**
   * Charges `count` messages or bytes to the key's quota: what is left then, Infinity without one. Below 0: not so many were
   * left, and nothing is covered. Rejected: nobody could tell. It does not throw.
   */
  charge(count: number): number | Promise<number>
  /** A whole answer through the API's own heads (CORS, rate-limit headers). `body` null: none. */
  answer(status: number, pairs: string[], body: Buffer | null): void
  refuse(what: No): void
  /** The header pairs of an answer that is written elsewhere, changed by the API's own heads. */
  head(status: number, pairs: string[]): string[]
  /** Bytes that went to the client, for the access log. */
  sent(bytes: number): void
  /** Called once, when the client's connection or the answer has closed. */
  onClose(listener: () => void): void
}
