import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { folder, run } from '../processes.ts'
import { percentile } from '../table.ts'
import type { Load, Measured } from './load.ts'

/** h2load over HTTP/1.1. Its log has a line a request: start in µs since the epoch, status (-1: none), µs it took. */
export async function h2load({
  url,
  connections,
  seconds,
  amount,
  rate,
  headers = {},
  paths
}: Load): Promise<Measured> {
  const temp = folder()
  try {
    const log = join(temp.path, 'requests.tsv')
    // The rate is told for each connection, with fractions.
    const held = rate === undefined ? [] : ['--rps', String(rate / connections)]
    const bound = amount === undefined ? ['-D', String(seconds)] : ['-n', String(amount)]
    const sent = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
    const args = ['--h1', '-c', String(connections), ...bound, ...held, `--log-file=${log}`, ...sent]
    const urls = paths?.map(path => new URL(path, url).href) ?? [url]
    const out = await run('others', 'h2load', [...args, ...urls])
    const errors = /(\d+) errored, (\d+) timeout/.exec(out)!
    return read(readFileSync(log, 'latin1'), Number(errors[1]) + Number(errors[2]))
  } finally {
    temp.remove()
  }
}

function read(log: string, errors: number): Measured {
  const lines = log.split('\n')
  lines.pop()
  const at = new Float64Array(lines.length)
  const ms = new Float64Array(lines.length)
  let refused = 0
  let broken = 0
  let last = 0
  for (let i = 0; i < lines.length; i++) {
    const [began, status, took] = lines[i]!.split('\t').map(Number) as [number, number, number]
    at[i] = began / 1000
    ms[i] = took / 1000
    if (status < 0) broken++
    else if (status >= 400) refused++
    last = Math.max(last, at[i]! + ms[i]!)
  }
  const sorted = ms.toSorted()
  return {
    requests: lines.length - broken,
    seconds: lines.length === 0 ? 0 : (last - at.reduce((first, each) => Math.min(first, each), last)) / 1000,
    p50: percentile(sorted, 0.5),
    p99: percentile(sorted, 0.99),
    worst: sorted.at(-1) ?? Number.NaN,
    refused,
    broken: Math.max(broken, errors),
    each: { at, ms }
  }
}
