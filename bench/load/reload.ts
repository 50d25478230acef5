import { renameSync, rmSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { gateway, type StartedGateway } from './contenders.ts'
import { type ApiOptions, writeDocuments } from './documents.ts'
import { generate, type Measured } from './generator.ts'
import { memory, type Running } from './processes.ts'
import { warmUp } from './rounds.ts'
import { type Options, progress, type Scenario, target } from './scenario.ts'
import { figure, median, type Table } from './table.ts'
import { startUpstream } from './upstream.ts'

/** One process: its reloads (ms), and the worst request (ms) while none and while some happened. */
interface Round {
  readonly reloads: readonly number[]
  readonly quiet: Measured
  readonly loud: Measured
  readonly rss: number
}

export const reload: Scenario = {
  name: 'reload',
  summary: '1,000 APIs, all changed, reloaded while 2,000 requests/s go through',
  async run(options) {
    const upstream = await startUpstream()
    const rounds: Round[] = []
    for (let i = 1; i <= options.rounds; i++) {
      const round = await measure(upstream, options)
      rounds.push(round)
      progress(
        `round ${i}/${options.rounds}: reloads ${round.reloads.map(ms => figure(ms)).join(', ')} ms, worst request ${figure(round.loud.worst, 1)} ms, else ${figure(round.quiet.worst, 1)} ms`
      )
    }
    await upstream.stop()
    const times = rounds.flatMap(({ reloads }) => reloads)
    const worst = rounds.map(({ loud }) => loud.worst)
    const failed = rounds.reduce(
      (sum, { quiet, loud }) => sum + quiet.refused + quiet.broken + loud.refused + loud.broken,
      0
    )
    return {
      tables: [table(rounds, count(options))],
      details: [],
      targets: [
        target('reload, median', median(times), '<=', 500, ' ms'),
        target('worst request while reloading, median of rounds', median(worst), '<=', 50, ' ms'),
        target('worst request while reloading, of all rounds', Math.max(...worst), '<=', 50, ' ms')
      ],
      failures: failed > 0 ? [`${failed} requests failed`] : []
    }
  }
}

const count = ({ quick }: Options) => (quick ? 100 : 1000)

async function measure(upstream: Running, options: Options): Promise<Round> {
  const apis = (url: string, generation: number) =>
    Array.from(
      { length: count(options) },
      (_, i): ApiOptions => ({ id: `api-${i}`, listenPath: `/api-${i}/`, upstream: url, access: 'keyless', generation })
    )
  const started = await gateway({ name: 'gateway', env: options.env, apis: url => apis(url, 0) }).start(upstream)
  const { running } = started
  const paths = Array.from({ length: 100 }, (_, i) => `/api-${i}/items/7`)
  const load = { url: running.url, paths, connections: 16, rate: 2000, seconds: options.seconds }
  await generate({ ...load, seconds: warmUp(options) })
  const quiet = await generate(load)

  // The folders are written before the load begins: writing would be measured as well.
  const next = Array.from({ length: Math.max(1, options.seconds - 1) }, (_, i) => `${started.documents}-${i + 1}`)
  for (const [i, folder] of next.entries()) writeDocuments(folder, apis(upstream.url, i + 1))
  const reloads: number[] = []
  const until = performance.now() + (options.seconds - 1) * 1000
  const loading = generate(load)
  for (const [i, folder] of next.entries()) {
    await pause(500)
    rmSync(started.documents, { recursive: true })
    renameSync(folder, started.documents)
    const from = performance.now()
    await started.svc('GET', '/svc/reload?block=true')
    const took = performance.now() - from
    reloads.push(took)
    await mustAnswer(started, i + 1)
    // A reload a second, all of them under load.
    await pause(Math.max(0, 500 - took))
    if (performance.now() > until) break
  }
  const loud = await loading
  running.mustRun()
  const { rss } = memory(running.pid)
  await started.stop()
  return { reloads, quiet, loud, rss }
}

/** @throws Error when the next request is still answered by an older document */
async function mustAnswer({ running }: StartedGateway, generation: number): Promise<void> {
  const response = await fetch(`${running.url}/api-3/items/7`)
  await response.arrayBuffer()
  const found = response.headers.get('X-Generation')
  if (found !== String(generation)) throw new Error(`after reload ${generation} the answer is from ${found}`)
}

function table(rounds: readonly Round[], apis: number): Table {
  const rows = rounds.map(({ reloads, quiet, loud, rss }, i) => [
    String(i + 1),
    figure(reloads.length),
    figure(median(reloads)),
    figure(Math.max(...reloads)),
    figure(quiet.p99, 2),
    figure(quiet.worst, 1),
    figure(loud.p99, 2),
    figure(loud.worst, 1),
    figure(loud.requests),
    figure(loud.refused + loud.broken),
    figure(rss)
  ])
  const head = [
    'round',
    'reloads',
    'median ms',
    'longest ms',
    'p99 before',
    'worst before',
    'p99 meanwhile',
    'worst meanwhile',
    'requests',
    'failed',
    'RSS MiB'
  ]
  return { caption: `${figure(apis)} APIs, all changed each time, reloaded at 2,000 requests/s`, head, rows }
}
