import { type GatewayOptions, gateway } from './contenders.ts'
import { alternate, ratio, report } from './rounds.ts'
import { type Scenario, target } from './scenario.ts'
import { startUpstream } from './upstream.ts'

export const routes: Scenario = {
  name: 'routes',
  summary: '1,000 APIs, requests over all of them, beside one API',
  async run(options) {
    const { env } = options
    const upstream = await startUpstream()
    const numbers = Array.from({ length: options.quick ? 100 : 1000 }, (_, i) => i)
    // Both send as many different requests, so that the generator has the same work.
    const spread = numbers.map(i => `/api-${i}/items/7`)
    const alike = numbers.map(i => `/api-0/items/${i}`)
    const apis =
      (count: number): GatewayOptions['apis'] =>
      url =>
        numbers
          .slice(0, count)
          .map(i => ({ id: `api-${i}`, listenPath: `/api-${i}/`, upstream: url, access: 'keyless' }))
    const many = `${numbers.length} APIs`
    const entries = [
      { contender: gateway({ name: 'one API', env, apis: apis(1) }), load: { paths: alike } },
      { contender: gateway({ name: many, env, apis: apis(numbers.length) }), load: { paths: spread } }
    ]
    const results = await alternate(entries, upstream, options)
    await upstream.stop()
    return report(
      'Requests over all APIs in turn, 64 connections',
      results,
      ['one API'],
      [target('requests/s ÷ one API', ratio(results, 'perSecond', many, 'one API'), '>=', 0.95)]
    )
  }
}
