import { compareSync } from 'bcryptjs'
import t from 'tap'
import type { KeyRecord } from '../../gateway/keys/keys.ts'
import { customId } from '../../gateway/keys/token.ts'
import { api, gateway, rights, type TestGateway, withKey } from '../helpers/gateway.ts'

const apis = [api('a1', 'svc://echo', { server: { ...withKey, listenPath: { value: '/a1/', strip: true } } })]
const body = rights('a1')
const withPassword = (password: string, more: object = {}) => ({ ...body, basic_auth_data: { password, ...more } })

async function stored(gw: TestGateway, name: string) {
  const document = await gw.store.get<KeyRecord>('key', customId('default', name))
  return document!.body.key.basic_auth_data
}

t.test('a user of basic authentication: the password is stored as bcrypt and never told', async t => {
  const gw = await gateway(t, { apis })
  const path = '/api/apis/keys/basic/alice'
  const created = await gw.api('POST', path, withPassword('a secret word'))
  t.match(created, { status: 200, body: { key_id: 'alice', key_hash: customId('default', 'alice') } })
  t.strictSame(created.body.data.basic_auth_data, { user: 'alice', hash_type: 'bcrypt' })
  const first = await stored(gw, 'alice')
  t.ok(compareSync('a secret word', first!.password!))
  t.match(first!.password, /^\$2[aby]\$10\$/)

  const answers = [created]
  for (const place of ['/api/keys/alice?username=true', '/api/apis/a1/keys/alice?username=true', '/api/keys/detailed'])
    answers.push(await gw.api('GET', place))
  answers.push(await gw.svc('GET', '/svc/keys/alice?username=true'))
  const { documents } = await gw.store.list('audit', { page: -1, size: 1 })
  for (const text of [JSON.stringify(answers), JSON.stringify(documents)]) {
    t.notOk(text.includes('a secret word'))
    t.notOk(text.includes(first!.password!))
  }
  t.match(answers[1], { status: 200, body: { key_id: 'alice' } })

  const kept: [string, unknown][] = [
    ['missing', { ...body, alias: 'x' }],
    ['null', { ...body, basic_auth_data: null }],
    ['blank', withPassword('')],
    ['white', withPassword('  ')],
    ['as it is stored', withPassword(first!.password!)],
    ['as it was read', answers[1]!.body.data]
  ]
  for (const [what, given] of kept) {
    t.equal((await gw.api('POST', path, given)).status, 200, what)
    t.strictSame(await stored(gw, 'alice'), first, what)
    t.equal((await gw.api('PUT', '/api/keys/alice', given)).status, 200, what)
    t.strictSame(await stored(gw, 'alice'), first, what)
  }
  t.equal((await gw.api('POST', path, withPassword('another'))).status, 200)
  const second = await stored(gw, 'alice')
  t.ok(compareSync('another', second!.password!))
  await gw.api('PUT', '/api/apis/a1/keys/alice', withPassword(first!.password!))
  t.ok(
    compareSync(first!.password!, (await stored(gw, 'alice'))!.password!),
    'a hash from elsewhere is a password like any other'
  )
})

t.test('a user name opens nothing by itself', async t => {
  const gw = await gateway(t, { apis })
  t.equal((await gw.api('POST', '/api/keys/alice', body)).status, 200)
  t.equal((await gw.get('/a1/', { Authorization: 'alice' })).status, 200)
  t.equal((await gw.api('POST', '/api/apis/keys/basic/alice', withPassword('secret'))).status, 200)
  for (const credential of ['alice', 'Bearer alice', customId('default', 'alice'), `Basic ${btoa('alice:secret')}`])
    t.equal((await gw.get('/a1/', { Authorization: credential })).status, 403, credential)
})

t.test('users through the creation of keys, and through the gateway interface', async t => {
  const gw = await gateway(t, { apis })
  const made: [string, () => ReturnType<TestGateway['api']>, object][] = [
    [
      'alice',
      () => gw.api('POST', '/api/keys?basic_auth=true', withPassword('pass', { user: 'alice' })),
      { key_id: 'alice' }
    ],
    [
      'bobby',
      () => gw.api('POST', '/api/apis/a1/keys?basic_auth=1', withPassword('pass', { user: 'bobby' })),
      { key_id: 'bobby' }
    ],
    ['carol', () => gw.api('POST', '/api/keys/carol', withPassword('pass')), { key_id: 'carol' }],
    [
      'david',
      () => gw.svc('POST', '/svc/keys/david', withPassword('pass')),
      { key: '', key_hash: customId('default', 'david') }
    ]
  ]
  for (const [name, make, answer] of made) {
    t.match(await make(), { status: 200, body: answer })
    t.match(await stored(gw, name), { user: name, hash_type: 'bcrypt' })
    t.ok(compareSync('pass', (await stored(gw, name))!.password!))
    t.equal((await make()).status, 409, 'taken')
    const put = await gw.svc('PUT', `/svc/keys/${name}`, withPassword('word', { user: name, hash_type: 'bcrypt' }))
    t.match(put, { status: 200, body: { key: name, action: 'modified' } })
    t.ok(compareSync('word', (await stored(gw, name))!.password!))
  }
})

