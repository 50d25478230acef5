import { fileURLToPath } from 'node:url'
import { flags } from './contenders.ts'
import { generate } from './generator.ts'
import { run } from './processes.ts'
import { measure, type Round, warmUp } from './rounds.ts'
import { type Options, progress, type Scenario, target } from './scenario.ts'
import { embedded, listenPath, produced, startKafka, streaming, type Topic } from './streaming.ts'
import { figure, median, type Table } from './table.ts'

const bytes = 1024

/** kafkajs alone: one message a send, one send at a time. */
interface Alone {
  readonly perSecond: number
  readonly p50: number
  readonly p99: number
}

export const produce: Scenario = {
  name: 'produce',
  summary: 'POSTs of 1 KB into Kafka, acks all, beside memory:// and one kafkajs send at a time',
  async run(options) {
    const server = await startKafka()
    const rounds: { kafka: Round[]; memory: Round[]; alone: Alone[] } = { kafka: [], memory: [], alone: [] }
    const unwritten: string[] = []
    // A fresh broker is slow for tens of seconds, whoever comes first.
    await alone(await server.fresh(), options)
    const into = {
      async kafka() {
        const topic = await server.fresh()
        const round = await post(topic, options)
        rounds.kafka.push(round)
        const [written = 0] = await server.ends(topic.topic)
        if (written < round.answered)
          unwritten.push(`${round.answered - written} messages were acknowledged and are not there`)
        return round
      },
      async memory() {
        const round = await post(embedded, options)
        rounds.memory.push(round)
        return round
      },
      async alone() {
        const round = await alone(await server.fresh(), options)
        rounds.alone.push(round)
        return round
      }
    }
    const names = ['kafka', 'memory', 'alone'] as const
    for (let round = 1; round <= options.rounds; round++)
      for (const name of round % 2 === 1 ? names : names.toReversed()) {
        const { perSecond, p50, p99 } = await into[name]()
        progress(
          `round ${round}/${options.rounds}  ${name}: ${figure(perSecond)}/s, p50 ${figure(p50, 2)} ms, p99 ${figure(p99, 2)} ms`
        )
      }
    await server.end()
    const rate = (of: readonly { readonly perSecond: number }[]) => median(of.map(({ perSecond }) => perSecond))
    const [kafka, memory, sends] = [rate(rounds.kafka), rate(rounds.memory), rate(rounds.alone)]
    return {
      tables: [medians(rounds)],
      details: [everyRound(rounds)],
      targets: [
        target('into Kafka ÷ kafkajs, one send at a time', kafka / sends, '>=', 2.5),
        target('into Kafka ÷ into memory://', kafka / memory, '>=', 0.4),
        target('into Kafka, the aim', kafka, '>=', 20_000, '/s')
      ],
      failures: [...failures('kafka', rounds.kafka), ...failures('memory', rounds.memory), ...unwritten]
    }
  }
}

/** `answered`: with success, the warm-up included. */
async function post(topic: Topic, options: Options): Promise<Round & { answered: number }> {
  const started = await streaming(options, { streams: { in: produced('/in', topic) } })
  const load = { url: `${started.running.url}${listenPath}/in`, connections: 64, post: bytes }
  const warm = await generate({ ...load, seconds: warmUp(options) })
  const round = await measure(started, { ...load, seconds: options.seconds })
  await started.stop()
  const answered = warm.requests - warm.refused + round.requests - round.refused
  return { ...round, answered }
}

async function alone({ addresses, topic }: Topic, { seconds }: Options): Promise<Alone> {
  const file = fileURLToPath(new URL('servers/kafkaSend.ts', import.meta.url))
  const args = [...flags, '--disable-warning=TimeoutNegativeWarning', file]
  const out = await run('gateway', process.execPath, [...args, addresses[0]!, topic, String(seconds), String(bytes)])
  return JSON.parse(out.trim().split('\n').at(-1)!) as Alone
}

function failures(name: string, rounds: readonly Round[]): string[] {
  const failed = rounds.reduce((sum, round) => sum + round.failed, 0)
  return failed === 0 ? [] : [`${name}: ${figure(failed)} messages were not acknowledged`]
}

interface Rounds {
  readonly kafka: readonly Round[]
  readonly memory: readonly Round[]
  readonly alone: readonly Alone[]
}

const labels = { kafka: 'gateway, Kafka', memory: 'gateway, memory://', alone: 'kafkajs, one send at a time' }
const head = ['messages/s', 'p50 ms', 'p99 ms', 'CPU µs/message', 'RSS MiB']

function cells(round: Round | Alone): number[] {
  const { perSecond, p50, p99 } = round
  return [perSecond, p50, p99, ...('cpu' in round ? [round.cpu, round.rss] : [Number.NaN, Number.NaN])]
}

const written = ([perSecond, p50, p99, cpu, rss]: readonly number[]) => [
  figure(perSecond!),
  figure(p50!, 2),
  figure(p99!, 2),
  figure(cpu!, 1),
  figure(rss!)
]

function medians(rounds: Rounds): Table {
  const rows = (['kafka', 'memory', 'alone'] as const).map(name => {
    const all = rounds[name].map(cells)
    return [labels[name], ...written(head.map((_, i) => median(all.map(values => values[i]!))))]
  })
  return {
    caption: `Messages of ${bytes} bytes, 64 connections, acknowledged by all replicas`,
    head: ['', ...head],
    rows
  }
}

function everyRound(rounds: Rounds): Table {
  const rows = (['kafka', 'memory', 'alone'] as const).flatMap(name =>
    rounds[name].map((round, i) => [labels[name], String(i + 1), ...written(cells(round))])
  )
  return { caption: 'Every round', head: ['', 'round', ...head], rows }
}
