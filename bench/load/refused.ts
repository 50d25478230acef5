import { gateway } from './contenders.ts'
import { alternate, type Entry, ratio, report } from './rounds.ts'
import { type Scenario, target } from './scenario.ts'
import { startUpstream } from './upstream.ts'

export const refused: Scenario = {
  name: 'refused',
  summary: 'a flood of requests above the rate limit (429), beside own proxy',
  async run(options) {
    const { env } = options
    const upstream = await startUpstream()
    const key = { rate: 1, per: 3600 }
    const entries: Entry[] = [
      { contender: gateway({ name: 'proxy', env }) },
      { contender: gateway({ name: 'refused', env, key }), expects: 'refusal' },
      { contender: gateway({ name: 'refused, log', env, key, accessLog: 'file' }), expects: 'refusal' }
    ]
    const results = await alternate(entries, upstream, options)
    await upstream.stop()
    return report(
      'Rate limit of one request an hour, 64 connections',
      results,
      ['proxy'],
      [target('requests/s ÷ own proxy', ratio(results, 'perSecond', 'refused', 'proxy'), '>=', 1.6)]
    )
  }
}
