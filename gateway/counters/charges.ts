import type { ApiLimit } from '../../config/shape/limit.ts'
import { quotaOf } from '../limits/quota.ts'
import { type Algorithm, rateOf } from '../limits/rate.ts'
import { slopeOf } from '../limits/smoothing.ts'
import { type Charge, charge } from './counters.ts'

/** What the settings say about all rates: `rate_limiter`, `sliding_log_counts_refused`, `enable_rate_limit_smoothing`. */
export interface RateHabits {
  readonly algorithm: Algorithm
  readonly countsRefused: boolean
  readonly smoothing: boolean
}

/** The rate of a key, an access right, an endpoint or an API; null: unlimited. Invalid smoothing is ignored. */
export function rateCharge(
  id: string,
  given: Pick<ApiLimit, 'rate' | 'per' | 'smoothing'>,
  habits: RateHabits
): Charge | null {
  const rate = rateOf(given.rate, given.per)
  if (rate === null) return null
  const { algorithm, countsRefused } = habits
  const slope = habits.smoothing ? slopeOf(given.smoothing, rate.allowed) : null
  return charge(id, { kind: 'rate', algorithm, ...rate, slope, countsRefused })
}

/** The quota of a key or an access right; null: unlimited. */
export function quotaCharge(id: string, given: Pick<ApiLimit, 'quota_max' | 'quota_renewal_rate'>): Charge | null {
  const quota = quotaOf(given.quota_max, given.quota_renewal_rate)
  if (quota === null) return null
  return charge(id, { kind: 'quota', algorithm: 'bucket', ...quota, slope: null, countsRefused: false })
}
