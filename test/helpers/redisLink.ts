import type { Log } from '../../config/world.ts'
import { systemClock } from '../../config/world.ts'
import type { CountersSettings } from '../../gateway/redis/address.ts'
import { openRedis } from '../../gateway/redis/openRedis.ts'
import type { RedisLink } from '../../gateway/redis/redis.ts'
import type { Ending } from './postgres.ts'

export const quietLog: Log = { debug() {}, info() {}, warn() {}, error() {} }

/** `storage.counters`, as the loader would give it. */
export function linkSettings(given: Partial<CountersSettings>): CountersSettings {
  return { type: 'redis', url: '', nodes: [], ca_file: '', key_prefix: 'svc', max_entries: 1024, ...given }
}

/** A connection that ends with the test. */
export async function redisLink(
  t: Ending,
  given: Partial<CountersSettings>,
  log: Log = quietLog,
  clock = systemClock
): Promise<RedisLink> {
  const link = await openRedis(linkSettings(given), { clock, log })
  t.teardown(() => link.close())
  return link
}

/** Asks until it is so. @throws Error after five seconds */
export async function until(is: () => unknown, what = 'what is waited for'): Promise<void> {
  const begun = performance.now()
  while (!(await is())) {
    if (performance.now() - begun > 5000) throw new Error(`${what} does not happen`)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}
