import type { ClientRequest, IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import httpProxy from 'http-proxy'
import type { Exchange, Waiter } from '../exchange.ts'
import { refusals } from '../refusals.ts'
import { requestPairs, responsePairs } from './headers.ts'
import { causes, FAULTS, logFault, type Plan, type ProxyTools } from './plan.ts'
import { CarrierAgent } from './tls/carrierAgent.ts'
import { type Target, UpstreamFault } from './upstream.ts'
import { faultCode } from './upstreamUndici.ts'

const proxies = httpProxy.createProxyServer({})
// Of http-proxy's passes only the one that carries remains: the door is ours (any protocol, not websocket alone), and
// so are the forwarded headers.
const carrier = proxies as unknown as { wsPasses: { name: string }[] }
carrier.wsPasses = carrier.wsPasses.filter(pass => pass.name === 'stream')

/** The exchange of each upgrade under way, by the stand-in request that http-proxy was given. */
const crossings = new WeakMap<object, Crossing>()

proxies.on('proxyReqWs', (request, standIn) => crossings.get(standIn)?.sent(request))

/** Carries an upgrade (RFC 9110 §7.8) to the upstream; from `101` on bytes flow both ways untouched. */
export function upgrade(x: Exchange, plan: Plan, requestId: string, tools: ProxyTools): void {
  const target = plan.targets.pick()
  if (target === null) return tools.endings.refuse(x, refusals.hostsDown)
  const host = plan.preserveHost ? (x.header('host') ?? target.authority) : target.authority
  const pairs = requestPairs(x, host, requestId)
  if (plan.edit !== null) plan.edit(x, pairs)
  pairs.push('Connection', 'Upgrade', 'Upgrade', x.header('upgrade')!)
  const standIn = { method: x.method, url: plan.path(x, target) + x.query, headers: {} } as unknown as IncomingMessage
  const crossing = new Crossing(x, plan, target, requestId, pairs, tools)
  x.sentAt = tools.clock.now()
  crossings.set(standIn, crossing)
  x.res.waiter = crossing
  const hostname = target.hostname.startsWith('[') ? target.hostname.slice(1, -1) : target.hostname
  proxies.ws(
    standIn,
    x.upgrade!.socket,
    x.upgrade!.first,
    {
      target: {
        protocol: target.tls !== null ? 'https:' : 'http:',
        host: hostname,
        hostname: hostname,
        port: target.port
      } as never,
      // The base of the request's options.
      ssl: { maxHeaderSize: 65_536 },
      ...(crossing.agent === null ? {} : { agent: crossing.agent }),
      prependPath: false,
      toProxy: true
    } as never,
    error => crossing.failed(error)
  )
  crossing.listen()
}

/** How long the other side may still send once one has ended; then both are closed. */
const HALF_OPEN_MS = 10_000

class Crossing implements Waiter {
  /** Answered or carried: nothing more is to be said on the client's side. */
  private over = false
  private unsent = true
  private readonly x: Exchange
  private readonly plan: Plan
  private readonly target: Target
  private readonly requestId: string
  private readonly pairs: readonly string[]
  private readonly tools: ProxyTools
  private readonly near: Duplex
  private request: ClientRequest | null = null
  private far: Duplex | null = null
  /** Makes the connection over TLS. */
  readonly agent: CarrierAgent | null
  private cancel: () => void

  constructor(x: Exchange, plan: Plan, target: Target, requestId: string, pairs: readonly string[], tools: ProxyTools) {
    this.x = x
    this.plan = plan
    this.target = target
    this.requestId = requestId
    this.pairs = pairs
    this.tools = tools
    this.near = x.upgrade!.socket
    this.agent = target.tls === null ? null : new CarrierAgent(target.tls.way)
    this.cancel = tools.clock.after(plan.timeoutMs(x), () => this.late())
    // Only a socket that is read tells that its client has left. What comes early waits in its buffer, up to its mark.
    this.near.on('readable', notice)
    this.near.once('end', () => this.nearEnded())
  }

  /** http-proxy has made the request, with headers in an order and a spelling of its own; they are put right here. */
  sent(request: ClientRequest): void {
    this.request = request
    for (const name of request.getHeaderNames()) request.removeHeader(name)
    for (const [name, value] of Object.entries(grouped(this.pairs))) request.setHeader(name, value)
    request.on('socket', socket => {
      // Over TLS it is given when it is ready.
      if (this.agent !== null) this.unsent = false
      else
        socket.once('connect', () => {
          this.unsent = false
        })
    })
    request.on('information', ({ statusCode, rawHeaders }) => this.information(statusCode, rawHeaders))
    // Before http-proxy's own listener, which writes the head.
    request.on('upgrade', (answer: IncomingMessage, far: Duplex) => this.switched(answer, far))
  }

  /** Takes ordinary answers from http-proxy, which would write their heads with a framing that is not kept. */
  listen(): void {
    this.request!.removeAllListeners('response')
    this.request!.on('response', (answer: IncomingMessage) => this.declined(answer))
  }

  private information(status: number, raw: string[]): void {
    if (this.over || status === 100 || status === 101) return
    try {
      this.x.res.writeInformation(status, responsePairs(this.x, status, raw))
    } catch {
      // What cannot be passed on is only a hint.
    }
  }

  private switched(answer: IncomingMessage, far: Duplex): void {
    this.cancel()
    if (this.over) return void far.destroy()
    this.over = true
    this.far = far
    const { x, near } = this
    near.off('readable', notice)
    x.upstreamMs = this.tools.clock.now() - x.sentAt
    x.res.statusCode = 101
    const pairs = responsePairs(x, 101, answer.rawHeaders)
    for (const head of x.route.heads) head(x, 101, pairs)
    answer.headers = grouped([...pairs, 'Connection', 'Upgrade', 'Upgrade', answer.headers.upgrade ?? ''])
    far.on('error', () => near.destroy())
    far.once('end', () => this.halfOpen())
    far.once('close', () => {
      // What it sent last is still on its way to the client.
      if (!near.writableFinished) near.end(() => near.destroy())
      else near.destroy()
    })
  }

  private nearEnded(): void {
    if (this.far === null) this.near.destroy()
    else this.halfOpen()
  }

  /** One side has ended; the carrier ends the other one. */
  private halfOpen(): void {
    this.cancel()
    this.cancel = this.tools.clock.after(HALF_OPEN_MS, () => {
      this.far?.destroy()
      this.near.destroy()
    })
  }

  /** The upstream answers without upgrading: an ordinary answer, through the ordinary way. */
  private declined(answer: IncomingMessage): void {
    this.cancel()
    const { x } = this
    if (this.over) return void answer.destroy()
    this.over = true
    this.near.off('readable', notice)
    this.near.resume()
    x.upstreamMs = this.tools.clock.now() - x.sentAt
    const status = answer.statusCode ?? 502
    const pairs = responsePairs(x, status, answer.rawHeaders)
    for (const head of x.route.heads) head(x, status, pairs)
    x.res.sendDate = false
    x.res.shouldKeepAlive = false
    answer.once('error', () => x.res.cutOff())
    try {
      x.res.writeHead(status, answer.statusMessage ?? '', pairs)
    } catch {
      answer.destroy()
      return this.tools.endings.refuse(x, refusals.upstreamGarbage)
    }
    answer.on('data', (chunk: Buffer) => {
      x.bytes += chunk.length
    })
    answer.pipe(x.res)
  }

  failed(error: Error): void {
    if (this.over) return
    const { x, tools, target } = this
    const code = faultCode(error)
    if (this.unsent) this.plan.targets.down(target)
    const cause = error instanceof UpstreamFault ? error.cause : error
    logFault(x, tools, target, this.requestId, { code, cause: causes(cause) })
    this.end()
    tools.endings.refuse(x, FAULTS[code])
  }

  private late(): void {
    if (this.over) return
    const { x, tools } = this
    logFault(x, tools, this.target, this.requestId, { code: 'timeout', cause: 'no answer in time' })
    this.end()
    this.request?.destroy()
    this.agent?.abandon()
    tools.endings.refuse(x, refusals.upstreamTimeout)
  }

  private end(): void {
    this.cancel()
    this.over = true
    this.near.off('readable', notice)
  }

  /** The client's side is gone: the far side must not outlive it. */
  closed(): void {
    this.end()
    this.request?.destroy()
    this.agent?.abandon()
    this.far?.destroy()
  }
}

/** Reads on to the end of what came when nothing waits: the end is told only then. */
function notice(this: Duplex): void {
  if (this.readableLength === 0) this.read(0)
}

/** Raw pairs as an object that keeps each name's first spelling and every value. */
function grouped(pairs: readonly string[]): Record<string, string | string[]> {
  const names = new Map<string, string>()
  const headers: Record<string, string | string[]> = Object.create(null)
  for (let i = 0; i < pairs.length; i += 2) {
    const lower = pairs[i]!.toLowerCase()
    const name = names.get(lower) ?? pairs[i]!
    names.set(lower, name)
    const known = headers[name]
    headers[name] = known === undefined ? pairs[i + 1]! : [known, pairs[i + 1]!].flat()
  }
  return headers
}
