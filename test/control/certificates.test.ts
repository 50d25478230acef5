import { generateKeyPairSync } from 'node:crypto'
import { type Constructed, fromBER, type OctetString } from 'asn1js'
import t from 'tap'
import { opened } from '../../control/certificates/open.ts'
import { pem as files, pkcs12 } from '../helpers/certificateFiles.ts'
import {
  BMP,
  CN,
  certificate,
  der,
  extension,
  hashOf,
  hosts,
  isCa,
  octets,
  oid,
  publicKeyOf,
  rawCertificate,
  sequence,
  T61
} from '../helpers/certificates.ts'
import { gateway, type TestGateway } from '../helpers/gateway.ts'

/** A form as browsers and curl send it. */
function form(file: string | Uint8Array, password?: string): FormData {
  const made = new FormData()
  made.set('file', new Blob([file as Uint8Array<ArrayBuffer>]), 'certificate.pem')
  if (password !== undefined) made.set('password', password)
  return made
}

async function added(gw: TestGateway, file: string | Uint8Array, key?: string): Promise<string> {
  const { status, body } = await gw.api('POST', '/api/certs', file, key === undefined ? {} : { key })
  if (status !== 200) throw new Error(JSON.stringify(body))
  return body.id
}

const daysTo = (time: string) => Math.floor((Date.parse(time) - Date.now()) / 86_400_000)

const nobody = {
  CommonName: '',
  Country: [],
  ExtraNames: [],
  Locality: [],
  Names: [],
  Organization: [],
  OrganizationalUnit: [],
  PostalCode: [],
  Province: [],
  SerialNumber: '',
  StreetAddress: []
}

t.test('a chain with its key is kept and told of in full', async t => {
  const gw = await gateway(t)
  const root = certificate({ subject: [[CN, 'root']], extensions: [isCa] })
  const leaf = certificate({
    subject: [
      ['2.5.4.6', 'DE'],
      ['2.5.4.8', 'Bayern'],
      ['2.5.4.7', 'München'],
      ['2.5.4.10', 'Eins'],
      ['2.5.4.11', 'b'],
      ['2.5.4.11', 'a'],
      ['2.5.4.9', 'Weg 1'],
      ['2.5.4.17', '80331'],
      ['2.5.4.5', '42'],
      [CN, 'leaf.example'],
      ['0.9.2342.19200300.100.1.25', 'example']
    ],
    issuer: root,
    extensions: [
      extension(
        '2.5.29.17',
        sequence(
          der(0x82, Buffer.from('leaf.example')),
          der(0x87, Buffer.of(127, 0, 0, 1)),
          der(0x82, Buffer.from('*.leaf.example')),
          der(0x81, Buffer.from('a@b.example'))
        )
      )
    ]
  })
  const { status, body } = await gw.api('POST', '/api/certs', form(leaf.pem + root.pem + leaf.keyPem))
  t.equal(status, 200)
  const id = `default${hashOf(leaf)}`
  t.same(body, { id, message: 'Certificate added', status: 'ok' })
  const told = await gw.api('GET', `/api/certs/${id}`)
  t.equal(told.headers.get('etag'), '"1"')
  t.same(told.body, {
    id,
    fingerprint: hashOf(leaf),
    dns_names: ['leaf.example', '*.leaf.example'],
    has_private: true,
    is_ca: false,
    not_before: '2020-01-01T00:00:00Z',
    not_after: '2120-01-02T03:04:05Z',
    expiry: { state: 'valid', days_remaining: daysTo('2120-01-02T03:04:05Z') },
    issuer: { ...nobody, CommonName: 'root', Names: [{ Type: [2, 5, 4, 3], Value: 'root' }] },
    subject: {
      ...nobody,
      CommonName: 'leaf.example',
      Country: ['DE'],
      Locality: ['München'],
      Province: ['Bayern'],
      Organization: ['Eins'],
      OrganizationalUnit: ['b', 'a'],
      StreetAddress: ['Weg 1'],
      PostalCode: ['80331'],
      SerialNumber: '42',
      Names: [
        { Type: [2, 5, 4, 6], Value: 'DE' },
        { Type: [2, 5, 4, 8], Value: 'Bayern' },
        { Type: [2, 5, 4, 7], Value: 'München' },
        { Type: [2, 5, 4, 10], Value: 'Eins' },
        { Type: [2, 5, 4, 11], Value: 'b' },
        { Type: [2, 5, 4, 11], Value: 'a' },
        { Type: [2, 5, 4, 9], Value: 'Weg 1' },
        { Type: [2, 5, 4, 17], Value: '80331' },
        { Type: [2, 5, 4, 5], Value: '42' },
        { Type: [2, 5, 4, 3], Value: 'leaf.example' },
        { Type: [0, 9, 2342, 19200300, 100, 1, 25], Value: 'example' }
      ]
    }
  })
})

