import type { Feed, Received } from './clients/job.ts'
import { receive } from './clients/receive.ts'
import type { Running } from './processes.ts'
import { warmUp } from './rounds.ts'
import { type Options, progress, type Scenario, target } from './scenario.ts'
import {
  type BenchKafka,
  delivered,
  described,
  embedded,
  listenPath,
  produced,
  startBare,
  startKafka,
  streaming
} from './streaming.ts'
import { figure, median, type Table } from './table.ts'

/** A broadcast to many clients, who get it as fast as they take it, beside a loop that only writes. */

type Transport = 'sse' | 'websocket'

interface Contender {
  readonly name: string
  readonly clients: number
  measure(options: Options): Promise<Received>
}

export const fanoutSse = fanout('fanout-sse', 'sse', 'res.write')
export const fanoutWs = fanout('fanout-ws', 'websocket', 'ws.send')

function fanout(name: string, transport: Transport, loop: string): Scenario {
  return {
    name,
    summary: `broadcast to 100, 1,000 and 10,000 clients, beside a bare loop of ${loop}`,
    async run(options) {
      const server = await startKafka()
      const counts = options.quick ? [20, 100] : [100, 1_000, 10_000]
      const middle = counts[1]!
      const contenders = [
        ...counts.flatMap(clients => [fromKafka(server, transport, clients), bare(transport, clients)]),
        oneByOne(transport, middle)
      ]
      const results = new Map(contenders.map(contender => [contender, [] as Received[]]))
      for (let round = 1; round <= options.rounds; round++)
        for (const contender of round % 2 === 1 ? contenders : contenders.toReversed()) {
          const received = await contender.measure(options)
          results.get(contender)!.push(received)
          progress(`round ${round}/${options.rounds}  ${label(contender)}: ${summary(received)}`)
        }
      await server.end()
      const rate = (name: string) => {
        const [, rounds] = [...results].find(([each]) => each.name === name && each.clients === middle)!
        return median(rounds.map(perSecond))
      }
      const clients = `${figure(middle)} clients`
      return {
        tables: [medians(results)],
        details: [everyRound(results)],
        targets: [
          target(`messages/s ÷ bare ${loop}, ${clients}`, rate('gateway') / rate('bare'), '>=', 0.75),
          target(`the same, messages one by one`, rate('one by one') / rate('bare'), '>=', 0.75)
        ],
        failures: [...results].flatMap(([contender, rounds]) => failures(label(contender), rounds))
      }
    }
  }
}

const label = ({ name, clients }: Contender) => `${name}, ${figure(clients)} clients`
const path = { sse: '/out/sse', websocket: '/out/ws' }

/** So many messages are under way that the gateway is never short of them, and far fewer than a client's queue holds. */
function windowOf(clients: number): number {
  return Math.min(200, Math.max(4, Math.floor(100_000 / clients)))
}

/** Messages come from Kafka in batches, so those of one batch may leave together. */
function fromKafka(server: BenchKafka, transport: Transport, clients: number): Contender {
  return {
    name: 'gateway',
    clients,
    async measure(options) {
      const topic = await server.fresh()
      const started = await streaming(options, { streams: { out: delivered('/out', topic, 'broadcast') } })
      const feed: Feed = { to: 'kafka', brokers: topic.addresses, topic: topic.topic, window: windowOf(clients) }
      const received = await watch(started.running, listenPath + path[transport], transport, clients, feed, options)
      await started.stop()
      return received
    }
  }
}

/** Each message has a POST of its own and two are under way: next to none can leave together. */
function oneByOne(transport: Transport, clients: number): Contender {
  return {
    name: 'one by one',
    clients,
    async measure(options) {
      const streams = { in: produced('/in', embedded), out: delivered('/out', embedded, 'broadcast') }
      const started = await streaming(options, { streams })
      const feed: Feed = { to: 'http', url: `${started.running.url}${listenPath}/in`, posts: 'alone', window: 2 }
      const received = await watch(started.running, listenPath + path[transport], transport, clients, feed, options)
      await started.stop()
      return received
    }
  }
}

function bare(transport: Transport, clients: number): Contender {
  return {
    name: 'bare',
    clients,
    async measure(options) {
      const running = await startBare(transport, clients)
      const received = await watch(running, '/', transport, clients, null, options)
      await running.stop()
      return received
    }
  }
}

function watch(
  running: Running,
  path: string,
  transport: Transport,
  clients: number,
  feed: Feed | null,
  options: Options
) {
  const { pid, url } = running
  const isChecked = feed !== null
  const { seconds } = options
  const job = { url: url + path, transport, clients, pid, to: 'each', feed, seconds, isChecked } as const
  return receive({ ...job, warmUp: warmUp(options) })
}

const perSecond = ({ messages, seconds }: Received) => messages / seconds

function summary(received: Received): string {
  const { messages, cpu, writes, busy } = received
  const each = `${figure(cpu / messages, 2)} µs and ${figure(writes / messages, 2)} writes a message`
  return `${figure(perSecond(received))}/s, ${each}, receiver ${figure(100 * busy)} % busy`
}

export function failures(name: string, rounds: readonly Received[]): string[] {
  return faults(rounds).map(text => `${name}: ${text}`)
}

export function faults(rounds: readonly Received[]): string[] {
  const sum = (of: 'missing' | 'repeated' | 'lost' | 'refused') => rounds.reduce((all, round) => all + round[of], 0)
  return [
    ...(rounds.some(({ messages }) => messages === 0) ? ['no message came'] : []),
    ...(sum('missing') > 0 ? [`${figure(sum('missing'))} messages are missing`] : []),
    ...(sum('repeated') > 0 ? [`${figure(sum('repeated'))} came more than once`] : []),
    ...(sum('lost') > 0 ? [`${figure(sum('lost'))} connections ended`] : []),
    ...(sum('refused') > 0 ? [`${figure(sum('refused'))} messages were not accepted`] : [])
  ]
}

const head = ['messages/s', 'CPU µs/message', 'writes/message', 'RSS MiB', 'receiver busy']

function cells(received: Received): number[] {
  const { messages, cpu, writes, rss, busy } = received
  return [perSecond(received), cpu / messages, writes / messages, rss, 100 * busy]
}

const written = ([rate, cpu, writes, rss, busy]: readonly number[]) => [
  figure(rate!),
  figure(cpu!, 2),
  figure(writes!, 2),
  figure(rss!),
  `${figure(busy!)} %`
]

type Results = ReadonlyMap<Contender, readonly Received[]>

function medians(results: Results): Table {
  const rows = [...results].map(([contender, rounds]) => {
    const all = rounds.map(cells)
    return [label(contender), ...written(head.map((_, i) => median(all.map(values => values[i]!))))]
  })
  const caption = `Broadcast of ${described}, counted over all clients; fewer writes than messages: several left in one`
  return { caption, head: ['', ...head], rows }
}

function everyRound(results: Results): Table {
  const rows = [...results].flatMap(([contender, rounds]) =>
    rounds.map((round, i) => [label(contender), String(i + 1), ...written(cells(round))])
  )
  return { caption: 'Every round', head: ['', 'round', ...head], rows }
}
