import { readFileSync } from 'node:fs'
import { gateway, generous } from './contenders.ts'
import { basicGateway, jwtGateway, writeTokens } from './credentials.ts'
import { folder } from './processes.ts'
import { alternate, medianOf, ratio, report } from './rounds.ts'
import { progress, type Scenario, target } from './scenario.ts'
import { startUpstream } from './upstream.ts'

/** The gateway remembers 20,000 verified tokens: so many in turn that none is remembered when its turn comes again. */
const NEW_TOKENS = 60_000

export const authentication: Scenario = {
  name: 'authentication',
  summary: 'JWT (RS256) remembered and new, and basic, beside key authentication; all with rate and quota',
  async run(options) {
    const { env } = options
    const temp = folder()
    progress(`signing ${NEW_TOKENS} tokens …`)
    const same = writeTokens(temp.path, 1_000, undefined)
    const fresh = writeTokens(temp.path, options.quick ? 25_000 : NEW_TOKENS, 'in turn')
    const upstream = await startUpstream()
    const results = await alternate(
      [
        { contender: gateway({ name: 'key', env, key: generous }) },
        { contender: jwtGateway('jwt', env), load: { tokens: same, headers: first(same.file) } },
        { contender: jwtGateway('jwt, each new', env), load: { tokens: fresh, headers: first(fresh.file) } },
        { contender: basicGateway('basic', env) }
      ],
      upstream,
      options
    )
    await upstream.stop()
    temp.remove()
    return report(
      'Callers with rate and quota that are never reached, 64 connections',
      results,
      ['key'],
      [
        target('jwt, 1,000 tokens ÷ key', ratio(results, 'perSecond', 'jwt', 'key'), '>=', 0.8),
        target('jwt, each token new, requests/s', medianOf(results.get('jwt, each new'), 'perSecond'), '>=', 12_000),
        target('basic ÷ key', ratio(results, 'perSecond', 'basic', 'key'), '>=', 0.8)
      ]
    )
  }
}

/** For the look before the load. */
function first(file: string): Record<string, string> {
  return { Authorization: readFileSync(file, 'latin1').split('\n', 1)[0]! }
}
