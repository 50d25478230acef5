import t from 'tap'
import { looksLikeToken } from '../../gateway/keys/token.ts'
import { gate } from './gate.ts'

const rights = { a1: { api_id: 'a1', api_name: 'orders', versions: ['Default'] } }

t.test('create a key, then read it by token and by hash (semantics §12.4)', async t => {
  const { ask, clock, emitted } = await gate(t)
  const created = await ask('POST', '/keys/create', {
    org_id: 'o1',
    rate: 10,
    per: 60,
    quota_max: 100,
    quota_renewal_rate: 3600,
    access_rights: rights
  })
  t.equal(created.status, 200)
  t.strictSame(Object.keys(created.body), ['key', 'status', 'action', 'key_hash'])
  t.match(created.body, { status: 'ok', action: 'added' })
  t.ok(looksLikeToken(created.body.key))
  const now = clock.now() / 1000
  const expected = {
    org_id: 'o1',
    rate: 10,
    per: 60,
    quota_max: 100,
    quota_renewal_rate: 3600,
    quota_remaining: 100,
    quota_renews: now + 3600,
    access_rights: rights,
    is_inactive: false,
    date_created: new Date(clock.now()).toISOString(),
    last_updated: String(now)
  }
  t.strictSame((await ask('GET', `/keys/${created.body.key}`)).body, expected)
  t.strictSame((await ask('GET', `/keys/${created.body.key_hash}?hashed=1`)).body, expected)
  t.strictSame((await ask('GET', `/keys/${created.body.key_hash}?hashed=true`)).body, expected)
  t.equal((await ask('GET', `/keys/${created.body.key_hash}?hashed=false`)).status, 404)
  t.strictSame(await ask('GET', '/keys/nope'), { status: 404, body: { status: 'error', message: 'Key not found' } })
  t.match(emitted, [{ name: 'TokenCreated', message: 'Key generated.', key: created.body.key_hash }])
})

t.test('the token of a key stands nowhere in the store, a custom id does', async t => {
  const { ask, store } = await gate(t)
  const { key } = (await ask('POST', '/keys/create', { access_rights: rights })).body
  await ask('POST', '/keys/alice', { access_rights: rights })
  const { documents } = await store.list('key', { page: -1, size: 10 })
  const all = JSON.stringify(documents)
  t.notOk(all.includes(key))
  t.ok(all.includes('alice'))
})

