import t from 'tap'
import { gateway, type TestGateway } from '../helpers/gateway.ts'

const error = (Message: string) => ({ Status: 'Error', Message, Meta: null })
const done = (Message: string, Meta: unknown = null) => ({ Status: 'OK', Message, Meta })
const grace = {
  first_name: 'Grace',
  last_name: 'Hopper',
  email_address: 'Grace@example.com',
  user_permissions: { apis: 'write' }
}

/** Creates a user through the interface; answers its id. */
async function made(gw: TestGateway, body: object = {}): Promise<string> {
  const email_address = `u${Math.random()}@example.com`
  const answer = await gw.api('POST', '/api/users', { ...grace, email_address, active: true, ...body })
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.body))
  return answer.body.Meta
}

async function read(gw: TestGateway, id: string): Promise<any> {
  return (await gw.api('GET', `/api/users/${id}`)).body
}

const keyOf = async (gw: TestGateway, id: string): Promise<string> => (await read(gw, id)).access_key
const ids = (body: any): string => body.users.map(({ first_name }: { first_name: string }) => first_name).join()

t.test('a user is created, read, changed and deleted', async t => {
  const gw = await gateway(t)
  const created = await gw.api('POST', '/api/users', grace)
  t.equal(created.status, 200)
  t.same(created.body, done('User and session have been created', created.body.Meta))
  const id = created.body.Meta
  t.match(id, /^[0-9a-f]{24}$/)
  const user = await read(gw, id)
  t.match(user, { ...grace, id, active: false, org_id: 'default', access_key: /^[0-9a-f]{32}$/ })
  t.notOk('password' in user)
  const updated = await gw.api('PUT', `/api/users/${id}`, { ...user, active: true, last_name: 'H' })
  t.same([updated.status, updated.body], [200, done('User updated')])
  t.same(await read(gw, id), { ...user, active: true, last_name: 'H' })
  const { access_key: key } = user
  t.same((await gw.api('GET', '/api/users/me', undefined, { key })).body, { ...user, active: true, last_name: 'H' })
  const deleted = await gw.api('DELETE', `/api/users/${id}`)
  t.same([deleted.status, deleted.body], [200, done('User deleted')])
  t.equal((await gw.api('GET', '/api/users/me', undefined, { key })).status, 401)
})

t.test('an unknown user is 404 everywhere', async t => {
  const gw = await gateway(t)
  const gone = error('user does not exist.')
  for (const [method, path, body, told] of [
    ['GET', '', undefined, error('Could not retrieve user detail.')],
    ['PUT', '', {}, gone],
    ['DELETE', '', undefined, gone],
    ['PUT', '/actions/key/reset', undefined, gone],
    ['PUT', '/actions/revoke', undefined, gone],
    ['POST', '/actions/reset', { new_password: 'secret 1' }, gone]
  ] as const) {
    const answer = await gw.api(method, `/api/users/nobody${path}`, body)
    t.same([answer.status, answer.body], [404, told], `${method} ${path}`)
  }
})

