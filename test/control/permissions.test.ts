import { randomBytes } from 'node:crypto'
import t from 'tap'
import { endpoints } from '../../control/endpoints/index.ts'
import { covers, denial, levels, permissionOf } from '../../control/permissions.ts'
import { vault } from '../../gateway/vault.ts'
import { gateway } from '../helpers/gateway.ts'

t.test('a rule covers every path of the management interface', async t => {
  for (const { door, path } of endpoints) if (door === 'management' || door === 'portal') t.ok(permissionOf(path), path)
  for (const path of ['/api', '/api/', '/api/nothing', '/api/apisx', '/admin/users', '/xapi/apis', '/api/users2', ''])
    t.equal(permissionOf(path), null, path)
})

t.test('a level allows what it says, deny binds administrators too, and the texts tell what is missing', async t => {
  const path = '/api/apis/oas'
  const none = `access denied: You do not have permission to access  ${path}`
  const cannot = (intent: string) => `access denied: You do not have permission to carry out '${intent}' operation.`
  for (const [permissions, read, write, remove] of [
    [{}, none, none, none],
    [{ apis: 'read' }, null, cannot('write'), cannot('delete')],
    [{ apis: 'write' }, null, null, null],
    [{ apis: 'admin' }, null, null, null],
    [{ apis: 'deny' }, none, none, none],
    [{ apis: 'toString' }, none, none, none],
    [{ keys: 'admin', APIS: 'admin', 'apis ': 'admin' }, none, none, none],
    [{ IsAdmin: 'admin' }, null, null, null],
    [{ IsAdmin: 'admin', apis: 'deny' }, none, none, none],
    [{ IsAdmin: 'admin', apis: 'read' }, null, null, null],
    [{ IsAdmin: 'write' }, none, none, none],
    [Object.create({ IsAdmin: 'admin', apis: 'admin' }), none, none, none]
  ] as [Record<string, string>, string | null, string | null, string | null][]) {
    const told = (['read', 'write', 'delete'] as const).map(intent => denial(permissions, path, intent))
    t.same(told, [read, write, remove], JSON.stringify(permissions))
  }
  t.match(denial({ apis: 'admin' }, '/api/nothing', 'read'), /This action is unknown\. .* '\/api\/nothing'\.$/)
})

t.test('nobody reaches further than whoever made him', async t => {
  const admin = { IsAdmin: 'admin' }
  for (const [own, other, expected] of [
    [admin, admin, true],
    [admin, { apis: 'admin', keys: 'deny' }, true],
    [{}, {}, true],
    [{}, { apis: 'deny' }, true],
    [{}, { apis: 'read' }, false],
    [{ apis: 'write' }, { apis: 'read' }, true],
    [{ apis: 'write' }, { apis: 'write' }, true],
    [{ apis: 'write' }, { apis: 'admin' }, false],
    [{ apis: 'deny' }, { apis: 'read' }, false],
    [{ apis: 'admin', keys: 'admin' }, admin, false],
    [{ ...admin, keys: 'deny' }, admin, false],
    [{ ...admin, keys: 'deny' }, { ...admin, keys: 'deny', apis: 'deny' }, true],
    [{ ...admin, keys: 'deny' }, { keys: 'read' }, false],
    [{ ...admin, keys: 'deny' }, { apis: 'admin' }, true],
    [{ IsAdmin: 'write' }, admin, false]
  ] as [Record<string, string>, Record<string, string>, boolean][])
    t.equal(covers(own, other), expected, `${JSON.stringify(own)} ${JSON.stringify(other)}`)
})

t.test('the table is shown to every user', async t => {
  const gw = await gateway(t)
  const key = await gw.user({ org_id: 'default', user_permissions: {} })
  const { status, body } = await gw.api('GET', '/api/schema/permissions', undefined, { key })
  t.equal(status, 200)
  t.same(body.levels, levels)
  const needed = (path: string) =>
    body.permissions.find(({ rx }: { rx: string }) => new RegExp(rx).test(path))?.permission
  for (const [path, permission] of [
    ['/api/apis/oas', 'apis'],
    ['/api/apis/a/keys/b', 'keys'],
    ['/api/keys/detailed', 'keys'],
    ['/api/portal/policies/x', 'policies'],
    ['/api/users', 'users'],
    ['/api/usergroups/x', 'user_groups'],
    ['/certs/a/apis', 'certs'],
    ['/api/org/notifications', 'certs'],
    ['/api/org/permissions', 'system'],
    ['/api/nothing', undefined]
  ])
    t.equal(needed(path!), permission)
})

t.test('a sealed text opens in its place, under its secret and undamaged alone', async t => {
  const one = vault('one secret', { bytes: randomBytes })
  const text = 'schlüssel \u0000 \ud83d\udd11'
  const sealed = one.seal(text, 'user/1')
  t.equal(one.open(sealed, 'user/1'), text)
  t.equal(one.open(one.seal('', 'a'), 'a'), '')
  t.not(one.seal(text, 'user/1'), sealed, 'twice the same text does not show')
  t.notOk(sealed.includes('schl'))
  t.equal(one.open(sealed, 'user/2'), null)
  t.equal(vault('other secret', { bytes: randomBytes }).open(sealed, 'user/1'), null)
  const parts = sealed.split('.')
  const body = Buffer.from(parts[3]!, 'base64url')
  for (let i = 0; i < body.length; i++) {
    const damaged = Buffer.from(body)
    damaged[i]! ^= 1
    t.equal(one.open([...parts.slice(0, 3), damaged.toString('base64url')].join('.'), 'user/1'), null)
  }
  for (const wrong of [
    '',
    '.',
    '...',
    'v1',
    `${sealed}.x`,
    parts.slice(0, 3).join('.'),
    `v2.${parts.slice(1).join('.')}`
  ])
    t.equal(one.open(wrong, 'user/1'), null, wrong)
  for (const iv of ['', 'AA', 'A'.repeat(400)])
    t.equal(one.open([parts[0], parts[1], iv, parts[3]].join('.'), 'user/1'), null, iv)
  const short = body.subarray(-17).toString('base64url')
  t.equal(one.open([...parts.slice(0, 3), short].join('.'), 'user/1'), null)
})
