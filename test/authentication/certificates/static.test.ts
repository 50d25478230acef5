import t from 'tap'
import { certificate, der, hashOf, type Made, oid, sequence } from '../../helpers/certificates.ts'
import { handClock } from '../../helpers/clock.ts'
import { api, gateway, rights, type TestGateway, withKey } from '../../helpers/gateway.ts'
import {
  alternatives,
  authorityLines,
  authorityOf,
  behindProxy,
  CLIENT,
  clientLines,
  criticalExtension,
  forwarded,
  generalName,
  keyUsage,
  nameConstraints,
  openssl,
  rsa,
  SERVER,
  told,
  uploaded,
  usages
} from './made.ts'

const NOT_TLS = '403 TLS not enabled'
const MISSING = '403 Client TLS certificate is required'
const EXPIRED = '403 Certificate has expired'
const NOT_YET = '403 Certificate is not valid yet'
const refused = (made: Made) => `403 Certificate with SHA256 ${hashOf(made)} not allowed`

/** A distinguished name of one organisation, and as a general name. */
const dn = (organisation: string) =>
  sequence(der(0x31, sequence(oid('2.5.4.10'), der(0x13, Buffer.from(organisation)))))
const directory = (organisation: string) => der(0xa4, dn(organisation))

/** An API for clients with one of these. */
async function listing(gw: TestGateway, id: string, allowlist: readonly string[], server: object = {}): Promise<void> {
  const { status, body } = await gw.svc(
    'POST',
    '/svc/apis/oas',
    api(id, 'svc://echo', { server: { ...server, clientCertificates: { enabled: true, allowlist } } })
  )
  if (status !== 200) throw new Error(JSON.stringify(body))
}

t.test('the rows of the table for static mutual TLS', async t => {
  const clock = handClock(Date.UTC(2030, 0, 1))
  const gw = await behindProxy(t, { clock })
  const own = certificate({ to: '2031-01-01T00:00:00Z' })
  const other = certificate()
  const later = certificate({ from: '2030-06-01T00:00:00Z' })
  await listing(gw, 'a1', [await uploaded(gw, own), await uploaded(gw, later)])
  await listing(gw, 'open', [])
  t.equal(await told(gw, '/a1/', {}), NOT_TLS, 'no TLS')
  t.equal(await told(gw, '/a1/', { 'X-Forwarded-For': '1.2.3.4' }), NOT_TLS, 'no TLS, nothing forwarded')
  t.equal(await told(gw, '/a1/', { 'Client-Cert': '' }), MISSING, 'no certificate')
  t.equal(await told(gw, '/a1/', { 'Client-Cert': ':bad:' }), MISSING, 'no readable certificate')
  t.equal(await told(gw, '/a1/', forwarded(other)), refused(other), 'not listed')
  t.equal(await told(gw, '/a1/', forwarded(own)), '200', 'listed')
  t.equal(await told(gw, '/a1/', forwarded(later)), NOT_YET, 'not yet valid')
  t.equal(await told(gw, '/open/', forwarded(own)), refused(own), 'an empty list is shut')
  clock.jump(366 * 86_400_000)
  t.equal(await told(gw, '/a1/', forwarded(own)), EXPIRED, 'expired')
  t.equal(await told(gw, '/a1/', forwarded(later)), '200', 'valid by now')
  t.equal(await told(gw, '/a1/', forwarded(other)), refused(other), 'dates are told of listed ones alone')
  clock.jump(2_000)
  const events = gw.log.lines.filter(({ event }) => event === 'AuthFailure')
  t.match(events, [{ api_id: 'a1', path: '/a1/' }], 'refusals are events')
})

t.test('a list is its organisation’s, and follows its certificates', async t => {
  const gw = await behindProxy(t)
  const [own, theirs, root] = [certificate(), certificate(), certificate({ extensions: [authorityOf()] })]
  const leaf = certificate({ issuer: root })
  const ids = [await uploaded(gw, theirs, 'other'), `default${hashOf(own)}`, `default${hashOf(root)}`]
  await listing(gw, 'a1', ids)
  t.equal(await told(gw, '/a1/', forwarded(theirs)), refused(theirs), 'of another organisation')
  t.equal(await told(gw, '/a1/', forwarded(own)), refused(own), 'not there yet')
  t.equal(await told(gw, '/a1/', forwarded(leaf)), refused(leaf), 'its authority is not there yet')
  await uploaded(gw, own)
  await uploaded(gw, root)
  t.equal(await told(gw, '/a1/', forwarded(own)), '200', 'there now')
  t.equal(await told(gw, '/a1/', forwarded(leaf)), '200', 'its authority is there now')
  await listing(gw, 'a2', [`default${hashOf(root)}`])
  t.equal(await told(gw, '/a2/', forwarded(leaf)), '200')
  const document = api('a2', 'svc://echo', { server: { clientCertificates: { enabled: true, allowlist: [] } } })
  t.equal((await gw.svc('PUT', '/svc/apis/oas/a2', document)).status, 200)
  t.equal(await told(gw, '/a2/', forwarded(leaf)), refused(leaf), 'the authority left the list')
})

