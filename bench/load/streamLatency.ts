import type { Received } from './clients/job.ts'
import { receive } from './clients/receive.ts'
import { failures } from './fanout.ts'
import { warmUp } from './rounds.ts'
import { type Options, progress, type Scenario, target } from './scenario.ts'
import { delivered, embedded, listenPath, produced, startKafka, streaming, type Topic } from './streaming.ts'
import { figure, median, type Table } from './table.ts'

const rate = 500
const clients = 10

export const streamLatency: Scenario = {
  name: 'stream-latency',
  summary: 'from POST to SSE receipt at 500 messages/s, through Kafka and through memory://',
  async run(options) {
    const server = await startKafka()
    const results = { Kafka: [] as Received[], 'memory://': [] as Received[] }
    const names = ['Kafka', 'memory://'] as const
    // A fresh broker is slow for tens of seconds.
    await measure(await server.fresh(), options)
    for (let round = 1; round <= options.rounds; round++)
      for (const name of round % 2 === 1 ? names : names.toReversed()) {
        const received = await measure(name === 'Kafka' ? await server.fresh() : embedded, options)
        results[name].push(received)
        const { p50, p99, worst } = received
        progress(
          `round ${round}/${options.rounds}  ${name}: p50 ${figure(p50, 2)}, p99 ${figure(p99, 2)}, worst ${figure(worst, 1)} ms`
        )
      }
    await server.end()
    return {
      tables: [medians(results)],
      details: [everyRound(results)],
      targets: [target('p99 through Kafka', median(results.Kafka.map(({ p99 }) => p99)), '<=', 25, ' ms')],
      failures: names.flatMap(name => failures(name, results[name]))
    }
  }
}

async function measure(topic: Topic, options: Options): Promise<Received> {
  const streams = { in: produced('/in', topic), out: delivered('/out', topic, 'group') }
  const { running, stop } = await streaming(options, { streams })
  const base = running.url + listenPath
  const received = await receive({
    url: `${base}/out/sse`,
    transport: 'sse',
    clients,
    pid: running.pid,
    to: 'one',
    feed: { to: 'http', url: `${base}/in`, posts: 'alone', rate },
    warmUp: warmUp(options),
    seconds: options.seconds,
    isChecked: true
  })
  await stop()
  return received
}

const head = ['p50 ms', 'p99 ms', 'worst ms', 'messages/s', 'CPU µs/message']

function cells({ p50, p99, worst, messages, seconds, cpu }: Received): number[] {
  return [p50, p99, worst, messages / seconds, cpu / messages]
}

const written = (values: readonly number[]) => values.map((value, i) => figure(value, i < 3 ? 2 : 0))

type Results = Readonly<Record<string, readonly Received[]>>

function medians(results: Results): Table {
  const rows = Object.entries(results).map(([name, rounds]) => {
    const all = rounds.map(cells)
    return [name, ...written(head.map((_, i) => median(all.map(values => values[i]!))))]
  })
  const caption = `From the time at which a POST is due to the arrival at one of ${clients} SSE clients, ${rate}/s`
  return { caption, head: ['', ...head], rows }
}

function everyRound(results: Results): Table {
  const rows = Object.entries(results).flatMap(([name, rounds]) =>
    rounds.map((round, i) => [name, String(i + 1), ...written(cells(round))])
  )
  return { caption: 'Every round', head: ['', 'round', ...head], rows }
}
