import { connect, type Socket } from 'node:net'
import type { Clock } from '../../../config/world.ts'
import type { BodySink, RequestBody } from '../body.ts'
import { trailerPairs } from '../headers.ts'
import type { TlsWay } from '../tls/way.ts'
import { type FaultCode, type Target, UpstreamFault } from '../upstream.ts'
import { faultCode, type Phase } from './faultCode.ts'
import type { DirectFlight, Holder } from './flight.ts'
import { AnswerParser } from './parser.ts'
import { fieldLine } from './requestHead.ts'

/** Before middle boxes forget a silent connection: event streams may be silent for hours. */
const PROBE_MS = 60_000

/**
 * Where the bytes of every socket arrive, one piece after the other; they are copied from here before anyone sees them.
 * A third less CPU time a request than sockets that allocate for each piece (`bench/micro/upstream.ts`).
 */
const arriving = Buffer.allocUnsafeSlow(65_536)

/** For ALPN (RFC 7301): the one protocol that it speaks. */
const HTTP1 = ['http/1.1']

/** Whose connections they are. */
export interface Owner {
  readonly target: Target
  /** Null: without TLS. */
  readonly way: TlsWay | null
  readonly connectTimeoutMs: number
  readonly clock: Clock
  /** Takes requests from now on. */
  connected(connection: Connection): void
  /** Is free again. */
  ready(connection: Connection): void
  /** Never became ready. */
  failed(connection: Connection, fault: UpstreamFault): void
  /** Was ready and is no more. `stale`: the upstream had closed it while it was idle. */
  gone(connection: Connection, stale: boolean): void
}

/** One socket to an upstream, with at most one request on it. */
export class Connection implements Holder, BodySink {
  /** The owner's sweep at which an idle connection closes. */
  idleUntil = 0
  private readonly owner: Owner
  private readonly socket: Socket
  private readonly parser = new AnswerParser()
  private readonly cancelTimeout: () => void
  private phase: Phase = 'connecting'
  private dead = false
  private reused = false
  private flight: DirectFlight | null = null
  /** The body that flows up; null: none, or handed over to its end. */
  private body: RequestBody | null = null
  private chunked = false
  /** Bytes that a body of known length still has to bring. */
  private bodyLeft = 0
  /** Some byte of the answer has come. */
  private answered = false
  /** What came behind the piece that filled the listener. */
  private held: Buffer | null = null
  /** The upstream has closed its side while the listener was full. */
  private finished = false

  constructor(owner: Owner) {
    this.owner = owner
    this.socket = this.connect(owner)
    this.cancelTimeout = owner.clock.after(owner.connectTimeoutMs, () =>
      this.fail('connect_timeout', new Error('not connected in time'))
    )
    const { socket } = this
    socket.on('drain', () => this.body?.resume())
    socket.on('end', () => this.ended())
    socket.on('error', error => this.fail(faultCode(error, this.phase), error))
    socket.on('close', () => this.closed())
  }

  private connect({ target, way }: Owner): Socket {
    const { hostname, port } = target
    const host = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
    const onread = { buffer: arriving, callback: (count: number) => this.arrive(count) }
    const options = { host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: PROBE_MS, onread }
    if (way === null) return connect(options).on('connect', () => this.advance('ready'))
    const socket = way.connect(options, HTTP1)
    socket.on('connect', () => this.advance('securing'))
    socket.on('secureConnect', () => {
      const misfit = way.check(socket)
      if (misfit === null) this.advance('ready')
      else this.fail('tls', misfit)
    })
    return socket
  }

  /** Sends a request; the connection must be ready. */
  take(flight: DirectFlight): void {
    const { socket } = this
    const { request, head } = flight
    const { body } = request
    this.flight = flight
    flight.holder = this
    this.answered = false
    this.parser.begin(flight.listener, request.method)
    if (body === null) socket.write(head, 'latin1')
    else if (Buffer.isBuffer(body)) {
      socket.cork()
      socket.write(head, 'latin1')
      socket.write(body)
      socket.uncork()
    } else {
      socket.write(head, 'latin1')
      this.body = body
      this.chunked = body.length < 0
      this.bodyLeft = body.length
      body.start(this)
    }
  }

  /** Seconds that the upstream keeps it open when idle. */
  get keepsFor(): number {
    return this.parser.answer.keepsFor
  }

