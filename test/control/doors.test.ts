import { request } from 'node:http'
import t from 'tap'
import { Attempts } from '../../control/attempts.ts'
import { api, gateway, SECRET, type TestGateway } from '../helpers/gateway.ts'

interface Reply {
  readonly status: number
  readonly text: string
  readonly headers: Record<string, unknown>
}

/** As raw as Node allows: a header may come twice. */
function send(gw: TestGateway, path: string, headers: Record<string, string | string[]>): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const req = request(gw.managementUrl + path, { headers, agent: false }, res => {
      let text = ''
      res.on('data', chunk => {
        text += chunk
      })
      res.on('end', () => resolve({ status: res.statusCode!, text, headers: res.headers }))
    })
    req.on('error', reject)
    req.end()
  })
}

const refused = (Message: string) => JSON.stringify({ Status: 'Error', Message, Meta: null })
const SHUT = refused('Not authorised')

t.test('management opens to the access key of an active user, bare or as Bearer in any case', async t => {
  const gw = await gateway(t, { settings: { management: { failed_credentials_per_minute: 0 } } })
  const key = await gw.user({ org_id: 'default' })
  for (const value of [key, `Bearer ${key}`, `bearer ${key}`, `BEARER  ${key}`, ` ${key} `])
    t.equal((await send(gw, '/api/users/me', { Authorization: value })).status, 200, value)
  for (const value of [
    '',
    ' ',
    'Bearer',
    'Bearer ',
    `Bearer${key}`,
    `Basic ${key}`,
    `Bearer Bearer ${key}`,
    `${key}x`,
    key.slice(1),
    key.toUpperCase(),
    `"${key}"`,
    `${key}, ${key}`,
    'x'.repeat(8000),
    [key, key],
    ['', key],
    [`Bearer ${key}`, 'Bearer x']
  ]) {
    const answer = await send(gw, '/api/users/me', { Authorization: value })
    t.same([answer.status, answer.text], [401, SHUT], JSON.stringify(value).slice(0, 50))
  }
  const elsewhere: Record<string, string>[] = [
    {},
    { 'Admin-Auth': key },
    { 'X-Svc-Authorization': key },
    { Cookie: `authorisation=${key}` },
    { 'Proxy-Authorization': key }
  ]
  for (const headers of elsewhere) t.equal((await send(gw, '/api/users/me', headers)).status, 401)
  t.equal((await send(gw, `/api/users/me?authorization=${key}&access_key=${key}`, {})).status, 401)
})

t.test('admin opens to its own secret alone', async t => {
  const own = 'another secret, of the admin'
  const gw = await gateway(t, {
    settings: { management: { admin_secret: own, failed_credentials_per_minute: 0 } }
  })
  const key = await gw.user({ org_id: 'default' })
  t.equal((await send(gw, '/admin/users', { 'Admin-Auth': own })).status, 200)
  const wrong: Record<string, string | string[]>[] = [
    {},
    { 'Admin-Auth': '' },
    { 'Admin-Auth': SECRET },
    { 'Admin-Auth': `Bearer ${own}` },
    { 'Admin-Auth': own.slice(1) },
    { 'Admin-Auth': [own, own] },
    { Authorization: own },
    { Authorization: key }
  ]
  for (const headers of wrong) {
    const answer = await send(gw, '/admin/users', headers)
    t.same([answer.status, answer.text], [401, SHUT], JSON.stringify(headers))
  }
  t.equal((await send(gw, '/api/users/me', { 'Admin-Auth': own })).status, 401, 'and opens nothing else')
})

t.test('a user that is not active, or has no portal, is told in the form of the surface', async t => {
  const gw = await gateway(t)
  const asleep = await gw.user({ org_id: 'default', active: false })
  const plain = await gw.user({ org_id: 'default', user_permissions: { portal: 'read', apis: 'write' } })
  const portal = await gw.user({ org_id: 'default', user_permissions: { portal: 'write' } })
  const told = async (path: string, Authorization?: string) => {
    const answer = await send(gw, path, Authorization === undefined ? {} : { Authorization })
    t.equal(answer.headers['content-type'], 'application/json')
    return [answer.status, answer.text]
  }
  t.same(await told('/api/users/me', asleep), [403, refused('access denied: User is not active')])
  t.same(await told('/portal-api/organisations', asleep), [403, '{"errors":["access denied: User is not active"]}'])
  t.same(await told('/portal-api/organisations'), [401, '{"errors":["Not authorised"]}'])
  t.same(await told('/portal-api/organisations', 'x'), [401, '{"errors":["Not authorised"]}'])
  t.equal((await told('/portal-api/organisations', plain))[0], 403)
  t.equal((await told('/portal-api/organisations', portal))[0], 200)
  t.equal((await told('/api/apis/oas', portal))[0], 403)
  t.same(await told('/api/nothing'), [401, SHUT], 'a path without an endpoint stands behind the door as well')
  t.same(await told('/admin/nothing'), [401, SHUT])
})

