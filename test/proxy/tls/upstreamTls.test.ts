import { writeFileSync } from 'node:fs'
import { getCACertificates, setDefaultCACertificates, type TlsOptions } from 'node:tls'
import t from 'tap'
import { eventually, values, wire } from '../../framing/wire.ts'
import { api, gateway, type TestGateway } from '../../helpers/gateway.ts'
import { CA, CLIENT, chains, idOf, LOCALHOST, type Pair, pin, SERVER } from './chains.ts'
import { type Seen, secureServer } from './servers.ts'

const make = chains(t)
const root = make({ name: 'root', extensions: CA })
const stranger = make({ name: 'stranger', extensions: CA })
const between = make({ name: 'between', issuer: root, extensions: CA })
const server = (name: string, more: string[], issuer: Pair = root) =>
  make({ name, issuer, extensions: [...SERVER, ...more] })
const good = server('localhost', [LOCALHOST])
const selfSigned = make({ name: 'localhost', extensions: [...SERVER, LOCALHOST] })
const expired = make({ name: 'localhost', issuer: root, extensions: [...SERVER, LOCALHOST], days: -1 })
const otherName = server('other.test', ['subjectAltName=DNS:other.test'])
const onlyCommon = server('localhost', ['subjectAltName=DNS:other.test'])
const onlyAlternative = server('other.test', [LOCALHOST])
const noNames = server('localhost', [])
const wrongUsage = make({ name: 'localhost', issuer: root, extensions: [...CLIENT, LOCALHOST] })
const below = server('localhost', [LOCALHOST], between)
const weak = make({
  name: 'localhost',
  issuer: root,
  extensions: [...SERVER, LOCALHOST],
  key: ['-algorithm', 'RSA', '-pkeyopt', 'rsa_keygen_bits:1024']
})
const alice = make({ name: 'alice', issuer: root, extensions: CLIENT })
const bob = make({ name: 'bob', issuer: root, extensions: CLIENT })
const mallory = make({ name: 'mallory', issuer: stranger, extensions: CLIENT })

const before = getCACertificates()
setDefaultCACertificates([...before, root.cert])
t.teardown(() => setDefaultCACertificates(before))