t.test('names come through in every alphabet, and strange certificates are taken as they are', async t => {
  const gw = await gateway(t)
  const utf16 = (text: string) => Buffer.from(text, 'utf16le').swap16()
  const told = async (made: ReturnType<typeof certificate>) =>
    (await gw.api('GET', `/api/certs/${await added(gw, made.pem)}`)).body
  for (const [subject, name] of [
    [[[CN, utf16('Žluťoučký'), BMP]], 'Žluťoučký'],
    [[[CN, Buffer.from('Grüße', 'latin1'), T61]], 'Grüße'],
    [[[CN, Buffer.from([0, 1, 0xf6, 0]), 0x1c]], '😀'],
    [
      [
        [CN, 'first'],
        [CN, 'last']
      ],
      'last'
    ],
    [[], ''],
    [[[CN, '"><script>\u0000']], '"><script>\u0000'],
    [[[CN, 'x'.repeat(25_000)]], 'x'.repeat(25_000)]
  ] as const) {
    const { subject: seen, issuer } = await told(certificate({ subject }))
    t.equal(seen.CommonName, name)
    t.same(issuer, seen)
  }
  for (const subject of [
    [[CN, Buffer.from([0xd8, 0x3d]), BMP]],
    [[CN, Buffer.from([1]), BMP]],
    [[CN, Buffer.from([0, 0x11, 0, 0]), 0x1c]],
    [[CN, Buffer.from([0xff, 0xfe])]],
    [[CN, Buffer.from([5]), 0x02]]
  ] as const) {
    const bytes = rawCertificate({ subject }).raw.toString('base64')
    const broken = await gw.api(
      'POST',
      '/api/certs',
      `-----BEGIN CERTIFICATE-----\n${bytes}\n-----END CERTIFICATE-----`
    )
    t.equal(broken.status, 400)
    t.match(broken.body.Message, /^Failed to decode certificate/)
  }
  const odd = ['a, DNS:b', 'c"d', '\\u002c', '']
  t.same((await told(certificate({ extensions: [hosts(...odd)] }))).dns_names, odd)
  const many = Array.from({ length: 2000 }, (_, i) => `host${i}.example`)
  t.same((await told(certificate({ extensions: [hosts(...many)] }))).dns_names, many)
  t.same(
    (await told(certificate({ extensions: [extension('2.5.29.17', Buffer.from([0x30, 0x85, 1]))] }))).dns_names,
    []
  )
  t.same((await told(certificate({ extensions: [extension('2.5.29.17', Buffer.alloc(0))] }))).dns_names, [])
  t.same((await told(certificate({ extensions: [extension('1.2.3', Buffer.from('?'))] }))).dns_names, [])
  t.equal((await told(certificate({ extensions: [isCa] }))).is_ca, true)
  t.equal((await told(certificate({ from: '2100-01-01T00:00:00Z' }))).not_before, '2100-01-01T00:00:00Z')
})

