import t from 'tap'
import { customId, looksLikeToken, tokenId } from '../../gateway/keys/token.ts'
import { handClock } from '../helpers/clock.ts'
import { api, gateway, rights, withKey } from '../helpers/gateway.ts'

const open = { rate: 0, per: 0, ...rights('a1') }
const apis = [
  api('a1', 'svc://echo', {
    info: { dbId: '0123456789abcdef01234567' },
    server: { ...withKey, listenPath: { value: '/a1/', strip: true } }
  }),
  api('a2', 'svc://echo'),
  api('o1', 'svc://echo', { info: { orgId: 'other' } })
]
const no = (status: number, Message: string) => ({ status, body: { Status: 'Error', Message, Meta: null } })
const NON_OWNED = no(400, 'Attempted access to non-owned key.')
const UNKNOWN = no(404, 'Could not retrieve key detail.')

t.test('a key is created, read by token, hash and guess, replaced and deleted', async t => {
  const gw = await gateway(t, { apis })
  for (const path of ['/api/keys', '/api/apis/a1/keys']) {
    const created = await gw.api('POST', path, { ...open, quota_max: 5, quota_renewal_rate: 60, alias: 'first' })
    t.equal(created.status, 200)
    t.strictSame(Object.keys(created.body), ['api_model', 'data', 'key_hash', 'key_id'])
    const { key_id: token, key_hash: hash, data } = created.body
    t.ok(looksLikeToken(token))
    t.equal(hash, tokenId(token))
    t.match(data, { alias: 'first', org_id: 'default', quota_max: 5, quota_remaining: 5, is_inactive: false })
    t.strictSame(created.body.api_model, {})
    t.equal((await gw.get('/a1/', { Authorization: token })).status, 200)
    t.equal((await gw.api('GET', `/api/keys/${token}`)).body.data.quota_remaining, 4)

    const places: [string, string][] = [
      [`/api/keys/${token}`, token],
      [`/api/apis/a1/keys/${token}`, token],
      [`/api/apis/0123456789abcdef01234567/keys/${token}`, token],
      [`/api/keys/${token}?auto_guess=true`, token],
      [`/api/keys/${token}?hashed=`, token],
      [`/api/keys/${hash}?hashed=true`, ''],
      [`/api/keys/${hash}?hashed=no`, ''],
      [`/api/keys/${hash}?auto_guess=true`, ''],
      [`/api/apis/a1/keys/${hash}?hashed=1`, '']
    ]
    for (const [place, key_id] of places)
      t.match(
        await gw.api('GET', place),
        { status: 200, body: { key_id, key_hash: hash, data: { alias: 'first' } } },
        place
      )
    for (const place of [
      `/api/keys/${hash}`,
      `/api/keys/${hash}?auto_guess=false`,
      `/api/keys/${token}?hashed=1`,
      `/api/keys/${token}?username=true`,
      '/api/keys/nobody',
      '/api/apis/a1/keys/nobody?auto_guess=true',
      `/api/apis/nothing/keys/${token}`
    ])
      t.match(await gw.api('GET', place), UNKNOWN, place)
    t.match(await gw.api('GET', `/api/apis/a2/keys/${token}`), NON_OWNED, 'not in its rights')

    const put = await gw.api('PUT', `/api/apis/a1/keys/${hash}?hashed=1`, { ...open, alias: 'second' })
    t.match(put, { status: 200, body: { key_id: '', key_hash: hash, data: { alias: 'second' } } })
    t.notOk('quota_max' in put.body.data && put.body.data.quota_max !== 0, 'replaced, not merged')
    t.match(await gw.api('PUT', `/api/apis/a2/keys/${token}`, open), NON_OWNED)
    t.match(await gw.api('PUT', '/api/keys/nobody', open), UNKNOWN)
    t.match(await gw.api('DELETE', `/api/apis/a2/keys/${token}`), NON_OWNED)
    t.strictSame((await gw.api('DELETE', `/api/apis/a1/keys/${token}`)).body, {
      Status: 'OK',
      Message: 'Key deleted successfully.',
      Meta: null
    })
    t.equal((await gw.get('/a1/', { Authorization: token })).status, 403)
    t.match(await gw.api('DELETE', `/api/keys/${token}`), UNKNOWN)
  }
})

