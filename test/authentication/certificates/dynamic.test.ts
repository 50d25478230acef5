import t from 'tap'
import { customId } from '../../../gateway/keys/token.ts'
import { certificate, hashOf, type Made } from '../../helpers/certificates.ts'
import { handClock } from '../../helpers/clock.ts'
import { api, rights, type TestGateway, withKey } from '../../helpers/gateway.ts'
import { behindProxy, forwarded, openssl, rsa, told, uploaded } from './made.ts'

const REQUIRED = '401 Client certificate required'
const EXPIRED = '403 Certificate has expired'
const NOT_YET = '403 Certificate is not valid yet'
const UNKNOWN = '403 Access to this API has been disallowed'
const MISMATCH = '401 Access to this API has been disallowed'

const open = rights('own', 'scheme', 'token')
/** The same by the extension's own method, by an OpenAPI scheme, and beside tokens. */
const apis = [
  api('own', 'svc://echo', { server: { authentication: { enabled: true, certificateAuth: { enabled: true } } } }),
  {
    ...api('scheme', 'svc://echo', {
      server: { authentication: { enabled: true, securitySchemes: { mtls: { enabled: true } } } }
    }),
    components: { securitySchemes: { mtls: { type: 'mutualTLS' } } }
  },
  api('token', 'svc://echo', {
    server: {
      authentication: { enabled: true, securitySchemes: { key: { enabled: true, enableClientCertificate: true } } }
    }
  }),
  api('plain', 'svc://echo', { server: withKey })
]
const paths = ['/own/', '/scheme/', '/token/']

/** A key of a certificate; answers the certificate's id. */
async function keyOf(gw: TestGateway, made: Made, more: Record<string, unknown> = {}): Promise<string> {
  const id = await uploaded(gw, made)
  const token = await gw.key({ ...open, ...more, certificate: id })
  if (token !== id) throw new Error(`the key is ${token}`)
  return id
}

t.test('a key that is made from a certificate opens with this certificate alone', async t => {
  const clock = handClock(Date.UTC(2030, 0, 1))
  const gw = await behindProxy(t, { apis, clock })
  const own = certificate({ to: '2031-01-01T00:00:00Z' })
  const later = certificate({ from: '2030-06-01T00:00:00Z' })
  const [kept, unseen] = [certificate(), certificate()]
  await keyOf(gw, own)
  await keyOf(gw, later)
  await uploaded(gw, kept)
  for (const path of paths) {
    t.equal(await told(gw, path), REQUIRED, `${path} no certificate`)
    t.equal(await told(gw, path, { 'Client-Cert': ':garbage:' }), REQUIRED, `${path} no readable certificate`)
    t.equal(await told(gw, path, forwarded(own)), '200', `${path} its certificate`)
    t.equal(await told(gw, path, forwarded(later)), NOT_YET, `${path} not yet valid`)
    t.equal(await told(gw, path, forwarded(kept)), UNKNOWN, `${path} no key was made from it`)
    t.equal(await told(gw, path, forwarded(unseen)), UNKNOWN, `${path} an unknown one`)
  }
  clock.jump(366 * 86_400_000)
  for (const path of paths) {
    t.equal(await told(gw, path, forwarded(own)), EXPIRED, `${path} expired`)
    t.equal(await told(gw, path, forwarded(later)), '200', `${path} valid by now`)
    t.equal(await told(gw, path, forwarded(unseen)), UNKNOWN, path)
  }
  clock.jump(2_000)
  const failures = gw.log.lines.filter(({ event }) => event === 'AuthFailure').map(({ api_id }) => api_id)
  t.strictSame([...new Set(failures)].sort(), ['own', 'scheme', 'token'], 'refusals are events')
})

