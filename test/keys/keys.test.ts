import t from 'tap'
import type { Document } from '../../gateway/store/store.ts'
import { Unavailable } from '../../gateway/store/store.ts'
import { storeMemory } from '../../gateway/store/storeMemory.ts'
import { storeSqlite } from '../../gateway/store/storeSqlite.ts'
import { gate, quiet } from './gate.ts'

const rights = { A: { api_id: 'A' } }

for (const kind of ['memory', 'sqlite'] as const) {
  const make = async (dir: string) =>
    kind === 'memory' ? storeMemory() : storeSqlite({ path: `${dir}/svc.db`, log: quiet })

  t.test(`${kind}: a credential refused a moment ago opens as soon as its key exists`, async t => {
    const { ask, call } = await gate(t, { store: await make(t.testdir()) })
    t.equal(await call('alice', 'A'), 'unknown')
    t.equal((await ask('POST', '/keys/alice', { access_rights: rights })).status, 200)
    t.equal(await call('alice', 'A'), 'passed')
    t.equal(await call('alice', 'B'), 'closed')
  })

  t.test(`${kind}: changes of keys and policies count for the next request`, async t => {
    const { ask, call } = await gate(t, { store: await make(t.testdir()) })
    await ask('POST', '/policies', { id: 'gold', rate: 1, per: 60, access_rights: rights })
    const { key } = (await ask('POST', '/keys/create', { apply_policies: ['gold'] })).body
    t.equal(await call(key, 'A'), 'passed')
    t.equal(await call(key, 'A'), 'rate')
    await ask('PUT', '/policies/gold', { rate: 2, per: 60, access_rights: rights })
    t.equal(await call(key, 'A'), 'passed', 'the count stays, the new rate counts')
    t.equal(await call(key, 'A'), 'rate')
    await ask('PUT', '/policies/gold', { is_inactive: true, access_rights: rights })
    t.equal(await call(key, 'A'), 'inactive')
    await ask('DELETE', '/policies/gold')
    t.equal(await call(key, 'A'), 'unknown')
    await ask('POST', '/policies', { id: 'gold', access_rights: rights })
    t.equal(await call(key, 'A'), 'passed')
    await ask('PUT', `/keys/${key}`, { is_inactive: true, access_rights: rights })
    t.equal(await call(key, 'A'), 'inactive')
    await ask('DELETE', `/keys/${key}`)
    t.equal(await call(key, 'A'), 'unknown')
  })
}

t.test('a key opens nothing in another organisation, and one id may live in several', async t => {
  const { ask, call } = await gate(t)
  const { key } = (await ask('POST', '/keys/create', { org_id: 'o1', access_rights: rights })).body
  t.equal(await call(key, 'A', 'o1'), 'passed')
  t.equal(await call(key, 'A'), 'unknown')
  await ask('POST', '/keys/alice', { org_id: 'o1', access_rights: rights })
  t.equal(await call('alice', 'A', 'o1'), 'passed')
  t.equal(await call('alice', 'A', 'o2'), 'unknown')
  await ask('POST', '/keys/alice', { org_id: 'o2', access_rights: { B: {} } })
  t.equal(await call('alice', 'A', 'o2'), 'closed')
  t.equal(await call('alice', 'B', 'o2'), 'passed')
  t.equal(await call('alice', 'A', 'o1'), 'passed')
  await ask('PUT', '/keys/alice?org_id=o1', { access_rights: { C: {} } })
  await ask('PUT', '/keys/alice?org_id=o2', { access_rights: { D: {} } })
  t.equal(await call('alice', 'A', 'o1'), 'closed')
  t.equal(await call('alice', 'C', 'o1'), 'passed')
  t.equal(await call('alice', 'D', 'o2'), 'passed')
  t.equal(await call('o2\0alice', 'D', 'o2'), 'unknown', 'the names of our memory are no credentials')
})

t.test('a custom id takes the place of a token of the same text', async t => {
  const { ask, call } = await gate(t)
  const { key } = (await ask('POST', '/keys/create', { access_rights: rights })).body
  t.equal(await call(key, 'A'), 'passed')
  await ask('POST', `/keys/${key}`, { access_rights: { B: {} } })
  t.equal(await call(key, 'A'), 'closed')
})

t.test('the hash of a key is no credential', async t => {
  const { ask, call } = await gate(t)
  const { key_hash } = (await ask('POST', '/keys/create', { access_rights: rights })).body
  t.equal(await call(key_hash, 'A'), 'unknown')
  t.equal(await call('x'.repeat(5000), 'A'), 'unknown')
})

