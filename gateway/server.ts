import { createServer, type IncomingMessage, type Server, type ServerOptions } from 'node:http'
import { type AddressInfo, type BlockList, isIP, type ListenOptions, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { GatewaySettings } from '../config/settings.ts'
import type { Clock, Log } from '../config/world.ts'
import { addresses, within } from './addresses.ts'
import { refuse } from './answer.ts'
import { CountersUnavailable } from './counters/counters.ts'
import { Exchange, lingerOn, type Peer, Reply, type Route, type Upgrade } from './exchange.ts'
import { readHead, readTarget } from './framing.ts'
import { isPlainPath, normalPath, resolveDots } from './paths.ts'
import { drive, type Endings } from './pipeline.ts'
import { causes } from './proxy/plan.ts'
import { type Refusal, refusals } from './refusals.ts'
import type { Routes } from './routes.ts'
import { Unavailable } from './store/store.ts'
import { RELAY_FIELDS, RELAY_HEAD_BYTES } from './threads/relayed.ts'
import { type Front, front } from './tls/front.ts'
import { Inner as InnerConnection } from './tls/http2/inner.ts'
import type { ListenerTls } from './tls/listenerTls.ts'

/** Answers what is the gateway's own (`/svc/…`, probes); false: not its own. `normal`: the path in normal form. */
export type Inner = (x: Exchange, normal: string) => boolean

export interface ServerTools {
  readonly settings: GatewaySettings
  readonly clock: Clock
  readonly log: Log
  readonly routes: Routes
  readonly inner: Inner
  /** Called once for each request when its response has closed, after the route's own. */
  readonly done: (x: Exchange) => void
  /** Called once a connection at most, when a client's bytes were no request: no exchange was made. */
  readonly refused: (client: string, refusal: Refusal) => void
  /** Stands in where no API does: refusals of requests that reach none. */
  readonly nowhere: Route
  readonly endings: Endings
  /**
   * Who really asks, where other threads relay requests (`threads/relayed.ts`); null: the connection is closed. Absent: who
   * holds the socket.
   */
  readonly relayed?: (req: IncomingMessage, res: Reply) => Peer | null
  /** Absent: plain HTTP. */
  readonly tls?: ListenerTls
}

export interface GatewayServer {
  /** `shared`: other threads listen there too, and the system spreads connections over all. */
  listen(port: number, address: string, how?: 'alone' | 'shared'): Promise<AddressInfo>
  /** On a Unix socket. */
  listenAt(path: string): Promise<void>
  /**
   * From now on each answer closes its connection; listening goes on, and idle connections stay open: a load balancer
   * that still uses one gets its answer there and not an end.
   */
  announceEnd(): void
  /** No new connections; idle ones end, others with their answer. */
  stopListening(): void
  /** `stopListening`; resolves when the requests under way have ended, or cuts them off after `ms`. */
  drain(ms: number): Promise<void>
}

/** A request that came while an earlier one on its connection is under way. */
interface Pipelined {
  readonly req: IncomingMessage
  readonly res: Reply
  refusal: Refusal | null
}

/** Requests that wait on one connection at most; what comes behind them is not read, and the connection closes. */
const MOST_PIPELINED = 256

/** How often late bodies are looked at. */
const LATE_SWEEP_MS = 500

/** Fields of a request's head at most; empty ones hardly count for `maxHeaderSize`. */
const MOST_FIELDS = 1_000
const HEAD_BYTES = 16_384

type Client = Socket & {
  peer?: Peer
  /** The one under way. */
  exchange?: Exchange | null
  pipelined?: Pipelined[] | null
  /** The bytes behind the last request are none: said once all answers before have gone. */
  refusal?: Refusal | null
  /** Of the bytes behind the request that comes now, Node loses some: they can hold no other. */
  last?: boolean
}

export function endings(log: Log): Endings {
  return {
    refuse,
    fault(x, cause) {
      if (cause instanceof CountersUnavailable) return refuse(x, refusals.countersUnavailable)
      if (cause instanceof Unavailable) return refuse(x, refusals.storeUnavailable)
      log.error('fault', {
        api_id: x.route.api.id,
        method: x.method,
        path: x.path,
        cause: causes(cause),
        stack: cause instanceof Error ? cause.stack : undefined
      })
      refuse(x, refusals.fault)
    }
  }
}

/** Node's HTTP server around `drive`: the framing is checked, the route found, the exchange made. */
export function gatewayServer(tools: ServerTools): GatewayServer {
  const { settings, log } = tools
  const options = settings.http_server_options
  const trusted = addresses(settings.trusted_proxies)
  const mostFields = MOST_FIELDS + (tools.relayed === undefined ? 0 : RELAY_FIELDS)
  const sockets = new Set<Client>()
  /** Requests that were answered before their whole body had come, and until when it may come. */
  const late = new Map<IncomingMessage, number>()
  const lateMs = options.read_timeout > 0 ? options.read_timeout * 1000 : Number.POSITIVE_INFINITY
  const writeMs = options.write_timeout > 0 ? options.write_timeout * 1000 : Number.POSITIVE_INFINITY
  let draining = false
  let ending = false
  let idle: (() => void) | null = null

  const serving = {
    ServerResponse: Reply,
    noDelay: true,
    keepAlive: true,
    maxHeaderSize: HEAD_BYTES + (tools.relayed === undefined ? 0 : RELAY_HEAD_BYTES),
    insecureHTTPParser: false,
    // Ours to check: Node would answer without a body.
    requireHostHeader: false,
    headersTimeout: options.read_timeout * 1000,
    // A steady upload may last hours; `proxy.ts` looks at its pace instead.
    requestTimeout: 0,
    keepAliveTimeout: 72_000,
    connectionsCheckingInterval: Math.max(100, Math.min(5_000, options.read_timeout * 500)),
    joinDuplicateHeaders: false,
    shouldUpgradeCallback: mayUpgrade
  } as ServerOptions
  const secure: Front | null =
    tools.tls === undefined
      ? null
      : front({
          tls: tools.tls,
          options: serving,
          writeMs,
          headMs: lateMs,
          clock: tools.clock,
          log,
          who,
          admit: meet,
          emptied
        })
  const server = (secure?.server ?? createServer(serving)) as Server<typeof IncomingMessage, typeof Reply>
  server.timeout = 0
  // Node drops those behind without a word: with one more than we take, we see that there are too many.
  server.maxHeadersCount = mostFields + 1

  if (secure === null)
    server.on('connection', (socket: Client) => meet(socket, { ...who(socket), secure: false, presented: null }))

  function who(socket: Socket): Pick<Peer, 'address' | 'trusted'> {
    const address = plain(socket.remoteAddress ?? '')
    return { address, trusted: within(trusted, address) }
  }

  function meet(connection: Duplex, peer: Peer): void {
    const socket = connection as Client
    socket.peer = peer
    socket.exchange = null
    socket.pipelined = null
    socket.refusal = null
    socket.last = false
    sockets.add(socket)
    socket.on('close', forget)
  }

  function forget(this: Socket): void {
    sockets.delete(this as Client)
    emptied()
  }

  function emptied(): void {
    if (draining && connections() === 0) idle?.()
  }

  function connections(): number {
    return sockets.size + (secure?.size ?? 0)
  }

  server.on('request', (req, res) => arrive(req, res, null))
  server.on('checkContinue', (req, res) => arrive(req, res, null))
  server.on('checkExpectation', (req, res) => arrive(req, res, refusals.expectation))
  server.on('connect', (req: IncomingMessage, socket: Duplex, first: Buffer) =>
    upgraded(req, socket, first, refusals.methodNotAllowed)
  )
  server.on('upgrade', (req: IncomingMessage, socket: Duplex, first: Buffer) => upgraded(req, socket, first, null))
  server.on('clientError', clientError)

  /** One request of a connection at a time: unsafe ones must not overtake each other (RFC 9112 §9.3.2). */
  function arrive(req: IncomingMessage, res: Reply, refusal: Refusal | null): void {
    const socket = req.socket as Client
    // Behind an answer that closes the connection nothing is a request any more (RFC 9112 §9.6).
    if (!socket.writable) return
    if (socket.last) res.shouldKeepAlive = false
    if (socket.exchange === null) return start(req, res, null, refusal)
    const waiting = socket.pipelined ?? []
    socket.pipelined = waiting
    if (waiting.length < MOST_PIPELINED) waiting.push({ req, res, refusal })
    else waiting[waiting.length - 1]!.res.shouldKeepAlive = false
  }

  function upgraded(req: IncomingMessage, socket: Duplex, first: Buffer, refusal: Refusal | null): void {
    const client = req.socket as Client
    socket.on('error', ignore)
    // CONNECT behind other requests.
    if (client.exchange !== null) {
      client.refusal ??= refusal
      return
    }
    const res = new Reply(req)
    res.shouldKeepAlive = false
    res.assignSocket(socket as Socket)
    res.on('finish', endSocket)
    start(req, res, { socket, first }, refusal)
  }

  function start(req: IncomingMessage, res: Reply, upgrade: Upgrade | null, refusal: Refusal | null): void {
    const socket = req.socket as Client
    const peer = tools.relayed === undefined ? socket.peer! : tools.relayed(req, res)
    if (peer === null) return void socket.destroy()
    const flood = req.rawHeaders.length > 2 * mostFields
    const head = flood ? null : readHead(req)
    const target = readTarget(req, peer)
    if (head === null || target === null) {
      const path = target?.path ?? pathOf(req.url!)
      const x = new Exchange(req, res, tools.clock.now(), NO_HEAD, peer.address, peer, path, '', tools.nowhere, upgrade)
      admit(x, socket)
      // Where the body begins or ends is unknown, so nothing behind this head can be read as a request.
      res.linger()
      return refuse(x, flood ? refusals.headerOverflow : (refusal ?? refusals.framing))
    }
    const plain = isPlainPath(target.path)
    const path = plain ? target.path : resolveDots(target.path)
    const client = peer.trusted ? forwardedClient(req, peer, options.xff_depth) : peer.address
    const x = new Exchange(req, res, tools.clock.now(), head, client, peer, path, target.query, tools.nowhere, upgrade)
    x.plain = plain
    admit(x, socket)
    if (ending) res.shouldKeepAlive = false
    if (refusal !== null) return refuse(x, refusal)
    const normal = plain ? path : normalPath(path)
    if (tools.inner(x, normal)) {
      x.inner = true
      return
    }
    // A field of one value (RFC 9110 §11.6.2, §5.3): which of two was checked is nobody's to know behind us.
    if (head.authorizations > 1) {
      res.linger()
      return refuse(x, refusals.framing)
    }
    if (!tools.routes.find(x, normal)) return refuse(x, refusals.noRoute)
    drive(x, tools.endings)
  }

  function admit(x: Exchange, socket: Client): void {
    x.res.exchange = x
    socket.exchange = x
    x.res.on('close', closed)
  }

  function closed(this: Reply): void {
    const x = this.exchange!
    const socket = x.req.socket as Client
    socket.exchange = null
    x.gone = true
    this.waiter?.closed()
    this.waiter = null
    const { after } = x.route
    for (let i = 0; i < after.length; i++) after[i]!(x)
    tools.done(x)
    if (!socket.writable) socket.pipelined = null
    else if (socket.pipelined !== null) following(socket)
    else if (socket.refusal !== null) noRequest(socket, socket.refusal!)
    else if (draining) lingerOn(socket)
    else if (!x.req.complete) expectRest(x.req)
  }

  /** A client could bring the rest of it at a byte a minute. */
  function expectRest(req: IncomingMessage): void {
    if (late.size === 0) tools.clock.after(LATE_SWEEP_MS, sweepLate)
    late.set(req, tools.clock.now() + lateMs)
  }

  function sweepLate(): void {
    const now = tools.clock.now()
    for (const [req, by] of late) {
      if (!req.complete && !req.socket.destroyed && now < by) continue
      late.delete(req)
      if (!req.complete) req.socket.destroy()
    }
    if (late.size > 0) tools.clock.after(LATE_SWEEP_MS, sweepLate)
  }

  function following(socket: Client): void {
    const { req, res, refusal } = socket.pipelined!.shift()!
    if (socket.pipelined!.length === 0) socket.pipelined = null
    start(req, res, null, refusal)
    // Its body broke off in nonsense, or its framing is doubtful to the parser.
    if (!req.complete && socket.refusal !== null && socket.pipelined === null) broken(socket.exchange!, socket.refusal!)
  }

  /** The parser gave up on this connection; it calls again with each further packet. */
  function clientError(error: NodeJS.ErrnoException, socket: Client): void {
    if (error.code === 'ECONNRESET' || isOfTls(error)) return void socket.destroy()
    // It left in the middle of a body: no nonsense, and nobody to tell.
    if (error.code === 'HPE_INVALID_EOF_STATE' && socket.exchange !== null) return void socket.destroy()
    // Its last answer is on the way: cutting now could take that away from the client.
    if (socket.refusal !== null || !socket.writable) return
    const refusal =
      error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? refusals.headTimeout
        : error.code === 'HPE_HEADER_OVERFLOW'
          ? refusals.headerOverflow
          : error.code === 'HPE_INVALID_METHOD'
            ? refusals.notImplemented
            : refusals.framing
    socket.refusal = refusal
    const x = socket.exchange!
    if (x === null) noRequest(socket, refusal)
    else if (socket.pipelined === null && !x.req.complete) broken(x, refusal)
  }

  /** The body breaks off in nonsense. */
  function broken(x: Exchange, refusal: Refusal): void {
    x.res.waiter?.closed()
    x.res.waiter = null
    x.res.linger()
    refuse(x, refusal)
  }

  /** Answers what is no request; Node has made no response for it. */
  function noRequest(socket: Client, refusal: Refusal): void {
    // Threads relay requests alone: this is somebody else.
    if (tools.relayed !== undefined) return void socket.destroy()
    tools.refused(socket.peer?.address ?? '', refusal)
    socket.write(
      `HTTP/1.1 ${refusal.status} ${refusal.message}\r\nContent-Type: application/json\r\nContent-Length: ${refusal.json.length}\r\nx-svc-error: ${refusal.code}\r\nConnection: close\r\n\r\n${refusal.json}`,
      'latin1'
    )
    lingerOn(socket)
  }

  function bind(place: ListenOptions): Promise<void> {
    return new Promise((resolve, reject) => {
      server.once('error', reject)
      server.listen({ ...place, backlog: 1024 }, () => {
        server.off('error', reject)
        resolve()
      })
    })
  }

  function stopListening(): void {
    if (draining) return
    ending = true
    draining = true
    secure?.stopListening()
    server.close()
    // A head that is not complete is no request under way: whoever sends one does not hold up the stop.
    for (const socket of sockets) if (socket.exchange === null && !(socket instanceof InnerConnection)) lingerOn(socket)
  }

  return {
    async listen(port, address, how = 'alone') {
      await bind({ port, host: address === '' ? undefined : address, reusePort: how === 'shared' })
      return server.address() as AddressInfo
    },
    listenAt: path => bind({ path }),
    announceEnd() {
      ending = true
      secure?.announceEnd()
    },
    stopListening,
    async drain(ms) {
      stopListening()
      if (connections() === 0) return secure?.destroy()
      await new Promise<void>(resolve => {
        const cancel = tools.clock.after(ms, () => {
          log.warn('requests under way were cut off', { connections: connections() })
          resolve()
        })
        idle = () => {
          cancel()
          resolve()
        }
      })
      for (const socket of sockets) socket.destroy()
      secure?.destroy()
    }
  }
}

/** For the log, of a target that was refused: its path if it has one, never what stands behind. */
function pathOf(target: string): string {
  return target.startsWith('/') ? target.split(/[?#]/, 1)[0]! : ''
}

/** A client whose TLS breaks off in the middle is gone: nobody reads an answer. */
function isOfTls({ code = '' }: NodeJS.ErrnoException): boolean {
  return code === 'EPROTO' || code.startsWith('ERR_SSL') || code.startsWith('ERR_TLS')
}

const NO_HEAD = { host: '', bodyLength: 0, connection: '', authorizations: 0 }

function ignore(): void {}

function endSocket(this: Reply): void {
  if (this.socket !== null) lingerOn(this.socket)
}

/**
 * Whether `Upgrade` counts; elsewhere it is passed over (RFC 9110 §7.8), and the request is an ordinary one: h2c would
 * carry requests past every rule, and behind a body or an unanswered request the switch would have no clear place.
 */
function mayUpgrade(req: IncomingMessage): boolean {
  const { headers } = req
  const socket = req.socket as Client
  const counts =
    req.httpVersionMinor === 1 &&
    headers['content-length'] === undefined &&
    headers['transfer-encoding'] === undefined &&
    socket.exchange === null &&
    !/\bh2c\b/i.test(headers.upgrade ?? '')
  // Node stops reading behind an upgrade that is passed over, and drops what came in the same packet.
  if (!counts) socket.last = true
  return counts
}

/** `::ffff:192.0.2.1` → `192.0.2.1`: one address, one spelling. */
function plain(address: string): string {
  return address.startsWith('::ffff:') ? address.slice(7) : address
}

/** The client that a trusted proxy names, in `X-Forwarded-For`, else in `Forwarded`: its first entry, or the n-th from the right. */
function forwardedClient(req: IncomingMessage, peer: Peer, depth: number): string {
  const listed = req.headers['x-forwarded-for'] ?? req.headers.forwarded
  if (listed === undefined) return peer.address
  const entries = String(listed).split(',')
  const entry = (depth === 0 ? entries[0] : entries[entries.length - depth]) ?? ''
  const element = req.headers['x-forwarded-for'] === undefined ? FOR.exec(entry) : null
  const chosen = plain(element === null ? entry.trim() : (element[1] ?? element[2]!))
  return isIP(chosen) === 0 ? peer.address : chosen
}

/**
 * Who called a management interface, for limits and records: from the right, the first address on the way that no trusted
 * proxy has. What stands before it in `X-Forwarded-For` or `Forwarded` is the caller's own word, and so is what cannot be
 * read: then it is whoever handed that on.
 */
export function callerOf({ req, peer }: Exchange, trusted: BlockList): string {
  if (!peer.trusted) return peer.address
  const forwardedFor = req.headers['x-forwarded-for']
  const listed = String(forwardedFor ?? req.headers.forwarded ?? '')
  let caller = peer.address
  for (let end = listed.length; end > 0; ) {
    const start = listed.lastIndexOf(',', end - 1)
    const entry = listed.slice(start + 1, end).trim()
    const element = forwardedFor === undefined ? FOR.exec(entry) : WITH_PORT.exec(entry)
    const address = plain(element?.[1] ?? element?.[2] ?? entry)
    if (isIP(address) === 0) return caller
    caller = address
    if (!within(trusted, address)) return caller
    end = start
  }
  return caller
}

/** An address with its port, as some proxies write it. */
const WITH_PORT = /^(?:\[([0-9a-f:.]+)\](?::\d{1,5})?|([0-9.]+):\d{1,5})$/i

/** The address in an element of `Forwarded` (RFC 7239 §4), without quotes, brackets and port. */
const FOR = /(?:^|[;\s])for="?(?:\[([0-9a-f:.]+)\]|([0-9.]+))/i
