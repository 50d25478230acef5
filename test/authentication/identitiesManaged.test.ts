import t, { type Test } from 'tap'
import { api, gateway, type TestGateway, withKey } from '../helpers/gateway.ts'
import { soon } from '../helpers/soon.ts'
import { jwtApi, md5, policy, signed } from './withTokens.ts'

const in_ = (seconds: number) => Math.floor(Date.now() / 1000) + seconds

const call = (gw: TestGateway, path: string, claims: Record<string, unknown>) =>
  gw.get(path, { Authorization: `Bearer ${signed(claims)}` })

async function start(t: Test, settings: Record<string, unknown> = {}) {
  const gw = await gateway(t, {
    settings,
    apis: [
      jwtApi('a', { policyFieldName: 'pol', defaultPolicies: ['gold'] }),
      jwtApi('b', { policyFieldName: 'pol', defaultPolicies: ['gold'] }),
      api('k', 'svc://echo', { server: withKey })
    ]
  })
  await policy(gw, 'gold', ['a', 'b', 'k'])
  await policy(gw, 'silver', ['b'])
  return gw
}

t.test('whoever manages keys finds, changes, switches off and deletes the session of a caller', async t => {
  const gw = await start(t)
  const exp = in_(600)
  const claims = { sub: 'ada', exp }
  const id = md5('ada')
  t.equal((await call(gw, '/a/', claims)).status, 200)
  await soon(t, 'it is kept', 200, () => gw.svc('GET', `/svc/keys/${id}`))
  const { body: key } = await gw.svc('GET', `/svc/keys/${id}`)
  t.match(key, { alias: 'ada', org_id: 'default', apply_policies: ['gold'], expires: exp, is_inactive: false })
  const listed = await gw.svc('GET', '/svc/keys')
  t.ok(listed.body.keys.length > 0)
  const wrapped = await gw.api('GET', `/api/apis/a/keys/${id}`)
  t.match(wrapped, { status: 200, body: { key_id: id, data: { alias: 'ada' } } })

  for (const path of ['/k/', '/a/'])
    for (const credential of [id, `Bearer ${id}`])
      t.equal((await gw.get(path, { Authorization: credential })).status, 403, `${path} its id opens nothing`)
  t.equal((await gw.get('/k/', { Authorization: `Basic ${Buffer.from(`${id}:x`).toString('base64')}` })).status, 403)

  const off = { apply_policies: ['gold'], is_inactive: true, alias: 'ada', expires: exp }
  t.equal((await gw.svc('PUT', `/svc/keys/${id}`, off)).status, 200)
  const refused = await call(gw, '/a/', claims)
  t.same([refused.status, await refused.json()], [403, { error: 'Key is inactive, please renew' }])
  t.equal((await call(gw, '/b/', { ...claims, exp: exp + 1 })).status, 403, 'with any of its tokens')
  for (const path of ['/k/', '/a/'])
    t.equal((await gw.get(path, { Authorization: id })).status, 403, 'written anew, it is still no token')
  t.equal((await gw.svc('PUT', `/svc/keys/${id}`, { ...off, is_inactive: false })).status, 200)
  t.equal((await call(gw, '/a/', claims)).status, 200)

  t.equal((await gw.svc('PUT', `/svc/keys/${id}`, { apply_policies: ['silver'], expires: exp })).status, 200)
  t.equal((await call(gw, '/a/', claims)).status, 200, 'the token’s policies are applied again')
  t.equal((await gw.svc('DELETE', `/svc/keys/${id}`)).status, 200)
  t.equal((await call(gw, '/a/', claims)).status, 200, 'deleted: the next token makes it anew')
  await soon(t, 'and it is kept again', 200, () => gw.svc('GET', `/svc/keys/${id}`))
})

t.test('a caller who is switched off stays so when what was read is written back', async t => {
  const gw = await start(t)
  const id = md5('ada')
  const claims = { sub: 'ada', exp: in_(600) }
  t.equal((await call(gw, '/a/', claims)).status, 200)
  await soon(t, 'it is kept', 200, () => gw.svc('GET', `/svc/keys/${id}`))
  const { body: key } = await gw.svc('GET', `/svc/keys/${id}`)
  t.equal((await gw.svc('PUT', `/svc/keys/${id}`, { ...key, is_inactive: true })).status, 200)
  const read = await gw.svc('GET', `/svc/keys/${id}`)
  t.equal(read.body.is_inactive, true)
  t.equal((await gw.api('GET', `/api/apis/a/keys/${id}`)).body.data.is_inactive, true)
  const { body: listed } = await gw.api('GET', '/api/keys/detailed?p=-1')
  t.same(
    listed.keys.filter(({ data }: any) => data.alias === 'ada').map(({ data }: any) => data.is_inactive),
    [true]
  )
  t.equal((await gw.svc('PUT', `/svc/keys/${id}`, read.body)).status, 200)
  t.equal((await call(gw, '/a/', claims)).status, 403)
})

