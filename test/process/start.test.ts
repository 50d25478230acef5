import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { gateway } from '../helpers/gateway.ts'
import { call, folder, launch, refuses, run, runtime, SECRET, settings } from '../helpers/process.ts'

t.setTimeout(180_000)

const free = { SVC_GATEWAY__LISTEN_PORT: '0' }

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
  const rest = { storage: { documents: { type: 'memory' } }, management: { enabled: false } }
  writeFileSync(join(cwd, 'a.json'), JSON.stringify(settings({}, rest)))
  const started = launch(t, { cwd, settings: null, env: { SVC_CONFIG: 'a.json' } })
  t.match(await started.ready, /^http:\/\/127\.0\.0\.1:\d+$/)
  const line = await started.line(({ msg }) => msg === 'ready')
  t.match(line, { gateway: /^http/ })
  t.notOk('management' in line, 'without the management interface the line says nothing of it')
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

t.test('with a settings file', async t => {
  const cwd = folder(t)
  const started = launch(t, { cwd })
  await started.ready

  t.test('there is no sample and nothing is generated', async t => {
    t.same((await started.svc('GET', '/svc/apis/oas')).body, [])
    t.notOk(existsSync(join(cwd, 'data/secrets')))
  })

  t.test('nobody is there until the admin interface makes somebody', async t => {
    const admin = { 'Admin-Auth': SECRET }
    t.equal((await call(started, '/admin/users', admin)).body.users.length, 0)
    const org = (await call(started, '/admin/organisations', admin, { owner_name: 'Acme' })).body.Meta
    const given = { org_id: org, active: true, email_address: 'a@b.c' }
    const { Message } = (await call(started, '/admin/users', admin, given)).body
    t.match((await call(started, '/api/users/me', { Authorization: Message })).body, { org_id: org })
  })

  t.test('one store serves one process', async t => {
    await refuses(t, launch(t, { cwd }), 3, /data\/svc\.db is in use by another process/)
  })
})

t.test('it listens where it is told', async t => {
  for (const [listen_address, url] of [
    ['localhost', /^http:\/\/(127\.0\.0\.1|\[::1\]):\d+$/],
    ['', /^http:\/\/127\.0\.0\.1:\d+$/],
    ['[::]', /^http:\/\/127\.0\.0\.1:\d+$/],
    ['0.0.0.0', /^http:\/\/127\.0\.0\.1:\d+$/]
  ] as const) {
    const gw = await gateway(t, { settings: { gateway: { listen_address } } })
    t.match(gw.url, url, listen_address)
    t.equal((await gw.get('/hello')).status, 200)
  }
})
