import t from 'tap'
import { handClock } from '../helpers/clock.ts'
import { api, gateway, rights } from '../helpers/gateway.ts'
import { eventsOf } from '../steps/ask.ts'
import { basicly, user } from './withBasic.ts'
import { jwtApi, policy, signed, TOKEN_SECRET } from './withTokens.ts'

const schemes = {
  a: { type: 'apiKey', in: 'header', name: 'X-A' },
  b: { type: 'apiKey', in: 'query', name: 'b' },
  users: { type: 'http', scheme: 'basic' },
  jwt: { type: 'http', scheme: 'bearer' }
}

interface Asked {
  /** Names of the schemes of each alternative at the top of the description. */
  readonly security?: readonly (readonly string[])[]
  readonly enabled: readonly string[]
  readonly mode?: 'legacy' | 'compliant'
  /** Beside the schemes. */
  readonly more?: object
}

/** Tells the upstream who called, by the key's metadata. */
function grouped(id: string, { security, enabled, mode, more = {} }: Asked): unknown {
  const extra: Record<string, object> = {
    // Beside a user name there is no place for it.
    jwt: {
      header: { enabled: true, name: 'X-Token' },
      source: TOKEN_SECRET,
      identityBaseField: 'sub',
      policyFieldName: 'pol',
      skipKid: true
    }
  }
  const document: any = api(
    id,
    'svc://echo',
    {
      server: {
        authentication: {
          enabled: true,
          ...(mode === undefined ? {} : { securityProcessingMode: mode }),
          securitySchemes: Object.fromEntries(enabled.map(name => [name, { enabled: true, ...extra[name] }])),
          ...more
        }
      },
      middleware: {
        global: { transformRequestHeaders: { enabled: true, add: [{ name: 'X-Who', value: '$svc_meta.who' }] } }
      }
    },
    { '/free': { get: { operationId: 'free', security: [], responses: {} } } }
  )
  document.components.securitySchemes = schemes
  if (security !== undefined)
    document.security = security.map(group => Object.fromEntries(group.map(name => [name, []])))
  return document
}

const compliant = 'compliant' as const
const apis = {
  first: { security: [['a'], ['b']], enabled: ['a', 'b'] },
  both: { security: [['a', 'b'], ['a']], enabled: ['a', 'b'] },
  bothbased: { security: [['a', 'users']], enabled: ['a', 'users'], more: { baseIdentityProvider: 'basic_auth_user' } },
  unordered: { security: [['a', 'users']], enabled: ['a', 'users'] },
  places: { enabled: ['a', 'b'] },
  shut: { security: [['a'], []], enabled: ['a'] },
  second: { security: [['jwt', 'a'], ['b']], enabled: ['a', 'b'] },
  either: { security: [['a'], ['b']], enabled: ['a', 'b'], mode: compliant },
  pairs: { security: [['a', 'b'], ['users']], enabled: ['a', 'b', 'users'], mode: compliant },
  open: { security: [[], ['a']], enabled: ['a'], mode: compliant },
  added: { security: [['a']], enabled: ['a', 'b', 'users'], mode: compliant, more: { security: [['b', 'users']] } },
  tokens: {
    security: [['jwt', 'users'], ['a']],
    enabled: ['jwt', 'users', 'a'],
    mode: compliant,
    more: { baseIdentityProvider: 'jwt_claim' }
  },
  based: {
    security: [['a', 'users', 'b']],
    enabled: ['a', 'users', 'b'],
    mode: compliant,
    more: { baseIdentityProvider: 'auth_token' }
  }
} satisfies Record<string, Asked>
const ids = Object.keys(apis)

