import { closeSync, openSync, readSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { folder, run } from '../processes.ts'
import type { Load, Measured } from './load.ts'

const program = createRequire(import.meta.url).resolve('autocannon/autocannon.js')
/** So many different requests are made ready at most: every connection makes its own. */
const mostRequests = 1_000

interface Result {
  readonly duration: number
  readonly errors: number
  readonly timeouts: number
  readonly non2xx: number
  readonly '2xx': number
  readonly latency: { readonly p50: number; readonly p99: number; readonly max: number }
}

/** autocannon from the packages: works wherever Node does, takes several times wrk's CPU time, and tells whole ms only. */
export async function autocannon(load: Load): Promise<Measured> {
  const temp = folder()
  try {
    const { connections, seconds, amount, rate, headers = {}, post, url } = load
    const args = ['--json', '--no-progress', '--connections', String(connections), '--timeout', '60']
    if (amount === undefined) args.push('--duration', String(Math.ceil(seconds!)))
    else args.push('--amount', String(amount))
    if (rate !== undefined) args.push('--overallRate', String(Math.round(rate)))
    for (const [name, value] of Object.entries(headers)) args.push('--headers', `${name}=${value}`)
    if (post !== undefined) {
      const body = join(temp.path, 'body')
      writeFileSync(body, 'x'.repeat(post))
      args.push('--method', 'POST', '--input', body)
    }
    const requests = several(load)
    if (requests !== null) {
      const har = join(temp.path, 'requests.har')
      writeFileSync(har, JSON.stringify({ log: { entries: requests.map(request => ({ request })) } }))
      args.push('--har', har)
    }
    const out = await run('others', process.execPath, [program, ...args, requests === null ? url : new URL(url).origin])
    const found = JSON.parse(out.trim().split('\n').at(-1)!) as Result
    return {
      requests: found['2xx'] + found.non2xx,
      seconds: found.duration,
      p50: found.latency.p50,
      p99: found.latency.p99,
      worst: found.latency.max,
      refused: found.non2xx,
      broken: found.errors + found.timeouts,
      each: null
    }
  } finally {
    temp.remove()
  }
}

/** The requests of a load that has different ones, as an HTTP archive knows them. */
function several({ url, paths, tokens }: Load): object[] | null {
  if (paths !== undefined) {
    return paths.map(path => ({ method: 'GET', url: new URL(path, url).href, headers: [] }))
  }
  if (tokens === undefined) return null
  const { file, length, count } = tokens
  const input = openSync(file, 'r')
  const token = Buffer.alloc(length)
  const requests = Array.from({ length: Math.min(count, mostRequests) }, () => {
    readSync(input, token, 0, length, Math.floor(Math.random() * count) * (length + 1))
    return { method: 'GET', url, headers: [{ name: 'Authorization', value: token.toString() }] }
  })
  closeSync(input)
  return requests
}