t.test('the list goes before other credentials, and lets preflights through', async t => {
  const gw = await behindProxy(t)
  const own = certificate()
  await listing(gw, 'a1', [await uploaded(gw, own)], withKey)
  const key = await gw.key(rights('a1'))
  t.equal(await told(gw, '/a1/', { Authorization: key }), NOT_TLS)
  t.equal(await told(gw, '/a1/', forwarded(own)), '401 Authorization field missing')
  t.equal(await told(gw, '/a1/', { ...forwarded(own), Authorization: key }), '200')
})

t.test('what openssl makes: a root, its intermediate and their clients', async t => {
  const make = openssl(t)
  const gw = await behindProxy(t)
  const root = make({ subject: '/CN=root', extensions: authorityLines, key: rsa(2048) })
  const between = make({ issuer: root, subject: '/CN=between', extensions: authorityLines, key: rsa(2048) })
  await listing(gw, 'root', [await uploaded(gw, root)])
  await listing(gw, 'between', [await uploaded(gw, between)])
  const leaf = make({ issuer: between, key: rsa(2048) })
  const ec = make({ issuer: between })
  const ed = make({ issuer: between, key: ['-algorithm', 'ED25519'] })
  const server = make({ issuer: between, extensions: [...clientLines.slice(0, 2), 'extendedKeyUsage=serverAuth'] })
  const short = make({ issuer: between, key: rsa(1024) })
  const sha1 = make({ issuer: between, digest: 'sha1' })
  const pss = ['-sigopt', 'rsa_padding_mode:pss', '-sigopt', 'rsa_pss_saltlen:digest']
  const soundPss = make({ issuer: between, sign: pss })
  const sha1Pss = make({ issuer: between, digest: 'sha1', sign: pss })
  const self = make()
  const stranger = make({ issuer: make({ subject: '/CN=between', extensions: authorityLines }) })
  const admitted = async (path: string, ...chain: [{ pem: string }, ...{ pem: string }[]]) => {
    const text = await told(gw, path, forwarded(...chain))
    if (text === '200') return true
    if (/^403 Certificate with SHA256 [0-9a-f]{64} not allowed$/.test(text)) return false
    throw new Error(text)
  }
  t.equal(await admitted('/root/', leaf, between), true, 'root, intermediate, leaf')
  t.equal(await admitted('/root/', leaf, between, root), true, 'the root may come along')
  t.equal(await admitted('/root/', leaf, root, between), true, 'in any order')
  t.equal(await admitted('/root/', leaf), false, 'the intermediate is missing')
  t.equal(await admitted('/root/', leaf, root), false, 'the intermediate is missing, another comes')
  t.equal(await admitted('/root/', leaf, between), true, 'a refusal does not stick to the leaf')
  t.equal(await admitted('/between/', leaf), true, 'an intermediate that is listed itself needs no root')
  t.equal(await admitted('/root/', between), false, 'an authority is no client')
  t.equal(await admitted('/root/', root), true, 'but one that is listed is')
  t.equal(await admitted('/root/', ec, between), true, 'ECDSA')
  t.equal(await admitted('/root/', ed, between), true, 'Ed25519')
  t.equal(await admitted('/root/', server, between), false, 'for servers alone')
  t.equal(await admitted('/root/', short, between), false, 'RSA of 1024 bits')
  t.equal(await admitted('/root/', sha1, between), false, 'signed with SHA-1')
  t.equal(await admitted('/root/', soundPss, between), true, 'RSASSA-PSS')
  t.equal(await admitted('/root/', sha1Pss, between), false, 'RSASSA-PSS with SHA-1')
  t.equal(await admitted('/root/', self), false, 'signed by itself')
  t.equal(await admitted('/root/', stranger, between), false, 'of another authority of the same name')
  await listing(gw, 'self', [await uploaded(gw, self), await uploaded(gw, server), await uploaded(gw, short)])
  t.equal(await admitted('/self/', self), true, 'a listed one needs no authority')
  t.equal(await admitted('/self/', server), true, 'whatever it was made for')
  t.equal(await admitted('/self/', short), false, 'but a weak key proves nothing')
})

