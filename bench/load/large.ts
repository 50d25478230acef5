import { gateway, streamingReferences } from './contenders.ts'
import { alternate, everyRound, failures, medianOf, type Results } from './rounds.ts'
import { type Options, progress, type Scenario } from './scenario.ts'
import { figure, type Table } from './table.ts'
import { startLargeUpstream } from './upstream.ts'

export const large: Scenario = {
  name: 'large',
  summary: 'bodies of 100 MB, down and up: MB/s and peak memory, beside http-proxy and nginx',
  async run(options) {
    const megabytes = options.quick ? 10 : 100
    const down = await pass('down', megabytes, options)
    const up = await pass('up', megabytes, options)
    return {
      tables: [table('down', down, megabytes), table('up', up, megabytes)],
      details: [everyRound(down), everyRound(up)],
      targets: [],
      failures: [...failures(down), ...failures(up)]
    }
  }
}

async function pass(direction: 'down' | 'up', megabytes: number, options: Options): Promise<Results> {
  progress(`bodies of ${megabytes} MB, ${direction}`)
  const upstream = await startLargeUpstream(megabytes * 1e6)
  const load = { connections: 4, ...(direction === 'up' ? { post: megabytes * 1e6 } : {}) }
  const contenders = [gateway({ name: 'gateway', env: options.env }), ...streamingReferences]
  const results = await alternate(
    contenders.map(contender => ({ contender, load })),
    upstream,
    options
  )
  await upstream.stop()
  return results
}

function table(direction: string, results: Results, megabytes: number): Table {
  const head = ['', 'MB/s', 'CPU µs/MB', 'peak RSS MiB']
  const rows = [...results].map(([name, rounds]) => [
    name,
    figure((medianOf(rounds, 'perSecond') ?? Number.NaN) * megabytes),
    figure((medianOf(rounds, 'cpu') ?? Number.NaN) / megabytes),
    figure(medianOf(rounds, 'peak'))
  ])
  return { caption: `Bodies of ${megabytes} MB, ${direction}, 4 connections`, head, rows }
}