t.test('what was sent wrongly is answered 400 with its text and every fault', async t => {
  const { ask } = await gate(t)
  const bad: [string, string, unknown, RegExp][] = [
    ['POST', '/keys/create', '{', /^Unmarshalling failed/],
    ['POST', '/keys/create', '', /^Unmarshalling failed/],
    ['POST', '/keys/create', [], /^Unmarshalling failed/],
    ['POST', '/keys/x', {}, /at least 3/],
    ['POST', '/keys/xyz', 'no', /^Request malformed/],
    ['POST', '/keys/create', {}, /at least one Access Rights/],
    ['POST', '/keys/create', { apply_policies: ['gone'] }, /^Failed to create key - policy not found: "gone"$/],
    [
      'POST',
      '/keys/create',
      { access_rights: rights, no_such: 1, rate: 'x' },
      /no_such is not known here.*rate must be number/
    ],
    [
      'POST',
      '/keys/create',
      { access_rights: { a: { allowed_urls: [{ url: '^/[', methods: ['GET'] }] } } },
      /allowed_urls\/0\/url/
    ],
    [
      'POST',
      '/keys/create',
      {
        access_rights: rights,
        rate: 5,
        per: 1,
        smoothing: { enabled: true, threshold: 5, trigger: 1, step: 1, delay: 1 }
      },
      /smoothing\/threshold must be below the rate/
    ],
    ['POST', '/keys/create', { access_rights: rights, smoothing: { enabled: true, threshold: 0 } }, /threshold/],
    [
      'POST',
      '/keys/create',
      { access_rights: rights, basic_auth_data: { password: 'p' } },
      /a generated token is no user name/
    ],
    ['POST', '/keys/create', { access_rights: rights, certificate: 'c' }, /existent certificate/],
    [
      'POST',
      '/keys/create',
      { access_rights: rights, mtls_static_certificate_bindings: ['c'] },
      /certificate not found: c/
    ],
    [
      'POST',
      '/keys/create',
      { meta_data: { policies: [{ id: 'p', rate: 'x' }] } },
      /\/meta_data\/policies\/0\/rate must be number/
    ],
    ['POST', `/keys/${'x'.repeat(4096)}`, { access_rights: rights }, /at most 512/],
    ['POST', '/keys/a%00bcd', { access_rights: rights }, /control characters/],
    ['POST', '/keys/policy/xyz', {}, /^Couldn't decode instruction/],
    ['POST', '/keys/policy/xyz', '{', /^Couldn't decode instruction/],
    ['GET', '/keys?p=x', undefined, /query/],
    ['GET', '/keys?page_size=5000', undefined, /page_size/]
  ]
  for (const [method, path, body, message] of bad) {
    const answer = await ask(method, path, body)
    t.equal(answer.status, 400, `${method} ${path.slice(0, 40)} ${JSON.stringify(body)}`)
    t.match(answer.body.message, message)
  }
  t.equal((await ask('GET', `/keys/${'x'.repeat(4096)}`)).status, 404)
  t.equal((await ask('DELETE', '/keys/a%00b')).status, 404)
})

t.test('custom ids: slashes, letters of any script, keys of comparable systems, and a taken one', async t => {
  const { ask, call } = await gate(t)
  const imported = Buffer.from('{"org":"5e9d9544a1dcd60001d0ed20","id":"abc","h":"murmur64"}').toString('base64')
  for (const id of ['a/b c?d', 'ключ', imported, 'user@example.org']) {
    const path = `/keys/${encodeURIComponent(id)}`
    const created = await ask('POST', path, { access_rights: rights })
    t.match(created, { status: 200, body: { key: id, action: 'added' } })
    t.equal(await call(id, 'a1'), 'passed')
    t.equal((await ask('GET', path)).status, 200)
    t.equal((await ask('GET', `/keys/${created.body.key_hash}?hashed=1`)).status, 200)
    t.equal((await ask('POST', path, { access_rights: rights })).status, 409)
    t.match(await ask('PUT', path, { access_rights: rights }), {
      status: 200,
      body: { key: id, status: 'ok', action: 'modified' }
    })
    t.strictSame((await ask('DELETE', path)).body, { key: id, status: 'ok', action: 'deleted' })
    t.match(await ask('DELETE', path), { status: 404, body: { message: 'There is no such key found' } })
    t.match(await ask('PUT', path, { access_rights: rights }), { status: 404, body: { message: 'Key is not found' } })
    t.equal((await ask('POST', path, { access_rights: rights })).status, 200, 'free again')
  }
  await ask('POST', `/keys/${encodeURIComponent(imported)}`, {
    org_id: '5e9d9544a1dcd60001d0ed20',
    access_rights: rights
  })
  t.equal(await call(imported, 'a1', '5e9d9544a1dcd60001d0ed20'), 'passed')
})

t.test('custom ids of other organisations are found by org_id or by an API', async t => {
  const { ask } = await gate(t, { apis: { a1: { orgId: 'o1' } } })
  await ask('POST', '/keys/alice', { org_id: 'o1', access_rights: rights })
  t.equal((await ask('GET', '/keys/alice')).status, 404)
  t.equal((await ask('GET', '/keys/alice?org_id=o1')).status, 200)
  t.equal((await ask('GET', '/keys/alice?api_id=a1')).status, 200)
  t.equal((await ask('GET', '/keys/alice?org_id=o1&username=true')).status, 200)
  t.equal((await ask('PUT', '/keys/alice', { org_id: 'o1', access_rights: rights })).status, 200)
  const { key, key_hash } = (await ask('POST', '/keys/create', { access_rights: rights })).body
  t.equal((await ask('GET', `/keys/${key}?org_id=o1`)).status, 404)
  t.equal((await ask('GET', `/keys/${key}?username=true`)).status, 404)
  t.equal((await ask('PUT', `/keys/${key}`, { org_id: 'o1', access_rights: rights })).status, 404)
  t.equal((await ask('PUT', `/keys/${key_hash}?hashed=1`, { org_id: 'o1', access_rights: rights })).status, 400)
  t.equal((await ask('DELETE', '/keys/alice?org_id=o1&api_id=-1')).body, null)
})

t.test('deprecated names are accepted and answered under the new ones', async t => {
  const { ask } = await gate(t)
  await ask('POST', '/policies', { id: 'p1', access_rights: rights })
  const { key } = (await ask('POST', '/keys/create', { apply_policy_id: 'p1', enable_detail_recording: true })).body
  const { body } = await ask('GET', `/keys/${key}`)
  t.strictSame(body.apply_policies, ['p1'])
  t.equal(body.enable_detailed_recording, true)
  t.notOk('apply_policy_id' in body || 'enable_detail_recording' in body)
})

t.test('quotas: live remainder, reset by an update, kept with suppress_reset (semantics §12.7)', async t => {
  const { ask, call, clock } = await gate(t)
  const start = clock.now() / 1000
  const body = { quota_max: 2, quota_renewal_rate: 60, rate: 100, per: 60, access_rights: rights }
  const { key } = (await ask('POST', '/keys/create', body)).body
  const read = async () => (await ask('GET', `/keys/${key}`)).body
  clock.move(5000)
  t.equal(await call(key, 'a1'), 'passed')
  t.match(await read(), { quota_remaining: 1, quota_renews: start + 65 })
  t.equal(await call(key, 'a1'), 'passed')
  t.equal(await call(key, 'a1'), 'quota')
  t.match(await read(), { quota_remaining: 0 })
  const { last_updated } = await read()
  clock.move(5000)
  await ask('PUT', `/keys/${key}?suppress_reset=1`, { ...body, quota_max: 5 })
  t.match(await read(), {
    quota_remaining: 2,
    quota_renews: start + 65,
    last_updated,
    date_created: new Date(start * 1000).toISOString()
  })
  await ask('PUT', `/keys/${key}`, { ...body, quota_max: 5 })
  t.match(await read(), { quota_remaining: 5, quota_renews: start + 10 + 60, last_updated: String(start + 10) })
  t.equal(await call(key, 'a1'), 'passed')
  t.match(await read(), { quota_remaining: 4 })
})

t.test('an update starts rates anew, and APIs that skip the reset keep counting', async t => {
  const { ask, call } = await gate(t, { apis: { keeps: { skipQuotaReset: true } } })
  const limit = { rate: 1, per: 60 }
  const body = { access_rights: { a1: { limit }, keeps: { limit } } }
  await ask('POST', '/keys/alice', body)
  for (const api of ['a1', 'keeps']) await call('alice', api)
  t.equal(await call('alice', 'a1'), 'rate')
  await ask('PUT', '/keys/alice?suppress_reset=1', body)
  t.equal(await call('alice', 'a1'), 'rate')
  await ask('PUT', '/keys/alice', body)
  t.equal(await call('alice', 'a1'), 'passed')
  t.equal(await call('alice', 'keeps'), 'rate')
  await ask('DELETE', '/keys/alice')
  await ask('POST', '/keys/alice', body)
  t.equal(await call('alice', 'keeps'), 'passed', 'a deleted key takes its counters along')
})

t.test('per-API limits are read back with what remains there', async t => {
  const { ask, call, clock } = await gate(t)
  const limit = { quota_max: 3, quota_renewal_rate: 60, rate: 9, per: 1 }
  await ask('POST', '/keys/alice', { quota_max: 8, access_rights: { a1: { limit }, a2: {} } })
  await call('alice', 'a1')
  const { body } = await ask('GET', '/keys/alice')
  t.match(body, { quota_max: 8, quota_remaining: 8 })
  t.strictSame(body.access_rights!.a1!.limit, { ...limit, quota_remaining: 2, quota_renews: clock.now() / 1000 + 60 })
  t.strictSame(body.access_rights!.a2, {})
  const again = await ask('PUT', '/keys/alice?suppress_reset=1', body)
  t.equal(again.status, 200, 'what was read may be written')
})

t.test('expiry: of policies for new keys, a past one in an update keeps the stored one', async t => {
  const { ask, clock } = await gate(t)
  const now = clock.now() / 1000
  await ask('POST', '/policies', { id: 'p1', key_expires_in: 100, access_rights: rights })
  await ask('POST', '/policies', { id: 'p2', key_expires_in: 50, access_rights: rights })
  await ask('POST', '/policies', { id: 'p3', access_rights: rights })
  await ask('POST', '/keys/alice', { apply_policies: ['p1', 'p2', 'p3'], expires: now + 7 })
  t.equal((await ask('GET', '/keys/alice')).body.expires, now + 50)
  await ask('PUT', '/keys/alice', { apply_policies: ['p1'], expires: 5 })
  t.equal((await ask('GET', '/keys/alice')).body.expires, now + 50)
  await ask('PUT', '/keys/alice', { apply_policies: ['p1'], expires: now + 500 })
  t.equal((await ask('GET', '/keys/alice')).body.expires, now + 500)
  await ask('PUT', '/keys/alice', { apply_policies: ['p1'], expires: 0 })
  t.equal((await ask('GET', '/keys/alice')).body.expires, 0)
})

t.test('preview shows the key with its policies and stores nothing', async t => {
  const { ask, store } = await gate(t)
  await ask('POST', '/policies', { id: 'p1', rate: 3, per: 1, quota_max: 5, access_rights: rights })
  const { status, body } = await ask('POST', '/keys/preview', { apply_policies: ['p1'] })
  t.equal(status, 200)
  t.match(body, { rate: 3, per: 1, quota_max: 5, quota_remaining: 5, access_rights: { a1: { limit: { rate: 3 } } } })
  t.equal((await store.list('key', { page: 1, size: 1 })).total, 0)
})

t.test('policies are given to a key in both forms', async t => {
  const { ask, call } = await gate(t)
  await ask('POST', '/policies', { id: 'p1', access_rights: rights })
  await ask('POST', '/policies', { id: 'p2', access_rights: { a2: {} } })
  await ask('POST', '/keys/alice', { access_rights: { a3: {} } })
  t.strictSame((await ask('POST', '/keys/policy/alice', { policy: 'p1' })).body, {
    key: 'alice',
    status: 'ok',
    action: 'updated'
  })
  t.equal(await call('alice', 'a1'), 'passed')
  t.equal(await call('alice', 'a3'), 'closed')
  await ask('POST', '/keys/policy/alice', { apply_policies: ['p1', 'p2'] })
  t.equal(await call('alice', 'a2'), 'passed')
  t.match(await ask('POST', '/keys/policy/alice', { policy: 'gone' }), {
    status: 400,
    body: { message: /policy not found/ }
  })
  t.match(await ask('POST', '/keys/policy/nobody', { policy: 'p1' }), {
    status: 404,
    body: { message: 'Key not found' }
  })
})

t.test('inline policies count instead of named ones', async t => {
  const { ask, call } = await gate(t)
  const policies = [{ id: 'mine', rate: 1, per: 60, access_rights: { a9: {} } }]
  t.equal((await ask('POST', '/keys/alice', { apply_policies: ['gone'], meta_data: { policies } })).status, 200)
  t.equal(await call('alice', 'a9'), 'passed')
  t.equal(await call('alice', 'a9'), 'rate')
  t.equal((await ask('POST', '/keys/bob', { access_rights: rights, meta_data: { policies: 'gold' } })).status, 200)
})

t.test('secrets: an HMAC secret is made once and kept, readable to whoever may write keys', async t => {
  const { ask } = await gate(t)
  await ask('POST', '/keys/alice', { hmac_enabled: true, jwt_data: { secret: 's' }, access_rights: rights })
  const first = (await ask('GET', '/keys/alice')).body
  t.ok(Buffer.from(first.hmac_string!, 'base64').length >= 16)
  t.equal(first.jwt_data!.secret, 's')
  await ask('PUT', '/keys/alice', { hmac_enabled: true, access_rights: rights })
  t.equal((await ask('GET', '/keys/alice')).body.hmac_string, first.hmac_string)
})

t.test('lists: all, by filter, by API, in pages', async t => {
  const { ask } = await gate(t)
  await ask('POST', '/policies', { id: 'p1', access_rights: { a2: {} } })
  const hashes: string[] = []
  for (let i = 0; i < 12; i++) hashes.push((await ask('POST', '/keys/create', { access_rights: rights })).body.key_hash)
  await ask('POST', '/keys/alice', { apply_policies: ['p1'] })
  const all = [...hashes, 'alice']
  t.strictSame((await ask('GET', '/keys')).body, { keys: all })
  t.strictSame((await ask('GET', '/keys?p=-1')).body, { keys: all })
  t.strictSame((await ask('GET', '/keys?p=1')).body, { keys: all.slice(0, 10), pages: 2 })
  t.strictSame((await ask('GET', '/keys?p=2')).body, { keys: all.slice(10), pages: 2 })
  t.strictSame((await ask('GET', '/keys?p=3&page_size=5')).body, { keys: all.slice(10), pages: 3 })
  t.strictSame((await ask('GET', '/keys?p=9')).body, { keys: [], pages: 2 })
  t.strictSame((await ask('GET', '/keys?filter=lic')).body, { keys: ['alice'] })
  t.strictSame((await ask('GET', '/keys?api_id=a2')).body, { keys: ['alice'] })
  t.strictSame((await ask('GET', '/keys?api_id=a1&p=2')).body, { keys: hashes.slice(10), pages: 2 })
})

t.test('hash_keys false: tokens are readable, there are no hashes', async t => {
  const { ask, call } = await gate(t, { gateway: { hash_keys: false } })
  const created = (await ask('POST', '/keys/create', { access_rights: rights })).body
  t.notOk('key_hash' in created)
  t.equal(await call(created.key, 'a1'), 'passed')
  t.strictSame((await ask('GET', '/keys')).body, { keys: [created.key] })
  t.match(await ask('GET', `/keys/${created.key}?hashed=1`), {
    status: 400,
    body: { message: 'Key requested by hash but key hashing is not enabled' }
  })
  t.equal((await ask('GET', '/keys?api_id=a1')).status, 400)
  t.strictSame((await ask('GET', '/keys?api_id=a1&filter=svc_')).body, { keys: [created.key] })
})

t.test('listing hashes can be switched off', async t => {
  const { ask } = await gate(t, { gateway: { enable_hashed_keys_listing: false } })
  t.match(await ask('GET', '/keys'), {
    status: 404,
    body: { message: 'Hashed key listing is disabled in config (enable_hashed_keys_listing)' }
  })
})

t.test('writers at once lose nothing: one of several creations, every update or none after a deletion', async t => {
  const { ask, call } = await gate(t)
  const made = await Promise.all(Array.from({ length: 8 }, () => ask('POST', '/keys/alice', { access_rights: rights })))
  t.strictSame(made.map(({ status }) => status).sort(), [200, 409, 409, 409, 409, 409, 409, 409])
  const puts = await Promise.all(
    Array.from({ length: 32 }, (_, i) => ask('PUT', '/keys/alice', { alias: String(i), access_rights: rights }))
  )
  t.ok(puts.every(({ status }) => status === 200))
  const mixed = await Promise.all([
    ...Array.from({ length: 8 }, () => ask('PUT', '/keys/alice', { access_rights: rights })),
    ...Array.from({ length: 4 }, () => ask('DELETE', '/keys/alice'))
  ])
  t.equal(mixed.slice(8).filter(({ status }) => status === 200).length, 1)
  t.ok(mixed.every(({ status }) => status === 200 || status === 404))
  t.equal((await ask('GET', '/keys/alice')).status, 404)
  t.equal(await call('alice', 'a1'), 'unknown')
})

t.test('names from outside cannot reach the prototype', async t => {
  const { ask, call } = await gate(t)
  const evil = '{"access_rights":{"__proto__":{}}}'
  t.match(await ask('POST', '/keys/alice', evil), {
    status: 400,
    body: { faults: [{ pointer: '/access_rights/__proto__' }] }
  })
  t.equal((await ask('POST', '/keys/alice', { access_rights: { constructor: {} } })).status, 200)
  t.equal(await call('alice', 'constructor'), 'passed')
  for (const name of ['__proto__', 'toString', 'hasOwnProperty']) t.equal(await call('alice', name), 'closed')
})

t.test('policies: create, read, list, replace, delete', async t => {
  const { ask, clock } = await gate(t)
  t.strictSame(
    (await ask('POST', '/policies', { id: 'gold', name: 'Gold', rate: 5, per: 1, access_rights: rights })).body,
    { key: 'gold', status: 'ok', action: 'added' }
  )
  const { body } = await ask('GET', '/policies/gold')
  t.match(body, {
    id: 'gold',
    _id: /^[0-9a-f]{24}$/,
    org_id: 'default',
    name: 'Gold',
    rate: 5,
    date_created: new Date(clock.now()).toISOString(),
    last_updated: String(clock.now() / 1000)
  })
  t.equal((await ask('POST', '/policies', { id: 'gold' })).status, 409)
  clock.move(1000)
  t.strictSame((await ask('PUT', '/policies/gold', { id: 'gold', rate: 6, per: 1 })).body, {
    key: 'gold',
    status: 'ok',
    action: 'modified'
  })
  const after = (await ask('GET', '/policies/gold')).body
  t.match(after, {
    rate: 6,
    last_updated: String(clock.now() / 1000),
    date_created: (body as { date_created: string }).date_created
  })
  t.notOk('name' in after, 'replaced, not merged')
  t.strictSame((await ask('GET', '/policies')).body, [after])
  t.strictSame((await ask('DELETE', '/policies/gold')).body, { key: 'gold', status: 'ok', action: 'deleted' })
  t.strictSame(await ask('GET', '/policies/gold'), {
    status: 404,
    body: { status: 'error', message: 'Policy not found' }
  })
  t.equal((await ask('PUT', '/policies/gold', {})).status, 404)
  t.equal((await ask('DELETE', '/policies/gold')).status, 404)
  const bad: [string, string, unknown, RegExp][] = [
    ['POST', '/policies', '{', /^Request malformed/],
    ['POST', '/policies', {}, /^Unable to create policy without id\.$/],
    ['POST', '/policies', { id: 'a b' }, /^Invalid Policy ID: Allowed characters: a-z, A-Z, 0-9, ., _, -, ~$/],
    ['GET', '/policies/a%2Fb', undefined, /^Invalid Policy ID/],
    [
      'PUT',
      '/policies/x',
      { id: 'y' },
      /^Request ID does not match that in policy! For Update operations these must match\.$/
    ],
    ['POST', '/policies', { id: 'x', oops: 1 }, /oops is not known here/],
    [
      'POST',
      '/policies',
      { id: 'x', access_rights: { a: { allowed_urls: [{ url: '/[', methods: [] }] } } },
      /allowed_urls/
    ]
  ]
  for (const [method, path, given, message] of bad)
    t.match(await ask(method, path, given), { status: 400, body: { message } })
})

t.test('paths that take too long to compile together are refused, and told once', async t => {
  const { ask } = await gate(t)
  const urls = (count: number, more = '') =>
    Array.from({ length: count }, (_, i) => ({ url: `^/[a-z]{1,200}x${i}${more}$`, methods: ['GET'] }))
  const tooMuch = /^\/access_rights\/.* is one expression too many/
  for (const [path, more] of [
    ['/keys/alice', {}],
    ['/policies', { id: 'gold' }]
  ] as const) {
    const one = await ask('POST', path, { ...more, access_rights: { a: { allowed_urls: urls(100) } } })
    t.equal(one.status, 400)
    const { faults } = one.body as unknown as { faults: { pointer: string; message: string }[] }
    t.equal(faults.length, 1)
    t.match(`${faults[0]!.pointer} ${faults[0]!.message}`, tooMuch)
    const apis = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`a${i}`, { allowed_urls: urls(1, `${i}`) }]))
    t.equal((await ask('POST', path, { ...more, access_rights: apis })).status, 400, 'over all APIs')
    const plain = Array.from({ length: 200 }, (_, i) => ({ url: `/orders/{id}/${i}`, methods: ['GET'] }))
    t.equal((await ask('POST', path, { ...more, access_rights: { a: { allowed_urls: plain } } })).status, 200)
    t.match(await ask('POST', path, { ...more, access_rights: { a: { allowed_urls: [...plain, plain[0]] } } }), {
      status: 400,
      body: { faults: [{ pointer: '/access_rights/a/allowed_urls', message: /more than 200/ }] }
    })
  }
})