t.test('what cannot be a user is refused', async t => {
  const gw = await gateway(t, { apis })
  const { key_id: token } = (await gw.api('POST', '/api/keys', body)).body
  const cases: [string, string, unknown, RegExp][] = [
    ['POST', '/api/apis/keys/basic/alice', body, /password is required/],
    ['POST', '/api/apis/keys/basic/alice', withPassword(''), /password is required/],
    ['POST', '/api/apis/keys/basic/alice', withPassword('x'.repeat(73)), /at most 72 bytes/],
    ['POST', '/api/apis/keys/basic/alice', withPassword('x'.repeat(1_000_000)), /at most 72 bytes/],
    ['POST', '/api/apis/keys/basic/alice', withPassword('p', { user: 'bobby' }), /not the name/],
    ['POST', '/api/apis/keys/basic/alice', withPassword('p', { hash_type: 'md5' }), /hash_type/],
    ['POST', '/api/apis/keys/basic/alice', withPassword('p', { salt: 'x' }), /validation failed/],
    ['POST', '/api/apis/keys/basic/a%3Ab', withPassword('p'), /colon/],
    ['POST', '/api/apis/keys/basic/ab', withPassword('p'), /at least 3/],
    ['POST', '/api/apis/keys/basic/a%00bc', withPassword('p'), /control characters/],
    ['POST', '/api/keys?basic_auth=true', body, /basic_auth needs/],
    ['POST', '/api/keys?basic_auth=true', withPassword('p'), /basic_auth needs/],
    ['POST', '/api/keys?basic_auth=true', { ...body, basic_auth_data: { user: 'alice' } }, /basic_auth needs/],
    ['POST', '/api/keys', withPassword('p', { user: 'alice' }), /no user name/],
    ['POST', '/api/keys', withPassword('', { user: 'alice' }), /no user name/],
    ['PUT', `/api/keys/${token}`, withPassword('p'), /no user name/],
    ['POST', '/api/keys/alice', withPassword('', { hash_type: 'bcrypt' }), /password is required/],
    ['POST', '/api/keys/alice', withPassword(' ', { user: 'alice' }), /password is required/]
  ]
  for (const [method, path, given, message] of cases)
    t.match(await gw.api(method, path, given), { status: 400, body: { Message: message } }, `${path} ${message}`)
  t.match(
    (await gw.api('GET', '/api/apis/keys')).body,
    { pages: 1, data: { keys: { length: 1 } } },
    'nothing was stored'
  )
})

t.test('through the gateway interface, what is meant to be a user needs a password; a blank block is none', async t => {
  const gw = await gateway(t, { apis })
  const meant = [{ user: 'alice' }, { hash_type: 'argon2id' }, { user: 'alice', password: ' ', hash_type: 'bcrypt' }]
  const blank = [null, {}, { password: '' }, { user: '', password: '  ', hash_type: ' ' }]
  const told = { status: 400, body: { message: 'basic_auth_data.password is required' } }
  for (const basic_auth_data of meant)
    t.match(await gw.svc('POST', '/svc/keys/alice', { ...body, basic_auth_data }), told)
  for (const [i, basic_auth_data] of blank.entries()) {
    t.equal((await gw.svc('POST', `/svc/keys/key${i}`, { ...body, basic_auth_data })).status, 200)
    t.equal(await stored(gw, `key${i}`), undefined)
    t.equal((await gw.get('/a1/', { Authorization: `key${i}` })).status, 200, 'a key of its own')
  }
  for (const basic_auth_data of meant)
    t.match(await gw.svc('PUT', '/svc/keys/key0', { ...body, basic_auth_data: { ...basic_auth_data, user: '' } }), {
      status: 'hash_type' in basic_auth_data ? 400 : 200
    })
  t.equal((await gw.svc('POST', '/svc/keys/alice', withPassword('secret', { user: 'alice' }))).status, 200)
  for (const basic_auth_data of meant)
    t.equal((await gw.svc('PUT', '/svc/keys/alice', { ...body, basic_auth_data })).status, 200, 'it has one')
})

t.test('of several who make the same user at once, all end well and one state stays', async t => {
  const gw = await gateway(t, { apis })
  const words = Array.from({ length: 6 }, (_, i) => `word ${i}`)
  const made = await Promise.all(words.map(word => gw.api('POST', '/api/apis/keys/basic/alice', withPassword(word))))
  t.strictSame(
    made.map(({ status }) => status),
    words.map(() => 200)
  )
  const { password } = (await stored(gw, 'alice'))!
  t.equal(words.filter(word => compareSync(word, password!)).length, 1)
})
