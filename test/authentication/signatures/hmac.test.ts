import { createHash, createPublicKey } from 'node:crypto'
import t from 'tap'
import { handClock } from '../../helpers/clock.ts'
import { api, gateway, rights } from '../../helpers/gateway.ts'
import { upstream } from '../../helpers/upstream.ts'
import { type Asked, ask, eventsOf, tell, valuesOf } from '../../steps/ask.ts'
import { byHmac, draft, keyNamed, pairs, SECRET, said, signedApi, signers, stored } from './signing.ts'

const WRONG = [400, '{"error":"Authorization field missing, malformed or invalid"}']
const NO_CERTIFICATE = [500, '{"error":"Certificate not found"}']
const DATE = 'Tue, 01 Jan 2030 00:00:00 GMT'
const withHmac = { hmac: { enabled: true } }
const mac = { hmac_enabled: true, hmac_string: SECRET }
const sha1 = byHmac('sha1', SECRET)
const sha256 = byHmac('sha256', SECRET)

const signedDate = (keyId: string, signer = sha1, write?: (base64: string) => string) =>
  draft({ keyId }, `date: ${DATE}`, signer, write)

t.test('every algorithm of shared secrets; without a name it is hmac-sha1', async t => {
  const gw = await gateway(t, { apis: [signedApi(withHmac)] })
  const keyId = await keyNamed(gw, 'ada', mac)
  for (const hash of ['sha1', 'sha256', 'sha384', 'sha512']) {
    const authorization = draft({ keyId, algorithm: `hmac-${hash}` }, `date: ${DATE}`, byHmac(hash, SECRET))
    t.equal((await ask(gw, '/a/', { headers: { Date: DATE, Authorization: authorization } })).status, 200, hash)
  }
  const unnamed = { Date: DATE, Authorization: signedDate(keyId) }
  t.equal((await ask(gw, '/a/', { headers: unnamed })).status, 200)
  const generated = await gw.key({ ...rights('a'), hmac_enabled: true })
  const { body } = await gw.svc('GET', `/svc/keys/${generated}`)
  const secret = byHmac('sha1', body.hmac_string)
  t.equal((await ask(gw, '/a/', { headers: { Date: DATE, Authorization: signedDate(generated, secret) } })).status, 200)
  t.same(eventsOf(gw), [])
})

t.test('every row of the failure table', async t => {
  const gw = await gateway(t, { apis: [signedApi(withHmac)] })
  const keyId = await keyNamed(gw, 'ada', mac)
  const certificate = await stored(gw, pairs.rsa.publicKey)
  const rsa = signers['rsa-v1_5-sha256']!(pairs.rsa.privateKey)
  await keyNamed(gw, 'nobody', { enable_http_signature_validation: true, rsa_certificate_id: 'default0123' })
  await keyNamed(gw, 'unsaid', { enable_http_signature_validation: true })
  await keyNamed(gw, 'right', { enable_http_signature_validation: true, rsa_certificate_id: certificate })
  const byRsa = (name: string) => draft({ keyId: name, algorithm: 'rsa-sha256' }, `date: ${DATE}`, rsa)
  const rows: [name: string, authorization: string | null, expected: readonly unknown[]][] = [
    ['missing', null, WRONG],
    ['malformed', 'Signature keyId', WRONG],
    ['invalid', signedDate(keyId, byHmac('sha1', 'another')), WRONG],
    ['unknown key', signedDate('eve'), WRONG],
    ['RSA certificate not found', byRsa('nobody'), NO_CERTIFICATE],
    ['key without an RSA certificate', byRsa('unsaid'), NO_CERTIFICATE]
  ]
  for (const [name, authorization, expected] of rows) {
    const headers: Record<string, string> = { Date: DATE }
    if (authorization !== null) headers.Authorization = authorization
    t.same(said(await ask(gw, '/a/x', { headers })), expected, name)
    t.equal(eventsOf(gw).length > 0, name !== 'missing', 'a missing credential is no failed one')
  }
  t.match(eventsOf(gw)[0], { event: 'AuthFailure', api_id: 'a', path: '/a/x', origin: '127.0.0.1' })
  t.equal((await ask(gw, '/a/', { headers: { Date: DATE, Authorization: byRsa('right') } })).status, 200)
  t.notMatch(JSON.stringify(gw.log.lines), new RegExp(SECRET))
})