t.test('custom ids: stored once under the name, whatever letters it has', async t => {
  const gw = await gateway(t, { apis })
  for (const id of ['alice', 'a/b c?d', 'ключ', 'user@example.org', '__proto__']) {
    const path = `/api/keys/${encodeURIComponent(id)}`
    const hash = customId('default', id)
    t.match(await gw.api('POST', path, open), { status: 200, body: { key_id: id, key_hash: hash } })
    t.match(await gw.api('POST', path, open), no(409, 'A key of this id exists already'))
    for (const query of ['', '?username=true', '?auto_guess=true'])
      t.match(await gw.api('GET', path + query), { status: 200, body: { key_id: id, key_hash: hash } })
    t.match(
      await gw.api('GET', `/api/keys/${hash}?hashed=1`),
      { status: 200, body: { key_id: id } },
      'names are no secrets'
    )
    t.match(await gw.api('PUT', path, { ...open, alias: 'x' }), {
      status: 200,
      body: { key_id: id, data: { alias: 'x' } }
    })
    t.equal((await gw.api('DELETE', path)).status, 200)
    t.match(await gw.api('GET', path), UNKNOWN)
  }
})

t.test('what was sent wrongly is answered 400 with the texts of the interface', async t => {
  const gw = await gateway(t, { apis })
  await gw.api('POST', '/api/keys/alice', open)
  const shape = 'User/Key object validation failed, most likely malformed input.'
  const cases: [string, string, unknown, string | RegExp][] = []
  for (const [method, path] of [
    ['PUT', '/api/apis/a1/keys/alice'],
    ['PUT', '/api/keys/alice'],
    ['POST', '/api/keys'],
    ['POST', '/api/apis/a1/keys'],
    ['POST', '/api/keys/bobby'],
    ['POST', '/api/apis/keys/basic/bobby'],
    ['POST', '/api/keys/preview']
  ] as const) {
    const misshapen = path === '/api/keys/preview' ? 'User/Key object validation failed.' : shape
    const password = path.includes('basic') ? { basic_auth_data: { password: 'pass' } } : {}
    const good = { ...open, ...password }
    cases.push(
      [method, path, '', 'Failed to read response body, body empty'],
      [method, path, '{', 'Request body malformed.'],
      [method, path, '{"rate":1,"rate":2}', 'Request body malformed.'],
      [method, path, [], misshapen],
      [method, path, { ...good, no_such: 1 }, misshapen],
      [method, path, { ...good, rate: 'x' }, misshapen],
      [method, path, { ...good, quota_max: 2 ** 63 }, misshapen],
      [method, path, { ...good, session_lifetime: 'soon' }, misshapen],
      [method, path, { ...good, smoothing: { enabled: true, threshold: 5 } }, misshapen],
      [method, path, { ...good, apply_policies: ['gone'] }, /policy not found: "gone"/],
      [method, path, { rate: 1, ...password }, /at least one Access Rights/],
      [method, path, { ...good, mtls_static_certificate_bindings: ['c'] }, 'certificate not found: c'],
      [method, path, { ...good, mtls_static_certificate_bindings: ['\0'] }, /^invalid certificate ID/],
      [method, path, { ...good, certificate: 'c' }, 'Key must be used with an existent certificate']
    )
  }
  cases.push(
    ['POST', '/api/keys/ab', open, /at least 3 characters/],
    ['POST', '/api/keys/a%00bcd', open, /control characters/],
    ...['create', 'detailed', 'policy', 'search'].map((id): [string, string, unknown, string] => [
      'POST',
      `/api/keys/${id}`,
      open,
      `Key id must not be '${id}': it is a word of the paths of keys`
    ]),
    [
      'POST',
      '/api/apis/keys/basic/preview',
      { ...open, basic_auth_data: { password: 'pass' } },
      /must not be 'preview'/
    ],
    [
      'POST',
      '/api/keys?basic_auth=true',
      { ...open, basic_auth_data: { user: 'search', password: 'pass' } },
      /must not be 'search'/
    ],
    ['DELETE', '/api/keys/alice?surprise=1', undefined, /query/]
  )
  for (const [method, path, body, message] of cases) {
    const told = await gw.api(method, path, body)
    t.match(
      told,
      { status: 400, body: { Status: 'Error', Message: message, Meta: null } },
      `${method} ${path} ${JSON.stringify(body)}`
    )
  }
  const { body } = await gw.api('POST', '/api/keys', { ...open, no_such: 1, rate: 'x' })
  t.strictSame(body.faults.map(({ pointer }: { pointer: string }) => pointer).sort(), ['/no_such', '/rate'])
  t.match(await gw.api('POST', '/api/apis/nothing/keys', open), no(404, 'API not found'))
})

