import { type Contender, gateway, generous } from './contenders.ts'
import { calls, inRedis, startRedis } from './redis.ts'
import { alternate, medianOfTally, ratio, report } from './rounds.ts'
import { type Scenario, target } from './scenario.ts'
import { startUpstream } from './upstream.ts'

export const limitedRedis: Scenario = {
  name: 'limited-redis',
  summary: 'key, rate limit and quota decided in Redis, exactly and by leases, beside the same in memory',
  async run(options) {
    const { env } = options
    const upstream = await startUpstream()
    const contenders = [
      gateway({ name: 'memory', env, key: generous }),
      throughRedis('exact', env),
      throughRedis('lease', env)
    ]
    const results = await alternate(
      contenders.map(contender => ({ contender })),
      upstream,
      options
    )
    await upstream.stop()
    return report(
      'Key, rate limit and quota that are never reached, 64 connections; Redis beside generator and upstream',
      results,
      ['memory'],
      [
        target('exact ÷ memory', ratio(results, 'perSecond', 'exact', 'memory'), '>=', 0.55),
        target('lease ÷ memory', ratio(results, 'perSecond', 'lease', 'memory'), '>=', 0.9),
        target('Redis calls a request, exact', medianOfTally(results.get('exact')), '<=', 1.01),
        target('Redis calls a request, lease', medianOfTally(results.get('lease')), '<=', 0.1)
      ]
    )
  }
}

function throughRedis(mode: 'exact' | 'lease', env: Readonly<Record<string, string>>): Contender {
  return {
    name: mode,
    async start(upstream) {
      const redis = await startRedis('others')
      const settings = { ...env, ...inRedis(redis), SVC_GATEWAY__RATE_LIMIT_MODE: mode }
      const started = await gateway({ name: mode, env: settings, key: generous }).start(upstream)
      return {
        ...started,
        tally: () => calls(redis),
        async stop() {
          await started.stop()
          await redis.stop()
        }
      }
    }
  }
}
