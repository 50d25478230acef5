import { createSecretKey } from 'node:crypto'
import t from 'tap'
import { readJws } from '../../../gateway/authentication/jwt/compact.ts'
import { isSigned } from '../../../gateway/authentication/jwt/signature.ts'
import { handClock } from '../../helpers/clock.ts'
import { gateway, rights } from '../../helpers/gateway.ts'
import { upstream } from '../../helpers/upstream.ts'
import { externalApi, jwtApi, policy, put } from './apis.ts'
import { b64, ec, ed25519, type Json, jwk, type Pair, pem, plain, rsa, signature, signed } from './signing.ts'

/** Tokens right, wrong and in between, each with what the gateway says to it; over HTTP, on a clock that stands. */

const clock = handClock()
const NOW = clock.now() / 1000

const SECRET = 'a secret of thirty-two bytes ...'
const OWN_SECRET = 'another secret, which a key has'
const r1 = rsa()
const r2 = rsa()
const foreign = rsa()
const weak = rsa(1024)
const owned = rsa()
const e256 = ec('ES256')
const e384 = ec('ES384')
const e512 = ec('ES512')
const koblitz = ec('secp256k1')
const ed = ed25519()

const all = {
  keys: [
    jwk(r1, { kid: 'one' }),
    jwk(r2, { kid: 'bound', alg: 'RS512', use: 'sig', key_ops: ['verify'] }),
    jwk(r1, { kid: 'encrypts', use: 'enc' }),
    jwk(r1, { kid: 'signs', key_ops: ['sign'] }),
    jwk(r1, { kid: 'listless', key_ops: 'verify' }),
    jwk(weak, { kid: 'weak' }),
    { ...jwk(r1, { kid: 'exponent' }), e: 'AQ' },
    { ...jwk(r1, { kid: 'even' }), e: 'AQAA' },
    { kty: 'RSA', kid: 'broken', n: 'AAAA' },
    { kty: 'RSA', kid: 'numbers', n: 1, e: 2 },
    { kty: 'oct', kid: 'secret', k: b64(SECRET) },
    jwk(e256, { kid: 'p256' }),
    jwk(e384, { kid: 'p384' }),
    jwk(e512, { kid: 'p521' }),
    jwk(koblitz, { kid: 'koblitz' }),
    { ...jwk(e256, { kid: 'off the curve' }), y: jwk(e256).x },
    jwk(ed, { kid: 'ed' }),
    jwk(r1, { kid: 'twice' }),
    jwk(r2, { kid: 'twice' }),
    jwk(r1, { kid: '' }),
    jwk(r1, { kid: '../../one' })
  ]
}

const INVALID = 'Key not authorized'
const METHOD = 'Key not authorized: Unexpected signing method'
const NOBODY = 'no suitable claims for user ID were found'
const EXPIRED = 'Key not authorized: token has expired'
const EARLY = 'Key not authorized: token is not valid yet'
const BEFORE = 'Key not authorized: token used before issued'

const server = await upstream(t, (req, res) => {
  if (req.url === '/jwks') res.end(JSON.stringify(all))
  else res.end('reached')
})
const gw = await gateway(t, { clock })
const sets = { jwksURIs: [{ url: `${server.url}/jwks` }], defaultPolicies: ['open'] }
const claims = {
  source: Buffer.from(SECRET).toString('base64'),
  defaultPolicies: ['open'],
  allowedIssuers: ['https://idp', 'https://other'],
  allowedAudiences: ['shop', 'stock'],
  allowedSubjects: ['ann', 'bob'],
  jtiValidation: { enabled: true },
  customClaimValidation: {
    tenant: { type: 'required' },
    'address.city': { type: 'exact_match', allowedValues: ['Oslo', 7, ['a', 'b']] },
    roles: { type: 'contains', allowedValues: ['admin', 3] },
    colour: { type: 'exact_match', allowedValues: ['red'], nonBlocking: true }
  }
}
const hs = { source: Buffer.from(SECRET).toString('base64'), defaultPolicies: ['open'] }
const skews = { issuedAtValidationSkew: 5, notBeforeValidationSkew: 10, expiresAtValidationSkew: 20 }
const apis: Readonly<Record<string, object>> = {
  rsa: { ...sets, signingMethod: 'rsa' },
  ecdsa: { ...sets, signingMethod: 'ecdsa' },
  eddsa: { ...sets, signingMethod: 'eddsa' },
  hmac: hs,
  pem: { source: pem(r1), signingMethod: 'rsa', defaultPolicies: ['open'] },
  pem64: { source: Buffer.from(pem(e384)).toString('base64'), signingMethod: 'ecdsa', defaultPolicies: ['open'] },
  skewed: { ...hs, ...skews },
  claims,
  owner: { signingMethod: 'hmac' },
  ownerRsa: { signingMethod: 'rsa', skipKid: true },
  subject: { ...hs, subjectClaims: ['user.id', 'email'], identityBaseField: 'login' },
  noKid: { ...hs, skipKid: true }
}
await policy(gw, 'open', [...Object.keys(apis), 'external', 'externalSet'])
for (const [id, scheme] of Object.entries(apis)) await put(gw, jwtApi(id, server.url, scheme))
await put(
  gw,
  externalApi('external', server.url, { source: Buffer.from(SECRET).toString('base64'), signingMethod: 'hmac' }, [
    'open'
  ])
)
const away = { source: 'http://127.0.0.1:1/', signingMethod: 'rsa' }
await put(gw, externalApi('externalSet', server.url, away, ['open']))
const ownRights = rights('owner', 'ownerRsa')
for (const [name, secret] of [
  ['machine', OWN_SECRET],
  ['rsa machine', pem(owned)],
  ['short', 'fifteen letters'],
  ['public', pem(r1)],
  ['private', owned.privateKey.export({ type: 'pkcs8', format: 'pem' })],
  ['empty', '']
] as const)
  await gw.svc('POST', `/svc/keys/${encodeURIComponent(name)}`, { ...ownRights, jwt_data: { secret } })