t.test('what is no user is refused by its member', async t => {
  const gw = await gateway(t)
  const without = (name: string) => Object.fromEntries(Object.entries(grace).filter(([own]) => own !== name))
  for (const [body, pointer] of [
    [without('first_name'), '/first_name'],
    [without('last_name'), '/last_name'],
    [without('email_address'), '/email_address'],
    [without('user_permissions'), '/user_permissions'],
    [{ ...grace, email_address: '' }, '/email_address'],
    [{ ...grace, password: 'short' }, '/password'],
    [{ ...grace, surprise: 1 }, '/surprise']
  ] as const) {
    const answer = await gw.api('POST', '/api/users', body)
    t.equal(answer.status, 400)
    t.equal(answer.body.Message, 'User object validation failed.')
    t.equal(answer.body.faults[0].pointer, pointer)
  }
  const malformed = await gw.api('POST', '/api/users', '{')
  t.same([malformed.status, malformed.body.Message], [400, 'Request body malformed.'])
  const empty = await gw.api('POST', '/api/users', '')
  t.same([empty.status, empty.body.Message], [400, 'Failed to read response body, body empty'])
  const nothing = 'To create a user specify at least one permission, or make them an admin.'
  const none = await gw.api('POST', '/api/users', { ...grace, user_permissions: {} })
  t.same([none.status, none.body], [400, error(nothing)])
  const id = await made(gw)
  const emptied = await gw.api('PUT', `/api/users/${id}`, { user_permissions: {} })
  t.same([emptied.status, emptied.body], [400, error(nothing)])
  t.equal((await gw.api('POST', '/api/users', { ...grace, org_id: 'other' })).status, 403)
  t.equal((await gw.api('PUT', `/api/users/${id}`, { org_id: 'other' })).status, 403)
  t.equal((await gw.api('PUT', `/api/users/${id}`, { id: 'other' })).status, 400)
  t.equal((await gw.api('PUT', `/api/users/${id}`, { access_key: 'k'.repeat(20) })).status, 400)
  t.equal((await gw.api('GET', '/api/users')).body.users.length, 2, 'what was refused has left nothing')
})

t.test('an address is one user in an organisation', async t => {
  const gw = await gateway(t)
  await made(gw, { email_address: 'grace@example.com' })
  const again = await gw.api('POST', '/api/users', grace)
  t.same([again.status, again.body], [409, error('User email already exists for this org.')])
  const other = await made(gw)
  t.equal((await gw.api('PUT', `/api/users/${other}`, { email_address: 'GRACE@example.com' })).status, 409)
})

t.test('users come in pages, and by a part of their address', async t => {
  const gw = await gateway(t, { settings: { management: { page_size: 3 } } })
  const names = ['a', 'b', 'c', 'd', 'e']
  for (const first_name of names) await made(gw, { first_name, email_address: `${first_name}.X@${first_name}.org` })
  const list = async (query: string) => {
    const { body } = await gw.api('GET', `/api/users${query}`)
    return [ids(body), body.pages]
  }
  t.same(await list(''), ['Ada,a,b', 2])
  t.same(await list('?p=0'), ['Ada,a,b', 2])
  t.same(await list('?p=2'), ['c,d,e', 2])
  t.same(await list('?p=7'), ['', 2])
  t.same(await list('?p=-1'), ['Ada,a,b,c,d,e', 1])
  t.same(await list('?p=2&page_size=5'), ['e', 2])
  const search = async (query: string, text: string) => {
    const { status, body } = await gw.api('POST', `/api/users/search${query}`, { filters: { query: text } })
    const twin = await gw.api('GET', `/api/users/search?q=${encodeURIComponent(text)}&${query.slice(1)}`)
    t.same([status, body], [twin.status, twin.body])
    return [ids(body), body.pages]
  }
  t.same(await search('', '.x@'), ['a,b,c', 2])
  t.same(await search('?p=2', '.X@'), ['d,e', 2])
  t.same(await search('?p=3', '.x@'), ['', 2])
  t.same(await search('?p=-1', '.ORG'), ['a,b,c,d,e', 1])
  t.same(await search('?p=-1', 'nobody'), ['', 0])
  t.same(await search('', 'C.x'), ['c', 1])
  t.same(await search('', '%'), ['', 0])
  for (const body of [{}, { filters: {} }, { filters: { query: 7 } }, '{', { query: 'a' }]) {
    const answer = await gw.api('POST', '/api/users/search', body)
    t.same([answer.status, answer.body.Message], [400, 'Could not extract search filter from request body.'])
  }
})