t.test('the credential is parsed strictly', async t => {
  const gw = await gateway(t, { apis: [signedApi(withHmac)] })
  const id = await keyNamed(gw, 'ada', mac)
  const sig = sha1(`date: ${DATE}`).toString('base64')
  const good = `keyId="${id}",algorithm="hmac-sha1",headers="date",signature="${sig}"`
  const cases: [passes: boolean, authorization: string][] = [
    [true, `Signature ${good}`],
    [true, `signature ${good}`],
    [true, `SIGNATURE   ${good}`],
    [true, good],
    [true, `Signature signature="${sig}", headers="date" ,\talgorithm = "hmac-sha1" , keyId= "${id}"`],
    [true, `Signature KEYID="${id}",SIGNATURE="${sig}"`],
    [true, `Signature keyId="a\\da",signature="${sig}"`],
    [true, `Signature keyId=${id},algorithm=hmac-sha1,headers=date,signature="${sig}"`],
    [true, `Signature ${good},version="2",x="a, b=\\"c\\""`],
    [true, `Signature ${good.replace('"date"', '"Date"')}`],
    [false, `Bearer ${good}`],
    [false, `Signature, ${good}`],
    [false, `Signature${good}`],
    [false, 'Signature'],
    [false, `Signature ${good},`],
    [false, `Signature ,${good}`],
    [false, `Signature ${good},,x="1"`],
    [false, `Signature ${good};x="1"`],
    [false, `Signature ${good} x="1"`],
    [false, `Signature ${good},x`],
    [false, `Signature ${good},x="1`],
    [false, `Signature ${good},x=`],
    [false, `Signature ${good},keyId="${id}"`],
    [false, `Signature ${good},keyid="eve"`],
    [false, `Signature ${good},x="1",X="1"`],
    [false, `Signature keyId="",signature="${sig}"`],
    [false, `Signature signature="${sig}"`],
    [false, `Signature keyId="${id}"`],
    [false, `Signature keyId="${id}",signature=""`],
    [false, `Signature keyId="${id}",signature="${sig.replace('=', '')}"`],
    [false, `Signature keyId="${id}",signature="${sig}="`],
    [false, `Signature keyId="${id}",signature=" ${sig}"`],
    [false, `Signature keyId="${id}",signature="${sig.replace('=', '%3')}"`],
    [false, `Signature keyId="${id}",signature="${sig.slice(0, 24)}"`],
    [false, `Signature ${good.replace('"date"', '""')}`],
    [false, `Signature ${good.replace('"date"', '"date "')}`],
    [false, `Signature ${good.replace('"date"', '"date  date"')}`],
    [false, `Signature ${good.replace('"date"', '"date date"')}`],
    [false, `Signature ${good.replace('hmac-sha1', 'HMAC-SHA1')}`],
    [false, `Signature ${good.replace('hmac-sha1', 'hs2019')}`],
    [false, `Signature ${good.replace('hmac-sha1', 'md5')}`],
    [false, `Signature ${good.replace('hmac-sha1', '')}`],
    [false, `Signature ${good.replace('hmac-sha1', 'none')}`],
    [false, `Signature ${good.replace('hmac-sha1', 'hmac-sha256')}`],
    [false, `Signature ${good.replace('"date"', `"${'x '.repeat(4000)}date"`)}`],
    [false, `Signature ${' '.repeat(8000)}${good}${' '.repeat(4000)}x`],
    [false, `Signature ${`x${'\\"'.repeat(4000)}`}`]
  ]
  for (const [passes, authorization] of cases) {
    const answer = await ask(gw, '/a/', { headers: { Date: DATE, Authorization: authorization } })
    if (passes) t.equal(answer.status, 200, authorization)
    else t.same(said(answer), WRONG, authorization.slice(0, 200))
  }
})