await gw.svc('POST', '/svc/keys/without', ownRights)

const who = { sub: 'ann' }
const rs = (header: object = {}, payload: Json = who, pair: Pair = r1) =>
  signed({ alg: 'RS256', kid: 'one', ...header }, payload, pair.privateKey)
const hmac = (payload: Json, header: object = {}) => signed({ alg: 'HS256', ...header }, payload, SECRET)
/** With another header text, signed all the same. */
const header = (text: string | Buffer, payload: Json = who, alg = 'HS256', key: string | Pair = SECRET) => {
  const input = `${b64(text)}.${b64(plain(payload))}`
  return `${input}.${signature(alg, input, typeof key === 'string' ? key : key.privateKey)}`
}
/** Parts as given, signed as they stand. */
const parts = (first: string, second: string) => {
  const input = `${first}.${second}`
  return `${input}.${signature('HS256', input, SECRET)}`
}
const good = hmac(who)
const [goodHeader, goodPayload, goodSignature] = good.split('.') as [string, string, string]
const goodRs = rs()
const flipped = (token: string, part: 0 | 1 | 2) => {
  const all = token.split('.')
  const bytes = Buffer.from(all[part]!, 'base64url')
  bytes[bytes.length >> 1]! ^= 4
  all[part] = bytes.toString('base64url')
  return all.join('.')
}
/** The same bytes in another text: a bit that stands for nothing is set. */
const loose = (text: string) => {
  const signs = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  return text.slice(0, -1) + signs[signs.indexOf(text.at(-1)!) + 1]
}
const HEAD = b64('{"alg":"HS256"}')
const fit = {
  iss: 'https://idp',
  aud: 'shop',
  sub: 'ann',
  jti: '1',
  tenant: 'x',
  address: { city: 'Oslo' },
  roles: ['admin']
}
const but = (change: object) => hmac({ ...fit, ...change })
const no = (what: string) => `Key not authorized: ${what}`
const nested = (depth: number) => `{"sub":"ann","deep":${'['.repeat(depth)}${']'.repeat(depth)}}`
const psSalted = (saltLength: number) => {
  const input = `${b64('{"alg":"PS256","kid":"one"}')}.${b64(plain(who))}`
  const { sign, constants } = process.getBuiltinModule('node:crypto')
  const made = sign('sha256', Buffer.from(input), {
    key: r1.privateKey,
    padding: constants.RSA_PKCS1_PSS_PADDING,
    saltLength
  })
  return `${input}.${made.toString('base64url')}`
}
const der = () => {
  const input = `${b64('{"alg":"ES256","kid":"p256"}')}.${b64(plain(who))}`
  const { sign } = process.getBuiltinModule('node:crypto')
  return `${input}.${sign('sha256', Buffer.from(input), e256.privateKey).toString('base64url')}`
}
/** r and n - s: as valid as r and s. */
const mirrored = (token: string) => {
  const bytes = Buffer.from(token.split('.')[2]!, 'base64url')
  const n = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n
  const s = n - BigInt(`0x${bytes.subarray(32).toString('hex')}`)
  return withSignature(
    token,
    Buffer.concat([bytes.subarray(0, 32), Buffer.from(s.toString(16).padStart(64, '0'), 'hex')])
  )
}
const ecdsa = (alg: string, kid: string, pair: Pair) => signed({ alg, kid }, who, pair.privateKey)
const withSignature = (token: string, bytes: Buffer) => `${token.slice(0, token.lastIndexOf('.'))}.${b64(bytes)}`

type Row = readonly [name: string, api: string, token: string, status: number, message?: string]

