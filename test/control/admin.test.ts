import { randomBytes } from 'node:crypto'
import t from 'tap'
import { accessId, newUser, userWrites } from '../../control/users.ts'
import { vault } from '../../gateway/vault.ts'
import { gateway, SECRET, type TestGateway } from '../helpers/gateway.ts'

const error = (Message: string) => ({ Status: 'Error', Message, Meta: null })
const ZERO = '0001-01-01T00:00:00Z'

async function made(gw: TestGateway, body: object): Promise<any> {
  const answer = await gw.admin('POST', '/admin/users', body)
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.body))
  return answer.body.Meta
}

const enters = async (gw: TestGateway, key: string) => (await gw.api('GET', '/api/users/me', undefined, { key })).status

t.test('a user of whom nothing is said is an administrator that is not active', async t => {
  const gw = await gateway(t)
  const { status, body } = await gw.admin('POST', '/admin/users', {})
  t.equal(status, 200)
  const { Meta, Message, Status } = body
  t.equal(Status, 'OK')
  t.match(Message, /^[0-9a-f]{32}$/)
  const { id, created_at, ...rest } = Meta
  t.match(id, /^[0-9a-f]{24}$/)
  t.match(created_at, /^20\d\d-/)
  t.same(rest, {
    access_key: Message,
    active: false,
    api_model: {},
    email_address: '',
    first_name: '',
    last_name: '',
    group_id: '',
    last_login_date: ZERO,
    org_id: '',
    password_max_days: 0,
    password_updated: ZERO,
    user_permissions: { IsAdmin: 'admin', ResetPassword: 'admin' }
  })
  t.same((await gw.admin('GET', `/admin/users/${id}`)).body, Meta)
  t.equal(await enters(gw, Message), 403)
})

t.test('what is given is taken', async t => {
  const gw = await gateway(t)
  await gw.admin('POST', '/admin/organisations', { id: 'acme', owner_name: 'Acme' })
  const given = {
    access_key: 'a-key-of-my-own-choice',
    active: true,
    api_model: { a: 1 },
    email_address: 'Ada@Example.com',
    first_name: 'Ada',
    last_name: 'Lovelace',
    id: 'ada-1',
    last_login_date: '2026-01-02T03:04:05Z',
    org_id: 'acme',
    password_max_days: 30,
    password_updated: '2026-01-02T03:04:05.678+01:00',
    user_permissions: { apis: 'read' }
  }
  t.match(await made(gw, given), given)
  t.equal(await enters(gw, given.access_key), 200)
})

t.test('a taken key, id or address is 409; the address is free in another organisation', async t => {
  const gw = await gateway(t)
  await gw.admin('POST', '/admin/organisations', { id: 'acme', owner_name: 'Acme' })
  await made(gw, { id: 'one', access_key: 'x'.repeat(16), email_address: 'ada@example.com' })
  const again = await gw.admin('POST', '/admin/users', { email_address: 'ADA@example.com', org_id: 'default' })
  t.same([again.status, again.body], [409, error('User email already exists for this Org')])
  t.equal((await gw.admin('POST', '/admin/users', { id: 'one' })).status, 409)
  t.equal((await gw.admin('POST', '/admin/users', { access_key: 'x'.repeat(16) })).status, 409)
  await made(gw, { email_address: 'ada@example.com', org_id: 'acme' })
  const users = (await gw.admin('GET', '/admin/users')).body.users
  t.equal(users.length, 2, 'what was refused has left nothing')
})

t.test('what is no user is refused by its member', async t => {
  const gw = await gateway(t)
  await made(gw, { id: 'one' })
  for (const [body, pointer] of [
    [{ surprise: 1 }, '/surprise'],
    [{ access_key: 'short' }, '/access_key'],
    [{ access_key: 'with a space in it' }, '/access_key'],
    [{ email_address: 'nobody' }, '/email_address'],
    [{ email_address: 'a@b\u0000c' }, '/email_address'],
    [{ id: '../x' }, '/id'],
    [{ user_permissions: { apis: 'all' } }, '/user_permissions/apis'],
    [{ last_login_date: 'yesterday' }, '/last_login_date'],
    [{ password_max_days: 1e300 }, '/password_max_days'],
    [{ org_id: 'nowhere' }, '/org_id'],
    [{ group_id: 'nobodies' }, '/group_id'],
    [{ active: 'yes' }, '/active']
  ] as const)
    for (const [method, path] of [
      ['POST', '/admin/users'],
      ['PUT', '/admin/users/one']
    ] as const) {
      const answer = await gw.admin(method, path, body)
      t.equal(answer.status, 400, `${method} ${JSON.stringify(body)}`)
      t.equal(answer.body.faults[0].pointer, pointer)
    }
  for (const text of ['{', '[]', '"x"', 'null']) {
    const answer = await gw.admin('POST', '/admin/users', text)
    t.equal(answer.status, 400)
    t.equal(answer.body.Message, 'Request body malformed')
  }
  const empty = await gw.admin('POST', '/admin/users')
  t.same([empty.status, empty.body.Message], [400, 'Failed to read response body, body empty'])
})