t.test('signatures may be plain base64 or percent-encoded in either case', async t => {
  const gw = await gateway(t, { apis: [signedApi(withHmac)] })
  // Signed so often that '+', '/' and '=' all come.
  const lower = (text: string) => encodeURIComponent(text).replace(/%../g, hex => hex.toLowerCase())
  const all = (text: string) => text.replace(/./g, char => `%${char.charCodeAt(0).toString(16)}`)
  let written = ''
  const keyId = await keyNamed(gw, 'ada', mac)
  for (let i = 0; i < 12; i++)
    for (const write of [encodeURIComponent, lower, all, (text: string) => text]) {
      const headers = { Date: DATE, 'X-N': `${i}` }
      const text = `date: ${DATE}\nx-n: ${i}`
      const authorization = draft({ keyId, headers: 'date x-n' }, text, sha1, write)
      written += authorization
      t.equal((await ask(gw, '/a/', { headers: { ...headers, Authorization: authorization } })).status, 200)
    }
  for (const piece of ['%2B', '%2b', '%2F', '%2f', '%3D', '%3d']) t.match(written, piece)
})

t.test('what is covered cannot change, be left out or be sent twice; what is not covered may', async t => {
  const up = await upstream(t, tell)
  const gw = await gateway(t, { apis: [signedApi(withHmac, up.url)] })
  const keyId = await keyNamed(gw, 'ada', mac)
  const headers = { Host: 'api.example:8080', Date: DATE, 'X-A': 'one', 'X-Empty': '', 'Content-Type': 'text/plain' }
  const path = '/a/x%2fy/?q=%20A&b&&c=%'
  const text = [
    `(request-target): put ${path}`,
    'host: api.example:8080',
    `date: ${DATE}`,
    'x-a: one',
    'x-empty: ',
    'content-type: text/plain'
  ].join('\n')
  const Authorization = draft(
    { keyId, algorithm: 'hmac-sha256', headers: '(request-target) host date x-a x-empty content-type' },
    text,
    sha256
  )
  const asked = (change: object = {}, method = 'PUT'): Asked => ({
    method,
    headers: { ...headers, ...change, Authorization } as Record<string, string>,
    body: 'hello'
  })
  t.equal((await ask(gw, path, asked())).status, 200)
  t.equal((await ask(gw, path, asked({ 'X-B': 'other' }))).status, 200)
  t.equal((await ask(gw, path, asked({ 'X-A': '  one ' }))).status, 200)
  const mutations: [name: string, path: string, asked: Asked][] = [
    ['method', path, asked({}, 'POST')],
    ['path', '/a/x%2Fy/?q=%20A&b&&c=%', asked()],
    ['slash', '/a/x%2fy?q=%20A&b&&c=%', asked()],
    ['query', `${path}1`, asked()],
    ['query order', '/a/x%2fy/?b&q=%20A&&c=%', asked()],
    ['host', path, asked({ Host: 'api.example' })],
    ['date', path, asked({ Date: 'Tue, 01 Jan 2030 00:00:01 GMT' })],
    ['header', path, asked({ 'X-A': 'One' })],
    ['header of two lines', path, asked({ 'X-A': ['one', 'one'] })],
    ['empty header', path, asked({ 'X-Empty': 'x' })],
    ['content type', path, asked({ 'Content-Type': 'text/html' })],
    ['aux date', path, asked({ 'X-Aux-Date': DATE })]
  ]
  for (const [name, mutated, change] of mutations) t.same(said(await ask(gw, mutated, change)), WRONG, name)
  for (const left of ['x-a', 'x-empty', 'date']) {
    const kept = Object.fromEntries(Object.entries(headers).filter(([name]) => name.toLowerCase() !== left))
    t.same(said(await ask(gw, path, { method: 'PUT', headers: { ...kept, Authorization } })), WRONG, `without ${left}`)
  }
  for (let at = 0; at < 6; at++) {
    const names = ['(request-target)', 'host', 'date', 'x-a', 'x-empty', 'content-type'].toSpliced(at, 1).join(' ')
    const shorter = Authorization.replace(/headers="[^"]*"/, `headers="${names}"`)
    const answer = await ask(gw, path, {
      method: 'PUT',
      headers: { ...headers, Authorization: shorter },
      body: 'hello'
    })
    t.same(said(answer), WRONG, names)
  }
})