t.test('a key names certificates of its organisation alone', async t => {
  const gw = await gateway(t, { apis })
  const [own, theirs] = [`default${'a'.repeat(64)}`, `other${'b'.repeat(64)}`]
  await gw.store.commit([
    { kind: 'certificate', id: own, org: 'default', body: {} },
    { kind: 'certificate', id: theirs, org: 'other', body: {} }
  ])
  for (const [given, message] of [
    [{ mtls_static_certificate_bindings: [own, theirs] }, `certificate not found: ${theirs}`],
    [{ certificate: theirs }, 'Key must be used with an existent certificate']
  ] as const) {
    t.match(await gw.api('POST', '/api/keys', { ...open, ...given }), { status: 400, body: { Message: message } })
    t.match(await gw.svc('POST', '/svc/keys/create', { ...open, ...given }), { status: 400, body: { message } })
  }
  for (const bindings of [[], [own], [own, own]]) {
    const body = { ...open, mtls_static_certificate_bindings: bindings }
    t.equal((await gw.api('POST', '/api/keys', body)).status, 200)
  }
})

t.test('nothing of another organisation is seen, touched or made', async t => {
  const gw = await gateway(t, { apis })
  const stranger = { key: await gw.user({ org_id: 'other' }) }
  const { key_id: token, key_hash: hash } = (await gw.api('POST', '/api/keys', open)).body
  await gw.api('POST', '/api/keys/alice', open)
  const theirs = (await gw.api('POST', '/api/keys', rights('o1'), stranger)).body
  t.equal(theirs.data.org_id, 'other')
  const calls: [string, ReturnType<typeof no>][] = [
    [`/api/keys/${token}`, NON_OWNED],
    [`/api/keys/${hash}?hashed=1`, NON_OWNED],
    [`/api/keys/${hash}?auto_guess=true`, NON_OWNED],
    [`/api/apis/a1/keys/${token}`, NON_OWNED],
    ['/api/keys/alice', UNKNOWN],
    ['/api/keys/alice?username=true', UNKNOWN]
  ]
  for (const [path, told] of calls) {
    t.match(await gw.api('GET', path, undefined, stranger), told, path)
    t.match(await gw.api('PUT', path, rights('o1'), stranger), told, path)
    t.match(await gw.api('DELETE', path, undefined, stranger), told, path)
  }
  for (const path of ['/api/apis/a1/keys', '/api/apis/a1/keys/search?q=a'])
    t.match(await gw.api('GET', path, undefined, stranger), no(404, 'API not found'))
  t.match(await gw.api('POST', '/api/apis/a1/keys', open, stranger), no(404, 'API not found'))
  for (const [method, path] of [
    ['POST', '/api/keys'],
    ['POST', '/api/keys/carol'],
    ['POST', '/api/keys/preview'],
    ['POST', '/api/apis/keys/basic/carol'],
    ['PUT', '/api/keys/alice']
  ] as const)
    t.equal((await gw.api(method, path, { ...open, org_id: 'other' })).status, 403, `${method} ${path}`)
  t.match(
    (await gw.api('GET', '/api/keys/detailed', undefined, stranger)).body.keys.map((key: any) => key.key_hash),
    [theirs.key_hash]
  )
  t.strictSame((await gw.api('GET', '/api/apis/keys', undefined, stranger)).body.data.keys, [theirs.key_hash])
  t.strictSame((await gw.api('GET', '/api/apis/keys')).body.data.keys, [hash, 'alice'])
})

