import { Readable } from 'node:stream'
import type { Exchange, ReadBody, Reply } from '../exchange.ts'

/** Takes a body that flows. */
export interface BodySink {
  /** false: full; nothing more until `RequestBody.resume`. */
  chunk(data: Buffer): boolean
  /** Trailers as raw pairs, [] where none came. */
  end(trailers: string[]): void
}

/** Where a body comes from: the client, or a place where it was kept. */
export interface BodySource {
  on(event: 'data', listener: (chunk: Buffer) => void): unknown
  on(event: 'end', listener: () => void): unknown
  pause(): unknown
  resume(): unknown
  readonly rawTrailers: string[]
}

/** A body that was read already as it goes up: whole, or flowing where trailers follow it. */
export function bodyAgain({ bytes, trailers }: ReadBody, { res }: Exchange): Buffer | RequestBody {
  if (trailers.length === 0) return bytes
  const source = Object.assign(Readable.from([bytes], { objectMode: false }), { rawTrailers: [...trailers] })
  return new RequestBody(source, res, -1, false, Number.POSITIVE_INFINITY, () => {})
}

/** The body of one request on its way up: counted, held back when the upstream is slow, never collected. */
export class RequestBody {
  /** Bytes that the client announced; -1: chunked. */
  readonly length: number
  started = false
  ended = false
  /** Bytes seen; the sweep of `proxy.ts` reads it to find clients that trickle. */
  seen = 0
  paused = false
  private readonly req: BodySource
  private readonly res: Reply
  private readonly expects: boolean
  private readonly most: number
  private readonly over: () => void
  private sink: BodySink | null = null

  /** @param most bytes; Infinity: no bound. `over` is called once when it is passed, and nothing flows after it. */
  constructor(req: BodySource, res: Reply, length: number, expects: boolean, most: number, over: () => void) {
    this.req = req
    this.res = res
    this.length = length
    this.expects = expects
    this.most = most
    this.over = over
  }

  /** Begins to flow; once. The client that waits for `100 Continue` gets it now. */
  start(sink: BodySink): void {
    this.sink = sink
    this.started = true
    if (this.expects && !this.res.headersSent) this.res.writeContinue()
    this.req.on('data', (chunk: Buffer) => this.take(chunk))
    this.req.on('end', () => this.finish())
  }

  resume(): void {
    if (!this.paused) return
    this.paused = false
    this.req.resume()
  }

  /** The upstream wants no more of it; what still comes is dropped. */
  stop(): void {
    this.sink = null
    this.resume()
  }

  private take(chunk: Buffer): void {
    this.seen += chunk.length
    if (this.sink === null) return
    if (this.seen > this.most) {
      this.sink = null
      this.over()
    } else if (!this.sink.chunk(chunk)) {
      this.paused = true
      this.req.pause()
    }
  }

  private finish(): void {
    this.ended = true
    const sink = this.sink
    this.sink = null
    sink?.end(this.req.rawTrailers)
  }
}
