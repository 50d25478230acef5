import { answerJson } from '../answer.ts'
import { ANSWERED, type Exchange, type LimitPlan, type Outcome } from '../exchange.ts'
import type { Tools } from './step.ts'

/** `GET {listen_path}/svc/rate-limits/` (semantics §2.7): how the caller's key stands; asking is not counted. */
export function isLimitsPage(x: Exchange): boolean {
  return (
    x.rest.charCodeAt(1) === 115 &&
    (x.rest === '/svc/rate-limits/' || x.rest === '/svc/rate-limits') &&
    x.method === 'GET'
  )
}

export async function limitsPage(x: Exchange, plan: LimitPlan | null, { counters }: Tools): Promise<Outcome> {
  const grant = x.grant!
  const quota =
    plan === null || plan.quota < 0 ? null : (await counters.look([plan.charges[plan.quota]!])).standings[0]!
  answerJson(x, 200, {
    quota: {
      quota_max: grant.quotaMax,
      quota_remaining: quota === null ? 0 : quota.remaining,
      quota_renews: quota === null ? 0 : Math.ceil(quota.reset / 1000)
    },
    rate_limit: { requests: grant.rateShown.rate, per_unit: grant.rateShown.per }
  })
  return ANSWERED
}
