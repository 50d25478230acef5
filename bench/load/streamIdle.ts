import type { Received } from './clients/job.ts'
import { receive } from './clients/receive.ts'
import type { Running } from './processes.ts'
import { type Options, progress, type Scenario, target } from './scenario.ts'
import { delivered, embedded, listenPath, startBare, streaming } from './streaming.ts'
import { figure, median, type Table } from './table.ts'

interface Contender {
  readonly name: string
  start(options: Options): Promise<{ readonly running: Running; readonly path: string; stop(): Promise<void> }>
}

const contenders: readonly Contender[] = [
  {
    name: 'gateway',
    async start(options) {
      const streams = { out: delivered('/out', embedded, 'group') }
      const { running, stop } = await streaming(options, { streams })
      return { running, path: `${listenPath}/out/sse`, stop }
    }
  },
  {
    name: 'bare',
    async start() {
      const running = await startBare('sse', 0)
      return { running, path: '/', stop: running.stop }
    }
  }
]

export const streamIdle: Scenario = {
  name: 'stream-idle',
  summary: 'memory of an idle SSE client at 10,000 of them, beside a bare server',
  async run(options) {
    const clients = options.quick ? 500 : 10_000
    const results = new Map(contenders.map(contender => [contender, [] as Received[]]))
    for (let round = 1; round <= options.rounds; round++)
      for (const contender of round % 2 === 1 ? contenders : contenders.toReversed()) {
        const received = await measure(contender, clients, options)
        results.get(contender)!.push(received)
        progress(
          `round ${round}/${options.rounds}  ${contender.name}: ${figure(each(received, clients), 1)} KB a client`
        )
      }
    const gateway = median(results.get(contenders[0]!)!.map(round => each(round, clients)))
    return {
      tables: [table(results, clients)],
      details: [],
      targets: [target(`memory of an idle client at ${figure(clients)}`, gateway, '<=', 25, ' KB')],
      failures: [...results].flatMap(([{ name }, rounds]) =>
        rounds.filter(({ lost }) => lost > 0).map(({ lost }) => `${name}: ${lost} connections ended`)
      )
    }
  }
}

/** Some come and go before, so that code and caches of the first client are not the ten thousandth's. */
async function measure(contender: Contender, clients: number, options: Options): Promise<Received> {
  const { running, path, stop } = await contender.start(options)
  const job = { url: running.url + path, transport: 'sse', pid: running.pid, to: 'one', feed: null } as const
  const still = { ...job, warmUp: 0, isChecked: false } as const
  await receive({ ...still, clients: 200, seconds: 1 })
  const received = await receive({ ...still, clients, seconds: options.seconds })
  await stop()
  return received
}

/** KB of resident memory that came with each, once garbage of the connecting had time to go. */
const each = ({ rss, before }: Received, clients: number) => ((rss - before) * 1024) / clients

function table(results: ReadonlyMap<Contender, readonly Received[]>, clients: number): Table {
  const rows = [...results].flatMap(([{ name }, rounds]) =>
    rounds.map((round, i) => {
      const { before, quiet, rss, cpu, seconds } = round
      return [
        name,
        String(i + 1),
        figure(each(round, clients), 1),
        ...[before, quiet, rss].map(mib => figure(mib)),
        figure(cpu / seconds / 10_000, 1)
      ]
    })
  )
  const head = ['', 'round', 'KB a client', 'MiB before', 'MiB connected', 'MiB later', 'CPU %']
  return { caption: `${figure(clients)} SSE clients who get nothing but signs of life`, head, rows }
}
