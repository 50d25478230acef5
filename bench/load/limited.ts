import { gateway, generous } from './contenders.ts'
import { alternate, ratio, report } from './rounds.ts'
import { type Scenario, target } from './scenario.ts'
import { startUpstream } from './upstream.ts'

export const limited: Scenario = {
  name: 'limited',
  summary: 'key, rate limit, quota and an access log to a file, beside own proxy',
  async run(options) {
    const { env } = options
    const upstream = await startUpstream()
    const contenders = [
      gateway({ name: 'proxy', env }),
      gateway({ name: 'limited', env, key: generous, accessLog: 'file' }),
      gateway({ name: 'limited, no log', env, key: generous }),
      gateway({ name: 'proxy, log', env, accessLog: 'file' })
    ]
    const results = await alternate(
      contenders.map(contender => ({ contender })),
      upstream,
      options
    )
    await upstream.stop()
    return report(
      'Key, rate limit and quota that are never reached, 64 connections',
      results,
      ['proxy'],
      [target('CPU a request ÷ own proxy', ratio(results, 'cpu', 'limited', 'proxy'), '<=', 1.2)]
    )
  }
}
