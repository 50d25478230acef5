import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { folder, launch, SECRET, settings } from '../helpers/process.ts'

t.setTimeout(60_000)

/** Loaded before the program, into its threads too: the store's file may not grow beyond so many pages of 4 KiB. */
const smallDisk = (pages: number) => `
import { DatabaseSync } from 'node:sqlite'
const { exec } = DatabaseSync.prototype
DatabaseSync.prototype.exec = function (sql) {
  exec.call(this, sql)
  if (sql === 'PRAGMA synchronous = FULL') exec.call(this, 'PRAGMA max_page_count = ${pages}')
}`

t.test('without room in the store writes are answered 507, everything else goes on, and it passes', async t => {
  const cwd = folder(t)
  const preload = join(cwd, 'smallDisk.mjs')
  writeFileSync(preload, smallDisk(256))
  const started = launch(t, {
    cwd,
    node: ['--import', preload],
    settings: settings(
      { access_logs: { enabled: false } },
      { storage: { documents: { path: join(cwd, 'svc.db') } }, management: { admin_secret: SECRET } }
    )
  })
  const url = await started.ready
  const { management } = await started.line(({ msg }) => msg === 'ready')
  const call = async (method: string, path: string, headers: Record<string, string>, body?: unknown) => {
    const answer = await fetch(`${management}${path}`, {
      method,
      headers: { 'Content-Type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    return { status: answer.status, body: (await answer.json()) as any }
  }
  const admin = { 'Admin-Auth': SECRET }
  const user = { email_address: 'ada@example.com', active: true, org_id: 'default' }
  const made = await call('POST', '/admin/users', admin, user)
  t.equal(made.status, 200)
  const access = { Authorization: made.body.Message as string }
  const limited = { rate: 100, per: 1, quota_max: 1000, quota_renewal_rate: 3600 }
  const rights = { echo: { api_id: 'echo', api_name: 'echo', versions: ['Default'] } }
  const document = {
    openapi: '3.0.3',
    info: { title: 'echo', version: '1', id: 'echo' },
    paths: {},
    components: { securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'Authorization' } } },
    security: [{ key: [] }],
    'x-svc-api-gateway': {
      info: { id: 'echo', name: 'echo', state: { active: true } },
      upstream: { url: 'svc://echo' },
      server: {
        listenPath: { value: '/echo/', strip: true },
        authentication: { enabled: true, securitySchemes: { key: { enabled: true, header: { enabled: true } } } }
      }
    }
  }
  t.equal((await started.svc('POST', '/svc/apis/oas', document)).status, 200)
  const created = await started.svc('POST', '/svc/keys/create', { ...limited, access_rights: rights })
  t.equal(created.status, 200, JSON.stringify(created.body))

  const asset = (n: number, length: number) => ({ id: `big${n}`, name: 'big', data: { text: 'x'.repeat(length) } })
  let fits = 0
  let answer = await call('POST', '/api/assets', access, asset(0, 100_000))
  while (answer.status < 300 && fits < 50) answer = await call('POST', '/api/assets', access, asset(++fits, 100_000))
  t.match(answer, { status: 507, body: { Status: 'Error', Message: /no room left/, Meta: null } })
  // What is smaller may still fit, for a while.
  for (let n = 0, told = 0; told < 507 && n < 500; n++)
    told = (await call('POST', '/api/assets', access, asset(1000 + n, 2_000))).status
  const keys = async () =>
    started.svc('POST', '/svc/keys/create', {
      ...limited,
      access_rights: rights,
      meta_data: { text: 'x'.repeat(20_000) }
    })
  t.match(await keys(), { status: 507, body: { status: 'error', message: /no room left/ } })
  t.equal((await call('GET', '/api/assets?p=1', access)).status, 200)
  t.equal((await call('GET', `/api/assets/big0`, access)).status, 200)
  const request = async () => (await fetch(`${url}/echo/`, { headers: { Authorization: created.body.key } })).status
  for (let i = 0; i < 5; i++) t.equal(await request(), 200)
  t.equal((await fetch(`${url}/ready`)).status, 200)

  t.equal((await call('DELETE', '/api/assets/big1', access)).status, 200, 'deleting makes room')
  t.equal((await keys()).status, 200)
})