t.test('policies that are sound each may be too much together', async t => {
  const { ask, keys } = await gate(t)
  const apply_policies = ['p0', 'p1', 'p2', 'p3', 'p4', 'p5']
  const policy = (id: string, count: number) => {
    const url = (i: number) => ({ url: `^/[a-z]{1,200}${id}x${i}$`, methods: ['GET'] })
    return { id, access_rights: { a: { allowed_urls: Array.from({ length: count }, (_, i) => url(i)) } } }
  }
  for (const id of apply_policies) t.equal((await ask('POST', '/policies', policy(id, 1))).status, 200)
  t.equal((await ask('POST', '/keys/alice', { apply_policies })).status, 200)
  for (const id of apply_policies) t.equal((await ask('PUT', `/policies/${id}`, policy(id, 20))).status, 200)
  t.match(await ask('POST', '/keys/bobby', { apply_policies }), { status: 400, body: { message: /too many/ } })
  const grant = (await keys.find('default', 'alice'))!.grant('a')!
  t.notOk(grant.allows('GET', '/nowhere'), 'all are asked')
  t.ok(grant.allows('GET', '/abcp0x3'))
  t.notOk(grant.allows('GET', '/abcp5x19'), 'what is too much takes no path')
})

t.test('policies that nobody could reach or apply are refused when they are saved', async t => {
  const { ask } = await gate(t)
  for (const id of ['.', '..', '...']) t.match(await ask('POST', '/policies', { id }), { status: 400 }, id)
  t.equal((await ask('POST', '/policies', { id: '.a' })).status, 200)
  const message = 'cannot apply policy gold which has per_api and any of partitions set'
  for (const other of ['acl', 'quota', 'rate_limit', 'complexity']) {
    const given = { id: 'gold', partitions: { per_api: true, [other]: true } }
    t.match(await ask('POST', '/policies', given), { status: 400, body: { message } }, other)
  }
  t.equal((await ask('POST', '/policies', { id: 'gold', partitions: { per_api: true, acl: false } })).status, 200)
  t.match(await ask('PUT', '/policies/gold', { partitions: { per_api: true, acl: true } }), {
    status: 400,
    body: { message }
  })
})