t.test('private keys are taken in the forms that tools write, also with a password', async t => {
  const both = files.leaf + files.root
  const pair = (type: 'rsa' | 'ed25519') =>
    type === 'rsa' ? generateKeyPairSync('rsa', { modulusLength: 2048 }) : generateKeyPairSync('ed25519')
  const rsa = certificate({ keys: pair('rsa'), issuer: certificate() })
  const pkcs1 = String(rsa.key.export({ type: 'pkcs1', format: 'pem' }))
  const ed25519 = certificate({ keys: pair('ed25519') })
  const params = '-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n'
  const cases: readonly (readonly [name: string, file: string, password?: string])[] = [
    ['PKCS#8', both + files.pkcs8],
    ['SEC1', both + files.sec1],
    ['the key first, with its parameters', params + files.sec1 + both],
    ['text around, CR LF', `Subject: somebody\n${both}\nkey:\n${files.pkcs8}`.replaceAll('\n', '\r\n')],
    ['a password that nothing asks for', both + files.pkcs8, 'surplus'],
    ['PBES2 with AES', both + files.aes, 'secret'],
    ['PBES2 with scrypt', both + files.scrypt, 'secret'],
    ['PBES2 with triple DES', both + files.des3, 'secret'],
    ['PBES1 of PKCS#12', both + files.pbe, 'secret'],
    ['encrypted by headers', both + files.traditional, 'secret'],
    ['RSA in PKCS#1', rsa.pem + pkcs1],
    ['Ed25519', ed25519.pem + ed25519.keyPem]
  ]
  for (const [name, file, password] of cases) {
    const gw = await gateway(t)
    const { status, body } = await gw.api('POST', '/api/certs', form(file, password))
    t.equal(status, 200, `${name}: ${JSON.stringify(body)}`)
    t.equal((await gw.api('GET', `/api/certs/${body.id}`)).body.has_private, true, name)
  }
  const gw = await gateway(t)
  for (const key of [files.aes, files.scrypt, files.des3, files.pbe, files.traditional]) {
    const wrong = await gw.api('POST', '/api/certs', form(both + key, 'Secret'))
    t.equal(wrong.status, 400)
    t.match(wrong.body.Message, /^(The password is wrong|The key cannot be read)$/)
    const none = await gw.api('POST', '/api/certs', form(both + key))
    t.equal(none.status, 400)
    t.equal(none.body.Message, 'The private key is encrypted: send its password in the form field password')
  }
  t.same((await gw.api('GET', '/api/certs')).body, { certs: [], pages: 0 })
})

t.test('PKCS#12 is taken as tools write it', async t => {
  for (const [name, file, password, hasPrivate] of [
    ['AES', pkcs12.aes, 'secret', true],
    ['a password beyond ASCII', pkcs12.unicode, 'größe', true],
    ['an empty password', pkcs12.empty, '', true],
    ['no code', pkcs12.nomac, 'secret', true],
    ['only a code', pkcs12.plain, 'secret', true],
    ['no key', pkcs12.nokey, 'secret', false],
    ['a code with SHA-512', pkcs12.sha512, 'secret', true],
    ['as Java writes it', pkcs12.java, 'secret', true]
  ] as const) {
    const gw = await gateway(t)
    const { status, body } = await gw.api('POST', '/api/certs', form(file, password))
    t.equal(status, 200, `${name}: ${JSON.stringify(body)}`)
    const told = (await gw.api('GET', `/api/certs/${body.id}`)).body
    t.match(told, { has_private: hasPrivate, subject: { CommonName: 'leaf.example' }, issuer: { CommonName: 'Root' } })
    const stored: any = await gw.store.get('certificate', body.id)
    t.equal(stored.body.pem.match(/BEGIN CERTIFICATE/g).length, 2, `${name}: the root is kept too`)
    const wrong = await gw.api('POST', '/api/certs', form(file, 'wrong'))
    t.equal(wrong.status, 400)
    t.equal(wrong.body.Message, 'The password is wrong')
  }
  const gw = await gateway(t)
  // Lengths left open and octets in pieces, as some tools write while they go (X.690 §8.1.3.6, §8.7.3).
  const partsOf = (found: unknown) => (found as Constructed).valueBlock.value as Constructed[]
  const rawOf = (found?: Constructed) => Buffer.from(found!.valueBeforeDecodeView)
  const [version, safe, code] = partsOf(fromBER(new Uint8Array(pkcs12.aes)).result)
  const [type, content] = partsOf(safe)
  const bytes = Buffer.from((partsOf(content)[0] as unknown as OctetString).getValue())
  const open = (tag: number, ...contents: Uint8Array[]) =>
    Buffer.concat([Buffer.of(tag, 0x80), ...contents, Buffer.alloc(2)])
  const pieces = open(0x24, octets(bytes.subarray(0, 700)), octets(bytes.subarray(700)))
  const loose = open(0x30, rawOf(version), open(0x30, rawOf(type), open(0xa0, pieces)), rawOf(code))
  t.equal((await (await gateway(t)).api('POST', '/api/certs', form(loose, 'secret'))).status, 200)
  for (const file of [pkcs12.rc2, pkcs12.tripleDes]) {
    const old = await gw.api('POST', '/api/certs', form(file, 'secret'))
    t.equal(old.status, 400)
    t.match(old.body.Message, /openssl pkcs12 -export without -legacy/)
  }
  t.equal((await gw.api('POST', '/api/certs', pkcs12.empty)).status, 200, 'without a form, where it has no password')
})

