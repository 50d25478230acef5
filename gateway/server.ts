import { createServer, type IncomingMessage, type Server } from 'node:http'
import { type AddressInfo, isIP, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { GatewaySettings } from '../config/settings.ts'
import type { Clock, Log } from '../config/world.ts'
import { addresses, within } from './addresses.ts'
import { refuse } from './answer.ts'
import { Exchange, type Peer, Reply, type Route, type Upgrade } from './exchange.ts'
import { readHead, readTarget } from './framing.ts'
import { normalPath, resolveDots } from './paths.ts'
import { drive, type Endings } from './pipeline.ts'
import { causes } from './proxy/proxy.ts'
import { type Refusal, refusals } from './refusals.ts'
import type { Routes } from './routes.ts'
import { Unavailable } from './store/store.ts'

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
  /** Stands in where no API does: refusals of requests that reach none. */
  readonly nowhere: Route
  readonly endings: Endings
}

export interface GatewayServer {
  listen(port: number, address: string): Promise<AddressInfo>
  /** No new connections; resolves when the requests under way have ended, or cuts them off after `ms`. */
  drain(ms: number): Promise<void>
}

type Client = Socket & { peer?: Peer; exchange?: Exchange | null; inFlight?: number }

export function endings(log: Log): Endings {
  return {
    refuse,
    fault(x, cause) {
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
  const sockets = new Set<Client>()
  let draining = false
  let idle: (() => void) | null = null

  const server: Server<typeof IncomingMessage, typeof Reply> = createServer({
    ServerResponse: Reply,
    noDelay: true,
    keepAlive: true,
    maxHeaderSize: 16_384,
    insecureHTTPParser: false,
    // Ours to check: Node would answer without a body.
    requireHostHeader: false,
    headersTimeout: options.read_timeout * 1000,
    // A steady upload may last hours; `proxy.ts` looks at its pace instead.
    requestTimeout: 0,
    keepAliveTimeout: 72_000,
    connectionsCheckingInterval: Math.max(100, Math.min(5_000, options.read_timeout * 500)),
    joinDuplicateHeaders: false,
    // h2c would carry requests past every rule; such a request is an ordinary one.
    shouldUpgradeCallback: (req: IncomingMessage) => !/\bh2c\b/i.test(req.headers.upgrade ?? '')
  } as never)
  server.timeout = 0

  server.on('connection', (socket: Client) => {
    const address = plain(socket.remoteAddress ?? '')
    socket.peer = { address, trusted: within(trusted, address), secure: false }
    socket.inFlight = 0
    socket.exchange = null
    sockets.add(socket)
    socket.on('close', forget)
  })

  function forget(this: Socket): void {
    sockets.delete(this as Client)
    if (draining && sockets.size === 0) idle?.()
  }

  server.on('request', (req, res) => start(req, res, null))
  server.on('checkContinue', (req, res) => start(req, res, null))
  server.on('checkExpectation', (req, res) => start(req, res, null, refusals.expectation))
  server.on('connect', (req: IncomingMessage, socket: Duplex, first: Buffer) =>
    upgraded(req, socket, first, refusals.methodNotAllowed)
  )
  server.on('upgrade', (req: IncomingMessage, socket: Duplex, first: Buffer) => upgraded(req, socket, first, null))
  server.on('clientError', clientError)

  function upgraded(req: IncomingMessage, socket: Duplex, first: Buffer, refusal: Refusal | null): void {
    const res = new Reply(req)
    res.shouldKeepAlive = false
    res.assignSocket(socket as Socket)
    res.on('finish', endSocket)
    socket.on('error', ignore)
    start(req, res, { socket, first }, refusal)
  }

  function start(req: IncomingMessage, res: Reply, upgrade: Upgrade | null, refusal: Refusal | null = null): void {
    const socket = req.socket as Client
    const peer = socket.peer!
    const head = readHead(req)
    const target = head === null ? null : readTarget(req.url!, req.method!, head.host)
    if (head === null || target === null || (upgrade !== null && head.bodyLength !== 0)) {
      const x = new Exchange(req, res, tools.clock.now(), NO_HEAD, peer.address, peer, '/', '', tools.nowhere, upgrade)
      admit(x, socket)
      // Where the body begins or ends is unknown, so nothing behind this head can be read as a request.
      res.linger()
      return refuse(x, refusals.framing)
    }
    const path = resolveDots(target.path)
    const client = peer.trusted ? forwardedClient(req, peer, options.xff_depth) : peer.address
    const x = new Exchange(req, res, tools.clock.now(), head, client, peer, path, target.query, tools.nowhere, upgrade)
    admit(x, socket)
    if (draining) res.shouldKeepAlive = false
    if (refusal !== null) return refuse(x, refusal)
    const normal = normalPath(path)
    if (tools.inner(x, normal)) {
      x.inner = true
      return
    }
    if (!tools.routes.find(x, normal)) return refuse(x, refusals.noRoute)
    drive(x, tools.endings)
  }

  function admit(x: Exchange, socket: Client): void {
    x.res.exchange = x
    socket.exchange = x
    socket.inFlight!++
    x.res.on('close', closed)
    x.res.on('drain', drained)
  }

  function closed(this: Reply): void {
    const x = this.exchange!
    const socket = x.req.socket as Client
    socket.inFlight!--
    x.gone = true
    this.waiter?.closed()
    this.waiter = null
    const { after } = x.route
    for (let i = 0; i < after.length; i++) after[i]!(x)
    tools.done(x)
    if (draining && socket.inFlight === 0) socket.end()
  }

  function clientError(error: NodeJS.ErrnoException, socket: Client): void {
    if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
    const x = socket.exchange ?? null
    const refusal =
      error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? refusals.headTimeout
        : error.code === 'HPE_HEADER_OVERFLOW'
          ? refusals.headerOverflow
          : error.code === 'HPE_INVALID_METHOD'
            ? refusals.notImplemented
            : refusals.framing
    // A body that breaks off in nonsense: its own exchange is told, if no other answer is due before it.
    if (x !== null && !x.req.complete && socket.inFlight === 1 && !x.res.headersSent) {
      x.res.waiter?.closed()
      x.res.waiter = null
      x.res.linger()
      return refuse(x, refusal)
    }
    if (socket.inFlight! > 0) return void socket.destroy()
    log.debug('a client sent no request', { code: error.code ?? '', client: socket.peer?.address ?? '' })
    socket.end(
      `HTTP/1.1 ${refusal.status} ${refusal.message}\r\nContent-Type: application/json\r\nContent-Length: ${refusal.json.length}\r\nx-svc-error: ${refusal.code}\r\nConnection: close\r\n\r\n${refusal.json}`,
      'latin1'
    )
    // A client that does not close its side would keep the socket half open for ever.
    setTimeout(() => socket.destroy(), 1_000).unref()
  }

  return {
    listen(port, address) {
      return new Promise((resolve, reject) => {
        server.once('error', reject)
        server.listen({ port, host: address === '' ? undefined : address, backlog: 1024 }, () => {
          server.off('error', reject)
          resolve(server.address() as AddressInfo)
        })
      })
    },
    async drain(ms) {
      draining = true
      server.close()
      for (const socket of sockets) if (socket.inFlight === 0) socket.end()
      if (sockets.size === 0) return
      await new Promise<void>(resolve => {
        const cancel = tools.clock.after(ms, () => {
          log.warn('requests under way were cut off', { connections: sockets.size })
          resolve()
        })
        idle = () => {
          cancel()
          resolve()
        }
      })
      for (const socket of sockets) socket.destroy()
    }
  }
}

const NO_HEAD = { host: '', bodyLength: 0, connection: '' }

function ignore(): void {}

function drained(this: Reply): void {
  this.waiter?.drained()
}

function endSocket(this: Reply): void {
  this.socket?.end()
}

/** `::ffff:192.0.2.1` → `192.0.2.1`: one address, one spelling. */
function plain(address: string): string {
  return address.startsWith('::ffff:') ? address.slice(7) : address
}

/** The client that a trusted proxy names: the first entry of `X-Forwarded-For`, or the n-th from the right. */
function forwardedClient(req: IncomingMessage, peer: Peer, depth: number): string {
  const given = req.headers['x-forwarded-for']
  if (given === undefined) return peer.address
  const entries = String(given)
    .split(',')
    .map(entry => entry.trim())
  const chosen = plain((depth === 0 ? entries[0] : entries[entries.length - depth]) ?? '')
  return isIP(chosen) === 0 ? peer.address : chosen
}