t.test('an access key is reset, and the old one opens nothing any more', async t => {
  const gw = await gateway(t)
  const id = await made(gw)
  const old = await keyOf(gw, id)
  const mine = (key: string) => gw.api('GET', '/api/users/me', undefined, { key })
  t.equal((await mine(old)).status, 200)
  const own = await gw.api('PUT', `/api/users/${id}/actions/key/reset`, undefined, { key: old })
  t.equal(own.status, 200, 'without any permission for users')
  t.match(own.body, { Status: 'OK', Message: 'User session renewed', Meta: /^[0-9a-f]{32}$/ })
  const next = own.body.Meta
  t.same([(await mine(old)).status, (await mine(next)).status], [401, 200])
  const others = await gw.api('PUT', `/api/users/${id}/actions/key/reset`)
  t.same([(await mine(next)).status, (await mine(others.body.Meta)).status], [401, 200])
  const revoked = await gw.api('PUT', `/api/users/${id}/actions/revoke`)
  t.same([revoked.status, revoked.body], [200, done('User revoked')])
  t.equal((await mine(others.body.Meta)).status, 401)
  t.equal(await keyOf(gw, id), '')
  const again = await gw.api('PUT', `/api/users/${id}/actions/key/reset`)
  t.equal((await mine(again.body.Meta)).status, 200)
})

t.test('a password is set with the current one, another user’s with a permission of its own', async t => {
  const gw = await gateway(t)
  const id = await made(gw, { password: 'first secret' })
  const key = await keyOf(gw, id)
  const set = (body: object, as = key) => gw.api('POST', `/api/users/${id}/actions/reset`, body, { key: as })
  const changed = await set({ current_password: 'first secret', new_password: 'second' })
  t.same([changed.status, changed.body], [200, done('User password updated')])
  t.match((await read(gw, id)).password_updated, /^20/)
  for (const body of [
    { current_password: 'first secret', new_password: 'third secret' },
    { new_password: 'third secret' },
    { current_password: 'second', new_password: 'short' },
    { current_password: 'second', new_password: 'x'.repeat(73) },
    { current_password: 'second', new_password: 'ö'.repeat(40) },
    { current_password: 'second' }
  ])
    t.equal((await set(body)).status, 400, JSON.stringify(body))
  t.equal((await set({ current_password: 'second', new_password: 'third secret' })).status, 200)
  const admin = await gw.user({ org_id: 'default', user_permissions: { IsAdmin: 'admin' } })
  t.equal((await set({ new_password: 'by another' }, admin)).status, 403)
  const resetter = await gw.user({
    org_id: 'default',
    user_permissions: { apis: 'write', ResetPassword: 'write' }
  })
  t.equal((await set({ new_password: 'by another' }, resetter)).status, 200)
  t.equal((await set({ current_password: 'by another', new_password: 'by itself' })).status, 200)
  const boss = (await gw.admin('POST', '/admin/users', {})).body.Meta.id
  const up = await gw.api('POST', `/api/users/${boss}/actions/reset`, { new_password: 'no secret' }, { key: resetter })
  t.equal(up.status, 403, 'nobody who may do more')
})

