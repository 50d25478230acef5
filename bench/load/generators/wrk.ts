import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { folder, run } from '../processes.ts'
import type { Load, Measured, Tokens } from './load.ts'

interface Summary {
  readonly requests: number
  readonly us: number
  readonly p50: number
  readonly p99: number
  readonly max: number
  readonly status: number
  readonly connect: number
  readonly read: number
  readonly write: number
  readonly timeout: number
}

/** wrk with one thread; its script prints the figures as JSON, in its own microseconds. */
export async function wrk(load: Load): Promise<Measured> {
  const temp = folder()
  try {
    const script = join(temp.path, 'load.lua')
    writeFileSync(script, lua(load))
    const headers = Object.entries(load.headers ?? {}).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
    const connections = ['-t1', `-c${load.connections}`]
    const time = [`-d${Math.ceil(load.seconds!)}s`, '--timeout', '60s']
    const out = await run(load.place ?? 'others', 'wrk', [...connections, ...time, ...headers, '-s', script, load.url])
    const found = JSON.parse(/^figures (.*)$/m.exec(out)![1]!) as Summary
    return {
      requests: found.requests,
      seconds: found.us / 1e6,
      p50: found.p50 / 1000,
      p99: found.p99 / 1000,
      worst: found.max / 1000,
      refused: found.status,
      broken: found.connect + found.read + found.write + found.timeout,
      each: null
    }
  } finally {
    temp.remove()
  }
}

const done = `
function done(summary, latency, requests)
  local e = summary.errors
  print(string.format(
    'figures {"requests":%d,"us":%d,"p50":%d,"p99":%d,"max":%d,"status":%d,"connect":%d,"read":%d,"write":%d,"timeout":%d}',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency.max,
    e.status, e.connect, e.read, e.write, e.timeout))
end
`

function lua({ post, paths, tokens }: Load): string {
  if (post !== undefined) return `wrk.method = 'POST'\nwrk.body = string.rep('x', ${post})\n${done}`
  if (paths !== undefined) return inTurn(paths) + done
  if (tokens !== undefined) return anyToken(tokens) + done
  return done
}

/** The requests are made before the load begins. */
const inTurn = (paths: readonly string[]) => `
local paths = ${JSON.stringify(paths).replace('[', '{').replace(/\]$/, '}')}
local ready, turn = {}, 0
function init()
  for i, path in ipairs(paths) do ready[i] = wrk.format(nil, path) end
end
function request()
  turn = turn % #ready + 1
  return ready[turn]
end
`

/** The request is cut in two around the token, so that a request costs the generator one concatenation. */
const anyToken = ({ file, length, count, order }: Tokens) => `
local all, before, after
local turn = -1
function init()
  local input = io.open(${JSON.stringify(file)}, 'rb')
  all = input:read('*a')
  input:close()
  math.randomseed(1)
  wrk.headers['Authorization'] = '<token>'
  local whole = wrk.format()
  local from, to = whole:find('<token>', 1, true)
  before, after = whole:sub(1, from - 1), whole:sub(to + 1)
end
function request()
  ${order === 'in turn' ? `turn = (turn + 1) % ${count}` : `turn = math.random(0, ${count - 1})`}
  local at = turn * ${length + 1}
  return before .. all:sub(at + 1, at + ${length}) .. after
end
`
