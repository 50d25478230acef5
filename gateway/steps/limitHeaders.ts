import type { Charge, Standing } from '../counters/counters.ts'
import { type Exchange, type Head, headerOf } from '../exchange.ts'
import type { Tools } from './step.ts'

/** `X-RateLimit-*` in both modes (semantics §5.3), the IETF pair behind its option, and `Retry-After` on 429. */
export function limitHeaders({ settings }: Tools): Head {
  const tellsRates = settings.rate_limit_response_headers === 'rate_limits'
  const ietf = settings.rate_limit_ietf_headers
  return (x, status, pairs) => {
    if (tellsRates) rates(x, pairs)
    else if (x.refusal === null && x.upstreamMs >= 0) quotas(x, pairs)
    if (ietf) draft(x, pairs)
    // Others than limits answer 429 too, with a time of their own.
    if (status === 429 && x.verdict !== null && x.verdict.refused >= 0 && x.refusal !== null) {
      const { refused, standings, now } = x.verdict
      pairs.push('Retry-After', String(Math.max(1, secondsLeft(standings[refused]!.reset, now))))
    }
  }
}

/** Whole seconds until a limit takes again. */
function secondsLeft(reset: number, now: number): number {
  return Math.max(0, Math.ceil((reset - now) / 1000))
}

/** On answers of the upstream alone (semantics §5.3). */
function quotas(x: Exchange, pairs: string[]): void {
  const plan = x.limit
  if (plan === null) {
    // Nobody's quota: what an upstream says of its own is not contradicted.
    if (headerOf(pairs, 'x-ratelimit-limit') === null)
      pairs.push('X-RateLimit-Limit', '0', 'X-RateLimit-Remaining', '0', 'X-RateLimit-Reset', '0')
    return
  }
  dropRates(pairs)
  const standing = plan.quota < 0 ? null : x.verdict!.standings[plan.quota]!
  pairs.push(
    'X-RateLimit-Limit',
    plan.quotaLimit,
    'X-RateLimit-Remaining',
    standing === null ? '0' : String(standing.remaining),
    'X-RateLimit-Reset',
    standing === null ? '0' : String(Math.ceil(standing.reset / 1000))
  )
}

function rates(x: Exchange, pairs: string[]): void {
  const { limit, verdict } = x
  if (limit === null || verdict === null) return
  // The API's limit is told only where the key has none.
  const index = limit.keyRate >= 0 ? limit.keyRate : limit.apiRate
  const standing = index < 0 ? undefined : verdict.standings[index]
  if (standing === undefined) return
  dropRates(pairs)
  pairs.push(
    'X-RateLimit-Limit',
    String(standing.allowed),
    'X-RateLimit-Remaining',
    String(standing.remaining),
    'X-RateLimit-Reset',
    String(Math.ceil(standing.reset / 1000))
  )
}

/** `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers): seconds; on refusals too. */
function draft(x: Exchange, pairs: string[]): void {
  const { limit, verdict } = x
  if (limit === null || verdict === null) return
  const policies: string[] = []
  const states: string[] = []
  const tell = (name: string, charge: Charge, standing: Standing | undefined) => {
    if (standing === undefined) return
    const window = Number.isFinite(charge.perMs) ? `;w=${Math.ceil(charge.perMs / 1000)}` : ''
    policies.push(`"${name}";q=${standing.allowed}${window}`)
    const rest = standing.reset === 0 ? '' : `;t=${secondsLeft(standing.reset, verdict.now)}`
    states.push(`"${name}";r=${standing.remaining}${rest}`)
  }
  for (const [i, charge] of limit.charges.entries())
    tell(i === limit.quota ? 'quota' : i === limit.apiRate ? 'api' : 'key', charge, verdict.standings[i])
  if (policies.length > 0) pairs.push('RateLimit-Policy', policies.join(', '), 'RateLimit', states.join(', '))
}

/** An upstream's own headers of these names would contradict ours. */
function dropRates(pairs: string[]): void {
  for (let i = pairs.length - 2; i >= 0; i -= 2) {
    const name = pairs[i]!
    if ((name.length === 17 || name.length === 21) && name.toLowerCase().startsWith('x-ratelimit-')) pairs.splice(i, 2)
  }
}
