import t, { type Test } from 'tap'
import { passwords } from '../../gateway/passwords/passwords.ts'
import { handClock } from '../helpers/clock.ts'
import { gateway, rights } from '../helpers/gateway.ts'
import { upstream } from '../helpers/upstream.ts'
import { type Answered, ask, eventsOf, tell, valuesOf } from '../steps/ask.ts'
import { basicly, user, withBasic } from './withBasic.ts'

const HEADER = 'Attempted access with malformed header, header not in basic auth format'
const ENCODING = 'Attempted access with malformed header, auth data not encoded correctly'
const VALUES = 'Attempted access with malformed header, values not in basic auth format'
const said = ({ status, json }: Answered) => [status, json?.error]
const encoded = (bytes: string | Buffer) => Buffer.from(bytes as string).toString('base64')
const as = (name: string, password: string) => ({ headers: { Authorization: basicly(name, password) } })

/** Passwords that were really hashed from here on. */
function hashings(t: Test) {
  return t.capture(passwords, 'check', passwords.check)
}

t.test('each failure has its status, its text and its challenge', async t => {
  const gw = await gateway(t, { apis: [withBasic('a', 'svc://echo', {}, {}, { info: { name: 'My "API" \\ é' } })] })
  await user(gw, 'alice', 'open sesame', ['a'])
  const realm = 'Basic realm="My \\"API\\" \\\\ é"'
  const cases: [string, string | null, number, string, string | null][] = [
    ['missing', null, 401, 'Authorization field missing', realm],
    ['empty', '', 401, 'Authorization field missing', realm],
    ['a word alone', 'Basic', 400, HEADER, null],
    ['a word and a space', 'Basic ', 400, HEADER, null],
    ['three parts', `Basic ${encoded('alice:open')} sesame`, 400, HEADER, null],
    ['two spaces', `Basic  ${encoded('alice:open sesame')}`, 400, HEADER, null],
    ['no scheme', encoded('alice:open sesame'), 400, HEADER, null],
    ['a tab for a space', `Basic\t${encoded('alice:open sesame')}`, 400, HEADER, null],
    ['not base64', 'Basic a:b', 400, ENCODING, null],
    [
      'base64 of URLs',
      `Basic ${encoded('alice:???>>>').replaceAll('/', '_').replaceAll('+', '-')}`,
      400,
      ENCODING,
      null
    ],
    ['base64 without padding', `Basic ${encoded('alice:1234').replaceAll('=', '')}`, 400, ENCODING, null],
    ['base64 cut short', 'Basic YWxpY', 400, ENCODING, null],
    ['base64 with bits left over', 'Basic YTpiY2R=', 400, ENCODING, null],
    ['rubbish behind the padding', 'Basic YTpiYw==YQ==', 400, ENCODING, null],
    ['bytes that are no UTF-8', `Basic ${encoded(Buffer.from('alice:\xe9', 'latin1'))}`, 400, ENCODING, null],
    ['no colon', `Basic ${encoded('alice')}`, 400, VALUES, null],
    ['unknown user', basicly('nobody', 'open sesame'), 401, 'User not authorised', realm],
    ['wrong password', basicly('alice', 'open'), 401, 'User not authorised', realm],
    ['empty password', basicly('alice', ''), 401, 'User not authorised', realm],
    ['empty name', basicly('', 'open sesame'), 401, 'User not authorised', realm],
    ['a password that is too long', basicly('alice', 'x'.repeat(2000)), 401, 'User not authorised', realm],
    ['a name that is too long', basicly('x'.repeat(2000), 'x'), 401, 'User not authorised', realm],
    ['a name with NUL', basicly('default\0alice', 'open sesame'), 401, 'User not authorised', realm],
    ['a name in another case', basicly('Alice', 'open sesame'), 401, 'User not authorised', realm],
    ['a name of everything', basicly('__proto__', 'open sesame'), 401, 'User not authorised', realm]
  ]
  let failures = 0
  for (const [what, value, status, message, asked] of cases) {
    const answer = await ask(gw, '/a/', { headers: value === null ? {} : { Authorization: value } })
    t.same(said(answer), [status, message], what)
    const told = answer.headers['www-authenticate']
    t.equal(told === undefined ? null : Buffer.from(told, 'latin1').toString(), asked, `${what}: challenge`)
    if (message === 'User not authorised') failures++
  }
  t.equal((await ask(gw, '/a/', as('alice', 'open sesame'))).status, 200)
  const events = eventsOf(gw)
  t.match(events[0], { event: 'AuthFailure', api_id: 'a', path: '/a/', origin: '127.0.0.1', key: '' })
  t.ok(events.length < failures, 'those of one second are one line')
  t.ok(failures > 1)
  t.notMatch(JSON.stringify(gw.log.lines), /sesame|alice/)
})

