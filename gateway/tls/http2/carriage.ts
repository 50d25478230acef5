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
/**
 * More than those of HTTP/1.1, which answer what is beyond them: HTTP/2 has fields of its own and counts 32 bytes more for
 * each (RFC 9113 §6.5.2). Beyond these a request is refused without an answer.
 */
const MOST_FIELDS = 1_000 + 8
const HEAD_BYTES = 2 * 16_384 + 32 * MOST_FIELDS
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
/** Before a stop, a connection ends that has been without a request for so long: longer than the next one is on its way. */
const QUIET_MS = 250
/** How often a connection that is to end is looked at; when one without a request does end, and how long its last bytes may take. */
const END_MS = 100
const HALF_MS = 200
const LINGER_MS = 600

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
  /** The last stream whose head is known whole, or was refused. */
  #known = 0
  /** The one whose head has begun, and since when, milliseconds since the epoch; 0: none. */
  #half = 0
  #halfSince = 0
  #isEnding = false
  #isClosed = false
  /** Since when it is to end; milliseconds since the epoch. */
  #endsSince = 0
  #destroyedSince = 0

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

  /** Ends what has waited for the client for too long, and itself where it has none, or half a head. */
  sweep(now: number, idleMs: number, headMs: number): void {
    for (const [stream, since] of this.#leaving) {
      if (now - since < this.#given.writeMs) break
      this.#leaving.delete(stream)
      cutOff(stream, NGHTTP2_CANCEL)
    }
    if (this.#isHalf(now, headMs)) this.#cut()
    if (now - this.idleSince > idleMs) this.end()
  }

  /**
   * As `GatewayServer`: requests are served until listening stops, for nghttp2 passes over all that come behind a GOAWAY,
   * and has no notice for its like. A connection ends before that when its client pauses.
   */
  announceEnd(): void {
    this.#isEnding = true
  }

  /** Tells the client to take its next requests elsewhere (GOAWAY); ends with those under way. */
  end(): void {
    this.#isEnding = true
    if (this.#endsSince > 0) return
    this.#endsSince = this.#given.clock.now()
    if (!this.#session.closed && !this.#session.destroyed) this.#session.close()
    this.#finish()
  }

  destroy(): void {
    if (this.#session.destroyed) this.socket.destroy()
    else this.#session.destroy()
  }

  #begin(stream: ServerHttp2Stream, flags: number, raw: readonly string[]): void {
    stream.on('error', ignore)
    this.#known = Math.max(this.#known, stream.id!)
    // Taken back already.
    if (stream.destroyed || stream.closed) return void stream.resume()
    this.#streams++
    this.idleSince = Number.POSITIVE_INFINITY
    stream.on('close', () => this.#ended(stream))
    const request = requestText(raw, (flags & END_STREAM) !== 0)
    if (request === null) return cutOff(stream, NGHTTP2_PROTOCOL_ERROR)
    const carrier = this.#idle.pop() ?? this.#opened()
    carrier.begin(stream, request)
  }

  #opened(): Carrier {
    const carrier = new Carrier(this)
    this.#given.open(carrier.inner)
    return carrier
  }

  #ended(stream: ServerHttp2Stream): void {
    this.#leaving.delete(stream)
    this.#streams--
    if (this.#streams > 0) return
    const { clock } = this.#given
    const since = clock.now()
    this.idleSince = since
    if (this.#isEnding && this.#endsSince === 0)
      clock.after(QUIET_MS, () => {
        if (this.idleSince === since && !this.#isClosed) this.end()
      })
  }

  /** A head has begun that does not go on. A client in the middle of one can answer no ping (RFC 9113 §4.3). */
  #isHalf(now: number, headMs: number): boolean {
    const session = this.#session
    if (session.destroyed || session.closed) return false
    const begun = session.state.lastProcStreamID ?? 0
    if (begun <= this.#known) this.#half = 0
    else if (begun === this.#half) return now - this.#halfSince >= headMs
    else {
      this.#half = begun
      this.#halfSince = now
      session.ping(fault => {
        // A head that was refused: of such ones nobody hears.
        if (fault === null) this.#known = Math.max(this.#known, begun)
      })
    }
    return false
  }

  /** Sees to the end of a connection that has no request: half a head may come, or nobody read the last bytes. */
  #finish(): void {
    const { clock, writeMs } = this.#given
    if (this.#isClosed) return
    const now = clock.now()
    if (this.#session.destroyed) {
      if (this.#destroyedSince === 0) this.#destroyedSince = now
      const lingerMs = this.socket.writableFinished ? LINGER_MS : writeMs
      if (now - this.#destroyedSince >= lingerMs) this.socket.destroy()
    } else if (this.#streams === 0 && now - this.#endsSince >= HALF_MS) this.#session.destroy()
    clock.after(END_MS, () => this.#finish())
  }

  #cut(): void {
    this.#session.destroy()
    if (this.#endsSince === 0) this.end()
  }

  #closed(): void {
    this.#isClosed = true
    for (const carrier of this.#idle.splice(0)) carrier.inner.destroy()
    this.#given.closed()
  }
}

function ignore(): void {}
