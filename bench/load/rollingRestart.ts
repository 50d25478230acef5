import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { gateway, generous, type StartedGateway } from './contenders.ts'
import { installed } from './machine.ts'
import { folder, freePort, type Running, start } from './processes.ts'
import { inRedis, startRedis } from './redis.ts'
import { type Options, progress, type Scenario, target } from './scenario.ts'
import { type Sample, steady } from './steady.ts'
import { figure } from './table.ts'
import { startUpstream } from './upstream.ts'

const RATE = 1_000
const DELAY_S = 3

export const rollingRestart: Scenario = {
  name: 'rolling-restart',
  summary: 'two gateways behind HAProxy, each restarted under 1,000 requests/s; counters and keys in Redis',
  async run(options) {
    const upstream = await startUpstream()
    const rounds: Sample[][] = []
    for (let i = 1; i <= options.rounds; i++) {
      const samples = await measure(upstream, options)
      rounds.push(samples)
      progress(`round ${i}/${options.rounds}: ${figure(failed(samples))} of ${figure(samples.length)} failed`)
    }
    await upstream.stop()
    const lost = rounds.reduce((sum, samples) => sum + failed(samples), 0)
    const rows = rounds.map((samples, i) => [
      String(i + 1),
      figure(samples.length),
      figure(failed(samples)),
      figure(Math.max(...samples.map(({ ms }) => ms)), 1)
    ])
    return {
      tables: [{ caption: 'Rolling restarts', head: ['round', 'requests', 'failed', 'longest ms'], rows }],
      details: [],
      targets: [target('failed requests', lost, '<=', 0)],
      failures: lost > 0 ? [`${lost} requests failed`] : []
    }
  }
}

const failed = (samples: readonly Sample[]) => samples.filter(({ status }) => status !== 200).length

async function measure(upstream: Running, { env }: Options): Promise<Sample[]> {
  const redis = await startRedis('others')
  const ports = [await freePort(), await freePort()]
  const begin = (i: number, key?: typeof generous) =>
    gateway({
      name: `gateway ${i + 1}`,
      env: {
        ...env,
        ...inRedis(redis),
        SVC_STORAGE__KEYS: 'redis',
        SVC_GATEWAY__LISTEN_PORT: String(ports[i]),
        SVC_GATEWAY__GRACEFUL_SHUTDOWN_DELAY_SECONDS: String(DELAY_S)
      },
      apis: url => [{ id: 'bench', listenPath: '/bench/', upstream: url, access: 'key' }],
      ...(key === undefined ? {} : { key })
    }).start(upstream)
  const gateways: StartedGateway[] = [await begin(0, generous), await begin(1)]
  const balancer = await startHaproxy(ports)
  const { url, headers = {} } = gateways[0]!.load
  const load = await steady({ url: balancer.url + new URL(url).pathname, headers, rate: RATE, connections: 64 })
  await pause(2_000)
  for (let i = 0; i < gateways.length; i++) {
    await gateways[i]!.stop()
    gateways[i] = await begin(i)
    await isUp(ports[i]!)
  }
  await pause(1_000)
  const samples = await load.stop()
  await balancer.stop()
  for (const each of gateways) await each.stop()
  await redis.stop()
  return samples
}

/** HAProxy looks twice a second, and believes the second good look. */
async function isUp(port: number): Promise<void> {
  while (
    !(await fetch(`http://127.0.0.1:${port}/ready`).then(
      ({ ok }) => ok,
      () => false
    ))
  )
    await pause(50)
  await pause(1_500)
}

async function startHaproxy(ports: readonly number[]): Promise<Running> {
  const haproxy = installed('haproxy')
  if (haproxy === null) throw new Error('haproxy is not installed: apt-get install haproxy')
  const temp = folder()
  const port = await freePort()
  const file = join(temp.path, 'haproxy.cfg')
  writeFileSync(
    file,
    `global
  maxconn 4096
defaults
  mode http
  timeout connect 2s
  timeout client 60s
  timeout server 60s
  retries 3
  option redispatch
  retry-on conn-failure empty-response
frontend front
  bind 127.0.0.1:${port}
  default_backend gateways
backend gateways
  balance roundrobin
  option httpchk GET /ready
  default-server check inter 500ms fall 1 rise 2
${ports.map((each, i) => `  server gateway${i + 1} 127.0.0.1:${each}`).join('\n')}
`
  )
  const running = await start({ name: 'haproxy', place: 'others', program: haproxy, args: ['-db', '-f', file], port })
  return {
    ...running,
    async stop() {
      await running.stop()
      temp.remove()
    }
  }
}
