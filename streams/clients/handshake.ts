import type { ServerOptions, WebSocket } from 'ws'
import { WebSocketServer } from 'ws'
import type { Call } from '../call.ts'
import { no, nos } from '../refusals.ts'

export interface Wanted {
  /** Subprotocols that this end speaks; of those that the client names, the first of these is chosen. */
  readonly protocols: readonly string[]
  /** Longest message from the client, bytes; above it the connection ends with 1009. */
  readonly maxPayload: number
  /** Null: no list, see `isForeign`. */
  readonly allowedOrigins: readonly string[] | null
}

// RFC 6455 §4.2.2: the answer to another version names ours.
const otherVersion = no(nos.badHandshake.code, 426, nos.badHandshake.message, [
  'Sec-WebSocket-Version',
  '13',
  ...nos.notUpgraded.pairs
])
/** How long a client may take to answer our close frame. */
const CLOSE_MS = 2_000
const KEY = /^[+/0-9A-Za-z]{22}==$/
/** RFC 9110 tokens between commas; an empty member is none. */
const PROTOCOLS = /^[!#$%&'*+\-.^_`|~\w]+(?:[ \t]*,[ \t]*[!#$%&'*+\-.^_`|~\w]+)*$/

/**
 * Makes a WebSocket of an upgrade, or refuses the call. `open` is called at once, before any message of the client, and
 * must listen to `error`. After it nothing may be written through `call.res`.
 */
export function handshake(call: Call, want: Wanted, open: (socket: WebSocket) => void): void {
  const { upgrade, req } = call
  if (upgrade === null) return call.refuse(nos.notUpgraded)
  const { headers } = req
  // ws writes its own answers to what it finds wrong, past the API's heads and the access log: so nothing may be left for it.
  if (call.method !== 'GET' || req.method !== 'GET' || !isModern(req.httpVersion)) return call.refuse(nos.badHandshake)
  if (headers.upgrade?.toLowerCase() !== 'websocket') return call.refuse(nos.badHandshake)
  const key = headers['sec-websocket-key']
  if (typeof key !== 'string' || !KEY.test(key)) return call.refuse(nos.badHandshake)
  // Version 8, which ws takes too, has its origin in another header.
  if (headers['sec-websocket-version'] !== '13') return call.refuse(otherVersion)
  const offered = headers['sec-websocket-protocol']
  if (offered !== undefined && !isProtocolList(offered)) return call.refuse(nos.badHandshake)
  if (isForeign(call, want.allowedOrigins)) return call.refuse(nos.badOrigin)

  // One a handshake: the options differ by stream, and nothing of it outlives this call.
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: want.maxPayload,
    handleProtocols: names => want.protocols.find(name => names.has(name)) ?? false,
    closeTimeout: CLOSE_MS
  } as ServerOptions)
  server.on('headers', lines => {
    const pairs = call.head(101, [])
    for (let i = 0; i + 1 < pairs.length; i += 2) lines.push(`${pairs[i]}: ${pairs[i + 1]}`)
  })
  server.handleUpgrade(req, upgrade.socket, upgrade.first, open)
}

function isModern(version: string): boolean {
  return version !== '1.0' && version !== '0.9'
}

function isProtocolList(text: string): boolean {
  if (!PROTOCOLS.test(text)) return false
  const names = text.split(',').map(name => name.trim())
  return new Set(names).size === names.length
}

/**
 * Whether a browser opens this for a page that must not: with a list only its origins may (`*`: all). Without one, only
 * pages of the same host may when the credential came in a cookie, which the browser adds by itself.
 */
function isForeign(call: Call, allowed: readonly string[] | null): boolean {
  const text = call.req.headers.origin
  if (text === undefined) return false
  if (allowed !== null) {
    const origin = originOf(text)
    return !allowed.some(one => one === '*' || one === text || (origin !== null && originOf(one) === origin))
  }
  if (!call.isByCookie) return false
  const url = URL.parse(text)
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) return true
  // The scheme of this connection tells nothing behind a proxy that ends TLS: the page's own is taken for both.
  const own = URL.parse(`${url.protocol}//${call.header('host') ?? ''}`)
  return own === null || own.host !== url.host
}

/** Scheme, host and port, in one spelling; null: it is none. */
function originOf(text: string): string | null {
  const url = URL.parse(text)
  return url === null || url.host === '' ? null : `${url.protocol}//${url.host}`
}