t.test('who is no administrator can neither give nor take over what it has not', async t => {
  const gw = await gateway(t)
  const key = await gw.user({
    id: 'x',
    org_id: 'default',
    email_address: 'clerk@example.com',
    user_permissions: { users: 'write', apis: 'read', hooks: 'deny' }
  })
  const as = (method: string, path: string, body?: unknown) => gw.api(method, path, body, { key })
  const me = (await as('GET', '/api/users/me')).body
  const boss = (await gw.admin('POST', '/admin/users', { active: true })).body.Meta
  const writer = await made(gw, { user_permissions: { apis: 'write' } })
  const reader = await made(gw, { user_permissions: { apis: 'read' } })
  const strong = (await gw.api('POST', '/api/usergroups', { name: 'g', user_permissions: { apis: 'write' } })).body.Meta
  const grown = await made(gw, { group_id: strong, user_permissions: { apis: 'read' } })

  for (const user_permissions of [
    { IsAdmin: 'admin' },
    { apis: 'write' },
    { apis: 'admin' },
    { hooks: 'read' },
    { keys: 'read' },
    { ResetPassword: 'admin' }
  ]) {
    const text = JSON.stringify(user_permissions)
    t.equal((await as('POST', '/api/users', { ...grace, user_permissions })).status, 403, text)
    t.equal((await as('POST', '/api/users', { ...grace, user_permissions, group_id: strong })).status, 403, text)
    for (const id of [me.id, reader])
      t.equal((await as('PUT', `/api/users/${id}`, { user_permissions })).status, 403, `${id} ${text}`)
  }
  t.equal((await as('PUT', `/api/users/${reader}`, { group_id: strong })).status, 403)
  for (const id of [boss.id, writer, grown]) {
    t.equal((await as('GET', `/api/users/${id}`)).body.access_key, '')
    t.equal((await as('PUT', `/api/users/${id}`, { first_name: 'Mine' })).status, 403)
    t.equal((await as('PUT', `/api/users/${id}`, { user_permissions: { apis: 'read' } })).status, 403)
    t.equal((await as('PUT', `/api/users/${id}/actions/key/reset`)).status, 403)
    t.equal((await as('PUT', `/api/users/${id}/actions/revoke`)).status, 403)
    t.equal((await as('DELETE', `/api/users/${id}`)).status, 403)
  }
  for (const { id, access_key } of (await as('GET', '/api/users?p=-1')).body.users)
    t.equal(access_key === '', id !== me.id, id)

  t.equal((await as('PUT', `/api/users/${reader}`, { first_name: 'Mine' })).status, 200)
  t.equal((await as('PUT', `/api/users/${me.id}`, { first_name: 'Clerk' })).status, 200)
  t.equal((await as('PUT', `/api/users/${reader}/actions/key/reset`)).status, 200)
  t.equal((await as('POST', '/api/users', { ...grace, user_permissions: { apis: 'read' } })).status, 200)
  t.equal((await as('DELETE', `/api/users/${reader}`)).status, 200)
})

t.test('what sleeps in a switched-off group or under a weaker one is neither given nor taken over', async t => {
  const gw = await gateway(t)
  const group = async (body: object) => (await gw.api('POST', '/api/usergroups', { name: 'g', ...body })).body.Meta
  const key = await gw.user({
    org_id: 'default',
    user_permissions: { users: 'write', user_groups: 'write', ResetPassword: 'write' }
  })
  const as = (method: string, path: string, body?: unknown) => gw.api(method, path, body, { key })
  const me = (await as('GET', '/api/users/me')).body
  const off = await group({ active: false, user_permissions: { IsAdmin: 'admin' } })
  const weak = await group({ user_permissions: { users: 'read' } })
  const weakOff = await group({ active: false, user_permissions: { users: 'read' } })
  const user_permissions = { users: 'read' }
  const plain = await made(gw, { user_permissions })

  t.equal((await as('POST', '/api/users', { ...grace, user_permissions, group_id: off })).status, 403)
  for (const id of [me.id, plain]) t.equal((await as('PUT', `/api/users/${id}`, { group_id: off })).status, 403)
  t.equal((await as('PUT', `/api/usergroups/${off}`, { active: true })).status, 403)
  t.equal((await as('PUT', `/api/usergroups/${weakOff}`, { user_permissions: { IsAdmin: 'admin' } })).status, 403)
  t.equal(
    (await as('POST', '/api/usergroups', { name: 'x', active: false, user_permissions: { keys: 'read' } })).status,
    403
  )

  for (const id of [
    await made(gw, { user_permissions, group_id: off }),
    await made(gw, { user_permissions: { keys: 'write' }, group_id: weak })
  ]) {
    t.equal((await as('GET', `/api/users/${id}`)).body.access_key, '')
    for (const [method, path, body] of [
      ['PUT', '', { first_name: 'Mine' }],
      ['PUT', '', { group_id: '' }],
      ['PUT', '', { user_permissions, group_id: weak }],
      ['PUT', '/actions/key/reset'],
      ['PUT', '/actions/revoke'],
      ['POST', '/actions/reset', { new_password: 'secret 1' }],
      ['DELETE', '']
    ] as const)
      t.equal((await as(method, `/api/users/${id}${path}`, body)).status, 403, `${method} ${path}`)
  }

  const reader = await gw.user({ org_id: 'default', user_permissions: { IsAdmin: 'admin', keys: 'deny' } })
  const shown = async (id: string) =>
    (await gw.api('GET', `/api/users/${id}`, undefined, { key: reader })).body.access_key
  t.equal(await shown(await made(gw, { user_permissions: { keys: 'write' }, group_id: weak })), '')
  t.match(await shown(plain), /./)

  t.equal((await as('PUT', `/api/users/${plain}`, { group_id: weakOff })).status, 200)
  t.equal((await as('PUT', `/api/users/${plain}`, { group_id: weak })).status, 200)
  t.equal((await as('PUT', `/api/users/${plain}/actions/key/reset`)).status, 200)
})

