import { type Source, source } from './clients/feeding.ts'
import type { Received } from './clients/job.ts'
import { receive } from './clients/receive.ts'
import { failures } from './fanout.ts'
import { type Options, progress, type Scenario, target } from './scenario.ts'
import { type BenchKafka, delivered, described, listenPath, startKafka, streaming } from './streaming.ts'
import { figure, median, type Table } from './table.ts'

interface Contender {
  readonly transport: 'sse' | 'websocket'
  readonly clients: number
}

/** What each part of a measurement gave. */
interface Round {
  /** A few messages at a time: everybody is idle. */
  readonly spread: Received
  /** A topic that holds them already. */
  readonly backlog: Received
}

export const roundRobin: Scenario = {
  name: 'round-robin',
  summary: 'one client a message: from Kafka to 100, 1,000 and 10,000 clients, and how evenly',
  async run(options) {
    const server = await startKafka()
    const contenders: readonly Contender[] = options.quick
      ? [{ transport: 'sse', clients: 20 }]
      : [
          { transport: 'sse', clients: 100 },
          { transport: 'websocket', clients: 100 },
          { transport: 'sse', clients: 1_000 },
          { transport: 'sse', clients: 10_000 }
        ]
    const results = new Map(contenders.map(contender => [contender, [] as Round[]]))
    for (let round = 1; round <= options.rounds; round++)
      for (const contender of round % 2 === 1 ? contenders : contenders.toReversed()) {
        const measured = await measure(server, contender, options)
        results.get(contender)!.push(measured)
        const { spread, backlog } = measured
        progress(
          `round ${round}/${options.rounds}  ${label(contender)}: ${figure(perSecond(backlog))}/s, ${figure(spread.least)} to ${figure(spread.most)} messages a client when idle`
        )
      }
    await server.end()
    const first = [...results.values()][0]!
    const apart = Math.max(...[...results.values()].flat().map(({ spread }) => spread.most - spread.least))
    return {
      tables: [medians(results)],
      details: [everyRound(results)],
      targets: [
        target('messages/s from Kafka', median(first.map(({ backlog }) => perSecond(backlog))), '>=', 30_000),
        target('most − fewest messages of an idle client', apart, '<=', 1)
      ],
      failures: [...results].flatMap(([contender, rounds]) =>
        failures(
          label(contender),
          rounds.flatMap(({ spread, backlog }) => [spread, backlog])
        )
      )
    }
  }
}

const MOST_AT_ONCE = 100
/** Messages under way when clients are fed. */
const WINDOW = 4_000

const label = ({ transport, clients }: Contender) => `${transport}, ${figure(clients)} clients`
const perSecond = ({ messages, seconds }: Received) => messages / seconds

async function measure(server: BenchKafka, { transport, clients }: Contender, options: Options): Promise<Round> {
  const [live, full] = [await server.fresh(), await server.fresh()]
  const amount = (options.quick ? 5_000 : 30_000) * options.seconds
  // Many clients take so long to come that the first of them would have taken a backlog: they are fed when all are there.
  const isFilled = clients <= MOST_AT_ONCE
  if (isFilled) {
    const from = await source({ to: 'kafka', brokers: full.addresses, topic: full.topic, window: 1 })
    await fill(from, amount)
    await from.close()
  }
  const streams = { live: delivered('/live', live, 'group'), full: delivered('/full', full, 'group') }
  const { running, stop } = await streaming(options, { streams })
  const at = (stream: string) => `${running.url}${listenPath}/${stream}/${transport === 'sse' ? 'sse' : 'ws'}`
  const job = { transport, clients, pid: running.pid, to: 'one', warmUp: 0, seconds: 120, isChecked: true } as const
  const few = clients * 10 + 7
  const feed = { to: 'kafka', brokers: live.addresses, topic: live.topic, window: 10, amount: few } as const
  const spread = await receive({ ...job, url: at('live'), feed, amount: few })
  const fast = { to: 'kafka', brokers: full.addresses, topic: full.topic, window: WINDOW, amount } as const
  const backlog = await receive({ ...job, url: at('full'), feed: isFilled ? null : fast, amount })
  await stop()
  return { spread, backlog }
}

async function fill(to: Source, amount: number): Promise<void> {
  for (let from = 0; from < amount; from += 1_000) await to.send(from, Math.min(1_000, amount - from))
}

const head = ['messages/s', 'CPU µs/message', 'writes/message', 'fewest idle', 'most idle', 'RSS MiB']

function cells({ spread, backlog }: Round): number[] {
  const { messages, cpu, writes, rss } = backlog
  return [perSecond(backlog), cpu / messages, writes / messages, spread.least, spread.most, rss]
}

const written = (values: readonly number[]) => values.map((value, i) => figure(value, i === 1 || i === 2 ? 2 : 0))

type Results = ReadonlyMap<Contender, readonly Round[]>

function medians(results: Results): Table {
  const rows = [...results].map(([contender, rounds]) => {
    const all = rounds.map(cells)
    return [label(contender), ...written(head.map((_, i) => median(all.map(values => values[i]!))))]
  })
  return {
    caption: `${described} from Kafka, each to one client: a backlog of them to 100 clients, to more as they are produced`,
    head: ['', ...head],
    rows
  }
}

function everyRound(results: Results): Table {
  const rows = [...results].flatMap(([contender, rounds]) =>
    rounds.map((round, i) => [label(contender), String(i + 1), ...written(cells(round))])
  )
  return { caption: 'Every round', head: ['', 'round', ...head], rows }
}
