import { createHash, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { request } from 'node:http'
import t from 'tap'
import { handClock } from '../../helpers/clock.ts'
import { api, gateway, rights, type TestGateway } from '../../helpers/gateway.ts'
import { upstream } from '../../helpers/upstream.ts'
import { type Answered, type Asked, ask, eventsOf, tell, valuesOf } from '../../steps/ask.ts'
import { byHmac, keyNamed, message, pairs, SECRET, said, signedApi, signers, stored } from './signing.ts'

const MISSING = [401, '{"error":"Authorization field missing"}']
const WRONG = [401, '{"error":"Request signature verification failed"}']
const NO_CERTIFICATE = [500, '{"error":"Certificate not found"}']
const NOW = Date.UTC(2030, 0, 1) / 1000
const sha256 = byHmac('sha256', SECRET)
const mac = { hmac_enabled: true, hmac_string: SECRET }
const by = (keyId: string, created = NOW) => `;created=${created};keyid="${keyId}"`

const options = (members: object = {}) => ({ messageSignatures: { enabled: true, ...members } })
/** Nothing has to be covered. */
const free = options({ requiredComponents: [] })

type Lines = [identifier: string, value: string][]
const usual = (path = '/a/', method = 'GET', host = 'api.example'): Lines => [
  ['"@method"', method],
  ['"@target-uri"', `http://${host}${path}`]
]

/** A request to `api.example` with these fields. */
const sent = (gw: TestGateway, path: string, headers: object, asked: Asked = {}) =>
  ask(gw, path, { ...asked, headers: { Host: 'api.example', ...headers } as Record<string, string> })

t.test('the rows of refusals; they tell what a signature must cover', async t => {
  const gw = await gateway(t, { clock: handClock(), apis: [signedApi(options())] })
  await keyNamed(gw, 'ada', mac)
  await keyNamed(gw, 'lost', { enable_http_signature_validation: true, rsa_certificate_id: 'default0123' })
  const right = message(usual(), by('ada'), sha256)
  const rows: [name: string, headers: object, expected: readonly unknown[]][] = [
    ['missing', {}, MISSING],
    ['Authorization is another thing', { Authorization: 'ada' }, MISSING],
    ['without a signature', { 'Signature-Input': right['Signature-Input'] }, WRONG],
    ['without an input', { Signature: right.Signature }, WRONG],
    ['wrong', { ...right, Signature: 'sig=:AAAA:' }, WRONG],
    ['unknown key', message(usual(), by('eve'), sha256), WRONG],
    ['certificate not found', message(usual(), by('lost'), sha256), NO_CERTIFICATE]
  ]
  for (const [name, headers, expected] of rows) {
    const answer = await sent(gw, '/a/', headers)
    t.same(said(answer), expected, name)
    if (expected !== NO_CERTIFICATE)
      t.equal(answer.headers['accept-signature'], 'sig=("@method" "@target-uri");created')
    t.equal(eventsOf(gw).length > 0, expected !== MISSING)
    if (expected === MISSING) t.ok(answer.headers['www-authenticate'])
  }
  t.equal((await sent(gw, '/a/', right)).status, 200)
  t.notMatch(JSON.stringify(gw.log.lines), new RegExp(SECRET))
})

t.test('the examples of RFC 9421, appendix B, that are requests', async t => {
  const at = (id: string, listen: string, members: object): any => {
    const document: any = signedApi(options(members), 'svc://echo', id)
    document['x-svc-api-gateway'].server.listenPath = { value: listen, strip: false }
    return document
  }
  const gw = await gateway(t, {
    clock: handClock(1618884473_000),
    apis: [
      at('a', '/foo', { requiredComponents: [] }),
      at('demo', '/demo', { requiredComponents: ['@method', '@path', 'accept'] })
    ]
  })
  const bare = (base64: string) =>
    `-----BEGIN PUBLIC KEY-----\n${base64.match(/.{1,64}/g)!.join('\n')}\n-----END PUBLIC KEY-----\n`
  const pss = await stored(
    gw,
    bare(
      'MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAr4tmm3r20Wd/PbqvP1s2+QEtvpuRaV8Yq40gjUR8y2Rjxa6dpG2GXHbPfvMs8ct+Lh1GH45x28Rw3Ry53mm+oAXjyQ86OnDkZ5N8lYbggD4O3w6M6pAvLkhk95AndTrifbIFPNU8PPMO7OyrFAHqgDsznjPFmTOtCEcN2Z1FpWgchwuYLPL+Wokqltd11nqqzi+bJ9cvSKADYdUAAN5WUtzdpiy6LbTgSxP7ociU4Tn0g5I6aDZJ7A8Lzo0KSyZYoA485mqcO0GVAdVw9lq4aOT9v6d+nb4bnNkQVklLQ3fVAvJm+xdDOp9LCNCN48V2pnDOkFV6+U9nV5oyc6XI2wIDAQAB'
    )
  )
  const ed = await stored(gw, bare('MCowBQYDK2VwAyEAJrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs='))
  const asymmetric = { enable_http_signature_validation: true, ...rights('a', 'demo') }
  await keyNamed(gw, 'test-key-rsa-pss', { ...asymmetric, rsa_certificate_id: pss })
  await keyNamed(gw, 'test-key-ed25519', { ...asymmetric, rsa_certificate_id: ed })
  await keyNamed(gw, 'test-shared-secret', {
    hmac_enabled: true,
    hmac_string: 'uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ=='
  })
  const test = {
    Host: 'example.com',
    Date: 'Tue, 20 Apr 2021 02:07:55 GMT',
    'Content-Type': 'application/json',
    'Content-Digest':
      'sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:',
    'Content-Length': '18'
  }
  const examples: [name: string, input: string, signature: string][] = [
    [
      'B.2.1',
      'sig-b21=();created=1618884473;keyid="test-key-rsa-pss";nonce="b3k2pp5k7z-50gnwp.yemd"',
      'sig-b21=:d2pmTvmbncD3xQm8E9ZV2828BjQWGgiwAaw5bAkgibUopemLJcWDy/lkbbHAve4cRAtx31Iq786U7it++wgGxbtRxf8Udx7zFZsckzXaJMkA7ChG52eSkFxykJeNqsrWH5S+oxNFlD4dzVuwe8DhTSja8xxbR/Z2cOGdCbzR72rgFWhzx2VjBqJzsPLMIQKhO4DGezXehhWwE56YCE+O6c0mKZsfxVrogUvA4HELjVKWmAvtl6UnCh8jYzuVG5WSb/QEVPnP5TmcAnLH1g+s++v6d4s8m0gCw1fV5/SITLq9mhho8K3+7EPYTU8IU1bLhdxO5Nyt8C8ssinQ98Xw9Q==:'
    ],
    [
      'B.2.2',
      'sig-b22=("@authority" "content-digest" "@query-param";name="Pet");created=1618884473;keyid="test-key-rsa-pss";tag="header-example"',
      'sig-b22=:LjbtqUbfmvjj5C5kr1Ugj4PmLYvx9wVjZvD9GsTT4F7GrcQEdJzgI9qHxICagShLRiLMlAJjtq6N4CDfKtjvuJyE5qH7KT8UCMkSowOB4+ECxCmT8rtAmj/0PIXxi0A0nxKyB09RNrCQibbUjsLS/2YyFYXEu4TRJQzRw1rLEuEfY17SARYhpTlaqwZVtR8NV7+4UKkjqpcAoFqWFQh62s7Cl+H2fjBSpqfZUJcsIk4N6wiKYd4je2U/lankenQ99PZfB4jY3I5rSV2DSBVkSFsURIjYErOs0tFTQosMTAoxk//0RoKUqiYY8Bh0aaUEb0rQl3/XaVe4bXTugEjHSw==:'
    ],
    [
      'B.2.3',
      'sig-b23=("date" "@method" "@path" "@query" "@authority" "content-type" "content-digest" "content-length");created=1618884473;keyid="test-key-rsa-pss"',
      'sig-b23=:bbN8oArOxYoyylQQUU6QYwrTuaxLwjAC9fbY2F6SVWvh0yBiMIRGOnMYwZ/5MR6fb0Kh1rIRASVxFkeGt683+qRpRRU5p2voTp768ZrCUb38K0fUxN0O0iC59DzYx8DFll5GmydPxSmme9v6ULbMFkl+V5B1TP/yPViV7KsLNmvKiLJH1pFkh/aYA2HXXZzNBXmIkoQoLd7YfW91kE9o/CCoC1xMy7JA1ipwvKvfrs65ldmlu9bpG6A9BmzhuzF8Eim5f8ui9eH8LZH896+QIF61ka39VBrohr9iyMUJpvRX2Zbhl5ZJzSRxpJyoEZAFL2FUo5fTIztsDZKEgM4cUA==:'
    ],
    [
      'B.2.5',
      'sig-b25=("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret"',
      'sig-b25=:pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=:'
    ],
    [
      'B.2.6',
      'sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"',
      'sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:'
    ]
  ]
  for (const [name, input, signature] of examples) {
    const headers = { ...test, 'Signature-Input': input, Signature: signature }
    const asked = { method: 'POST', headers, body: '{"hello": "world"}' }
    const path = '/foo?param=Value&Pet=dog'
    t.equal((await ask(gw, path, asked)).status, 200, name)
    const later = { ...asked, headers: { ...headers, 'Signature-Input': input.replace('1618884473', '1618884472') } }
    t.same(said(await ask(gw, path, later)), WRONG, `${name}, another time`)
    if (name !== 'B.2.1')
      t.same(said(await ask(gw, path, { ...asked, headers: { ...headers, Host: 'example.org' } })), WRONG, name)
  }

  // B.4: what may happen to a message on its way, and what may not.
  const transform = [
    'Signature-Input',
    'transform=("@method" "@path" "@authority" "accept");created=1618884473;keyid="test-key-ed25519"',
    'Signature',
    'transform=:ZT1kooQsEHpZ0I1IjCqtQppOmIqlJPeo7DHR3SoMn0s5JZ1eRGS0A+vyYP9t/LXlh5QMFFQ6cpLt2m0pmj3NDA==:'
  ]
  const accepts = ['Accept', 'application/json', 'Accept', '*/*']
  const messages: [passes: boolean, name: string, path: string, method: string, pairs: string[]][] = [
    [true, 'as signed', '/demo?name1=Value1&Name2=value2', 'GET', ['Host', 'example.org', ...accepts]],
    [
      true,
      'a parameter more',
      '/demo?name1=Value1&Name2=value2&param=added',
      'GET',
      ['Host', 'example.org', ...accepts, 'Accept-Language', 'en-US']
    ],
    [
      true,
      'other headers, one line of Accept',
      '/demo?name1=Value1&Name2=value2',
      'GET',
      ['Host', 'example.org', 'Referer', 'x', 'Accept', 'application/json, */*']
    ],
    [true, 'host written otherwise', '/demo', 'GET', ['Host', 'EXAMPLE.ORG:80', ...accepts]],
    [false, 'another method', '/demo', 'POST', ['Host', 'example.org', ...accepts]],
    [false, 'another host', '/demo', 'GET', ['Host', 'example.com', ...accepts]],
    [
      false,
      'Accept turned round',
      '/demo',
      'GET',
      ['Host', 'example.org', 'Accept', '*/*', 'Accept', 'application/json']
    ]
  ]
  for (const [passes, name, path, method, headers] of messages) {
    const answer = await ask(gw, path, { method, headers: [...headers, ...transform] })
    if (passes) t.equal(answer.status, 200, name)
    else t.same(said(answer), WRONG, name)
  }
})

t.test('every algorithm, named or not, with the key that it needs', async t => {
  const gw = await gateway(t, { clock: handClock(), apis: [signedApi(options())] })
  const weak = generateKeyPairSync('rsa', { modulusLength: 1024 })
  const k1 = generateKeyPairSync('ec', { namedCurve: 'secp256k1' })
  const ids: Record<string, KeyObject> = {
    rsa: pairs.rsa.privateKey,
    p256: pairs.p256.privateKey,
    p384: pairs.p384.privateKey,
    ed25519: pairs.ed25519.privateKey,
    weak: weak.privateKey,
    k1k1: k1.privateKey
  }
  for (const [name, pair] of Object.entries({ ...pairs, weak, k1k1: k1 }))
    await keyNamed(gw, name, {
      enable_http_signature_validation: true,
      rsa_certificate_id: await stored(gw, pair.publicKey)
    })
  await keyNamed(gw, 'secret', mac)
  const cases: [passes: boolean, keyId: string, signer: string, alg: string | null][] = [
    [true, 'rsa', 'rsa-v1_5-sha256', 'rsa-v1_5-sha256'],
    [true, 'rsa', 'rsa-pss-sha512', 'rsa-pss-sha512'],
    [true, 'rsa', 'rsa-pss-sha512', null],
    [true, 'p256', 'ecdsa-p256-sha256', 'ecdsa-p256-sha256'],
    [true, 'p256', 'ecdsa-p256-sha256', null],
    [true, 'p384', 'ecdsa-p384-sha384', 'ecdsa-p384-sha384'],
    [true, 'p384', 'ecdsa-p384-sha384', null],
    [true, 'ed25519', 'ed25519', 'ed25519'],
    [true, 'ed25519', 'ed25519', null],
    [true, 'secret', 'hmac', 'hmac-sha256'],
    [true, 'secret', 'hmac', null],
    [false, 'rsa', 'rsa-v1_5-sha256', 'rsa-pss-sha512'],
    [false, 'rsa', 'rsa-pss-sha512', 'rsa-v1_5-sha256'],
    [false, 'rsa', 'rsa-v1_5-sha256', null],
    [false, 'rsa', 'rsa-pss-sha512', 'RSA-PSS-SHA512'],
    [false, 'rsa', 'rsa-pss-sha512', 'PS512'],
    [false, 'rsa', 'rsa-pss-sha512', ''],
    [false, 'rsa', 'rsa-pss-sha512', 'none'],
    [false, 'rsa', 'hmac', 'hmac-sha256'],
    [false, 'secret', 'hmac', 'rsa-v1_5-sha256'],
    [false, 'secret', 'hmac', 'ed25519'],
    [false, 'p256', 'ecdsa-p256-sha256', 'ecdsa-p384-sha384'],
    [false, 'p384', 'ecdsa-p384-sha384', 'ecdsa-p256-sha256'],
    [false, 'p384', 'ecdsa-p256-sha256', 'ecdsa-p256-sha256'],
    [false, 'ed25519', 'ed25519', 'ecdsa-p256-sha256'],
    [false, 'ed25519', 'ed25519', 'rsa-pss-sha512'],
    [false, 'weak', 'rsa-v1_5-sha256', 'rsa-v1_5-sha256'],
    [false, 'k1k1', 'ecdsa-p256-sha256', 'ecdsa-p256-sha256'],
    [false, 'k1k1', 'ecdsa-p256-sha256', null]
  ]
  for (const [passes, keyId, signer, alg] of cases) {
    const sign = signer === 'hmac' ? sha256 : signers[signer]!(ids[keyId]!)
    const params = `${by(keyId)}${alg === null ? '' : `;alg="${alg}"`}`
    const answer = await sent(gw, '/a/', message(usual(), params, sign))
    const name = `${keyId}: ${signer} as ${alg}`
    if (passes) t.equal(answer.status, 200, name)
    else t.same(said(answer), WRONG, name)
  }
})

t.test('a public key is no secret, and a key uses only what it may', async t => {
  const gw = await gateway(t, { clock: handClock(), apis: [signedApi(options())] })
  const publicPem = String(pairs.rsa.publicKey.export({ format: 'pem', type: 'spki' }))
  const rsa_certificate_id = await stored(gw, publicPem)
  const rsa = { enable_http_signature_validation: true, rsa_certificate_id }
  await keyNamed(gw, 'rsa', rsa)
  await keyNamed(gw, 'both', { ...mac, ...rsa })
  await keyNamed(gw, 'off', { hmac_string: SECRET, rsa_certificate_id })
  await keyNamed(gw, 'empty', { hmac_enabled: true, hmac_string: '' })
  await keyNamed(gw, 'base64', { hmac_enabled: true, hmac_string: Buffer.alloc(20, 7).toString('base64') })
  await keyNamed(gw, 'short', { hmac_enabled: true, hmac_string: 'QUJD' })
  const pss = signers['rsa-pss-sha512']!(pairs.rsa.privateKey)
  const cases: [passes: boolean, name: string, headers: object][] = [
    [true, 'both, the secret named', message(usual(), `${by('both')};alg="hmac-sha256"`, sha256)],
    [true, 'both, the public key named', message(usual(), `${by('both')};alg="rsa-pss-sha512"`, pss)],
    [true, 'both, unnamed: the public key', message(usual(), by('both'), pss)],
    [
      true,
      'base64: its text',
      message(usual(), by('base64'), byHmac('sha256', Buffer.alloc(20, 7).toString('base64')))
    ],
    [true, 'base64: its bytes', message(usual(), by('base64'), byHmac('sha256', Buffer.alloc(20, 7)))],
    [true, 'short base64: its text', message(usual(), by('short'), byHmac('sha256', 'QUJD'))],
    [false, 'short base64: its bytes', message(usual(), by('short'), byHmac('sha256', 'ABC'))],
    [false, 'both, unnamed: the secret', message(usual(), by('both'), sha256)],
    [
      false,
      'the public key as a secret',
      message(usual(), `${by('rsa')};alg="hmac-sha256"`, byHmac('sha256', publicPem))
    ],
    [false, 'the same, unnamed', message(usual(), by('rsa'), byHmac('sha256', publicPem))],
    [
      false,
      'the same beside a secret',
      message(usual(), `${by('both')};alg="hmac-sha256"`, byHmac('sha256', publicPem))
    ],
    [false, 'the secret is off', message(usual(), by('off'), sha256)],
    [false, 'the public key is off', message(usual(), `${by('off')};alg="rsa-pss-sha512"`, pss)],
    [false, 'an empty secret', message(usual(), by('empty'), byHmac('sha256', ''))]
  ]
  for (const [passes, name, headers] of cases) {
    const answer = await sent(gw, '/a/', headers)
    if (passes) t.equal(answer.status, 200, name)
    else t.same(said(answer), WRONG, name)
  }
})

t.test('allowedAlgorithms counts whether the algorithm is named or not', async t => {
  const only = options({ allowedAlgorithms: ['rsa-v1_5-sha256'] })
  const gw = await gateway(t, { clock: handClock(), apis: [signedApi(only)] })
  const rsa_certificate_id = await stored(gw, pairs.rsa.publicKey)
  await keyNamed(gw, 'rsa', { enable_http_signature_validation: true, rsa_certificate_id })
  await keyNamed(gw, 'secret', mac)
  const v15 = signers['rsa-v1_5-sha256']!(pairs.rsa.privateKey)
  const pss = signers['rsa-pss-sha512']!(pairs.rsa.privateKey)
  t.equal((await sent(gw, '/a/', message(usual(), by('rsa'), v15))).status, 200)
  t.equal((await sent(gw, '/a/', message(usual(), `${by('rsa')};alg="rsa-v1_5-sha256"`, v15))).status, 200)
  for (const headers of [
    message(usual(), by('rsa'), pss),
    message(usual(), `${by('rsa')};alg="rsa-pss-sha512"`, pss),
    message(usual(), by('secret'), sha256),
    message(usual(), `${by('secret')};alg="hmac-sha256"`, sha256)
  ])
    t.same(said(await sent(gw, '/a/', headers)), WRONG)
})

t.test('each covered part counts, and no other', async t => {
  const gw = await gateway(t, { clock: handClock(), apis: [signedApi(free)] })
  await keyNamed(gw, 'ada', mac)
  const path = '/a/x%2fY//z?q=%20A&b&&name=J%C3%BCrgen+M&c=%'
  const lines: Lines = [
    ['"@method"', 'PUT'],
    ['"@target-uri"', `http://api.example:8080${path}`],
    ['"@authority"', 'api.example:8080'],
    ['"@scheme"', 'http'],
    ['"@request-target"', path],
    ['"@path"', '/a/x%2fY//z'],
    ['"@query"', '?q=%20A&b&&name=J%C3%BCrgen+M&c=%'],
    ['"@query-param";name="name"', 'J%C3%BCrgen%20M'],
    ['"@query-param";name="b"', ''],
    ['"x-a"', 'one, two,three'],
    ['"x-empty"', ''],
    ['"x-a";bs', ':b25l:, :dHdvLHRocmVl:'],
    ['"x-dict";key="b"', '(1 2);x'],
    ['"x-dict";key="a"', '1'],
    ['"x-dict";key="c"', '?1'],
    ['"priority";sf', 'u=1, i']
  ]
  const pairs = [
    'Host',
    'API.example:8080',
    'X-A',
    'one',
    'x-a',
    '  two,three ',
    'X-Empty',
    '',
    'X-Dict',
    'a=1,  b=( 1  2 );x',
    'X-Dict',
    'c',
    'Priority',
    'u=1 ,i'
  ]
  const put = (signed: Record<string, string>, given = pairs, to = path, method = 'PUT') =>
    ask(gw, to, { method, headers: [...given, ...Object.entries(signed).flat()] })
  for (const line of lines) {
    const signed = message([line], by('ada'), sha256)
    t.equal((await put(signed)).status, 200, line[0])
    const other = message([[line[0], `${line[1]}x`]], by('ada'), sha256)
    t.same(said(await put(other)), WRONG, `${line[0]} has another value`)
  }
  const all = message(lines, by('ada'), sha256)
  t.equal((await put(all)).status, 200)
  t.equal((await put(all, [...pairs, 'X-Other', '1'])).status, 200)
  const changed = (from: string, to: string) => pairs.map(text => text.replace(from, to))
  const mutations: [name: string, answer: Promise<Answered>][] = [
    ['method', put(all, pairs, path, 'POST')],
    ['method in lower case', put(message([['"@method"', 'put']], by('ada'), sha256))],
    ['path', put(all, pairs, path.replace('%2f', '%2F'))],
    ['query', put(all, pairs, `${path}1`)],
    ['query order', put(all, pairs, path.replace('q=%20A&b', 'b&q=%20A'))],
    ['host', put(all, changed('API.example:8080', 'api.example'))],
    ['a field', put(all, changed('two,three', 'two, three'))],
    ['a field more', put(all, [...pairs, 'X-A', ''])],
    ['an empty field', put(all, [...pairs, 'X-Empty', ''])],
    ['a member', put(all, changed('( 1  2 )', '(1 3)'))],
    ['a parameter', put(all, changed(';x', ';y'))],
    ['a strict field', put(all, changed('u=1', 'u=2'))]
  ]
  for (const [name, answer] of mutations) t.same(said(await answer), WRONG, name)
  for (const left of ['X-A', 'X-Empty', 'X-Dict', 'Priority']) {
    const kept = pairs.filter((_, i) => pairs[i - (i % 2)]!.toLowerCase() !== left.toLowerCase())
    t.same(said(await put(all, kept)), WRONG, `without ${left}`)
  }
  for (let at = 0; at < lines.length; at++) {
    const fewer = message(lines.toSpliced(at, 1), by('ada'), sha256)
    t.same(said(await put({ ...fewer, Signature: all.Signature })), WRONG, `${lines[at]![0]} left out of the input`)
  }
  const turned = message([...lines].reverse(), by('ada'), sha256)
  t.same(said(await put({ ...turned, Signature: all.Signature })), WRONG, 'another order')
})

t.test('components that a request does not have, or that nobody can read, are refused', async t => {
  const gw = await gateway(t, { clock: handClock(), apis: [signedApi(free)] })
  await keyNamed(gw, 'ada', mac)
  const headers = { 'X-A': 'one', 'X-List': '1, 2', 'X-Dict': 'a=1', Priority: 'u=(' }
  const path = '/a/?a=1&a=2&b=%FF&c=1'
  const cases: [passes: boolean, identifier: string, value: string][] = [
    [true, '"@query-param";name="c"', '1'],
    [false, '"@query-param";name="a"', '1'],
    [false, '"@query-param";name="b"', '%EF%BF%BD'],
    [false, '"@query-param";name="d"', ''],
    [false, '"@query-param"', '1'],
    [false, '"@query-param";name=c', '1'],
    [false, '"@query-param";name="c";x', '1'],
    [false, '"@status"', '200'],
    [false, '"@signature-params"', ''],
    [false, '"@method";req', 'GET'],
    [false, '"@method";x', 'GET'],
    [false, '"@Method"', 'GET'],
    [false, '"@nothing"', ''],
    [false, '"x-b"', ''],
    [false, '""', ''],
    [false, '"X-A"', 'one'],
    [false, '"x-a";req', 'one'],
    [false, '"x-a";tr', 'one'],
    [false, '"x-a";sf', 'one'],
    [false, '"x-a";x', 'one'],
    [false, '"x-a";bs=1', ':b25l:'],
    [false, '"x-a";bs;sf', ':b25l:'],
    [false, '"x-dict";key="b"', ''],
    [false, '"x-dict";key=a', '1'],
    [false, '"x-dict";key', '1'],
    [false, '"x-list";key="1"', '?1'],
    [false, '"priority";sf', 'u=('],
    [false, 'x-a', 'one'],
    [false, '1', 'one'],
    [false, ':eC1h:', 'one']
  ]
  for (const [passes, identifier, value] of cases) {
    const answer = await sent(gw, path, { ...headers, ...message([[identifier, value]], by('ada'), sha256) })
    if (passes) t.equal(answer.status, 200, identifier)
    else t.same(said(answer), WRONG, identifier)
  }
  const twice: Lines = [
    ['"x-a"', 'one'],
    ['"x-a"', 'one']
  ]
  t.same(said(await sent(gw, path, { ...headers, ...message(twice, by('ada'), sha256) })), WRONG)
})

t.test('query parameters are read as forms are and written anew (RFC 9421 §2.2.8)', async t => {
  const gw = await gateway(t, { clock: handClock(), apis: [signedApi(free)] })
  await keyNamed(gw, 'ada', mac)
  const path =
    "/a/?var=this%20is%20a%20big%0Amultiline%20value&bar=with+plus+whitespace&fa%C3%A7ade%22%3A%20=something&sub=!'()*-._~"
  const lines: Lines = [
    ['"@query-param";name="var"', 'this%20is%20a%20big%0Amultiline%20value'],
    ['"@query-param";name="bar"', 'with%20plus%20whitespace'],
    ['"@query-param";name="fa%C3%A7ade%22%3A%20"', 'something'],
    ['"@query-param";name="sub"', '%21%27%28%29*-._%7E']
  ]
  t.equal((await sent(gw, path, message(lines, by('ada'), sha256))).status, 200)
})

t.test('without a query @query is a question mark; an absolute target is the same request', async t => {
  const gw = await gateway(t, { clock: handClock(), apis: [signedApi(free)] })
  await keyNamed(gw, 'ada', mac)
  const lines: Lines = [...usual(), ['"@query"', '?'], ['"@path"', '/a/'], ['"@authority"', 'api.example']]
  const signed = message(lines, by('ada'), sha256)
  t.equal((await sent(gw, '/a/', signed)).status, 200)
  t.equal((await sent(gw, 'http://api.example:80/a/', signed)).status, 200)
  t.equal((await sent(gw, '/a/', { ...signed, Host: 'Api.Example:80' })).status, 200)
  t.same(said(await sent(gw, '/a/?', signed)), WRONG)
  const target = message([['"@request-target"', 'http://api.example/a/']], by('ada'), sha256)
  t.equal((await sent(gw, 'http://api.example/a/', target)).status, 200)
  t.same(said(await sent(gw, '/a/', target)), WRONG)
})

t.test('the scheme is the client\u2019s own where a trusted proxy tells it', async t => {
  const lines: Lines = [
    ['"@scheme"', 'https'],
    ['"@target-uri"', 'https://api.example/a/'],
    ['"@authority"', 'api.example']
  ]
  for (const trusted_proxies of [['127.0.0.1'], []]) {
    const gw = await gateway(t, {
      clock: handClock(),
      apis: [signedApi(free)],
      settings: { gateway: { trusted_proxies } }
    })
    await keyNamed(gw, 'ada', mac)
    const forwarded = { ...message(lines, by('ada'), sha256), Host: 'api.example:443', 'X-Forwarded-Proto': 'https' }
    const answer = await sent(gw, '/a/', forwarded)
    if (trusted_proxies.length > 0) t.equal(answer.status, 200)
    else t.same(said(answer), WRONG)
    t.same(said(await sent(gw, '/a/', { ...forwarded, 'X-Forwarded-Proto': 'http' })), WRONG)
    const host = {
      ...message([['"@authority"', 'other.example']], by('ada'), sha256),
      'X-Forwarded-Host': 'other.example'
    }
    t.same(said(await sent(gw, '/a/', host)), WRONG, 'X-Forwarded-Host never counts')
  }
})

t.test('required components must be covered', async t => {
  const required = { requiredComponents: ['@method', 'x-a', '@query-param;name="id"', 'content-digest'] }
  const gw = await gateway(t, {
    clock: handClock(),
    apis: [
      signedApi(options(required)),
      signedApi(
        options({ requiredComponents: ['no"name', 'gr\u00fc\u00df', 'a\nb', 'x;', '@method'] }),
        'svc://echo',
        'shut'
      )
    ]
  })
  await keyNamed(gw, 'ada', { ...mac, ...rights('a', 'shut') })
  const digest = `sha-256=:${createHash('sha256').digest('base64')}:`
  const lines: Lines = [
    ['"@method"', 'GET'],
    ['"x-a"', 'one'],
    ['"@query-param";name="id"', '1'],
    ['"content-digest"', digest]
  ]
  const headers = { 'X-A': 'one', 'Content-Digest': digest }
  const asked = (given: Lines) => sent(gw, '/a/?id=1&ie=1', { ...headers, ...message(given, by('ada'), sha256) })
  t.equal((await asked(lines)).status, 200)
  t.equal((await asked([...lines.toReversed(), ['"@path"', '/a/']])).status, 200)
  t.equal((await asked(lines.toSpliced(1, 1, ['"x-a";bs', ':b25l:']))).status, 200)
  t.equal((await asked(lines.toSpliced(3, 1, ['"content-digest";sf', digest]))).status, 200)
  for (let at = 0; at < lines.length; at++) t.same(said(await asked(lines.toSpliced(at, 1))), WRONG, lines[at]![0])
  t.same(said(await asked(lines.toSpliced(2, 1, ['"@query-param";name="ie"', '1']))), WRONG)
  const member: Lines[number] = ['"content-digest";key="sha-256"', digest.slice('sha-256='.length)]
  t.same(said(await asked(lines.toSpliced(3, 1, member))), WRONG, 'a member is not the field')
  t.equal(
    (await asked([])).headers['accept-signature'],
    'sig=("@method" "x-a" "@query-param";name="id" "content-digest");created'
  )
  const shut = await sent(gw, '/shut/', message([['"@method"', 'GET']], by('ada'), sha256))
  t.same(said(shut), WRONG)
  t.equal(shut.headers['accept-signature'], 'sig=("@method");created')
})

t.test('created and expires count to the second', async t => {
  const clock = handClock()
  const gw = await gateway(t, {
    clock,
    apis: [
      signedApi(options({ allowedClockSkew: 30, maxAge: 300 })),
      signedApi(options({ allowedClockSkew: 0, maxAge: 0 }), 'svc://echo', 'ageless')
    ]
  })
  await keyNamed(gw, 'ada', { ...mac, ...rights('a', 'ageless') })
  const cases: [passes: boolean, api: string, params: string][] = [
    [true, 'a', `;created=${NOW}`],
    [true, 'a', `;created=${NOW + 30}`],
    [false, 'a', `;created=${NOW + 31}`],
    [true, 'a', `;created=${NOW - 300}`],
    [false, 'a', `;created=${NOW - 301}`],
    [false, 'a', ''],
    [false, 'a', `;expires=${NOW + 60}`],
    [true, 'a', `;created=${NOW};expires=${NOW + 60}`],
    [true, 'a', `;created=${NOW};expires=${NOW}`],
    [true, 'a', `;created=${NOW - 60};expires=${NOW - 30}`],
    [false, 'a', `;created=${NOW - 60};expires=${NOW - 31}`],
    [false, 'a', `;created="${NOW}"`],
    [false, 'a', `;created=${NOW}.5`],
    [false, 'a', `;created=@${NOW}`],
    [false, 'a', ';created'],
    [false, 'a', ';created=x'],
    [false, 'a', `;created=${NOW};expires="${NOW + 60}"`],
    [false, 'a', `;created=${NOW};expires`],
    [false, 'a', ';created=-1'],
    [false, 'a', ';created=999999999999999'],
    [false, 'a', ';created=9999999999999999'],
    [true, 'ageless', ''],
    [true, 'ageless', ';created=1'],
    [true, 'ageless', `;created=${NOW}`],
    [false, 'ageless', `;created=${NOW + 1}`],
    [true, 'ageless', `;expires=${NOW}`],
    [false, 'ageless', `;expires=${NOW - 1}`]
  ]
  for (const [passes, id, times] of cases) {
    const headers = message(usual(`/${id}/`), `${times};keyid="ada"`, sha256)
    const answer = await sent(gw, `/${id}/`, headers)
    if (passes) t.equal(answer.status, 200, `${id} ${times}`)
    else t.same(said(answer), WRONG, `${id} ${times}`)
  }
  const headers = message(usual(), by('ada'), sha256)
  await clock.move(300_000)
  t.equal((await sent(gw, '/a/', headers)).status, 200, 'at its greatest age')
  await clock.move(1)
  t.same(said(await sent(gw, '/a/', headers)), WRONG, 'a millisecond later')
})

t.test('parameters: keyid must be there, nonce and tag are texts, any other may be, all are signed', async t => {
  const gw = await gateway(t, { clock: handClock(), apis: [signedApi(options())] })
  await keyNamed(gw, 'ada', mac)
  const cases: [passes: boolean, params: string][] = [
    [true, `;keyid="ada";created=${NOW}`],
    [true, `${by('ada')};nonce="n";tag="t"`],
    [true, `${by('ada')};x;y=?0;z=1.25;b=:AAAA:;t=*token/x`],
    [false, `;created=${NOW}`],
    [false, `;created=${NOW};keyid=""`],
    [false, `;created=${NOW};keyid=ada`],
    [false, `;created=${NOW};keyid`],
    [false, `;created=${NOW};keyid=:YWRh:`],
    [false, `${by('ada')};nonce=n`],
    [false, `${by('ada')};tag`],
    [false, `${by('ada')};alg=hmac-sha256`],
    [false, `${by('ada')};X=1`],
    [false, `${by('ada')};x=`],
    [false, `${by('ada')} ;x`],
    [false, by(`${'x'.repeat(3000)}`)]
  ]
  for (const [passes, params] of cases) {
    const answer = await sent(gw, '/a/', message(usual(), params, sha256))
    if (passes) t.equal(answer.status, 200, params)
    else t.same(said(answer), WRONG, params.slice(0, 100))
  }
  const signed = message(usual(), `${by('ada')};nonce="n";tag="t"`, sha256)
  for (const [from, to] of [
    ['"n"', '"m"'],
    ['"t"', '"s"'],
    [';tag="t"', ''],
    [`${NOW}`, `${NOW + 1}`],
    ['"ada"', '"adb"']
  ] as const) {
    const input = signed['Signature-Input'].replace(from, to)
    t.same(said(await sent(gw, '/a/', { ...signed, 'Signature-Input': input })), WRONG, input)
  }
  // Written otherwise, the same.
  const loose = signed['Signature-Input'].replace('("@method" ', '(  "@method"   ').replace(';nonce', ';  nonce')
  t.equal((await sent(gw, '/a/', { ...signed, 'Signature-Input': loose })).status, 200)
})

t.test('of several signatures the first that verifies counts, among the first five', async t => {
  const gw = await gateway(t, { clock: handClock(), apis: [signedApi(options(), (await upstream(t, tell)).url)] })
  const rsa_certificate_id = await stored(gw, pairs.rsa.publicKey)
  await keyNamed(gw, 'ada', mac)
  await keyNamed(gw, 'bob', { ...mac, enable_http_signature_validation: true, rsa_certificate_id })
  await keyNamed(gw, 'lost', { enable_http_signature_validation: true, rsa_certificate_id: 'default0123' })
  const one = (label: string, keyId: string, secret = SECRET) =>
    message(usual(), by(keyId), byHmac('sha256', secret), label)
  const both = (...signed: readonly Record<string, string>[]) => ({
    'Signature-Input': signed.map(each => each['Signature-Input']).join(', '),
    Signature: signed.map(each => each.Signature).join(', ')
  })
  const right = one('right', 'ada')
  const wrong = (label: string) => one(label, 'ada', 'another')
  const cases: [expected: 200 | readonly unknown[], name: string, headers: Record<string, string | string[]>][] = [
    [200, 'the second', both(wrong('a'), right)],
    [200, 'the first', both(right, wrong('b'))],
    [200, 'the fifth', both(wrong('a'), wrong('b'), wrong('c'), wrong('d'), right)],
    [WRONG, 'the sixth', both(wrong('a'), wrong('b'), wrong('c'), wrong('d'), wrong('e'), right)],
    [200, 'behind one of an unknown key', both(one('a', 'eve'), right)],
    [200, 'behind one without its certificate', both(one('a', 'lost'), right)],
    [NO_CERTIFICATE, 'without its certificate, and a wrong one', both(one('a', 'lost'), wrong('b'))],
    [NO_CERTIFICATE, 'a wrong one, and without its certificate', both(wrong('b'), one('a', 'lost'))],
    [200, 'behind one that is none', { ...right, 'Signature-Input': `a=1, b, ${right['Signature-Input']}` }],
    [200, 'a label without an input', { ...right, Signature: `a=:AAAA:, ${right.Signature}` }],
    [WRONG, 'labels that do not meet', { ...right, Signature: right.Signature.replace('right', 'left') }],
    [200, 'of a label that stands twice the last counts', both(wrong('right'), right)],
    [WRONG, 'not the first', both(right, wrong('right'))],
    [WRONG, 'an input that is no dictionary', { ...right, 'Signature-Input': `${right['Signature-Input']}, ` }],
    [WRONG, 'an input that breaks off', { ...right, 'Signature-Input': right['Signature-Input'].slice(0, -1) }],
    [WRONG, 'a signature that is no dictionary', { ...right, Signature: `${right.Signature},,` }],
    [WRONG, 'a signature that is a text', { ...right, Signature: right.Signature.replaceAll(':', '"') }],
    [WRONG, 'a signature that is no base64', { ...right, Signature: 'right=:????:' }],
    [WRONG, 'an empty one', { ...right, Signature: 'right=::' }],
    [WRONG, 'empty fields', { 'Signature-Input': '', Signature: '' }],
    [WRONG, 'upper case labels', one('Right', 'ada')]
  ]
  for (const [expected, name, headers] of cases) {
    const answer = await sent(gw, '/a/', headers)
    if (expected === 200) t.equal(answer.status, 200, name)
    else t.same(said(answer), expected, name)
  }
  const lines = both(wrong('a'), right)
  const split = Object.fromEntries(Object.entries(lines).map(([name, value]) => [name, value.split(/, (?=[a-z]+=)/)]))
  t.equal((await sent(gw, '/a/', split)).status, 200, 'on several lines')
})

t.test('fields of any size are answered', async t => {
  const gw = await gateway(t, { clock: handClock(), apis: [signedApi(free)] })
  await keyNamed(gw, 'ada', mac)
  const names = Array.from({ length: 101 }, (_, i) => `x${i}`)
  const headers = Object.fromEntries(names.map(name => [name, '']))
  const lines: Lines = names.map(name => [`"${name}"`, ''])
  t.equal((await sent(gw, '/a/', { ...headers, ...message(lines.slice(1), by('ada'), sha256) })).status, 200)
  t.same(said(await sent(gw, '/a/', { ...headers, ...message(lines, by('ada'), sha256) })), WRONG)
  const many: Lines = Array.from({ length: 3000 }, () => ['"a"', ''])
  const floods: Record<string, string>[] = [
    message(many, by('ada'), sha256),
    { 'Signature-Input': `sig=${'('.repeat(12_000)}`, Signature: 'sig=:AAAA:' },
    { 'Signature-Input': `sig=();${' '.repeat(12_000)}x`, Signature: 'sig=:AAAA:' },
    { 'Signature-Input': Array.from({ length: 1500 }, (_, i) => `s${i}=()`).join(','), Signature: 'sig=:AAAA:' },
    { 'Signature-Input': 'sig=()', Signature: `sig=:${'A'.repeat(12_000)}:` },
    { 'Signature-Input': `sig=("${'\\"'.repeat(6000)})`, Signature: 'sig=:AAAA:' }
  ]
  for (const flood of floods) t.same(said(await sent(gw, '/a/', flood)), WRONG)
  // A long dictionary and a long query, each named as often as may be.
  const members = names.slice(1).map(name => `"d";key="${name}"`)
  const params = names.slice(1).map(name => `"@query-param";name="${name}"`)
  for (const identifiers of [members, params]) {
    const fields = {
      'Signature-Input': `sig=(${identifiers.join(' ')})${by('ada')}`,
      Signature: 'sig=:AAAA:',
      D: names.map(name => name.repeat(20)).join(',')
    }
    t.same(said(await sent(gw, `/a/?${names.join('=&')}`, fields)), WRONG)
  }
})

t.test('a covered Content-Digest is held against the body', async t => {
  const up = await upstream(t, tell)
  const gw = await gateway(t, { clock: handClock(), apis: [signedApi(free, up.url)] })
  await keyNamed(gw, 'ada', mac)
  const body = '{"hello": "world"}'
  const of = (name: string, text: string) =>
    `${name}=:${createHash(name.replace('-', '')).update(text).digest('base64')}:`
  const right = of('sha-256', body)
  const long = of('sha-512', body)
  const covered = (digest: string, identifier = '"content-digest"', value = digest) => ({
    'Content-Digest': digest,
    ...message([[identifier, value]], by('ada'), sha256)
  })
  const member = (digest: string) => digest.slice(digest.indexOf('=') + 1)
  const cases: [passes: boolean, name: string, headers: object, body: string][] = [
    [true, 'sha-256', covered(right), body],
    [true, 'sha-512', covered(long), body],
    [true, 'both', covered(`${right}, ${long}`), body],
    [true, 'with one that is not looked at', covered(`md5=:AAAA:, ${right}`), body],
    [true, 'a member', covered(right, '"content-digest";key="sha-256"', member(right)), body],
    [true, 'strictly written', covered(right, '"content-digest";sf'), body],
    [true, 'as bytes', covered(right, '"content-digest";bs', `:${Buffer.from(right).toString('base64')}:`), body],
    [true, 'an empty body', covered(of('sha-256', '')), ''],
    [true, 'not covered', { 'Content-Digest': of('sha-256', 'x'), ...message([], by('ada'), sha256) }, body],
    [false, 'another body', covered(right), `${body} `],
    [false, 'no body', covered(right), ''],
    [false, 'a body where none was signed', covered(of('sha-256', '')), body],
    [false, 'one of two is wrong', covered(`${right}, ${of('sha-512', 'x')}`), body],
    [
      false,
      'a covered member, and a wrong one',
      covered(`${right}, ${of('sha-512', 'x')}`, '"content-digest";key="sha-256"', member(right)),
      body
    ],
    [
      false,
      'a member that is not looked at, and a right one',
      covered(`md5=:AAAA:, ${right}`, '"content-digest";key="md5"', ':AAAA:'),
      body
    ],
    [false, 'none that is looked at', covered('md5=:AAAA:'), body],
    [false, 'weak ones', covered('sha=:AAAA:, unixsum=:AAAA:, crc32c=:AAAA:'), body],
    [false, 'a digest that is a text', covered(right.replaceAll(':', '"')), body],
    [false, 'a short digest', covered('sha-256=:AAAA:'), body],
    [false, 'an empty digest', covered('sha-256=::'), body],
    [false, 'no dictionary', covered(`${right},`), body],
    [false, 'empty', covered(''), body]
  ]
  for (const [passes, name, headers, bytes] of cases)
    for (const framing of [
      { 'Content-Length': String(Buffer.byteLength(bytes)) },
      { 'Transfer-Encoding': 'chunked' }
    ]) {
      const answer = await sent(gw, '/a/', { ...headers, ...framing }, { method: 'POST', body: bytes })
      const told = `${name} ${JSON.stringify(framing)}`
      if (passes) {
        t.equal(answer.status, 200, told)
        t.equal(answer.json.body, bytes, 'the upstream gets it')
      } else t.same(said(answer), WRONG, told)
    }
  t.equal((await sent(gw, '/a/', covered(of('sha-256', '')))).status, 200, 'GET without a body')
  const waiting = { ...covered(right), Expect: '100-continue', 'Content-Length': String(body.length) }
  t.equal((await expecting(gw, waiting, body)).status, 200, 'a client that waits for 100')
})

/** Sends the body once it is asked for. */
function expecting(gw: TestGateway, headers: object, body: string): Promise<{ status: number }> {
  const { hostname, port } = new URL(gw.url)
  return new Promise((resolve, reject) => {
    const req = request({ hostname, port, path: '/a/', method: 'POST', headers: { Host: 'api.example', ...headers } })
    req.on('continue', () => req.end(body))
    req.on('response', res => resolve({ status: res.resume().statusCode! }))
    req.on('error', reject)
    req.flushHeaders()
  })
}

t.test('a body that is too long is refused, and one that was not signed for is not even read', async t => {
  const settings = { gateway: { http_server_options: { max_request_body_size: 1000 } } }
  const gw = await gateway(t, { clock: handClock(), settings, apis: [signedApi(free)] })
  await keyNamed(gw, 'ada', mac)
  const body = 'x'.repeat(1001)
  const digest = `sha-256=:${createHash('sha256').update(body).digest('base64')}:`
  const headers = { 'Content-Digest': digest, 'Transfer-Encoding': 'chunked' }
  const right = message([['"content-digest"', digest]], by('ada'), sha256)
  t.equal((await sent(gw, '/a/', { ...headers, ...right }, { method: 'POST', body })).status, 413)
  const wrong = message([['"content-digest"', digest]], by('ada'), byHmac('sha256', 'x'))
  t.same(said(await sent(gw, '/a/', { ...headers, ...wrong }, { method: 'POST', body })), WRONG)
})

t.test('bodies that were read give their place back, also where requests are validated', async t => {
  const document: any = api(
    'a',
    'svc://echo',
    {
      server: { authentication: { enabled: true, ...free } },
      middleware: { operations: { put: { validateRequest: { enabled: true } } } }
    },
    {
      '/': {
        put: {
          operationId: 'put',
          requestBody: {
            required: true,
            content: { 'application/json': { schema: { type: 'object', required: ['a'] } } }
          }
        }
      }
    }
  )
  const gw = await gateway(t, { clock: handClock(), apis: [document] })
  await keyNamed(gw, 'ada', mac)
  const asked = (body: string) => {
    const digest = `sha-256=:${createHash('sha256').update(body).digest('base64')}:`
    const signed = message([['"content-digest"', digest]], by('ada'), sha256)
    const headers = { 'Content-Type': 'application/json', 'Content-Digest': digest, ...signed }
    return sent(gw, '/a/', headers, { method: 'PUT', body })
  }
  t.equal((await asked('{"a":1}')).status, 200)
  t.equal((await asked('{}')).status, 422)
  // 270 MB in all: more than may be kept at once.
  const long = JSON.stringify({ a: 'x'.repeat(3_900_000) })
  for (let i = 0; i < 70; i++) if ((await asked(long)).status !== 200) t.fail(`request ${i} was refused`)
})

t.test('stripAuthorizationData takes both fields out; without it they go up', async t => {
  const up = await upstream(t, tell)
  const strips = { ...options(), stripAuthorizationData: true }
  const gw = await gateway(t, {
    clock: handClock(),
    apis: [signedApi(strips, up.url), signedApi(options(), up.url, 'kept')]
  })
  await keyNamed(gw, 'ada', { ...mac, ...rights('a', 'kept') })
  for (const id of ['a', 'kept']) {
    const signed = message(usual(`/${id}/`), by('ada'), sha256)
    const { status, json } = await sent(gw, `/${id}/`, { ...signed, Authorization: 'x' })
    t.equal(status, 200)
    t.same(valuesOf(json.headers, 'signature'), id === 'a' ? [] : [signed.Signature])
    t.same(valuesOf(json.headers, 'signature-input'), id === 'a' ? [] : [signed['Signature-Input']])
    t.same(valuesOf(json.headers, 'authorization'), ['x'])
  }
})

t.test('keys of others, without rights, deleted or past their end do not get in', async t => {
  const clock = handClock()
  const gw = await gateway(t, { clock, apis: [signedApi(options())] })
  await keyNamed(gw, 'ada', mac)
  await keyNamed(gw, 'eve', { ...mac, org_id: 'other' })
  await gw.svc('POST', '/svc/keys/bob', { ...mac, ...rights('b') })
  await keyNamed(gw, 'old', { ...mac, expires: NOW - 1 })
  await keyNamed(gw, 'idle', { ...mac, is_inactive: true })
  const asked = async (keyId: string) => said(await sent(gw, '/a/', message(usual(), by(keyId), sha256)))
  t.equal((await asked('ada'))[0], 200)
  t.same(await asked('eve'), WRONG)
  t.equal((await asked('bob'))[0], 403)
  t.same(await asked('old'), [401, '{"error":"Key has expired, please renew"}'])
  t.same(await asked('idle'), [403, '{"error":"Key is inactive, please renew"}'])
  await gw.svc('DELETE', '/svc/keys/ada')
  t.same(await asked('ada'), WRONG)
})
