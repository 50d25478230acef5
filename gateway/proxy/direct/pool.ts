import type { Clock } from '../../../config/world.ts'
import { type Target, UpstreamFault } from '../upstream.ts'
import { Connection, type Owner } from './connection.ts'
import type { DirectFlight, Holder } from './flight.ts'

/** How often idle connections are looked at. */
export const SWEEP_MS = 500
/** Idle connections close in time for servers that close theirs after 5 s, as Node's do. */
const IDLE_SWEEPS = 4_000 / SWEEP_MS
/** Most requests that wait for a connection to one origin; more are refused at once. */
export const MOST_WAITING = 10_000

export interface PoolOptions {
  readonly connectTimeoutMs: number
  /** Connections an origin at most; requests beyond wait in turn. */
  readonly connections: number
  readonly clock: Clock
}

/** The connections to one origin, and the requests that wait for one. */
export class Pool implements Owner, Holder {
  readonly target: Target
  readonly connectTimeoutMs: number
  readonly clock: Clock
  session: Buffer | undefined = undefined
  private readonly most: number
  private readonly open = new Set<Connection>()
  /** The last one used is the next one taken: it is the least likely to have been closed. */
  private readonly idle: Connection[] = []
  private connecting = 0
  private firstWaiting: DirectFlight | null = null
  private lastWaiting: DirectFlight | null = null
  private waiting = 0
  private sweeps = 0
  private closed = false

  constructor(target: Target, { connectTimeoutMs, connections, clock }: PoolOptions) {
    this.target = target
    this.connectTimeoutMs = connectTimeoutMs
    this.most = connections
    this.clock = clock
  }

  send(flight: DirectFlight): void {
    const connection = this.idle.pop()
    if (connection !== undefined) return connection.take(flight)
    if (this.waiting >= MOST_WAITING) return faultSoon(flight, new UpstreamFault('connect', 'no', new Error('too many requests wait for a connection')))
    this.enqueue(flight)
    this.connect()
  }

  ready(connection: Connection): void {
    if (!this.open.has(connection)) return
    if (this.connectingHas(connection)) this.connecting--
    const flight = this.firstWaiting
    if (flight === null) {
      connection.idleUntil = this.sweeps + Math.min(IDLE_SWEEPS, ((connection.keepsFor - 1) * 1_000) / SWEEP_MS)
      this.idle.push(connection)
    } else {
      this.dequeue(flight)
      connection.take(flight)
    }
  }
}