t.test('a wrong address is one fault, and a blank one is none', async t => {
  const gw = await gateway(t)
  const { body } = await gw.admin('POST', '/admin/users', { email_address: 'bad' })
  t.match(body.faults, [{ pointer: '/email_address', message: /^must match pattern/ }])
  t.equal(body.faults.length, 1)
  t.equal((await gw.admin('POST', '/admin/users', { email_address: '' })).status, 200)
})

t.test('an update changes what is given and keeps the rest', async t => {
  const gw = await gateway(t)
  const user = await made(gw, { email_address: 'a@example.com', first_name: 'A', last_name: 'B' })
  const place = `/admin/users/${user.id}`
  const answer = await gw.admin('PUT', place, { active: true, first_name: 'Ada' })
  t.equal(answer.status, 200)
  const after = { ...user, active: true, first_name: 'Ada' }
  t.same(answer.body, { Status: 'OK', Message: user.access_key, Meta: after })
  t.same((await gw.admin('PUT', place, after)).body.Meta, after, 'what was read can be written back')
  t.equal((await gw.admin('PUT', place, { id: 'other' })).status, 400)
  const unknown = await gw.admin('PUT', '/admin/users/nobody', { active: true })
  t.same([unknown.status, unknown.body], [404, error('User not found')])
  const read = await gw.admin('GET', '/admin/users/nobody')
  t.same([read.status, read.body], [404, error('Could not retrieve user detail')])
})

t.test('a change of key, address or organisation counts for the next call', async t => {
  const gw = await gateway(t)
  await gw.admin('POST', '/admin/organisations', { id: 'acme', owner_name: 'Acme' })
  const user = await made(gw, { active: true, email_address: 'a@example.com' })
  const place = `/admin/users/${user.id}`
  t.equal(await enters(gw, user.access_key), 200)
  const next = 'k'.repeat(20)
  t.equal((await gw.admin('PUT', place, { access_key: next })).body.Message, next)
  t.same([await enters(gw, user.access_key), await enters(gw, next)], [401, 200])
  await gw.admin('PUT', place, { email_address: 'b@example.com' })
  await made(gw, { email_address: 'A@example.com' })
  t.equal((await gw.admin('PUT', place, { email_address: 'a@example.com' })).status, 409)
  t.equal((await gw.admin('PUT', place, { email_address: 'B@EXAMPLE.com' })).status, 200)
  const me = async () => (await gw.api('GET', '/api/users/me', undefined, { key: next })).body
  t.equal((await gw.admin('PUT', place, { org_id: 'acme', email_address: 'a@example.com' })).status, 200)
  t.match(await me(), { org_id: 'acme', email_address: 'a@example.com' })
  await made(gw, { email_address: 'b@example.com' })
  t.equal((await gw.admin('PUT', place, { active: false })).status, 200)
  t.equal(await enters(gw, next), 403)
})

t.test('who moves to another organisation leaves its group behind', async t => {
  const gw = await gateway(t)
  await gw.admin('POST', '/admin/organisations', { id: 'acme', owner_name: 'Acme' })
  const group_id = (await gw.api('POST', '/api/usergroups', { name: 'g' })).body.Meta
  const { id } = await made(gw, { group_id })
  t.equal((await gw.admin('PUT', `/admin/users/${id}`, { org_id: 'acme', group_id })).status, 400)
  t.match((await gw.admin('PUT', `/admin/users/${id}`, { org_id: 'acme' })).body.Meta, { group_id: '' })
})

t.test('a user that is deleted is gone, and its address and key are free', async t => {
  const gw = await gateway(t)
  const given = { email_address: 'a@example.com', access_key: 'x'.repeat(16), active: true }
  const { id } = await made(gw, given)
  t.equal(await enters(gw, given.access_key), 200)
  const gone = await gw.admin('DELETE', `/admin/users/${id}`)
  t.same([gone.status, gone.body], [200, { Status: 'OK', Message: 'User deleted', Meta: null }])
  t.equal(await enters(gw, given.access_key), 401)
  t.equal((await gw.admin('DELETE', `/admin/users/${id}`)).status, 404)
  await made(gw, given)
})

