import type { IncomingMessage, ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { handClock } from '../../helpers/clock.ts'
import { gateway } from '../../helpers/gateway.ts'
import { upstream } from '../../helpers/upstream.ts'
import { jwtApi, policy, put } from './apis.ts'
import { jwk, type Pair, rsa, signed } from './signing.ts'

/** Two providers whose sets the tests change. */

const [a, b, fresh, stranger] = [rsa(), rsa(), rsa(), rsa()]

async function provider(t: Test, keys: object[]) {
  const now = { keys, hangs: false }
  const { promise: givenUp, resolve } = Promise.withResolvers<void>()
  const server = await upstream(t, (_req: IncomingMessage, res: ServerResponse) => {
    if (!now.hangs) res.end(JSON.stringify({ keys: now.keys }))
    else res.on('close', resolve)
  })
  /** What comes before whoever waits for this provider gives it up. */
  const before = <T>(answer: Promise<T>) => Promise.race([answer, givenUp.then(() => 'too late')])
  return { now, before, url: `${server.url}/jwks`, asked: () => server.requests.length }
}

async function start(t: Test) {
  const clock = handClock(Date.now())
  const [one, two] = [await provider(t, [jwk(a, { kid: 'a' })]), await provider(t, [jwk(b, { kid: 'b' })])]
  const gw = await gateway(t, { clock })
  const jwksURIs = [
    { url: one.url, cacheTimeout: 600 },
    { url: two.url, cacheTimeout: 1 }
  ]
  await put(gw, jwtApi('x', 'svc://echo', { signingMethod: 'rsa', jwksURIs, defaultPolicies: ['p'], skipKid: true }))
  await policy(gw, 'p', ['x'])
  let tokens = 0
  const call = async (pair: Pair, kid: string | null) => {
    const header = { alg: 'RS256', ...(kid === null ? {} : { kid }) }
    const token = signed(header, { sub: 'ada', jti: String(tokens++) }, pair.privateKey)
    return (await gw.get('/x/', { Authorization: `Bearer ${token}` })).status
  }
  return { clock, one, two, call }
}

t.test('a provider that hangs from the start delays no token of another one', async t => {
  const { one, two, call } = await start(t)
  two.now.hangs = true
  t.equal(await two.before(call(a, 'a')), 200, 'the set was waited for, the other one was not')
  t.equal(await two.before(call(a, 'a')), 200, 'the set is at hand')
  t.equal(await two.before(call(a, null)), 200, 'a token without a kid')
  one.now.keys.push(jwk(fresh, { kid: 'fresh' }))
  t.equal(await two.before(call(fresh, 'fresh')), 200, 'a new key of a set that is at hand')
  t.equal(one.asked(), 2)
})

t.test('a set that is due again and hangs delays no token of another one', async t => {
  const { clock, one, two, call } = await start(t)
  t.same([await call(a, 'a'), await call(b, 'b')], [200, 200])
  two.now.hangs = true
  await clock.move(1_000)
  t.same(await two.before(Promise.all([call(a, 'a'), call(a, null)])), [200, 200])
  t.equal(one.asked(), 1)
})

t.test('a token whose key may be in a set that hangs waits for it, and no longer', async t => {
  const { clock, two, call } = await start(t)
  two.now.hangs = true
  t.equal(await call(a, 'a'), 200)
  const waiting = [call(b, 'b'), call(b, null)]
  await clock.waiting(5_000)
  await clock.move(5_000)
  t.equal(await waiting[0], 503)
  t.equal(await waiting[1], 503, 'none at hand fits, and the one that does may be in the other')
  two.now.hangs = false
  await clock.move(1_000)
  t.same([await call(b, 'b'), await call(b, null), await call(a, null)], [200, 200, 200])
})

t.test('addresses of key sets and introspection that are link-local are refused on save', async t => {
  const gw = await gateway(t)
  const refused = async (document: Record<string, unknown>, pointer: string) => {
    const { status, body } = await gw.svc('POST', '/svc/apis/oas', document)
    const scheme = '/x-svc-api-gateway/server/authentication/securitySchemes/token'
    t.same([status, body.faults], [400, [{ pointer: scheme + pointer, message: 'is a link-local address' }]])
  }
  const rsaBy = (more: object) => jwtApi('x', 'svc://echo', { signingMethod: 'rsa', ...more })
  for (const url of [
    'http://169.254.169.254/jwks',
    'https://[fe80::1]/jwks',
    'http://2852039166/',
    'http://[::ffff:a9fe:a9fe]/'
  ]) {
    await refused(rsaBy({ jwksURIs: [{ url }] }), '/jwksURIs/0/url')
    await refused(rsaBy({ source: url }), '/source')
    await refused(rsaBy({ source: btoa(url) }), '/source')
    const introspection = { enabled: true, url, clientId: 'c', clientSecret: 'hush' }
    const external = {
      ...jwtApi('x', 'svc://echo', { providers: [{ introspection }] }),
      components: { securitySchemes: { token: { type: 'oauth2', flows: {} } } }
    }
    await refused(external, '/providers/0/introspection/url')
  }
})

t.test('two providers may have keys of one id: both count, also while one is slower', async t => {
  const { clock, one, two, call } = await start(t)
  one.now.keys.splice(0, 1, jwk(a, { kid: 'same' }))
  two.now.keys.splice(0, 1, jwk(b, { kid: 'same' }))
  for (let i = 0; i < 3; i++) {
    t.same(await Promise.all([call(b, 'same'), call(a, 'same')]), [200, 200])
    t.equal(await call(stranger, 'same'), 403)
    await clock.move(1_000)
  }
})

t.test('a key without an id may be the one that a token means', async t => {
  const { one, call } = await start(t)
  one.now.keys.splice(0, 1, jwk(a, {}))
  t.same([await call(a, 'a'), await call(a, null), await call(b, 'b'), await call(stranger, 'a')], [200, 200, 200, 403])
})