/** Upstreams by what they show and ask for. */
const kinds: Record<string, TlsOptions> = {
  good,
  selfSigned,
  expired,
  otherName,
  onlyCommon,
  onlyAlternative,
  noNames,
  wrongUsage,
  weak: { ...weak, ciphers: 'DEFAULT@SECLEVEL=0' },
  alone: below,
  whole: { cert: below.cert + between.cert, key: below.key },
  tls11: { ...good, minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' },
  tls12: { ...good, maxVersion: 'TLSv1.2' },
  tls13: { ...good, minVersion: 'TLSv1.3' },
  aes256: { ...good, maxVersion: 'TLSv1.2', ciphers: 'ECDHE-ECDSA-AES256-GCM-SHA384' },
  asks: { ...good, ca: root.cert, requestCert: true, rejectUnauthorized: true },
  asks12: { ...good, ca: root.cert, requestCert: true, rejectUnauthorized: true, maxVersion: 'TLSv1.2' }
}

const shows = (certificate: string, domain = '*') => ({
  mutualTLS: { enabled: true, domainToCertificateMapping: [{ domain, certificate }] }
})
const pins = (publicKeys: string[], domain = '*') => ({
  certificatePinning: { enabled: true, domainToPublicKeysMapping: [{ domain, publicKeys }] }
})
const transport = (tlsTransport: object) => ({ tlsTransport })
const insecure = transport({ insecureSkipVerify: true })
const aliceId = idOf('default', alice.cert)

/** Upstream, what the API says, and what comes of it: what the upstream sees, or what the log says about a 502. */
const rows: [name: string, kind: string, upstream: object, outcome: Partial<Seen> | RegExp][] = [
  ['a trusted certificate', 'good', {}, { servername: 'localhost' }],
  ['a certificate of another name', 'otherName', {}, /altnames/],
  ['a self-signed certificate', 'selfSigned', {}, /self-signed/],
  ['an expired certificate', 'expired', {}, /expired/],
  ['an intermediate that is missing', 'alone', {}, /unable to (?:verify|get)/],
  ['an intermediate that is sent', 'whole', {}, {}],
  ['a certificate for clients', 'wrongUsage', {}, /purpose/],
  ['RSA of 1024 bits', 'weak', {}, /too small|too weak/],
  ['insecureSkipVerify: self-signed', 'selfSigned', insecure, {}],
  ['insecureSkipVerify: expired', 'expired', insecure, {}],
  ['insecureSkipVerify: another name', 'otherName', insecure, {}],
  ['the name in the common name alone', 'onlyCommon', {}, /altnames/],
  ['the common name, and no alternative names', 'noNames', {}, {}],
  [
    'forceCommonNameCheck loosens nothing: the common name alone',
    'onlyCommon',
    transport({ forceCommonNameCheck: true }),
    /altnames/
  ],
  [
    'forceCommonNameCheck: an alternative name alone',
    'onlyAlternative',
    transport({ forceCommonNameCheck: true }),
    /the common name of the certificate of localhost is another: other.test/
  ],
  ['forceCommonNameCheck: no alternative names', 'noNames', transport({ forceCommonNameCheck: true }), {}],
  ['forceCommonNameCheck: both', 'good', transport({ forceCommonNameCheck: true }), {}],
  ['forceCommonNameCheck: neither', 'otherName', transport({ forceCommonNameCheck: true }), /altnames/],
  [
    'forceCommonNameCheck: trust is another matter',
    'selfSigned',
    transport({ forceCommonNameCheck: true }),
    /self-signed/
  ],
  [
    'forceCommonNameCheck with insecureSkipVerify: neither',
    'otherName',
    transport({ insecureSkipVerify: true, forceCommonNameCheck: true }),
    /the common name of the certificate of localhost is another/
  ],
  [
    'forceCommonNameCheck with insecureSkipVerify: an alternative name alone',
    'onlyAlternative',
    transport({ insecureSkipVerify: true, forceCommonNameCheck: true }),
    /the common name of the certificate of localhost is another/
  ],
  [
    'forceCommonNameCheck with insecureSkipVerify: the common name alone',
    'onlyCommon',
    transport({ insecureSkipVerify: true, forceCommonNameCheck: true }),
    {}
  ],
  [
    'forceCommonNameCheck with insecureSkipVerify: the name fits',
    'selfSigned',
    transport({ insecureSkipVerify: true, forceCommonNameCheck: true }),
    {}
  ],
  ['the pinned key', 'good', pins([pin(good.cert)]), {}],
  ['another pinned key', 'good', pins([pin(bob.cert)]), /the public key of localhost is not pinned: sha256\//],
  ['a backup pin', 'good', pins([pin(bob.cert), pin(good.cert)]), {}],
  ['a pin by the id of a certificate', 'good', pins([idOf('default', good.cert)]), {}],
  ['a pin by the id of a key', 'good', pins(['KEY']), {}],
  [
    'a pin by an id that is not there',
    'good',
    pins(['nobody']),
    /not pinned: .*pinned keys that are not there: nobody/
  ],
  ['a pin for another domain', 'good', pins([pin(bob.cert)], 'other.test'), {}],
  [
    'the pin of the closest domain counts',
    'good',
    {
      certificatePinning: {
        enabled: true,
        domainToPublicKeysMapping: [
          { domain: '*', publicKeys: [pin(bob.cert)] },
          { domain: 'LOCALHOST', publicKeys: [pin(good.cert)] }
        ]
      }
    },
    {}
  ],
  [
    'pinning that is off',
    'good',
    { certificatePinning: { ...pins([pin(bob.cert)]).certificatePinning, enabled: false } },
    {}
  ],
  ['insecureSkipVerify: the pinned key', 'selfSigned', { ...insecure, ...pins([pin(selfSigned.cert)]) }, {}],
  ['insecureSkipVerify: another pinned key', 'selfSigned', { ...insecure, ...pins([pin(good.cert)]) }, /not pinned/],
  [
    'HTTP/2 asked for: another pinned key',
    'good',
    { http2: { enabled: true }, ...pins([pin(bob.cert)]) },
    /not pinned/
  ],
  ['minVersion above what the upstream has', 'tls12', transport({ minVersion: '1.3' }), /version|protocol/],
  ['maxVersion below what the upstream has', 'tls13', transport({ maxVersion: '1.2' }), /version|protocol/],
  ['versions that meet', 'good', transport({ minVersion: '1.2', maxVersion: '1.2' }), { version: 'TLSv1.2' }],
  ['TLS 1.3 alone', 'tls13', transport({ minVersion: '1.3' }), { version: 'TLSv1.3' }],
  ['TLS 1.1 where nobody asked for it', 'tls11', {}, /version|protocol/],
  ['TLS 1.1 where minVersion asks for it', 'tls11', transport({ minVersion: '1.0' }), { version: 'TLSv1.1' }],
  ['TLS 1.1 where maxVersion asks for it', 'tls11', transport({ maxVersion: '1.1' }), { version: 'TLSv1.1' }],
  [
    'a cipher by its name at IANA',
    'aes256',
    transport({ ciphers: ['TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384'] }),
    { cipher: 'ECDHE-ECDSA-AES256-GCM-SHA384' }
  ],
  [
    'a cipher by its name at OpenSSL',
    'good',
    transport({ ciphers: ['ECDHE-ECDSA-AES128-GCM-SHA256'], maxVersion: '1.2' }),
    { cipher: 'ECDHE-ECDSA-AES128-GCM-SHA256', version: 'TLSv1.2' }
  ],
  [
    'ciphers of TLS 1.2 leave TLS 1.3 as it is',
    'good',
    transport({ ciphers: ['ECDHE-ECDSA-AES128-GCM-SHA256'] }),
    { version: 'TLSv1.3' }
  ],
  [
    'a cipher of TLS 1.3',
    'good',
    transport({ ciphers: ['TLS_CHACHA20_POLY1305_SHA256'] }),
    { cipher: 'TLS_CHACHA20_POLY1305_SHA256' }
  ],
  [
    'a cipher that the upstream does not have',
    'aes256',
    transport({ ciphers: ['ECDHE-ECDSA-AES128-GCM-SHA256'] }),
    /handshake failure/
  ],
  ['no client certificate', 'asks', {}, /certificate required|closed/],
  ['no client certificate, TLS 1.2', 'asks12', {}, /handshake failure|certificate/],
  ['the right client certificate', 'asks', shows(aliceId), { cn: 'alice' }],
  ['the right client certificate, TLS 1.2', 'asks12', shows(aliceId), { cn: 'alice' }],
  ['a client certificate of somebody unknown', 'asks', shows(idOf('default', mallory.cert)), /closed/],
  ['a client certificate that is not there', 'asks', shows('nobody'), /the client certificate nobody is not there/],
  [
    'a client certificate that is not there, and nobody asks for',
    'good',
    shows('nobody'),
    /the client certificate nobody is not there/
  ],
  ['a client certificate without private key', 'asks', shows(idOf('default', bob.cert)), /has no private key/],
  ['a client certificate of another organisation', 'asks', shows(idOf('other', alice.cert)), /is not there/],
  ['a bare public key as a client certificate', 'asks', shows('KEY'), /is a bare public key/],
  [
    'HTTP/2 asked for: a client certificate that is not there',
    'asks',
    { http2: { enabled: true }, ...shows('nobody') },
    /nobody is not there/
  ],
  ['mutualTLS for another domain', 'asks', shows(aliceId, '*.other.test'), /certificate required|closed/],
  ['mutualTLS for host and port', 'asks', shows(aliceId, 'localhost:PORT'), { cn: 'alice' }],
  [
    'host and port before the host',
    'asks',
    {
      mutualTLS: {
        enabled: true,
        domainToCertificateMapping: [
          { domain: 'localhost', certificate: 'nobody' },
          { domain: 'localhost:PORT', certificate: aliceId }
        ]
      }
    },
    { cn: 'alice' }
  ],
  [
    'HTTP/2 asked for, and the upstream has none',
    'asks',
    { http2: { enabled: true }, ...shows(aliceId) },
    { cn: 'alice' }
  ]
]

async function stored(gw: TestGateway): Promise<string> {
  for (const [pem, org] of [
    [alice.cert + alice.key, 'default'],
    [alice.cert + alice.key, 'other'],
    [bob.cert, 'default'],
    [mallory.cert + mallory.key, 'default'],
    [good.cert, 'default']
  ] as const)
    t.equal((await gw.svc('POST', `/svc/certs?org_id=${org}`, pem)).status, 200)
  const { X509Certificate } = await import('node:crypto')
  const key = String(new X509Certificate(good.cert).publicKey.export({ format: 'pem', type: 'spki' }))
  const { body, status } = await gw.svc('POST', '/svc/certs', key)
  t.equal(status, 200)
  return body.id
}

const file = `${alice.file}.both`
writeFileSync(file, alice.cert + alice.key)

for (const upstream_client of ['direct', 'undici'] as const) {
  t.test(`upstream_client ${upstream_client}`, async t => {
    const servers = new Map<string, Awaited<ReturnType<typeof secureServer>>>()
    for (const [kind, options] of Object.entries(kinds)) servers.set(kind, await secureServer(t, options))
    const security = { certificates: { upstream: { 'nowhere.test': file } } }
    const gw = await gateway(t, { settings: { gateway: { upstream_client, security } } })
    const key = await stored(gw)
    for (const [i, [name, kind, upstream, outcome]] of rows.entries()) {
      const { url, port, connections } = servers.get(kind)!
      const filled = JSON.stringify(upstream).replaceAll('PORT', String(port)).replaceAll('"KEY"', `"${key}"`)
      const document = api(`a${i}`, url, { upstream: JSON.parse(filled) })
      const saved = await gw.svc('POST', '/svc/apis/oas', document)
      t.equal(saved.status, 200, JSON.stringify(saved.body))
      const from = gw.log.lines.length
      const answer = await gw.get(`/a${i}/`)
      if (outcome instanceof RegExp) {
        t.equal(answer.status, 502, name)
        // Node's servers close where others send an alert, and undici hears of the end before it hears of an alert.
        const codes = /closed/.test(outcome.source) ? ['upstream_tls', 'upstream_reset'] : ['upstream_tls']
        t.ok(codes.includes(answer.headers.get('x-svc-error')!), name)
        const lines = gw.log.lines.slice(from).filter(({ msg }) => msg === 'upstream failed')
        t.equal(lines.length, 1)
        t.match(lines[0]!.cause, outcome, name)
      } else {
        t.equal(answer.status, 200, `${name}: ${JSON.stringify(gw.log.lines.slice(from))}`)
        t.match(await answer.json(), outcome, name)
      }
      t.ok(connections.length < 100)
    }
    const answers = await Promise.all([gw.get('/a0/'), gw.get('/a0/')])
    t.same(
      answers.map(({ status }) => status),
      [200, 200]
    )
  })

  t.test(`upstream_client ${upstream_client}: the gateway’s own certificates and pins, behind the API’s`, async t => {
    const asks = await secureServer(t, kinds.asks!)
    const plain = await secureServer(t, good)
    const security = {
      certificates: { upstream: { Localhost: file } },
      pinned_public_keys: {
        [`localhost:${plain.port}`]: ` ${pin(bob.cert)} , ${pin(mallory.cert)}`,
        '*': pin(good.cert)
      }
    }
    const gw = await gateway(t, { settings: { gateway: { upstream_client, security } } })
    await stored(gw)
    for (const document of [
      api('asks', asks.url),
      api('own', asks.url, { upstream: shows('nobody') }),
      api('plain', plain.url),
      api('pinned', plain.url, { upstream: pins([pin(good.cert)]) })
    ])
      t.equal((await gw.svc('POST', '/svc/apis/oas', document)).status, 200)
    t.match(await (await gw.get('/asks/')).json(), { cn: 'alice' })
    t.equal((await gw.get('/own/')).status, 502)
    t.equal((await gw.get('/plain/')).status, 502)
    t.equal((await gw.get('/pinned/')).status, 200)
  })

  t.test(
    `upstream_client ${upstream_client}: APIs with different options to one origin never share a connection`,
    async t => {
      const { url, connections } = await secureServer(t, {
        ...good,
        ca: root.cert,
        requestCert: true,
        rejectUnauthorized: false
      })
      const gw = await gateway(t, { settings: { gateway: { upstream_client } } })
      await stored(gw)
      const all = {
        a: {},
        b: {},
        c: shows(aliceId),
        d: pins([pin(good.cert)]),
        e: shows(aliceId),
        f: transport({ maxVersion: '1.2' })
      }
      for (const [id, upstream] of Object.entries(all))
        t.equal((await gw.svc('POST', '/svc/apis/oas', api(id, url, { upstream }))).status, 200)
      const seen: Record<string, Seen[]> = {}
      for (let round = 0; round < 2; round++)
        for (const id of Object.keys(all)) {
          const told = (await (await gw.get(`/${id}/`)).json()) as Seen
          seen[id] = [...(seen[id] ?? []), told]
        }
      const [a, b, c, d, e, f] = Object.values(seen).map(([first, second]) => {
        t.equal(first!.connection, second!.connection, 'it is used again')
        return first!
      })
      t.equal(a!.connection, b!.connection)
      t.equal(c!.connection, e!.connection)
      t.equal(new Set([a, c, d, f].map(each => each!.connection)).size, 4)
      t.same([a!.cn, c!.cn, d!.cn, f!.cn], [null, 'alice', null, null])
      t.equal(connections.length, 4)
    }
  )

  t.test(
    `upstream_client ${upstream_client}: a changed certificate counts at once, and requests under way end`,
    async t => {
      const asked = { ...good, ca: root.cert, requestCert: true, rejectUnauthorized: false }
      const { url, connections, held } = await secureServer(t, asked)
      const both = `${alice.file}.changing`
      writeFileSync(both, alice.cert + alice.key)
      const security = { certificates: { upstream: { '*': both } } }
      const gw = await gateway(t, { settings: { gateway: { upstream_client, security } } })
      t.equal((await gw.svc('POST', '/svc/apis/oas', api('a', url))).status, 200)
      t.match(await (await gw.get('/a/')).json(), { cn: 'alice', connection: 0, resumed: false })
      t.match(await (await gw.get('/a/')).json(), { cn: 'alice', connection: 0 })
      t.equal((await gw.svc('GET', '/svc/reload?block=true')).status, 200)
      t.match(await (await gw.get('/a/')).json(), { cn: 'alice', connection: 0 }, 'the same again changes nothing')
      const slow = gw.get('/a/slow')
      const other = gw.get('/a/slow')
      await eventually(() => held.length === 2, 'two are under way')
      t.equal(connections.length, 2)
      t.match(await (await gw.get('/a/')).json(), { cn: 'alice', connection: 2 })
      writeFileSync(both, bob.cert + bob.key)
      t.equal((await gw.svc('GET', '/svc/reload?block=true')).status, 200)
      t.match(await (await gw.get('/a/')).json(), { cn: 'bob', connection: 3, resumed: false })
      await eventually(() => connections[2]!.destroyed, 'the idle connection with the old one is closed')
      for (const answer of held) answer()
      for (const each of [slow, other]) t.match(await (await each).json(), { cn: 'alice' })
      await eventually(
        () => connections[0]!.destroyed && connections[1]!.destroyed,
        'the others close behind their answers'
      )
      t.match(await (await gw.get('/a/')).json(), { cn: 'bob', connection: 3 })
    }
  )

  t.test(`upstream_client ${upstream_client}: a certificate that comes later counts from then on`, async t => {
    const { url } = await secureServer(t, kinds.asks!)
    const gw = await gateway(t, { settings: { gateway: { upstream_client } } })
    t.equal((await gw.svc('POST', '/svc/apis/oas', api('a', url, { upstream: shows(aliceId) }))).status, 200)
    t.equal((await gw.get('/a/')).status, 502)
    t.equal((await gw.svc('POST', '/svc/certs', alice.cert + alice.key)).status, 200)
    t.match(await (await gw.get('/a/')).json(), { cn: 'alice' })
  })

  t.test(`upstream_client ${upstream_client}: TLS sessions are resumed within the same options`, async t => {
    for (const [version, kind] of [
      ['TLSv1.2', 'tls12'],
      ['TLSv1.3', 'tls13']
    ] as const) {
      const { url, connections } = await secureServer(t, {
        ...kinds[kind]!,
        ca: root.cert,
        requestCert: true,
        rejectUnauthorized: false
      })
      const gw = await gateway(t, { settings: { gateway: { upstream_client } } })
      await stored(gw)
      for (const [id, upstream] of [
        ['a', pins([pin(good.cert)])],
        ['b', shows(aliceId)]
      ] as const)
        t.equal((await gw.svc('POST', '/svc/apis/oas', api(id, url, { upstream }))).status, 200)
      for (const [id, cn] of [
        ['a', null],
        ['b', 'alice']
      ] as const) {
        t.match(await (await gw.get(`/${id}/`)).json(), { resumed: false, version, cn })
        const socket = connections.at(-1)!
        socket.destroy()
        await new Promise(resolve => socket.once('close', resolve))
        const again = await gw.get(`/${id}/`)
        t.equal(again.status, 200, JSON.stringify(gw.log.lines.at(-1)))
        t.match(await again.json(), { resumed: true, version, cn }, `${version} ${id}`)
      }
    }
  })

  t.test(`upstream_client ${upstream_client}: WebSocket through TLS with pin and client certificate`, async t => {
    const { url } = await secureServer(t, kinds.asks!)
    const gw = await gateway(t, { settings: { gateway: { upstream_client } } })
    await stored(gw)
    const table: [string, object, number, string | RegExp][] = [
      ['right', { ...shows(aliceId), ...pins([pin(good.cert)]) }, 101, 'alice'],
      ['http2', { ...shows(aliceId), http2: { enabled: true } }, 101, 'alice'],
      ['wrongpin', { ...shows(aliceId), ...pins([pin(bob.cert)]) }, 502, /not pinned/],
      ['insecurepin', { ...shows(aliceId), ...insecure, ...pins([pin(bob.cert)]) }, 502, /not pinned/],
      ['missing', shows('nobody'), 502, /nobody is not there/],
      ['none', {}, 502, /certificate required/],
      ['version', { ...shows(aliceId), ...transport({ maxVersion: '1.2' }) }, 101, 'alice']
    ]
    for (const [id, upstream, status, outcome] of table) {
      t.equal((await gw.svc('POST', '/svc/apis/oas', api(id, url, { upstream }))).status, 200)
      const client = wire(t, gw.url)
      client.send(
        `GET /${id}/x HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n`
      )
      await client.until(() => client.text().includes('\r\n\r\n'), 'the head')
      t.match(client.text(), new RegExp(`^HTTP/1\\.1 ${status} `), id)
      if (status === 101) {
        t.match(client.text(), new RegExp(`X-Seen: ${outcome}\r\n`))
        client.send('to and fro')
        await client.until(() => client.text().endsWith('to and fro'), 'the echo')
        client.socket.destroy()
      } else {
        await client.until(client.closed, 'the end')
        t.same(values(client.answers[0]!.pairs, 'x-svc-error'), ['upstream_tls'], id)
        const line = gw.log.lines.filter(({ msg }) => msg === 'upstream failed').at(-1)
        t.match(line?.cause, outcome as RegExp)
      }
    }
  })
}

t.test('what tlsTransport cannot be is refused when the API is saved', async t => {
  const gw = await gateway(t)
  for (const [given, at] of [
    [{ ciphers: ['TLS_MADE_UP'] }, '/ciphers/0'],
    [{ ciphers: ['ECDHE-RSA-AES128-GCM-SHA256', 'TLS_RSA_WITH_RC4_128_SHA'] }, '/ciphers/1'],
    [{ ciphers: ['TLS_AES_128_GCM_SHA256'], maxVersion: '1.2' }, '/ciphers'],
    [{ minVersion: '1.3', maxVersion: '1.2' }, '/minVersion']
  ] as const) {
    const { status, body } = await gw.svc(
      'POST',
      '/svc/apis/oas',
      api('a', 'https://a.test', { upstream: transport(given) })
    )
    t.equal(status, 400)
    t.match(JSON.stringify(body), `/upstream/tlsTransport${at}`)
  }
})

t.test('certificates of upstreams and those shown to them are watched for their ends', async t => {
  const ending = make({ name: 'localhost', issuer: root, extensions: [...SERVER, LOCALHOST], days: 2 })
  const shown = make({ name: 'carol', issuer: root, extensions: CLIENT, days: 3 })
  const { url } = await secureServer(t, { ...ending, ca: root.cert, requestCert: true, rejectUnauthorized: true })
  const gw = await gateway(t)
  t.equal(
    (await gw.svc('POST', '/svc/apis/oas', api('a', url, { upstream: shows(idOf('default', shown.cert)) }))).status,
    200
  )
  t.equal((await gw.svc('POST', '/svc/certs', shown.cert + shown.key)).status, 200)
  t.match(await (await gw.get('/a/')).json(), { cn: 'carol' })
  const told = (name: string, id: string) =>
    gw.log.lines.some(
      ({ event, message, cert_id }) =>
        event === 'CertificateExpiringSoon' && String(message).includes(name) && cert_id === id
    )
  await eventually(() => told('localhost', idOf('default', ending.cert)), 'the upstream’s')
  await eventually(() => told('carol', idOf('default', shown.cert)), 'the gateway’s')
})
