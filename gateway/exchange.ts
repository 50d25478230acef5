import { type IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Api, Operation } from './api.ts'
import type { Presented } from './certificates/presented.ts'
import type { Charge, Verdict } from './counters/counters.ts'
import type { Grant, Session } from './keys/keys.ts'
import type { Refusal } from './refusals.ts'

/** The socket of a client that asked to upgrade, and what it sent behind its head. */
export interface Upgrade {
  readonly socket: Duplex
  readonly first: Buffer
}

/** The other end of a client's connection; made once a connection. */
export interface Peer {
  /** Address of the socket's other end. */
  readonly address: string
  /** It is one of `gateway.trusted_proxies`: what it forwards about the client is believed. */
  readonly trusted: boolean
  readonly secure: boolean
  /** The certificate that it showed in its TLS handshake; null: none. */
  readonly presented: Presented | null
}

/** Who waits for the client's socket: the proxy's forward. */
export interface Waiter {
  /** The response has closed, complete or not. */
  closed(): void
}

/** How long a connection with an unread body stays open behind an answer, so that the client can read it. */
const LINGER_MS = 1_000

/** Our own response class: exchange and waiter hang on it, so that listeners are module functions and no closures. */
export class Reply extends ServerResponse {
  exchange: Exchange | null = null
  waiter: Waiter | null = null

  /**
   * The rest of the request's body will not be read to its end: the connection closes behind this answer, but only
   * after a moment in which what still comes is dropped, since a close with unread bytes would destroy the answer.
   * Before `writeHead`.
   */
  linger(): void {
    this.shouldKeepAlive = false
    const { socket } = this.req
    socket.destroySoon = () => lingerOn(socket)
  }

  /** Ends in a way that no client can take for a complete answer; what came of it so far still goes out. */
  cutOff(): void {
    const socket = this.socket
    if (socket === null) return void this.destroy()
    // HTTP/1.0: a body may end with the connection, and only a reset tells that it is not whole.
    if (this.req.httpVersionMinor === 0) return void socket.resetAndDestroy()
    // Node holds chunks back until the next tick.
    if (this.writableCorked > 0) this.uncork()
    this.flushHeaders()
    lingerOn(socket)
  }
}

/** Ends a connection whose other side may still send; what comes is dropped. */
export function lingerOn(socket: Socket): void {
  socket.end()
  const timer = setTimeout(() => socket.destroy(), LINGER_MS)
  socket.once('close', () => clearTimeout(timer))
  socket.removeAllListeners('data')
  socket.resume()
}

/** What the server found out about a request's head while it checked the framing. */
export interface RequestHead {
  /** Of the `Host` header: lower case, without port; '' where none was sent. */
  readonly host: string
  /** Bytes of the body; 0: no body; -1: chunked. */
  readonly bodyLength: number
  /** Value of `Connection`, lower case, '' where none. */
  readonly connection: string
  /** `Authorization` fields. */
  readonly authorizations: number
}

/** A body that was read before the request went anywhere. */
export interface ReadBody {
  readonly bytes: Buffer
  /** Raw pairs; [] where none came. */
  readonly trailers: readonly string[]
}