t.test('the permission keys decides, and who may only read sees no shared secrets', async t => {
  const gw = await gateway(t, { apis })
  const reader = { key: await gw.user({ org_id: 'default', user_permissions: { keys: 'read' } }) }
  const writer = { key: await gw.user({ org_id: 'default', user_permissions: { keys: 'write' } }) }
  const nobody = { key: await gw.user({ org_id: 'default', user_permissions: { apis: 'admin' } }) }
  const given = { ...open, hmac_enabled: true, hmac_string: 'sign', jwt_data: { secret: 'share' } }
  t.equal((await gw.api('POST', '/api/keys/alice', given, writer)).body.data.hmac_string, 'sign')
  for (const path of ['/api/keys/alice', '/api/apis/a1/keys/alice']) {
    t.match((await gw.api('GET', path, undefined, reader)).body.data, { hmac_string: '', jwt_data: { secret: '' } })
    t.match((await gw.api('GET', path, undefined, writer)).body.data, {
      hmac_string: 'sign',
      jwt_data: { secret: 'share' }
    })
    t.equal((await gw.api('GET', path, undefined, nobody)).status, 403)
    t.equal((await gw.api('PUT', path, given, reader)).status, 403)
    t.equal((await gw.api('DELETE', path, undefined, reader)).status, 403)
  }
  t.match((await gw.api('GET', '/api/keys/detailed', undefined, reader)).body.keys, [{ data: { hmac_string: '' } }])
  t.equal((await gw.api('POST', '/api/keys', open, reader)).status, 403)
  t.equal((await gw.api('POST', '/api/apis/keys/basic/bobby', open, reader)).status, 403)
  const previewed = await gw.api('POST', '/api/keys/preview', given, reader)
  t.match(previewed, { status: 200, body: { jwt_data: { secret: '' } } }, 'a preview reads')
})

t.test('a revision goes along: an old one is refused, so nobody overwrites another unknowingly', async t => {
  const gw = await gateway(t, { apis })
  const created = await gw.api('POST', '/api/keys/alice', open)
  t.equal(created.headers.get('etag'), '"1"')
  const on = (rev: string) => ({ headers: { 'If-Match': rev } })
  t.equal((await gw.api('PUT', '/api/keys/alice', open, on('"1"'))).headers.get('etag'), '"2"')
  t.equal((await gw.api('GET', '/api/apis/a1/keys/alice')).headers.get('etag'), '"2"')
  t.equal((await gw.svc('GET', '/svc/keys/alice')).headers.get('etag'), '"2"')
  for (const [method, body] of [
    ['PUT', open],
    ['DELETE', undefined]
  ] as const) {
    t.equal((await gw.api(method, '/api/keys/alice', body, on('"1"'))).status, 412, method)
    t.equal((await gw.svc(method, '/svc/keys/alice', body, { 'If-Match': '"1"' })).status, 412, method)
  }
  t.equal((await gw.api('DELETE', '/api/keys/alice', undefined, on('"2"'))).status, 200)
})

