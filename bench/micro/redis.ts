/**
 * What one decision in Redis costs this process: `node bench/micro/redis.ts redis://127.0.0.1:6379` (keys `bench:…`, which
 * end by themselves). Three rows send the same script: as the gateway does, by ioredis' own pipelining, and each by
 * itself. µs are CPU time of this process; Redis' own stand beside it.
 */
import { createHash } from 'node:crypto'
import { Redis } from 'ioredis'
import { systemClock } from '../../config/world.ts'
import { quotaCharge, rateCharge } from '../../gateway/counters/charges.ts'
import type { Algorithm, Charge } from '../../gateway/counters/counters.ts'
import { countersRedis } from '../../gateway/counters/redis/countersRedis.ts'
import { openRedis } from '../../gateway/redis/openRedis.ts'
import type { RedisLink } from '../../gateway/redis/redis.ts'

const url = process.argv[2] ?? 'redis://127.0.0.1:6379'
const charges = Number(process.argv[3] ?? 40_000)
const atOnce = 64
const quiet = { debug() {}, info() {}, warn() {}, error() {} }

const settings = { type: 'redis', url, nodes: [], ca_file: '', key_prefix: 'bench', max_entries: 1024 } as const
const link = await openRedis({ ...settings, nodes: [] }, { clock: systemClock, log: quiet })

/** The same, but another way of sending. */
async function by(options: { enableAutoPipelining: boolean }): Promise<[RedisLink, () => void]> {
  const redis = new Redis(url, { ...options, protocol: 2 })
  const script: RedisLink['script'] = text => {
    const sha = createHash('sha1').update(text).digest('hex')
    void redis.script('LOAD', text)
    return (keys, args) => redis.evalsha(sha, keys.length, ...keys, ...args)
  }
  await redis.ping()
  return [{ ...link, isConnected: true, script }, () => redis.disconnect()]
}

function limitsOf(algorithm: Algorithm, smoothing: boolean): Charge[][] {
  const habits = { algorithm, countsRefused: false, smoothing }
  const slope = { enabled: true, threshold: 500_000, trigger: 0.5, step: 10, delay: 1 }
  return Array.from({ length: 1000 }, (_, i) => [
    rateCharge(`rate-${algorithm}${smoothing}${i}`, { rate: 1_000_000, per: 10, smoothing: slope }, habits)!,
    quotaCharge(`quota-${algorithm}${smoothing}${i}`, { quota_max: 1e9, quota_renewal_rate: 60 })!
  ])
}

async function row(name: string, its: RedisLink, limits: Charge[][]): Promise<void> {
  const counters = countersRedis({ link: its, clock: systemClock, log: quiet, ledger: () => null })
  let left = 0
  const one = async () => {
    while (left-- > 0) await counters.charge(limits[left % limits.length]!, 1, null)
  }
  const rounds: number[][] = []
  for (let round = 0; round < 4; round++) {
    left = charges
    const usedByRedis = await cpuOfRedis()
    const before = process.cpuUsage()
    const begun = performance.now()
    await Promise.all(Array.from({ length: atOnce }, one))
    const { user, system } = process.cpuUsage(before)
    const ms = performance.now() - begun
    rounds.push([(user + system) / charges, ((await cpuOfRedis()) - usedByRedis) / charges, (charges / ms) * 1000])
  }
  const [ours, theirs, rate] = rounds.slice(1).sort((a, b) => a[0]! - b[0]!)[1]!
  console.log(
    `${name.padEnd(44)} ${ours!.toFixed(1).padStart(6)} µs ${theirs!.toFixed(1).padStart(6)} µs in Redis ${Math.round(rate!)}/s`
  )
}

/** In microseconds. */
async function cpuOfRedis(): Promise<number> {
  const info = String(await link.commands.info('cpu'))
  const of = (name: string) => Number(new RegExp(`${name}:([\\d.]+)`).exec(info)![1])
  return (of('used_cpu_user') + of('used_cpu_sys')) * 1e6
}

const [piped, endPiped] = await by({ enableAutoPipelining: true })
const [single, endSingle] = await by({ enableAutoPipelining: false })
for (const algorithm of ['bucket', 'fixed_window', 'sliding_log'] as const) {
  await row(`[rate, quota], ${algorithm}`, link, limitsOf(algorithm, false))
  await row(`[rate, quota], ${algorithm}, smoothing`, link, limitsOf(algorithm, true))
}
await row('bucket, pipelining of ioredis', piped, limitsOf('bucket', false))
await row('bucket, each by itself', single, limitsOf('bucket', false))
endPiped()
endSingle()
await link.close()