t.test('a rate_limit_pattern that cannot work is refused when it is saved', async t => {
  const { ask } = await gate(t)
  const pointer = '/meta_data/rate_limit_pattern'
  for (const [rate_limit_pattern, message] of [
    [7, 'must be a text'],
    [['a'], 'must be a text'],
    ['$svc_context.user', /does not exist: \$svc_context.user/],
    ['a-$svc_id', /does not exist: \$svc_id/]
  ] as const)
    for (const [path, more] of [
      ['/keys/alice', { access_rights: rights }],
      ['/policies', { id: 'gold' }]
    ] as const)
      t.match(await ask('POST', path, { ...more, meta_data: { rate_limit_pattern } }), {
        status: 400,
        body: { faults: [{ pointer, message }] }
      })
  const rate_limit_pattern = '$svc_meta.team-$svc_context.headers_X_Id$svc_context.path$svc_context.remote_addr'
  const meta_data = { rate_limit_pattern }
  t.equal((await ask('POST', '/keys/alice', { access_rights: rights, meta_data })).status, 200)
})

t.test('null stands for what is absent', async t => {
  const { ask, call } = await gate(t)
  const nothing = { monitor: null, smoothing: null, basic_auth_data: null, jwt_data: null }
  const given = { ...nothing, rate: 1, per: 1, access_rights: { a: { limit: { smoothing: null, rate: 1, per: 1 } } } }
  t.equal((await ask('POST', '/keys/alice', given)).status, 200)
  t.equal((await ask('GET', '/keys/alice')).status, 200)
  t.equal(await call('alice', 'a'), 'passed')
  const policy = { id: 'gold', smoothing: null, rate: 1, per: 1, access_rights: rights }
  t.equal((await ask('POST', '/policies', policy)).status, 200)
  t.equal((await ask('POST', '/keys/bobby', { apply_policies: ['gold'] })).status, 200)
  t.equal(await call('bobby', 'a1'), 'passed')
})

t.test('one wrong member is one fault, at its pointer', async t => {
  const { ask } = await gate(t)
  for (const [body, pointer] of [
    [{ access_rights: 7 }, '/access_rights'],
    [{ access_rights: { a: { limit: [] } } }, '/access_rights/a/limit'],
    [{ access_rights: { a: { allowed_urls: [{ url: 1, methods: null }] } } }, '/access_rights/a/allowed_urls/0/url'],
    [{ smoothing: 'on' }, '/smoothing'],
    [{ tags: 'a' }, '/tags'],
    [{ meta_data: { n: JSON.parse('9e0') }, monitor: 1 }, '/monitor']
  ] as const) {
    const { status, body: answer } = await ask('POST', '/keys/create', body)
    const { faults } = answer as unknown as { faults: { pointer: string }[] }
    t.equal(status, 400)
    t.strictSame(
      faults.map(fault => fault.pointer),
      [pointer]
    )
  }
})

t.test('an integer that no double carries is refused in a key, not changed', async t => {
  const { ask } = await gate(t)
  t.match(await ask('POST', '/keys/create', '{"meta_data":{"account":9223372036854775807}}'), {
    status: 400,
    body: { faults: [{ pointer: '/meta_data/account', message: /double/ }] }
  })
})