t.test('a user whose group hides what it may itself still has itself in hand', async t => {
  const gw = await gateway(t)
  const group = await gw.api('POST', '/api/usergroups', { name: 'g', user_permissions: { users: 'write' } })
  const id = await made(gw, { user_permissions: { keys: 'write' }, group_id: group.body.Meta })
  const as = async (method: string, path: string, body?: unknown) =>
    (await gw.api(method, `/api/users/${id}${path}`, body, { key })).status
  let key = await keyOf(gw, id)
  t.equal(await as('PUT', '', { first_name: 'Me' }), 200)
  t.equal(await as('PUT', '', { group_id: '' }), 403, 'it would have its own permissions again')
  t.equal(await as('PUT', '', { user_permissions: { users: 'read' } }), 200, 'it may give away what it has')
  t.equal(await as('PUT', '', { user_permissions: { keys: 'write' } }), 403)
  t.equal(await as('POST', '/actions/reset', { new_password: 'secret 1' }), 200)
  t.equal(await as('PUT', '/actions/key/reset'), 200)
  key = await keyOf(gw, id)
  t.equal(await as('DELETE', ''), 200)
})

t.test('what is denied to an administrator stays denied, whatever it writes', async t => {
  const gw = await gateway(t)
  const key = await gw.user({ org_id: 'default', user_permissions: { IsAdmin: 'admin', keys: 'deny' } })
  const as = (method: string, path: string, body?: unknown) => gw.api(method, path, body, { key })
  const { id } = (await as('GET', '/api/users/me')).body
  const { users } = (await gw.api('GET', '/api/users?p=-1')).body
  const other = users.find(({ email_address }: { email_address: string }) => email_address === 'admin@example.com')
  t.equal((await as('GET', '/api/keys/detailed')).status, 403)
  t.equal((await as('PUT', `/api/users/${id}`, { user_permissions: { IsAdmin: 'admin' } })).status, 403)
  t.equal((await as('GET', `/api/users/${other.id}`)).body.access_key, '')
  t.equal((await as('PUT', `/api/users/${other.id}/actions/key/reset`)).status, 403)
  t.equal((await as('POST', '/api/users', { ...grace, user_permissions: { IsAdmin: 'admin' } })).status, 403)
  t.equal((await as('POST', '/api/users', grace)).status, 200)
})

t.test('without the permission a user reads itself and nobody else', async t => {
  const gw = await gateway(t)
  const id = await made(gw)
  const key = await keyOf(gw, id)
  const as = (method: string, path: string, body?: unknown) => gw.api(method, path, body, { key })
  const { users } = (await gw.api('GET', '/api/users')).body
  const other = users[0].id
  t.equal((await as('GET', `/api/users/${id}`)).status, 200)
  for (const place of [other, 'nobody']) {
    const no = await as('GET', `/api/users/${place}`)
    t.same(
      [no.status, no.body],
      [403, error(`access denied: You do not have permission to access  /api/users/${place}`)]
    )
    t.equal((await as('PUT', `/api/users/${place}/actions/key/reset`)).status, 403)
    t.equal((await as('PUT', `/api/users/${place}/actions/revoke`)).status, 403)
  }
  t.equal((await as('PUT', `/api/users/${id}`, { first_name: 'Me' })).status, 403)
  t.equal((await as('GET', '/api/users')).status, 403)
  t.equal((await as('POST', '/api/users/search', { filters: { query: '' } })).status, 403)
})