t.test('the key counts as any other', async t => {
  const gw = await behindProxy(t, { apis })
  const own = certificate()
  const id = await keyOf(gw, own, { rate: 1, per: 3600 })
  t.match((await gw.svc('GET', `/svc/keys/${id}`)).body, { certificate: id, rate: 1 })
  t.match((await gw.api('GET', `/api/keys/${id}`)).body, { key_id: id, key_hash: customId('default', id) })
  t.equal(await told(gw, '/own/', forwarded(own)), '200')
  t.equal(await told(gw, '/own/', forwarded(own)), '429 Rate Limit Exceeded')
  t.equal((await gw.svc('PUT', `/svc/keys/${id}`, { ...open, certificate: id, is_inactive: true })).status, 200)
  t.equal(await told(gw, '/own/', forwarded(own)), '403 Key is inactive, please renew')
  t.equal((await gw.svc('PUT', `/svc/keys/${id}`, { ...rights('plain'), certificate: id })).status, 200)
  t.equal(await told(gw, '/own/', forwarded(own)), UNKNOWN)
  t.equal((await gw.svc('DELETE', `/svc/keys/${id}`)).status, 200)
  t.equal(await told(gw, '/own/', forwarded(own)), UNKNOWN)
})

t.test('the id of a certificate is no secret: it opens nothing by itself', async t => {
  const gw = await behindProxy(t, {
    apis,
    settings: { gateway: { security: { allow_unsafe_dynamic_mtls_token: true } } }
  })
  const own = certificate()
  const id = await keyOf(gw, own, rights('own', 'scheme', 'token', 'plain'))
  for (const path of ['/token/', '/plain/']) t.equal(await told(gw, path, { Authorization: id }), UNKNOWN, path)
  t.equal(await told(gw, '/plain/', { ...forwarded(own), Authorization: id }), UNKNOWN, 'nobody asks for it there')
  // A custom id of this name proves nothing of the certificate either.
  const other = certificate()
  const name = await uploaded(gw, other)
  t.equal((await gw.svc('POST', `/svc/keys/${name}`, open)).status, 200)
  t.equal(await told(gw, '/own/', forwarded(other)), UNKNOWN)
})

t.test('a token together with a certificate', async t => {
  const gw = await behindProxy(t, { apis })
  const [own, other] = [certificate(), certificate()]
  const old = certificate({ to: '2021-01-01T00:00:00Z' })
  const id = await keyOf(gw, own)
  const otherId = await uploaded(gw, other)
  const token = await gw.key(open)
  const bound = 'bound-by-name'
  t.equal((await gw.svc('POST', `/svc/keys/${bound}`, { ...open, certificate: otherId })).status, 200)
  const cases: [name: string, expected: string, credential: string | null, made: Made | null][] = [
    ['a token alone', REQUIRED, token, null],
    ['an unknown token alone', REQUIRED, 'nobody', null],
    ['a token and any certificate', '200', token, other],
    ['an unknown token and a certificate', UNKNOWN, 'nobody', own],
    ['an expired certificate', EXPIRED, token, old],
    ['a key and its certificate', '200', bound, other],
    ['a key and another certificate', MISMATCH, bound, own],
    ['the id of a certificate and itself', '200', id, own],
    ['the id of another certificate', MISMATCH, id, other],
    ['a key’s certificate alone', UNKNOWN, null, other]
  ]
  for (const [name, expected, credential, made] of cases) {
    const headers = {
      ...(made === null ? {} : forwarded(made)),
      ...(credential === null ? {} : { Authorization: `Bearer ${credential}` })
    }
    t.equal(await told(gw, '/token/', headers), expected, name)
    t.equal(await told(gw, '/token/', headers), expected, `${name}, remembered`)
  }
})

t.test('with allow_unsafe_dynamic_mtls_token a token needs no certificate', async t => {
  const gw = await behindProxy(t, {
    apis,
    settings: { gateway: { security: { allow_unsafe_dynamic_mtls_token: true } } }
  })
  const token = await gw.key(open)
  t.equal(await told(gw, '/token/', { Authorization: token }), '200')
  t.equal(await told(gw, '/token/', { Authorization: 'nobody' }), UNKNOWN)
  t.equal(await told(gw, '/token/'), REQUIRED)
  t.equal(await told(gw, '/own/', { Authorization: token }), REQUIRED)
})

