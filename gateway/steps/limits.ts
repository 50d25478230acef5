import type { Clock } from '../../config/world.ts'
import type { Api, Operation } from '../api.ts'
import { rateCharge } from '../counters/charges.ts'
import { asked, type Charge, type Verdict } from '../counters/counters.ts'
import { ANSWERED, type Exchange, type LimitPlan, type Outcome } from '../exchange.ts'
import type { Grant } from '../keys/keys.ts'
import { refusals } from '../refusals.ts'
import { limitHeaders } from './limitHeaders.ts'
import { isLimitsPage, limitsPage } from './limitsPage.ts'
import type { Step, Tools } from './step.ts'

/** Requests held by throttling at once; beyond, a refused request is told so at once. */
const MOST_HELD = 10_000
let held = 0
/** A longer timer of Node would fire at once. */
const LONGEST_PAUSE_MS = 2 ** 31 - 1

/**
 * Key rate, quota and API rate in one charge (semantics §5). An endpoint's limit takes the place of the broader one of
 * its level. A key whose rate refuses may be held back (throttling): the request asks again every `throttle_interval`
 * seconds without counting, at most `throttle_retry_limit` times, so the longest added wait is interval × retries.
 */
export const limits: Step = {
  name: 'limits',
  make(api, tools) {
    const { counters } = tools
    const plans = planner(api, tools)
    const authenticated = api.authentication !== null
    const head = limitHeaders(tools)
    if (!authenticated && plans.empty) return { head }
    return {
      head,
      run(x) {
        const plan = plans.of(x)
        if (authenticated && x.grant !== null && isLimitsPage(x)) return limitsPage(x, plan, tools)
        if (plan === null) return undefined
        x.limit = plan
        const verdict = counters.charge(plan.charges)
        return verdict instanceof Promise
          ? verdict.then(later => judge(x, plan, later, tools, 0))
          : judge(x, plan, verdict, tools, 0)
      }
    }
  }
}

/** @param holds how often the request was held already */
function judge(
  x: Exchange,
  plan: LimitPlan,
  verdict: Verdict,
  tools: Tools,
  holds: number
): Outcome | Promise<Outcome> {
  x.verdict = verdict
  const { events } = tools
  if (plan.smooths) tellSmoothing(x, verdict, tools)
  const { refused } = verdict
  if (refused < 0) return undefined
  if (refused === plan.quota) {
    events.emit('QuotaExceeded', 'Key Quota Limit Exceeded', about(x))
    return refusals.quotaExceeded
  }
  if (refused === plan.apiRate) {
    events.emit('RatelimitExceeded', refusals.apiRateExceeded.message, about(x))
    return refusals.apiRateExceeded
  }
  // A request that was held has been told of already.
  if (holds === 0) events.emit('RatelimitExceeded', refusals.rateExceeded.message, about(x))
  if (plan.throttle !== null && holds < plan.throttle.retries && held < MOST_HELD)
    return hold(x, plan, plan.throttle, tools, holds)
  return refusals.rateExceeded
}

function tellSmoothing(x: Exchange, { standings }: Verdict, { events }: Tools): void {
  for (const { smoothed } of standings) {
    if (smoothed === 'up') events.emit('RateLimitSmoothingUp', 'Rate limit increased with smoothing', about(x))
    else if (smoothed === 'down') events.emit('RateLimitSmoothingDown', 'Rate limit decreased with smoothing', about(x))
  }
}

function about(x: Exchange): { apiId: string; path: string; origin: string; key: string } {
  return { apiId: x.route.api.id, path: x.path, origin: x.client, key: x.key === null ? '' : x.key.hash }
}

async function hold(
  x: Exchange,
  plan: LimitPlan,
  throttle: { intervalMs: number; retries: number },
  tools: Tools,
  holds: number
): Promise<Outcome> {
  const rate = [plan.charges[plan.keyRate]!]
  held++
  try {
    while (holds < throttle.retries) {
      await pause(x, throttle.intervalMs, tools.clock)
      holds++
      // It left, or was refused meanwhile for what it sent.
      if (x.gone || x.res.writableEnded) return ANSWERED
      x.verdict = await tools.counters.look(rate)
      if (x.verdict.refused >= 0) continue
      const verdict = await tools.counters.charge(plan.charges)
      if (verdict.refused !== plan.keyRate) return judge(x, plan, verdict, tools, holds)
      // Another was quicker.
      x.verdict = verdict
      if (plan.smooths) tellSmoothing(x, verdict, tools)
    }
    return refusals.rateExceeded
  } finally {
    held--
  }
}

