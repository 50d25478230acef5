import type { GatewaySettings } from '../../config/settings.ts'
import type { Clock, Log } from '../../config/world.ts'
import type { Exchange } from '../exchange.ts'
import type { Endings } from '../pipeline.ts'
import { type Refusal, refusals } from '../refusals.ts'
import type { Targets } from './targets.ts'
import type { FaultCode, Target, Upstream } from './upstream.ts'

/** What the proxy step of one API has settled at load. */
export interface Plan {
  readonly targets: Targets
  /** Set: answered by the built-in upstream `svc://echo`, and this is its target. */
  readonly echo: Target | null
  readonly preserveHost: boolean
  /** The path that goes up, without the query. */
  path(x: Exchange, target: Target): string
  /** Longest wait for the head of the answer. */
  timeoutMs(x: Exchange): number
  /** Edits the pairs of the upstream request in place; null: nothing to edit. */
  readonly edit: ((x: Exchange, pairs: string[]) => void) | null
}

export interface ProxyTools {
  readonly settings: GatewaySettings
  readonly upstream: Upstream
  readonly endings: Endings
  readonly clock: Clock
  readonly log: Log
}

/** What a client is told of each. */
export const FAULTS: Record<FaultCode, Refusal> = {
  connect: refusals.upstreamConnect,
  lookup: refusals.upstreamLookup,
  tls: refusals.upstreamTls,
  connect_timeout: refusals.upstreamConnectTimeout,
  reset: refusals.upstreamReset,
  garbage: refusals.upstreamGarbage
}

/** The one line of the log about a request that failed at its upstream. */
export function logFault(
  x: Exchange,
  { log }: ProxyTools,
  target: Target,
  requestId: string,
  more: { code: string; cause: string; tries?: number }
): void {
  log.warn('upstream failed', { api_id: x.route.api.id, upstream: target.origin, request_id: requestId, ...more })
}

/** The messages of an error and what caused it, without their stacks. */
export function causes(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause)
  const code =
    'code' in cause && typeof cause.code === 'string' && !cause.message.includes(cause.code) ? ` (${cause.code})` : ''
  return cause.cause === undefined ? cause.message + code : `${cause.message}${code}: ${causes(cause.cause)}`
}