t.test('what is no certificate is refused with the reason', async t => {
  const gw = await gateway(t)
  const NOT_PEM = 'Failed to decode certificate. It should be PEM encoded.'
  const one = certificate()
  const other = certificate()
  const block = (type: string, bytes: Uint8Array) =>
    `-----BEGIN ${type}-----\n${Buffer.from(bytes).toString('base64')}\n-----END ${type}-----\n`
  const number = (value: number) => {
    const hex = value.toString(16)
    return der(0x02, Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex'))
  }
  const derivation = (iterations: number) =>
    sequence(oid('1.2.840.113549.1.5.12'), sequence(octets(Buffer.alloc(8)), number(iterations)))
  const scrypt = (N: number) =>
    sequence(oid('1.3.6.1.4.1.11591.4.11'), sequence(octets(Buffer.alloc(8)), number(N), number(8), number(1)))
  const pbes2 = (how: Uint8Array) =>
    sequence(
      oid('1.2.840.113549.1.5.13'),
      sequence(how, sequence(oid('2.16.840.1.101.3.4.1.42'), octets(Buffer.alloc(16))))
    )
  const encrypted = (how: Uint8Array) => block('ENCRYPTED PRIVATE KEY', sequence(pbes2(how), octets(Buffer.alloc(32))))
  const UNKNOWN = /^The file is damaged, or encrypted in a way that is not supported/
  const data = (content: Uint8Array) => sequence(oid('1.2.840.113549.1.7.1'), der(0xa0, octets(content)))
  const container = (...parts: Uint8Array[]) => sequence(number(3), data(sequence(...parts)))
  const bag = (kind: number, value: Uint8Array) => sequence(oid(`1.2.840.113549.1.12.10.1.${kind}`), der(0xa0, value))
  const keyBag = bag(1, one.key.export({ format: 'der', type: 'pkcs8' }))
  const sealed = (how: Uint8Array) =>
    sequence(
      oid('1.2.840.113549.1.7.6'),
      der(0xa0, sequence(number(0), sequence(oid('1.2.840.113549.1.7.1'), how, der(0x80, Buffer.alloc(32)))))
    )
  const aesTwice = sequence(number(3), sequence(oid('1.2.840.113549.1.7.1')))
  let deep: Buffer = Buffer.alloc(0)
  for (let i = 0; i < 5000; i++) deep = der(0x30, deep)
  const TOO_MUCH = 'The rounds that derive the key of the file are not from 1 to 1000000'
  const longChain = Array.from({ length: 21 }, () => certificate().pem).join('')
  for (const [name, file, message] of [
    ['text', 'hello', NOT_PEM],
    ['JSON', '{"file":1}', NOT_PEM],
    ['DER', one.certificate.raw, NOT_PEM],
    ['zeros', Buffer.alloc(1000), NOT_PEM],
    ['0x30 alone', Buffer.of(0x30), NOT_PEM],
    ['an endless length', Buffer.from([0x30, 0x80, 0x30, 0x80, 0x30, 0x80]), NOT_PEM],
    ['many endless lengths', Buffer.alloc(500_000, Buffer.from([0x30, 0x80])), NOT_PEM],
    ['5000 levels', deep, NOT_PEM],
    ['a million empty elements', sequence(Buffer.alloc(1_000_000, Buffer.from([0x05, 0x00]))), NOT_PEM],
    ['half a PKCS#12', pkcs12.aes.subarray(0, 900), NOT_PEM],
    ['an empty PKCS#12', aesTwice, NOT_PEM],
    ['a block without its end', one.pem.slice(0, -30), NOT_PEM],
    ['only beginnings', '-----BEGIN CERTIFICATE-----\n'.repeat(30_000), NOT_PEM],
    ['no base64', '-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n', NOT_PEM],
    ['an empty block', '-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n', NOT_PEM],
    ['nonsense in a block', block('CERTIFICATE', Buffer.from('nonsense')), NOT_PEM],
    ['a request', block('CERTIFICATE REQUEST', Buffer.of(1)), /CERTIFICATE REQUEST is neither a certificate nor a key/],
    ['a key alone', one.keyPem, 'A private key needs its certificate'],
    ['two keys', one.pem + one.keyPem + other.keyPem, 'Found multiple private keys'],
    ["another's key", one.pem + other.keyPem, /does not belong to the first certificate/],
    ['a broken key', one.pem + block('PRIVATE KEY', Buffer.from('nonsense')), 'The key cannot be read'],
    ['a strange key', one.pem + block('DSA PRIVATE KEY', Buffer.of(1)), 'A DSA PRIVATE KEY is not supported'],
    ['an expired one', certificate({ to: '2021-01-01T00:00:00Z' }).pem, 'certificate is expired'],
    ['strangers', one.pem + other.pem, /no chain, leaf first: number 2 has not issued number 1/],
    ['the root first', files.root + files.leaf, /no chain/],
    ['21 certificates', longChain, 'A chain has at most 20 certificates'],
    ['two public keys', publicPem(one) + publicPem(other), 'Found multiple public keys'],
    ['a public key beside', one.pem + publicPem(one), /without certificates and private keys/],
    ['a large one', certificate({ subject: [[CN, 'x'.repeat(70_000)]] }).pem, 'A certificate has at most 65536 bytes'],
    ['2^40 rounds', one.pem + encrypted(derivation(2 ** 40)), TOO_MUCH],
    ['2^40 rounds in PKCS#12', container(sealed(pbes2(derivation(2 ** 40)))), TOO_MUCH],
    ['scrypt in PKCS#12', container(sealed(pbes2(scrypt(16_384)))), UNKNOWN],
    ['two keys in PKCS#12', container(data(sequence(keyBag)), data(sequence(keyBag))), 'Found multiple private keys'],
    ['a key alone in PKCS#12', container(data(sequence(keyBag))), 'A private key needs its certificate'],
    ['PKCS#12 in PKCS#12', container(data(sequence(bag(6, sequence(keyBag))))), /file in a file/],
    ['nothing in PKCS#12', container(data(sequence(bag(5, sequence(oid('1.2.3'), der(0xa0, sequence())))))), NOT_PEM],
    ['many parts in PKCS#12', container(...Array.from({ length: 5 }, () => data(sequence(keyBag)))), /at most 4 parts/],
    ['0 rounds', one.pem + encrypted(derivation(0)), TOO_MUCH],
    ['scrypt in 8 GB', one.pem + encrypted(scrypt(2 ** 23)), TOO_MUCH],
    ['scrypt of a cost that is no power', one.pem + encrypted(scrypt(3)), UNKNOWN]
  ] as const) {
    for (const call of [gw.api, gw.svc]) {
      const path = call === gw.api ? '/api/certs' : '/svc/certs'
      const { status, body } = await call('POST', path, form(file, 'secret'))
      t.equal(status, 400, `${name}: ${JSON.stringify(body).slice(0, 200)}`)
      if (call === gw.api) t.match(body, { Status: 'Error', Message: message, Meta: null }, name)
      else t.match(body, { status: 'error', message }, name)
    }
  }
  const large = await gw.api('POST', '/api/certs', Buffer.alloc(1_048_577))
  t.equal(large.status, 413)
  t.same((await gw.api('GET', '/api/certs')).body, { certs: [], pages: 0 })
  t.same(
    gw.log.lines.filter(({ level }) => level === 'error'),
    []
  )
})

t.test('of many that wait for a thread to open their files, the last are sent away', async t => {
  const asked = Array.from({ length: 10 }, () => opened({ kind: 'pkcs12', bytes: pkcs12.aes, password: 'secret' }))
  const answers = await Promise.allSettled(asked)
  t.same(
    answers.map(answer => (answer.status === 'fulfilled' ? answer.value.certificates.length : answer.reason.status)),
    [2, 2, 2, 2, 2, 2, 2, 2, 503, 503]
  )
  await t.rejects(opened({ kind: 'pkcs12', bytes: pkcs12.aes, password: '' }), { message: 'The password is wrong' })
})

t.test('damaged files are taken or refused, and break nothing', async t => {
  const gw = await gateway(t)
  let seed = 1
  const below = (limit: number) => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed % limit
  }
  const damaged = (file: Buffer) => {
    const bytes = Buffer.from(file)
    for (let i = below(4); i >= 0; i--) bytes[below(bytes.length)] = below(256)
    return below(5) === 0 ? bytes.subarray(0, below(bytes.length)) : bytes
  }
  const der = Buffer.from(files.leaf.replace(/-.*-/g, ''), 'base64')
  const asPem = (bytes: Buffer) =>
    `-----BEGIN CERTIFICATE-----\n${bytes.toString('base64')}\n-----END CERTIFICATE-----\n`
  for (let i = 0; i < 60; i++)
    for (const file of [
      asPem(damaged(der)),
      damaged(Buffer.from(files.leaf + files.root + files.traditional)),
      damaged(Buffer.from(files.leaf + files.aes)),
      damaged(pkcs12.aes),
      damaged(pkcs12.plain)
    ]) {
      const { status, body } = await gw.api('POST', '/api/certs', form(file, 'secret'))
      if (![200, 400, 409].includes(status)) t.fail(`${status} ${JSON.stringify(body)}`)
    }
  t.same(
    gw.log.lines.filter(({ level }) => level === 'error'),
    []
  )
  t.equal((await gw.api('POST', '/api/certs', form(pkcs12.nokey, 'wrong'))).body.Message, 'The password is wrong')
})