t.test('repeated headers are joined, bytes stay bytes, an absolute target is its path', async t => {
  const gw = await gateway(t, { apis: [signedApi(withHmac)] })
  const keyId = await keyNamed(gw, 'ada', mac)
  const text = '(request-target): get /a/?b=1\nx-a: one, two,three\nx-b: gr\u00fc\u00dfe'
  const Authorization = draft({ keyId, headers: '(request-target) x-a x-b' }, text, sha1)
  const headers = [
    'Host',
    'h',
    'X-A',
    'one',
    'x-b',
    'gr\u00fc\u00dfe',
    'x-A',
    ' two,three ',
    'Authorization',
    Authorization
  ]
  t.equal((await ask(gw, '/a/?b=1', { headers })).status, 200)
  t.equal((await ask(gw, 'http://h/a/?b=1', { headers })).status, 200)
  t.equal((await ask(gw, 'http://H:80/a/?b=1', { headers })).status, 200)
})

t.test('(created) and (expires) are refused, as the draft asks for these algorithms', async t => {
  const gw = await gateway(t, { apis: [signedApi(withHmac)] })
  await keyNamed(gw, 'ada', mac)
  const created = Math.floor(Date.now() / 1000)
  const signature = sha256(`(created): ${created}`).toString('base64')
  const given = `Signature keyId="ada",algorithm="hmac-sha256",created=${created},headers="(created)",signature="${signature}"`
  t.same(said(await ask(gw, '/a/', { headers: { Authorization: given } })), WRONG)
})

t.test('x-aux-date stands in for Date where it is sent', async t => {
  const clock = handClock()
  const skew = { hmac: { enabled: true, allowedClockSkew: 1000 } }
  const gw = await gateway(t, { clock, apis: [signedApi(withHmac), signedApi(skew, 'svc://echo', 'skew')] })
  await gw.svc('POST', '/svc/keys/ada', { ...rights('a', 'skew'), ...mac })
  const OLD = 'Mon, 31 Dec 2029 00:00:00 GMT'
  const aux = draft({ keyId: 'ada' }, `x-aux-date: ${DATE}`, sha1)
  const named = draft({ keyId: 'ada', headers: 'x-aux-date' }, `x-aux-date: ${DATE}`, sha1)
  const plain = draft({ keyId: 'ada' }, `date: ${DATE}`, sha1)
  const cases: [passes: boolean, Record<string, string>][] = [
    [true, { 'X-Aux-Date': DATE, Authorization: aux }],
    [true, { 'X-Aux-Date': DATE, Date: OLD, Authorization: aux }],
    [true, { 'X-Aux-Date': DATE, Date: OLD, Authorization: named }],
    [true, { 'X-Aux-Date': '', Date: DATE, Authorization: plain }],
    [false, { 'X-Aux-Date': DATE, Date: DATE, Authorization: plain }],
    [false, { 'X-Aux-Date': OLD, Date: DATE, Authorization: plain }],
    [false, { 'X-Aux-Date': OLD, Date: DATE, Authorization: aux }]
  ]
  for (const api of ['a', 'skew'])
    for (const [passes, headers] of cases) {
      const answer = await ask(gw, `/${api}/`, { headers })
      if (passes) t.equal(answer.status, 200, JSON.stringify(headers))
      else t.same(said(answer), WRONG, JSON.stringify(headers))
    }
})

