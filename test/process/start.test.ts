import { spawn } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { folder, type Launched, launch, main, runtime, SECRET, settings } from '../helpers/process.ts'

t.setTimeout(180_000)

const free = { SVC_GATEWAY__LISTEN_PORT: '0' }
const mode = (path: string) => (statSync(path).mode & 0o777).toString(8)
const secretOf = (cwd: string) => /^gateway\.secret=(.+)$/m.exec(readFileSync(join(cwd, 'data/secrets'), 'utf8'))![1]!

/** It ends with this status, says one thing on standard error and nothing on standard output. */
async function refuses(t: Test, process: Launched, status: number, text: RegExp): Promise<void> {
  t.equal(await process.ended, status)
  t.equal(process.stdout(), '')
  t.match(process.stderr(), text)
  if (status === 3) t.equal(process.stderr().trimEnd().split('\n').length, 1, process.stderr())
}

function run(t: Test, command: string, cwd: string, env: Record<string, string> = {}): Promise<string> {
  return new Promise(resolve => {
    const child = spawn('sh', ['-c', command], { cwd, env: { PATH: process.env.PATH!, ...env } })
    t.teardown(() => void child.kill('SIGKILL'))
    let out = ''
    child.stdout.on('data', chunk => {
      out += chunk
    })
    child.stderr.on('data', chunk => {
      out += chunk
    })
    child.on('close', () => resolve(out))
  })
}

t.test('faults in settings are all printed, with status 2, and nothing is started', async t => {
  const cwd = folder(t)
  const faulty = launch(t, { cwd, settings: { gateway: { listen_port: -1, nope: 1 }, extra: {} } })
  await refuses(t, faulty, 2, /\/gateway\/listen_port must be >= 0/)
  for (const path of ['/extra', '/gateway/nope', '/gateway/secret']) t.match(faulty.stderr(), path)
  t.same(readdirSync(cwd), ['settings.json'])
  await refuses(t, launch(t, { cwd, settings: null, args: ['--config', 'nowhere.json'] }), 2, /nowhere\.json/)
  await refuses(t, launch(t, { cwd, settings: null, args: ['--surprise'] }), 2, /--surprise is not known/)
  const env = { SVC_CONFIG: 'elsewhere.json', SVC_GATEWAY__NOPE: '1' }
  const nowhere = launch(t, { cwd, settings: null, env })
  await refuses(t, nowhere, 2, /elsewhere\.json/)
  t.match(nowhere.stderr(), /SVC_GATEWAY__NOPE is not known/)
})

t.test('SVC_CONFIG names the settings file, and --config wins over it', async t => {
  const cwd = folder(t)
  writeFileSync(join(cwd, 'a.json'), JSON.stringify(settings({}, { storage: { documents: { type: 'memory' } } })))
  const started = launch(t, { cwd, settings: null, env: { SVC_CONFIG: 'a.json' } })
  t.match(await started.ready, /^http:\/\/127\.0\.0\.1:\d+$/)
  const other = launch(t, { cwd, settings: null, args: ['--config=b.json'], env: { SVC_CONFIG: 'a.json' } })
  await refuses(t, other, 2, /b\.json/)
})

t.test('a Node that is too old gets one sentence, with status 2', async t => {
  const old = `data:text/javascript,Object.defineProperty(process,'versions',{value:{...process.versions,node:'20.1.0'}})`
  const process = launch(t, { node: [`--import=${old}`, '--import', runtime] })
  await refuses(t, process, 2, /^Node 20\.1\.0 is too old for the gateway\. "npm start" brings the right one along/)
  t.equal(process.stderr().trimEnd().split('\n').length, 1)
})

t.test('what starts the gateway loads the check of the run-time first', async t => {
  const { scripts } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8'))
  for (const name of ['start', 'gateway'])
    t.match(scripts[name], / --import \.\/config\/runtime\.mjs gateway\/main\.ts$/)
})

