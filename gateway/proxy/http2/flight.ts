import { type ClientHttp2Stream, constants } from 'node:http2'
import type { BodySink, RequestBody } from '../body.ts'
import { fieldLine } from '../direct/requestHead.ts'
import { trailerPairs } from '../headers.ts'
import { type Flight, type Upstream, UpstreamFault, type UpstreamListener, type UpstreamRequest } from '../upstream.ts'
import type { Link } from './link.ts'

/** Who has a flight while it waits. */
export interface Waiting {
  abandon(flight: Http2Flight): void
}

/** A body that flows is kept up to so many bytes, and pieces, until its answer begins: a refused stream is sent again. */
const KEPT_BYTES = 65_536
const KEPT_PIECES = 100

/** One request and who hears its answer: first in a queue, then one stream, or on its way over HTTP/1.1. */
export class Http2Flight implements Flight, BodySink {
  readonly request: UpstreamRequest
  /** Set while it waits in a queue. */
  waiting: Waiting | null = null
  private readonly listener: UpstreamListener
  private readonly fields: string[]
  /** Finds it a connection once more. */
  private readonly again: (flight: Http2Flight) => void
  private link: Link | null = null
  private stream: ClientHttp2Stream | null = null
  /** Over HTTP/1.1. */
  private other: Flight | null = null
  private done = false
  /** Any byte of an answer has come. */
  private answered = false
  private headed = false
  /** The listener takes nothing now. */
  private full = false
  /** The answer came whole while the listener was full. */
  private finished = false
  /** Bytes that the answer still has to bring; -1: unknown. */
  private left = -1
  /** Some byte of this connection has come since the request was sent. */
  private lastHeard = 0
  private trailers: string[] | null = null
  private error: unknown = null
  /** The body that flows up; null: none, or handed over to its end. */
  private body: RequestBody | null = null
  private bodyLeft = 0
  private bodyTrailers: string[] = []
  private bodyEnded = false
  /** What has come of the body that flows; null: it cannot be sent again. */
  private kept: Buffer[] | null = null
  private keptBytes = 0
  /** Why its first stream was not looked at. */
  private refused: UpstreamFault | null = null

  constructor(
    request: UpstreamRequest,
    listener: UpstreamListener,
    fields: string[],
    again: (flight: Http2Flight) => void
  ) {
    this.request = request
    this.listener = listener
    this.fields = fields
    this.again = again
  }

  abort(): void {
    if (this.done) return
    this.done = true
    this.waiting?.abandon(this)
    this.other?.abort()
    const { link, stream } = this
    if (stream === null) return this.stopBody()
    stream.close(constants.NGHTTP2_CANCEL)
    this.leave()
    if (!this.answered) link!.doubt(this.lastHeard)
  }

  resume(): void {
    this.other?.resume()
    if (!this.full) return
    this.full = false
    this.stream!.resume()
    if (this.finished) this.land()
  }

  /** Takes the way over HTTP/1.1. */
  fall(http1: Upstream): void {
    this.waiting = null
    // Its body has begun to flow.
    if (this.refused !== null) return this.ground(this.refused)
    this.other = http1.send(this.request, this.listener)
  }

  fly(link: Link): void {
    const { request } = this
    const { body } = request
    this.waiting = null
    this.link = link
    this.lastHeard = link.heard
    const flows = body !== null && !Buffer.isBuffer(body)
    const options = { endStream: body === null, waitForTrailers: flows && body.length < 0 }
    let stream: ClientHttp2Stream
    try {
      stream = link.session.request(this.fields, options)
    } catch (error) {
      return this.faultSoon(new UpstreamFault('garbage', 'no', error))
    }
    this.stream = stream
    link.joined()
    stream.on('headers', (_headers, _flags, raw: string[] = []) => this.information(raw))
    stream.on('response', (_headers, _flags, raw: string[] = []) => this.head(raw))
    stream.on('trailers', (_trailers, _flags, raw: string[] = []) => {
      this.trailers = raw
    })
    stream.on('data', (chunk: Buffer) => {
      if (this.done) return
      if (this.left >= 0) this.left -= chunk.length
      this.full = !this.listener.data(chunk)
      if (this.full) stream.pause()
    })
    stream.on('end', () => this.ended())
    stream.on('error', error => {
      this.error = error
    })
    stream.on('close', () => this.closed())
    stream.on('drain', () => this.body?.resume())
    if (Buffer.isBuffer(body)) stream.end(body)
    else if (body !== null) {
      stream.on('wantTrailers', () => this.sendTrailers())
      if (this.refused !== null) return this.repeat(stream)
      this.body = body
      this.bodyLeft = body.length
      this.kept = []
      body.start(this)
    }
  }

  /** The body from its beginning, on another stream. */
  private repeat(stream: ClientHttp2Stream): void {
    let takes = true
    for (const data of this.kept ?? []) takes = stream.write(data)
    this.kept = null
    if (this.bodyEnded) stream.end()
    else if (takes) this.body?.resume()
  }

