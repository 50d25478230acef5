import type { ClientRequest, IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import httpProxy from 'http-proxy'
import type { Exchange, Waiter } from '../exchange.ts'
import { type Refusal, refusals } from '../refusals.ts'
import { requestPairs, responsePairs } from './headers.ts'
import { causes, type Plan, type ProxyTools } from './proxy.ts'

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
  const standIn = {
    method: x.method,
    url: plan.path(x, target) + x.query,
    headers: grouped(pairs)
  } as unknown as IncomingMessage
  const crossing = new Crossing(x, plan, tools)
  x.sentAt = tools.clock.now()
  crossings.set(standIn, crossing)
  x.res.waiter = crossing
  proxies.ws(
    standIn,
    x.upgrade!.socket,
    x.upgrade!.first,
    {
      target: {
        protocol: target.secure ? 'https:' : 'http:',
        host: target.hostname,
        hostname: target.hostname,
        port: target.port
      } as never,
      prependPath: false,
      toProxy: true
    } as never,
    error => {
      if (crossing.over) return
      if (crossing.unsent) plan.targets.down(target)
      tools.log.warn('upstream failed', {
        api_id: x.route.api.id,
        upstream: target.origin,
        code: 'upgrade',
        request_id: requestId,
        cause: causes(error)
      })
      crossing.failed()
    }
  )
}

/** How long the other side may still send once one has ended; then both are closed. */
const HALF_OPEN_MS = 10_000

class Crossing implements Waiter {
  /** Answered or carried: nothing more is to be said on the client's side. */
  over = false
  unsent = true
  private readonly x: Exchange
  private readonly tools: ProxyTools
  private readonly near: Duplex
  private request: ClientRequest | null = null
  private far: Duplex | null = null
  private cancel: () => void

  constructor(x: Exchange, plan: Plan, tools: ProxyTools) {
    this.x = x
    this.tools = tools
    this.near = x.upgrade!.socket
    this.cancel = tools.clock.after(plan.timeoutMs(x), () => this.late())
    // Only a socket that is read tells that its client has left. What comes early waits in its buffer, up to its mark.
    this.near.on('readable', notice)
  }

  /** http-proxy has made the request; its own listeners come after ours. */
  sent(request: ClientRequest): void {
    this.request = request
    request.on('socket', socket =>
      socket.once(this.secure(socket) ? 'secureConnect' : 'connect', () => {
        this.unsent = false
      })
    )
    request.on('information', ({ statusCode, rawHeaders }) => this.information(statusCode, rawHeaders))
    request.on('upgrade', (answer: IncomingMessage, far: Duplex) => this.switched(answer, far))
    request.on('response', (answer: IncomingMessage) => this.declined(answer))
  }

  private secure(socket: Duplex): boolean {
    return 'encrypted' in socket
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
    near.once('end', () => this.halfOpen())
    far.once('close', () => {
      // What it sent last is still on its way to the client.
      if (!near.writableFinished) near.end(() => near.destroy())
      else near.destroy()
    })
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
    // Tells http-proxy's own listener to keep its hands off: it would write the head with a framing that is not kept.
    Object.assign(answer, { upgrade: true })
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

  failed(refusal: Refusal): void {
    this.end()
    this.tools.endings.refuse(this.x, refusal)
  }

  private late(): void {
    if (this.over) return
    this.end()
    this.request?.destroy()
    this.tools.endings.refuse(this.x, refusals.upstreamTimeout)
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
    this.far?.destroy()
  }

  drained(): void {}
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
