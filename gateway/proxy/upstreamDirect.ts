import { type Clock, systemClock } from '../../config/world.ts'
import { DirectFlight } from './direct/flight.ts'
import { Pool, SWEEP_MS } from './direct/pool.ts'
import { requestHead } from './direct/requestHead.ts'
import { type Target, type Upstream, UpstreamFault } from './upstream.ts'

export interface DirectOptions {
  /** Name look-up and TLS handshake included. */
  readonly connectTimeoutMs: number
  /** Connections an origin at most; requests beyond wait in turn. */
  readonly connections: number
}

/** Upstreams over `node:net` and `node:tls`: one parser a connection, no stream, promise or timer a request. */
export function upstreamDirect({ connectTimeoutMs, connections }: DirectOptions, clock: Clock = systemClock): Upstream {
  const pools = new Map<string, Pool>()
  let cancel: (() => void) | null = null
  let closed = false

  function pool(target: Target): Pool {
    let found = pools.get(target.origin)
    if (found === undefined) {
      found = new Pool(target, { connectTimeoutMs, connections, clock })
      pools.set(target.origin, found)
      cancel ??= clock.after(SWEEP_MS, sweep)
    }
    return found
  }

  function sweep(): void {
    for (const each of pools.values()) {
      each.sweep()
      if (each.unused) pools.delete(each.target.origin)
    }
    cancel = pools.size === 0 ? null : clock.after(SWEEP_MS, sweep)
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
      if (refused === null) pool(request.target).send(flight)
      else flight.faultSoon(new UpstreamFault(closed ? 'connect' : 'garbage', 'no', refused))
      return flight
    },
    async close() {
      closed = true
      cancel?.()
      for (const each of pools.values()) each.close()
      pools.clear()
    }
  }
}
