import { type ClientHttp2Session, connect as connectHttp2, constants } from 'node:http2'
import type { TLSSocket } from 'node:tls'
import type { Clock } from '../../../config/world.ts'
import { faultCode } from '../direct/faultCode.ts'
import type { FaultCode } from '../upstream.ts'

/** Requests at a time on one connection, where the upstream allows as many. */
const MOST_STREAMS = 100
/** What one stream may bring before it is read, bytes: what a slow client can make us hold. */
const WINDOW_BYTES = 262_144
/** The same over all streams of a connection; Node gives it back as bytes come, read or not. */
const CONNECTION_WINDOW_BYTES = 4_194_304

/** Whose links they are. */
export interface LinkOwner {
  readonly clock: Clock
  readonly connectTimeoutMs: number
  /** Takes another request; the first time, when it is ready. */
  roomy(link: Link): void
  /** Takes no requests any more. */
  ending(link: Link): void
  /** Is no more. */
  ended(link: Link): void
  /** The upstream wants HTTP/1.1 (RFC 9113 §7). */
  fallsBack(): void
}

/** One HTTP/2 connection. */
export class Link {
  readonly session: ClientHttp2Session
  /** Why it broke. */
  error: (Error & { code?: string }) | null = null
  /** Some answer came whole. */
  reused = false
  idleSince: number
  private readonly owner: LinkOwner
  private readonly socket: TLSSocket
  private active = 0
  /** 0 until the upstream has said how many it takes. */
  private most = 0
  private leaving = false
  /** The upstream looks at no stream above it (RFC 9113 §6.8). */
  private lastStream = Number.POSITIVE_INFINITY
  private cancelDoubt: (() => void) | null = null

  constructor(owner: LinkOwner, socket: TLSSocket, origin: string) {
    this.owner = owner
    this.socket = socket
    this.idleSince = owner.clock.now()
    const options = {
      createConnection: () => socket,
      settings: { enablePush: false, initialWindowSize: WINDOW_BYTES, maxHeaderListSize: 65_536 },
      maxHeaderListPairs: 1_000,
      // Megabytes.
      maxSessionMemory: 64,
      // Not known to Node's types: what came twice goes up twice.
      strictSingleValueFields: false
    }
    const session = connectHttp2(origin, options)
    this.session = session
    session.on('connect', () => session.setLocalWindowSize(CONNECTION_WINDOW_BYTES))
    session.on('remoteSettings', ({ maxConcurrentStreams }) => {
      this.most = Math.min(MOST_STREAMS, maxConcurrentStreams ?? MOST_STREAMS)
      if (this.room > 0) owner.roomy(this)
    })
    session.on('goaway', (_code, lastStream) => {
      this.lastStream = lastStream
      this.leave()
    })
    session.on('error', error => {
      this.error = error
    })
    session.on('close', () => {
      this.cancelDoubt?.()
      this.leave()
      owner.ended(this)
    })
  }

  /** For so many more requests. */
  get room(): number {
    return this.leaving || this.session.closed || this.session.destroyed ? 0 : this.most - this.active
  }

  /** Closed, whatever the reason. */
  get over(): boolean {
    return this.socket.destroyed || this.session.destroyed
  }

  get idle(): boolean {
    return this.active === 0
  }

  /** Bytes that have come in all. */
  get heard(): number {
    return this.socket.bytesRead
  }

  joined(): void {
    this.active++
  }

  parted(): void {
    this.active--
    if (this.active === 0) this.idleSince = this.owner.clock.now()
    // Not inside of the events of a stream that ends just now.
    if (this.room > 0) process.nextTick(roomy, this, this.owner)
  }

  /** Whether the upstream has not looked at a stream that it closed (RFC 9113 §8.7). */
  left(id: number | undefined, code: number): boolean {
    if (code === constants.NGHTTP2_HTTP_1_1_REQUIRED) this.owner.fallsBack()
    return (
      code === constants.NGHTTP2_REFUSED_STREAM ||
      code === constants.NGHTTP2_HTTP_1_1_REQUIRED ||
      id === undefined ||
      id > this.lastStream
    )
  }

  /** What the end of a stream stands for. */
  codeOf(code: number): FaultCode {
    if (this.error !== null && faultCode(this.error, 'ready') === 'tls') return 'tls'
    return BROKEN.has(code) || this.error?.code === 'ERR_HTTP2_ERROR' ? 'garbage' : 'reset'
  }

  /** A request was given up, and nothing had come since it was sent: is anybody there? */
  doubt(heard: number): void {
    const { session, owner } = this
    if (heard !== this.heard || this.cancelDoubt !== null || session.destroyed) return
    const cancel = owner.clock.after(owner.connectTimeoutMs, () => this.destroy(new Error('no answer to PING')))
    this.cancelDoubt = cancel
    session.ping(() => {
      cancel()
      this.cancelDoubt = null
    })
  }

  /** Closes when its last answer has ended. */
  close(): void {
    this.leave()
    this.session.close()
  }

  destroy(cause: Error): void {
    this.session.destroy(cause)
  }

  private leave(): void {
    if (this.leaving) return
    this.leaving = true
    this.owner.ending(this)
  }
}

function roomy(link: Link, owner: LinkOwner): void {
  if (link.room > 0) owner.roomy(link)
}

/** Errors of messages and frames, whoever found them. */
const BROKEN = new Set<number>([
  constants.NGHTTP2_PROTOCOL_ERROR,
  constants.NGHTTP2_FLOW_CONTROL_ERROR,
  constants.NGHTTP2_STREAM_CLOSED,
  constants.NGHTTP2_FRAME_SIZE_ERROR,
  constants.NGHTTP2_COMPRESSION_ERROR
])
