import { decodeJwt, decodeProtectedHeader } from 'jose'
import t from 'tap'
import { handClock } from '../../helpers/clock.ts'
import { gateway } from '../../helpers/gateway.ts'
import { upstream } from '../../helpers/upstream.ts'
import { jwtApi, policy, put } from './apis.ts'
import { provider } from './provider.ts'

const idp = await provider(t)
const target = await upstream(t)
const scheme = (cacheTimeout: number) => ({
  signingMethod: 'rsa',
  jwksURIs: [{ url: idp.jwks, cacheTimeout }],
  allowedIssuers: [idp.issuer],
  allowedAudiences: ['shop'],
  subjectClaims: ['client_id'],
  jtiValidation: { enabled: true },
  scopes: { scopeToPolicyMapping: [{ scope: 'read', policyId: 'readers' }] }
})

t.test('tokens of an identity provider, its keys changing', async t => {
  const gw = await gateway(t)
  await put(gw, jwtApi('shop', target.url, scheme(60)))
  await policy(gw, 'readers', ['shop'])
  const call = (token: string) => gw.get('/shop/', { Authorization: `Bearer ${token}` })
  const old = await idp.token()
  t.match(decodeJwt(old), { iss: idp.issuer, aud: 'shop', sub: 'machine', scope: 'read' })
  t.equal(decodeProtectedHeader(old).alg, 'RS256')
  t.equal((await call(old)).status, 200)
  for (let i = 0; i < 5; i++) t.equal((await call(await idp.token())).status, 200)
  t.equal(idp.asked(), 1, 'one fetch for all of them')

  idp.rotate({ keeps: true })
  const both = await idp.token()
  t.not(decodeProtectedHeader(both).kid, decodeProtectedHeader(old).kid)
  t.equal((await call(both)).status, 200, 'a new key is found at once')
  t.equal((await call(old)).status, 200, 'the old one is still in the set')
  t.equal(idp.asked(), 2)

  idp.rotate({ keeps: false })
  const fresh = await idp.token()
  t.equal((await call(fresh)).status, 403, 'not again within 5 s')
  t.equal((await call(old)).status, 200, 'and what is known counts for its time')
  t.equal(idp.asked(), 2)
  t.equal((await gw.svc('DELETE', '/svc/cache/jwks/shop')).status, 200)
  t.equal((await call(fresh)).status, 200)
  t.equal((await call(old)).status, 403, 'its key is gone, though it was remembered')
  t.equal((await call(both)).status, 403)
})

t.test('an identity provider that is away', async t => {
  const clock = handClock(Date.now())
  const gw = await gateway(t, { clock })
  await put(gw, jwtApi('shop', target.url, scheme(1)))
  await policy(gw, 'readers', ['shop'])
  const call = (token: string) => gw.get('/shop/', { Authorization: `Bearer ${token}` })
  const [one, two] = [await idp.token(), await idp.token()]
  idp.away(true)
  const first = await call(one)
  t.equal(first.status, 503)
  t.equal(first.headers.get('retry-after'), '1')
  t.same(await first.json(), { error: 'Keys of the identity provider cannot be fetched' })
  const asked = idp.asked()
  await Promise.all(Array.from({ length: 10 }, () => call(one)))
  t.equal(idp.asked(), asked, 'not asked again at once')
  idp.away(false)
  await clock.move(1_000)
  t.equal((await call(one)).status, 200, 'it is back')
  idp.away(true)
  await clock.move(1_100)
  t.equal((await call(two)).status, 200, 'the set is due, yet it counts while nobody answers')
  t.equal((await call(one)).status, 200)
  const events = gw.log.lines.filter(({ msg }) => msg === 'a key set cannot be fetched')
  t.equal(events.length, 2)
  idp.away(false)
})
