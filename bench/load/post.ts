import { gateway, references } from './contenders.ts'
import { alternate, report } from './rounds.ts'
import type { Scenario } from './scenario.ts'
import { startUpstream } from './upstream.ts'

export const post: Scenario = {
  name: 'post',
  summary: 'POST with bodies of 10 KB to a keyless API, beside http-proxy and nginx',
  async run(options) {
    const upstream = await startUpstream()
    const contenders = [gateway({ name: 'gateway', env: options.env }), ...references]
    const entries = contenders.map(contender => ({ contender, load: { post: 10_000 } }))
    const results = await alternate(entries, upstream, options)
    await upstream.stop()
    return report('Bodies of 10,000 bytes, 64 connections', results, ['http-proxy', 'nginx'], [])
  }
}
