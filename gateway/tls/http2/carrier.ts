import { constants, type ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { AnswerParser } from '../../proxy/direct/parser.ts'
import { fieldLine } from '../../proxy/direct/requestHead.ts'
import { trailerPairs } from '../../proxy/headers.ts'
import type { UpstreamListener } from '../../proxy/upstream.ts'
import { Inner, type InnerEnd } from './inner.ts'
import type { RequestText } from './requestText.ts'

const { NGHTTP2_INTERNAL_ERROR, NGHTTP2_NO_ERROR, NGHTTP2_PROTOCOL_ERROR, NGHTTP2_REFUSED_STREAM } = constants

/** Whose inner connections they are. */
export interface CarrierOwner {
  readonly socket: Socket
  /** The answer is complete, and the client has yet to take the rest of it. */
  leaving(stream: ServerHttp2Stream): void
  /** Its request is answered: it can carry the next one. */
  free(carrier: Carrier): void
  gone(carrier: Carrier): void
}

type Stream = ServerHttp2Stream & { carrier?: Carrier | null }

/** Of an answer, what speaks of one connection, or frames in the way of HTTP/1.1. */
const OF_CONNECTIONS = new Set([
  'connection',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'te',
  'transfer-encoding',
  'upgrade'
])

/** One inner connection: carries one stream of HTTP/2 at a time as a request of HTTP/1.1, and its answer back. */
export class Carrier implements InnerEnd, UpstreamListener {
  readonly inner: Inner
  readonly #owner: CarrierOwner
  readonly #parser = new AnswerParser()
  #stream: Stream | null = null
  /** Bytes that a body of known length still brings; -1: its length is unknown. */
  #left = 0
  #isSent = true
  #trailers: string[] = []
  /** The stream asks for trailers before it ends. */
  #asksTrailers = false
  /** Answered once the client has taken what waits for it. */
  #waiting: (() => void) | null = null
  #isFull = false
  /** The server has not even seen the request. */
  #isUnread = false
  #isOver = false

  constructor(owner: CarrierOwner) {
    this.#owner = owner
    this.inner = new Inner(this, owner.socket)
    this.inner.on('error', ignore)
  }

  begin(stream: Stream, { method, head, length }: RequestText): void {
    this.#stream = stream
    stream.carrier = this
    this.#left = length
    // Of a tunnel nothing is said in advance, and there is none.
    this.#isSent = length === 0 && method !== 'CONNECT'
    this.#trailers = []
    this.#asksTrailers = false
    this.#parser.begin(this, method)
    stream.on('drain', drained)
    stream.on('close', closed)
    if (this.#isSent) stream.resume()
    else {
      stream.on('trailers', (_headers: unknown, _flags: number, raw?: string[]) => {
        this.#trailers = raw ?? []
      })
      stream.on('data', sent)
      stream.on('end', sentAll)
    }
    this.inner.push(Buffer.from(head, 'latin1'))
    this.#isUnread = this.inner.readableLength > 0
  }

  more(): void {
    this.#isUnread = false
    if (!this.#isSent) this.#stream?.resume()
  }

  answer(pieces: readonly Buffer[], done: () => void): void {
    this.#isFull = false
    for (const piece of pieces) {
      // What the server says of an idle connection is for nobody.
      if (this.#stream === null) break
      try {
        this.#parser.read(piece)
      } catch {
        this.#fail(NGHTTP2_INTERNAL_ERROR)
        break
      }
      if (this.#stream !== null && this.#parser.done) this.#complete()
    }
    if (this.#isFull && this.#stream !== null) this.#waiting = done
    else done()
  }

  ended(): void {
    if (this.#stream !== null && this.#parser.finish()) this.#complete()
    this.#isOver = true
    if (this.#stream !== null) this.#fail(this.#cutOff)
    else setImmediate(destroy, this.inner)
  }

  gone(): void {
    this.#isOver = true
    this.#waiting = null
    if (this.#stream !== null) this.#fail(this.#cutOff)
    this.#owner.gone(this)
  }

  information(status: number, pairs: string[]): void {
    const stream = this.#stream
    if (stream === null || stream.destroyed || stream.closed || stream.headersSent) return
    stream.additionalHeaders({ ':status': status, ...headersOf(ofAnswer(pairs)) })
  }

  head(status: number, _reason: string, pairs: string[]): void {
    const stream = this.#stream!
    if (stream.destroyed || stream.closed) return
    const parser = this.#parser
    const headers = [':status', String(status), ...ofAnswer(pairs)]
    this.#asksTrailers = !parser.done && parser.answer.chunked
    const options = { endStream: parser.done, waitForTrailers: this.#asksTrailers, sendDate: false }
    try {
      stream.respond(headers as never, options)
    } catch {
      // A status that HTTP/2 has not, and the like.
      return this.#fail(NGHTTP2_INTERNAL_ERROR)
    }
  }

  data(chunk: Buffer): boolean {
    const stream = this.#stream
    if (stream === null || stream.destroyed || stream.writableEnded) return true
    // The last piece of a known length ends the stream in the same frame.
    if (this.#parser.done) stream.end(chunk)
    else if (!stream.write(chunk)) this.#isFull = true
    return true
  }

  pause(): void {}
  end(): void {}
  fault(): void {}

  /** The stream has closed under a request that is under way. */
  abandon(): void {
    this.#detach()
    this.inner.destroy()
  }

  drain(): void {
    const done = this.#waiting
    this.#waiting = null
    done?.()
  }

  send(chunk: Buffer): void {
    const { inner } = this
    if (chunk.length === 0) return
    let takesMore: boolean
    if (this.#left < 0) {
      inner.push(Buffer.from(`${chunk.length.toString(16)}\r\n`, 'latin1'))
      inner.push(chunk)
      takesMore = inner.push(CRLF)
    } else {
      this.#left -= chunk.length
      if (this.#left < 0) return this.#fail(NGHTTP2_PROTOCOL_ERROR)
      takesMore = inner.push(chunk)
    }
    if (!takesMore) this.#stream?.pause()
  }

  sendEnd(): void {
    if (this.#left > 0) return this.#fail(NGHTTP2_PROTOCOL_ERROR)
    this.#isSent = true
    if (this.#left === 0) return
    const pairs = trailerPairs(this.#trailers)
    let last = '0\r\n'
    try {
      for (let i = 0; i < pairs.length; i += 2) last += fieldLine(pairs[i]!, pairs[i + 1]!)
    } catch {
      return this.#fail(NGHTTP2_PROTOCOL_ERROR)
    }
    this.inner.push(Buffer.from(`${last}\r\n`, 'latin1'))
  }

  /** Clients may repeat what was refused unseen (RFC 9113 §8.7). */
  get #cutOff(): number {
    return this.#isUnread ? NGHTTP2_REFUSED_STREAM : NGHTTP2_INTERNAL_ERROR
  }

  #complete(): void {
    const stream = this.#stream!
    const wasSent = this.#isSent
    const { persistent } = this.#parser.answer
    const trailers = ofAnswer(this.#parser.trailers ?? [])
    this.#detach()
    if (this.#asksTrailers) stream.once('wantTrailers', () => sendTrailers(stream, trailers))
    if (!stream.destroyed) {
      this.#owner.leaving(stream)
      if (!stream.writableEnded) stream.end()
      // The client need not send the rest (RFC 9113 §8.1).
      if (!wasSent) {
        stream.resume()
        stream.close(NGHTTP2_NO_ERROR)
      }
    }
    if (wasSent && persistent) setImmediate(release, this)
    else {
      this.#isOver = true
      setImmediate(destroy, this.inner)
    }
  }

  /** The server has seen that its answer has left. */
  released(): void {
    if (!this.#isOver) this.#owner.free(this)
  }

  #fail(code: number): void {
    const stream = this.#stream!
    this.#detach()
    cutOff(stream, code)
    if (!this.inner.destroyed) this.inner.destroy()
  }

  #detach(): void {
    const stream = this.#stream!
    this.#stream = null
    this.#isSent = true
    stream.carrier = null
    this.#parser.halt()
  }
}

const CRLF = Buffer.from('\r\n')

/** Ends a stream so that nobody can take it for a complete one; what came so far still goes out. */
export function cutOff(stream: ServerHttp2Stream, code: number): void {
  if (stream.destroyed) return
  // Node would end its side in good order before it resets it.
  stream._final = done => done()
  stream.close(code)
}

function sendTrailers(stream: ServerHttp2Stream, pairs: readonly string[]): void {
  try {
    stream.sendTrailers(headersOf(pairs))
  } catch {
    cutOff(stream, NGHTTP2_INTERNAL_ERROR)
  }
}

function ignore(): void {}

function drained(this: Stream): void {
  this.carrier?.drain()
}

function closed(this: Stream): void {
  this.carrier?.abandon()
}

function sent(this: Stream, chunk: Buffer): void {
  this.carrier?.send(chunk)
}

function sentAll(this: Stream): void {
  // One that was cut off ends as well.
  if (!this.aborted) this.carrier?.sendEnd()
}

function release(carrier: Carrier): void {
  carrier.released()
}

function destroy(inner: Inner): void {
  inner.destroy()
}

/** In lower case, without what HTTP/2 has no place for. */
function ofAnswer(pairs: readonly string[]): string[] {
  const kept: string[] = []
  for (let i = 0; i < pairs.length; i += 2) {
    const name = pairs[i]!.toLowerCase()
    if (!OF_CONNECTIONS.has(name)) kept.push(name, pairs[i + 1]!)
  }
  return kept
}

function headersOf(pairs: readonly string[]): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = {}
  for (let i = 0; i < pairs.length; i += 2) {
    const name = pairs[i]!
    const before = headers[name]
    headers[name] = before === undefined ? pairs[i + 1]! : [before, pairs[i + 1]!].flat()
  }
  return headers
}
