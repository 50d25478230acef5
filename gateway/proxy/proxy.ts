import { randomUUID } from 'node:crypto'
import type { Exchange, Reply, Waiter } from '../exchange.ts'
import { type Refusal, refusals } from '../refusals.ts'
import { bodyAgain, RequestBody } from './body.ts'
import { echo } from './echo.ts'
import { requestPairs, responsePairs, trailerPairs } from './headers.ts'
import { causes, FAULTS, logFault, type Plan, type ProxyTools } from './plan.ts'
import { upgrade } from './upgrade.ts'
import { type Flight, type Target, UpstreamFault, type UpstreamListener } from './upstream.ts'
import { upstreamHttp2 } from './upstreamHttp2.ts'

export type { Plan } from './plan.ts'

/** A body of a known length up to this many bytes is held whole: cheaper, and it can be sent again. */
export const HELD_BYTES = 65_536
/** A body that brings less than this a second, over a whole `read_timeout`, is cut off. */
export const LEAST_BYTES_PER_SECOND = 240
/** A body that came whole with its head, up to this many bytes, leaves in one piece with it. */
const WHOLE_BYTES = 8_192
/** HTTP/2 connections to one origin, of a hundred requests at a time. */
const MOST_CONNECTIONS = 1_000
/** How often deadlines are looked at: the precision of time-outs. */
const SWEEP_MS = 50

export interface Forwarder {
  /** Hands the exchange over: from here on its answer is the proxy's to give. */
  forward(x: Exchange, plan: Plan): void
  close(): Promise<void>
}

const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'])

export function proxy(given: ProxyTools): Forwarder {
  const { settings, clock } = given
  const reach = { connectTimeoutMs: settings.proxy_connect_timeout * 1000, connections: MOST_CONNECTIONS }
  const upstream = upstreamHttp2(given.upstream, reach, clock)
  const tools = { ...given, upstream }
  const options = settings.http_server_options
  const bounds: Bounds = {
    mostBytes: options.max_request_body_size > 0 ? options.max_request_body_size : Number.POSITIVE_INFINITY,
    readMs: options.read_timeout > 0 ? options.read_timeout * 1000 : Number.POSITIVE_INFINITY,
    writeMs: options.write_timeout > 0 ? options.write_timeout * 1000 : Number.POSITIVE_INFINITY
  }
  const underWay = new UnderWay()
  let cancel: () => void = () => {}
  const sweep = () => {
    const now = clock.now()
    for (let each = underWay.first; each !== null; ) {
      const following: Forward | null = each.next
      each.sweep(now)
      each = following
    }
    cancel = clock.after(SWEEP_MS, sweep)
  }
  cancel = clock.after(SWEEP_MS, sweep)

  return {
    forward(x, plan) {
      const requestId = requestIdOf(x)
      if (plan.echo !== null) return echo(x, plan, requestId, tools, bounds.mostBytes)
      if (x.upgrade !== null) return upgrade(x, plan, requestId, tools)
      new Forward(x, plan, requestId, tools, bounds, underWay).begin()
    },
    async close() {
      cancel()
      await upstream.close()
    }
  }
}

interface Bounds {
  readonly mostBytes: number
  readonly readMs: number
  readonly writeMs: number
}

/** The client's own id where it is fit to be logged, else a new one. */
function requestIdOf(x: Exchange): string {
  const given = x.header('x-request-id')
  return given !== null && /^[\w.:=+/@-]{1,128}$/.test(given) ? given : randomUUID()
}

/** The forwards under way, in a list through themselves: joining and leaving cost a few assignments. */
class UnderWay {
  first: Forward | null = null

  join(forward: Forward): void {
    forward.next = this.first
    if (this.first !== null) this.first.previous = forward
    this.first = forward
  }

  leave(forward: Forward): void {
    if (forward.previous !== null) forward.previous.next = forward.next
    else if (this.first === forward) this.first = forward.next
    if (forward.next !== null) forward.next.previous = forward.previous
    forward.next = null
    forward.previous = null
  }
}

/** One request on its way to an upstream and its answer on the way back. */
class Forward implements UpstreamListener, Waiter {
  next: Forward | null = null
  previous: Forward | null = null
  private readonly x: Exchange
  private readonly plan: Plan
  private readonly tools: ProxyTools
  private readonly bounds: Bounds
  private readonly underWay: UnderWay
  private body: Buffer | RequestBody | null = null
  private target: Target | null = null
  private flight: Flight | null = null
  private tries = 0
  private readonly requestId: string
  /** When the head of the answer must be there. */
  private headBy = Number.POSITIVE_INFINITY
  /** The body's window: when it ends, and how many bytes had come when it began. */
  private bodyBy = Number.POSITIVE_INFINITY
  private bodyFrom = 0
  /** Since when the client takes nothing of the answer; 0: it does. */
  private fullSince = 0
  private headed = false
  /** The first bytes of the answer's body, until it is known whether they are all. */
  private first: Buffer | null = null
  /** The head has left by itself: what comes now would wait for nothing. */
  private flushed = false
  private ended = false

