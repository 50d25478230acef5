import { constants, performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2'
import type { Duplex } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import type { Clock } from '../../../config/world.ts'
import type { Peer } from '../../exchange.ts'
import { Carrier, type CarrierOwner, cutOff } from './carrier.ts'
import { requestText } from './requestText.ts'

const { NGHTTP2_CANCEL, NGHTTP2_FLAG_END_STREAM: END_STREAM, NGHTTP2_PROTOCOL_ERROR } = constants

/** Requests of one client at a time. */
const MOST_STREAMS = 128
/** As of HTTP/1.1. */
const HEAD_BYTES = 16_384
const MOST_FIELDS = 1_000
/** Bytes that a request, and all of a connection, may send before anyone has read them. */
const STREAM_WINDOW = 262_144
const WINDOW = 1_048_576
/** Of one connection, all that waits for it and its streams, in MB. */
const MEMORY_MB = 32
/** Requests that a client may take back at once, and each second (CVE-2023-44487). */
const RESETS = 500
const RESETS_A_SECOND = 50
const MOST_REJECTED = 100
/** Inner connections that are kept for the next requests. */
const MOST_IDLE = 32

const options = {
  settings: { maxConcurrentStreams: MOST_STREAMS, maxHeaderListSize: HEAD_BYTES, initialWindowSize: STREAM_WINDOW },
  maxHeaderListPairs: MOST_FIELDS,
  maxSessionMemory: MEMORY_MB,
  maxSessionRejectedStreams: MOST_REJECTED,
  maxSessionInvalidFrames: MOST_REJECTED,
  streamResetBurst: RESETS,
  streamResetRate: RESETS_A_SECOND,
  // Ours to check, in one way for every version.
  strictSingleValueFields: false
}

export interface CarriageGiven {
  readonly socket: TLSSocket
  readonly peer: Peer
  readonly clock: Clock
  /** Longest time that a client may take for the rest of an answer that is complete here. */
  readonly writeMs: number
  /** The server serves an inner connection. */
  readonly open: (inner: Duplex) => void
  readonly closed: () => void
}

/**
 * One connection of HTTP/2. Each of its requests goes to the server of HTTP/1.1 over an inner connection, which never leaves
 * the process: so rules, limits, streams and the access log are the same.
 */
export class Carriage implements CarrierOwner {
  readonly socket: TLSSocket
  /** Since when there is no request, milliseconds since the epoch; Infinity: there is one. */
  idleSince: number
  readonly #given: CarriageGiven
  readonly #session: ServerHttp2Session
  readonly #idle: Carrier[] = []
  /** Answers that wait for the client alone, and since when, milliseconds since the epoch; in order of that. */
  readonly #leaving = new Map<ServerHttp2Stream, number>()
  #streams = 0
  #isEnding = false

  constructor(given: CarriageGiven) {
    const { socket, clock } = given
    this.#given = given
    this.socket = socket
    this.idleSince = clock.now()
    const session = performServerHandshake(socket, options)
    this.#session = session
    if (!session.destroyed) session.setLocalWindowSize(WINDOW)
    session.on('stream', (stream, _headers, flags, raw) => this.#begin(stream, flags, raw as unknown as string[]))
    session.on('error', ignore)
    session.on('close', () => this.#closed())
  }

  free(carrier: Carrier): void {
    if (this.#idle.length < MOST_IDLE && !this.#session.destroyed) this.#idle.push(carrier)
    else carrier.inner.destroy()
  }

  gone(carrier: Carrier): void {
    const at = this.#idle.indexOf(carrier)
    if (at >= 0) this.#idle.splice(at, 1)
  }

  leaving(stream: ServerHttp2Stream): void {
    this.#leaving.set(stream, this.#given.clock.now())
  }

  /** Ends what has waited for the client for too long, and itself where it has none. */
  sweep(now: number, idleMs: number): void {
    for (const [stream, since] of this.#leaving) {
      if (now - since < this.#given.writeMs) break
      this.#leaving.delete(stream)
      cutOff(stream, NGHTTP2_CANCEL)
    }
    if (now - this.idleSince > idleMs) this.end()
  }

  /** As `GatewayServer`: a connection without a request goes on until one has come. */
  announceEnd(): void {
    this.#isEnding = true
    if (this.#streams > 0) this.end()
  }

  /** Tells the client to take its next requests elsewhere (GOAWAY); ends with those under way. */
  end(): void {
    this.#isEnding = true
    if (!this.#session.closed && !this.#session.destroyed) this.#session.close()
  }

  destroy(): void {
    if (this.#session.destroyed) this.socket.destroy()
    else this.#session.destroy()
  }

  #begin(stream: ServerHttp2Stream, flags: number, raw: readonly string[]): void {
    stream.on('error', ignore)
    // Taken back already.
    if (stream.destroyed || stream.closed) return void stream.resume()
    this.#streams++
    this.idleSince = Number.POSITIVE_INFINITY
    stream.on('close', () => this.#ended(stream))
    const request = requestText(raw, (flags & END_STREAM) !== 0)
    if (request === null) return cutOff(stream, NGHTTP2_PROTOCOL_ERROR)
    const carrier = this.#idle.pop() ?? this.#opened()
    carrier.begin(stream, request)
    if (this.#isEnding) this.end()
  }

  #opened(): Carrier {
    const carrier = new Carrier(this)
    this.#given.open(carrier.inner)
    return carrier
  }

  #ended(stream: ServerHttp2Stream): void {
    this.#leaving.delete(stream)
    this.#streams--
    if (this.#streams === 0) this.idleSince = this.#given.clock.now()
  }

  #closed(): void {
    for (const carrier of this.#idle.splice(0)) carrier.inner.destroy()
    this.#given.closed()
  }
}

function ignore(): void {}