t.test('suppress_reset keeps what was counted', async t => {
  const gw = await gateway(t, { apis })
  const body = { ...open, quota_max: 2, quota_renewal_rate: 600 }
  await gw.api('POST', '/api/keys/alice', body)
  await gw.get('/a1/', { Authorization: 'alice' })
  const left = async () => (await gw.api('GET', '/api/keys/alice')).body.data.quota_remaining
  t.equal(await left(), 1)
  t.equal(
    (await gw.api('PUT', '/api/apis/a1/keys/alice?suppress_reset=1', { ...body, quota_max: 5 })).body.data
      .quota_remaining,
    4
  )
  t.equal((await gw.api('PUT', '/api/apis/a1/keys/alice', { ...body, quota_max: 5 })).body.data.quota_remaining, 5)
})

t.test('a preview shows the key with its policies and stores nothing', async t => {
  const gw = await gateway(t, { apis })
  await gw.svc('POST', '/svc/policies', { id: 'p1', rate: 3, per: 1, key_expires_in: 60, ...rights('a1') })
  const { status, body } = await gw.api('POST', '/api/keys/preview', { apply_policies: ['p1'] })
  t.match({ status, body }, { status: 200, body: { rate: 3, per: 1, access_rights: { a1: {} } } })
  t.strictSame((await gw.api('GET', '/api/apis/keys')).body, { data: { keys: [] }, pages: 0 })
})

t.test('a key whose policies are gone can be looked at and mended', async t => {
  const gw = await gateway(t, { apis })
  await gw.svc('POST', '/svc/policies', { id: 'p1', ...rights('a1') })
  await gw.api('POST', '/api/keys/alice', { apply_policies: ['p1'] })
  await gw.svc('DELETE', '/svc/policies/p1')
  t.equal((await gw.get('/a1/', { Authorization: 'alice' })).status, 403)
  t.match(await gw.api('GET', '/api/apis/a1/keys/alice'), { status: 200, body: { data: { apply_policies: ['p1'] } } })
  t.equal((await gw.api('PUT', '/api/apis/a1/keys/alice', open)).status, 200)
  t.equal((await gw.get('/a1/', { Authorization: 'alice' })).status, 200)
})

t.test('a key that is gone is not there, and its name is free', async t => {
  const clock = handClock()
  const gw = await gateway(t, { apis, clock })
  await gw.api('POST', '/api/keys/alice', { ...open, session_lifetime: '1m' })
  t.equal((await gw.api('GET', '/api/keys/alice')).body.data.session_lifetime, 60)
  clock.jump(61_000)
  for (const method of ['GET', 'DELETE']) t.match(await gw.api(method, '/api/apis/a1/keys/alice'), UNKNOWN)
  t.equal((await gw.api('POST', '/api/keys/alice', open)).status, 200)
})

t.test('without hashing there are no hashes, and tokens stay readable', async t => {
  const gw = await gateway(t, { apis, settings: { gateway: { hash_keys: false } } })
  const created = (await gw.api('POST', '/api/keys', open)).body
  t.match(created, { key_hash: '', key_id: /^svc_/ })
  t.match((await gw.api('GET', '/api/keys/detailed')).body.keys, [{ key_id: created.key_id, key_hash: '' }])
  t.match(
    await gw.api('GET', `/api/keys/${created.key_id}?hashed=1`),
    no(400, 'Key requested by hash but key hashing is not enabled')
  )
  t.equal((await gw.api('GET', `/api/keys/${created.key_id}?auto_guess=true`)).status, 200)
})

t.test('one key is the same on both interfaces', async t => {
  const gw = await gateway(t, { apis })
  await gw.svc('POST', '/svc/keys/alice', open)
  const { key_hash, data } = (await gw.api('GET', '/api/keys/alice')).body
  t.strictSame((await gw.svc('GET', `/svc/keys/${key_hash}?hashed=1`)).body, data)
})
