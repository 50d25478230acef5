import type { TLSSocket } from 'node:tls'
import type { Clock } from '../../../config/world.ts'
import { MOST_WAITING } from '../direct/pool.ts'
import { handshake } from '../tls/handshake.ts'
import type { TlsWay } from '../tls/way.ts'
import { type Target, type Upstream, UpstreamFault } from '../upstream.ts'
import type { Http2Flight, Waiting } from './flight.ts'
import { Link, type LinkOwner } from './link.ts'

/** What is offered in the handshake (RFC 7301). */
const PROTOCOLS = ['h2', 'http/1.1']
const IDLE_MS = 30_000
/** Who chose HTTP/1.1 is asked again after this time. */
const HTTP1_MS = 600_000

export interface Http2PoolGiven {
  readonly connectTimeoutMs: number
  readonly connections: number
  readonly clock: Clock
  readonly http1: Upstream
}

/** A connection that is not there yet. */
interface Connecting {
  readonly socket: TLSSocket
  /** Set behind the handshake; it is there when the upstream's settings are. */
  link: Link | null
  readonly cancel: () => void
  readonly failed: (fault: UpstreamFault) => void
}

/** The HTTP/2 connections to one origin in one way, and the requests that wait for one. */
export class Http2Pool implements LinkOwner, Waiting {
  readonly target: Target
  readonly way: TlsWay
  readonly clock: Clock
  readonly connectTimeoutMs: number
  private readonly most: number
  private readonly http1: Upstream
  private readonly links = new Set<Link>()
  /** Whose last answers are still coming. */
  private readonly leaving = new Set<Link>()
  private readonly queue = new Set<Http2Flight>()
  private connecting: Connecting | null = null
  /** Until then everything goes over HTTP/1.1. */
  private http1Until = Number.NEGATIVE_INFINITY
  private retired = false
  private closed = false

  constructor(target: Target, way: TlsWay, { connectTimeoutMs, connections, clock, http1 }: Http2PoolGiven) {
    this.target = target
    this.way = way
    this.clock = clock
    this.connectTimeoutMs = connectTimeoutMs
    this.most = connections
    this.http1 = http1
  }

  send(flight: Http2Flight): void {
    if (this.clock.now() < this.http1Until) return flight.fall(this.http1)
    if (this.queue.size === 0) {
      for (const link of this.links) if (link.room > 0) return flight.fly(link)
    } else if (this.queue.size >= MOST_WAITING) {
      return flight.faultSoon(new UpstreamFault('connect', 'no', new Error('too many requests wait for a connection')))
    }
    flight.waiting = this
    this.queue.add(flight)
    this.connect()
  }

  abandon(flight: Http2Flight): void {
    this.queue.delete(flight)
  }

  roomy(link: Link): void {
    if (this.connecting?.link === link) {
      this.connecting.cancel()
      this.connecting = null
      if (this.retired) return link.close()
      this.links.add(link)
    }
    for (const flight of this.queue) {
      if (link.room <= 0) break
      this.queue.delete(flight)
      flight.fly(link)
    }
    this.connect()
  }

  ending(link: Link): void {
    if (this.connecting?.link === link) return
    this.links.delete(link)
    this.leaving.add(link)
    this.connect()
  }

  ended(link: Link): void {
    this.leaving.delete(link)
    if (this.connecting?.link === link)
      this.connecting.failed(
        new UpstreamFault(link.codeOf(0), 'unsent', link.error ?? new Error('the upstream closed the connection'))
      )
  }

  fallsBack(): void {
    this.http1Until = this.clock.now() + HTTP1_MS
  }

  sweep(now: number): void {
    for (const link of this.links) if (link.idle && now - link.idleSince >= IDLE_MS) link.close()
  }

  unused(now: number): boolean {
    return (
      this.links.size + this.leaving.size + this.queue.size === 0 && this.connecting === null && now >= this.http1Until
    )
  }

  /** No request comes any more: connections close when their answers have ended. Gives back who waits. */
  retire(): Http2Flight[] {
    this.retired = true
    for (const link of [...this.links]) link.close()
    const waiting = [...this.queue]
    this.queue.clear()
    return waiting
  }

  close(): void {
    this.closed = true
    const cause = new Error('the gateway closes its upstream connections')
    this.connecting?.socket.destroy()
    this.ground(new UpstreamFault('connect', 'no', cause))
    for (const link of [...this.links, ...this.leaving]) link.destroy(cause)
  }

  /** One at a time: who waits may all fit on it. */
  private connect(): void {
    if (this.connecting !== null || this.queue.size === 0 || this.closed || this.links.size >= this.most) return
    const { hostname, port } = this.target
    const host = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
    const socket = handshake(this.way, { host, port }, PROTOCOLS, (fault, socket) => {
      const connecting = this.connecting
      if (connecting?.socket !== socket) return
      if (fault !== null) return failed(fault)
      if (socket.alpnProtocol === 'h2') {
        connecting.link = new Link(this, socket, this.target.origin)
        return
      }
      this.connecting = null
      cancel()
      socket.destroy()
      this.fallsBack()
      this.fall()
    })
    const failed = (fault: UpstreamFault) => {
      if (this.connecting?.socket !== socket) return
      this.connecting = null
      cancel()
      socket.destroy()
      this.failed(fault)
    }
    const cancel = this.clock.after(this.connectTimeoutMs, () =>
      failed(new UpstreamFault('connect_timeout', 'unsent', new Error('not connected in time')))
    )
    this.connecting = { socket, link: null, cancel, failed }
  }

  /** One connection that did not come to be fails one request, as with HTTP/1.1; the next one is tried for the others. */
  private failed(fault: UpstreamFault): void {
    const [first] = this.queue
    if (first !== undefined) {
      this.queue.delete(first)
      this.connect()
      first.ground(fault)
    }
  }

  private fall(): void {
    const waiting = [...this.queue]
    this.queue.clear()
    for (const flight of waiting) flight.fall(this.http1)
  }

  private ground(fault: UpstreamFault): void {
    const waiting = [...this.queue]
    this.queue.clear()
    for (const flight of waiting) flight.ground(fault)
  }
}
