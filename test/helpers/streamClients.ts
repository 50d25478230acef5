import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { WebSocket } from 'ws'
import { api, type TestGateway } from './gateway.ts'

/** What tests of streams through the whole gateway share: documents, senders and listeners. */

interface Ending {
  teardown(run: () => unknown): void
}

/** Settings with streaming on, whose times are short. */
export function streamsOn(streaming: object = {}, rest: object = {}): Record<string, any> {
  const quick = { enabled: true, drain_timeout: 0.2, reload_drain: 0.2, idle_leave: 0.3 }
  return { gateway: { streaming: { ...quick, ...streaming } }, management: { streaming: { enabled: true } }, ...rest }
}

/** A streaming API below `/ID/`, without upstream. */
export function streamApi(id: string, streams: unknown, extension: object = {}): Record<string, any> {
  return { ...api(id, '', { upstream: { url: '' }, ...extension }), 'x-svc-streaming': { streams } }
}

/** Waits until something holds. @throws Error when it does not in time */
export async function until(is: () => unknown, what: string, ms = 20_000): Promise<void> {
  const by = Date.now() + ms
  while (!(await is())) {
    if (Date.now() > by) throw new Error(`not in ${ms} ms: ${what}`)
    await pause(10)
  }
}

/** A row of `GET /svc/streams`. */
export async function statusOf(gw: TestGateway, stream: string, apiId?: string): Promise<any> {
  const { streams } = (await gw.svc('GET', '/svc/streams')).body
  return streams.find((row: any) => row.stream === stream && (apiId === undefined || row.api_id === apiId))
}

export function post(
  gw: TestGateway,
  path: string,
  body: string | Uint8Array<ArrayBuffer>,
  headers: Record<string, string> = {}
): Promise<Response> {
  return fetch(gw.url + path, { method: 'POST', body, headers })
}

/** One SSE client. */
export class SseClient {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly events: EventSourceMessage[] = []
  /** Milliseconds that it was last told to wait before it comes again. */
  retry: number | null = null
  /** The answer came to its end; false: the connection broke, or goes on. */
  isComplete = false
  readonly ended: Promise<void>
  readonly #answer: IncomingMessage

  constructor(answer: IncomingMessage) {
    this.#answer = answer
    this.status = answer.statusCode!
    this.headers = answer.headers
    const parser = createParser({
      onEvent: event => void this.events.push(event),
      onRetry: ms => {
        this.retry = ms
      }
    })
    answer.setEncoding('utf8')
    answer.on('data', (text: string) => parser.feed(text))
    answer.on('error', () => {})
    answer.on('end', () => {
      this.isComplete = true
    })
    this.ended = new Promise(resolve => void answer.once('close', resolve))
  }

  /** Payloads in the order in which they came, without events that have a name. */
  texts(): string[] {
    return this.events.filter(({ event }) => event === undefined).map(({ data }) => data)
  }

  get lastId(): string {
    return this.events.findLast(({ id }) => id !== undefined)?.id ?? ''
  }

  /** Waits for so many of them. */
  async until(count: number): Promise<string[]> {
    await until(() => this.texts().length >= count, `${count} messages, of which ${this.texts().length} came`)
    return this.texts()
  }

  /** Takes nothing more off its connection; what is on the way stays with the kernels. */
  pause(): void {
    this.#answer.pause()
    this.#answer.socket.pause()
  }

  resume(): void {
    this.#answer.socket.resume()
    this.#answer.resume()
  }

  stop(): void {
    this.#answer.destroy()
  }

  /** As a process that was killed with bytes unread: its end says that the connection is no more. */
  kill(): void {
    this.#answer.socket.resetAndDestroy()
  }
}

/** Resolves when the head of the answer is there; it ends with the test. */
export async function sse(
  t: Ending,
  gw: { readonly url: string },
  path: string,
  headers: Record<string, string> = {}
): Promise<SseClient> {
  const call: ClientRequest = request(gw.url + path, {
    agent: false,
    headers: { Accept: 'text/event-stream', ...headers }
  })
  t.teardown(() => call.destroy())
  call.on('error', () => {})
  call.end()
  const [answer] = (await once(call, 'response')) as [IncomingMessage]
  return new SseClient(answer)
}

export interface WebSocketClient {
  readonly socket: WebSocket
  /** Frames as text. */
  readonly frames: string[]
  /** How it was closed. */
  closed: { readonly code: number; readonly reason: string } | null
  /** Status of the refusal; null: it was opened. */
  readonly refused: number | null
}

/** Resolves when the handshake has an answer; it ends with the test. */
export async function webSocket(
  t: Ending,
  gw: { readonly url: string },
  path: string,
  { protocol, ...options }: { protocol?: string; headers?: Record<string, string>; autoPong?: boolean } = {}
): Promise<WebSocketClient> {
  const socket = new WebSocket(gw.url.replace('http', 'ws') + path, protocol === undefined ? [] : [protocol], options)
  t.teardown(() => socket.terminate())
  const frames: string[] = []
  socket.on('message', data => void frames.push(String(data)))
  socket.on('error', () => {})
  const refused = await new Promise<number | null>(resolve => {
    socket.once('open', () => resolve(null))
    socket.once('unexpected-response', (_request, answer) => {
      answer.resume()
      resolve(answer.statusCode!)
    })
  })
  const client: WebSocketClient = { socket, frames, closed: null, refused }
  socket.once('close', (code, reason) => {
    client.closed = { code, reason: String(reason) }
  })
  return client
}

/** An SSE client of a crowd: a socket and what came, as it came. */
export class LightClient {
  readonly socket: Socket
  text = ''
  /** Milliseconds since the process began; 0: it goes on. */
  endedAt = 0

  constructor(socket: Socket, path: string, lastId: string) {
    this.socket = socket
    const resume = lastId === '' ? '' : `Last-Event-ID: ${lastId}\r\n`
    socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n${resume}\r\n`)
    socket.setEncoding('latin1')
    socket.on('data', (text: Buffer | string) => {
      this.text += text
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      this.endedAt = performance.now()
    })
  }

  get status(): number {
    return Number(this.text.slice(9, 12))
  }

  /** It has its head and the first comment. */
  get isOpen(): boolean {
    return this.text.includes('\n:\n')
  }

  texts(): string[] {
    return [...this.text.matchAll(/^data: (.*)$/gm)].map(([, data]) => data!)
  }

  get lastId(): string {
    return [...this.text.matchAll(/^id: (.*)$/gm)].at(-1)?.[1] ?? ''
  }

  /** What it was last told to wait, ms. */
  get retry(): number {
    return Number([...this.text.matchAll(/^retry: (\d+)$/gm)].at(-1)?.[1] ?? 0)
  }
}

/** So many at once. Resolves when all have an answer; they end with the test. @param lastIds where each goes on */
export async function crowd(
  t: Ending,
  gw: { readonly url: string },
  path: string,
  count: number,
  lastIds: readonly string[] = []
): Promise<LightClient[]> {
  const { hostname, port } = new URL(gw.url)
  const clients = Array.from(
    { length: count },
    (_, i) => new LightClient(connect(Number(port), hostname), path, lastIds[i] ?? '')
  )
  t.teardown(() => {
    for (const { socket } of clients) socket.destroy()
  })
  await until(() => clients.every(({ isOpen, endedAt }) => isOpen || endedAt > 0), `${count} clients have an answer`)
  return clients
}