  constructor(x: Exchange, plan: Plan, requestId: string, tools: ProxyTools, bounds: Bounds, underWay: UnderWay) {
    this.x = x
    this.plan = plan
    this.requestId = requestId
    this.tools = tools
    this.bounds = bounds
    this.underWay = underWay
  }

  begin(): void {
    const { x, bounds } = this
    x.res.waiter = this
    this.underWay.join(this)
    if (x.body !== null) this.body = bodyAgain(x.body, x)
    if (x.body !== null || x.bodyLength === 0) return this.send()
    if (x.bodyLength > bounds.mostBytes) return this.refuse(refusals.bodyTooLarge)
    const expects = x.expects
    const body = new RequestBody(x.req, x.res, x.bodyLength, expects, bounds.mostBytes, () =>
      this.refuse(refusals.bodyTooLarge)
    )
    this.body = body
    this.bodyBy = x.at + bounds.readMs
    // What came with the head is parsed first (ticks run between its parts): a body that begins with nonsense reaches
    // nobody.
    if (x.bodyLength < 0) return void setImmediate(sendSoon, this)
    // `100 Continue` waits until the upstream is there to take the body.
    if (x.bodyLength > HELD_BYTES || expects) return this.send()
    const chunks: Buffer[] = []
    body.start({
      chunk: data => chunks.push(data) > 0,
      end: () => {
        if (this.ended) return
        this.body = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
        this.bodyBy = Number.POSITIVE_INFINITY
        this.send()
      }
    })
  }

  /** Unless the request has ended meanwhile. */
  sendSoon(): void {
    if (!this.ended) this.send()
  }

  private send(target: Target | null = this.plan.targets.pick(), fresh: 'fresh' | 'any' = 'any'): void {
    const { x, plan, tools } = this
    if (target === null) return this.refuse(refusals.hostsDown)
    this.target = target
    this.tries++
    const host = plan.preserveHost ? (x.header('host') ?? target.authority) : target.authority
    const te = x.header('te')
    const pairs = requestPairs(x, host, this.requestId)
    if (plan.edit !== null) plan.edit(x, pairs)
    x.sentAt = tools.clock.now()
    // Both tries together.
    if (this.tries === 1) this.headBy = x.sentAt + plan.timeoutMs(x)
    this.flight = tools.upstream.send(
      {
        target,
        method: x.method,
        path: plan.path(x, target) + x.query,
        pairs,
        body: this.body,
        trailers: te?.toLowerCase().includes('trailers') ?? false,
        fresh: fresh === 'fresh'
      },
      this
    )
  }

  information(status: number, pairs: string[]): void {
    const { res, req } = this.x
    // 100 is each hop's own; the others go on where the client's version has them.
    if (status === 100 || res.headersSent || req.httpVersionMinor === 0) return
    try {
      res.writeInformation(status, responsePairs(this.x, status, pairs))
    } catch {
      // What cannot be passed on is only a hint.
    }
  }

  head(status: number, reason: string, raw: string[]): void {
    const { x } = this
    this.headed = true
    this.headBy = Number.POSITIVE_INFINITY
    x.upstreamMs = this.tools.clock.now() - x.sentAt
    const pairs = responsePairs(x, status, raw)
    const heads = x.route.heads
    for (let i = 0; i < heads.length; i++) heads[i]!(x, status, pairs)
    const { res } = x
    res.sendDate = false
    // An answer that comes before the whole body: what is left of it is not worth reading on for.
    if (this.body !== null && !Buffer.isBuffer(this.body) && !this.body.ended) res.linger()
    try {
      res.writeHead(status, reason, pairs)
    } catch (cause) {
      return this.unfit(cause)
    }
  }

  /** Node will not write such a head: an upstream client has let through what is none. */
  private unfit(cause: unknown): void {
    this.headed = false
    this.x.res.statusMessage = ''
    this.flight?.abort()
    this.fault(new UpstreamFault('garbage', 'no', cause))
  }

  data(chunk: Buffer): boolean {
    const { x } = this
    if (x.bytes === 0 && chunk.length <= WHOLE_BYTES && !this.flushed) {
      x.bytes = chunk.length
      this.first = chunk
      return true
    }
    x.bytes += chunk.length
    if (this.first !== null) this.write(this.takeFirst())
    return this.write(chunk)
  }

