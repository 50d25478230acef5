import type { Received } from './clients/job.ts'
import { receiving } from './clients/receive.ts'
import { failures } from './fanout.ts'
import { generate, type Load, type Measured } from './generator.ts'
import type { Running } from './processes.ts'
import { warmUp } from './rounds.ts'
import { type Options, progress, type Scenario, target } from './scenario.ts'
import { delivered, embedded, listenPath, produced, streaming } from './streaming.ts'
import { figure, median, type Table } from './table.ts'
import { startUpstream } from './upstream.ts'

const rate = 1_000
/** Enough to keep the gateway's core busy. `one by one`: each message is a write for each client; `joined`: many leave in one. */
const feeds = {
  'one by one': { posts: 'alone', window: 2 },
  joined: { posts: 'together', window: 100 }
} as const
type Name = 'alone' | keyof typeof feeds
const names: readonly Name[] = ['alone', 'one by one', 'joined']

/** Through the gateway, and to the upstream itself at the same time: what the generator's core adds shows in both. */
interface Look {
  readonly through: Measured
  readonly direct: Measured
  /** Null: nothing was sent to clients. */
  readonly received: Received | null
}
type Round = Readonly<Record<Name, Look>>

export const streamBeside: Scenario = {
  name: 'stream-beside',
  summary: 'proxied requests at 1,000/s beside a full fan-out to 1,000 SSE clients',
  async run(options) {
    const upstream = await startUpstream()
    const rounds: Round[] = []
    for (let i = 1; i <= options.rounds; i++) {
      const round = await measure(upstream, options)
      rounds.push(round)
      const p99 = names.map(name => `${name} ${figure(round[name].through.p99, 2)}`).join(', ')
      progress(`round ${i}/${options.rounds}, p99 in ms: ${p99}`)
    }
    await upstream.stop()
    const rise = (name: Name, of: 'through' | 'direct') =>
      median(rounds.map(round => round[name][of].p99 - round.alone[of].p99))
    const looks = rounds.flatMap(round => names.map(name => round[name]))
    const failed = looks.reduce((sum, { through }) => sum + through.refused + through.broken, 0)
    return {
      tables: [table(rounds)],
      details: [],
      targets: names
        .slice(1)
        .flatMap(name => [
          target(`rise of the p99 of proxied requests, ${name}`, rise(name, 'through'), '<=', 10, ' ms'),
          target(
            'the same without what the generator’s core adds',
            rise(name, 'through') - rise(name, 'direct'),
            '<=',
            10,
            ' ms'
          )
        ]),
      failures: [
        ...(failed > 0 ? [`${figure(failed)} requests failed`] : []),
        ...failures(
          'fan-out',
          looks.flatMap(({ received }) => received ?? [])
        )
      ]
    }
  }
}

async function measure(upstream: Running, options: Options): Promise<Round> {
  const { running, stop } = await streaming(options, {
    streams: { in: produced('/in', embedded), out: delivered('/out', embedded, 'broadcast') },
    apis: url => [{ id: 'bench', listenPath: '/bench/', upstream: url, access: 'keyless' }],
    upstream
  })
  const held = { connections: 16, rate, seconds: options.seconds }
  const through: Load = { ...held, url: `${running.url}/bench/items/7` }
  const direct: Load = { ...held, url: `${upstream.url}/bench/items/7` }
  const base = running.url + listenPath
  const look = async (name: Name): Promise<Look> => {
    const fanout =
      name === 'alone'
        ? null
        : await receiving({
            url: `${base}/out/sse`,
            transport: 'sse',
            clients: options.quick ? 50 : 1_000,
            pid: running.pid,
            to: 'each',
            feed: { to: 'http', url: `${base}/in`, ...feeds[name] },
            warmUp: warmUp(options),
            seconds: 3_600,
            isChecked: true
          })
    const measured = { through: await generate(through), direct: await generate(direct) }
    return { ...measured, received: fanout === null ? null : await fanout.end() }
  }
  await generate({ ...through, seconds: warmUp(options) })
  const round = { alone: await look('alone'), 'one by one': await look('one by one'), joined: await look('joined') }
  await stop()
  return round
}

function table(rounds: readonly Round[]): Table {
  const rows = rounds.flatMap((round, i) =>
    names.map(name => {
      const { through, direct, received } = round[name]
      const rate = received === null ? Number.NaN : received.messages / received.seconds
      const cpu = received === null ? Number.NaN : received.cpu / 10_000 / received.seconds
      const times = [through.p50, through.p99, direct.p50, direct.p99].map(ms => figure(ms, 2))
      return [name, String(i + 1), ...times, figure(rate), figure(cpu)]
    })
  )
  const head = ['', 'round', 'p50 ms', 'p99 ms', 'direct p50', 'direct p99', 'messages/s', 'gateway CPU %']
  const caption = `Proxied requests at ${figure(rate)}/s, alone and beside a fan-out; direct: the upstream itself at the same time`
  return { caption, head, rows }
}