function publicPem(made: ReturnType<typeof certificate>): string {
  return String(publicKeyOf(made).export({ type: 'spki', format: 'pem' }))
}

t.test('forms that are none are refused', async t => {
  const gw = await gateway(t)
  const type = (value: string) => ({ headers: { 'Content-Type': value } })
  const boundary = 'multipart/form-data; boundary=b'
  const part = (name: string, text: string) =>
    `--b\r\nContent-Disposition: form-data; name="${name}"; filename="f"\r\n\r\n${text}\r\n`
  for (const [name, body, header] of [
    ['no boundary', 'x', 'multipart/form-data'],
    ['nothing in it', '--b--\r\n', boundary],
    ['breaks off', part('file', files.leaf), boundary],
    ['another name', `${part('other', files.leaf)}--b--\r\n`, boundary],
    ['twice', `${part('file', files.leaf)}${part('file', files.leaf)}--b--\r\n`, boundary],
    ['many parts', `${part('file', files.leaf)}${part('x', '').repeat(1000)}--b--\r\n`, boundary],
    ['an empty file', `${part('file', '')}--b--\r\n`, boundary],
    ['__proto__', `${part('__proto__', files.leaf)}--b--\r\n`, boundary],
    ['nonsense', '\0'.repeat(5000), boundary]
  ] as const) {
    const answer = await gw.api('POST', '/api/certs', body, type(header))
    t.equal(answer.status, 400, `${name}: ${JSON.stringify(answer.body)}`)
    t.equal(answer.body.Status, 'Error')
  }
  const whole = `${part('file', files.leaf)}--b--\r\n`
  t.equal((await gw.api('POST', '/api/certs', whole, type(boundary))).status, 200)
  const field = new FormData()
  field.set('file', files.root)
  t.equal((await gw.api('POST', '/api/certs', field)).status, 200, 'a field without a file name')
  const empty = await gw.api('POST', '/api/certs', '')
  t.equal(empty.status, 400)
  t.equal(empty.body.Message, 'Failed to read response body, body empty')
})

