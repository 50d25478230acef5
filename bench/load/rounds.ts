import type { Contender, Started } from './contenders.ts'
import { generate, type Load, type Measured } from './generator.ts'
import { cpuTime, memory, type Running } from './processes.ts'
import { type Options, progress, type Report } from './scenario.ts'
import { figure, median, type Table } from './table.ts'

export interface Entry {
  readonly contender: Contender
  /** What differs from 64 connections on the contender's own address for the length of a round. */
  readonly load?: Partial<Load>
  /** `refusal`: every answer must be one. Default: none may be. */
  readonly expects?: 'success' | 'refusal'
}

/** One measurement. */
export interface Round extends Measured {
  readonly perSecond: number
  /** CPU time of the contender's process, µs a request. */
  readonly cpu: number
  /** MiB, at the end and at the highest. */
  readonly rss: number
  readonly peak: number
  /** Of what the contender counts beside, a request; NaN: it counts nothing. */
  readonly tally: number
  /** Answers other than expected, and missing ones. */
  readonly failed: number
}

export type Results = ReadonlyMap<string, readonly Round[]>

/**
 * Measures the entries in turn, each time in a fresh process, round after round: what changes on the machine meanwhile
 * meets all of them. Every second round runs in the opposite order.
 */
export async function alternate(entries: readonly Entry[], upstream: Running, options: Options): Promise<Results> {
  const results = new Map(entries.map(({ contender }) => [contender.name, [] as Round[]]))
  for (let round = 1; round <= options.rounds; round++) {
    for (const entry of round % 2 === 1 ? entries : entries.toReversed()) {
      const { name } = entry.contender
      const started = await entry.contender.start(upstream)
      const measured = await measureWarm(entry, started, options)
      await started.stop()
      results.get(name)!.push(measured)
      progress(`round ${round}/${options.rounds}  ${name}: ${summary(measured)}`)
    }
  }
  return results
}

export async function measureWarm(entry: Entry, started: Started, options: Options): Promise<Round> {
  const load = { connections: 64, seconds: options.seconds, ...started.load, ...entry.load }
  await mustAnswer(entry, load)
  await generate({ ...load, seconds: warmUp(options) })
  return measure(started, load, entry.expects)
}

/**
 * The generators tell refusals from answers and no more: one look says which refusal it is. It also takes what a limit
 * of one request lets through.
 * @throws Error when it answers something else
 */
async function mustAnswer({ contender, expects }: Entry, load: Load): Promise<void> {
  const ask = async () => {
    const response = await fetch(new URL(load.paths?.[0] ?? load.url, load.url), { headers: { ...load.headers } })
    await response.body?.cancel()
    return response.status
  }
  const [, second] = [await ask(), await ask()]
  const wanted = expects === 'refusal' ? 429 : 200
  if (second !== wanted) throw new Error(`${contender.name} answers ${second} instead of ${wanted}`)
}

export function warmUp({ seconds }: Options): number {
  return Math.max(1, Math.ceil(seconds / 3))
}

/** Sends a load and tells what it cost the process. */
export async function measure(
  { running, tally }: Started,
  load: Load,
  expects: Entry['expects'] = 'success'
): Promise<Round> {
  const counted = (await tally?.()) ?? Number.NaN
  const before = cpuTime(running.pid)
  const measured = await generate(load)
  running.mustRun()
  const cpu = (cpuTime(running.pid) - before) / measured.requests
  const wrong = expects === 'refusal' ? measured.requests - measured.refused : measured.refused
  const perSecond = measured.requests / measured.seconds
  const tallied = (((await tally?.()) ?? Number.NaN) - counted) / measured.requests
  return { ...measured, ...memory(running.pid), perSecond, cpu, tally: tallied, failed: wrong + measured.broken }
}

function summary({ perSecond, p50, p99, cpu, failed }: Round): string {
  const failures = failed === 0 ? '' : `, ${failed} FAILED`
  return `${figure(perSecond)}/s, p50 ${figure(p50, 2)} ms, p99 ${figure(p99, 2)} ms, ${figure(cpu, 1)} µs${failures}`
}

export type Figure = 'perSecond' | 'p50' | 'p99' | 'worst' | 'cpu' | 'rss' | 'peak'

export function medianOf(rounds: readonly Round[] | undefined, of: Figure): number | null {
  if (rounds === undefined || rounds.length === 0) return null
  const value = median(rounds.map(round => round[of]))
  return Number.isFinite(value) ? value : null
}

/** Null: it counts nothing beside. */
export function medianOfTally(rounds: readonly Round[] | undefined): number | null {
  const value = rounds === undefined ? Number.NaN : median(rounds.map(({ tally }) => tally))
  return Number.isFinite(value) ? value : null
}

/** How many times the one has of the other's figure; null when one of them is unknown. */
export function ratio(results: Results, of: Figure, one: string, other: string): number | null {
  const [a, b] = [medianOf(results.get(one), of), medianOf(results.get(other), of)]
  return a === null || b === null ? null : a / b
}

/** Medians, with the ratio to each of `against` in requests a second and in CPU time. */
export function medians(caption: string, results: Results, against: readonly string[]): Table {
  const known = against.filter(name => results.has(name))
  const head = [
    '',
    'requests/s',
    'p50 ms',
    'p99 ms',
    'CPU µs/request',
    'RSS MiB',
    ...known.flatMap(name => [`rate ÷ ${name}`, `CPU ÷ ${name}`])
  ]
  const rows = [...results].map(([name, rounds]) => [
    name,
    figure(medianOf(rounds, 'perSecond')),
    figure(medianOf(rounds, 'p50'), 2),
    figure(medianOf(rounds, 'p99'), 2),
    figure(medianOf(rounds, 'cpu'), 1),
    figure(medianOf(rounds, 'rss')),
    ...known.flatMap(other => [
      figure(ratio(results, 'perSecond', name, other), 2),
      figure(ratio(results, 'cpu', name, other), 2)
    ])
  ])
  return { caption, head, rows }
}

export function everyRound(results: Results): Table {
  const head = [
    '',
    'round',
    'requests/s',
    'p50 ms',
    'p99 ms',
    'worst ms',
    'CPU µs/request',
    'RSS MiB',
    'peak MiB',
    'requests',
    'failed'
  ]
  const rows = [...results].flatMap(([name, rounds]) =>
    rounds.map((round, i) => [
      name,
      String(i + 1),
      figure(round.perSecond),
      ...[round.p50, round.p99, round.worst].map(ms => figure(ms, 2)),
      figure(round.cpu, 1),
      figure(round.rss),
      figure(round.peak),
      figure(round.requests),
      figure(round.failed)
    ])
  )
  return { caption: 'Every round', head, rows }
}

export function failures(results: Results): string[] {
  return [...results].flatMap(([name, rounds]) => {
    const failed = rounds.reduce((sum, round) => sum + round.failed, 0)
    const requests = rounds.reduce((sum, round) => sum + round.requests, 0)
    if (requests === 0) return [`${name}: no request was answered`]
    return failed === 0
      ? []
      : [`${name}: ${figure(failed)} of ${figure(requests)} requests were not answered as expected`]
  })
}

/** The usual report: medians, every round, failures. */
export function report(
  caption: string,
  results: Results,
  against: readonly string[],
  targets: Report['targets']
): Report {
  return {
    tables: [medians(caption, results, against)],
    details: [everyRound(results)],
    targets,
    failures: failures(results)
  }
}
