import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import t from 'tap'
import { certificate } from '../../helpers/certificates.ts'
import { handClock } from '../../helpers/clock.ts'
import { gateway, type TestGateway } from '../../helpers/gateway.ts'
import { ask } from '../../steps/ask.ts'
import { EC, openssl, rsa } from '../certificates/made.ts'
import { byHmac, draft, keyNamed, message, pairs, SECRET, said, signedApi, signers, stored } from './signing.ts'

const WRONG = [401, '{"error":"Request signature verification failed"}']
const WRONG_DRAFT = [400, '{"error":"Authorization field missing, malformed or invalid"}']
const NO_CERTIFICATE = [500, '{"error":"Certificate not found"}']
const both = [
  signedApi({ messageSignatures: { enabled: true, requiredComponents: ['@method'] } }),
  signedApi({ hmac: { enabled: true } }, 'svc://echo', 'draft')
]
const members = (rsa_certificate_id: string) => ({
  enable_http_signature_validation: true,
  rsa_certificate_id,
  access_rights: { a: { api_id: 'a' }, draft: { api_id: 'draft' } }
})

async function byMessage(
  gw: TestGateway,
  keyId: string,
  algorithm: string,
  key: KeyObject,
  seconds = Date.now() / 1000
) {
  const params = `;created=${Math.floor(seconds)};keyid="${keyId}"`
  return said(await ask(gw, '/a/', { headers: message([['"@method"', 'GET']], params, signers[algorithm]!(key)) }))
}

async function byDraft(gw: TestGateway, keyId: string, key: KeyObject) {
  const signer = signers['rsa-v1_5-sha256']!(key)
  const Authorization = draft(
    { keyId, algorithm: 'rsa-sha256', headers: '(request-target)' },
    '(request-target): get /draft/',
    signer
  )
  return said(await ask(gw, '/draft/', { headers: { Authorization } }))
}

t.test('the certificates that openssl makes', async t => {
  const make = openssl(t)
  const gw = await gateway(t, { apis: both })
  const cases: [algorithm: string, key: string[], digest: string | undefined, drafts: boolean][] = [
    ['rsa-pss-sha512', rsa(2048), undefined, true],
    ['rsa-pss-sha512', rsa(3072), 'sha384', true],
    ['ecdsa-p256-sha256', EC, undefined, false],
    ['ecdsa-p384-sha384', ['-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-384'], 'sha384', false],
    ['ed25519', ['-algorithm', 'ED25519'], undefined, false],
    ['rsa-pss-sha512', ['-algorithm', 'RSA-PSS', '-pkeyopt', 'rsa_keygen_bits:2048'], undefined, false]
  ]
  for (const [i, [algorithm, key, digest, drafts]] of cases.entries()) {
    const { pem, keyFile } = make({ key, ...(digest === undefined ? {} : { digest }) })
    const keyId = await keyNamed(gw, `key${i}`, members(await stored(gw, pem)))
    const privateKey = createPrivateKey(readFileSync(keyFile))
    t.equal((await byMessage(gw, keyId, algorithm, privateKey))[0], 200, `${key}`)
    if (drafts) t.equal((await byDraft(gw, keyId, privateKey))[0], 200, `${key}`)
    const another = make({ key })
    t.same(await byMessage(gw, keyId, algorithm, createPrivateKey(readFileSync(another.keyFile))), WRONG, `${key}`)
  }
})

t.test('a key of a chain is its leaf\u2019s', async t => {
  const make = openssl(t)
  const gw = await gateway(t, { apis: both })
  const root = make({ key: rsa(2048), extensions: ['basicConstraints=critical,CA:true'] })
  const leaf = make({ key: rsa(2048), issuer: root })
  await keyNamed(gw, 'ada', members(await stored(gw, leaf.pem + root.pem)))
  t.equal((await byDraft(gw, 'ada', createPrivateKey(readFileSync(leaf.keyFile))))[0], 200)
  t.same(await byDraft(gw, 'ada', createPrivateKey(readFileSync(root.keyFile))), WRONG_DRAFT)
})