t.test('a bare public key has its own id and form', async t => {
  const gw = await gateway(t)
  const made = certificate()
  const id = await added(gw, publicPem(made))
  t.match(id, /^default[0-9a-f]{64}$/)
  const { body } = await gw.api('GET', `/api/certs/${id}`)
  const hash = id.slice('default'.length)
  t.match(body, { id, fingerprint: hash, has_private: false, is_ca: false, not_after: '0001-01-01T00:00:00Z' })
  t.same(body.expiry, { state: 'valid', days_remaining: null })
  t.same(body.subject, { ...nobody, CommonName: `Public Key: ${hash}` })
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey
  const one = await added(gw, String(rsa.export({ type: 'pkcs1', format: 'pem' })))
  const again = await gw.api('POST', '/api/certs', String(rsa.export({ type: 'spki', format: 'pem' })))
  t.equal(again.status, 409, 'one key has one id, in whatever form it comes')
  t.ok(again.body.Message.includes(one))
})

t.test('a certificate is there once in an organisation', async t => {
  const gw = await gateway(t)
  const made = certificate()
  const id = await added(gw, made.pem)
  const again = await gw.api('POST', '/api/certs', made.pem + made.keyPem)
  t.equal(again.status, 409)
  t.equal(again.body.Message, `Could not create certificate.Certificate with ${id} ID already exists.`)
  const svc = await gw.svc('POST', '/svc/certs', made.pem)
  t.equal(svc.status, 409)
  t.same(svc.body, { status: 'error', message: `Certificate with ${id} already exists.` })
  t.equal((await gw.svc('POST', '/svc/certs?org_id=other', made.pem)).body.id, `other${hashOf(made)}`)
  t.equal((await gw.api('GET', `/api/certs/${id}`)).body.has_private, false, 'the first one stayed')
})