  /** Copied: a small piece may be a part of a large buffer. */
  private keep(data: Buffer): void {
    if (this.kept === null) return
    this.keptBytes += data.length
    if (this.keptBytes <= KEPT_BYTES && this.kept.length < KEPT_PIECES) this.kept.push(Buffer.from(data))
    else this.kept = null
  }

  chunk(data: Buffer): boolean {
    if (this.done) return true
    const { stream } = this
    if (this.request.body!.length >= 0) {
      this.bodyLeft -= data.length
      if (this.bodyLeft < 0) {
        this.fail(new UpstreamFault('reset', 'no', new Error('the request has more bytes than it announced')))
        return true
      }
    }
    if (stream === null) {
      // Between two streams; nothing more comes until the next one takes it.
      this.kept?.push(data)
      return false
    }
    this.keep(data)
    return stream.write(data)
  }

  end(raw: string[]): void {
    this.body = null
    if (this.done) return
    if (this.request.body!.length >= 0 && this.bodyLeft > 0)
      return this.fail(new UpstreamFault('reset', 'no', new Error('the request has fewer bytes than it announced')))
    this.bodyTrailers = trailerPairs(raw)
    this.bodyEnded = true
    this.stream?.end()
  }

  private sendTrailers(): void {
    const { bodyTrailers } = this
    const headers: Record<string, string | string[]> = Object.create(null)
    try {
      for (let i = 0; i < bodyTrailers.length; i += 2) {
        const name = bodyTrailers[i]!.toLowerCase()
        fieldLine(name, bodyTrailers[i + 1]!)
        const before = headers[name]
        headers[name] = before === undefined ? bodyTrailers[i + 1]! : [before, bodyTrailers[i + 1]!].flat()
      }
      this.stream!.sendTrailers(headers)
    } catch (error) {
      this.fail(new UpstreamFault('reset', 'no', error))
    }
  }

  private information(raw: string[]): void {
    this.answered = true
    this.kept = null
    if (!this.done) this.listener.information(Number(raw[1]), raw.slice(2))
  }

  private head(raw: string[]): void {
    if (this.done) return
    this.answered = true
    this.kept = null
    this.headed = true
    // Head and first bytes of a body are told in one turn when they came together.
    setImmediate(pause, this)
    const status = Number(raw[1])
    const pairs = raw.slice(2)
    if (this.request.method !== 'HEAD' && status !== 304 && status !== 204) this.left = lengthOf(pairs)
    this.listener.head(status, '', pairs)
  }

  pause(): void {
    if (!this.done) this.listener.pause()
  }

  private ended(): void {
    const stream = this.stream!
    // A reset without an error is an end for Node, as for curl; only the length can tell that something is missing.
    if (this.done || !this.headed || this.left > 0 || stream.rstCode !== constants.NGHTTP2_NO_ERROR) return
    this.finished = true
    if (!this.full) this.land()
  }

  private land(): void {
    if (this.done) return
    this.done = true
    const stream = this.stream!
    // An answer that is whole before its request: nobody wants the rest (RFC 9113 §8.1).
    if (!stream.writableFinished && !stream.closed) stream.close(constants.NGHTTP2_CANCEL)
    this.leave()
    this.link!.reused = true
    this.listener.end(this.trailers)
  }

  private closed(): void {
    if (this.done || this.finished) return
    const { link, stream } = this
    const code = stream!.rstCode ?? 0
    const cause = this.error ?? link!.error ?? new Error(`the upstream reset the stream with code ${code}`)
    const retry = this.answered
      ? 'no'
      : link!.left(stream!.id, code)
        ? 'unsent'
        : link!.reused && link!.over
          ? 'unanswered'
          : 'no'
    const fault = new UpstreamFault(link!.codeOf(code), retry, cause)
    // Who gave the body has begun to give it, and cannot send it again.
    if (retry !== 'unsent' || this.kept === null || code === constants.NGHTTP2_HTTP_1_1_REQUIRED)
      return this.fail(fault)
    this.refused = fault
    this.stream = null
    this.link = null
    this.error = null
    link!.parted()
    this.again(this)
  }

  private fail(fault: UpstreamFault): void {
    if (this.done) return
    this.done = true
    this.waiting?.abandon(this)
    const { stream } = this
    if (stream !== null && !stream.closed) stream.close(constants.NGHTTP2_CANCEL)
    this.leave()
    this.listener.fault(fault)
  }

  /** Its connection goes on without it. */
  private leave(): void {
    this.stopBody()
    this.link?.parted()
  }

  private stopBody(): void {
    const { body } = this
    this.body = null
    this.kept = null
    body?.stop()
  }

  /** Never left: its listener hears of it at once. */
  ground(fault: UpstreamFault): void {
    this.waiting = null
    if (this.done) return
    this.done = true
    this.stopBody()
    this.listener.fault(fault)
  }

  /** Never leaves. Its listener hears of it after the caller of `send` has the flight in hand. */
  faultSoon(fault: UpstreamFault): void {
    process.nextTick(() => this.ground(fault))
  }
}

function lengthOf(pairs: readonly string[]): number {
  for (let i = 0; i < pairs.length; i += 2) if (pairs[i] === 'content-length') return Number(pairs[i + 1])
  return -1
}

function pause(flight: Http2Flight): void {
  flight.pause()
}