t.test('users of all organisations come in pages', async t => {
  const gw = await gateway(t)
  await gw.admin('POST', '/admin/organisations', { id: 'acme', owner_name: 'Acme' })
  for (let i = 0; i < 12; i++) await made(gw, { id: `u${i}`, org_id: i % 2 === 0 ? 'acme' : '' })
  const page = async (query: string) => {
    const { users, pages } = (await gw.admin('GET', `/admin/users${query}`)).body
    return [users.map(({ id }: { id: string }) => id).join(), pages]
  }
  t.same(await page('?page_size=5&p=3'), ['u10,u11', 3])
  t.same(await page('?p=9'), ['', 2])
  t.equal((await gw.admin('GET', '/admin/users?p=-1')).body.users.length, 12)
})

t.test('resetting passwords of others is given and denied', async t => {
  const gw = await gateway(t)
  const { id } = await made(gw, {})
  for (const [word, level] of [
    ['disallow', 'deny'],
    ['allow', 'admin']
  ]) {
    const answer = await gw.admin('PUT', `/admin/users/${id}/actions/${word}_reset_passwords`)
    t.same(answer.body, { Status: 'OK', Message: 'User updated', Meta: null })
    t.equal((await gw.admin('GET', `/admin/users/${id}`)).body.user_permissions.ResetPassword, level)
    t.equal((await gw.admin('PUT', `/admin/users/nobody/actions/${word}_reset_passwords`)).status, 404)
  }
})

t.test('a reload by the admin interface', async t => {
  const gw = await gateway(t)
  const { status, body } = await gw.admin('GET', '/admin/system/reload')
  t.same([status, body], [200, { status: 'ok' }])
})

t.test('a user carries its revision, and an old one is 412', async t => {
  const gw = await gateway(t)
  const { id } = await made(gw, {})
  const put = (tag: string) =>
    fetch(`${gw.managementUrl}/admin/users/${id}`, {
      method: 'PUT',
      headers: { 'Admin-Auth': SECRET, 'If-Match': tag },
      body: '{"first_name":"A"}'
    })
  t.equal((await gw.admin('GET', `/admin/users/${id}`)).headers.get('etag'), '"1"')
  const first = await put('"1"')
  t.same([first.status, first.headers.get('etag')], [200, '"2"'])
  const second = await put('"1"')
  t.same([second.status, second.headers.get('etag')], [412, '"2"'])
})

t.test('of many who take one address at once, one has it', async t => {
  const gw = await gateway(t)
  const bodies = Array.from({ length: 20 }, () => ({ email_address: 'one@example.com' }))
  const answers = await Promise.all(bodies.map(body => gw.admin('POST', '/admin/users', body)))
  t.same(answers.map(({ status }) => status).sort(), [200, ...new Array(19).fill(409)])
  const { id } = answers.find(({ status }) => status === 200)!.body.Meta
  const names = Array.from({ length: 20 }, (_, i) => ({ first_name: `n${i}`, user_permissions: { [`p${i}`]: 'read' } }))
  const changes = await Promise.all(names.map(body => gw.admin('PUT', `/admin/users/${id}`, body)))
  t.ok(changes.every(({ status }) => status === 200))
  t.equal((await gw.admin('GET', `/admin/users/${id}`)).headers.get('etag'), '"21"', 'every change counted')
})

t.test('access keys and passwords lie in the store unreadable', async t => {
  const gw = await gateway(t)
  const access_key = 'plain-access-key-of-ada'
  const { id } = await made(gw, { access_key, active: true })
  const answer = await gw.api(
    'POST',
    `/api/users/${id}/actions/reset`,
    { new_password: 'plain password' },
    { key: access_key }
  )
  t.equal(answer.status, 200)
  const kinds = ['user', 'access', 'name', 'audit'] as const
  const pages = await Promise.all(kinds.map(kind => gw.store.list(kind, { page: -1, size: 1 })))
  const text = JSON.stringify(pages)
  t.match(text, id)
  t.notOk(/plain/.test(text))
})

t.test('a key that was sealed under another secret still opens, is not shown, and can be reset', async t => {
  const gw = await gateway(t)
  const other = vault('the secret of before', { bytes: randomBytes })
  const key = 'k'.repeat(32)
  const user = newUser({ active: true, user_permissions: { apis: 'read' } }, 'ada', '2026-01-01T00:00:00Z')
  await gw.store.commit(userWrites(user, key, '', other))
  t.equal(await enters(gw, key), 200)
  t.equal((await gw.admin('GET', '/admin/users/ada')).body.access_key, '')
  const { Meta } = (await gw.api('PUT', '/api/users/ada/actions/key/reset')).body
  t.same([await enters(gw, key), await enters(gw, Meta)], [401, 200])
  const stray = { kind: 'access', id: accessId('x'.repeat(32)), org: 'default', body: { user: 'ada' } } as const
  await gw.store.commit([stray])
  t.equal(await enters(gw, 'x'.repeat(32)), 401, 'a place that is left over leads to nobody')
})