t.test('the eleventh wrong credential in a minute is 429; a missing one is 401 and a right one passes', async t => {
  const gw = await gateway(t)
  const key = await gw.user({ org_id: 'default' })
  const doors: readonly (readonly [string, string, string])[] = [
    ['/api/users/me', 'Authorization', key],
    ['/admin/users', 'Admin-Auth', SECRET],
    ['/portal-api/organisations', 'Authorization', key]
  ]
  for (let i = 0; i < 10; i++) {
    const [path, header] = doors[i % 3]!
    t.equal((await send(gw, path, { [header]: `wrong ${i}` })).status, 401)
  }
  for (const [path, header, right] of doors) {
    const answer = await send(gw, path, { [header]: 'wrong' })
    t.equal(answer.status, 429, path)
    const wait = Number(answer.headers['retry-after'])
    t.ok(wait >= 1 && wait <= 60)
    t.match(answer.text, /Too many wrong credentials/)
    t.equal(answer.text.startsWith('{"errors":["'), path.startsWith('/portal-api'))
    t.equal((await send(gw, path, {})).status, 401)
    t.equal((await send(gw, path, { [header]: '' })).status, 401)
    t.equal((await send(gw, path, { [header]: right })).status, 200)
    t.equal((await send(gw, path, { [header]: 'wrong' })).status, 429, 'and a right one forgives nothing')
  }
  const asleep = await gw.user({ org_id: 'default', active: false })
  t.equal((await send(gw, '/api/users/me', { Authorization: asleep })).status, 403, 'known, so nobody guesses')
  t.equal((await gw.svc('GET', '/svc/keys')).status, 200)
})

t.test('clients are told apart by the word of a trusted proxy, and of nobody else', async t => {
  const wrong = async (gw: TestGateway, address: string) =>
    (await send(gw, '/api/users/me', { Authorization: 'wrong', 'X-Forwarded-For': address })).status
  const settings = (trusted_proxies: string[]) => ({
    settings: { gateway: { trusted_proxies }, management: { failed_credentials_per_minute: 2 } }
  })
  const trusting = await gateway(t, settings(['127.0.0.1']))
  for (const [address, status] of [
    ['203.0.113.1', 401],
    ['203.0.113.1', 401],
    ['203.0.113.1', 429],
    ['203.0.113.2', 401],
    ['2001:db8:1:2::1', 401],
    ['2001:db8:1:2:ffff::9', 401],
    ['2001:DB8:1:2:3:4:5:6', 429],
    ['2001:db8:1:3::1', 401]
  ] as const)
    t.equal(await wrong(trusting, address), status, address)
  // What stands before the last address that no proxy has is the caller's own word; so is what nobody can read.
  for (const [address, status] of [
    ['9.9.9.1, 203.0.113.7', 401],
    ['9.9.9.2, 203.0.113.7:5555', 401],
    ['9.9.9.3, 203.0.113.7, 127.0.0.1', 429],
    ['9.9.9.4, unknown', 401],
    ['9.9.9.5, [2001:db8:9::1]:443', 401],
    ['9.9.9.6, unknown', 401],
    ['9.9.9.7, unknown', 429],
    [`${','.repeat(7_000)} 9.9.9.8:1, 203.0.113.7`, 429]
  ] as const)
    t.equal(await wrong(trusting, address), status, address.slice(0, 40))
  const doubting = await gateway(t, settings(['192.0.2.1']))
  for (const [i, status] of [401, 401, 429, 429].entries()) t.equal(await wrong(doubting, `203.0.113.${i}`), status)
})

t.test('a minute later the address may try again, and no number of addresses fills the memory', async t => {
  let now = 1_000_000
  const attempts = new Attempts(2, { now: () => now })
  const tries = (address: string, count: number) => Array.from({ length: count }, () => attempts.wrong(address))
  t.same(tries('192.0.2.1', 4), [0, 0, 60, 60])
  now += 30_500
  t.same(tries('192.0.2.1', 1), [30])
  t.same(tries('192.0.2.2', 1), [0])
  now += 29_499
  t.same(tries('192.0.2.1', 1), [1])
  now += 1
  t.same(tries('192.0.2.1', 3), [0, 0, 60])
  now -= 100_000
  t.same(tries('192.0.2.1', 3), [0, 0, 60], 'a clock that was set back locks nobody out for long')
  for (const [one, same] of [
    ['::ffff:192.0.2.9', '192.0.2.9'],
    ['2001:db8::1', '2001:0db8:0:0:9::'],
    ['::1', '0:0:0:0::2'],
    ['fe80::1%eth0', 'fe80::2'],
    ['64:ff9b::192.0.2.1', '64:ff9b::c000:0202'],
    ['1:2:3:4:5:6:7:8', '1:2:3:4::']
  ] as const) {
    t.same(tries(one, 2), [0, 0], one)
    t.same(tries(same, 1), [60], `${one} and ${same}`)
  }
  for (let i = 0; i < 60_000; i++) attempts.wrong(`10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`)
  t.same(tries('192.0.2.9', 1), [0], 'the oldest leave')
  const none = new Attempts(0, { now: () => now })
  t.ok(Array.from({ length: 1000 }, () => none.wrong('a')).every(wait => wait === 0))
})

t.test('an id that reads like a part of a path leads to no other permission', async t => {
  const gw = await gateway(t, { apis: [api('keys', 'http://127.0.0.1:1'), api('oas', 'http://127.0.0.1:1')] })
  const clerk = await gw.user({ org_id: 'default', user_permissions: { keys: 'write' } })
  const reader = await gw.user({ org_id: 'default', user_permissions: { apis: 'write' } })
  const status = async (method: string, path: string, key: string) =>
    (await gw.api(method, path, undefined, { key })).status
  t.equal(await status('DELETE', '/api/apis/oas/keys', clerk), 403)
  t.equal(await status('GET', '/api/apis/oas/keys/x', reader), 403)
  t.equal(await status('GET', '/api/apis/oas/keys/x', clerk), 404)
  t.equal(await status('DELETE', '/api/apis/oas/keys', reader), 200)
})
