import { once } from 'node:events'
import { createServer as createFront } from 'node:http'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createSecure } from 'node:tls'
import type { Test } from 'tap'
import { Reply } from '../../gateway/exchange.ts'
import { RequestBody } from '../../gateway/proxy/body.ts'
import { TlsWay } from '../../gateway/proxy/tls/way.ts'
import type {
  Flight,
  Target,
  TlsProfile,
  Upstream,
  UpstreamFault,
  UpstreamListener,
  UpstreamRequest
} from '../../gateway/proxy/upstream.ts'

/** What one listener heard; `over` settles with the answer's end or its fault. */
export class Heard implements UpstreamListener {
  readonly informations: [number, string[]][] = []
  status = 0
  reason = ''
  pairs: string[] = []
  chunks: Buffer[] = []
  trailers: string[] | null = null
  failed: UpstreamFault | null = null
  /** Calls after `end` or `fault`, and data after `data` said full: there must be none. */
  strays = 0
  flight: Flight | null = null
  readonly over: Promise<this>
  readonly headed: Promise<void>
  /** Answers `data`; false: full. */
  takes: (chunk: Buffer) => boolean = () => true
  keeps = true
  bytes = 0
  private closed = false
  private full = false
  private isOver: () => void = () => {}
  private isHeaded: () => void = () => {}

  constructor() {
    this.over = new Promise(resolve => {
      this.isOver = () => resolve(this)
    })
    this.headed = new Promise(resolve => {
      this.isHeaded = resolve
    })
  }

  get body(): string {
    return Buffer.concat(this.chunks).toString('latin1')
  }

  information(status: number, pairs: string[]): void {
    this.listens()
    this.informations.push([status, pairs])
  }

  head(status: number, reason: string, pairs: string[]): void {
    this.listens()
    if (this.status !== 0) this.strays++
    this.status = status
    this.reason = reason
    this.pairs = pairs
    this.isHeaded()
  }

  data(chunk: Buffer): boolean {
    this.listens()
    this.bytes += chunk.length
    if (this.keeps) this.chunks.push(Buffer.from(chunk))
    this.full = !this.takes(chunk)
    return !this.full
  }

  pause(): void {
    if (this.closed) this.strays++
  }

  end(trailers: string[] | null): void {
    this.listens()
    this.closed = true
    this.trailers = trailers
    this.isOver()
  }

  fault(fault: UpstreamFault): void {
    if (this.closed) this.strays++
    this.closed = true
    this.failed = fault
    this.isOver()
  }

  resume(): void {
    this.full = false
    this.flight!.resume()
  }

  private listens(): void {
    if (this.closed || this.full) this.strays++
  }
}

/** A server that answers with raw bytes. `serve` is called for each request head (without a body's bytes). */
export interface RawServer {
  readonly target: Target
  readonly sockets: Socket[]
  readonly heads: string[]
  /** Settles when so many connections have come in all. */
  connections(count: number): Promise<void>
  /** Settles when the connection with this number is closed on the server's side. */
  closed(index: number): Promise<void>
}

export type Serve = (socket: Socket, head: string, rest: Buffer) => void

/** Verifies, and nothing else. Its context is made anew, so that it knows what is trusted by then. */
function usualTls(scheme: string, host: string, port: number): TlsProfile {
  return {
    http2: false,
    get way() {
      return new TlsWay({
        origin: `${scheme}://${host}:${port}`,
        host,
        certificate: null,
        pins: null,
        pinsMissing: [],
        insecure: false,
        ciphers: '',
        minVersion: null,
        maxVersion: null,
        checksCommonName: false,
        fault: null,
        used() {},
        now: Date.now
      })
    },
    onChange: () => () => {}
  }
}

export function targetOf(port: number, scheme = 'http', hostname = '127.0.0.1'): Target {
  return {
    tls: scheme === 'https' ? usualTls(scheme, hostname, port) : null,
    hostname,
    port,
    origin: `${scheme}://${hostname}:${port}`,
    authority: `${hostname}:${port}`,
    base: ''
  }
}

/** @param pem serves over TLS with it */
export async function rawServer(
  t: Test,
  serve: Serve,
  pem: { cert: string; key: string } | null = null
): Promise<RawServer> {
  const sockets: Socket[] = []
  const heads: string[] = []
  const ends: Promise<void>[] = []
  const changed = new EventTarget()
  const onSocket = (socket: Socket) => {
    sockets.push(socket)
    ends.push(new Promise(resolve => socket.once('close', () => resolve())))
    changed.dispatchEvent(new Event('socket'))
    let held = Buffer.alloc(0)
    socket.setNoDelay(true)
    socket.on('error', () => {})
    socket.on('data', function take(chunk: Buffer) {
      held = Buffer.concat([held, chunk])
      const end = held.indexOf('\r\n\r\n')
      if (end < 0) return
      const head = held.toString('latin1', 0, end + 2)
      const rest = held.subarray(end + 4)
      held = Buffer.alloc(0)
      heads.push(head)
      // What carries a body reads the rest itself.
      if (/content-length: [1-9]|transfer-encoding/i.test(head)) socket.off('data', take)
      serve(socket, head, rest)
    })
  }
  const server: Server = pem === null ? createServer(onSocket) : createSecure(pem, onSocket)
  server.on('tlsClientError', () => {})
  const port = await listen(t, server)
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
  })
  return {
    target: targetOf(port, pem === null ? 'http' : 'https', pem === null ? '127.0.0.1' : 'localhost'),
    sockets,
    heads,
    async connections(count) {
      while (sockets.length < count) await once(changed, 'socket')
    },
    closed: index => ends[index]!
  }
}

async function listen(t: Test, server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

export function send(
  upstream: Upstream,
  target: Target,
  request: Partial<UpstreamRequest> = {},
  heard = new Heard()
): Heard {
  heard.flight = upstream.send(
    {
      target,
      method: 'GET',
      fresh: false,
      path: '/',
      pairs: ['Host', target.authority],
      body: null,
      trailers: false,
      ...request
    },
    heard
  )
  return heard
}

/** A real server in front, whose requests come with a body that flows. Its answer is 200 when `handle` has settled. */
export async function front(t: Test, handle: (body: RequestBody, method: string) => Promise<unknown>): Promise<number> {
  const server = createFront({ ServerResponse: Reply }, (req, res) => {
    const length = req.headers['content-length'] === undefined ? -1 : Number(req.headers['content-length'])
    const expects = req.headers.expect !== undefined
    const body = new RequestBody(req, res, length, expects, Number.POSITIVE_INFINITY, () => {})
    req.on('error', () => {})
    void handle(body, req.method!).then(() => res.end('done'))
  })
  const port = await listen(t, server)
  t.teardown(() => server.closeAllConnections())
  return port
}