t.test('alternatives and what belongs together', async t => {
  const gw = await gateway(t, { apis: Object.entries(apis).map(([id, asked]) => grouped(id, asked)) })
  const key = (who: string) => gw.key({ ...rights(...ids), meta_data: { who } })
  const [a, b, elsewhere] = [
    await key('a'),
    await key('b'),
    await gw.key({ ...rights('first'), meta_data: { who: 'first alone' } })
  ]
  await user(gw, 'ada', 'secret', ids, { meta_data: { who: 'ada' } })
  await policy(gw, 'gold', ids, { meta_data: { who: 'gold' } })
  const token = signed({ sub: 'bob', exp: 4_000_000_000, pol: 'gold' })
  const A = { 'X-A': a }
  const WRONG_A = { 'X-A': 'nobody' }
  const ADA = { Authorization: basicly('ada', 'secret') }
  const WRONG_ADA = { Authorization: basicly('ada', 'wrong') }
  const B = `?b=${b}`
  const missing = 'Authorization field missing'
  const unknown = 'Access to this API has been disallowed'
  const notUser = 'User not authorised'
  const table: readonly [path: string, headers: Record<string, string>, status: number, told: string][] = [
    // Legacy: the first alternative alone.
    ['/first/', A, 200, 'a'],
    [`/first/${B}`, {}, 401, missing],
    [`/first/${B}`, A, 200, 'a'],
    [`/first/${B}`, WRONG_A, 403, unknown],
    ['/first/free', {}, 401, missing],
    [`/both/${B}`, A, 200, 'b'],
    ['/both/', A, 401, missing],
    [`/both/${B}`, {}, 401, missing],
    ['/both/?b=nobody', A, 403, unknown],
    [`/both/${B}`, WRONG_A, 403, unknown],
    ['/bothbased/', { ...A, ...ADA }, 200, 'ada'],
    ['/unordered/', { ...A, ...ADA }, 200, 'a'],
    ['/unordered/', ADA, 401, missing],
    ['/unordered/', { ...A, ...WRONG_ADA }, 401, notUser],
    // Without security all are one, and a later place wins.
    ['/places/', A, 200, 'a'],
    [`/places/${B}`, {}, 200, 'b'],
    [`/places/${B}`, A, 200, 'b'],
    ['/shut/', A, 200, 'a'],
    ['/shut/', {}, 401, missing],
    // Of the first a scheme is off.
    [`/second/${B}`, {}, 200, 'b'],
    ['/second/', A, 401, missing],
    // Compliant: any.
    ['/either/', A, 200, 'a'],
    [`/either/${B}`, {}, 200, 'b'],
    [`/either/${B}`, A, 200, 'a'],
    [`/either/${B}`, WRONG_A, 200, 'b'],
    ['/either/?b=nobody', A, 200, 'a'],
    ['/either/', {}, 401, missing],
    ['/either/?b=nobody', {}, 403, unknown],
    ['/either/', WRONG_A, 401, missing],
    [`/pairs/${B}`, A, 200, 'b'],
    ['/pairs/', ADA, 200, 'ada'],
    [`/pairs/${B}`, ADA, 200, 'ada'],
    ['/pairs/', A, 401, missing],
    [`/pairs/${B}`, WRONG_ADA, 401, notUser],
    ['/open/', {}, 200, ''],
    ['/open/', A, 200, 'a'],
    ['/open/', WRONG_A, 200, ''],
    ['/added/', A, 200, 'a'],
    [`/added/${B}`, ADA, 200, 'b'],
    [`/added/${B}`, {}, 401, missing],
    ['/added/', ADA, 401, missing],
    ['/tokens/', A, 200, 'a'],
    ['/tokens/', ADA, 401, missing],
    ['/based/', { ...A, ...ADA }, 401, missing],
    [`/based/${B}`, { ...A, ...ADA }, 200, 'a'],
    // The session that counts is the one whose rights count.
    ['/either/', { 'X-A': elsewhere }, 403, unknown],
    [`/both/${B}`, { 'X-A': elsewhere }, 200, 'b']
  ]
  for (const [path, headers, status, told] of table) {
    const answer = await gw.get(path, headers)
    const body: any = await answer.json()
    const names = Object.keys(headers).join()
    t.equal(answer.status, status, `${path.split('?')[0]} ${path.includes('?') ? 'b ' : ''}${names}`)
    const who = status === 200 ? (new Headers(body.headers).get('x-who') ?? '') : body.error
    t.equal(who, told, `${path.split('?')[0]} ${names}`)
  }
  t.equal((await gw.get('/either/', { 'X-A': elsewhere })).status, 403)
  const wrong = await gw.get(`/pairs/${B}`, WRONG_ADA)
  t.match(wrong.headers.get('www-authenticate'), /^Basic /, 'the refusal is that of the last alternative, whole')
  const withToken = (value: string) => gw.get('/tokens/', { ...ADA, 'X-Token': value })
  const session = await withToken(token)
  t.equal(session.status, 200)
  t.equal(new Headers(((await session.json()) as any).headers).get('x-who'), 'gold', 'the session of the token counts')
  t.equal((await withToken(signed({ sub: 'bob', exp: 1, pol: 'gold' }))).status, 401)
})

