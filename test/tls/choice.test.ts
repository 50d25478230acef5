import { generateKeyPairSync } from 'node:crypto'
import t from 'tap'
import { certificateOf } from '../../gateway/certificates/openCertificates.ts'
import { choiceOf } from '../../gateway/tls/choice.ts'
import { CN, certificate, hosts, type Made } from '../helpers/certificates.ts'
import { api } from '../helpers/gateway.ts'
import { files, issued, pemOf, root, secure, shake, shownTo } from './secure.ts'

t.setTimeout(60_000)

const issuedRsa = (modulusLength: number, name: string): Made =>
  certificate({
    issuer: root,
    subject: [[CN, `RSA ${name}`]],
    extensions: [hosts(name)],
    keys: generateKeyPairSync('rsa', { modulusLength })
  })
const rsa = issuedRsa(2048, 'both.example')
const ecdsa = issued('both.example')
const RSA = { sigalgs: 'rsa_pss_rsae_sha256' }
const ECDSA = { sigalgs: 'ecdsa_secp256r1_sha256' }

t.test('of two certificates for one name the first is shown, and without a name both kinds are offered', async t => {
  const paths = files(t, { rsa: pemOf(rsa), ecdsa: pemOf(ecdsa) })
  for (const [ids, first] of [
    [[paths.rsa!, paths.ecdsa!], 'RSA both.example'],
    [[paths.ecdsa!, paths.rsa!], 'both.example']
  ] as const) {
    const gw = await secure(t, ids)
    t.equal(await shownTo(t, gw.port, 'both.example'), first, 'by its name')
    for (const servername of [undefined, 'unknown.example'])
      for (const [kind, expected] of [
        [RSA, 'RSA both.example'],
        [ECDSA, 'both.example']
      ] as const) {
        const named = servername === undefined ? {} : { servername }
        const socket = await shake(t, gw.port, { ...kind, ...named })
        t.equal(socket.getPeerCertificate().subject.CN, expected, `${servername ?? 'no name'}, ${kind.sigalgs}`)
        socket.destroy()
      }
  }
})

t.test("the order of an API's list counts as well", async t => {
  const paths = files(t, { first: pemOf(issued('first.example')) })
  const gw = await secure(t, [paths.first!])
  const ids: string[] = []
  for (const made of [rsa, ecdsa]) ids.push((await gw.svc('POST', '/svc/certs', pemOf(made))).body.id)
  const domain = (certificates: readonly string[]) =>
    api('own', 'svc://echo', { server: { customDomain: { enabled: true, name: 'both.example', certificates } } })
  t.equal((await gw.svc('POST', '/svc/apis/oas', domain(ids))).status, 200)
  t.equal(await shownTo(t, gw.port, 'both.example'), 'RSA both.example')
  t.equal((await gw.svc('PUT', '/svc/apis/oas/own', domain(ids.reverse()))).status, 200)
  t.equal(await shownTo(t, gw.port, 'both.example'), 'both.example')
})

t.test('certificates of an API take over no names', async t => {
  const paths = files(t, {
    first: pemOf(issued('first.example', 'settled.example')),
    wild: pemOf(issued('*.wild.example'))
  })
  const gw = await secure(t, [paths.first!, paths.wild!])
  const keep = async (org: string, made: Made): Promise<string> => {
    const { status, body } = await gw.svc('POST', `/svc/certs?org_id=${org}`, pemOf(made))
    t.equal(status, 200)
    return body.id
  }
  const make = async (id: string, org: string, domain: string, ...certificates: string[]) => {
    const document: any = api(id, 'svc://echo', {
      server: { customDomain: { enabled: true, name: domain, certificates } }
    })
    document['x-svc-api-gateway'].info.orgId = org
    t.equal((await gw.svc('POST', '/svc/apis/oas', document)).status, 200)
  }
  const attacker = certificate({
    issuer: root,
    subject: [[CN, 'attacker']],
    extensions: [
      hosts(
        'evil.example',
        'first.example',
        'settled.example',
        'free.example',
        'a.wild.example',
        '*.wild.example',
        '*.shop.example'
      )
    ]
  })
  const bait = await keep('b', attacker)
  await make('plain', 'a', 'bare.wild.example')
  await make('shop', 'a', 'www.shop.example', await keep('a', issued('www.shop.example')))
  await make('evil', 'b', 'evil.example', bait)
  await new Promise(resolve => setTimeout(resolve, 5))
  // Ids that sort before those of the owners.
  await make('a0', 'b', 'www.shop.example', bait)
  await make('a1', 'b', 'settled.example', bait)
  await make('a2', 'b', 'bare.wild.example', bait)
  for (const [asked, shown] of [
    ['evil.example', 'attacker'],
    ['first.example', 'first.example'],
    ['settled.example', 'first.example'],
    ['free.example', 'first.example'],
    ['a.wild.example', '*.wild.example'],
    ['www.shop.example', 'www.shop.example'],
    ['other.shop.example', 'first.example']
  ] as const)
    t.equal(await shownTo(t, gw.port, asked), shown, asked)
  t.equal(await shownTo(t, gw.port, 'www.shop.example'), 'www.shop.example', 'the domain of an earlier API')
  t.equal(await shownTo(t, gw.port, 'settled.example'), 'first.example', 'a name of the settings')
  t.equal(await shownTo(t, gw.port, 'bare.wild.example'), '*.wild.example', 'of an earlier API without certificates')
  await make('a3', 'a', 'mine.wild.example', await keep('a', issued('mine.wild.example')))
  t.equal(await shownTo(t, gw.port, 'mine.wild.example'), 'mine.wild.example', 'an own domain goes before a wildcard')
  t.equal((await gw.svc('DELETE', '/svc/apis/oas/shop')).status, 200)
  t.equal(await shownTo(t, gw.port, 'www.shop.example'), 'attacker', 'once it is free, the next one has it')
})