/** Ends after `ms`, or as soon as the client leaves. */
function pause(x: Exchange, ms: number, clock: Clock): Promise<void> {
  return new Promise(resolve => {
    const cancel = clock.after(Math.min(ms, LONGEST_PAUSE_MS), () => {
      x.res.waiter = null
      resolve()
    })
    x.res.waiter = {
      closed() {
        cancel()
        resolve()
      }
    }
  })
}

interface Plans {
  /** No limit can ever apply to a request without a key. */
  readonly empty: boolean
  of(x: Exchange): LimitPlan | null
}

/** Puts charges together, once for each grant and operation. */
function planner(api: Api, { settings }: Tools): Plans {
  const apiMode = api.rateLimitMode ?? settings.rate_limit_mode
  const onFailure = api.countersFailure ?? settings.counters_failure
  const habits = {
    algorithm: settings.rate_limiter,
    countsRefused: settings.sliding_log_counts_refused,
    smoothing: settings.enable_rate_limit_smoothing
  }
  // Charges under a pattern come with each request, and a counter outside keeps what it knows of a charge with it.
  const known = new WeakMap<Charge, Charge>()
  const askedOf = (charge: Charge | null, mode = apiMode) => {
    if (charge === null) return null
    let made = known.get(charge)
    if (made === undefined) {
      made = asked(charge, mode, onFailure)
      known.set(charge, made)
    }
    return made
  }
  const rateOf = (id: string, given: { rate: number; perMs: number } | null) =>
    given === null ? null : askedOf(rateCharge(id, { rate: given.rate, per: given.perMs / 1000 }, habits))
  const ofApi = rateOf(`api-rate-${api.id}`, api.rate)
  const ofOperations = new Map<Operation, Charge | null>()
  for (const each of api.operations)
    if (each.rate !== null) ofOperations.set(each, rateOf(`api-rate-${api.id}-${each.method}:${each.path}`, each.rate))
  const simple = ofOperations.size === 0
  const keyless = new Map<Charge | null, LimitPlan | null>()
  const byApiRate = new Map([ofApi, ...ofOperations.values()].map(each => [each, new WeakMap<Grant, LimitPlan>()]))

  function make(keyRate: Charge | null, quota: Charge | null, apiRate: Charge | null, grant: Grant | null): LimitPlan {
    const charges = [keyRate, quota, apiRate].filter(each => each !== null)
    return {
      charges,
      keyRate: keyRate === null ? -1 : 0,
      quota: quota === null ? -1 : charges.indexOf(quota),
      apiRate: apiRate === null ? -1 : charges.length - 1,
      quotaLimit: String(grant?.quotaMax ?? 0),
      smooths: charges.some(each => each.slope !== null),
      throttle: grant?.throttle ?? null
    }
  }

  return {
    empty: ofApi === null && simple,
    of(x) {
      const apiRate = simple || x.operation === null ? ofApi : (ofOperations.get(x.operation) ?? ofApi)
      const { grant } = x
      if (grant === null) {
        if (apiRate === null) return null
        let plan = keyless.get(apiRate)
        if (plan === undefined) {
          plan = make(null, null, apiRate, null)
          keyless.set(apiRate, plan)
        }
        return plan
      }
      const whole = grant.endpointLimits.length === 0 && grant.pattern === null
      const charges = whole ? grant : grant.charges(x.method, x.rest, x)
      const known = byApiRate.get(apiRate)!
      let plan = charges === grant ? known.get(grant) : undefined
      if (plan === undefined) {
        const mode = grant.rateLimitMode ?? apiMode
        const rate = api.skipRateLimit ? null : askedOf(charges.rate, mode)
        plan = make(rate, api.skipQuota ? null : askedOf(charges.quota, mode), apiRate, grant)
        if (charges === grant) known.set(grant, plan)
      }
      return plan
    }
  }
}