const rows: readonly Row[] = [
  // Methods and families.
  ['RS256', 'rsa', goodRs, 200],
  ['RS384', 'rsa', rs({ alg: 'RS384' }), 200],
  ['RS512', 'rsa', rs({ alg: 'RS512' }), 200],
  ['PS256', 'rsa', rs({ alg: 'PS256' }), 200],
  ['PS384', 'rsa', rs({ alg: 'PS384' }), 200],
  ['PS512', 'rsa', rs({ alg: 'PS512' }), 200],
  ['ES256', 'ecdsa', ecdsa('ES256', 'p256', e256), 200],
  ['ES384', 'ecdsa', ecdsa('ES384', 'p384', e384), 200],
  ['ES512', 'ecdsa', ecdsa('ES512', 'p521', e512), 200],
  ['EdDSA', 'eddsa', ecdsa('EdDSA', 'ed', ed), 200],
  ['Ed25519, the newer name', 'eddsa', ecdsa('Ed25519', 'ed', ed), 200],
  ['HS256', 'hmac', good, 200],
  ['HS384', 'hmac', hmac(who, { alg: 'HS384' }), 200],
  ['HS512', 'hmac', hmac(who, { alg: 'HS512' }), 200],
  ['RS256 by a PEM', 'pem', rs({ kid: undefined }), 200],
  ['PS512 by a PEM', 'pem', rs({ alg: 'PS512', kid: 'any' }), 200],
  ['ES384 by a PEM in base64', 'pem64', ecdsa('ES384', 'any', e384), 200],
  ['ES256 for a key of P-384', 'pem64', ecdsa('ES256', 'any', e256), 403, INVALID],
  ['ES256 made with P-384', 'ecdsa', ecdsa('ES256', 'p384', e384), 403, INVALID],
  ['ES384 made with P-256', 'ecdsa', ecdsa('ES384', 'p256', e256), 403, INVALID],
  ['ES512 made with P-256', 'ecdsa', ecdsa('ES512', 'p256', e256), 403, INVALID],
  ['ES256K', 'ecdsa', signed({ alg: 'ES256K', kid: 'koblitz' }, who, koblitz.privateKey, 'ES256'), 403, METHOD],
  ['ES256 with secp256k1', 'ecdsa', ecdsa('ES256', 'koblitz', koblitz), 403, INVALID],
  ['a point off the curve', 'ecdsa', ecdsa('ES256', 'off the curve', e256), 403, INVALID],
  ['ECDSA, the other signature of the two', 'ecdsa', mirrored(ecdsa('ES256', 'p256', e256)), 200],
  ['ECDSA in DER', 'ecdsa', der(), 403, INVALID],
  ['ECDSA of zeros', 'ecdsa', withSignature(ecdsa('ES256', 'p256', e256), Buffer.alloc(64)), 403, INVALID],
  ['ECDSA, too short', 'ecdsa', withSignature(ecdsa('ES256', 'p256', e256), Buffer.alloc(63, 1)), 403, INVALID],
  ['ECDSA, empty', 'ecdsa', withSignature(ecdsa('ES256', 'p256', e256), Buffer.alloc(0)), 403, INVALID],
  ['EdDSA of zeros', 'eddsa', withSignature(ecdsa('EdDSA', 'ed', ed), Buffer.alloc(64)), 403, INVALID],
  ['EdDSA, too long', 'eddsa', `${ecdsa('EdDSA', 'ed', ed)}AA`, 403, INVALID],
  ['Ed448', 'eddsa', signed({ alg: 'Ed448', kid: 'ed' }, who, ed.privateKey), 403, METHOD],
  ['PS256 with a longer salt', 'rsa', psSalted(48), 403, INVALID],
  ['PS256 without salt', 'rsa', psSalted(0), 403, INVALID],
  ['RS256 said, PS256 signed', 'rsa', signed({ alg: 'RS256', kid: 'one' }, who, r1.privateKey, 'PS256'), 403, INVALID],
  ['RS512 said, RS256 signed', 'rsa', signed({ alg: 'RS512', kid: 'one' }, who, r1.privateKey, 'RS256'), 403, INVALID],
  ['HS512 said, HS256 signed', 'hmac', signed({ alg: 'HS512' }, who, SECRET, 'HS256'), 403, INVALID],

  // Algorithm confusion.
  ['none', 'hmac', `${b64('{"alg":"none"}')}.${goodPayload}.`, 403, METHOD],
  ['none with a signature', 'hmac', `${b64('{"alg":"none"}')}.${goodPayload}.${goodSignature}`, 403, METHOD],
  ['None', 'hmac', `${b64('{"alg":"None"}')}.${goodPayload}.`, 403, METHOD],
  ['NONE', 'rsa', `${b64('{"alg":"NONE"}')}.${goodPayload}.`, 403, METHOD],
  ['nOnE', 'ecdsa', `${b64('{"alg":"nOnE"}')}.${goodPayload}.`, 403, METHOD],
  ['none in a list', 'hmac', header('{"alg":["none"]}'), 403, METHOD],
  ['no alg', 'hmac', header('{"typ":"JWT"}'), 403, METHOD],
  ['an empty alg', 'hmac', header('{"alg":""}'), 403, METHOD],
  ['alg null', 'hmac', header('{"alg":null}'), 403, METHOD],
  ['alg a number', 'hmac', header('{"alg":256}'), 403, METHOD],
  ['alg in lower case', 'hmac', header('{"alg":"hs256"}'), 403, METHOD],
  ['alg with a blank', 'hmac', header('{"alg":"HS256 "}'), 403, METHOD],
  ['HS1', 'hmac', signed({ alg: 'HS1' }, who, SECRET, 'HS256'), 403, METHOD],
  ['__proto__ as alg', 'hmac', header('{"alg":"__proto__"}'), 403, METHOD],
  ['alg in a prototype', 'hmac', header('{"__proto__":{"alg":"HS256"}}'), 403, METHOD],
  ['the public PEM as a secret, HS256', 'pem', signed({ alg: 'HS256' }, who, pem(r1)), 403, METHOD],
  [
    'the public JWK as a secret',
    'rsa',
    signed({ alg: 'HS256', kid: 'one' }, who, JSON.stringify(all.keys[0])),
    403,
    METHOD
  ],
  ['the modulus as a secret', 'rsa', signed({ alg: 'HS256', kid: 'one' }, who, String(all.keys[0]!.n)), 403, METHOD],
  ['a secret of the set', 'rsa', signed({ alg: 'HS256', kid: 'secret' }, who, SECRET), 403, METHOD],
  ['RS256 where a secret is due', 'hmac', goodRs, 403, METHOD],
  ['ES256 where RSA is due', 'rsa', ecdsa('ES256', 'p256', e256), 403, METHOD],
  ['EdDSA where ECDSA is due', 'ecdsa', ecdsa('EdDSA', 'ed', ed), 403, METHOD],
  ['ML-DSA', 'eddsa', signed({ alg: 'ML-DSA-44', kid: 'ed' }, who, ed.privateKey), 403, METHOD],
  ['the kid of an EC key', 'rsa', rs({ kid: 'p256' }), 403, INVALID],
  ['the kid of a secret', 'rsa', rs({ kid: 'secret' }), 403, INVALID],

  // Keys.
  ['no kid: every key is tried', 'rsa', rs({ kid: undefined }), 200],
  ['no kid, a key that is bound to another alg', 'rsa', rs({ kid: undefined }, who, r2), 200],
  ['no kid, a foreign key', 'rsa', rs({ kid: undefined }, who, foreign), 403, INVALID],
  ['a foreign key', 'rsa', rs({}, who, foreign), 403, INVALID],
  ['an unknown kid', 'rsa', rs({ kid: 'two' }), 403, INVALID],
  ['a kid in another case', 'rsa', rs({ kid: 'ONE' }), 403, INVALID],
  ['a kid that looks like a path', 'rsa', rs({ kid: '../../one' }), 200],
  ['a path to the key', 'rsa', rs({ kid: '/dev/null' }), 403, INVALID],
  ['an address as kid', 'rsa', rs({ kid: `${server.url}/jwks` }), 403, INVALID],
  ['SQL as kid', 'rsa', rs({ kid: "one' OR '1'='1" }), 403, INVALID],
  ['NUL in the kid', 'rsa', rs({ kid: 'one\0' }), 403, INVALID],
  ['__proto__ as kid', 'rsa', rs({ kid: '__proto__' }), 403, INVALID],
  ['an empty kid that a key has', 'rsa', rs({ kid: '' }), 200],
  ['kid a number', 'rsa', rs({ kid: 1 }), 403, INVALID],
  ['kid null', 'rsa', rs({ kid: null }), 403, INVALID],
  ['kid a list', 'rsa', rs({ kid: ['one'] }), 403, INVALID],
  ['one kid, two keys: the first', 'rsa', rs({ kid: 'twice' }), 200],
  ['one kid, two keys: the second', 'rsa', rs({ kid: 'twice' }, who, r2), 200],
  ['one kid, two keys: a third', 'rsa', rs({ kid: 'twice' }, who, foreign), 403, INVALID],
  ['a key bound to RS512', 'rsa', rs({ kid: 'bound', alg: 'RS512' }, who, r2), 200],
  ['the same with RS256', 'rsa', rs({ kid: 'bound' }, who, r2), 403, INVALID],
  ['the same with PS512', 'rsa', rs({ kid: 'bound', alg: 'PS512' }, who, r2), 403, INVALID],
  ['use enc', 'rsa', rs({ kid: 'encrypts' }), 403, INVALID],
  ['key_ops without verify', 'rsa', rs({ kid: 'signs' }), 403, INVALID],
  ['key_ops that is no list', 'rsa', rs({ kid: 'listless' }), 403, INVALID],
  ['RSA of 1024 bits', 'rsa', rs({ kid: 'weak' }, who, weak), 403, INVALID],
  ['an exponent of 1', 'rsa', rs({ kid: 'exponent' }), 403, INVALID],
  ['an even exponent', 'rsa', rs({ kid: 'even' }), 403, INVALID],
  ['a key that is broken', 'rsa', rs({ kid: 'broken' }), 403, INVALID],
  ['a key with numbers for texts', 'rsa', rs({ kid: 'numbers' }), 403, INVALID],

  // Keys that the token brings along.
  ['its own jwk', 'rsa', rs({ kid: undefined, jwk: jwk(foreign) }, who, foreign), 403, INVALID],
  ['its own jwk with a known kid', 'rsa', rs({ jwk: jwk(foreign, { kid: 'one' }) }, who, foreign), 403, INVALID],
  ['its own jku', 'rsa', rs({ kid: 'own', jku: `${server.url}/jwks` }, who, foreign), 403, INVALID],
  ['its own x5u', 'rsa', rs({ x5u: 'https://evil.example/' }, who, foreign), 403, INVALID],
  ['its own x5c', 'rsa', rs({ x5c: [pem(foreign)] }, who, foreign), 403, INVALID],
  ['its own secret', 'hmac', signed({ alg: 'HS256', jwk: { kty: 'oct', k: b64('x') } }, who, 'x'), 403, INVALID],
  ['a jwk beside a good signature', 'rsa', rs({ jwk: jwk(foreign) }), 200],
  ['a jku beside a good signature', 'rsa', rs({ jku: 'http://169.254.169.254/' }), 200],

  // Extensions.
  ['crit with an unknown name', 'hmac', hmac(who, { crit: ['x'], x: 1 }), 403, INVALID],
  ['crit with a known name', 'hmac', hmac(who, { crit: ['alg'] }), 403, INVALID],
  ['crit with exp', 'hmac', hmac(who, { crit: ['exp'], exp: 1 }), 403, INVALID],
  ['an empty crit', 'hmac', hmac(who, { crit: [] }), 403, INVALID],
  ['crit null', 'hmac', hmac(who, { crit: null }), 403, INVALID],
  ['crit a text', 'hmac', hmac(who, { crit: 'b64' }), 403, INVALID],
  ['b64 true and critical', 'hmac', hmac(who, { b64: true, crit: ['b64'] }), 403, INVALID],
  ['b64 false and critical', 'hmac', hmac(who, { b64: false, crit: ['b64'] }), 403, INVALID],
  ['b64 false', 'hmac', hmac(who, { b64: false }), 403, INVALID],
  ['b64 true', 'hmac', hmac(who, { b64: true }), 200],
  ['members that nobody knows', 'hmac', hmac(who, { typ: 'at+jwt', cty: 'x', zip: 'DEF', more: {} }), 200],

  // Duplicate names.
  ['alg twice', 'hmac', header('{"alg":"HS256","alg":"HS256"}'), 403, INVALID],
  ['alg twice, the first none', 'hmac', header('{"alg":"none","alg":"HS256"}'), 403, INVALID],
  ['kid twice', 'hmac', header('{"alg":"HS256","kid":"a","kid":"b"}'), 403, INVALID],
  ['sub twice', 'hmac', hmac('{"sub":"ann","sub":"bob"}'), 403, INVALID],
  ['sub twice, once escaped', 'hmac', hmac('{"sub":"ann","\\u0073ub":"bob"}'), 403, INVALID],
  ['exp twice', 'hmac', hmac('{"sub":"ann","exp":1,"exp":99999999999}'), 403, INVALID],
  ['twice in a nested object', 'hmac', hmac('{"sub":"ann","a":{"b":1,"b":2}}'), 403, INVALID],
  ['twice in an object of a list', 'hmac', hmac('{"sub":"ann","a":[{"b":1,"b":2}]}'), 403, INVALID],
  ['twice in what is lost', 'hmac', hmac('{"sub":"ann","a":{"b":1},"a":{"b":1}}'), 403, INVALID],
  ['__proto__ twice', 'hmac', hmac('{"sub":"ann","__proto__":1,"__proto__":2}'), 403, INVALID],
  ['the same name in two objects', 'hmac', hmac('{"sub":"ann","a":{"sub":1},"b":[{"sub":2},{"sub":2}]}'), 200],
  ['colons, quotes and braces in texts', 'hmac', hmac(String.raw`{"sub":"ann","a":"\":{\\","b\\\"":"[:"}`), 200],
  ['__proto__ once', 'hmac', hmac('{"sub":"ann","__proto__":{"x":1}}'), 200],

  // Form.
  ['two parts', 'hmac', `${goodHeader}.${goodPayload}`, 403, INVALID],
  ['one part', 'hmac', goodHeader, 403, INVALID],
  ['four parts', 'hmac', `${good}.AAAA`, 403, INVALID],
  ['five parts: encrypted', 'hmac', `${good}.AAAA.AAAA`, 403, INVALID],
  ['dots alone', 'hmac', '..', 403, INVALID],
  ['no header', 'hmac', `.${goodPayload}.${goodSignature}`, 403, INVALID],
  ['no payload', 'hmac', parts(HEAD, ''), 403, INVALID],
  ['no signature', 'hmac', `${goodHeader}.${goodPayload}.`, 403, INVALID],
  ['no token at all', 'hmac', 'nonsense', 403, INVALID],
  ['a part of the signature', 'hmac', good.slice(0, -10), 403, INVALID],
  ['another signature', 'hmac', flipped(good, 2), 403, INVALID],
  ['another payload', 'hmac', flipped(good, 1), 403, INVALID],
  ['another payload, RSA', 'rsa', flipped(goodRs, 1), 403, INVALID],
  ['another signature, RSA', 'rsa', flipped(goodRs, 2), 403, INVALID],
  [
    'another header, the same meaning',
    'hmac',
    `${b64('{ "alg":"HS256"}')}.${goodPayload}.${goodSignature}`,
    403,
    INVALID
  ],
  ['RSA signature of zeros', 'rsa', withSignature(goodRs, Buffer.alloc(256)), 403, INVALID],
  [
    'RSA signature with a zero before it',
    'rsa',
    withSignature(goodRs, Buffer.concat([Buffer.alloc(1), Buffer.from(goodRs.split('.')[2]!, 'base64url')])),
    403,
    INVALID
  ],
  ['padding', 'hmac', `${good}=`, 403, INVALID],
  ['padding of the header', 'hmac', parts(`${HEAD}==`, goodPayload), 403, INVALID],
  ['a spare bit in the signature', 'hmac', `${goodHeader}.${goodPayload}.${loose(goodSignature)}`, 403, INVALID],
  ['a spare bit in the payload', 'hmac', parts(HEAD, loose(b64('{"sub":"annie"}  '))), 403, INVALID],
  [
    'base64 with + and /',
    'hmac',
    parts(HEAD, Buffer.from('{"sub":"\u00fb\u00ff\u00fe?>"}').toString('base64').replace(/=+$/, '')),
    403,
    INVALID
  ],
  ['a length that no bytes have', 'hmac', parts(HEAD, `${goodPayload.slice(0, 4)}A`), 403, INVALID],
  ['a blank within', 'hmac', parts(HEAD, `${goodPayload.slice(0, 4)} ${goodPayload.slice(4)}`), 403, INVALID],
  ['a percent-encoded dot', 'hmac', good.replace('.', '%2e'), 403, INVALID],
  ['a header that is no JSON', 'hmac', header('alg'), 403, INVALID],
  ['a header that is a list', 'hmac', header('[{"alg":"HS256"}]'), 403, INVALID],
  ['a header that is null', 'hmac', header('null'), 403, INVALID],
  ['a header with a BOM', 'hmac', header('\ufeff{"alg":"HS256"}'), 403, INVALID],
  ['a header in UTF-16', 'hmac', header(Buffer.from('{"alg":"HS256"}', 'utf16le')), 403, INVALID],
  ['a header with more behind it', 'hmac', header('{"alg":"HS256"}{}'), 403, INVALID],
  ['a header with a comment', 'hmac', header('{"alg":"HS256"/**/}'), 403, INVALID],
  ['a header with white space', 'hmac', header(' {\n\t"alg" : "HS256" }\r\n'), 200],
  ['claims that are a text', 'hmac', hmac('"ann"'), 403, INVALID],
  ['claims that are a list', 'hmac', hmac('["ann"]'), 403, INVALID],
  ['claims that are null', 'hmac', hmac('null'), 403, INVALID],
  ['claims that are a number', 'hmac', hmac('1'), 403, INVALID],
  ['claims with a trailing comma', 'hmac', hmac('{"sub":"ann",}'), 403, INVALID],
  ['claims with single quotes', 'hmac', hmac("{'sub':'ann'}"), 403, INVALID],
  ['claims with NaN', 'hmac', hmac('{"sub":"ann","exp":NaN}'), 403, INVALID],
  ['claims that are no UTF-8', 'hmac', parts(HEAD, b64(Buffer.from('7b22737562223a22ff227d', 'hex'))), 403, INVALID],
  [
    'claims with an overlong sign',
    'hmac',
    parts(HEAD, b64(Buffer.from('7b22737562223a22c0af227d', 'hex'))),
    403,
    INVALID
  ],
  [
    'claims with a lone surrogate in UTF-8',
    'hmac',
    parts(HEAD, b64(Buffer.from('7b22737562223a22eda080227d', 'hex'))),
    403,
    INVALID
  ],
  ['64 levels', 'hmac', hmac(nested(63)), 200],
  ['65 levels', 'hmac', hmac(nested(64)), 403, INVALID],
  ['5,000 levels', 'hmac', hmac(nested(5_000)), 403, INVALID],
  ['long enough not to be remembered', 'hmac', hmac({ ...who, pad: 'x'.repeat(11_000) }), 200],

  // Times.
  ['exp to come', 'hmac', hmac({ ...who, exp: NOW + 1 }), 200],
  ['exp now', 'hmac', hmac({ ...who, exp: NOW }), 401, EXPIRED],
  ['exp a moment ago', 'hmac', hmac({ ...who, exp: NOW - 0.001 }), 401, EXPIRED],
  ['exp in a moment', 'hmac', hmac({ ...who, exp: NOW + 0.001 }), 200],
  ['exp 0', 'hmac', hmac({ ...who, exp: 0 }), 401, EXPIRED],
  ['exp below 0', 'hmac', hmac({ ...who, exp: -1 }), 401, EXPIRED],
  ['exp a text', 'hmac', hmac({ ...who, exp: String(NOW + 60) }), 401, no('exp is not a time')],
  ['exp null', 'hmac', hmac({ ...who, exp: null }), 401, no('exp is not a time')],
  ['exp true', 'hmac', hmac({ ...who, exp: true }), 401, no('exp is not a time')],
  ['exp a list', 'hmac', hmac({ ...who, exp: [NOW + 60] }), 401, no('exp is not a time')],
  ['exp beyond all numbers', 'hmac', hmac('{"sub":"ann","exp":1e999}'), 401, no('exp is not a time')],
  ['exp very late', 'hmac', hmac('{"sub":"ann","exp":1e300}'), 200],
  ['exp with an exponent', 'hmac', hmac('{"sub":"ann","exp":1.9e9}'), 200],
  ['nbf now', 'hmac', hmac({ ...who, nbf: NOW }), 200],
  ['nbf in a moment', 'hmac', hmac({ ...who, nbf: NOW + 0.001 }), 401, EARLY],
  ['nbf a text', 'hmac', hmac({ ...who, nbf: '0' }), 401, no('nbf is not a time')],
  ['iat now', 'hmac', hmac({ ...who, iat: NOW }), 200],
  ['iat to come', 'hmac', hmac({ ...who, iat: NOW + 1 }), 401, BEFORE],
  ['iat an object', 'hmac', hmac({ ...who, iat: {} }), 401, no('iat is not a time')],
  ['expired and early', 'hmac', hmac({ ...who, exp: NOW - 1, nbf: NOW + 1 }), 401, EXPIRED],
  ['within the skew of exp', 'skewed', hmac({ ...who, exp: NOW - 19.999 }), 200],
  ['at the end of the skew of exp', 'skewed', hmac({ ...who, exp: NOW - 20 }), 401, EXPIRED],
  ['at the end of the skew of nbf', 'skewed', hmac({ ...who, nbf: NOW + 10 }), 200],
  ['beyond the skew of nbf', 'skewed', hmac({ ...who, nbf: NOW + 10.001 }), 401, EARLY],
  ['at the end of the skew of iat', 'skewed', hmac({ ...who, iat: NOW + 5 }), 200],
  ['beyond the skew of iat', 'skewed', hmac({ ...who, iat: NOW + 5.001 }), 401, BEFORE],
  ['the signature comes before the times', 'hmac', flipped(hmac({ ...who, exp: 0 }), 2), 403, INVALID],

  // Claims.
  ['all claims fit', 'claims', but({}), 200],
  ['the other issuer', 'claims', but({ iss: 'https://other' }), 200],
  ['an issuer with a slash more', 'claims', but({ iss: 'https://idp/' }), 401, no('iss is no allowed issuer')],
  ['an issuer in another case', 'claims', but({ iss: 'https://IDP' }), 401, no('iss is no allowed issuer')],
  ['no issuer', 'claims', but({ iss: undefined }), 401, no('iss is no allowed issuer')],
  ['an issuer in a list', 'claims', but({ iss: ['https://idp'] }), 401, no('iss is no allowed issuer')],
  ['an audience in a list', 'claims', but({ aud: ['else', 'stock'] }), 200],
  ['no audience', 'claims', but({ aud: undefined }), 401, no('aud has no allowed audience')],
  ['a foreign audience', 'claims', but({ aud: 'shopping' }), 401, no('aud has no allowed audience')],
  ['foreign audiences', 'claims', but({ aud: ['a', 'b'] }), 401, no('aud has no allowed audience')],
  ['an empty list of audiences', 'claims', but({ aud: [] }), 401, no('aud has no allowed audience')],
  ['an audience that is no text', 'claims', but({ aud: ['shop', 1] }), 401, no('aud has no allowed audience')],
  ['audiences in nested lists', 'claims', but({ aud: [['shop']] }), 401, no('aud has no allowed audience')],
  ['an audience object', 'claims', but({ aud: { shop: true } }), 401, no('aud has no allowed audience')],
  ['several audiences in one text', 'claims', but({ aud: 'shop stock' }), 401, no('aud has no allowed audience')],
  ['another subject', 'claims', but({ sub: 'eve' }), 401, no('sub is no allowed subject')],
  ['no jti', 'claims', but({ jti: undefined }), 401, no('jti is missing')],
  ['an empty jti', 'claims', but({ jti: '' }), 401, no('jti is missing')],
  ['jti a number', 'claims', but({ jti: 1 }), 401, no('jti is missing')],
  ['a claim that is missing', 'claims', but({ tenant: undefined }), 401, no('claim tenant is missing')],
  ['a claim that is null', 'claims', but({ tenant: null }), 401, no('claim tenant is missing')],
  ['a claim that is false', 'claims', but({ tenant: false }), 200],
  ['another value', 'claims', but({ address: { city: 'Rome' } }), 401, no('claim address.city has no allowed value')],
  [
    'a value in another case',
    'claims',
    but({ address: { city: 'oslo' } }),
    401,
    no('claim address.city has no allowed value')
  ],
  ['a number', 'claims', but({ address: { city: 7 } }), 200],
  [
    'the number as a text',
    'claims',
    but({ address: { city: '7' } }),
    401,
    no('claim address.city has no allowed value')
  ],
  ['the same list', 'claims', but({ address: { city: ['a', 'b'] } }), 200],
  ['a path into a text', 'claims', but({ address: 'Oslo' }), 401, no('claim address.city is missing')],
  [
    'the full name goes before the path',
    'claims',
    but({ 'address.city': 'Rome' }),
    401,
    no('claim address.city has no allowed value')
  ],
  ['a list that contains a number', 'claims', but({ roles: [1, 3] }), 200],
  ['a text that contains it', 'claims', but({ roles: 'superadmin' }), 200],
  ['a list without it', 'claims', but({ roles: ['administrator'] }), 401, no('claim roles has no allowed value')],
  ['an object with it', 'claims', but({ roles: { admin: true } }), 401, no('claim roles has no allowed value')],
  ['a claim that only warns', 'claims', but({ colour: 'blue' }), 200],

  // Who it is.
  ['a claim by its path', 'subject', hmac({ user: { id: 'u' } }), 200],
  ['the second claim', 'subject', hmac({ user: {}, email: 'e' }), 200],
  ['the base field', 'subject', hmac({ login: 'l' }), 200],
  ['a number', 'subject', hmac({ user: { id: 17 } }), 200],
  ['a number that has lost digits', 'noKid', hmac('{"sub":9007199254740993}'), 403, NOBODY],
  ['a fraction', 'noKid', hmac({ sub: 1.5 }), 403, NOBODY],
  ['the kid', 'subject', hmac({}, { kid: 'k' }), 200],
  ['nothing but an empty kid', 'subject', hmac({}, { kid: '' }), 403, NOBODY],
  ['the kid where it is skipped', 'noKid', hmac({}, { kid: 'k' }), 403, NOBODY],
  ['sub in the end', 'noKid', hmac(who, { kid: 'k' }), 200],
  ['an empty sub', 'hmac', hmac({ sub: '' }), 403, NOBODY],
  ['sub null', 'hmac', hmac({ sub: null }), 403, NOBODY],
  ['sub an object', 'hmac', hmac({ sub: {} }), 403, NOBODY],
  ['sub true', 'hmac', hmac({ sub: true }), 403, NOBODY],
  ['no claims', 'hmac', hmac({}), 403, NOBODY],

  // Keys of our own.
  ['the kid is a key of ours', 'owner', signed({ alg: 'HS256', kid: 'machine' }, {}, OWN_SECRET), 200],
  ['sub is', 'owner', signed({ alg: 'HS256' }, { sub: 'machine' }, OWN_SECRET), 200],
  ['an empty kid: sub is', 'owner', signed({ alg: 'HS256', kid: '' }, { sub: 'machine' }, OWN_SECRET), 200],
  ['kid goes before sub', 'owner', signed({ alg: 'HS256', kid: 'else' }, { sub: 'machine' }, OWN_SECRET), 403, INVALID],
  ['neither', 'owner', signed({ alg: 'HS256' }, {}, OWN_SECRET), 403, INVALID],
  ['an unknown key', 'owner', signed({ alg: 'HS256', kid: 'nobody' }, {}, OWN_SECRET), 403, INVALID],
  ['another secret', 'owner', signed({ alg: 'HS256', kid: 'machine' }, {}, SECRET), 403, INVALID],
  ['a key without secret', 'owner', signed({ alg: 'HS256', kid: 'without' }, {}, 'undefined'), 403, INVALID],
  ['a key with an empty secret', 'owner', signed({ alg: 'HS256', kid: 'empty' }, {}, ''), 403, INVALID],
  ['a secret of 15 bytes', 'owner', signed({ alg: 'HS256', kid: 'short' }, {}, 'fifteen letters'), 403, INVALID],
  ['a public key as a secret', 'owner', signed({ alg: 'HS256', kid: 'public' }, {}, pem(r1)), 403, INVALID],
  [
    'expired, with a key of ours',
    'owner',
    signed({ alg: 'HS256', kid: 'machine' }, { exp: 1 }, OWN_SECRET),
    401,
    EXPIRED
  ],
  ['a PEM of ours', 'ownerRsa', signed({ alg: 'RS256', kid: 'x' }, { sub: 'rsa machine' }, owned.privateKey), 200],
  ['another PEM', 'ownerRsa', signed({ alg: 'RS256' }, { sub: 'rsa machine' }, r1.privateKey), 403, INVALID],
  ['a secret that is no PEM', 'ownerRsa', signed({ alg: 'RS256' }, { sub: 'machine' }, r1.privateKey), 403, INVALID],
  ['a private PEM', 'ownerRsa', signed({ alg: 'RS256' }, { sub: 'private' }, owned.privateKey), 403, INVALID],

  // External OAuth: its own words.
  ['external', 'external', good, 200],
  ['external, signature', 'external', flipped(good, 2), 401, 'access token is not valid'],
  ['external, method', 'external', goodRs, 401, 'access token is not valid'],
  ['external, malformed', 'external', 'x', 401, 'access token is not valid'],
  ['external, expired', 'external', hmac({ ...who, exp: 1 }), 401, 'access token is not valid'],
  ['external, nobody', 'external', hmac({}, { kid: 'k' }), 401, 'access token is not valid'],
  ['external, no keys', 'externalSet', goodRs, 500, 'error happened during the access token validation']
]