t.test('with a skew a date must be there, be covered, and be near enough', async t => {
  const clock = handClock(Date.UTC(2030, 0, 1))
  const gw = await gateway(t, { clock, apis: [signedApi({ hmac: { enabled: true, allowedClockSkew: 1500.5 } })] })
  await keyNamed(gw, 'ada', mac)
  const at = (date: string) => draft({ keyId: 'ada' }, `date: ${date}`, sha1)
  const cases: [passes: boolean, date: string][] = [
    [true, DATE],
    [true, 'Tue, 01 Jan 2030 00:00:01 GMT'],
    [true, 'Mon, 31 Dec 2029 23:59:59 GMT'],
    [true, 'Tue, 01 Jan 2030 00:00:00 UTC'],
    [false, 'Tue, 01 Jan 2030 00:00:02 GMT'],
    [false, 'Mon, 31 Dec 2029 23:59:58 GMT'],
    [false, 'Tue, 32 Dec 2029 00:00:00 GMT'],
    [false, 'Tue, 01 Jan 2030 00:00:00 CET'],
    [false, 'Tue, 01 Jan 2030 00:00:00 +0000'],
    [false, 'Tue,  1 Jan 2030 00:00:00 GMT'],
    [false, 'Tuesday, 01-Jan-30 00:00:00 GMT'],
    [false, 'Tue Jan  1 00:00:00 2030'],
    [false, '2030-01-01T00:00:00Z'],
    [false, '1893456000'],
    [false, `${DATE}, ${DATE}`]
  ]
  for (const [passes, date] of cases) {
    const answer = await ask(gw, '/a/', { headers: { Date: date, Authorization: at(date) } })
    if (passes) t.equal(answer.status, 200, date)
    else t.same(said(answer), WRONG, date)
  }
  const uncovered = draft({ keyId: 'ada', headers: 'x-a' }, 'x-a: 1', sha1)
  t.same(said(await ask(gw, '/a/', { headers: { Date: DATE, 'X-A': '1', Authorization: uncovered } })), WRONG)
  t.same(said(await ask(gw, '/a/', { headers: { 'X-A': '1', Authorization: uncovered } })), WRONG)
  await clock.move(1500)
  t.equal((await ask(gw, '/a/', { headers: { Date: DATE, Authorization: at(DATE) } })).status, 200, '1500 ms late')
  await clock.move(1)
  t.same(said(await ask(gw, '/a/', { headers: { Date: DATE, Authorization: at(DATE) } })), WRONG, '1501 ms late')
})

t.test('a skew of 0 or less looks at no date', async t => {
  for (const allowedClockSkew of [0, -1]) {
    const gw = await gateway(t, { apis: [signedApi({ hmac: { enabled: true, allowedClockSkew } })] })
    await keyNamed(gw, 'ada', mac)
    const Authorization = draft({ keyId: 'ada', headers: 'x-a' }, 'x-a: 1', sha1)
    t.equal((await ask(gw, '/a/', { headers: { 'X-A': '1', Authorization } })).status, 200)
    t.equal(
      (await ask(gw, '/a/', { headers: { Date: 'x', Authorization: draft({ keyId: 'ada' }, 'date: x', sha1) } }))
        .status,
      200
    )
  }
})

t.test('allowedAlgorithms lets no other through, the default one included', async t => {
  const only = { hmac: { enabled: true, allowedAlgorithms: ['hmac-sha512', 'rsa-sha256'] } }
  const gw = await gateway(t, { apis: [signedApi(only)] })
  const rsa_certificate_id = await stored(gw, pairs.rsa.publicKey)
  const keyId = await keyNamed(gw, 'ada', { ...mac, enable_http_signature_validation: true, rsa_certificate_id })
  const rsa = signers['rsa-v1_5-sha256']!(pairs.rsa.privateKey)
  const cases: [passes: boolean, authorization: string][] = [
    [true, draft({ keyId, algorithm: 'hmac-sha512' }, `date: ${DATE}`, byHmac('sha512', SECRET))],
    [true, draft({ keyId, algorithm: 'rsa-sha256' }, `date: ${DATE}`, rsa)],
    [false, draft({ keyId, algorithm: 'hmac-sha1' }, `date: ${DATE}`, sha1)],
    [false, draft({ keyId }, `date: ${DATE}`, sha1)],
    [false, draft({ keyId, algorithm: 'hmac-sha256' }, `date: ${DATE}`, sha256)]
  ]
  for (const [passes, Authorization] of cases) {
    const answer = await ask(gw, '/a/', { headers: { Date: DATE, Authorization } })
    if (passes) t.equal(answer.status, 200, Authorization)
    else t.same(said(answer), WRONG, Authorization)
  }
})