t.test('a JWT and an access token stand beside each other', async t => {
  const document = jwtApi('jwt', { policyFieldName: 'pol' }, { authentication: { securityProcessingMode: compliant } })
  document.components.securitySchemes.key = { type: 'apiKey', in: 'header', name: 'X-Key' }
  document['x-svc-api-gateway'].server.authentication.securitySchemes.key = { enabled: true }
  document.security = [{ jwt: [] }, { key: [] }]
  const gw = await gateway(t, { apis: [document] })
  await policy(gw, 'gold', ['jwt'])
  const key = await gw.key(rights('jwt'))
  const token = (claims: object) => ({
    Authorization: `Bearer ${signed({ sub: 'bob', exp: 4_000_000_000, pol: 'gold', ...claims })}`
  })
  const status = async (headers: Record<string, string>) => (await gw.get('/jwt/', headers)).status
  t.equal(await status(token({})), 200)
  t.equal(await status({ 'X-Key': key }), 200)
  t.equal(await status({ ...token({ exp: 1 }), 'X-Key': key }), 200)
  t.equal(await status({ ...token({}), 'X-Key': 'nobody' }), 200)
  t.equal(await status(token({ exp: 1 })), 401, 'as the last alternative says')
  t.equal(await status({}), 401)
})

t.test('AuthFailure tells once of a request that no alternative lets in, and never of one that is let in', async t => {
  const clock = handClock()
  const gw = await gateway(t, {
    clock,
    apis: (['either', 'pairs', 'open', 'both'] as const).map(id => grouped(id, apis[id]))
  })
  /** Those that come again within a second are one line, which counts them. */
  const told = async () => {
    await clock.move(1_000)
    return eventsOf(gw).reduce((sum, { count }) => sum + Number(count ?? 1), 0)
  }
  let before = 0
  const key = await gw.key(rights('either', 'pairs', 'open', 'both'))
  const elsewhere = await gw.key(rights('both'))
  await user(gw, 'ada', 'secret', ['pairs'])
  const X = (value: string) => ({ 'X-A': value })
  const table: readonly [path: string, headers: Record<string, string>, status: number, failures: number][] = [
    [`/either/?b=${key}`, X('nobody'), 200, 0],
    [`/either/?b=nobody`, X(key), 200, 0],
    ['/either/?b=nobody', X('nobody'), 403, 1],
    ['/either/', X('nobody'), 401, 1],
    ['/either/', {}, 401, 0],
    ['/either/', X(elsewhere), 403, 0],
    ['/pairs/?b=nobody', { ...X(key), Authorization: basicly('ada', 'secret') }, 200, 0],
    ['/pairs/?b=nobody', { ...X(key), Authorization: basicly('ada', 'wrong') }, 401, 1],
    [`/pairs/?b=${key}`, X('nobody'), 401, 1],
    ['/open/', X('nobody'), 200, 0],
    // One group: as it was.
    [`/both/?b=${key}`, X('nobody'), 403, 1],
    [`/both/?b=${key}`, X(key), 200, 0]
  ]
  for (const [path, headers, status, failures] of table) {
    const what = `${path.split('=')[0]} ${Object.keys(headers)} ${status}`
    t.equal((await gw.get(path, headers)).status, status, what)
    const all = await told()
    t.equal(all - before, failures, what)
    before = all
  }
})

t.test('whoever is not the one whose session counts must be alive all the same', async t => {
  const clock = handClock(Date.now())
  const document = grouped('x', apis.bothbased)
  const gw = await gateway(t, { clock, apis: [document] })
  await user(gw, 'bob', 'secret', ['x'])
  const ask = async (key: object) => {
    const { body } = await gw.svc('POST', '/svc/keys/create', key)
    const answer = await gw.get('/x/', { 'X-A': body.key, Authorization: basicly('bob', 'secret') })
    return [answer.status, answer.status === 200 ? '' : ((await answer.json()) as { error: string }).error]
  }
  t.same(await ask(rights('x')), [200, ''])
  t.same(await ask({ ...rights('x'), is_inactive: true }), [403, 'Key is inactive, please renew'])
  t.same(await ask({ ...rights('x'), expires: 1 }), [401, 'Key has expired, please renew'])
  t.same(await ask(rights('another')), [200, ''], 'whose session counts, its rights count')
})
