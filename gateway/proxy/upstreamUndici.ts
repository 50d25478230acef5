import { Readable } from 'node:stream'
import { type buildConnector, type Dispatcher, errors, Pool } from 'undici'
import type { RequestBody } from './body.ts'
import { handshake } from './tls/handshake.ts'
import type { TlsWay } from './tls/way.ts'
import {
  type FaultCode,
  type Flight,
  type Target,
  type Upstream,
  UpstreamFault,
  type UpstreamListener
} from './upstream.ts'

export interface UndiciOptions {
  readonly connectTimeoutMs: number
  /** Connections an origin at most; requests beyond wait in the pool's queue. */
  readonly connections: number
}

/** Most idle origins that keep a pool; the oldest without requests leave. */
const MOST_POOLS = 10_000

/** Upstreams over undici's `dispatch`: callbacks, raw pairs, no stream object but for a body that flows. */
export function upstreamUndici({ connectTimeoutMs, connections }: UndiciOptions): Upstream {
  /** By origin, or with TLS by the key of the way. */
  const pools = new Map<string, Kept>()
  /** Whose way holds no more: their requests go to an end. */
  const retired = new Set<Pool>()

  function pool({ origin, tls }: Target, way: TlsWay | null): Pool {
    const key = way === null ? origin : way.key
    let found = pools.get(key)
    if (found === undefined) {
      if (pools.size >= MOST_POOLS) retire(pools.keys().next().value!)
      const made = new Pool(origin, {
        connections,
        pipelining: 1,
        // Below the 5 s at which Node servers close idle connections, so that a reused one is rarely half closed.
        keepAliveTimeout: 4_000,
        keepAliveMaxTimeout: 60_000,
        // Deadlines are the sweep's (`proxy.ts`); a stream may be silent for hours.
        headersTimeout: 0,
        bodyTimeout: 0,
        connectTimeout: connectTimeoutMs,
        ...(way === null ? {} : { connect: connector(way, connectTimeoutMs) }),
        allowH2: false,
        maxHeaderSize: 65_536
      })
      const changed = () => void (tls!.way.key !== key && retire(key))
      found = { pool: made, unhear: tls === null ? () => {} : tls.onChange(changed) }
      pools.set(key, found)
    }
    return found.pool
  }

  function retire(key: string): void {
    const { pool, unhear } = pools.get(key)!
    pools.delete(key)
    unhear()
    retired.add(pool)
    // Another end may have come meanwhile.
    const gone = () => void retired.delete(pool)
    pool.close().then(gone, gone)
  }

  return {
    send(request, listener) {
      const flight = new UndiciFlight(listener)
      const { target, body } = request
      const way = target.tls === null ? null : target.tls.way
      if (way !== null && way.fault !== null) {
        flight.faultSoon(new UpstreamFault('tls', 'unsent', way.fault))
        return flight
      }
      const pairs = request.pairs
      const flows = body !== null && !Buffer.isBuffer(body)
      if (flows && body.length >= 0) pairs.push('content-length', String(body.length))
      pool(target, way).dispatch(
        {
          method: request.method as Dispatcher.HttpMethod,
          path: request.path,
          headers: request.trailers ? [...pairs, 'TE', 'trailers'] : pairs,
          body: flows ? new BodyStream(body) : body,
          // HEAD closes its connection and holds up others unless told that it may not.
          blocking: false
        },
        flight
      )
      return flight
    },
    async close() {
      for (const { unhear } of pools.values()) unhear()
      const all = [...[...pools.values()].map(({ pool }) => pool), ...retired]
      pools.clear()
      await Promise.all(all.map(each => each.destroy()))
    }
  }
}

interface Kept {
  readonly pool: Pool
  readonly unhear: () => void
}

/** What undici makes TLS connections with: ours, so that a connection is looked at before it is used. */
function connector(way: TlsWay, timeoutMs: number): buildConnector.connector {
  return ({ hostname, port }, done) => {
    const host = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
    let late = false
    const socket = handshake(way, { host, port: Number(port) || 443 }, ['http/1.1'], (fault, socket) => {
      clearTimeout(timer)
      if (fault === null) done(null, socket)
      else if (!late) done(fault, null)
    })
    const timer = setTimeout(() => {
      late = true
      done(new errors.ConnectTimeoutError('not connected in time'), null)
      socket.destroy()
    }, timeoutMs)
  }
}

