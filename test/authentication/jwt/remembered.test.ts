import t from 'tap'
import { handClock } from '../../helpers/clock.ts'
import { gateway, rights } from '../../helpers/gateway.ts'
import { upstream } from '../../helpers/upstream.ts'
import { jwtApi, policy, put } from './apis.ts'
import { ed25519, jwk, type Pair, signed } from './signing.ts'

/** What was verified counts again, but never longer than what it was verified with. */

const SECRET = 'a secret of thirty-two bytes ...'

/** A gateway before a key set that the test changes. */
async function served(t: Parameters<typeof gateway>[0]) {
  const clock = handClock()
  const one = ed25519()
  const now: { keys: Record<string, unknown>[] } = { keys: [jwk(one, { kid: 'one' })] }
  let asked = 0
  const target = await upstream(t, (req, res) => {
    if (req.url === '/jwks') asked++
    res.end(req.url === '/jwks' ? JSON.stringify(now) : 'reached')
  })
  const gw = await gateway(t, { clock })
  const scheme = (more: object = {}) => ({
    signingMethod: 'eddsa',
    jwksURIs: [{ url: `${target.url}/jwks`, cacheTimeout: 60 }],
    defaultPolicies: ['open'],
    ...more
  })
  await policy(gw, 'open', ['a', 'b'])
  const status = async (token: string, api = 'a') => {
    const answer = await gw.get(`/${api}/`, { Authorization: `Bearer ${token}` })
    await answer.body?.cancel()
    return answer.status
  }
  const token = (claims: object = {}, pair: Pair = one, kid = 'one') =>
    signed({ alg: 'EdDSA', kid }, { sub: 'ann', ...claims }, pair.privateKey)
  return { clock, one, now, target, gw, scheme, status, token, asked: () => asked }
}

t.test('a token counts until it ends, to the millisecond, and no longer than its key set', async t => {
  const { clock, gw, scheme, target, status, token, now, asked } = await served(t)
  await put(gw, jwtApi('a', target.url, scheme({ expiresAtValidationSkew: 1 })))
  const exp = clock.now() / 1000 + 30
  const short = token({ exp })
  const long = token()
  t.same([await status(short), await status(long), asked()], [200, 200, 1])
  now.keys = [jwk(ed25519(), { kid: 'two' })]
  await clock.move(30_999)
  t.equal(await status(short), 200)
  await clock.move(1)
  t.equal(await status(short), 401)
  await clock.move(22_999)
  t.same([await status(long), asked()], [200, 1])
  await clock.move(7_000)
  t.equal(await status(long), 403, 'its key has left the set')
})

t.test('a flush, by either interface, makes remembered tokens void on the API and leaves others served', async t => {
  const { gw, scheme, target, status, token, now, one } = await served(t)
  for (const id of ['a', 'b']) await put(gw, jwtApi(id, target.url, scheme()))
  const kept = token()
  t.same([await status(kept), await status(kept, 'b')], [200, 200])
  now.keys = []
  t.equal(await status(kept), 200)
  t.equal((await gw.api('DELETE', '/api/cache/jwks/a')).status, 200)
  t.same([await status(kept), await status(kept, 'b')], [403, 200])
  now.keys = [jwk(one, { kid: 'one' })]
  t.equal((await gw.svc('DELETE', '/svc/cache/jwks')).status, 200)
  t.same([await status(kept), await status(kept, 'b')], [200, 200])
})

t.test('what one API has verified counts for no other, nor for its next version', async t => {
  const { gw, scheme, target, status, token } = await served(t)
  await put(gw, jwtApi('a', target.url, scheme()))
  await put(gw, jwtApi('b', target.url, scheme({ allowedIssuers: ['https://idp'] })))
  const one = token()
  t.same([await status(one), await status(one, 'b'), await status(one)], [200, 401, 200])
  const { status: saved } = await gw.svc(
    'PUT',
    '/svc/apis/oas/a',
    jwtApi('a', target.url, scheme({ allowedSubjects: ['bob'] }))
  )
  t.equal(saved, 200)
  t.equal(await status(one), 401)
})

t.test('requests that come together with one token, or with unknown kids, ask once', async t => {
  const { gw, scheme, target, status, token, asked } = await served(t)
  await put(gw, jwtApi('a', target.url, scheme()))
  const one = token()
  const all = await Promise.all(Array.from({ length: 20 }, () => status(one)))
  t.same(new Set(all), new Set([200]))
  t.equal(asked(), 1)
  const guesses = await Promise.all(Array.from({ length: 20 }, (_, i) => status(token({}, undefined, `guess ${i}`))))
  t.same(new Set(guesses), new Set([403]))
  t.equal(asked(), 2)
})

