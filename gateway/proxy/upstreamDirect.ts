import { type Clock, systemClock } from '../../config/world.ts'
import { DirectFlight } from './direct/flight.ts'
import { Pool, SWEEP_MS } from './direct/pool.ts'
import { requestHead } from './direct/requestHead.ts'
import { type Upstream, UpstreamFault } from './upstream.ts'

export interface DirectOptions {
  /** Name look-up and TLS handshake included. */
  readonly connectTimeoutMs: number
  /** Connections an origin at most; requests beyond wait in turn. */
  readonly connections: number
}

/** Upstreams over `node:net` and `node:tls`: one parser a connection, no stream, promise or timer a request. */
export function upstreamDirect({ connectTimeoutMs, connections }: DirectOptions, clock: Clock = systemClock): Upstream {
  /** By origin, or with TLS by the key of the way. */
  const pools = new Map<string, Pool>()
  /** Whose way holds no more, and that still have connections. */
  const retired = new Set<Pool>()
  const unhear = new Map<Pool, () => void>()
  let cancel: (() => void) | null = null
  let closed = false

  function dispatch(flight: DirectFlight): void {
    const { target } = flight.request
    const { tls } = target
    const way = tls === null ? null : tls.way
    if (way !== null && way.fault !== null) return flight.faultSoon(new UpstreamFault('tls', 'unsent', way.fault))
    const key = way === null ? target.origin : way.key
    let found = pools.get(key)
    if (found === undefined) {
      const made = new Pool(target, way, { connectTimeoutMs, connections, clock })
      found = made
      pools.set(key, made)
      if (tls !== null)
        unhear.set(
          made,
          tls.onChange(() => changed(key, made))
        )
      cancel ??= clock.after(SWEEP_MS, sweep)
    }
    found.send(flight)
  }

  /** Some certificate is another one: what was connected with the old one serves no new request. */
  function changed(key: string, pool: Pool): void {
    if (closed || pool.target.tls!.way.key === key) return
    drop(key, pool)
    retired.add(pool)
    for (const flight of pool.retire()) dispatch(flight)
  }

  function drop(key: string, pool: Pool): void {
    pools.delete(key)
    unhear.get(pool)?.()
    unhear.delete(pool)
  }

  function sweep(): void {
    for (const [key, each] of pools) {
      each.sweep()
      if (each.unused) drop(key, each)
    }
    for (const each of retired) if (each.unused) retired.delete(each)
    cancel = pools.size + retired.size === 0 ? null : clock.after(SWEEP_MS, sweep)
  }

  return {
    send(request, listener) {
      let head = ''
      let refused: unknown = closed ? new Error('the gateway closes its upstream connections') : null
      try {
        head = requestHead(request)
      } catch (error) {
        refused ??= error
      }
      const flight = new DirectFlight(request, listener, head)
      if (refused === null) dispatch(flight)
      else flight.faultSoon(new UpstreamFault(closed ? 'connect' : 'garbage', 'no', refused))
      return flight
    },
    async close() {
      closed = true
      cancel?.()
      for (const each of [...pools.values(), ...retired]) each.close()
      for (const [key, each] of pools) drop(key, each)
      retired.clear()
    }
  }
}