t.test('the examples of RFC 7617, and names and passwords in every alphabet', async t => {
  const gw = await gateway(t, { apis: [withBasic('a', 'svc://echo')] })
  const good: [string, string, string][] = [
    ['Aladdin', 'open sesame', 'Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=='],
    ['test', '123\u00a3', 'Basic dGVzdDoxMjPCow=='],
    ['jörg 名前', 'ключ\u{1f511}', basicly('jörg 名前', 'ключ\u{1f511}')],
    ['colons', 'a:b::c:', basicly('colons', 'a:b::c:')],
    ['spaces', ' a  b ', basicly('spaces', ' a  b ')],
    ['longest', 'ö'.repeat(36), basicly('longest', 'ö'.repeat(36))]
  ]
  for (const [name, password, value] of good) {
    await user(gw, name, password, ['a'])
    t.equal((await ask(gw, '/a/', { headers: { Authorization: value } })).status, 200, name)
    t.same(said(await ask(gw, '/a/', as(name, `${password}x`))), [401, 'User not authorised'], name)
  }
  for (const scheme of ['basic', 'BASIC', 'Bearer', 'x'])
    t.equal(
      (await ask(gw, '/a/', { headers: { Authorization: `${scheme} QWxhZGRpbjpvcGVuIHNlc2FtZQ==` } })).status,
      200,
      `the word ${scheme} is not looked at`
    )
})

t.test('only keys with a password are users, and they must be alive', async t => {
  const clock = handClock()
  const gw = await gateway(t, { apis: [withBasic('a', 'svc://echo'), withBasic('b', 'svc://echo')], clock })
  const token = await gw.key(rights('a'))
  t.equal((await gw.svc('POST', '/svc/keys/custom', rights('a'))).status, 200)
  for (const [name, password] of [
    [token, ''],
    [token, token],
    ['custom', ''],
    ['custom', 'custom']
  ] as const)
    t.same(said(await ask(gw, '/a/', as(name, password))), [401, 'User not authorised'], name.slice(0, 6))

  await user(gw, 'alice', 'secret', ['a'], { is_inactive: true })
  t.same(said(await ask(gw, '/a/', as('alice', 'secret'))), [403, 'Key is inactive, please renew'])
  t.same(said(await ask(gw, '/a/', as('alice', 'wrong'))), [401, 'User not authorised'])
  const expires = clock.now() / 1000 + 60
  await user(gw, 'bobby', 'secret', ['a'], { expires, post_expiry_action: 'retain', post_expiry_grace_period: 60 })
  await user(gw, 'carol', 'secret', ['a'], { expires, post_expiry_action: 'delete' })
  t.equal((await ask(gw, '/a/', as('bobby', 'secret'))).status, 200)
  t.equal((await ask(gw, '/a/', as('carol', 'secret'))).status, 200)
  t.same(said(await ask(gw, '/b/', as('bobby', 'secret'))), [403, 'Access to this API has been disallowed'])
  await clock.move(61_000)
  t.same(said(await ask(gw, '/a/', as('bobby', 'secret'))), [401, 'Key has expired, please renew'])
  t.same(said(await ask(gw, '/a/', as('carol', 'secret'))), [401, 'User not authorised'])
})

t.test('a right password is remembered for cacheTTL, or not at all; a wrong one for ten seconds', async t => {
  const clock = handClock()
  const gw = await gateway(t, {
    apis: [
      withBasic('short', 'svc://echo', { cacheTTL: 5 }),
      withBasic('usual', 'svc://echo'),
      withBasic('never', 'svc://echo', { disableCaching: true })
    ],
    clock
  })
  await user(gw, 'alice', 'secret', ['short', 'usual', 'never'])
  const made = hashings(t)
  const counted = async (api: string, password: string, status: number, hashed: number, what: string) => {
    t.equal((await ask(gw, `/${api}/`, as('alice', password))).status, status, what)
    t.equal(made().length, hashed, `${what}: hashed`)
  }
  await counted('usual', 'secret', 200, 1, 'the first time')
  for (const api of ['usual', 'short', 'usual']) await counted(api, 'secret', 200, 0, `again on ${api}`)
  await counted('never', 'secret', 200, 1, 'caching is off')
  await counted('never', 'secret', 200, 1, 'and off again')
  await clock.move(4_999)
  await counted('short', 'secret', 200, 0, 'before five seconds')
  await clock.move(1)
  await counted('short', 'secret', 200, 1, 'after five seconds')
  await clock.move(59_999)
  await counted('usual', 'secret', 200, 0, 'before a minute')
  await clock.move(1)
  await counted('usual', 'secret', 200, 1, 'after a minute')

  await counted('usual', 'wrong', 401, 1, 'wrong')
  await counted('usual', 'wrong', 401, 0, 'wrong again')
  await counted('never', 'wrong', 401, 0, 'wrong, where caching is off')
  await counted('usual', 'wrongs', 401, 1, 'wrong in another way')
  await clock.move(10_000)
  await counted('usual', 'wrong', 401, 1, 'wrong after ten seconds')
  t.equal((await ask(gw, '/usual/', as('nobody', 'secret'))).status, 401)
  t.equal(made().length, 1, 'nobody takes the same time')
  t.equal((await ask(gw, '/usual/', as('nobody', 'secret'))).status, 401)
  t.equal(made().length, 0)
})

