import { bareUndici, gateway, references } from './contenders.ts'
import { alternate, ratio, report } from './rounds.ts'
import { type Scenario, target } from './scenario.ts'
import { startUpstream } from './upstream.ts'

export const proxy: Scenario = {
  name: 'proxy',
  summary: 'a keyless API without access log, beside http-proxy, nginx and a bare undici prototype',
  async run(options) {
    const upstream = await startUpstream()
    const contenders = [gateway({ name: 'gateway', env: options.env }), ...references, bareUndici]
    const results = await alternate(
      contenders.map(contender => ({ contender })),
      upstream,
      options
    )
    await upstream.stop()
    // The bound depends on the client of upstreams; where the variable does not tell which it is, both are shown.
    const client = options.env.SVC_GATEWAY__UPSTREAM_CLIENT
    const clients = [
      { name: 'undici', bound: 2.6 },
      { name: 'direct', bound: 2.0 }
    ].filter(({ name }) => client === undefined || client === name)
    const cpu = ratio(results, 'cpu', 'gateway', 'nginx')
    return report(
      'Keyless API, 57-byte answers, 64 connections',
      results,
      ['http-proxy', 'nginx'],
      [
        target('requests/s ÷ http-proxy', ratio(results, 'perSecond', 'gateway', 'http-proxy'), '>=', 1.9),
        ...clients.map(({ name, bound }) =>
          target(`CPU a request ÷ nginx, with the client "${name}"`, cpu, '<=', bound)
        )
      ]
    )
  }
}