t.test('a key signs with what it has and is allowed to use, and with nothing else', async t => {
  const gw = await gateway(t, { apis: [signedApi(withHmac)] })
  const rsa_certificate_id = await stored(gw, pairs.rsa.publicKey)
  const ec = await stored(gw, pairs.p256.publicKey)
  const publicPem = String(pairs.rsa.publicKey.export({ format: 'pem', type: 'spki' }))
  const publicDer = pairs.rsa.publicKey.export({ format: 'der', type: 'spki' })
  await gw.svc('POST', '/svc/certs?org_id=other', publicPem)
  const foreign = rsa_certificate_id.replace('default', 'other')
  const rsa = { enable_http_signature_validation: true, rsa_certificate_id }
  await keyNamed(gw, 'mac', mac)
  await keyNamed(gw, 'off', { hmac_string: SECRET })
  await keyNamed(gw, 'rsa', rsa)
  await keyNamed(gw, 'rsa-off', { rsa_certificate_id })
  await keyNamed(gw, 'both', { ...mac, ...rsa })
  await keyNamed(gw, 'ecc', { enable_http_signature_validation: true, rsa_certificate_id: ec })
  await keyNamed(gw, 'foreign', { enable_http_signature_validation: true, rsa_certificate_id: foreign })
  await keyNamed(gw, 'password', { ...mac, basic_auth_data: { password: 'secret' } })
  const text = `date: ${DATE}`
  const bySecret = (keyId: string, secret: string | Buffer) =>
    draft({ keyId, algorithm: 'hmac-sha256' }, text, byHmac('sha256', secret))
  const byRsa = (keyId: string, algorithm = 'rsa-sha256', by = 'rsa-v1_5-sha256') =>
    draft({ keyId, algorithm }, text, signers[by]!(pairs.rsa.privateKey))
  const cases: [expected: 200 | readonly unknown[], name: string, authorization: string][] = [
    [200, 'a shared secret', bySecret('mac', SECRET)],
    [200, 'a secret beside a password', bySecret('password', SECRET)],
    [200, 'an RSA key', byRsa('rsa')],
    [200, 'both: the secret', bySecret('both', SECRET)],
    [200, 'both: the RSA key', byRsa('both')],
    [WRONG, 'hmac is off', bySecret('off', SECRET)],
    [WRONG, 'hmac of a key that has RSA alone, without a secret', bySecret('rsa', '')],
    [WRONG, 'the public key as a secret (PEM)', bySecret('both', publicPem)],
    [WRONG, 'the public key as a secret (PEM, RSA alone)', bySecret('rsa', publicPem)],
    [WRONG, 'the public key as a secret (DER)', bySecret('rsa', publicDer)],
    [WRONG, 'the certificate id as a secret', bySecret('rsa', rsa_certificate_id)],
    [WRONG, 'signatures with RSA are off', byRsa('rsa-off')],
    [WRONG, 'RSA of a key that has hmac alone', byRsa('mac')],
    [WRONG, 'an RSA signature that says hmac', byRsa('both', 'hmac-sha256')],
    [WRONG, 'PSS instead of PKCS#1 v1.5', byRsa('rsa', 'rsa-sha256', 'rsa-pss-sha512')],
    [WRONG, 'rsa-sha512', byRsa('rsa', 'rsa-sha512')],
    [WRONG, 'a hash as RSA signature', draft({ keyId: 'rsa', algorithm: 'rsa-sha256' }, text, sha256)],
    [
      WRONG,
      'an ECDSA key',
      draft({ keyId: 'ecc', algorithm: 'rsa-sha256' }, text, signers['ecdsa-p256-sha256']!(pairs.p256.privateKey))
    ],
    [NO_CERTIFICATE, "another organisation's certificate", byRsa('foreign')]
  ]
  for (const [expected, name, Authorization] of cases) {
    const answer = await ask(gw, '/a/', { headers: { Date: DATE, Authorization } })
    if (expected === 200) t.equal(answer.status, 200, name)
    else t.same(said(answer), expected, name)
  }
})

