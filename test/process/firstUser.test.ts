import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { folder, type Launched, launch, SECRET, settings } from '../helpers/process.ts'

t.setTimeout(180_000)

const free = { SVC_GATEWAY__LISTEN_PORT: '0' }
const secrets = (cwd: string) => readFileSync(join(cwd, 'data/secrets'), 'utf8')
const keyOf = (cwd: string) => /^admin\.access_key=([0-9a-f]{32})$/m.exec(secrets(cwd))![1]!

async function management(process: Launched): Promise<string> {
  return (await process.line(({ msg }) => msg === 'ready')).management
}

async function call(process: Launched, path: string, headers: Record<string, string>, body?: object): Promise<any> {
  const answer = await fetch((await management(process)) + path, {
    headers,
    ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) })
  })
  return { status: answer.status, body: await answer.json() }
}

async function ended(process: Launched): Promise<void> {
  process.child.kill('SIGTERM')
  await process.ended
}

t.test(
  'without a settings file there is an administrator at once, and its key stands in the file of secrets',
  async t => {
    const cwd = folder(t)
    const first = launch(t, { cwd, settings: null, env: free })
    t.match(await management(first), /^http:\/\/127\.0\.0\.1:\d+$/)
    t.match(await first.line(({ msg }) => msg === 'secrets'), { file: join(cwd, 'data/secrets') })
    t.equal((statSync(join(cwd, 'data/secrets')).mode & 0o777).toString(8), '600')
    const key = keyOf(cwd)
    t.notOk(first.stdout().includes(key))
    const me = await call(first, '/api/users/me', { Authorization: `Bearer ${key}` })
    t.equal(me.status, 200)
    t.match(me.body, { active: true, org_id: 'default', user_permissions: { IsAdmin: 'admin' }, access_key: key })
    const secret = /^gateway\.secret=(.+)$/m.exec(secrets(cwd))![1]!
    const admin = { 'Admin-Auth': secret }
    t.match((await call(first, '/admin/organisations', admin)).body, { organisations: [{ id: 'default' }] })
    t.equal((await call(first, '/admin/users', admin, { email_address: 'a@b.c' })).status, 200)
    await ended(first)

    const before = secrets(cwd)
    const second = launch(t, { cwd, settings: null, env: free })
    t.equal((await call(second, '/api/users/me', { Authorization: key })).status, 200)
    t.equal((await call(second, '/api/users', { Authorization: key })).body.users.length, 2, 'no second one is made')
    t.equal(secrets(cwd), before)
  }
)

t.test('an administrator that was replaced does not come back', async t => {
  const cwd = folder(t)
  const first = launch(t, { cwd, settings: null, env: free })
  const url = await management(first)
  const old = { Authorization: keyOf(cwd) }
  const { id } = (await call(first, '/api/users/me', old)).body
  const secret = /^gateway\.secret=(.+)$/m.exec(secrets(cwd))![1]!
  const { Message } = (await call(first, '/admin/users', { 'Admin-Auth': secret }, { active: true })).body
  const gone = await fetch(`${url}/api/users/${id}`, { method: 'DELETE', headers: { Authorization: Message } })
  t.equal(gone.status, 200)
  await ended(first)
  const second = launch(t, { cwd, settings: null, env: free })
  t.equal((await call(second, '/api/users/me', old)).status, 401)
  t.equal((await call(second, '/api/users/me', { Authorization: Message })).status, 200)
})

t.test('a file of secrets of an earlier version gets the line added', async t => {
  const cwd = folder(t)
  mkdirSync(join(cwd, 'data'))
  writeFileSync(join(cwd, 'data/secrets'), `gateway.secret=${SECRET}`)
  const started = launch(t, { cwd, settings: null, env: free })
  await started.ready
  t.match(secrets(cwd), new RegExp(`^gateway\\.secret=${SECRET}\nadmin\\.access_key=[0-9a-f]{32}\n$`))
  t.equal((await call(started, '/api/users/me', { Authorization: keyOf(cwd) })).status, 200)
})

t.test('with the secret from the environment the file holds the access key alone', async t => {
  const cwd = folder(t)
  const started = launch(t, { cwd, settings: null, env: { ...free, SVC_GATEWAY__SECRET: SECRET } })
  t.match(await started.line(({ msg }) => msg === 'secrets'), { file: join(cwd, 'data/secrets') })
  await started.ready
  t.match(secrets(cwd), /^admin\.access_key=[0-9a-f]{32}\n$/)
  t.equal((await call(started, '/api/users/me', { Authorization: keyOf(cwd) })).status, 200)
})

t.test('with a settings file nobody is there until the admin interface makes somebody', async t => {
  const started = launch(t, { settings: settings() })
  const admin = { 'Admin-Auth': SECRET }
  t.equal((await call(started, '/admin/users', admin)).body.users.length, 0)
  const org = (await call(started, '/admin/organisations', admin, { owner_name: 'Acme' })).body.Meta
  const given = { org_id: org, active: true, email_address: 'a@b.c' }
  const { Message } = (await call(started, '/admin/users', admin, given)).body
  t.match((await call(started, '/api/users/me', { Authorization: Message })).body, { org_id: org })
})

t.test('without the management interface the ready line says nothing of it', async t => {
  const started = launch(t, { settings: settings({}, { management: { enabled: false } }) })
  const line = await started.line(({ msg }) => msg === 'ready')
  t.match(line, { gateway: /^http/ })
  t.notOk('management' in line)
})