t.test('who has a domain keeps it, whatever others write', async t => {
  const held = new Map(
    ['a', 'b'].map(org => {
      const { pem, keyPem } = issued(`${org}.example`)
      return [org, certificateOf(org, org, pem, keyPem)] as const
    })
  )
  const certificates = { held: (id: string) => held.get(id) ?? null }
  const of = (orgId: string, active = true) => ({ orgId, active, domain: 'x.example', certificates: [orgId] })
  const first = choiceOf({ ids: [], apis: [of('a')], certificates })
  t.equal(first.of('x.example')?.id, 'a')
  const later = choiceOf({ ids: [], apis: [of('b'), of('a')], certificates, owners: first.owners })
  t.equal(later.of('x.example')?.id, 'a', 'an older API took the domain later')
  const off = choiceOf({ ids: [], apis: [of('b'), of('a', false)], certificates, owners: later.owners })
  t.equal(off.of('x.example')?.id, 'b', 'no API of theirs has it')
})

t.test('a certificate that OpenSSL does not use is left out', async t => {
  const paths = files(t, { weak: pemOf(issuedRsa(1024, 'weak.example')), good: pemOf(issued('good.example')) })
  await t.rejects(secure(t, [paths.weak!]), /weak\.pem is of no use.*ee key too small.*ssl_certificates/)
  const gw = await secure(t, [paths.weak!, paths.good!])
  t.equal(await shownTo(t, gw.port), 'good.example')
  t.equal(await shownTo(t, gw.port, 'weak.example'), 'good.example')
  t.match(
    gw.log.lines.filter(({ level }) => level === 'warn'),
    [{ certificate: paths.weak, msg: /ee key too small/ }]
  )
})

t.test('a file that cannot be read is told once, with its cause', async t => {
  const made = issued('a.example')
  const options = { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'secret' } as const
  const older = { ...options, type: 'sec1' } as const
  const paths = files(t, {
    good: pemOf(made),
    encrypted: made.pem + made.key.export(options),
    older: made.pem + made.key.export(older)
  })
  await t.rejects(secure(t, [paths.encrypted!]), /encrypted\.pem cannot be read.*is encrypted/)
  await t.rejects(secure(t, [paths.older!]), /older\.pem cannot be read.*is encrypted/)
  const upstream = { 'x.example': paths.encrypted!, 'y.example': '/nowhere/at/all.pem' }
  const gw = await secure(t, [paths.good!], { settings: { security: { certificates: { upstream } } } })
  t.same(await gw.reload(), [], 'what could never be read keeps nothing from being read')
  const told = gw.log.lines.filter(({ msg }) => msg === 'a certificate cannot be used')
  t.match(
    told.sort((a, b) => (String(a.certificate) < String(b.certificate) ? -1 : 1)),
    [
      { certificate: '/nowhere/at/all.pem', cause: /ENOENT/ },
      { certificate: paths.encrypted, cause: /is encrypted/ }
    ]
  )
  t.equal(told.length, 2)
})