  chunk(data: Buffer): boolean {
    const { socket } = this
    if (data.length === 0) return true
    if (this.chunked) {
      socket.cork()
      socket.write(`${data.length.toString(16)}\r\n`, 'latin1')
      socket.write(data)
      socket.write('\r\n', 'latin1')
      socket.uncork()
    } else {
      this.bodyLeft -= data.length
      if (this.bodyLeft < 0) {
        this.fail('reset', new Error('the request has more bytes than it announced'))
        return true
      }
      socket.write(data)
    }
    // While corked, a write is told to wait even where the kernel then takes all of it.
    return socket.writableLength === 0 || !socket.writableNeedDrain
  }

  end(raw: string[]): void {
    this.body = null
    if (!this.chunked) {
      if (this.bodyLeft > 0) this.fail('reset', new Error('the request has fewer bytes than it announced'))
      return
    }
    const trailers = trailerPairs(raw)
    let last = '0\r\n'
    try {
      for (let i = 0; i < trailers.length; i += 2) last += fieldLine(trailers[i]!, trailers[i + 1]!)
    } catch (error) {
      return this.fail('reset', error)
    }
    this.socket.write(`${last}\r\n`, 'latin1')
  }

  resume(): void {
    const { held, parser } = this
    if (!parser.full) return
    parser.full = false
    this.held = null
    this.socket.resume()
    this.read(held!)
    if (this.finished) this.ended()
  }

  abandon(flight: DirectFlight): void {
    if (this.flight === flight) this.destroy()
  }

  /** Ends a connection that was ready, at once and silently; a request on it hears nothing. */
  destroy(): void {
    if (this.dead) return
    this.drop()
    this.owner.gone(this, false)
  }

  fail(code: FaultCode, cause: unknown): void {
    if (this.dead) return
    const { flight, phase } = this
    const stale = this.reused && !this.answered && code === 'reset'
    this.drop()
    if (phase !== 'ready') {
      const met = code !== 'reset' ? code : phase === 'securing' ? 'tls' : 'connect'
      return this.owner.failed(this, new UpstreamFault(met, 'unsent', cause))
    }
    this.owner.gone(this, stale && flight !== null)
    flight?.listener.fault(new UpstreamFault(code, stale ? 'unanswered' : 'no', cause))
  }

  private advance(phase: Phase): void {
    this.phase = phase
    if (phase !== 'ready' || this.dead) return
    this.cancelTimeout()
    this.owner.connected(this)
  }

  private arrive(count: number): boolean {
    const bytes = Buffer.from(arriving.subarray(0, count))
    // A paused TLS socket still tells what it has decrypted: a piece of the network's, no more.
    if (this.held === null) this.read(bytes)
    else this.held = Buffer.concat([this.held, bytes])
    return true
  }

  private read(bytes: Buffer): void {
    const { flight, parser } = this
    // Bytes that answer no request must never become the answer to the next one.
    if (flight === null) return this.fail('garbage', new Error('bytes that nobody asked for'))
    this.answered = true
    let at: number
    try {
      at = parser.read(bytes)
    } catch (error) {
      return this.fail('garbage', error)
    }
    if (this.flight !== flight) return
    if (parser.full) {
      this.held = bytes.subarray(at)
      this.socket.pause()
    } else if (parser.done) this.complete(flight, at < bytes.length)
    else if (parser.headed) flight.listener.pause()
  }

  private ended(): void {
    const { flight } = this
    // Node tells of the end even to those that have paused.
    if (this.parser.full) this.finished = true
    else if (flight !== null && this.parser.finish()) this.complete(flight, false)
    else this.fail('reset', new Error('the upstream closed the connection'))
  }

  private closed(): void {
    if (!this.finished) this.fail('reset', new Error('connection closed'))
  }

  private complete(flight: DirectFlight, surplus: boolean): void {
    const { parser } = this
    const { trailers } = parser
    flight.holder = null
    this.flight = null
    parser.halt()
    // With a body half sent, what follows on the wire would belong to it.
    if (surplus || this.finished || this.body !== null || !parser.answer.persistent) this.destroy()
    else {
      this.reused = true
      this.owner.ready(this)
    }
    flight.listener.end(trailers)
  }

  private drop(): void {
    const { flight, body } = this
    this.dead = true
    this.flight = null
    this.body = null
    this.held = null
    if (flight !== null) flight.holder = null
    this.cancelTimeout()
    this.parser.halt()
    this.socket.destroy()
    body?.stop()
  }
}
