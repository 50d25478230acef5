import type { LookupFunction } from 'node:net'
import { type ClientOptions, WebSocket } from 'ws'
import { backoffMs } from '../backoff.ts'
import type { ConnectorTools, Fault } from '../connector.ts'
import type { Tls } from './credentials.ts'
import { checkHeaders, checkText, checkUrl, checkUrlTls, messageOf, safeLookup, TOKEN, tlsOptions } from './outgoing.ts'

/** What both sides of `websocket` share: a connection to a server elsewhere that comes again when it breaks. */

export interface SocketOptions {
  readonly url: string
  readonly open_message?: string
  readonly open_message_type?: 'binary' | 'text'
  readonly max_message_size?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly tls?: Tls
}

const HANDSHAKE_MS = 10_000
const PING_MS = 25_000
/** Pings that may be unanswered, one after the other. */
const MOST_MISSED = 2
/** What stands long enough has not failed at once. */
const STEADY_MS = 10_000
/** Bytes of a message where the options set no bound: a buffer cannot be much longer. */
const LARGEST_MESSAGE = 2 ** 30

export function checkSocket(options: unknown, fault: Fault): void {
  const given = options as SocketOptions
  checkUrl(given.url, ['ws:', 'wss:'], 'own', fault)
  if (given.url.includes('#')) fault('/url', 'must not hold a fragment')
  checkHeaders(given.headers ?? {}, 'own', fault)
  for (const name of Object.keys(given.headers ?? {}))
    if (/^sec-websocket-(?!protocol$)/i.test(name)) fault(`/headers/${name}`, 'is set by the gateway alone')
  const names = protocolsOf(given.headers ?? {})
  if (new Set(names).size < names.length || !names.every(name => TOKEN.test(name)))
    fault('/headers', 'has subprotocols that are no names, or twice the same')
  checkUrlTls(given.tls, given.url, fault)
  if (given.open_message !== undefined) checkText('/open_message', given.open_message, 'own', fault)
  if (given.open_message === undefined && given.open_message_type !== undefined)
    fault('/open_message_type', 'has its place with open_message')
}

/** ws takes subprotocols apart from other headers: only then it accepts the one that the server chooses. */
function protocolsOf(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers)
    .filter(([name]) => isProtocol(name))
    .flatMap(([, text]) => text.split(',').map(one => one.trim()))
}

function isProtocol(name: string): boolean {
  return name.toLowerCase() === 'sec-websocket-protocol'
}

/** Who uses the connection. */
export interface SocketUser {
  opened(socket: WebSocket): void
  received(data: Buffer): void
  /** It broke, or could not be made; it comes again. */
  closed(): void
}

export class OutgoingSocket {
  readonly #options: SocketOptions
  readonly #tools: ConnectorTools
  readonly #user: SocketUser
  #socket: WebSocket | null = null
  #failures = 0
  #missed = 0
  #openedAt = 0
  #fault: string | null = null
  #isClosed = false
  #cancelRetry: (() => void) | null = null
  #cancelPing: (() => void) | null = null
  #gone: (() => void) | null = null

  constructor(options: SocketOptions, tools: ConnectorTools, user: SocketUser) {
    this.#options = options
    this.#tools = tools
    this.#user = user
  }

  get fault(): string | null {
    return this.#fault
  }

  /** It is being made, and no try has failed before. */
  get isFirst(): boolean {
    return this.#socket !== null && this.#failures === 0 && !this.#isClosed
  }

  open(): void {
    this.#cancelRetry = null
    const { url, headers = {}, tls, max_message_size = 0 } = this.#options
    const options: ClientOptions & { lookup: LookupFunction } = {
      headers: Object.fromEntries(Object.entries(headers).filter(([name]) => !isProtocol(name))),
      followRedirects: false,
      handshakeTimeout: HANDSHAKE_MS,
      perMessageDeflate: false,
      maxPayload: max_message_size === 0 ? LARGEST_MESSAGE : max_message_size,
      lookup: safeLookup,
      ...tlsOptions(tls)
    }
    const socket = new WebSocket(url, protocolsOf(headers), options)
    this.#socket = socket
    let cause = 'the connection was closed'
    socket.on('error', error => {
      cause = messageOf(error)
    })
    socket.on('open', () => this.#opened(socket))
    socket.on('pong', () => {
      this.#missed = 0
    })
    socket.on('message', data => {
      this.#missed = 0
      if (!this.#isClosed) this.#user.received(data as Buffer)
    })
    socket.on('close', () => this.#broke(cause))
  }

  #opened(socket: WebSocket): void {
    const { open_message, open_message_type = 'binary' } = this.#options
    this.#fault = null
    this.#missed = 0
    this.#openedAt = this.#tools.clock.now()
    if (open_message !== undefined) socket.send(open_message, { binary: open_message_type === 'binary' })
    this.#ping()
    this.#user.opened(socket)
  }

  /** Shows both ends that the other is there; who does not read is not expected to answer. */
  #ping(): void {
    this.#cancelPing = this.#tools.clock.after(PING_MS, () => {
      const socket = this.#socket!
      if (socket.isPaused) this.#missed = 0
      if (this.#missed++ >= MOST_MISSED) return socket.terminate()
      if (socket.readyState === WebSocket.OPEN) socket.ping()
      this.#ping()
    })
  }

  #broke(cause: string): void {
    const wasSteady = this.#openedAt > 0 && this.#tools.clock.now() - this.#openedAt >= STEADY_MS
    this.#socket = null
    this.#openedAt = 0
    this.#cancelPing?.()
    this.#cancelPing = null
    if (wasSteady) this.#failures = 0
    this.#user.closed()
    if (this.#isClosed) return this.#gone?.()
    this.#fault = cause
    const { api, stream, log, clock } = this.#tools
    if (this.#failures === 0) log.warn('a WebSocket is not connected', { api_id: api, stream, cause })
    this.#cancelRetry = clock.after(backoffMs(this.#failures++), () => this.open())
  }

  /** Tells the other end that we go; it has a moment to answer. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancelRetry?.()
    const socket = this.#socket
    if (socket === null) return
    if (socket.readyState === WebSocket.CONNECTING) socket.terminate()
    else {
      // A paused socket would not see the answer.
      socket.resume()
      socket.close(1001)
    }
    await new Promise<void>(resolve => {
      const cancel = this.#tools.clock.after(1000, () => socket.terminate())
      this.#gone = () => {
        cancel()
        resolve()
      }
    })
  }
}