t.test('a policy may switch signing on, but never without a secret', async t => {
  const gw = await gateway(t, { apis: [signedApi(withHmac)] })
  const rsa_certificate_id = await stored(gw, pairs.rsa.publicKey)
  const policy = { ...rights('a'), org_id: 'default', rate: 100, per: 1, active: true }
  const { body } = await gw.svc('POST', '/svc/policies', {
    ...policy,
    id: 'signing',
    name: 'signing',
    hmac_enabled: true,
    enable_http_signature_validation: true
  })
  t.equal(body.key, 'signing')
  const apply_policies = ['signing']
  for (const [name, members] of Object.entries({
    ada: { hmac_string: SECRET },
    empty: { hmac_string: '' },
    none: {},
    rsa: { rsa_certificate_id }
  }))
    await keyNamed(gw, name, { ...members, apply_policies })
  const asked = (keyId: string, secret: string) =>
    ask(gw, '/a/', { headers: { Date: DATE, Authorization: signedDate(keyId, byHmac('sha1', secret)) } })
  t.equal((await asked('ada', SECRET)).status, 200)
  t.same(said(await asked('empty', '')), WRONG)
  t.same(said(await asked('none', '')), WRONG)
  t.same(said(await asked('none', 'undefined')), WRONG)
  const rsa = draft(
    { keyId: 'rsa', algorithm: 'rsa-sha256' },
    `date: ${DATE}`,
    signers['rsa-v1_5-sha256']!(pairs.rsa.privateKey)
  )
  t.equal((await ask(gw, '/a/', { headers: { Date: DATE, Authorization: rsa } })).status, 200)
})

t.test('a key of another organisation, without rights or deleted does not get in', async t => {
  const gw = await gateway(t, { apis: [signedApi(withHmac)] })
  await keyNamed(gw, 'ada', mac)
  await keyNamed(gw, 'eve', { ...mac, org_id: 'other' })
  await gw.svc('POST', '/svc/keys/bob', { ...mac, ...rights('b') })
  const asked = (keyId: string) => ask(gw, '/a/', { headers: { Date: DATE, Authorization: signedDate(keyId) } })
  t.equal((await asked('ada')).status, 200)
  t.same(said(await asked('eve')), WRONG)
  t.equal((await asked('bob')).status, 403)
  await gw.svc('DELETE', '/svc/keys/ada')
  t.same(said(await asked('ada')), WRONG)
  await keyNamed(gw, 'ada', { ...mac, hmac_string: 'a new one' })
  t.same(said(await asked('ada')), WRONG)
})

t.test('the credential may stand in another header, in the query or in a cookie, and is taken out', async t => {
  const up = await upstream(t, tell)
  const places = {
    stripAuthorizationData: true,
    hmac: {
      enabled: true,
      header: { enabled: true, name: 'Signature' },
      query: { enabled: true, name: 'sig' },
      cookie: { enabled: true, name: 'sig' }
    }
  }
  const gw = await gateway(t, { apis: [signedApi(places, up.url), signedApi(withHmac, up.url, 'kept')] })
  await gw.svc('POST', '/svc/keys/ada', { ...mac, ...rights('a', 'kept') })
  const value = signedDate('ada', sha1, text => text)
  const bare = value.slice('Signature '.length)
  for (const given of [value, bare]) {
    const { status, json } = await ask(gw, '/a/?x=1', { headers: { Date: DATE, Signature: given } })
    t.equal(status, 200)
    t.same(valuesOf(json.headers, 'signature'), [])
    const inQuery = await ask(gw, `/a/?x=1&sig=${encodeURIComponent(given)}`, { headers: { Date: DATE } })
    t.equal(inQuery.status, 200)
    t.equal(inQuery.json.url, '/?x=1')
    const inCookie = await ask(gw, '/a/', { headers: { Date: DATE, Cookie: `a=1; sig=${given}` } })
    t.equal(inCookie.status, 200)
    t.same(valuesOf(inCookie.json.headers, 'cookie'), ['a=1'])
  }
  const kept = await ask(gw, '/kept/', { headers: { Date: DATE, Authorization: value } })
  t.same(valuesOf(kept.json.headers, 'authorization'), [value])
})