t.test('RSA keys must have 1024 bits for the draft and 2048 for RFC 9421', async t => {
  const gw = await gateway(t, { apis: both })
  const bits: [bits: number, drafts: boolean, messages: boolean][] = [
    [512, false, false],
    [1024, true, false],
    [2047, true, false],
    [2048, true, true]
  ]
  for (const [modulusLength, drafts, messages] of bits) {
    const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength })
    const keyId = await keyNamed(gw, `rsa${modulusLength}`, members(await stored(gw, publicKey)))
    const [status] = await byDraft(gw, keyId, privateKey)
    t.equal(status, drafts ? 200 : 400, `${modulusLength} bits, draft`)
    // 512 bits have no room for such a signature.
    if (modulusLength === 512) continue
    const [other] = await byMessage(gw, keyId, 'rsa-v1_5-sha256', privateKey)
    t.equal(other, 401, 'PKCS#1 v1.5 unnamed')
    const found = modulusLength < 1100 ? WRONG[0] : (await byMessage(gw, keyId, 'rsa-pss-sha512', privateKey))[0]
    t.equal(found, messages ? 200 : 401, `${modulusLength} bits, message`)
  }
})

t.test('a certificate signs nothing before its begin and behind its end', async t => {
  const clock = handClock(Date.UTC(2030, 0, 1))
  const gw = await gateway(t, { clock, apis: both })
  const made = certificate({ from: '2030-01-02T00:00:00Z', to: '2030-01-03T00:00:00Z' })
  const forRsa = certificate({
    keys: pairs.rsa,
    issuer: made,
    from: '2030-01-02T00:00:00Z',
    to: '2030-01-03T00:00:00Z'
  })
  await keyNamed(gw, 'ecc', members(await stored(gw, made.pem)))
  await keyNamed(gw, 'rsa', members(await stored(gw, forRsa.pem)))
  const asked = async () => [
    (await byMessage(gw, 'ecc', 'ecdsa-p256-sha256', made.key, clock.now() / 1000))[0],
    (await byDraft(gw, 'rsa', pairs.rsa.privateKey))[0]
  ]
  clock.jump(86_399_000)
  t.same(await asked(), [401, 400])
  clock.jump(1_000)
  t.same(await asked(), [200, 200])
  clock.jump(86_400_000)
  t.same(await asked(), [200, 200])
  clock.jump(1_000)
  t.same(await asked(), [401, 400])
})

t.test('a certificate that is taken away, or another one named, counts at once', async t => {
  const gw = await gateway(t, { apis: both })
  const other = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const id = await stored(gw, pairs.rsa.publicKey)
  await keyNamed(gw, 'ada', members(id))
  for (let i = 0; i < 2; i++) t.equal((await byDraft(gw, 'ada', pairs.rsa.privateKey))[0], 200)
  t.equal((await byMessage(gw, 'ada', 'rsa-pss-sha512', pairs.rsa.privateKey))[0], 200)
  t.equal((await gw.svc('DELETE', `/svc/certs/${id}`)).status, 409)
  await gw.svc('PUT', '/svc/keys/ada', members(''))
  t.equal((await gw.svc('DELETE', `/svc/certs/${id}`)).status, 200)
  await gw.svc('PUT', '/svc/keys/ada', members(id))
  t.same(await byDraft(gw, 'ada', pairs.rsa.privateKey), NO_CERTIFICATE)
  t.same(await byMessage(gw, 'ada', 'rsa-pss-sha512', pairs.rsa.privateKey), NO_CERTIFICATE)
  await gw.svc('PUT', '/svc/keys/ada', members(await stored(gw, other.publicKey)))
  t.equal((await byDraft(gw, 'ada', other.privateKey))[0], 200)
  t.same(await byDraft(gw, 'ada', pairs.rsa.privateKey), WRONG_DRAFT)
})

t.test('beside another method both must succeed', async t => {
  const document: any = signedApi({
    messageSignatures: { enabled: true, requiredComponents: ['@method'] },
    securitySchemes: { key: { enabled: true } },
    baseIdentityProvider: 'auth_token'
  })
  document.security = [{ key: [] }]
  const gw = await gateway(t, { apis: [document] })
  await keyNamed(gw, 'ada', { hmac_enabled: true, hmac_string: SECRET })
  await keyNamed(gw, 'bob', {})
  const params = `;created=${Math.floor(Date.now() / 1000)};keyid="ada"`
  const signed: Record<string, string> = message([['"@method"', 'GET']], params, byHmac('sha256', SECRET))
  t.equal((await ask(gw, '/a/', { headers: { ...signed, Authorization: 'bob' } })).status, 200)
  t.equal((await ask(gw, '/a/', { headers: { ...signed, Authorization: 'eve' } })).status, 403)
  t.equal((await ask(gw, '/a/', { headers: signed })).status, 401)
  t.equal((await ask(gw, '/a/', { headers: { Authorization: 'bob' } })).status, 401)
})