t.test('a known key is found again without asking the store, an unknown one after 3 s', async t => {
  const store = storeMemory()
  let reads = 0
  const { get } = store
  store.get = (kind, id) => {
    if (kind === 'key') reads++
    return get.call(store, kind, id) as never
  }
  const { ask, call, keys, clock } = await gate(t, { store })
  const { key } = (await ask('POST', '/keys/create', { access_rights: rights })).body
  await call(key, 'A')
  reads = 0
  t.equal(keys.find('default', key), keys.find('default', key))
  t.equal(reads, 0)
  await call('nobody', 'A')
  t.equal(reads, 2)
  await call('nobody', 'A')
  t.equal(reads, 2)
  clock.move(3000)
  await call('nobody', 'A')
  t.equal(reads, 4)
})

t.test('many requests of one credential wait for one look-up; too many look-ups are refused', async t => {
  const store = storeMemory()
  const { get } = store
  let reads = 0
  let release = () => {}
  let held = new Promise<void>(resolve => (release = resolve))
  let slow = false
  store.get = (async (kind: 'key', id: string) => {
    const document = get.call(store, kind, id) as Document | null
    if (kind === 'key') reads++
    if (slow) await held
    return document
  }) as never
  const { ask, keys } = await gate(t, { store })
  const { key } = (await ask('POST', '/keys/create', { access_rights: rights })).body
  reads = 0
  slow = true
  const found = Array.from({ length: 64 }, () => keys.find('default', key))
  t.equal(reads, 1)
  release()
  const sessions = await Promise.all(found)
  t.equal(new Set(sessions).size, 1)
  t.ok(sessions[0])
  t.equal(reads, 2)

  held = new Promise<void>(resolve => (release = resolve))
  const waiting = Array.from({ length: 1000 }, (_, i) => keys.find('default', `nobody${i}`))
  t.throws(() => keys.find('default', 'one more'), { message: /too many/ })
  release()
  t.strictSame(new Set(await Promise.all(waiting)), new Set([null]))
  slow = false
  t.equal(await keys.find('default', 'one more'), null)
})

t.test('a look-up that a change overtakes is not remembered', async t => {
  const store = storeMemory()
  const { get } = store
  let release = () => {}
  let hold: Promise<void> | null = null
  store.get = (async (kind: 'key', id: string) => {
    const document = get.call(store, kind, id) as Document | null
    await hold
    return document
  }) as never
  const { ask, call, keys } = await gate(t, { store })
  const { key } = (await ask('POST', '/keys/create', { access_rights: rights })).body
  hold = new Promise<void>(resolve => (release = resolve))
  const early = keys.find('default', key)
  const put = ask('PUT', `/keys/${key}`, { access_rights: { B: {} } })
  const release1 = release
  hold = null
  t.equal((await put).status, 200)
  t.equal(await call(key, 'A'), 'closed', 'a later request does not join the early look-up')
  release1()
  await early
  t.equal(await call(key, 'A'), 'closed')
})

t.test('an absent store is told to the caller', async t => {
  const store = storeMemory()
  const { keys } = await gate(t, { store })
  store.get = () => {
    throw new Unavailable('gone')
  }
  t.throws(() => keys.find('default', 'anybody'), { message: 'gone' })
  store.get = async () => {
    throw new Unavailable('gone')
  }
  await t.rejects(async () => keys.find('default', 'anybody'), { message: 'gone' })
  store.get = async () => null
  t.equal(await keys.find('default', 'anybody'), null)
})

t.test('sessions are bounded, and what is used stays', async t => {
  const { ask, keys, store, clock } = await gate(t)
  const { key } = (await ask('POST', '/keys/create', { access_rights: rights })).body
  const session = await keys.find('default', key)
  for (let i = 0; i < 60_000; i++) {
    await keys.find('default', `nobody${i}`)
    if (i % 100 === 0) await keys.find('default', key)
  }
  t.equal(await keys.find('default', key), session)
  await ask('POST', '/keys/nobody59999', { access_rights: rights })
  t.ok(await keys.find('default', 'nobody59999'))
  clock.move(1)
  t.equal((await store.list('key', { page: 1, size: 10 })).total, 2)
})