t.test('lists are paged, and their filters count', async t => {
  const gw = await gateway(t)
  const all: string[] = []
  for (let i = 0; i < 5; i++) {
    const made = certificate({ subject: [[CN, `c${i}`]], extensions: [hosts(`c${i}.example`)] })
    all.push(await added(gw, i % 2 === 0 ? made.pem + made.keyPem : made.pem))
  }
  const ids = { '': all, omit: all, with_pk: [all[0], all[2], all[4]], without_pk: [all[1], all[3]] }
  for (const [filter, wanted] of Object.entries(ids))
    for (const [query, from, to, pages] of [
      ['', 0, 10, 1],
      ['&p=0&page_size=2', 0, 2, Math.ceil(wanted.length / 2)],
      ['&p=2&page_size=2', 2, 4, Math.ceil(wanted.length / 2)],
      ['&p=9', 9, 9, 1],
      ['&p=-1', 0, 10, 1]
    ] as const) {
      const asked = `?filter=${filter}`.replace(/^\?filter=$/, '?') + query
      const { status, body } = await gw.api('GET', `/api/certs${asked}`)
      t.equal(status, 200)
      t.same(body, { certs: wanted.slice(from, to), pages }, asked)
      const detailed = (await gw.api('GET', `/api/certs${asked}&mode=detailed`)).body
      t.same(Object.keys(detailed), ['cert_basics', 'pages'])
      t.same(
        detailed.cert_basics.map(({ id }: { id: string }) => id),
        wanted.slice(from, to),
        `${asked} detailed`
      )
    }
  t.equal((await gw.api('GET', '/api/certs?filter=some')).status, 400)
  t.same((await gw.api('GET', '/api/certs?mode=detailed&page_size=1')).body.cert_basics, [
    {
      id: all[0],
      issuer_cn: 'c0',
      subject_cn: 'c0',
      dns_names: ['c0.example'],
      has_private: true,
      is_ca: false,
      not_before: '2020-01-01T00:00:00Z',
      not_after: '2120-01-02T03:04:05Z',
      expiry: { state: 'valid', days_remaining: daysTo('2120-01-02T03:04:05Z') }
    }
  ])
  const { certificates, pages } = (await gw.api('GET', '/api/certs/details?p=2&page_size=3')).body
  t.equal(pages, 2)
  t.same(certificates, await Promise.all(all.slice(3).map(async id => (await gw.api('GET', `/api/certs/${id}`)).body)))
  t.equal((await gw.api('GET', '/api/certs/details?p=-1')).body.certificates.length, 5)

  t.same((await gw.api('DELETE', `/api/certs/${all[2]}`)).body, { message: 'removed', status: 'ok' })
  t.same((await gw.api('GET', '/api/certs?filter=with_pk')).body, { certs: [all[0], all[4]], pages: 1 })
  t.equal((await gw.api('GET', `/api/certs/${all[2]}`)).status, 404)
})

t.test('nobody sees or deletes the certificates of another organisation', async t => {
  const gw = await gateway(t)
  const stranger = await gw.user({ org_id: 'other' })
  const made = certificate()
  const id = await added(gw, made.pem + made.keyPem)
  const own = await added(gw, made.pem, stranger)
  t.equal(own, `other${hashOf(made)}`)
  for (const [method, path, status, message] of [
    ['GET', `/api/certs/${id}`, 400, 'Attempted access to non-owned certificate.'],
    ['DELETE', `/api/certs/${id}`, 400, 'Attempted access to non-owned certificate.'],
    ['GET', `/api/certs/${id}/apis`, 404, 'Certificate not found or access denied'],
    ['GET', `/certs/${id}/apis`, 404, 'Certificate not found or access denied'],
    ['GET', `/api/certs/dependencies/${id}`, 404, 'Certificate not found or access denied'],
    [
      'GET',
      '/api/certs/unknown',
      404,
      'Could not retrieve certificate details. Certificate with given SHA256 fingerprint not found.'
    ],
    ['DELETE', '/api/certs/unknown', 404, 'Could not delete certificate.']
  ] as const) {
    const answer = await gw.api(method, path, undefined, { key: stranger })
    t.equal(answer.status, status, `${method} ${path}`)
    t.same(answer.body, { Status: 'Error', Message: message, Meta: null })
  }
  for (const list of ['', '?filter=with_pk', '?filter=without_pk', '?p=-1&filter=without_pk']) {
    const { certs } = (await gw.api('GET', `/api/certs${list}`, undefined, { key: stranger })).body
    t.same(certs, list.includes('with_pk') ? [] : [own], list)
  }
  t.equal((await gw.api('GET', `/api/certs/${id}`)).status, 200)
})