t.test('several key sets count together; one that is away hides only its own keys', async t => {
  const { gw, target, status, token, scheme, clock } = await served(t)
  const other = ed25519()
  const more = { isAway: true }
  const second = await upstream(t, (_req, res) => {
    if (more.isAway) res.writeHead(500).end()
    else res.end(JSON.stringify({ keys: [jwk(other, { kid: 'other' })] }))
  })
  const jwksURIs = [{ url: `${target.url}/jwks` }, { url: second.url }]
  await put(gw, jwtApi('a', target.url, scheme({ jwksURIs })))
  const theirs = token({}, other, 'other')
  t.same([await status(token()), await status(theirs)], [200, 503])
  more.isAway = false
  await clock.move(1_000)
  t.same([await status(token()), await status(theirs)], [200, 200])
})

t.test('a key of ours that verifies tokens: another secret, or none, counts at once', async t => {
  const target = await upstream(t)
  const gw = await gateway(t)
  await put(gw, jwtApi('a', target.url, { signingMethod: 'hmac' }))
  const save = async (method: string, secret: string) => {
    const body = { ...rights('a'), jwt_data: { secret } }
    t.equal((await gw.svc(method, '/svc/keys/machine', body)).status, 200)
  }
  await save('POST', SECRET)
  const token = (secret: string) => signed({ alg: 'HS256', kid: 'machine' }, { x: 1 }, secret)
  const status = async (secret: string) => (await gw.get('/a/', { Authorization: token(secret) })).status
  t.same([await status(SECRET), await status(SECRET)], [200, 200])
  const next = `${SECRET} next`
  await save('PUT', next)
  t.same([await status(SECRET), await status(next)], [403, 200])
  t.equal((await gw.svc('DELETE', '/svc/keys/machine')).status, 200)
  t.equal(await status(next), 403)
})

t.test('each refusal of a token is an event, but not that none was sent or that keys cannot be had', async t => {
  const { gw, scheme, target, status, token, clock } = await served(t)
  await put(gw, jwtApi('a', target.url, scheme({ jwksURIs: [{ url: 'http://127.0.0.1:1/' }] })))
  await put(gw, jwtApi('b', target.url, scheme()))
  const failures = () =>
    gw.log.lines
      .filter(({ event }) => event === 'AuthFailure')
      .reduce((sum, { count = 1 }) => sum + (count as number), 0)
  t.equal(await status(token()), 503)
  t.equal((await gw.get('/b/')).status, 400)
  t.equal(failures(), 0)
  t.equal(await status(token({ exp: 1 }), 'b'), 401)
  t.equal(await status('x', 'b'), 403)
  // Events of one kind are counted for a while.
  await clock.move(60_000)
  t.equal(failures(), 2)
})

t.test('a client without a token is told where tokens come from, when the API tells it', async t => {
  const { gw, scheme, target } = await served(t)
  const protectedResourceMetadata = { enabled: true, authorizationServers: ['https://idp'] }
  await put(gw, jwtApi('a', target.url, scheme(), { protectedResourceMetadata }))
  const answer = await gw.get('/a/')
  t.equal(answer.status, 401)
  t.match(answer.headers.get('www-authenticate'), /^Bearer/)
  t.same(await answer.json(), { error: 'Authorization field missing' })
})

t.test('tokens with unknown kids that wait for a slow key set hold up no others', async t => {
  const { gw, scheme, status, token, one } = await served(t)
  const slow = { isSlow: false }
  const release: (() => void)[] = []
  const target = await upstream(t, (req, res) => {
    const answer = () => void res.end(req.url === '/jwks' ? JSON.stringify({ keys: [jwk(one, { kid: 'one' })] }) : 'ok')
    if (req.url === '/jwks' && slow.isSlow) release.push(answer)
    else answer()
  })
  const jwksURIs = [{ url: `${target.url}/jwks` }]
  await put(gw, jwtApi('a', target.url, scheme({ jwksURIs })))
  t.equal(await status(token()), 200)
  slow.isSlow = true
  const guesses = Array.from({ length: 1_100 }, (_, i) => status(token({}, undefined, `guess ${i}`)))
  const early = await Promise.race(guesses)
  t.equal(early, 503, 'those beyond a thousand')
  t.equal(await status(token({ jti: 'new' })), 200)
  for (const answer of release) answer()
  const all = await Promise.all(guesses)
  t.ok(all.filter(each => each === 403).length >= 1_000)
  t.same(new Set(all), new Set([403, 503]))
  t.equal(release.length, 1)
})