t.test(`${rows.length} tokens`, async t => {
  t.ok(rows.length >= 150)
  for (const [name, api, token, status, message] of rows) {
    const answer = await gw.get(`/${api}/`, { Authorization: `Bearer ${token}` })
    const text = await answer.text()
    t.equal(answer.status, status, `${api}: ${name}`)
    t.equal(text, status === 200 ? 'reached' : JSON.stringify({ error: message }), `${api}: ${name}`)
    if (status === 401) t.match(answer.headers.get('www-authenticate'), /^Bearer/)
    if (status !== 200) continue
    // What was verified is remembered.
    const again = await gw.get(`/${api}/`, { Authorization: token })
    t.equal(again.status, 200, `${api}: ${name}, once more`)
    await again.body?.cancel()
  }
})

t.test('missing tokens', async t => {
  for (const [api, message] of [
    ['hmac', 'Authorization field missing'],
    ['external', 'authorization field missing']
  ] as const)
    for (const headers of [{}, { Authorization: '' }, { Authorization: 'Bearer ' }, { 'X-Token': good }]) {
      const answer = await gw.get(`/${api}/`, headers as Record<string, string>)
      t.same([answer.status, await answer.text()], [400, JSON.stringify({ error: message })])
    }
})

t.test('no other text stands for a token: any sign changed, added or left out', async t => {
  const signs = ['A', 'b', '9', '-', '_', '=', '.', ' ', '%', '+', '\u00e9']
  for (const [family, alg, token, key] of [
    ['hmac', 'HS256', good, createSecretKey(Buffer.from(SECRET))],
    ['eddsa', 'EdDSA', ecdsa('EdDSA', 'ed', ed), ed.publicKey],
    ['rsa', 'RS256', goodRs, r1.publicKey]
  ] as const) {
    const counts = async (text: string) => {
      const read = readJws(text, family)
      return typeof read !== 'string' && read.alg === alg && (await isSigned(read, key))
    }
    t.ok(await counts(token), alg)
    const wrong: string[] = []
    for (let at = 0; at <= token.length; at++) {
      const sign = signs[at % signs.length]!
      const others = [
        `${token.slice(0, at)}${sign}${token.slice(at)}`,
        `${token.slice(0, at)}${token.slice(at + 1)}`,
        `${token.slice(0, at)}${sign}${token.slice(at + 1)}`
      ]
      for (const other of others) if (other !== token && (await counts(other))) wrong.push(other)
    }
    t.same(wrong, [], alg)
  }
})

t.test('tokens of more than 16,384 characters are refused unread', async t => {
  for (const [length, outcome] of [
    [16_384, 'object'],
    [16_385, 'malformed']
  ] as const) {
    const token = `${hmac(who, { pad: 'x'.repeat(9_000) })}${'A'.repeat(16_384)}`.slice(0, length)
    const read = readJws(token, 'hmac')
    t.equal(typeof read === 'string' ? read : 'object', outcome)
  }
})

t.test('a claim that only warns is logged without its value', async t => {
  const lines = gw.log.lines.filter(line => line.reason === 'claim colour has no allowed value')
  t.ok(lines.length > 0)
  t.notMatch(JSON.stringify(gw.log.lines), /blue|ann"|eyJ/)
})
