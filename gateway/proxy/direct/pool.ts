import type { Clock } from '../../../config/world.ts'
import type { TlsWay } from '../tls/way.ts'
import { type Target, UpstreamFault } from '../upstream.ts'
import { Connection, type Owner } from './connection.ts'
import type { DirectFlight, Holder } from './flight.ts'

/** How often idle connections are looked at. */
export const SWEEP_MS = 500
/** Idle connections close before servers that close theirs after 5 s, as Node's do. */
const IDLE_SWEEPS = 4_000 / SWEEP_MS
const SWEEPS_A_SECOND = 1_000 / SWEEP_MS
/** Most requests that wait for a connection to one origin; more are refused at once. */
export const MOST_WAITING = 10_000

export interface PoolOptions {
  readonly connectTimeoutMs: number
  /** Connections an origin at most; requests beyond wait in turn. */
  readonly connections: number
  readonly clock: Clock
}

/** The connections to one origin in one way, and the requests that wait for one. */
export class Pool implements Owner, Holder {
  readonly target: Target
  readonly way: TlsWay | null
  readonly connectTimeoutMs: number
  readonly clock: Clock
  private readonly most: number
  private readonly open = new Set<Connection>()
  /** The last one used is the next one taken: it is the least likely to have been closed. */
  private readonly idle: Connection[] = []
  private connecting = 0
  private firstWaiting: DirectFlight | null = null
  private lastWaiting: DirectFlight | null = null
  private waiting = 0
  /** Requests that take nothing but a new connection. */
  private readonly fresh: DirectFlight[] = []
  private sweeps = 0
  private closed = false
  private retired = false

  constructor(target: Target, way: TlsWay | null, { connectTimeoutMs, connections, clock }: PoolOptions) {
    this.target = target
    this.way = way
    this.connectTimeoutMs = connectTimeoutMs
    this.most = connections
    this.clock = clock
  }

  send(flight: DirectFlight): void {
    if (flight.request.fresh && this.open.size < this.most) {
      flight.holder = this
      this.fresh.push(flight)
      return this.connect()
    }
    const connection = this.idle.pop()
    if (connection !== undefined) return connection.take(flight)
    if (this.waiting >= MOST_WAITING) {
      return flight.faultSoon(new UpstreamFault('connect', 'no', new Error('too many requests wait for a connection')))
    }
    this.enqueue(flight)
    this.connect()
  }

  connected(connection: Connection): void {
    this.connecting--
    const flight = this.fresh.shift()
    if (flight === undefined) this.ready(connection)
    else connection.take(flight)
  }

  ready(connection: Connection): void {
    const flight = this.firstWaiting
    if (flight === null && this.retired) connection.destroy()
    else if (flight === null) {
      connection.idleUntil = this.sweeps + Math.min(IDLE_SWEEPS, (connection.keepsFor - 1) * SWEEPS_A_SECOND)
      this.idle.push(connection)
    } else {
      this.dequeue(flight)
      connection.take(flight)
    }
  }

  failed(connection: Connection, fault: UpstreamFault): void {
    this.open.delete(connection)
    this.connecting--
    const flight = this.fresh[0] ?? this.firstWaiting
    if (flight !== null) this.abandon(flight)
    this.connect()
    flight?.listener.fault(fault)
  }

  gone(connection: Connection, stale: boolean): void {
    this.open.delete(connection)
    const at = this.idle.indexOf(connection)
    if (at >= 0) this.idle.splice(at, 1)
    // All others have been idle for longer.
    if (stale) for (const each of this.idle.splice(0)) each.destroy()
    this.connect()
  }

  abandon(flight: DirectFlight): void {
    const at = this.fresh.indexOf(flight)
    if (at < 0) return this.dequeue(flight)
    this.fresh.splice(at, 1)
    flight.holder = null
  }

  resume(): void {}

  /** Closes what has been idle for long enough. */
  sweep(): void {
    this.sweeps++
    for (const each of this.idle.filter(({ idleUntil }) => idleUntil <= this.sweeps)) each.destroy()
  }

  /** No request comes any more: idle connections close, busy ones when their answers end. Gives back who waits. */
  retire(): DirectFlight[] {
    this.retired = true
    for (const each of this.idle.splice(0)) each.destroy()
    const waiting = this.fresh.splice(0)
    for (let flight = this.firstWaiting; flight !== null; flight = this.firstWaiting) {
      this.dequeue(flight)
      waiting.push(flight)
    }
    return waiting
  }

  /** Has neither connections nor requests. */
  get unused(): boolean {
    return this.open.size === 0 && this.waiting + this.fresh.length === 0
  }

  close(): void {
    this.closed = true
    const cause = new Error('the gateway closes its upstream connections')
    for (let flight = this.firstWaiting; flight !== null; flight = this.firstWaiting) {
      this.dequeue(flight)
      flight.listener.fault(new UpstreamFault('connect', 'no', cause))
    }
    for (const flight of this.fresh.splice(0)) {
      flight.holder = null
      flight.listener.fault(new UpstreamFault('connect', 'no', cause))
    }
    for (const each of [...this.open]) each.fail('reset', cause)
  }

  /** As many as requests wait, up to the bound; whichever is ready first takes the request that waits longest. */
  private connect(): void {
    while (!this.closed && this.connecting < this.waiting + this.fresh.length && this.open.size < this.most) {
      this.connecting++
      this.open.add(new Connection(this))
    }
  }

  private enqueue(flight: DirectFlight): void {
    flight.holder = this
    flight.previous = this.lastWaiting
    if (this.lastWaiting === null) this.firstWaiting = flight
    else this.lastWaiting.next = flight
    this.lastWaiting = flight
    this.waiting++
  }

  private dequeue(flight: DirectFlight): void {
    const { next, previous } = flight
    if (previous === null) this.firstWaiting = next
    else previous.next = next
    if (next === null) this.lastWaiting = previous
    else next.previous = previous
    flight.next = null
    flight.previous = null
    flight.holder = null
    this.waiting--
  }
}
