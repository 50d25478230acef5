import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { Target, Upstream, UpstreamListener } from '../../gateway/proxy/upstream.ts'
import { upstreamDirect } from '../../gateway/proxy/upstreamDirect.ts'
import { upstreamUndici } from '../../gateway/proxy/upstreamUndici.ts'

/*
 * The two upstream clients against a bare server, 64 requests at a time: requests a second and CPU time a request of
 * the client's process. Each measurement has a process of its own, and they alternate; the middle one counts.
 * Usage: node bench/micro/upstream.ts [ROUNDS] [MILLISECONDS]
 */

const IN_FLIGHT = 64
const makers = { undici: upstreamUndici, direct: upstreamDirect }
type Maker = keyof typeof makers

const json = '{"id":1,"name":"an order","total":42.5,"currency":"EUR"}\n'
const small = answer(`Content-Length: ${json.length}`, json)
const answers = {
  small,
  post: small,
  large: answer('Content-Length: 1048576', 'x'.repeat(1_048_576))
}
type Scenario = keyof typeof answers

function answer(framing: string, body: string): Buffer {
  return Buffer.from(
    `HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sat, 21 Nov 2026 15:00:00 GMT\r\nContent-Type: application/json\r\n${framing}\r\n` +
      `Connection: keep-alive\r\nETag: "65f0-39"\r\nCache-Control: no-store\r\n\r\n${body}`
  )
}

const pairs = (target: Target) => [
  ...['Host', target.authority, 'User-Agent', 'Mozilla/5.0 (X11; Linux x86_64) wrk', 'Accept', 'application/json'],
  ...['X-Forwarded-For', '127.0.0.1', 'X-Forwarded-Proto', 'http', 'X-Forwarded-Host', 'api.example'],
  ...['X-Request-Id', '0b0e5a0e-6d0b-4a7a-9d0b-0e5a0e6d0b4a', 'Via', '1.1 svc']
]

/** Counts heads by their last bytes; of a held body it knows the length. */
function serve(scenario: Scenario): void {
  const bytes = answers[scenario]
  const bodyBytes = scenario === 'post' ? 10_240 : 0
  const server = createServer(socket => {
    socket.setNoDelay(true)
    let missing = -1
    socket.on('error', () => {})
    socket.on('data', chunk => {
      // One request at a time on a connection: a head is in the first piece, and nothing is behind the body.
      if (missing < 0) missing = bodyBytes + (chunk as Buffer).indexOf('\r\n\r\n') + 4
      missing -= chunk.length
      if (missing > 0) return
      missing = -1
      socket.write(bytes)
    })
  })
  server.listen(0, '127.0.0.1', () => process.send!((server.address() as { port: number }).port))
}

class Asker implements UpstreamListener {
  asked = 0
  failed = 0
  private readonly upstream: Upstream
  private readonly target: Target
  private readonly body: Buffer | null
  private readonly until: number
  private readonly done: () => void

  constructor(upstream: Upstream, target: Target, body: Buffer | null, until: number, done: () => void) {
    this.upstream = upstream
    this.target = target
    this.body = body
    this.until = until
    this.done = done
  }

  ask(): void {
    this.asked++
    const { target, body } = this
    const method = body === null ? 'GET' : 'POST'
    this.upstream.send(
      { target, method, path: '/orders/1?expand=lines', pairs: pairs(target), body, trailers: false, fresh: false },
      this
    )
  }

  information(): void {}
  head(): void {}
  data(): boolean {
    return true
  }

  pause(): void {}

  end(): void {
    if (performance.now() >= this.until) this.done()
    else this.ask()
  }

  fault(): void {
    this.failed++
    this.end()
  }
}

async function measure(maker: Maker, scenario: Scenario, port: number, ms: number): Promise<void> {
  const upstream = makers[maker]({ connectTimeoutMs: 5_000, connections: IN_FLIGHT })
  const authority = `127.0.0.1:${port}`
  const target = {
    tls: null,
    hostname: '127.0.0.1',
    port,
    origin: `http://${authority}`,
    authority,
    base: ''
  }
  const body = scenario === 'post' ? Buffer.alloc(10_240, 'x') : null
  const run = async (time: number) => {
    const askers: Asker[] = []
    const until = performance.now() + time
    const all = Array.from(
      { length: IN_FLIGHT },
      () =>
        new Promise<void>(resolve => {
          askers.push(new Asker(upstream, target, body, until, resolve))
        })
    )
    const from = performance.now()
    const cpuFrom = process.cpuUsage()
    for (const each of askers) each.ask()
    await Promise.all(all)
    const cpu = process.cpuUsage(cpuFrom)
    const asked = askers.reduce((sum, each) => sum + each.asked, 0)
    const failed = askers.reduce((sum, each) => sum + each.failed, 0)
    return { perSecond: (asked / (performance.now() - from)) * 1_000, micros: (cpu.user + cpu.system) / asked, failed }
  }
  await run(ms)
  const result = await run(ms)
  process.send!(result)
  await upstream.close()
  process.disconnect!()
}

function start(...args: string[]): ChildProcess {
  return fork(import.meta.filename, args, { execArgv: ['--max-semi-space-size=16'] })
}

async function compare(rounds: number, ms: number): Promise<void> {
  const rows: Record<string, unknown>[] = []
  for (const scenario of Object.keys(answers) as Scenario[]) {
    const server = start('serve', scenario)
    const [port] = await once(server, 'message')
    const results: Record<Maker, { perSecond: number; micros: number; failed: number }[]> = { undici: [], direct: [] }
    for (let round = 0; round < rounds; round++) {
      for (const maker of Object.keys(makers) as Maker[]) {
        const child = start('measure', maker, scenario, String(port), String(ms))
        const [result] = await once(child, 'message')
        results[maker].push(result)
        await once(child, 'exit')
      }
    }
    server.kill()
    for (const maker of Object.keys(makers) as Maker[]) {
      const sorted = results[maker].sort((a, b) => a.micros - b.micros)
      const middle = sorted[sorted.length >> 1]!
      rows.push({
        scenario,
        client: maker,
        'requests/s': Math.round(middle.perSecond),
        'CPU µs a request': Number(middle.micros.toFixed(1)),
        failed: sorted.reduce((sum, each) => sum + each.failed, 0)
      })
    }
  }
  console.table(rows)
}

const [role, ...args] = process.argv.slice(2)
if (role === 'serve') serve(args[0] as Scenario)
else if (role === 'measure') await measure(args[0] as Maker, args[1] as Scenario, Number(args[2]), Number(args[3]))
else await compare(Number(role ?? 3), Number(args[0] ?? 450))