t.test('an administrator can be removed by another one, not by itself', async t => {
  const gw = await gateway(t)
  const { id } = (await gw.api('GET', '/api/users/me')).body
  for (const [method, path, body] of [
    ['DELETE', ''],
    ['PUT', '', { active: false }],
    ['PUT', '', { user_permissions: { apis: 'write' } }],
    ['PUT', '/actions/revoke']
  ] as const)
    t.equal((await gw.api(method, `/api/users/${id}${path}`, body)).status, 409, `${method} ${path}`)
  t.equal((await gw.api('PUT', `/api/users/${id}`, { first_name: 'Me' })).status, 200)
  const key = await gw.user({ org_id: 'default' })
  t.equal((await gw.api('DELETE', `/api/users/${id}`, undefined, { key })).status, 200)
})

t.test('users of another organisation are not there', async t => {
  const gw = await gateway(t)
  await gw.admin('POST', '/admin/organisations', { id: 'acme', owner_name: 'Acme' })
  const mine = await made(gw)
  const key = await gw.user({ org_id: 'acme', first_name: 'Eve' })
  const as = (method: string, path: string, body?: unknown) => gw.api(method, path, body, { key })
  for (const [method, path, body] of [
    ['GET', ''],
    ['PUT', '', { first_name: 'Mine' }],
    ['DELETE', ''],
    ['PUT', '/actions/key/reset'],
    ['PUT', '/actions/revoke'],
    ['POST', '/actions/reset', { new_password: 'not yours' }]
  ] as const)
    t.equal((await as(method, `/api/users/${mine}${path}`, body)).status, 404, `${method} ${path}`)
  t.equal(ids((await as('GET', '/api/users?p=-1')).body), 'Eve')
  t.equal(ids((await as('POST', '/api/users/search', { filters: { query: '@' } })).body), 'Eve')
  t.match(await read(gw, mine), { first_name: 'Grace' })
})

t.test('a user carries its revision, and an old one is 412', async t => {
  const gw = await gateway(t)
  const id = await made(gw)
  const tag = (await gw.api('GET', `/api/users/${id}`)).headers.get('etag')!
  t.equal(tag, '"1"')
  const put = (first_name: string) =>
    gw.api('PUT', `/api/users/${id}`, { first_name }, { headers: { 'If-Match': tag } })
  const first = await put('first')
  t.same([first.status, first.headers.get('etag')], [200, '"2"'])
  t.equal((await put('second')).status, 412)
  const gone = await gw.api('DELETE', `/api/users/${id}`, undefined, { headers: { 'If-Match': tag } })
  t.equal(gone.status, 412)
  t.equal((await read(gw, id)).first_name, 'first')
})

t.test('no password and no access key stands in an audit record', async t => {
  const gw = await gateway(t, { settings: { management: { audit: { detailed_recording: true } } } })
  const id = await made(gw, { password: 'plain secret', access_key: 'plain-access-key-1' })
  await gw.api('PUT', `/api/users/${id}`, { first_name: 'New' })
  const { Meta } = (await gw.api('PUT', `/api/users/${id}/actions/key/reset`)).body
  await gw.api('POST', `/api/users/${id}/actions/reset`, { new_password: 'plain secret 2' })
  const boss = (await gw.admin('POST', '/admin/users', {})).body.Message
  const { documents } = await gw.store.list('audit', { page: -1, size: 1 })
  t.equal(documents.length, 5)
  const text = JSON.stringify(documents)
  t.match(text, '/first_name')
  t.notMatch(text, 'plain')
  t.notMatch(text, Meta)
  t.notMatch(text, boss)
})
