import { randomBytes } from 'node:crypto'
import { appendFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { KeyRecord } from '../../gateway/keys/keys.ts'
import { newToken, tokenId } from '../../gateway/keys/token.ts'
import type { Write } from '../../gateway/store/store.ts'
import { storeSqlite } from '../../gateway/store/storeSqlite.ts'
import { gateway, generous, type StartedGateway } from './contenders.ts'
import { generate, type Load, type Measured } from './generator.ts'
import { folder, memory, type Running } from './processes.ts'
import { type Round as Measurement, measure, warmUp } from './rounds.ts'
import { type Options, progress, type Scenario, target } from './scenario.ts'
import { figure, median, type Table } from './table.ts'
import { startUpstream } from './upstream.ts'

const perCommit = 5_000
/** Keys on a page of `/svc/keys`, unless asked otherwise. */
const pageSize = 10
const heldRate = 2_000

type Tokens = NonNullable<Load['tokens']>

/** One process. Times are ms, memory MiB. */
interface Round {
  readonly startMs: number
  readonly rssAtStart: number
  readonly oneKey: Measurement
  readonly anyKey: Measurement
  readonly pages: readonly Page[]
  /** Requests at a held rate while nothing else, page after page, and search after search is asked for. */
  readonly quiet: Measured
  readonly paging: Measured
  readonly searching: Measured
  readonly rssAtEnd: number
}

interface Page {
  readonly page: number
  readonly p50: number
  readonly worst: number
}

export const keys: Scenario = {
  name: 'keys',
  summary: '1,000,000 keys in SQLite: look-up, list pages, what lists cost proxied requests, memory',
  async run(options) {
    const temp = folder()
    const count = options.quick ? 20_000 : 1_000_000
    const store = join(temp.path, 'svc.db')
    const tokens = { file: join(temp.path, 'tokens'), length: newToken({ bytes: randomBytes }).length, count }
    progress(`writing ${figure(count)} keys`)
    const fillSeconds = await fill(store, tokens)
    progress(`written in ${figure(fillSeconds, 1)} s`)
    const upstream = await startUpstream()
    const rounds: Round[] = []
    for (let i = 1; i <= options.rounds; i++) {
      const round = await play(store, tokens, upstream, options)
      rounds.push(round)
      const { oneKey, anyKey, pages, quiet, paging } = round
      const worstPage = Math.max(...pages.map(({ worst }) => worst))
      progress(
        `round ${i}/${options.rounds}  one key ${figure(oneKey.perSecond)}/s, any key ${figure(anyKey.perSecond)}/s, worst page ${figure(worstPage, 1)} ms, worst request ${figure(quiet.worst, 1)} → ${figure(paging.worst, 1)} ms`
      )
    }
    await upstream.stop()
    const written = `${figure(count)} keys, ${figure(statSync(store).size / 2 ** 20)} MiB, written in ${figure(fillSeconds, 1)} s`
    temp.remove()
    const worstPages = rounds.flatMap(({ pages }) => pages.map(({ worst }) => worst))
    const delay = (which: 'paging' | 'searching') => median(rounds.map(round => round[which].worst - round.quiet.worst))
    return {
      tables: [lookUp(rounds, written), listing(rounds), beside(rounds)],
      details: [],
      targets: [
        target('any list page, worst', Math.max(...worstPages), '<=', 50, ' ms'),
        target(
          'worst request while pages are asked for, above that of quiet times, median of rounds',
          delay('paging'),
          '<=',
          5,
          ' ms'
        ),
        target('the same while keys are searched', delay('searching'), '<=', 5, ' ms')
      ],
      failures: faults(rounds)
    }
  }
}

/** Writes the keys and, one a line, their tokens. @returns seconds */
async function fill(path: string, { file, count }: Tokens): Promise<number> {
  const from = performance.now()
  const store = await storeSqlite({ path, log: { debug() {}, info() {}, warn: console.error, error: console.error } })
  for (let first = 0; first < count; first += perCommit) {
    const tokens = Array.from({ length: Math.min(perCommit, count - first) }, () => newToken({ bytes: randomBytes }))
    await store.commit(tokens.map(keyOf))
    appendFileSync(file, `${tokens.join('\n')}\n`)
  }
  await store.close()
  return (performance.now() - from) / 1000
}

function keyOf(token: string): Write {
  const body: KeyRecord = {
    name: null,
    generated: true,
    key: {
      ...generous,
      org_id: 'default',
      date_created: '2026-01-01T00:00:00.000Z',
      last_updated: '1767225600',
      access_rights: { bench: { api_id: 'bench', api_name: 'bench', versions: ['Default'] } },
      meta_data: { plan: 'gold' },
      tags: ['gold', 'eu']
    }
  }
  return { kind: 'key', id: tokenId(token), org: 'default', body }
}

async function play(store: string, tokens: Tokens, upstream: Running, options: Options): Promise<Round> {
  const { seconds } = options
  const from = performance.now()
  const started = await gateway({ name: 'gateway', env: options.env, store, key: generous, accessLog: 'file' }).start(
    upstream
  )
  const startMs = performance.now() - from
  const { pid } = started.running
  const rssAtStart = memory(pid).rss
  const load = { ...started.load, connections: 64, seconds }
  await generate({ ...load, seconds: warmUp(options) })
  const oneKey = await measure(started, load)
  const any = { ...load, headers: {}, tokens }
  await generate({ ...any, seconds: warmUp(options) })
  const anyKey = await measure(started, any)
  const pages = await readPages(started, tokens.count)
  const held = { ...load, connections: 16, rate: heldRate }
  const quiet = await generate(held)
  const last = Math.floor(tokens.count / pageSize)
  const paging = await during(generate(held), () => readPage(started, 1 + Math.floor(Math.random() * last)))
  const searching = await during(generate(held), () => started.svc('GET', '/svc/keys?p=1&filter=no-such-key'))
  const rssAtEnd = memory(pid).rss
  await started.stop()
  return { startMs, rssAtStart, oneKey, anyKey, pages, quiet, paging, searching, rssAtEnd }
}

/** Repeats the call, one after another, until the load has ended. */
async function during(load: Promise<Measured>, call: () => Promise<unknown>): Promise<Measured> {
  let going = true
  const end = () => {
    going = false
  }
  load.then(end, end)
  while (going) await call()
  return load
}

async function readPages(started: StartedGateway, count: number): Promise<Page[]> {
  const last = Math.floor(count / pageSize)
  const pages: Page[] = []
  for (const page of [1, last >> 1, last]) {
    const times: number[] = []
    for (let i = 0; i < 30; i++) {
      const from = performance.now()
      await readPage(started, page)
      times.push(performance.now() - from)
    }
    pages.push({ page, p50: median(times), worst: Math.max(...times) })
  }
  return pages
}

/** @throws Error when it is not a whole page */
async function readPage(started: StartedGateway, page: number): Promise<void> {
  const { keys } = (await started.svc('GET', `/svc/keys?p=${page}`)) as { keys: string[] }
  if (keys.length !== pageSize) throw new Error(`page ${page} of /svc/keys has ${keys.length} keys`)
}

function faults(rounds: readonly Round[]): string[] {
  const failed = rounds.flatMap(({ oneKey, anyKey, quiet, paging, searching }) => [
    oneKey.failed + anyKey.failed,
    ...[quiet, paging, searching].map(({ refused, broken }) => refused + broken)
  ])
  const sum = failed.reduce((all, each) => all + each, 0)
  return sum > 0 ? [`${figure(sum)} requests were not answered as expected`] : []
}

function lookUp(rounds: readonly Round[], written: string): Table {
  const rows = rounds.map(({ oneKey, anyKey, startMs, rssAtStart, rssAtEnd }, i) => [
    String(i + 1),
    ...[oneKey, anyKey].flatMap(({ perSecond, cpu, rss }) => [figure(perSecond), figure(cpu, 1), figure(rss)]),
    figure(startMs),
    figure(rssAtStart),
    figure(rssAtEnd)
  ])
  const head = [
    'round',
    'one key/s',
    'CPU µs',
    'RSS MiB',
    'any key/s',
    'CPU µs',
    'RSS MiB',
    'start ms',
    'RSS at start',
    'RSS at end'
  ]
  return { caption: `Requests with one key and with any key of ${written}; 64 connections`, head, rows }
}

function listing(rounds: readonly Round[]): Table {
  const rows = rounds.flatMap(({ pages }, i) =>
    pages.map(({ page, p50, worst }) => [String(i + 1), figure(page), figure(p50, 2), figure(worst, 2)])
  )
  return { caption: 'Pages of /svc/keys, 30 times each', head: ['round', 'page', 'p50 ms', 'worst ms'], rows }
}

function beside(rounds: readonly Round[]): Table {
  const rows = rounds.map(({ quiet, paging, searching }, i) => [
    String(i + 1),
    ...[quiet, paging, searching].flatMap(({ p99, worst }) => [figure(p99, 2), figure(worst, 2)])
  ])
  const head = ['round', 'p99 quiet', 'worst', 'p99 with pages', 'worst', 'p99 with searches', 'worst']
  return { caption: `Requests at ${figure(heldRate)}/s while lists are asked for without a pause, ms`, head, rows }
}