t.test('a package whose folder was removed is missed, whatever npm has noted', async t => {
  const cwd = folder(t)
  const root = join(import.meta.dirname, '../..')
  mkdirSync(join(cwd, 'config'))
  for (const file of ['config/install.mjs', 'package-lock.json']) copyFileSync(join(root, file), join(cwd, file))
  mkdirSync(join(cwd, 'node_modules'))
  for (const name of readdirSync(join(root, 'node_modules')))
    if (name !== 'undici') symlinkSync(join(root, 'node_modules', name), join(cwd, 'node_modules', name))
  // Stands in for npm, which would go to the network.
  mkdirSync(join(cwd, 'bin'))
  writeFileSync(join(cwd, 'bin/npm'), '#!/bin/sh\necho "npm $*"; exit 1\n', { mode: 0o755 })
  const PATH = `${join(cwd, 'bin')}:${process.env.PATH}`
  const shown = await run(t, 'node config/install.mjs', cwd, { PATH })
  t.match(shown, /installing packages \(undici is missing\)/)
  t.match(shown, /npm ci /)
  symlinkSync(join(root, 'node_modules/undici'), join(cwd, 'node_modules/undici'))
  t.equal(await run(t, 'node config/install.mjs', cwd, { PATH }), '')
})

t.test('a port that is taken is told in one line, with status 3', async t => {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as { port: number }
  const taken = new RegExp(`${port}`)
  await refuses(t, launch(t, { settings: settings({ listen_port: port }) }), 3, taken)
  await refuses(t, launch(t, { settings: settings({ control_api_port: port }) }), 3, taken)
  await refuses(t, launch(t, { settings: settings({ listen_address: 'no.such.host.invalid' }) }), 3, /no\.such\.host/)
})

t.test('one store serves one process', async t => {
  const cwd = folder(t)
  await launch(t, { cwd }).ready
  await refuses(t, launch(t, { cwd }), 3, /data\/svc\.db is in use by another process/)
})

t.test('folders that cannot be used are told in one line, with status 3', async t => {
  const cwd = folder(t)
  writeFileSync(join(cwd, 'file'), '')
  const path = 'file/svc.db'
  await refuses(t, launch(t, { cwd, settings: settings({}, { storage: { documents: { path } } }) }), 3, /file/)
  const env = { ...free, SVC_STORAGE__DOCUMENTS__PATH: path }
  await refuses(t, launch(t, { cwd, settings: null, env }), 3, /file/)
  await refuses(t, launch(t, { cwd, settings: settings({ app_path: 'nowhere' }) }), 3, /nowhere/)
  await refuses(t, launch(t, { cwd, settings: settings({ access_logs: { path: 'no/access.log' } }) }), 3, /access\.log/)
  mkdirSync(join(cwd, 'apis'))
  writeFileSync(join(cwd, 'apis/a.yaml'), 'openapi: 3.0.3\ninfo: [')
  await refuses(t, launch(t, { cwd, settings: settings({ app_path: 'apis' }) }), 3, /a\.yaml/)
})

t.test('without a settings file three printed commands show a protected, limited request', async t => {
  const cwd = folder(t)
  const first = launch(t, { cwd, settings: null, env: free })
  const { commands } = await first.line(({ commands }) => commands !== undefined)
  await first.ready
  t.equal(mode(join(cwd, 'data')), '700')
  for (const file of readdirSync(join(cwd, 'data'))) t.equal(mode(join(cwd, 'data', file)), '600', file)
  t.match(await first.line(({ msg }) => msg === 'secrets'), { file: join(cwd, 'data/secrets') })
  const shown = await run(t, commands.join('\n'), folder(t))
  t.match(shown, /^svc_\S+\n/)
  t.match(shown, /"path": "\/hello"/)
  t.match(shown, /\n200 200 429 429 429 ?\n$/)
  t.notMatch(shown, /authorization/i)
  t.notOk(first.stdout().includes(secretOf(cwd)))
})