class UndiciFlight implements Dispatcher.DispatchHandler, Flight {
  private readonly listener: UpstreamListener
  private controller: Dispatcher.DispatchController | null = null
  private done = false
  private sent = false
  private headed = false

  constructor(listener: UpstreamListener) {
    this.listener = listener
  }

  abort(): void {
    if (this.done) return
    this.done = true
    this.controller?.abort(new Error('aborted'))
  }

  resume(): void {
    this.controller?.resume()
  }

  /** Was not sent. Its listener hears of it after the caller of `send` has the flight in hand. */
  faultSoon(fault: UpstreamFault): void {
    process.nextTick(() => {
      if (this.done) return
      this.done = true
      this.listener.fault(fault)
    })
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller
    this.sent = true
    if (this.done) controller.abort(new Error('aborted'))
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, _headers: unknown, reason?: string): void {
    if (this.done) return
    const pairs = strings(controller.rawHeaders as Buffer[])
    if (status < 200) return this.listener.information(status, pairs)
    this.headed = true
    // Undici reads it as UTF-8, so bytes of another coding are lost.
    // Head and first bytes of a body are told in one turn when they came together.
    process.nextTick(pause, this)
    this.listener.head(status, (reason ?? '').replace(/[^\t\x20-\x7e\x80-\xff]/g, '?'), pairs)
  }

  pause(): void {
    if (!this.done) this.listener.pause()
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.done && !this.listener.data(chunk)) controller.pause()
  }

  onResponseEnd(controller: Dispatcher.DispatchController): void {
    if (this.done) return
    this.done = true
    const raw = controller.rawTrailers as Buffer[] | null
    this.listener.end(raw === null || raw.length === 0 ? null : strings(raw))
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.done) return
    this.done = true
    if (error instanceof UpstreamFault) return this.listener.fault(error)
    const code = faultCode(error)
    // A connection on which nothing has come was no reused one.
    const fresh = error instanceof errors.SocketError && error.socket?.bytesRead === 0
    const retry = this.headed ? 'no' : !this.sent ? 'unsent' : code === 'reset' && !fresh ? 'unanswered' : 'no'
    this.listener.fault(new UpstreamFault(code, retry, error))
  }
}

function pause(flight: UndiciFlight): void {
  flight.pause()
}

function strings(raw: readonly (Buffer | string)[]): string[] {
  const pairs = new Array<string>(raw.length)
  for (let i = 0; i < raw.length; i++) {
    const part = raw[i]!
    pairs[i] = typeof part === 'string' ? part : part.toString('latin1')
  }
  return pairs
}

/** What an error of Node or undici on the way to an answer stands for. */
export function faultCode(error: Error & { code?: string; syscall?: string }): FaultCode {
  if (error instanceof UpstreamFault) return error.code
  if (error instanceof errors.ConnectTimeoutError) return 'connect_timeout'
  if (error instanceof AggregateError && error.errors.length > 0) return faultCode(error.errors[0])
  const code = error.code ?? ''
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return 'lookup'
  if (code === 'ETIMEDOUT' && error.syscall === 'connect') return 'connect_timeout'
  if (code === 'ECONNREFUSED' || error.syscall === 'connect') return 'connect'
  if (
    code.startsWith('ERR_TLS') ||
    code.startsWith('ERR_SSL') ||
    code.includes('CERT') ||
    code === 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' ||
    code === 'EPROTO'
  )
    return 'tls'
  if (
    code.startsWith('HPE_') ||
    error instanceof errors.HTTPParserError ||
    error instanceof errors.HeadersOverflowError ||
    code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH'
  )
    return 'garbage'
  return 'reset'
}

/** A body that flows as the stream that undici wants; made and read by undici alone. */
class BodyStream extends Readable {
  private readonly source: RequestBody
  private begun = false

  constructor(source: RequestBody) {
    super({ highWaterMark: 65_536 })
    this.source = source
  }

  override _read(): void {
    if (this.begun) return this.source.resume()
    this.begun = true
    this.source.start({ chunk: data => this.push(data), end: () => this.push(null) })
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (this.begun) this.source.stop()
    done(error)
  }
}
