import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { masked, maskedUrl } from '../../control/mask.ts'
import { newToken } from '../../gateway/keys/token.ts'
import { handClock } from '../helpers/clock.ts'
import { gateway, rights } from '../helpers/gateway.ts'

const DAY_MS = 86_400_000

t.test('every writing call leaves one record with who, when, from where, what and status', async t => {
  const gw = await gateway(t)
  const key = await gw.key({ alias: 'before', ...rights('a') })
  await gw.svc('PUT', `/svc/keys/${key}`, { alias: 'after', ...rights('a') })
  await gw.svc('PUT', '/svc/keys/nobody', { alias: 'x', ...rights('a') })
  await gw.svc('POST', '/svc/keys/create', '{')
  await gw.svc('GET', '/svc/keys')
  const { body } = await gw.admin('GET', '/admin/audit-logs')
  t.equal(body.pages, 1)
  t.same(body.audit_logs.map(({ method, url, status, user, ip }: any) => [method, url, status, user, ip]).reverse(), [
    ['POST', '/svc/keys/create', 200, 'gateway secret', '127.0.0.1'],
    ['PUT', '/svc/keys/********', 200, 'gateway secret', '127.0.0.1'],
    ['PUT', '/svc/keys/nobody', 404, 'gateway secret', '127.0.0.1'],
    ['POST', '/svc/keys/create', 400, 'gateway secret', '127.0.0.1']
  ])
  const own = (await gw.api('GET', '/api/audit-logs')).body.audit_logs
  t.same(
    own.map(({ status }: any) => status),
    [200, 200],
    'what touched no organisation is for the admin interface'
  )
  const [first] = own
  t.match(first.timestamp, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
  t.equal(new Date(first.date).toUTCString(), first.date)
  t.same((await gw.api('GET', `/api/audit-logs/${first._id}`)).body, first)
  t.equal((await gw.api('GET', '/api/audit-logs/nothing')).status, 404)
  t.notMatch(JSON.stringify(body), key)
})

t.test('records are filtered, paged, streamed and downloaded', async t => {
  const gw = await gateway(t)
  for (let i = 0; i < 12; i++) await gw.svc('POST', `/svc/keys/=name-${i}`, rights('a'))
  await gw.svc('DELETE', '/svc/keys/=name-3')
  const count = async (query: string) => {
    const { body } = await gw.api('GET', `/api/audit-logs?p=-1&${query}`)
    return body.audit_logs.length
  }
  t.equal(await count(''), 13)
  t.equal(await count('method=delete'), 1)
  t.equal(await count('status=200&url=name-1'), 3)
  t.equal(await count('status=4xx'), 0)
  t.equal(await count('user=gateway&ip=127.0.0.1'), 13)
  t.equal(await count('user=nobody'), 0)
  t.equal(await count('action=deletes'), 1)
  t.equal(await count('from_date=2999-01-01'), 0)
  t.equal(await count('to_date=2999-01-01&from_date=2001-01-01T00:00:00Z'), 13)
  t.equal((await gw.api('GET', '/api/audit-logs?from_date=yesterday')).status, 400)
  const second = (await gw.api('GET', '/api/audit-logs?p=2')).body
  t.equal(second.pages, 2)
  t.equal(second.audit_logs.length, 3)
  t.same((await gw.api('GET', '/api/audit-logs?p=9&method=POST')).body, { audit_logs: [], pages: 2 })
  const csv = await gw.api('GET', '/api/audit-logs?download=true&type=csv')
  t.match(csv.headers.get('content-type'), /^text\/csv/)
  t.match(csv.headers.get('content-disposition'), /attachment; filename="audit-logs.csv"/)
  const lines = csv.body.trimEnd().split('\r\n')
  t.equal(lines.length, 14)
  t.match(lines[0], /^_id,req_id,org_id,date/)
  const json = await gw.api('GET', '/api/audit-logs?download=1&url=name-11')
  t.match(json.headers.get('content-disposition'), /audit-logs.json/)
  t.equal(json.body.audit_logs.length, 1)
})

t.test('records of another organisation are not seen', async t => {
  const gw = await gateway(t)
  await gw.svc('POST', '/svc/keys/mine', rights('a'))
  const [record] = (await gw.api('GET', '/api/audit-logs')).body.audit_logs
  const key = await gw.user({ org_id: 'other' })
  t.same((await gw.api('GET', '/api/audit-logs', undefined, { key })).body, { audit_logs: [], pages: 0 })
  t.equal((await gw.api('GET', `/api/audit-logs/${record._id}`, undefined, { key })).status, 404)
})

t.test('records leave the store after retention_days', async t => {
  const clock = handClock()
  const gw = await gateway(t, { clock, settings: { management: { audit: { retention_days: 2 } } } })
  await gw.svc('POST', '/svc/keys/first', rights('a'))
  clock.jump(1.5 * DAY_MS)
  await gw.svc('POST', '/svc/keys/second', rights('a'))
  clock.jump(DAY_MS)
  const urls = async () => (await gw.api('GET', '/api/audit-logs')).body.audit_logs.map(({ url }: any) => url)
  while ((await urls()).length > 1);
  t.same(await urls(), ['/svc/keys/second'])
})

t.test('records go to a file when the settings say so, with what was asked and answered', async t => {
  const path = join(t.testdir(), 'audit.log')
  const audit = { store_type: 'file', path, format: 'json', detailed_recording: true }
  const gw = await gateway(t, { settings: { management: { audit } } })
  await gw.svc('POST', '/svc/keys/name', { hmac_string: 'a secret', ...rights('a') })
  const [line] = readFileSync(path, 'utf8').trimEnd().split('\n')
  const record = JSON.parse(line!)
  t.match(record, { status: 200, url: '/svc/keys/name' })
  t.match(record.request_dump, /"hmac_string":"\*{8}"/)
  t.match(record.response_dump, /"action":"added"/)
  t.same((await gw.api('GET', '/api/audit-logs')).body, { audit_logs: [], pages: 0 })
})

t.test('a file that cannot be written is told at start', async t => {
  const audit = { store_type: 'file', path: join(t.testdir(), 'missing', 'audit.log') }
  await t.rejects(gateway(t, { settings: { management: { audit } } }), /audit/)
})

t.test('without audit nothing is recorded', async t => {
  const gw = await gateway(t, { settings: { management: { audit: { enabled: false } } } })
  await gw.svc('POST', '/svc/keys/name', rights('a'))
  t.same((await gw.api('GET', '/api/audit-logs')).body, { audit_logs: [], pages: 0 })
})

t.test('secrets are masked wherever they stand', async t => {
  const token = newToken({ bytes: count => Buffer.alloc(count, 5) })
  const given = {
    password: 'p',
    basic_auth_data: { user: 'u', password: 'p' },
    access_key: 'k',
    list: [{ name: 'Authorization', value: 'v' }, { clientSecret: 's' }, token],
    key: { in: 'header' },
    [token]: 1,
    header_map: { 'X-Auth-Token': 'h', Accept: 'text/plain', 'X-Functions-Key': 'f', 'Ocp-Apim-Subscription-Key': 'o' },
    add: [{ name: 'X-Service-Secret', value: 'v' }],
    db_pass: 'd',
    target_path: 'https://joe:pw@hooks.example.com/services?token=t&page=1',
    api_secret: 5,
    tokens: ['a'],
    client_certs: [{ cert: '-----BEGIN CERTIFICATE-----', key: '-----BEGIN EC PRIVATE KEY-----\nMHc=' }],
    secret: { v: 's' }
  }
  t.same(masked(given), {
    header_map: {
      'X-Auth-Token': '********',
      Accept: 'text/plain',
      'X-Functions-Key': '********',
      'Ocp-Apim-Subscription-Key': '********'
    },
    add: [{ name: 'X-Service-Secret', value: '********' }],
    db_pass: '********',
    target_path: 'https://********@hooks.example.com/services?token=********&page=1',
    api_secret: '********',
    tokens: '********',
    client_certs: [{ cert: '-----BEGIN CERTIFICATE-----', key: '********' }],
    secret: '********',
    password: '********',
    basic_auth_data: { user: 'u', password: '********' },
    access_key: '********',
    list: [{ name: 'Authorization', value: '********' }, { clientSecret: '********' }, '********'],
    key: { in: 'header' },
    '********': 1
  })
  t.equal(
    maskedUrl(`/svc/keys/${token}?a=1&secret=x&key=${token}`),
    '/svc/keys/********?a=1&secret=********&key=********'
  )
  t.equal(maskedUrl('/api/assets/%zz?q=%zz'), '/api/assets/%zz?q=%zz')
})

t.test('of authentication the secrets are masked, and not what names and places them', async t => {
  const MASK = '********'
  const pem = '-----BEGIN PUBLIC KEY-----\nMHc=\n-----END PUBLIC KEY-----'
  const of = (secret: string) => ({
    certificateAuth: { enabled: true },
    protectedResourceMetadata: { enabled: true, authorizationServers: ['https://id.example'] },
    hmac: { enabled: true, cookie: { enabled: true, name: 'sig' } },
    securitySchemes: {
      jwt: { enabled: true, source: secret, signingMethod: 'hmac' },
      token: {
        enabled: true,
        cookie: { enabled: true, name: 'sid' },
        signatureValidation: { enabled: true, header: 'X-Sig', secret }
      },
      rsa: { enabled: true, source: 'https://id.example/jwks', signingMethod: 'rsa' },
      pem: { enabled: true, source: pem },
      oauth: {
        enabled: true,
        providers: [
          {
            jwt: { enabled: true, signingMethod: 'hmac', source: secret },
            introspection: { enabled: true, url: 'https://id.example/ask', clientId: 'c', clientSecret: secret }
          }
        ]
      },
      credentials: secret
    }
  })
  t.strictSame(JSON.parse(JSON.stringify(masked(of('a secret of somebody')))), of(MASK))
  t.equal((masked({ cookie: { enabled: true, name: 'a', value: 'v' } }) as any).cookie, MASK)
})