t.test('a sample that was deleted does not come back, and the secret stays', async t => {
  const cwd = folder(t)
  const first = launch(t, { cwd, settings: null, env: free })
  const url = await first.ready
  const headers = { 'X-Svc-Authorization': secretOf(cwd) }
  const gone = await fetch(`${url}/svc/apis/oas/echo`, { method: 'DELETE', headers })
  t.equal(gone.status, 200)
  first.child.kill('SIGTERM')
  t.equal(await first.ended, 0)
  const second = launch(t, { cwd, settings: null, env: free })
  t.same(await (await fetch(`${await second.ready}/svc/apis/oas`, { headers })).json(), [])
  t.notOk(second.lines().some(({ commands }) => commands))
})

t.test('a secret from the environment is neither kept nor shown', async t => {
  const cwd = folder(t)
  const started = launch(t, { cwd, settings: null, env: { ...free, SVC_GATEWAY__SECRET: SECRET } })
  const { commands } = await started.line(({ commands }) => commands !== undefined)
  await started.ready
  t.notOk(readFileSync(join(cwd, 'data/secrets'), 'utf8').includes(SECRET))
  t.notOk(started.stdout().includes(SECRET))
  t.notMatch(commands[0], '$SVC', 'another terminal does not have the variable')
  t.match(await run(t, commands[0].replace('put the value of SVC_GATEWAY__SECRET here', SECRET), cwd), /^svc_\S+\n$/)
})

t.test('with a settings file there is no sample and nothing is generated', async t => {
  const cwd = folder(t)
  const started = launch(t, { cwd })
  await started.ready
  t.same((await started.svc('GET', '/svc/apis/oas')).body, [])
  t.notOk(existsSync(join(cwd, 'data/secrets')))
})

t.test('a secrets file without a secret is no reason to make another one', async t => {
  const cwd = folder(t)
  mkdirSync(join(cwd, 'data'))
  writeFileSync(join(cwd, 'data/secrets'), 'gateway.secret=short\n')
  await refuses(t, launch(t, { cwd, settings: null, env: free }), 3, /data\/secrets/)
})

t.test('on a terminal what was generated is shown once, and lines are for people', async t => {
  const cwd = folder(t)
  const command = `${process.execPath} --disable-warning=ExperimentalWarning ${main}`
  // `script` gives it a terminal; it stops itself once it is ready.
  const stops = `data:text/javascript,process.stdout.write=(w=>function(c,...a){if(/ready gateway/.test(c))process.kill(process.pid,'SIGTERM');return w.call(process.stdout,c,...a)})(process.stdout.write)`
  const once = () =>
    run(t, `script -qec '${command.replace(' ', ' "$HOOK" ')}' /dev/null < /dev/null`, cwd, {
      ...free,
      HOOK: `--import=${stops}`
    })
  const first = await once()
  t.match(first, `gateway.secret: ${secretOf(cwd)}`)
  t.match(first, /3\. See the limit at work/)
  t.match(first, /\d\d:\d\d:\d\d ready gateway=http:\/\/127\.0\.0\.1:\d+ management=http:\/\/127\.0\.0\.1:\d+ pid=\d+/)
  const key = /^admin\.access_key=(.+)$/m.exec(readFileSync(join(cwd, 'data/secrets'), 'utf8'))![1]!
  t.match(first, `admin.access_key: ${key} (kept in `)
  const second = await once()
  t.notOk(second.includes(secretOf(cwd)))
  t.notOk(second.includes(key))
  t.match(second, /3\. See the limit at work/)
})

t.test('it listens where it is told', async t => {
  for (const [listen_address, url] of [
    ['localhost', /^http:\/\/(127\.0\.0\.1|\[::1\]):\d+$/],
    ['', /^http:\/\/127\.0\.0\.1:\d+$/],
    ['[::]', /^http:\/\/127\.0\.0\.1:\d+$/],
    ['0.0.0.0', /^http:\/\/127\.0\.0\.1:\d+$/]
  ] as const) {
    const started = launch(t, {
      settings: settings({ listen_address }, { storage: { documents: { type: 'memory' } } })
    })
    t.match(await started.ready, url, listen_address)
    t.equal((await fetch(`${await started.ready}/hello`)).status, 200)
  }
})
