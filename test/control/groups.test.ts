import t from 'tap'
import type { User } from '../../config/shape/user.ts'
import { gateway, type TestGateway } from '../helpers/gateway.ts'

const error = (Message: string) => ({ Status: 'Error', Message, Meta: null })
const done = (Message: string, Meta: unknown = null) => ({ Status: 'OK', Message, Meta })

async function made(gw: TestGateway, body: object): Promise<string> {
  const answer = await gw.api('POST', '/api/usergroups', { name: 'g', ...body })
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.body))
  return answer.body.Meta
}

t.test('a group is created, read, changed, listed and deleted', async t => {
  const gw = await gateway(t)
  const created = await gw.api('POST', '/api/usergroups', { name: 'Readers', user_permissions: { apis: 'read' } })
  t.same([created.status, created.body], [200, done('User group created', created.body.Meta)])
  const id = created.body.Meta
  const place = `/api/usergroups/${id}`
  const { body: group, headers } = await gw.api('GET', place)
  const { last_updated, ...rest } = group
  t.match(last_updated, /^20/)
  t.same(rest, {
    _id: id,
    name: 'Readers',
    description: '',
    active: true,
    user_permissions: { apis: 'read' },
    password_max_days: 0,
    org_id: 'default'
  })
  t.equal(headers.get('etag'), '"1"')
  const updated = await gw.api('PUT', place, { ...group, description: 'They read' })
  t.same([updated.status, updated.body], [200, done('User group updated')])
  t.equal((await gw.api('PUT', place, {}, { headers: { 'If-Match': '"1"' } })).status, 412)
  const { body: list } = await gw.api('GET', '/api/usergroups')
  t.match(list, { groups: [{ _id: id, description: 'They read', user_permissions: { apis: 'read' } }], pages: 1 })
  const deleted = await gw.api('DELETE', place)
  t.same([deleted.status, deleted.body], [200, done('User group deleted')])
  for (const method of ['GET', 'PUT', 'DELETE']) {
    const answer = await gw.api(method, place, method === 'PUT' ? {} : undefined)
    t.same([answer.status, answer.body], [404, error('User group not found')], method)
  }
  t.same((await gw.api('GET', '/api/usergroups')).body, { groups: [], pages: 0 })
})

t.test('what is no group is refused by its member', async t => {
  const gw = await gateway(t)
  for (const [body, pointer] of [
    [{}, '/name'],
    [{ name: '' }, '/name'],
    [{ name: 'g', surprise: 1 }, '/surprise'],
    [{ name: 'g', user_permissions: { apis: 'all' } }, '/user_permissions/apis']
  ] as const) {
    const answer = await gw.api('POST', '/api/usergroups', body)
    t.same([answer.status, answer.body.Message], [400, 'User group object validation failed.'])
    t.equal(answer.body.faults[0].pointer, pointer)
  }
  const malformed = await gw.api('POST', '/api/usergroups', '[')
  t.same([malformed.status, malformed.body.Message], [400, 'Request body malformed.'])
  t.equal((await gw.api('POST', '/api/usergroups', { name: 'g', org_id: 'other' })).status, 403)
})

t.test('members may do what the group may, from the next call on; without it, what they may themselves', async t => {
  const gw = await gateway(t)
  const id = await made(gw, { user_permissions: { users: 'read' } })
  const key = await gw.user({ org_id: 'default', group_id: id, user_permissions: { user_groups: 'read' } })
  const boss = await gw.user({ org_id: 'default', group_id: id })
  const may = async () => {
    const calls = ['/api/users', '/api/usergroups'].map(path => gw.api('GET', path, undefined, { key }))
    return (await Promise.all(calls)).map(({ status }) => status)
  }
  const place = `/api/usergroups/${id}`
  t.same(await may(), [200, 403])
  await gw.api('PUT', place, { user_permissions: { user_groups: 'write' } })
  t.same(await may(), [403, 200])
  await gw.api('PUT', place, { user_permissions: {} })
  t.same(await may(), [403, 403])
  t.equal((await gw.api('GET', '/api/users', undefined, { key: boss })).status, 200, 'an administrator keeps its own')
  await gw.api('PUT', place, { active: false })
  t.same(await may(), [403, 200])
  await gw.api('PUT', place, { active: true, user_permissions: { users: 'read' } })
  t.same(await may(), [200, 403])
  await gw.api('DELETE', place)
  t.same(await may(), [403, 200])
})

