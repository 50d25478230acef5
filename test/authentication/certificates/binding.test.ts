import { createHash } from 'node:crypto'
import { EventEmitter } from 'node:events'
import t from 'tap'
import { presentedOf } from '../../../gateway/certificates/presented.ts'
import { certificateBinding } from '../../../gateway/steps/certificateBinding.ts'
import { certificate, hashOf, type Made } from '../../helpers/certificates.ts'
import { handClock } from '../../helpers/clock.ts'
import { api, rights, withKey } from '../../helpers/gateway.ts'
import { behindProxy, forwarded, openssl, rsa, told, uploaded } from './made.ts'

const REQUIRED = '401 Client certificate required'
const EXPIRED = '403 Certificate has expired'
const NOT_YET = '403 Certificate is not valid yet'
const MISMATCH = '401 Access to this API has been disallowed'

const apis = [api('a1', 'svc://echo', { server: withKey })]
const open = rights('a1')
const on = { gateway: { enable_token_certificate_binding: true } }

t.test('a key with bindings opens with one of its certificates alone', async t => {
  const clock = handClock(Date.UTC(2030, 0, 1))
  const gw = await behindProxy(t, { apis, clock, settings: on })
  const first = certificate({ to: '2031-01-01T00:00:00Z' })
  const second = certificate({ from: '2030-06-01T00:00:00Z' })
  const other = certificate()
  const old = certificate({ to: '2029-01-01T00:00:00Z' })
  const bindings = [await uploaded(gw, first), await uploaded(gw, second)]
  await uploaded(gw, other)
  const bound = await gw.key({ ...open, mtls_static_certificate_bindings: bindings })
  const free = await gw.key(open)
  const ask = (key: string, made: Made | null) =>
    told(gw, '/a1/', { Authorization: key, ...(made === null ? {} : forwarded(made)) })
  t.equal(await ask(bound, null), REQUIRED, 'no certificate')
  t.equal(await told(gw, '/a1/', { Authorization: bound, 'Client-Cert': 'garbage' }), REQUIRED, 'none to read')
  t.equal(await ask(bound, first), '200', 'one of its certificates')
  t.equal(await ask(bound, second), NOT_YET, 'one that is not valid yet')
  t.equal(await ask(bound, other), MISMATCH, 'a certificate that is not bound')
  t.equal(await ask(bound, old), EXPIRED, 'one that has ended')
  t.equal(await ask(free, null), '200', 'a key without bindings, no certificate')
  t.equal(await ask(free, other), '200', 'a key without bindings, any certificate')
  t.equal(await ask('nobody', first), '403 Access to this API has been disallowed', 'a certificate is no key')
  t.equal(await told(gw, '/a1/', forwarded(first)), '401 Authorization field missing', 'nor stands for one')
  clock.jump(366 * 86_400_000)
  t.equal(await ask(bound, first), EXPIRED, 'one of its certificates has ended')
  t.equal(await ask(bound, second), '200', 'another of its certificates')
  const { headers } = await gw.get('/a1/', { Authorization: bound, ...forwarded(other) })
  t.match(headers.get('www-authenticate'), /^Bearer/)
  clock.jump(2_000)
  t.match(
    gw.log.lines.find(({ event }) => event === 'AuthFailure'),
    { api_id: 'a1', path: '/a1/' },
    'refusals are events'
  )
  const put = await gw.svc('PUT', `/svc/keys/${bound}`, { ...open, mtls_static_certificate_bindings: [] })
  t.equal(put.status, 200)
  t.equal(await ask(bound, null), '200', 'a key whose bindings are taken away')
})

t.test('without the option bindings are kept, and nobody asks for them', async t => {
  const gw = await behindProxy(t, { apis })
  const own = certificate()
  const bindings = [await uploaded(gw, own)]
  const bound = await gw.key({ ...open, mtls_static_certificate_bindings: bindings })
  t.equal(await told(gw, '/a1/', { Authorization: bound }), '200')
  t.strictSame((await gw.svc('GET', `/svc/keys/${bound}`)).body.mtls_static_certificate_bindings, bindings)
})

