import { type Clock, systemClock } from '../../config/world.ts'
import { Http2Flight } from './http2/flight.ts'
import { Http2Pool } from './http2/pool.ts'
import { requestFields } from './http2/requestFields.ts'
import { type Upstream, UpstreamFault } from './upstream.ts'

export interface Http2Options {
  /** Name look-up and TLS handshake included. */
  readonly connectTimeoutMs: number
  /** Connections an origin at most. */
  readonly connections: number
}

/** How often connections are looked at. */
const SWEEP_MS = 1_000
const CLOSES = 'the gateway closes its upstream connections'

/**
 * HTTP/2 (RFC 9113) to https targets that want it and speak it; everything else goes to `http1`. A target that chooses
 * HTTP/1.1 in its handshake (ALPN, RFC 7301) is asked again after a while.
 */
export function upstreamHttp2(
  http1: Upstream,
  { connectTimeoutMs, connections }: Http2Options,
  clock: Clock = systemClock
): Upstream {
  /** By the key of the way. */
  const pools = new Map<string, Http2Pool>()
  const retired = new Set<Http2Pool>()
  const unhear = new Map<Http2Pool, () => void>()
  let cancel: (() => void) | null = null
  let closed = false

  function dispatch(flight: Http2Flight): void {
    const { target } = flight.request
    const tls = target.tls!
    const { way } = tls
    if (closed) return flight.faultSoon(new UpstreamFault('connect', 'no', new Error(CLOSES)))
    if (way.fault !== null) return flight.faultSoon(new UpstreamFault('tls', 'unsent', way.fault))
    let found = pools.get(way.key)
    if (found === undefined) {
      const made = new Http2Pool(target, way, { connectTimeoutMs, connections, clock, http1 })
      found = made
      pools.set(way.key, made)
      unhear.set(
        made,
        tls.onChange(() => changed(made))
      )
      cancel ??= clock.after(SWEEP_MS, sweep)
    }
    found.send(flight)
  }

  function changed(pool: Http2Pool): void {
    if (closed || pool.target.tls!.way.key === pool.way.key) return
    drop(pool)
    retired.add(pool)
    for (const flight of pool.retire()) dispatch(flight)
  }

  function drop(pool: Http2Pool): void {
    pools.delete(pool.way.key)
    unhear.get(pool)?.()
    unhear.delete(pool)
  }

  function sweep(): void {
    const now = clock.now()
    for (const each of pools.values()) {
      each.sweep(now)
      if (each.unused(now)) drop(each)
    }
    for (const each of retired) if (each.unused(now)) retired.delete(each)
    cancel = pools.size + retired.size === 0 ? null : clock.after(SWEEP_MS, sweep)
  }

  return {
    send(request, listener) {
      const { tls } = request.target
      if (tls === null || !tls.http2) return http1.send(request, listener)
      let fields: string[] = []
      let refused: unknown = closed ? new Error(CLOSES) : null
      try {
        fields = requestFields(request)
      } catch (error) {
        refused ??= error
      }
      const flight = new Http2Flight(request, listener, fields, dispatch)
      if (refused === null) dispatch(flight)
      else flight.faultSoon(new UpstreamFault(closed ? 'connect' : 'garbage', 'no', refused))
      return flight
    },
    async close() {
      closed = true
      cancel?.()
      for (const each of [...pools.values(), ...retired]) each.close()
      for (const each of pools.values()) drop(each)
      retired.clear()
      await http1.close()
    }
  }
}
