import { type Contender, gateway, generous, references, type Started } from './contenders.ts'
import { generate, type Load } from './generator.ts'
import type { Running } from './processes.ts'
import { measure, warmUp } from './rounds.ts'
import { type Options, progress, type Scenario, target } from './scenario.ts'
import { figure, median, type Table } from './table.ts'
import { startUpstream } from './upstream.ts'

/** One contender in one round: latency at half of its own top rate, and of the upstream alone at the same rate. Times in ms. */
interface Added {
  readonly top: number
  readonly rate: number
  readonly held: number
  readonly p50: number
  readonly p99: number
  readonly directP50: number
  readonly directP99: number
  readonly failed: number
}

export const latency: Scenario = {
  name: 'latency',
  summary: 'p50 and p99 added at half of the top rate, beside http-proxy and nginx at half of theirs',
  async run(options) {
    const { env } = options
    const upstream = await startUpstream()
    const contenders = [
      gateway({ name: 'proxy', env }),
      gateway({ name: 'limited', env, key: generous, accessLog: 'file' }),
      ...references
    ]
    const results = new Map(contenders.map(({ name }) => [name, [] as Added[]]))
    for (let round = 1; round <= options.rounds; round++) {
      for (const contender of round % 2 === 1 ? contenders : contenders.toReversed()) {
        const added = await measureAdded(contender, upstream, options)
        results.get(contender.name)!.push(added)
        const rates = `${figure(added.held)} of ${figure(added.top)}/s`
        progress(
          `round ${round}/${options.rounds}  ${contender.name}: ${rates}, p99 ${figure(added.p99, 2)} ms, direct ${figure(added.directP99, 2)} ms`
        )
      }
    }
    await upstream.stop()
    const p99 = (name: string) => median(results.get(name)!.map(round => round.p99 - round.directP99))
    return {
      tables: [medians(results)],
      details: [everyRound(results)],
      targets: ['proxy', 'limited'].map(name => target(`p99 added, ${name}`, p99(name), '<=', 1.5, ' ms')),
      failures: [...results].flatMap(([name, rounds]) => faults(name, rounds))
    }
  }
}

async function measureAdded(contender: Contender, upstream: Running, options: Options): Promise<Added> {
  const started = await contender.start(upstream)
  const { load } = started
  await generate({ ...load, connections: 64, seconds: warmUp(options) })
  const full = await measure(started, { ...load, connections: 64, seconds: warmUp(options) })
  const rate = Math.round(full.perSecond / 2)
  const through = await measure(started, held(load, rate, options))
  await started.stop()
  const direct = await generate(held({ url: upstream.url + new URL(load.url).pathname }, rate, options))
  return {
    top: full.perSecond,
    rate,
    held: through.perSecond,
    p50: through.p50,
    p99: through.p99,
    directP50: direct.p50,
    directP99: direct.p99,
    failed: full.failed + through.failed + direct.refused + direct.broken
  }
}

/** h2load sends from all connections at the same moment: so few of them that a burst stays short, one request a ms each. */
function held(load: Started['load'], rate: number, { seconds }: Options): Load {
  return { ...load, rate, seconds, connections: Math.min(64, Math.max(8, Math.ceil(rate / 1000))) }
}

function faults(name: string, rounds: readonly Added[]): string[] {
  const failed = rounds.reduce((sum, round) => sum + round.failed, 0)
  const short = rounds.filter(({ held, rate }) => held < 0.95 * rate).length
  return [
    ...(failed > 0 ? [`${name}: ${figure(failed)} requests were not answered as expected`] : []),
    ...(short > 0 ? [`${name}: the rate could not be held in ${short} of ${rounds.length} rounds`] : [])
  ]
}

function cells(round: Added): string[] {
  const { top, held, p50, p99, directP50, directP99 } = round
  return [
    figure(top),
    figure(held),
    ...[p50, p99, directP50, directP99, p50 - directP50, p99 - directP99].map(ms => figure(ms, 2))
  ]
}

const head = ['top/s', 'held/s', 'p50 ms', 'p99 ms', 'direct p50', 'direct p99', 'p50 added', 'p99 added']

function medians(results: ReadonlyMap<string, readonly Added[]>): Table {
  const of = (rounds: readonly Added[], pick: (round: Added) => number) => median(rounds.map(pick))
  const rows = [...results].map(([name, rounds]) => [
    name,
    figure(of(rounds, round => round.top)),
    figure(of(rounds, round => round.held)),
    figure(
      of(rounds, round => round.p50),
      2
    ),
    figure(
      of(rounds, round => round.p99),
      2
    ),
    figure(
      of(rounds, round => round.directP50),
      2
    ),
    figure(
      of(rounds, round => round.directP99),
      2
    ),
    figure(
      of(rounds, round => round.p50 - round.directP50),
      2
    ),
    figure(
      of(rounds, round => round.p99 - round.directP99),
      2
    )
  ])
  return {
    caption: 'Latency at half of the top rate, beside the upstream alone at the same rate',
    head: ['', ...head],
    rows
  }
}

function everyRound(results: ReadonlyMap<string, readonly Added[]>): Table {
  const rows = [...results].flatMap(([name, rounds]) =>
    rounds.map((round, i) => [name, String(i + 1), ...cells(round)])
  )
  return { caption: 'Every round', head: ['', 'round', ...head], rows }
}