/** One request on its way through the gateway. Every field is set here, in this order, for every request. */
export class Exchange {
  readonly req: IncomingMessage
  readonly res: Reply
  /** Milliseconds since the epoch, asked of the clock once. */
  readonly at: number
  readonly method: string
  readonly host: string
  readonly bodyLength: number
  readonly connection: string
  /** Address of the client, a trusted proxy's word included. */
  readonly client: string
  readonly peer: Peer
  /** As the client wrote it, dot segments resolved, without the query. */
  readonly path: string
  /** '' or from the question mark on, as the client wrote it. */
  query: string
  /** The path behind the listen path in the form that rules match (`normalPath`); begins with '/'. */
  rest = '/'
  /** The path is in normal form as it came: `rest` is also what the client wrote. */
  plain = false
  route: Route
  /** The operation of the document that the request hits, if the document has something to say about it. */
  operation: Operation | null = null
  /** What the caller has shown: a token, a user name; set by the authentication step. */
  credential: string | null = null
  key: Session | null = null
  /** What a token says of its caller, once it was verified. */
  claims: Readonly<Record<string, unknown>> | null = null
  /** When the credential ends by itself, milliseconds since the epoch; connections of streams end with it. */
  validUntil = Number.POSITIVE_INFINITY
  /**
   * When a refused credential is told of (`AuthFailure`). `later`: other alternatives may still let the request in;
   * `due`: the same, and one was refused.
   */
  failures: 'at once' | 'later' | 'due' = 'at once'
  grant: Grant | null = null
  /** The limits that this request is held against; null when none applies. */
  limit: LimitPlan | null = null
  /** How the limits stood after this request was charged; null when none applies. */
  verdict: Verdict | null = null
  refusal: Refusal | null = null
  readonly upgrade: Upgrade | null
  /** Set when a step has read the whole body: it goes up from here. */
  body: ReadBody | null = null
  /** Answered by the gateway itself: a probe, or the interface below `/svc/`. */
  inner = false
  /** The client left while we waited. */
  gone = false
  /** When the request went to the upstream, ms since the epoch; 0: it did not. */
  sentAt = 0
  /** Milliseconds that the upstream took, from `sentAt` to the end of its answer (its head, until that has come); -1: none answered. */
  upstreamMs = -1
  /** Bytes of the answer's body that were handed to the client. */
  bytes = 0

  constructor(
    req: IncomingMessage,
    res: Reply,
    at: number,
    head: RequestHead,
    client: string,
    peer: Peer,
    path: string,
    query: string,
    route: Route,
    upgrade: Upgrade | null
  ) {
    this.req = req
    this.res = res
    this.at = at
    this.method = req.method!
    this.host = head.host
    this.bodyLength = head.bodyLength
    this.connection = head.connection
    this.client = client
    this.peer = peer
    this.path = path
    this.query = query
    this.route = route
    this.upgrade = upgrade
  }

  /** The client waits for `100 Continue` with its body; HTTP/1.0 has no such thing (RFC 9110 §10.1.1). */
  get expects(): boolean {
    return this.req.httpVersionMinor === 1 && this.header('expect') !== null
  }

  /** First value of a header, by its lower-case name. */
  header(name: string): string | null {
    return headerOf(this.req.rawHeaders, name)
  }
}

/** First value of a header in raw pairs, by its lower-case name; without building an object of all headers. */
export function headerOf(pairs: readonly string[], name: string): string | null {
  for (let i = 0; i < pairs.length; i += 2) {
    const given = pairs[i]!
    if (given.length === name.length && (given === name || given.toLowerCase() === name)) return pairs[i + 1]!
  }
  return null
}

/** The limits of one key on one API (and operation), put together once. Indices are those of `charges`; -1: has none. */
export interface LimitPlan {
  readonly charges: readonly Charge[]
  readonly keyRate: number
  readonly quota: number
  readonly apiRate: number
  /** What the headers tell of the quota, ready-made: the quota's maximum. */
  readonly quotaLimit: string
  /** Some rate moves its allowance. */
  readonly smooths: boolean
  readonly throttle: { readonly intervalMs: number; readonly retries: number } | null
}

export const ANSWERED: unique symbol = Symbol('answered')
/** On to the last step, the one that answers, past all others. */
export const LAST: unique symbol = Symbol('last')
/** undefined: on to the next step. */
export type Outcome = undefined | Refusal | typeof ANSWERED | typeof LAST
export type Run = (x: Exchange) => Outcome | Promise<Outcome>
/** Edits the head of an answer in place: raw header pairs. Runs on refusals too (`x.refusal` tells). */
export type Head = (x: Exchange, status: number, pairs: string[]) => void
/** Runs once when the response has closed; never asynchronous. */
export type After = (x: Exchange) => void

export interface Route {
  readonly api: Api
  /** Requests flow down this list. */
  readonly runs: readonly Run[]
  readonly heads: readonly Head[]
  readonly after: readonly After[]
}