t.test('of the same credentials at once one is hashed, and all are answered', async t => {
  const gw = await gateway(t, { apis: [withBasic('a', 'svc://echo')] })
  await user(gw, 'alice', 'secret', ['a'])
  const made = hashings(t)
  for (const [password, status] of [
    ['secret', 200],
    ['wrong', 401]
  ] as const) {
    const answers = await Promise.all(Array.from({ length: 40 }, () => ask(gw, '/a/', as('alice', password))))
    t.same(new Set(answers.map(answer => answer.status)), new Set([status]))
    t.equal(made().length, 1)
  }
})

t.test('another password counts at once, and so do a new user, a switched-off and a deleted one', async t => {
  const gw = await gateway(t, { apis: [withBasic('a', 'svc://echo')] })
  const status = async (password: string) => (await ask(gw, '/a/', as('alice', password))).status
  t.equal(await status('first'), 401)
  await user(gw, 'alice', 'first', ['a'])
  t.equal(await status('first'), 200, 'though it was remembered as wrong')
  t.equal(await status('second'), 401)
  await user(gw, 'alice', 'second', ['a'])
  t.equal(await status('first'), 401, 'though it was remembered as right')
  t.equal(await status('second'), 200)
  const argon = { basic_auth_data: { password: 'third', hash_type: 'argon2id' } }
  t.equal((await gw.api('PUT', '/api/keys/alice', { ...rights('a'), ...argon })).status, 200)
  t.equal(await status('second'), 401)
  t.equal(await status('third'), 200)
  t.equal((await gw.svc('PUT', '/svc/keys/alice', { ...rights('a'), is_inactive: true })).status, 200)
  t.equal(await status('third'), 403)
  t.equal((await gw.svc('DELETE', '/svc/keys/alice')).status, 200)
  t.equal(await status('third'), 401)
})

t.test('a password that is changed while it is verified does not count any more', async t => {
  const gw = await gateway(t, { apis: [withBasic('a', 'svc://echo')] })
  await user(gw, 'alice', 'first', ['a'])
  const { check } = passwords
  t.intercept(passwords, 'check', {
    value: (...given: Parameters<typeof check>) => {
      const asked = check.apply(passwords, given)
      return typeof asked === 'string'
        ? asked
        : asked.then(async fits => {
            await user(gw, 'alice', 'second', ['a'])
            return fits
          })
    }
  })
  t.same(said(await ask(gw, '/a/', as('alice', 'first'))), [401, 'User not authorised'])
})

t.test('users of one name in two gateways have a password each', async t => {
  const apis = [withBasic('a', 'svc://echo')]
  const [one, two] = [await gateway(t, { apis }), await gateway(t, { apis })]
  await user(one, 'alice', 'first', ['a'])
  await user(two, 'alice', 'second', ['a'])
  for (const _ of [1, 2]) {
    t.equal((await ask(one, '/a/', as('alice', 'first'))).status, 200)
    t.equal((await ask(two, '/a/', as('alice', 'second'))).status, 200)
    t.equal((await ask(one, '/a/', as('alice', 'second'))).status, 401)
    t.equal((await ask(two, '/a/', as('alice', 'first'))).status, 401)
  }
})

t.test('credentials stand where the scheme says, and stripAuthorizationData takes them out of there', async t => {
  const up = await upstream(t, tell)
  const scheme = { header: { enabled: true, name: 'X-User' } }
  const gw = await gateway(t, {
    apis: [
      withBasic('kept', up.url),
      withBasic('gone', up.url, {}, { stripAuthorizationData: true }),
      withBasic('moved', up.url, scheme, { stripAuthorizationData: true })
    ]
  })
  await user(gw, 'alice', 'secret', ['kept', 'gone', 'moved'])
  const value = basicly('alice', 'secret')
  const sent = async (api: string, headers: Record<string, string>) => (await ask(gw, `/${api}/`, { headers })).json
  t.same(valuesOf((await sent('kept', { Authorization: value })).headers, 'authorization'), [value])
  t.same(valuesOf((await sent('gone', { Authorization: value, X: 'y' })).headers, 'authorization'), [])
  const moved = await sent('moved', { 'X-User': value, Accept: 'text/plain' })
  t.same(valuesOf(moved.headers, 'x-user'), [])
  t.same(valuesOf(moved.headers, 'accept'), ['text/plain'])
})

t.test('the user name is the credential, and limits count by the user', async t => {
  const gw = await gateway(t, { apis: [withBasic('a', 'svc://echo')] })
  await user(gw, 'alice', 'secret', ['a'], { rate: 2, per: 60 })
  await user(gw, 'bobby', 'secret', ['a'], { rate: 2, per: 60 })
  const statuses: number[] = []
  for (const name of ['alice', 'alice', 'alice', 'bobby'])
    statuses.push((await ask(gw, '/a/', as(name, 'secret'))).status)
  t.same(statuses, [200, 200, 429, 200])
})