t.test('the examples of the draft (appendix C)', async t => {
  const clock = handClock(Date.UTC(2014, 0, 5, 21, 31, 40))
  const document: any = api('a', 'svc://echo', {
    server: {
      listenPath: { value: '/foo', strip: true },
      authentication: { enabled: true, hmac: { enabled: true, allowedClockSkew: 300_000 } }
    }
  })
  const gw = await gateway(t, { clock, apis: [document] })
  const rsa_certificate_id = await stored(
    gw,
    createPublicKey(`-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDCFENGw33yGihy92pDjZQhl0C3
6rPJj+CvfSC8+q28hxA161QFNUd13wuCTUcq0Qd2qsBe/2hFyc2DCJJg0h1L78+6
Z4UMR7EOcpfdUE9Hf3m/hs+FUR45uBJeDK1HSFHD8bHKD6kv8FPGfJTotc+2xjJw
oYi+1hqp1fIekaxsyQIDAQAB
-----END PUBLIC KEY-----
`)
  )
  await keyNamed(gw, 'Test', { enable_http_signature_validation: true, rsa_certificate_id })
  const body = '{"hello": "world"}'
  const headers = {
    Host: 'example.com',
    Date: 'Sun, 05 Jan 2014 21:31:40 GMT',
    'Content-Type': 'application/json',
    Digest: `SHA-256=${createHash('sha256').update(body).digest('base64')}`,
    'Content-Length': '18'
  }
  const examples: [name: string, authorization: string][] = [
    [
      'C.1',
      'Signature keyId="Test",algorithm="rsa-sha256",signature="SjWJWbWN7i0wzBvtPl8rbASWz5xQW6mcJmn+ibttBqtifLN7Sazz6m79cNfwwb8DMJ5cou1s7uEGKKCs+FLEEaDV5lp7q25WqS+lavg7T8hc0GppauB6hbgEKTwblDHYGEtbGmtdHgVCk9SuS13F0hZ8FD0k/5OxEPXe5WozsbM="'
    ],
    [
      'C.2',
      'Signature keyId="Test",algorithm="rsa-sha256",headers="(request-target) host date",signature="qdx+H7PHHDZgy4y/Ahn9Tny9V3GP6YgBPyUXMmoxWtLbHpUnXS2mg2+SbrQDMCJypxBLSPQR2aAjn7ndmw2iicw3HMbe8VfEdKFYRqzic+efkb3nndiv/x1xSHDJWeSWkx3ButlYSuBskLu6kd9Fswtemr3lgdDEmn04swr2Os0="'
    ],
    [
      'C.3',
      'Signature keyId="Test",algorithm="rsa-sha256",created=1402170695,expires=1402170699,headers="(request-target) host date content-type digest content-length",signature="vSdrb+dS3EceC9bcwHSo4MlyKS59iFIrhgYkz8+oVLEEzmYZZvRs8rgOp+63LEM3v+MFHB32NfpB2bEKBIvB1q52LaEUHFv120V01IL+TAD48XaERZFukWgHoBTLMhYS2Gb51gWxpeIq8knRmPnYePbF5MOkR0Zkly4zKH7s1dE="'
    ]
  ]
  for (const [name, Authorization] of examples) {
    const asked = { method: 'POST', headers: { ...headers, Authorization }, body }
    t.equal((await ask(gw, '/foo?param=value&pet=dog', asked)).status, 200, name)
    const changed = { ...asked, headers: { ...asked.headers, Date: 'Sun, 05 Jan 2014 21:31:41 GMT' } }
    t.same(said(await ask(gw, '/foo?param=value&pet=dog', changed)), WRONG, name)
  }
})