t.test('which paths count', async t => {
  const clock = handClock(Date.UTC(2030, 0, 1))
  const gw = await behindProxy(t, { clock })
  const ca = authorityOf()
  const mail = '1.2.840.113549.1.9.1'
  const host = (name: string) => generalName(2, name)
  const root = certificate({ extensions: [ca] })
  const flat = certificate({ extensions: [authorityOf(0)] })
  const no = certificate({ extensions: [criticalExtension('2.5.29.19', Buffer.of(0x30, 0))] })
  const plain = certificate()
  const soon = certificate({ extensions: [ca], to: '2031-01-01T00:00:00Z' })
  const noSigner = certificate({ extensions: [ca, keyUsage(0x80)] })
  const forServers = certificate({ extensions: [ca, usages(SERVER)] })
  const under = (issuer: Made, ...extensions: Buffer[]) => certificate({ issuer, extensions })
  const constrained = under(root, ca, nameConstraints([host('example.com'), directory('ok')], [host('no.example.com')]))
  const constrain = (...given: Parameters<typeof nameConstraints>) => under(root, ca, nameConstraints(...given))
  const named = (issuer: Made, ...names: Buffer[]) =>
    certificate({ issuer, subject: [['2.5.4.10', 'ok']], extensions: [alternatives(...names)] })
  const list: string[] = []
  for (const each of [root, flat, no, plain, soon, noSigner, forServers]) list.push(await uploaded(gw, each))
  await listing(gw, 'a1', list)

  type Row = [name: string, isAdmitted: boolean, leaf: Made, ...chain: Made[]]
  const rows: Row[] = []
  const add = (...row: Row) => rows.push(row)
  const chained = (name: string, isAdmitted: boolean, between: Made, ...extensions: Buffer[]) =>
    add(name, isAdmitted, under(between, ...extensions), between)

  add('a leaf of a root', true, under(root))
  add('a leaf with client authentication', true, under(root, usages(SERVER, CLIENT)))
  add('a leaf with any usage', true, under(root, usages('2.5.29.37.0')))
  add('a leaf for code signing', false, under(root, usages('1.3.6.1.5.5.7.3.3')))
  add('a leaf that may only encipher keys', false, under(root, keyUsage(0x20)))
  add('a leaf that may agree on keys', true, under(root, keyUsage(0x08)))
  add(
    'a leaf with a critical extension that nobody knows',
    false,
    under(root, criticalExtension('1.2.3.4', Buffer.of(5, 0)))
  )
  add('a leaf with critical policies', true, under(root, criticalExtension('2.5.29.32', Buffer.of(0x30, 0))))
  add('a leaf with the same extension twice', false, under(root, usages(CLIENT), usages(CLIENT)))
  add('a leaf whose extension is garbage', false, under(root, criticalExtension('2.5.29.37', Buffer.of(1, 2, 3))))
  add('a leaf of an authority without its flag', false, under(no))
  add('a leaf of a leaf', false, under(plain))
  add('a leaf of an authority that may not sign certificates', false, under(noSigner))
  add('a leaf of an authority for servers', false, under(forServers))
  add('a leaf of an authority that ends', true, under(soon))
  add('a path of length 0', true, under(flat))
  chained('a path that is too long', false, under(flat, ca))
  chained('an intermediate', true, under(root, ca))
  chained('an intermediate without its flag', false, under(root))
  chained('an intermediate that is no authority', false, under(root, keyUsage(0x04)))
  chained('an intermediate that may not sign certificates', false, under(root, ca, keyUsage(0x82)))
  chained('an intermediate for servers', false, under(root, ca, usages(SERVER)))
  chained(
    'an intermediate that has ended',
    false,
    certificate({ issuer: root, extensions: [ca], to: '2029-01-01T00:00:00Z' })
  )
  chained(
    'an intermediate that has not begun',
    false,
    certificate({ issuer: root, extensions: [ca], from: '2031-01-01T00:00:00Z' })
  )
  chained(
    'an intermediate with a critical extension that nobody knows',
    false,
    under(root, ca, criticalExtension('1.2.3', Buffer.of(5, 0)))
  )
  chained(
    'an intermediate that asks for policies',
    false,
    under(root, ca, criticalExtension('2.5.29.36', Buffer.of(0x30, 0)))
  )
  const [one, two] = [under(root, authorityOf(1)), under(root, authorityOf(0))]
  const below = under(one, ca)
  add('a path within its length', true, under(below), below, one)
  const tooLow = under(two, ca)
  add('a path beyond the length of an intermediate', false, under(tooLow), tooLow, two)

  const names: [string, boolean, Made, ...Buffer[]][] = [
    ['a host that is permitted', true, constrained, host('example.com')],
    ['a host below', true, constrained, host('a.EXAMPLE.com')],
    ['a host that is excluded', false, constrained, host('no.example.com')],
    ['a host below an excluded one', false, constrained, host('a.no.example.com')],
    ['a wildcard over an excluded one', false, constrained, host('*.example.com')],
    ['another host', false, constrained, host('example.org')],
    ['a host that only ends alike', false, constrained, host('badexample.com')],
    ['one good host and one bad', false, constrained, host('example.com'), host('example.org')],
    ['a name of a kind without constraints', true, constrained, generalName(6, 'spiffe://x/y')],
    ['a mailbox', true, constrain([generalName(1, 'a@b.example')]), generalName(1, 'a@B.example')],
    ['another mailbox', false, constrain([generalName(1, 'a@b.example')]), generalName(1, 'c@b.example')],
    ['a mail host', true, constrain([generalName(1, 'b.example')]), generalName(1, 'c@b.example')],
    ['a mail domain', true, constrain([generalName(1, '.b.example')]), generalName(1, 'c@d.b.example')],
    ['another mail domain', false, constrain([generalName(1, '.b.example')]), generalName(1, 'c@b.example')],
    ['an address', true, constrain([generalName(7, [10, 0, 0, 0, 255, 0, 0, 0])]), generalName(7, [10, 1, 2, 3])],
    ['another address', false, constrain([generalName(7, [10, 0, 0, 0, 255, 0, 0, 0])]), generalName(7, [11, 1, 2, 3])],
    [
      'an excluded address',
      false,
      constrain([], [generalName(7, [10, 0, 0, 0, 255, 0, 0, 0])]),
      generalName(7, [10, 1, 2, 3])
    ],
    ['a URI', true, constrain([generalName(6, '.example')]), generalName(6, 'spiffe://a.example/x')],
    ['another URI', false, constrain([generalName(6, '.example')]), generalName(6, 'spiffe://a.test/x')],
    ['a URI without a host', false, constrain([generalName(6, '.example')]), generalName(6, 'urn:x:y')],
    ['a kind of name that nobody can compare', false, constrain([], [generalName(8, [42])]), generalName(8, [43])],
    ['an excluded directory in another spelling', false, constrain([], [directory('OK')]), host('a')],
    ['a directory that is not permitted', false, constrain([directory('else')]), host('a')],
    ['a permitted directory', true, constrain([directory(' OK  ')]), host('a')]
  ]
  for (const [name, isAdmitted, issuer, ...given] of names) add(name, isAdmitted, named(issuer, ...given), issuer)
  const mails = constrain([generalName(1, 'b.example')])
  const mailed = (value: string) => certificate({ issuer: mails, subject: [[mail, value, 0x16]] })
  add('a mailbox in the subject', true, mailed('a@b.example'), mails)
  add('another mailbox in the subject', false, mailed('a@c.example'), mails)

  for (const [name, isAdmitted, leaf, ...chain] of rows)
    t.equal(await told(gw, '/a1/', forwarded(leaf, ...chain)), isAdmitted ? '200' : refused(leaf), name)

  const ending = under(soon)
  t.equal(await told(gw, '/a1/', forwarded(ending)), '200')
  clock.jump(366 * 86_400_000)
  t.equal(await told(gw, '/a1/', forwarded(ending)), refused(ending), 'an admission does not outlive its authority')
})

t.test('authorities that signed each other lead nowhere, and end', async t => {
  const gw = await behindProxy(t)
  const root = certificate({ extensions: [authorityOf()] })
  await listing(gw, 'a1', [await uploaded(gw, root)])
  const first = certificate({ extensions: [authorityOf()] })
  const keys = { privateKey: first.key, publicKey: first.certificate.publicKey }
  const second = certificate({ issuer: first, extensions: [authorityOf()] })
  const again = Array.from({ length: 8 }, () =>
    certificate({ subject: first.subject, keys, issuer: second, extensions: [authorityOf()] })
  )
  const leaf = certificate({ issuer: first })
  const start = performance.now()
  t.equal(await told(gw, '/a1/', forwarded(leaf, second, ...again)), refused(leaf))
  t.ok(performance.now() - start < 500)
})

t.test('without a trusted proxy nothing that is forwarded counts', async t => {
  const gw = await gateway(t)
  const own = certificate()
  await listing(gw, 'a1', [await uploaded(gw, own)])
  t.equal(await told(gw, '/a1/', forwarded(own)), NOT_TLS)
})