t.test('a key is found in the organisation of the API alone', async t => {
  const gw = await behindProxy(t, {
    apis: [
      ...apis,
      api('theirs', 'svc://echo', {
        info: { orgId: 'other' },
        server: { authentication: { enabled: true, certificateAuth: { enabled: true } } }
      })
    ]
  })
  const own = certificate()
  await keyOf(gw, own)
  const theirs = await uploaded(gw, own, 'other')
  t.equal(theirs, `other${hashOf(own)}`)
  t.equal(await told(gw, '/theirs/', forwarded(own)), UNKNOWN)
  t.equal(await gw.key({ ...rights('theirs'), org_id: 'other', certificate: theirs }), theirs)
  t.equal(await told(gw, '/theirs/', forwarded(own)), '200')
  t.equal(await told(gw, '/own/', forwarded(own)), '200')
})

t.test('no chain is asked for, and no usage; but a weak key proves nothing', async t => {
  const make = openssl(t)
  const gw = await behindProxy(t, { apis })
  const server = make({ extensions: ['extendedKeyUsage=serverAuth'] })
  const weak = make({ key: rsa(1024) })
  for (const made of [server, weak]) await gw.key({ ...open, certificate: await uploaded(gw, made) })
  t.equal(await told(gw, '/own/', forwarded(server)), '200')
  t.equal(await told(gw, '/own/', forwarded(weak)), UNKNOWN)
  t.equal(await told(gw, '/token/', forwarded(weak)), UNKNOWN)
})

t.test('how keys of certificates are made and changed', async t => {
  const gw = await behindProxy(t, { apis })
  const [first, second, third] = [certificate(), certificate(), certificate()]
  const ids = [await uploaded(gw, first), await uploaded(gw, second), await uploaded(gw, third)]
  const [own, other, more] = ids as [string, string, string]
  const theirs = await uploaded(gw, first, 'other')
  const unknown = `default${'0'.repeat(64)}`
  t.match((await gw.svc('POST', '/svc/keys/create', { ...open, certificate: own })).body, {
    key: own,
    status: 'ok',
    action: 'added',
    key_hash: customId('default', own)
  })
  t.match((await gw.api('POST', '/api/keys', { ...open, certificate: other })).body, {
    key_id: other,
    key_hash: customId('default', other),
    data: { certificate: other }
  })
  const taken = { ...open, certificate: own }
  t.match(await gw.svc('POST', '/svc/keys/create', taken), { status: 409, body: { status: 'error' } })
  t.match(await gw.api('POST', '/api/keys', taken), { status: 409, body: { Status: 'Error' } })
  t.match(await gw.api('POST', `/api/keys/${own}`, taken), { status: 409 })
  const missing = 'Key must be used with an existent certificate'
  for (const id of [theirs, unknown, 'x', '\0', 'y'.repeat(2000)]) {
    const body = { ...open, certificate: id }
    t.match(await gw.svc('POST', '/svc/keys/create', body), { status: 400, body: { message: missing } })
    t.match(await gw.svc('POST', '/svc/keys/custom', body), { status: 400, body: { message: missing } })
    t.match(await gw.api('POST', '/api/keys', body), { status: 400, body: { Message: missing } })
    t.match(await gw.svc('PUT', `/svc/keys/${own}`, body), { status: 400, body: { message: /certificate/ } })
  }
  const put = async (id: string, body: object) => {
    const { status, body: answer } = await gw.svc('PUT', `/svc/keys/${id}`, { ...open, ...body })
    return status === 200 ? '200' : `${status} ${answer.message}`
  }
  t.equal(await put(own, {}), '400 Key cannot be used without a certificate')
  t.equal(await put(own, { certificate: '' }), '400 Key cannot be used without a certificate')
  t.equal(await put(own, { certificate: more }), '400 A key that was made from a certificate stays with it')
  t.equal(await put(own, { certificate: own, alias: 'changed' }), '200')
  t.equal((await gw.svc('POST', '/svc/keys/custom', open)).status, 200)
  t.equal(await put('custom', { certificate: more }), '200', 'a key may come to ask for a certificate')
  t.equal(await put('custom', { certificate: own }), '200', 'and for another one')
  t.equal(await put('custom', {}), '400 Key cannot be used without a certificate', 'but not for none')
  const both = { ...open, certificate: more, basic_auth_data: { password: 'secret' } }
  t.match(await gw.svc('POST', '/svc/keys/user', both), { status: 400, body: { message: /either a certificate or/ } })
  t.match((await gw.api('GET', `/api/certs/dependencies/${own}`)).body, { key_cert: true })
})