t.test('a key made beforehand under the id is the session, with its own rights', async t => {
  const gw = await start(t)
  const id = md5('eve')
  const made = await gw.svc('POST', `/svc/keys/${id}`, { apply_policies: ['silver'], quota_max: -1, alias: 'by hand' })
  t.equal(made.status, 200)
  t.equal((await call(gw, '/b/', { sub: 'eve', pol: 'silver' })).status, 200)
  t.equal((await call(gw, '/a/', { sub: 'eve', pol: 'silver' })).status, 403)
  t.equal((await call(gw, '/a/', { sub: 'eve' })).status, 200, 'with the policies of the token')
  t.match((await gw.svc('GET', `/svc/keys/${id}`)).body, { alias: 'by hand', apply_policies: ['silver'] })
  t.equal((await gw.svc('DELETE', `/svc/keys/${id}`)).status, 200)
})

t.test('expired sessions: a token that is good prolongs them', async t => {
  const gw = await start(t)
  const id = md5('bob')
  t.equal((await call(gw, '/a/', { sub: 'bob', exp: in_(600) })).status, 200)
  await soon(t, 'it is kept', 200, () => gw.svc('GET', `/svc/keys/${id}`))
  const later = in_(1200)
  t.equal((await call(gw, '/a/', { sub: 'bob', exp: later, pol: 'gold' })).status, 200)
  t.equal((await call(gw, '/b/', { sub: 'bob', exp: later, pol: 'silver' })).status, 200)
  await soon(t, 'the later end is kept', 200, async () => {
    const { body } = await gw.svc('GET', `/svc/keys/${id}`)
    return { status: body.expires === later ? 200 : 409 }
  })
})

t.test('limits count for the caller, whichever token and API', async t => {
  const gw = await start(t)
  await policy(gw, 'three', ['a', 'b'], { rate: 3, per: 60 })
  const status = async (path: string, claims: object) =>
    (await call(gw, path, { sub: 'cid', pol: 'three', ...claims })).status
  t.equal(await status('/a/', {}), 200)
  t.equal(await status('/a/', { exp: in_(60) }), 200)
  t.equal(await status('/a/', { exp: in_(70), jti: 'x' }), 200)
  t.equal(await status('/a/', { exp: in_(80) }), 429)
  t.equal(await status('/a/', { sub: 'dan' }), 200, 'somebody else has a rate of his own')
})

t.test('threads make one document of a caller', async t => {
  const gw = await start(t, { gateway: { workers: 2 } })
  const names = Array.from({ length: 10 }, (_, n) => `caller-${n}`)
  for (let round = 0; round < 4; round++)
    await Promise.all(
      names.map(async sub => t.equal((await call(gw, '/a/', { sub, exp: in_(600 + round) })).status, 200))
    )
  for (const name of names) await soon(t, `${name} is kept`, 200, () => gw.svc('GET', `/svc/keys/${md5(name)}`))
  const { body } = await gw.svc('GET', '/svc/keys')
  t.equal(body.keys.length, names.length)
  const off = { apply_policies: ['gold'], is_inactive: true }
  t.equal((await gw.svc('PUT', `/svc/keys/${md5('caller-0')}`, off)).status, 200)
  for (let n = 0; n < 8; n++)
    t.equal((await call(gw, '/a/', { sub: 'caller-0', exp: in_(700) })).status, 403, 'switched off on every thread')
  t.same(
    gw.log.lines.filter(({ msg, level }) => msg !== 'event' && (level === 'error' || level === 'warn')),
    []
  )
})

t.test(
  'a key that was made beforehand and is switched off keeps its caller out, whatever the token brings',
  async t => {
    const gw = await start(t)
    const off = { is_inactive: true, access_rights: { a: { api_id: 'a', versions: ['Default'] } } }
    t.equal((await gw.svc('POST', `/svc/keys/${md5('ban')}`, off)).status, 200)
    const refused = await call(gw, '/a/', { sub: 'ban', pol: 'gold', exp: in_(600) })
    t.same([refused.status, await refused.json()], [403, { error: 'Key is inactive, please renew' }])
  }
)
