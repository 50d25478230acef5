import { Agent } from 'node:http'
import t from 'tap'
import { api, gateway, rights, withKey } from '../helpers/gateway.ts'
import { upstream } from '../helpers/upstream.ts'
import { ask } from './ask.ts'

const CLIENTS = 64
const EACH = 10
const N = 100

/** 64 connections at once, each with its requests one behind the other; how many of each status came. */
async function hammer(
  gw: { url: string },
  path: string,
  headers: Record<string, string>
): Promise<Record<number, number>> {
  const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS })
  const counts: Record<number, number> = {}
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      for (let i = 0; i < EACH; i++) {
        const { status } = await ask(gw, path, { headers, agent })
        counts[status] = (counts[status] ?? 0) + 1
      }
    })
  )
  agent.destroy()
  return counts
}

// A window of years: none ends while the test runs.
const YEARS = 86_400_000

for (const rate_limiter of ['bucket', 'fixed_window', 'sliding_log'])
  t.test(
    `${rate_limiter}: 64 connections get exactly ${N} through, by key, with throttling, by API and by quota`,
    async t => {
      const up = await upstream(t)
      const gw = await gateway(t, {
        settings: { gateway: { rate_limiter } },
        apis: [
          api('a', up.url, { server: withKey }),
          api('limited', up.url, { upstream: { rateLimit: { enabled: true, rate: N, per: '24000h' } } })
        ]
      })
      const over = CLIENTS * EACH - N
      const rate = { ...rights('a'), rate: N, per: YEARS }
      const cases: [what: string, key: object | null, refused: number][] = [
        ['key', rate, 429],
        ['key with throttling', { ...rate, throttle_interval: 0.002, throttle_retry_limit: 2 }, 429],
        ['quota', { ...rights('a'), quota_max: N, quota_renewal_rate: YEARS }, 403],
        ['API', null, 429]
      ]
      for (const [what, given, refused] of cases) {
        const before = up.requests.length
        const headers: Record<string, string> = given === null ? {} : { Authorization: await gw.key({ ...given }) }
        t.same(await hammer(gw, given === null ? '/limited/' : '/a/', headers), { 200: N, [refused]: over }, what)
        t.equal(up.requests.length - before, N, what)
      }
    }
  )