  private write(chunk: Buffer): boolean {
    const { res } = this.x
    if (res.write(chunk)) return true
    if (this.fullSince === 0) {
      this.fullSince = this.tools.clock.now()
      res.once('drain', drained)
    }
    return false
  }

  private takeFirst(): Buffer {
    const first = this.first!
    this.first = null
    return first
  }

  pause(): void {
    if (this.first !== null) this.write(this.takeFirst())
    else if (this.x.bytes === 0) {
      this.flushed = true
      this.x.res.flushHeaders()
    }
  }

  /** The client takes again. */
  drained(): void {
    this.fullSince = 0
    this.flight?.resume()
  }

  end(trailers: string[] | null): void {
    const { x } = this
    const { res } = x
    this.ended = true
    const now = this.tools.clock.now()
    x.upstreamMs = now - x.sentAt
    if (trailers !== null && res.chunkedEncoding) {
      const pairs = trailerPairs(trailers)
      const each: [string, string][] = []
      for (let i = 0; i < pairs.length; i += 2) each.push([pairs[i]!, pairs[i + 1]!])
      res.addTrailers(each)
    }
    if (this.first === null) res.end()
    // With a head that has not left yet, a text goes out in one piece with it: one system call without a vector.
    else if (res.chunkedEncoding) res.end(this.takeFirst())
    else res.end(this.takeFirst().toString('latin1'), 'latin1')
    // Watched until the response has closed: a client that takes nothing of what is left would keep it for ever.
    if (this.fullSince === 0) this.fullSince = now
  }

  fault(fault: UpstreamFault): void {
    const { x, tools } = this
    if (this.ended) return
    const { code } = fault
    if (code === 'connect' || code === 'lookup' || code === 'connect_timeout' || code === 'tls')
      this.plan.targets.down(this.target!)
    const { targets } = this.plan
    // A target that is out is not asked again, so all that are left may be asked in turn.
    const goesOn = this.tries < 2 || (fault.retry === 'unsent' && targets.skips)
    if (goesOn && !x.gone && this.mayRetry(fault)) {
      const next = targets.another(this.target!)
      if (next !== null) return this.send(next, fault.retry === 'unanswered' ? 'fresh' : 'any')
    }
    logFault(x, tools, this.target!, this.requestId, { code, tries: this.tries, cause: causes(fault.cause) })
    if (!this.headed) return this.refuse(FAULTS[code])
    if (this.first !== null) this.write(this.takeFirst())
    this.leave()
    x.refusal = FAULTS[code]
    x.res.cutOff()
  }

  private mayRetry(fault: UpstreamFault): boolean {
    if (this.headed || fault.retry === 'no') return false
    const held = this.body === null || Buffer.isBuffer(this.body)
    if (fault.retry === 'unsent') return held || !(this.body as RequestBody).started
    return held && IDEMPOTENT.has(this.x.method)
  }

  /** The client left, or its answer is complete. */
  closed(): void {
    if (!this.ended) this.flight?.abort()
    this.leave()
  }

  sweep(now: number): void {
    if (now >= this.headBy) return this.timeout()
    if (now >= this.bodyBy) this.bodyWindow(now)
    if (this.fullSince !== 0 && now - this.fullSince >= this.bounds.writeMs) {
      this.closed()
      this.x.res.cutOff()
    }
  }

  private timeout(): void {
    logFault(this.x, this.tools, this.target!, this.requestId, { code: 'timeout', cause: 'no answer in time' })
    this.refuse(refusals.upstreamTimeout)
  }

  private bodyWindow(now: number): void {
    const body = this.body as RequestBody
    if (body.ended || this.headed) {
      this.bodyBy = Number.POSITIVE_INFINITY
      return
    }
    const came = body.seen - this.bodyFrom
    // While the upstream holds the body back, it is not the client that is slow.
    if (
      !body.paused &&
      (body.started || this.flight === null) &&
      came < (LEAST_BYTES_PER_SECOND * this.bounds.readMs) / 1000
    ) {
      this.x.res.linger()
      return this.refuse(refusals.bodyTimeout)
    }
    this.bodyFrom = body.seen
    this.bodyBy = now + this.bounds.readMs
  }

  private refuse(refusal: Refusal): void {
    this.leave()
    this.flight?.abort()
    this.tools.endings.refuse(this.x, refusal)
  }

  private leave(): void {
    this.ended = true
    this.underWay.leave(this)
  }
}

function sendSoon(forward: Forward): void {
  forward.sendSoon()
}

function drained(this: Reply): void {
  if (this.waiter instanceof Forward) this.waiter.drained()
}