t.test('counters: the key, an API with its own limit, endpoints, and scopes of policies', async t => {
  const { ask, keys, call } = await gate(t)
  const endpoints = [
    { path: '/users/{id}', methods: [{ name: 'get', limit: { rate: 7, per: 1 } }] },
    { path: '/users/me', methods: [{ name: 'GET', limit: { rate: -1, per: 1 } }] }
  ]
  await ask('POST', '/keys/carol', {
    rate: 5,
    per: 10,
    quota_max: 2,
    quota_renewal_rate: 60,
    throttle_interval: 0.5,
    throttle_retry_limit: 3,
    access_rights: { A: {}, B: { limit: { rate: 1, per: 1 } }, C: { endpoints } }
  })
  const session = (await keys.find('default', 'carol'))!
  const request = { header: () => null, path: '/', client: '::1' }
  const [forA, forB, forC] = ['A', 'B', 'C'].map(id => session.grant(id)!)
  t.match(forA!.rate, { allowed: 5, perMs: 10_000 })
  t.match(forA!.quota, { allowed: 2, perMs: 60_000 })
  t.strictSame(forA!.throttle, { intervalMs: 500, retries: 3 })
  t.equal(forC!.rate!.id, forA!.rate!.id)
  t.not(forB!.rate!.id, forA!.rate!.id)
  t.equal(forB!.quota, null)
  t.equal(forB!.throttle, null)
  t.equal(forA!.charges('GET', '/users/1', request).rate, forA!.rate)
  t.equal(forC!.charges('GET', '/users/1', request).rate!.allowed, 7)
  t.equal(forC!.charges('GET', '/users/me', request).rate, null, 'unlimited there')
  t.equal(forC!.charges('POST', '/users/1', request).rate, forC!.rate)
  t.equal(session.grant('A'), forA)
  t.equal(session.grant('__proto__'), null)
  t.equal(session.grant('constructor'), null)
  t.equal(await call('carol', 'A'), 'passed')
})

t.test('allowed_urls', async t => {
  const { ask, keys } = await gate(t)
  const allowed_urls = [
    { url: '/orders/{id}', methods: ['GET', 'post'] },
    { url: '/none', methods: [] }
  ]
  t.equal(
    (await ask('POST', '/keys/dave', { access_rights: { A: { allowed_urls }, B: { allowed_urls: [] } } })).status,
    200
  )
  const session = (await keys.find('default', 'dave'))!
  const grant = session.grant('A')!
  t.ok(grant.allows('GET', '/orders/7'))
  t.ok(grant.allows('POST', '/orders/7'))
  t.notOk(grant.allows('DELETE', '/orders/7'))
  t.notOk(grant.allows('GET', '/orders/7/x'))
  t.notOk(grant.allows('GET', '/none'))
  t.ok(session.grant('B')!.allows('GET', '/anything'))
  t.notOk(grant.allows('GET', '/Orders/7'))
  t.ok(session.grant('A', { matching: 'exact', ignoreCase: true })!.allows('GET', '/Orders/7'))
})

t.test('rate_limit_pattern counts by its value instead of the key', async t => {
  const { ask, keys } = await gate(t)
  const meta_data = { user: 'u1', rate_limit_pattern: '$svc_meta.user|$svc_context.headers_X_Id' }
  await ask('POST', '/keys/erin', { rate: 5, per: 1, quota_max: 9, access_rights: rights, meta_data })
  await ask('POST', '/keys/fred', {
    rate: 5,
    per: 1,
    quota_max: 9,
    access_rights: rights,
    meta_data: { ...meta_data, user: '' }
  })
  const from = (id: string) => ({ header: (name: string) => (name === 'x-id' ? id : null), path: '/', client: '::1' })
  const [erin, fred] = await Promise.all(
    ['erin', 'fred'].map(async id => (await keys.find('default', id))!.grant('A')!)
  )
  const ids = (grant: typeof erin, id: string) => {
    const { rate, quota } = grant!.charges('GET', '/', from(id))
    return [rate!.id, quota!.id]
  }
  t.strictSame(ids(erin, '1'), ids(erin, '1'))
  t.equal(erin!.charges('GET', '/', from('1')), erin!.charges('GET', '/', from('1')), 'made once')
  t.not(ids(erin, '1')[0], ids(erin, '2')[0])
  t.not(ids(erin, '1')[1], ids(erin, '2')[1])
  t.not(ids(erin, '')[0], erin!.rate!.id)
  t.equal(ids(fred, '')[0], fred!.rate!.id, 'nothing to tell apart: the key counts')
  t.equal(ids(erin, 'x'.repeat(100_000))[0]!.length, ids(erin, '1')[0]!.length)
})

t.test('a key without rights opens everything only where master keys are allowed', async t => {
  const shut = await gate(t)
  t.equal((await shut.ask('POST', '/keys/create', {})).status, 400)
  const open = await gate(t, { gateway: { allow_master_keys: true } })
  const { key } = (await open.ask('POST', '/keys/create', { rate: 1, per: 60 })).body
  t.equal(await open.call(key, 'any'), 'passed')
  t.equal(await open.call(key, 'other'), 'rate')
  t.equal(await open.call(key, 'any', 'o1'), 'unknown')
})