t.test('a private key leaves the store in no answer and no record', async t => {
  const gw = await gateway(t)
  const made = certificate()
  const id = await added(gw, made.pem + made.keyPem)
  const stored: any = await gw.store.get('certificate', id)
  t.match(stored.body.sealedKey, /^v1\./)
  const answers = []
  for (const path of [`/api/certs/${id}`, '/api/certs', '/api/certs?mode=detailed', '/api/certs/details'])
    answers.push((await gw.api('GET', path)).body)
  answers.push((await gw.svc('GET', `/svc/certs/${id}`)).body, (await gw.svc('GET', '/svc/certs?mode=detailed')).body)
  const everything = JSON.stringify([
    answers,
    stored,
    gw.log.lines,
    (await gw.store.list('audit', { page: -1, size: 1 })).documents
  ])
  for (const line of made.keyPem.split('\n').slice(1, -2)) t.notOk(everything.includes(line))
  for (const line of answers) t.notMatch(JSON.stringify(line), /PRIVATE KEY|sealed|v1\./)
})

t.test('the gateway interface adds, lists, reads and deletes', async t => {
  const gw = await gateway(t)
  const [one, two] = [certificate({ subject: [[CN, 'one']] }), certificate({ subject: [[CN, 'two']] })]
  const first = await gw.svc('POST', '/svc/certs?org_id=a', one.pem + one.keyPem)
  t.same(first.body, { id: `a${hashOf(one)}`, status: 'ok', message: 'Certificate added' })
  const { id } = (await gw.svc('POST', '/svc/certs', two.pem)).body
  t.equal(id, `default${hashOf(two)}`)
  t.same((await gw.svc('GET', '/svc/certs')).body, { certs: [`a${hashOf(one)}`, id] })
  t.same((await gw.svc('GET', '/svc/certs?org_id=a')).body, { certs: [`a${hashOf(one)}`] })
  t.match((await gw.svc('GET', '/svc/certs?org_id=a&mode=detailed')).body.certs, [
    { subject_cn: 'one', has_private: true }
  ])
  const told = (await gw.svc('GET', `/svc/certs/${id}`)).body
  t.match(told, { id, subject: { CommonName: 'two' }, has_private: false })
  t.same((await gw.svc('GET', `/svc/certs/nobody,${id},`)).body, [null, told, null])
  t.same((await gw.svc('GET', `/svc/certs/${id},nobody?org_id=a`)).body, [null, null])
  for (const method of ['GET', 'DELETE']) {
    const unknown = await gw.svc(method, `/svc/certs/${id}?org_id=a`)
    t.equal(unknown.status, 404)
    t.same(unknown.body, { status: 'error', message: 'Certificate with given SHA256 fingerprint not found' })
  }
  t.same((await gw.svc('DELETE', `/svc/certs/${id}`)).body, { status: 'ok', message: 'removed' })
  t.equal((await gw.svc('DELETE', `/svc/certs/${id}`)).status, 404)
  t.equal((await gw.svc('GET', `/svc/certs/${'x,'.repeat(150)}`)).status, 400)
})

t.test('of two people who delete one certificate at once, one succeeds; an old revision deletes nothing', async t => {
  const gw = await gateway(t)
  const id = await added(gw, certificate().pem)
  t.equal((await gw.api('DELETE', `/api/certs/${id}`, undefined, { headers: { 'If-Match': '"7"' } })).status, 412)
  const all = await Promise.all(Array.from({ length: 5 }, () => gw.api('DELETE', `/api/certs/${id}`)))
  t.same(all.map(({ status }) => status).sort(), [200, 404, 404, 404, 404])
})
