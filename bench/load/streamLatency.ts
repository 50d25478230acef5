import { fileURLToPath } from 'node:url'
import { MESSAGE_BYTES } from './clients/job.ts'
import { receive } from './clients/receive.ts'
import { flags } from './contenders.ts'
import { faults } from './fanout.ts'
import { run } from './processes.ts'
import { warmUp } from './rounds.ts'
import { type Options, progress, type Scenario, target } from './scenario.ts'
import { delivered, embedded, listenPath, produced, startKafka, streaming, type Topic } from './streaming.ts'
import { figure, median, type Table } from './table.ts'

const rate = 500
const clients = 10

/** Times in ms. */
interface Round {
  readonly p50: number
  readonly p99: number
  readonly worst: number
  /** µs a message; NaN where it was not asked. */
  readonly cpu: number
  readonly failures: readonly string[]
}

const names = ['Kafka', 'memory://', 'kafkajs alone'] as const
type Results = Readonly<Record<(typeof names)[number], Round[]>>

export const streamLatency: Scenario = {
  name: 'stream-latency',
  summary: 'from POST to SSE receipt at 500 messages/s, through Kafka and memory://, beside kafkajs alone',
  async run(options) {
    const server = await startKafka()
    const results: Results = { Kafka: [], 'memory://': [], 'kafkajs alone': [] }
    // A fresh broker is slow for tens of seconds, whoever comes first.
    await alone(await server.fresh(), options)
    for (let round = 1; round <= options.rounds; round++)
      for (const name of round % 2 === 1 ? names : names.toReversed()) {
        const measured =
          name === 'memory://'
            ? await through(embedded, options)
            : await (name === 'Kafka' ? through : alone)(await server.fresh(), options)
        results[name].push(measured)
        const times = [measured.p50, measured.p99, measured.worst].map(ms => figure(ms, 2)).join(', ')
        progress(`round ${round}/${options.rounds}  ${name}: p50, p99, worst ${times} ms`)
      }
    await server.end()
    return {
      tables: [medians(results)],
      details: [everyRound(results)],
      targets: [target('p99 through Kafka', median(results.Kafka.map(({ p99 }) => p99)), '<=', 25, ' ms')],
      failures: names.flatMap(name => results[name].flatMap(round => round.failures.map(text => `${name}: ${text}`)))
    }
  }
}

async function through(topic: Topic, options: Options): Promise<Round> {
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
  const { p50, p99, worst, cpu, messages } = received
  return { p50, p99, worst, cpu: cpu / messages, failures: faults([received]) }
}

/** From the sending of one process to its own consumer: what Kafka and this machine take of the time. */
async function alone({ addresses, topic }: Topic, { seconds }: Options): Promise<Round> {
  const file = fileURLToPath(new URL('servers/kafkaThrough.ts', import.meta.url))
  const args = [addresses[0]!, topic, ...[rate, seconds, MESSAGE_BYTES].map(String)]
  const node = [...flags, '--disable-warning=TimeoutNegativeWarning', file]
  const out = await run('gateway', process.execPath, [...node, ...args])
  const { missing, ...times } = JSON.parse(out.trim().split('\n').at(-1)!) as Round & { missing: number }
  return { ...times, cpu: Number.NaN, failures: missing > 0 ? [`${missing} messages are missing`] : [] }
}

const head = ['p50 ms', 'p99 ms', 'worst ms', 'CPU µs/message']
const cells = ({ p50, p99, worst, cpu }: Round) => [p50, p99, worst, cpu]
const written = (values: readonly number[]) => values.map((value, i) => figure(value, i < 3 ? 2 : 0))

function medians(results: Results): Table {
  const rows = names.map(name => {
    const all = results[name].map(cells)
    return [name, ...written(head.map((_, i) => median(all.map(values => values[i]!))))]
  })
  const caption = `From the time at which a POST is due to the arrival at one of ${clients} SSE clients, ${rate}/s`
  return { caption, head: ['', ...head], rows }
}

function everyRound(results: Results): Table {
  const rows = names.flatMap(name => results[name].map((round, i) => [name, String(i + 1), ...written(cells(round))]))
  return { caption: 'Every round', head: ['', 'round', ...head], rows }
}
