import type { Socket } from 'node:net'
import { Connection, Session } from 'better-sse'
import type { Call } from '../call.ts'
import type { Ending } from '../hub/hub.ts'
import type { DeliveryOptions } from '../options.ts'
import { comesAgain, farewell, jittered, returnMs } from './endings.ts'
import { around, event } from './eventFrames.ts'
import { formatsOf } from './formats.ts'
import { type About, type ClientTools, PushClient, type Wants } from './pushClient.ts'

const EMPTY = Buffer.alloc(0)
/** Dead peers of connections without heartbeats are found by the kernel. */
const KEEP_ALIVE_MS = 30_000

/** An answer without an end: its head and its end go through Node's response, all between straight to the socket. */
abstract class EndlessAnswer extends PushClient {
  protected readonly isChunked: boolean

  constructor(isEvents: boolean, call: Call, options: DeliveryOptions, about: About, tools: ClientTools, wants: Wants) {
    const isChunked = call.req.httpVersionMinor > 0
    const formats = formatsOf(options)
    const format = isEvents
      ? isChunked
        ? formats.events
        : formats.eventsBare
      : isChunked
        ? formats.lines
        : formats.linesBare
    super('sse', format, wants, call, options, about, tools)
    this.isChunked = isChunked
  }

  /** @param first goes out together with the head */
  protected head(type: string, first: string): void {
    const { res, req } = this.call
    const pairs = this.call.head(200, headPairs(type))
    const socket: Socket = req.socket
    socket.setNoDelay(true)
    socket.setKeepAlive(true, KEEP_ALIVE_MS)
    socket.cork()
    res.writeHead(200, pairs)
    res.flushHeaders()
    if (first !== '') this.text(first)
    socket.uncork()
  }

  protected text(text: string): void {
    this.say(around(text, EMPTY, '', this.isChunked))
  }

  /** Node writes the last chunk behind what was written past it, and its response is finished like any other. */
  protected finish(_why: Ending): void {
    this.call.res.end()
  }
}

/** For HEAD as well. */
export function headPairs(type: string): string[] {
  return ['Content-Type', type, 'Cache-Control', 'private, no-cache, no-store, no-transform', 'X-Accel-Buffering', 'no']
}

/** Server-sent events. better-sse's session opens the stream and is gone then; frames are ours, shared by all clients. */
export class EventStream extends EndlessAnswer {
  #hasPlace = false

  constructor(call: Call, options: DeliveryOptions, about: About, tools: ClientTools, wants: Wants) {
    super(true, call, options, about, tools, wants)
  }

  begin(query: URLSearchParams): void {
    new Session(new EventConnection(this, query), { keepAlive: null, retry: null, trustClientEventId: false })
  }

  /** Head and first bytes at once, on a quiet topic too: an event source is open from then on. */
  sendHead(): void {
    if (this.state === 'ended') return
    const { retryMs } = this.options
    const retry = retryMs > 0 ? `retry: ${jittered(retryMs, this.tools.random)}\n\n` : ''
    // The session calls from a turn of its own, where nobody would catch it.
    try {
      this.head('text/event-stream', `${retry}:\n\n`)
    } catch (cause) {
      this.tools.log.error('the head of a stream could not be written', { cause: String(cause) })
      return void this.cut('fault')
    }
    this.opened()
  }

  /** Only the padding that some clients ask for by their address comes from the session. */
  sendChunk(text: string): void {
    if (text !== '' && this.state === 'open') this.text(text)
  }

  protected gapBytes(missed: number | null, cursor: string | null): Buffer {
    return around(event('svc-gap', cursor, JSON.stringify({ missed })), EMPTY, '', this.isChunked)
  }

  protected beat(now: number): void {
    const { heartbeatMs } = this.options
    if (!this.#hasPlace) this.#place()
    // Bytes that wait for the client are sign of life enough.
    if (heartbeatMs > 0 && now - this.sentAt >= heartbeatMs && this.socket.writableLength === 0) this.text(':\n\n')
  }

  /** An id without data is kept and not shown (HTML §9.2.6): who leaves before its first event can still go on from here. */
  #place(): void {
    if (this.out.messages > 0 || !this.options.resume || this.options.mode !== 'broadcast') {
      this.#hasPlace = true
      return
    }
    // The seat is past what the quota does not cover yet.
    const cursor = this.isHolding ? null : this.seat!.cursor()
    if (cursor === null) return
    this.#hasPlace = true
    this.text(`id: ${cursor}\n\n`)
  }

  protected override finish(why: Ending): void {
    const { random } = this.tools
    this.text(comesAgain(why) ? `retry: ${returnMs(random)}\n\n` : event('svc-error', null, farewell(why, random)))
    super.finish(why)
  }
}

/** Values as they are, each with a line feed behind it; envelopes as lines of JSON. */
export class LineStream extends EndlessAnswer {
  constructor(call: Call, options: DeliveryOptions, about: About, tools: ClientTools, wants: Wants) {
    super(false, call, options, about, tools, wants)
  }

  begin(): void {
    this.head(lineType(this.options), '')
    this.opened()
  }

  protected gapBytes(missed: number | null, cursor: string | null): Buffer | null {
    if (!this.options.envelope) return null
    return around(JSON.stringify({ type: 'gap', missed, id: cursor }), EMPTY, '\n', this.isChunked)
  }

  protected beat(): void {}
}

export function lineType(options: DeliveryOptions): string {
  return options.envelope ? 'application/x-ndjson' : 'application/octet-stream'
}

/** What a session asks of a connection, as light objects: its own adapter builds a URL, a Request and a Response for each. */
class EventConnection extends Connection {
  url: URL
  request: Request
  response: Response
  readonly #stream: EventStream

  constructor(stream: EventStream, query: URLSearchParams) {
    super()
    this.url = { searchParams: query } as URL
    this.request = REQUEST
    this.response = RESPONSE
    this.#stream = stream
  }

  sendHead = (): void => this.#stream.sendHead()
  sendChunk = (chunk: string): void => this.#stream.sendChunk(chunk)
  cleanup = (): void => {}
}

/** That the client has left is heard elsewhere. */
const REQUEST = {
  headers: { get: () => null },
  signal: { addEventListener() {}, removeEventListener() {} }
} as unknown as Request
const RESPONSE = {} as Response
