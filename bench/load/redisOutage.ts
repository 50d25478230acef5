import { setTimeout as pause } from 'node:timers/promises'
import { gateway, generous } from './contenders.ts'
import type { Running } from './processes.ts'
import { inRedis, portOf, startRedis } from './redis.ts'
import { type Options, progress, type Scenario, target } from './scenario.ts'
import { type Sample, steady } from './steady.ts'
import { figure, median, percentile } from './table.ts'
import { startUpstream } from './upstream.ts'

const BUDGET_MS = 50
const RATE = 2_000
const policies = ['allow', 'refuse', 'local'] as const
type Policy = (typeof policies)[number]

/** One outage under load. */
interface Round {
  readonly policy: Policy
  readonly before: readonly Sample[]
  readonly during: readonly Sample[]
  readonly after: readonly Sample[]
  /** From Redis's return to the first answer that it decided, ms. */
  readonly backMs: number
}

export const redisOutage: Scenario = {
  name: 'redis-outage',
  summary: 'Redis killed and started again under 2,000 requests/s, with each policy',
  async run(options) {
    const upstream = await startUpstream()
    const rounds: Round[] = []
    for (let i = 1; i <= options.rounds; i++) {
      for (const policy of policies) {
        const round = await measure(policy, upstream, options)
        rounds.push(round)
        progress(
          `round ${i}/${options.rounds}  ${policy}: worst ${figure(worst(round.during), 1)} ms, back after ${figure(round.backMs)} ms`
        )
      }
    }
    await upstream.stop()
    const rows = rounds.map(({ policy, before, during, after, backMs }) => [
      policy,
      ...[before, during, after].flatMap(samples => [p99(samples), figure(worst(samples), 1), statuses(samples)]),
      figure(backMs)
    ])
    const head = [
      '',
      ...['before', 'while away', 'after'].flatMap(when => [`p99 ms ${when}`, `worst ms`, 'statuses']),
      'back after ms'
    ]
    return {
      tables: [{ caption: `Redis killed under load, budget ${BUDGET_MS} ms`, head, rows }],
      details: [],
      targets: [
        target('longest answer, all phases', Math.max(...rounds.map(all).map(worst)), '<=', BUDGET_MS + 50, ' ms'),
        target('back to normal', Math.max(...rounds.map(({ backMs }) => backMs)), '<=', 2_000, ' ms'),
        target('back to normal, median', median(rounds.map(({ backMs }) => backMs)), '<=', 2_000, ' ms')
      ],
      failures: rounds.flatMap(broken)
    }
  }
}

async function measure(policy: Policy, upstream: Running, { env, seconds }: Options): Promise<Round> {
  const redis = await startRedis('others')
  const settings = { ...env, ...inRedis(redis), SVC_GATEWAY__COUNTERS_FAILURE: policy }
  const started = await gateway({ name: policy, env: settings, key: generous }).start(upstream)
  const load = await steady({ url: started.load.url, headers: started.load.headers ?? {}, rate: RATE, connections: 64 })
  // The program and its connections become warm first.
  await pause(2_000)
  const from = Date.now()
  await pause((seconds * 1000) / 3)
  process.kill(redis.pid, 'SIGKILL')
  const killed = Date.now()
  await pause((seconds * 1000) / 3)
  const again = await startRedis('others', portOf(redis))
  const returned = Date.now()
  const backMs = await untilUsed(started.running.url, returned)
  await pause((seconds * 1000) / 3)
  const samples = await load.stop()
  await started.stop()
  await again.stop()
  const between = (begin: number, end: number) => samples.filter(({ at }) => at >= begin && at < end)
  return {
    policy,
    before: between(from, killed),
    during: between(killed, returned),
    after: between(returned + backMs, Number.POSITIVE_INFINITY),
    backMs
  }
}

/** Milliseconds until the gateway says that it counts in Redis again. */
async function untilUsed(url: string, from: number): Promise<number> {
  for (;;) {
    const answer = (await (await fetch(`${url}/hello`)).json()) as { details?: { counters?: { status?: string } } }
    if (answer.details?.counters?.status === 'pass') return Date.now() - from
    if (Date.now() - from > 30_000) throw new Error('the gateway does not count in Redis again')
    await pause(10)
  }
}

const all = ({ before, during, after }: Round) => [...before, ...during, ...after]
const worst = (samples: readonly Sample[]) => samples.reduce((most, { ms }) => Math.max(most, ms), 0)
const p99 = (samples: readonly Sample[]) =>
  figure(
    percentile(
      samples.map(({ ms }) => ms).toSorted((a, b) => a - b),
      0.99
    ),
    1
  )

function statuses(samples: readonly Sample[]): string {
  const counts = Map.groupBy(samples, ({ status }) => status)
  return [...counts].map(([status, list]) => `${status}: ${list.length}`).join(', ')
}

/** Statuses that the contract does not have. */
function broken(round: Round): string[] {
  const { policy, before, during, after } = round
  const away = policy === 'refuse' ? [200, 503] : [200]
  const wrong = [
    ...before.filter(({ status }) => status !== 200),
    ...during.filter(({ status }) => !away.includes(status)),
    ...after.filter(({ status }) => status !== 200)
  ]
  return wrong.length === 0 ? [] : [`${policy}: ${statuses(wrong)} beside the contract`]
}