t.test('bindings go on top of static mutual TLS, for every method, but for operations that need nobody', async t => {
  const gw = await behindProxy(t, { settings: on })
  const [own, other] = [certificate(), certificate()]
  const ids = [await uploaded(gw, own), await uploaded(gw, other)]
  const server = { ...withKey, clientCertificates: { enabled: true, allowlist: ids } }
  const path = { '/open': { get: { operationId: 'open', responses: { 200: { description: 'ok' } } } } }
  const middleware = { operations: { open: { ignoreAuthentication: { enabled: true } } } }
  for (const document of [
    api('a1', 'svc://echo', { server }),
    api('a2', 'svc://echo', { server: withKey, middleware }, path)
  ])
    t.equal((await gw.svc('POST', '/svc/apis/oas', document)).status, 200)
  const bound = await gw.key({ ...rights('a1', 'a2'), mtls_static_certificate_bindings: [ids[0]] })
  t.equal(await told(gw, '/a1/', { Authorization: bound }), '403 TLS not enabled')
  t.equal(await told(gw, '/a1/', { Authorization: bound, ...forwarded(other) }), MISMATCH)
  t.equal(await told(gw, '/a1/', { Authorization: bound, ...forwarded(own) }), '200')
  t.equal(await told(gw, '/a2/open', { Authorization: bound }), '200')
})

t.test('a certificate with a weak key proves nothing', async t => {
  const gw = await behindProxy(t, { apis, settings: on })
  const weak = openssl(t)({ key: rsa(1024) })
  const bound = await gw.key({ ...open, mtls_static_certificate_bindings: [await uploaded(gw, weak)] })
  t.equal(await told(gw, '/a1/', { Authorization: bound, ...forwarded(weak) }), MISMATCH)
})

t.test('a token with cnf opens with its certificate alone (RFC 8705)', async t => {
  const [own, other] = [certificate(), certificate()]
  const thumbprint = createHash('sha256').update(own.certificate.raw).digest('base64url')
  const emitter = new EventEmitter()
  const tools = {
    settings: { enable_token_certificate_binding: true },
    events: { emit: (name: string) => emitter.emit(name) },
    watch: { used() {} }
  }
  let events = 0
  emitter.on('AuthFailure', () => events++)
  const { run } = certificateBinding.make({ id: 'a1', orgId: 'default', authentication: {} } as never, tools as never)!
  const ask = (claims: object | null, made: Made | null, bindings: readonly string[] = []) => {
    const presented = made === null ? null : presentedOf(made.certificate, [])
    const x = {
      ...{
        at: Date.UTC(2030, 0, 1),
        claims,
        validUntil: Number.POSITIVE_INFINITY,
        failures: 'at once',
        path: '/',
        client: ''
      },
      ...{ peer: { trusted: false, presented }, req: { rawHeaders: [] }, route: { api: { id: 'a1' } } },
      key: { key: { mtls_static_certificate_bindings: bindings } }
    }
    const refused = run!(x as never) as { status: number; message: string } | undefined
    return refused === undefined ? '200' : `${refused.status} ${refused.message}`
  }
  const cnf = (value: unknown) => ({ sub: 'a', cnf: { 'x5t#S256': value } })
  const cases: [name: string, claims: object | null, made: Made | null, expected: string, bindings?: string[]][] = [
    ['its certificate', cnf(thumbprint), own, '200'],
    ['another', cnf(thumbprint), other, MISMATCH],
    ['none', cnf(thumbprint), null, REQUIRED],
    ['a thumbprint in base64', cnf(`${thumbprint}=`), own, MISMATCH],
    ['a thumbprint in hexadecimal', cnf(hashOf(own)), own, MISMATCH],
    ['an empty thumbprint', cnf(''), own, MISMATCH],
    ['a thumbprint that is no text', cnf([thumbprint]), own, MISMATCH],
    ['a thumbprint that is null', cnf(null), own, MISMATCH],
    ['no thumbprint', { cnf: {} }, null, '200'],
    ['a confirmation of another kind', { cnf: { jkt: thumbprint } }, null, '200'],
    ['a confirmation that is no object', { cnf: 'x' }, null, '200'],
    ['no confirmation', { sub: 'a' }, null, '200'],
    ['no claims', null, null, '200'],
    ['a binding of the key beside it', cnf(thumbprint), own, '200', [`default${hashOf(own)}`]],
    ['a binding by the fingerprint alone', null, own, '200', [hashOf(own)]],
    ['another binding of the key beside it', cnf(thumbprint), own, MISMATCH, [`default${hashOf(other)}`]]
  ]
  for (const [name, claims, made, expected, bindings] of cases) t.equal(ask(claims, made, bindings), expected, name)
  t.equal(events, cases.filter(([, , , expected]) => expected !== '200').length, 'each refusal is an event')
  const without = { ...tools, settings: { enable_token_certificate_binding: false } }
  t.equal(certificateBinding.make({ authentication: {} } as never, without as never), null)
  t.equal(certificateBinding.make({ authentication: null } as never, tools as never), null)
})
