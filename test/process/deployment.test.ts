import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { load } from '../../config/load.ts'
import type { Settings } from '../../config/settings.ts'
import { haproxyFile, needHaproxy } from '../helpers/haproxy.ts'
import { launch } from '../helpers/process.ts'

t.setTimeout(60_000)

const root = join(import.meta.dirname, '../..')
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const chart = 'deploy/helm/svc-gateway'
const compose = parse(read('compose.yaml'), { merge: true })
const values = parse(read(`${chart}/values.yaml`))
const dockerfile = read('Dockerfile')
const { scripts, version } = JSON.parse(read('package.json'))
const healthy = join(root, 'control/healthy.mjs')

/** `${NAME:?why}` as compose puts it in; long enough for a secret. */
const interpolated = (env: Record<string, string>) =>
  Object.fromEntries(
    Object.entries(env).map(([name, value]) => [name, value.replace(/\$\{\w+:[^}]*\}/g, 'x'.repeat(24))])
  )
/** How long the process may take from SIGTERM on. */
const stopSeconds = ({ gateway }: Settings) =>
  gateway.graceful_shutdown_delay_seconds +
  Math.max(gateway.graceful_shutdown_timeout_duration, gateway.streaming.drain_timeout + 5)

t.test('compose.yaml and deploy/gateway.json fit each other and HAProxy', async t => {
  const { 'gateway-1': one, 'gateway-2': two, haproxy } = compose.services
  t.same(one, two)
  const settings = load({ file: read('deploy/gateway.json'), env: interpolated(one.environment) })
  const { gateway, management, storage } = settings
  t.equal(storage.documents.type, 'postgres')
  t.equal(storage.counters.type, 'redis')
  t.ok(Number.parseInt(one.stop_grace_period, 10) > stopSeconds(settings))
  t.same(one.expose.map(Number), [gateway.listen_port, gateway.control_api_port, management.listen_port])
  for (const i of [1, 2]) {
    t.equal(haproxy.environment[`SVC_GATEWAY_${i}`], `gateway-${i}:${gateway.listen_port}`)
    t.equal(haproxy.environment[`SVC_MANAGEMENT_${i}`], `gateway-${i}:${management.listen_port}`)
  }
  t.same(gateway.trusted_proxies, [compose.networks.front.ipam.config[0].subnet])
  t.ok(one.read_only && one.tmpfs.some((each: string) => each.startsWith('/tmp:')))
  const named = [...read('compose.yaml').matchAll(/\$\{(\w+):\?/g)].map(([, name]) => name!)
  const given = [...read('deploy/example.env').matchAll(/^(\w+)=$/gm)].map(([, name]) => name!)
  t.same([...new Set(named)].sort(), given.sort())
  for (const [name, { healthcheck, build, networks }] of Object.entries<any>(compose.services)) {
    t.ok(healthcheck !== undefined || build !== undefined, `${name} has a health check`)
    for (const network of networks) t.ok(Object.hasOwn(compose.networks, network))
  }
})

t.test('HAProxy takes its file, and notices a stop before the gateway ends', async t => {
  needHaproxy()
  const { status, stderr } = spawnSync('haproxy', ['-c', '-f', haproxyFile], { encoding: 'utf8' })
  t.equal(status, 0, stderr)
  const [, inter, fall] = /inter (\d+)ms fall (\d+)/.exec(read('deploy/haproxy.cfg'))!
  const { gateway } = load({ file: read('deploy/gateway.json'), env: interpolated(compose['x-gateway'].environment) })
  t.ok((Number(inter) * (Number(fall) + 1)) / 1000 < gateway.graceful_shutdown_delay_seconds)
})

t.test('the values of the chart are settings, and its probes notice a stop in time', async t => {
  const text = read(`${chart}/values.yaml`)
  const secrets = Object.fromEntries(
    [...text.matchAll(/^ {4}# (SVC_\w+): (.*)$/gm)].map(([, name, value]) => [name, value])
  )
  t.ok(Object.keys(secrets).length >= 4)
  const { gateway } = load({ file: JSON.stringify(values.settings), env: secrets })
  const { periodSeconds, failureThreshold } = values.probes.readiness
  t.ok(periodSeconds * failureThreshold < gateway.graceful_shutdown_delay_seconds)
  t.equal(parse(read(`${chart}/Chart.yaml`)).appVersion, version)
  const deployment = read(`${chart}/templates/deployment.yaml`)
  t.match(deployment, /livenessProbe:\s+httpGet: \{ path: \/hello,/)
  t.match(deployment, /readinessProbe:\s+httpGet: \{ path: \{\{ \.Values\.probes\.readiness\.path \}\},/)
  t.equal(values.probes.readiness.path, '/ready')
  const schema = JSON.parse(read(`${chart}/values.schema.json`))
  t.same(
    Object.keys(schema.properties)
      .filter(name => name !== 'global')
      .sort(),
    Object.keys(values).sort()
  )
  // Everything that templates ask for is in the values.
  for (const file of readdirSync(join(root, chart, 'templates')))
    for (const [path] of read(`${chart}/templates/${file}`).matchAll(/(?<=\.Values)(?:\.[a-zA-Z]+)+/g)) {
      const found = path
        .split('.')
        .slice(1)
        .reduce((place, name) => place?.[name], values)
      t.ok(found !== undefined, `${file}: .Values${path}`)
    }
})

t.test('the image starts what package.json starts, as nobody, with all that it needs', async t => {
  const entry = JSON.parse(/^ENTRYPOINT (.*)$/m.exec(dockerfile)![1]!)
  t.ok(scripts.gateway.endsWith(entry.slice(1).join(' ')), scripts.gateway)
  const { gateway, management } = load({ file: null, env: {} })
  t.match(dockerfile, `EXPOSE ${gateway.listen_port} ${management.listen_port}\n`)
  t.match(dockerfile, /^USER 65532:65532$/m)
  t.match(dockerfile, /^HEALTHCHECK [^[]*\["\/usr\/bin\/node", "\/app\/control\/healthy\.mjs"\]$/m)
  const ignored = read('.dockerignore')
  for (const name of ['package.json', 'package-lock.json', 'config', 'streams', 'gateway', 'control']) {
    t.match(ignored, `\n!${name}\n`)
    t.ok(existsSync(join(root, name)))
  }
  t.match(read('docs/operate.md'), entry.slice(1).join(' '), 'the unit of systemd starts the same')
})

t.test('settings shown in the documentation are settings', async t => {
  for (const file of ['README.md', 'docs/operate.md'])
    for (const [, text] of read(file).matchAll(/^```json[^\n]*\n(\{\s*"(?:gateway|management|storage)".*?)^```/gms))
      t.ok(load({ file: text!, env: { SVC_GATEWAY__SECRET: 'x'.repeat(24) } }))
})

t.test('the health check of the image tells whether the gateway answers', async t => {
  const check = (env: Record<string, string>) =>
    new Promise(resolve => spawn(process.execPath, [healthy], { env, stdio: 'ignore' }).on('exit', resolve))
  const gateway = launch(t)
  const port = new URL(await gateway.ready).port
  t.equal(await check({ SVC_GATEWAY__LISTEN_PORT: port }), 0)
  const other = await Promise.all([
    check({ SVC_GATEWAY__LISTEN_PORT: '1' }),
    check({ SVC_GATEWAY__LISTEN_PORT: port, SVC_GATEWAY__LISTEN_ADDRESS: '::1' }),
    check({ SVC_GATEWAY__LISTEN_PORT: port, SVC_CONFIG: '/nowhere/gateway.json' })
  ])
  t.same(other, [1, 1, 1])
})
