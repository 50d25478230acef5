import t from 'tap'
import { handClock } from '../helpers/clock.ts'
import { api, gateway, rights, withKey } from '../helpers/gateway.ts'

const open = { ...rights('a') }

t.test('session_lifetime and post_expiry_action end a key as if it had been deleted', async t => {
  const clock = handClock()
  const gw = await gateway(t, { clock, apis: [api('a', 'svc://echo', { server: withKey })] })
  const now = Math.floor(clock.now() / 1000)
  const kept = await gw.key({ ...open, expires: now + 10 })
  const deleted = await gw.key({ ...open, expires: now + 10, post_expiry_action: 'delete' })
  const grace = await gw.key({ ...open, expires: now + 10, post_expiry_action: 'retain', post_expiry_grace_period: 20 })
  const short = await gw.key({ ...open, session_lifetime: 5 })
  const status = async (key: string) => (await gw.get('/a/', { Authorization: key })).status
  const read = async (key: string) => (await gw.svc('GET', `/svc/keys/${key}`)).status
  for (const key of [kept, deleted, grace, short]) t.equal(await status(key), 200)
  await clock.jump(11_000)
  t.same(await Promise.all([kept, deleted, grace, short].map(status)), [401, 403, 401, 403])
  t.same(await Promise.all([kept, deleted, grace, short].map(read)), [200, 404, 200, 404])
  await clock.jump(20_000)
  t.same(await Promise.all([kept, grace].map(read)), [200, 404])
})

t.test('a custom id whose key is gone may be taken again', async t => {
  const clock = handClock()
  const gw = await gateway(t, { clock, apis: [api('a', 'svc://echo', { server: withKey })] })
  t.equal((await gw.svc('POST', '/svc/keys/mine', { ...open, session_lifetime: 5 })).status, 200)
  t.equal((await gw.svc('POST', '/svc/keys/mine', open)).status, 409)
  await clock.jump(6_000)
  t.equal((await gw.svc('POST', '/svc/keys/mine', open)).status, 200)
  t.equal((await gw.get('/a/', { Authorization: 'mine' })).status, 200)
})

t.test('a policy that is not active gives no new keys; those that have it keep it', async t => {
  const gw = await gateway(t, { apis: [api('a', 'svc://echo', { server: withKey })] })
  const policy = { id: 'p', active: true, ...open }
  await gw.svc('POST', '/svc/policies', policy)
  const key = await gw.key({ apply_policies: ['p'] })
  t.equal((await gw.svc('PUT', '/svc/policies/p', { ...policy, active: false })).status, 200)
  t.equal((await gw.get('/a/', { Authorization: key })).status, 200)
  t.match(await gw.svc('POST', '/svc/keys/create', { apply_policies: ['p'] }), {
    status: 400,
    body: { message: 'Failed to create key - policy p is not active' }
  })
})

t.test('a key without rights is told so in the words of its call', async t => {
  const gw = await gateway(t, { apis: [api('a', 'svc://echo', { server: withKey })] })
  await gw.svc('POST', '/svc/keys/mine', open)
  t.match((await gw.svc('POST', '/svc/keys/create', {})).body.message, /at least one Access Rights record/)
  t.match((await gw.svc('POST', '/svc/keys/other', {})).body.message, /ensure security settings are correct/)
  t.match((await gw.svc('PUT', '/svc/keys/mine', {})).body.message, /ensure security settings are correct/)
})
