import type { Key } from '../../config/shape/key.ts'
import type { AccessRight } from '../../config/shape/limit.ts'
import type { Charge, Counters } from '../counters/counters.ts'
import { isEmptyLimit } from './merge.ts'
import type { Session } from './session.ts'

/**
 * A key as its readers see it: what was set or is computed, and always its rate, quota, rights and state. Quotas stand
 * as they are counted now. Passwords never leave.
 */
export async function readBack(session: Session, counters: Pick<Counters, 'look'>): Promise<Key> {
  const { key, orgId } = session
  const rights: [string, AccessRight][] = []
  for (const [apiId, right] of Object.entries(key.access_rights ?? {})) {
    if (isEmptyLimit(right.limit)) rights.push([apiId, right])
    else {
      const quota = await live(session.grant(apiId)!.quota, right.limit!, counters)
      rights.push([apiId, { ...right, limit: { ...right.limit, ...quota } }])
    }
  }
  // With one API alone the quota of the key is counted there.
  const only = rights.length === 1 ? session.grant(rights[0]![0])! : null
  const counted = only !== null && only.quotaMax === (key.quota_max ?? 0) ? only : session.own
  const made: Key = {
    ...key,
    org_id: orgId,
    rate: key.rate ?? 0,
    per: key.per ?? 0,
    ...(await live(counted.quota, key, counters)),
    access_rights: Object.fromEntries(rights),
    is_inactive: key.is_inactive ?? false
  }
  if (key.basic_auth_data) {
    const { password: _password, ...shown } = key.basic_auth_data
    made.basic_auth_data = shown
  }
  return made
}

async function live(
  charge: Charge | null,
  limit: Pick<Key, 'quota_max' | 'quota_renews' | 'quota_renewal_rate'>,
  counters: Pick<Counters, 'look'>
) {
  const { quota_max = 0, quota_renewal_rate = 0, quota_renews = 0 } = limit
  const shown = { quota_max, quota_renewal_rate, quota_renews, quota_remaining: quota_max }
  if (charge === null) return shown
  const { remaining, reset } = (await counters.look([charge])).standings[0]!
  shown.quota_remaining = remaining
  if (reset > 0) shown.quota_renews = Math.ceil(reset / 1000)
  return shown
}
