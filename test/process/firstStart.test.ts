import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { call, folder, type Launched, launch, main, refuses, run, SECRET } from '../helpers/process.ts'

t.setTimeout(180_000)

const free = { SVC_GATEWAY__LISTEN_PORT: '0' }
const mode = (path: string) => (statSync(path).mode & 0o777).toString(8)
const secrets = (cwd: string) => readFileSync(join(cwd, 'data/secrets'), 'utf8')
const secretOf = (cwd: string) => /^gateway\.secret=(.+)$/m.exec(secrets(cwd))![1]!
const keyOf = (cwd: string) => /^admin\.access_key=([0-9a-f]{32})$/m.exec(secrets(cwd))![1]!

async function ended(process: Launched): Promise<void> {
  process.child.kill('SIGTERM')
  await process.ended
}

t.test('without a settings file', async t => {
  const cwd = folder(t)
  const start = () => launch(t, { cwd, settings: null, env: free })
  const first = start()
  await first.ready
  const before = secrets(cwd)
  const old = { Authorization: keyOf(cwd) }

  await t.test('three printed commands show a protected, limited request', async t => {
    const { commands } = await first.line(({ commands }) => commands !== undefined)
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

  await t.test('there is an administrator at once, and its key stands in the file of secrets', async t => {
    t.match((await first.line(({ msg }) => msg === 'ready')).management, /^http:\/\/127\.0\.0\.1:\d+$/)
    const key = keyOf(cwd)
    t.notOk(first.stdout().includes(key))
    const me = await call(first, '/api/users/me', { Authorization: `Bearer ${key}` })
    t.equal(me.status, 200)
    t.match(me.body, { active: true, org_id: 'default', user_permissions: { IsAdmin: 'admin' }, access_key: key })
    const admin = { 'Admin-Auth': secretOf(cwd) }
    t.match((await call(first, '/admin/organisations', admin)).body, { organisations: [{ id: 'default' }] })
    t.equal((await call(first, '/admin/users', admin, { email_address: 'a@b.c' })).status, 200)
  })
  first.child.kill('SIGTERM')
  t.equal(await first.ended, 0)

  const second = start()
  let other = ''
  await t.test('a second start makes no second administrator and no other secrets', async t => {
    t.equal((await call(second, '/api/users/me', old)).status, 200)
    t.equal((await call(second, '/api/users', old)).body.users.length, 2, 'no second one is made')
    t.equal(secrets(cwd), before)
    const { id } = (await call(second, '/api/users/me', old)).body
    other = (await call(second, '/admin/users', { 'Admin-Auth': secretOf(cwd) }, { active: true })).body.Message
    const { management } = await second.line(({ msg }) => msg === 'ready')
    const gone = await fetch(`${management}/api/users/${id}`, { method: 'DELETE', headers: { Authorization: other } })
    t.equal(gone.status, 200)
    const headers = { 'X-Svc-Authorization': secretOf(cwd) }
    const deleted = await fetch(`${await second.ready}/svc/apis/oas/echo`, { method: 'DELETE', headers })
    t.equal(deleted.status, 200)
  })
  await ended(second)

  const third = start()
  await t.test('an administrator that was replaced does not come back', async t => {
    t.equal((await call(third, '/api/users/me', old)).status, 401)
    t.equal((await call(third, '/api/users/me', { Authorization: other })).status, 200)
  })
  await t.test('a sample that was deleted does not come back, and the secret stays', async t => {
    const headers = { 'X-Svc-Authorization': /^gateway\.secret=(.+)$/m.exec(before)![1]! }
    t.same(await (await fetch(`${await third.ready}/svc/apis/oas`, { headers })).json(), [])
    t.notOk(third.lines().some(({ commands }) => commands))
  })
})

t.test('a secret from the environment is neither kept nor shown: the file holds the access key alone', async t => {
  const cwd = folder(t)
  const started = launch(t, { cwd, settings: null, env: { ...free, SVC_GATEWAY__SECRET: SECRET } })
  const { commands } = await started.line(({ commands }) => commands !== undefined)
  t.match(await started.line(({ msg }) => msg === 'secrets'), { file: join(cwd, 'data/secrets') })
  await started.ready
  t.match(secrets(cwd), /^admin\.access_key=[0-9a-f]{32}\n$/)
  t.notOk(secrets(cwd).includes(SECRET))
  t.equal((await call(started, '/api/users/me', { Authorization: keyOf(cwd) })).status, 200)
  t.notOk(started.stdout().includes(SECRET))
  t.notMatch(commands[0], '$SVC', 'another terminal does not have the variable')
  t.match(await run(t, commands[0].replace('put the value of SVC_GATEWAY__SECRET here', SECRET), cwd), /^svc_\S+\n$/)
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
