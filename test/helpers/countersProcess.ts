import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { systemClock } from '../../config/world.ts'
import type { Charge, Standing } from '../../gateway/counters/counters.ts'
import { countersRedis } from '../../gateway/counters/redis/countersRedis.ts'
import type { Remote } from '../../gateway/counters/remote.ts'
import { openRedis } from '../../gateway/redis/openRedis.ts'
import type { Ending } from './postgres.ts'
import { linkSettings, quietLog } from './redisLink.ts'

/** A process that charges limits as fast as it can, so that tests see several do so at once. */

export interface Hammering {
  readonly url?: string
  readonly nodes?: readonly string[]
  /** Round after round, the limits that are charged in it. */
  readonly rounds: readonly (readonly Charge[])[]
  /** How many charges in a round, and how many at once. */
  readonly charges: number
  readonly atOnce: number
  /** Its own clock runs so much before the server's. */
  readonly skewMs?: number
}

/** Of a round. */
export interface Hammered {
  /** How many charges passed; how many each limit refused; how many failed. */
  readonly passed: number
  readonly refused: readonly number[]
  readonly failed: number
  /** Of the last charge that was refused, and when it was. */
  readonly last: { readonly standing: Standing; readonly now: number } | null
}

/** Processes that begin together; of each one its rounds. */
export async function hammer(t: Ending, tasks: readonly Hammering[]): Promise<Hammered[][]> {
  const children = tasks.map(() =>
    spawn(process.execPath, ['--disable-warning=ExperimentalWarning', import.meta.filename], {
      stdio: ['pipe', 'pipe', 'inherit']
    })
  )
  for (const child of children) t.teardown(() => child.kill('SIGKILL'))
  const lines = children.map(child => createInterface({ input: child.stdout! })[Symbol.asyncIterator]())
  for (const [i, task] of tasks.entries()) say(children[i]!, task)
  await Promise.all(lines.map(line => line.next()))
  for (const child of children) say(child, 'go')
  return Promise.all(lines.map(async line => JSON.parse(String((await line.next()).value))))
}

function say(child: ChildProcess, what: unknown): void {
  // What Infinity is, JSON does not know.
  child.stdin!.write(`${JSON.stringify(what, (_, value) => (value === Number.POSITIVE_INFINITY ? 'never' : value))}\n`)
}

async function round(counters: Remote, limits: readonly Charge[], charges: number, atOnce: number): Promise<Hammered> {
  let left = charges
  let passed = 0
  let failed = 0
  let last: Hammered['last'] = null
  const refused = limits.map(() => 0)
  async function one(): Promise<void> {
    while (left-- > 0) {
      try {
        const verdict = await counters.charge(limits, 1, null)
        if (verdict.refused < 0) passed++
        else {
          refused[verdict.refused]!++
          last = { standing: verdict.standings[verdict.refused]!, now: verdict.now }
        }
      } catch {
        failed++
      }
    }
  }
  await Promise.all(Array.from({ length: atOnce }, one))
  return { passed, refused, failed, last }
}

async function run(): Promise<void> {
  const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
  const read = async () =>
    JSON.parse(String((await input.next()).value), (_, value) => (value === 'never' ? Number.POSITIVE_INFINITY : value))
  const { url, nodes, rounds, charges, atOnce, skewMs = 0 }: Hammering = await read()
  const clock = { ...systemClock, now: () => Date.now() + skewMs }
  const given = { ...(url !== undefined && { url }), ...(nodes !== undefined && { nodes: [...nodes] }) }
  const link = await openRedis(linkSettings(given), { clock, log: quietLog })
  const counters = countersRedis({ link, clock, log: quietLog, ledger: () => null })
  console.log('ready')
  await read()
  const results: Hammered[] = []
  for (const limits of rounds) results.push(await round(counters, limits, charges, atOnce))
  console.log(JSON.stringify(results))
  await counters.close()
  await link.close()
}

if (process.argv[1] === import.meta.filename) {
  // Its standard input stays open, so that it would go on.
  void run().then(
    () => process.exit(0),
    error => {
      console.error(error)
      process.exit(1)
    }
  )
}