t.test('who is no administrator cannot raise itself by a group', async t => {
  const gw = await gateway(t)
  const strong = await made(gw, { user_permissions: { apis: 'write' } })
  const admins = await made(gw, { user_permissions: { IsAdmin: 'admin' } })
  const held = await made(gw, { user_permissions: { user_groups: 'write' } })
  const free = await made(gw, { user_permissions: {} })
  const key = await gw.user({
    org_id: 'default',
    group_id: held,
    user_permissions: { user_groups: 'write', keys: 'write' }
  })
  const as = (method: string, path: string, body?: unknown) => gw.api(method, path, body, { key })
  for (const user_permissions of [{ IsAdmin: 'admin' }, { apis: 'read' }, { keys: 'read' }, { user_groups: 'admin' }]) {
    t.equal((await as('POST', '/api/usergroups', { name: 'x', user_permissions })).status, 403)
    for (const id of [held, free]) t.equal((await as('PUT', `/api/usergroups/${id}`, { user_permissions })).status, 403)
  }
  for (const id of [strong, admins]) {
    t.equal((await as('PUT', `/api/usergroups/${id}`, { name: 'mine' })).status, 403)
    t.equal((await as('DELETE', `/api/usergroups/${id}`)).status, 403)
  }
  t.equal((await as('DELETE', `/api/usergroups/${held}`)).status, 403, 'it would have its own permissions again')
  t.equal((await as('PUT', `/api/usergroups/${held}`, { active: false })).status, 403)
  t.equal((await as('PUT', `/api/usergroups/${held}`, { name: 'ours' })).status, 200)
  t.equal((await as('POST', '/api/usergroups', { name: 'x', user_permissions: { user_groups: 'read' } })).status, 200)
  t.equal((await as('DELETE', `/api/usergroups/${free}`)).status, 200)
})

t.test('who changes what members may do has what they have, their own permissions among it', async t => {
  const gw = await gateway(t)
  const group = async (active: boolean, own: NonNullable<User['user_permissions']>) => {
    const id = await made(gw, { active, user_permissions: { apis: 'write' } })
    await gw.user({ org_id: 'default', group_id: id, user_permissions: own })
    return `/api/usergroups/${id}`
  }
  const key = await gw.user({ org_id: 'default', user_permissions: { user_groups: 'write', apis: 'write' } })
  const strong = { keys: 'write' } as const
  const weak = { apis: 'read' } as const
  for (const [active, own, body, status] of [
    [false, strong, { active: true }, 403],
    [false, { IsAdmin: 'admin' }, { active: true }, 403],
    [true, strong, { active: false }, 403],
    [true, strong, { user_permissions: { apis: 'read' } }, 403],
    [true, strong, { user_permissions: { apis: 'write', user_groups: 'read' } }, 403],
    [true, strong, { user_permissions: { apis: 'write' }, name: 'same' }, 200],
    [false, strong, { user_permissions: { apis: 'read' } }, 200],
    [false, strong, { active: true, user_permissions: {} }, 403],
    [false, weak, { active: true }, 200],
    [true, weak, { active: false }, 200],
    [true, weak, { user_permissions: { apis: 'read' } }, 200]
  ] as const) {
    const place = await group(active, own)
    const answer = await gw.api('PUT', place, body, { key })
    t.equal(answer.status, status, JSON.stringify([active, own, body]))
    t.equal((await gw.api('GET', place)).headers.get('etag'), status === 200 ? '"2"' : '"1"')
  }
})

t.test('groups of another organisation are not there and give nothing', async t => {
  const gw = await gateway(t)
  await gw.admin('POST', '/admin/organisations', { id: 'acme', owner_name: 'Acme' })
  const id = await made(gw, { user_permissions: { users: 'read' } })
  const key = await gw.user({ org_id: 'acme' })
  for (const [method, body] of [['GET'], ['PUT', { name: 'mine' }], ['DELETE']] as const)
    t.equal((await gw.api(method, `/api/usergroups/${id}`, body, { key })).status, 404)
  t.same((await gw.api('GET', '/api/usergroups', undefined, { key })).body, { groups: [], pages: 0 })
  const user = { first_name: 'a', last_name: 'b', email_address: 'a@b', user_permissions: {}, group_id: id }
  t.equal((await gw.api('POST', '/api/users', user, { key })).status, 400)
  const stray = await gw.user({ org_id: 'acme', group_id: id, user_permissions: { apis: 'read' } })
  t.equal((await gw.api('GET', '/api/users', undefined, { key: stray })).status, 403)
})
