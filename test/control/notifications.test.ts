import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { forwarded } from '../authentication/certificates/made.ts'
import { CN, certificate, hashOf, publicKeyOf } from '../helpers/certificates.ts'
import { handClock } from '../helpers/clock.ts'
import { api, gateway, type TestGateway } from '../helpers/gateway.ts'
import { folder } from '../helpers/process.ts'

const START = Date.UTC(2030, 0, 1)
const DAY = 86_400_000
const to = (ms: number) => new Date(START + ms).toISOString()
const made = (name: string, ms: number) => certificate({ subject: [[CN, name]], to: to(ms) })
const at = (ms: number) => to(ms).replace('.000Z', 'Z')

async function added(gw: TestGateway, pem: string, key?: string): Promise<string> {
  const { status, body } = await gw.api('POST', '/api/certs', pem, key === undefined ? {} : { key })
  if (status !== 200) throw new Error(JSON.stringify(body))
  return body.id
}

const banner = async (gw: TestGateway, query = '', key?: string) =>
  (await gw.api('GET', `/api/org/notifications${query}`, undefined, key === undefined ? {} : { key })).body

t.test('the banner tells what has expired and what is about to, the earliest end first', async t => {
  const clock = handClock(START)
  const gw = await gateway(t, { clock })
  t.same(await banner(gw), [])
  const near = await added(gw, made('near', 2 * DAY + 3 * 3_600_000).pem)
  await added(gw, made('far', 31 * DAY).pem)
  const edge = await added(gw, made('edge', 30 * DAY).pem)
  await added(gw, String(publicKeyOf(made('key', DAY)).export({ format: 'pem', type: 'spki' })))
  const first = await banner(gw)
  t.match(first, [
    {
      id: /^[0-9a-f]{24}$/,
      created_at: at(-28 * DAY + 3 * 3_600_000),
      org_id: 'default',
      hash: /^[0-9a-f]{64}$/,
      kind: 'warning',
      topic: 'certificate.expiry',
      title: 'Certificate expires soon',
      message: 'Certificate near is expiring in 2 days and 3 hours',
      data: { cert_id: near, expiry_date: at(2 * DAY + 3 * 3_600_000), days_remaining: 2 }
    },
    { kind: 'warning', data: { cert_id: edge, days_remaining: 30 } }
  ])
  t.equal(first.length, 2)
  t.same(await banner(gw, '?refresh=true'), first)
  clock.jump(4 * DAY)
  const later = await banner(gw)
  t.match(later, [
    {
      created_at: at(2 * DAY + 3 * 3_600_000),
      kind: 'critical',
      title: 'Certificate expired',
      message: 'Certificate near is expired since 1 days and 21 hours',
      data: { cert_id: near, days_remaining: -1 }
    },
    { data: { cert_id: edge, days_remaining: 26 } },
    { message: 'Certificate far is expiring in 27 days' }
  ])
  t.not(later[0].hash, first[0].hash, 'another state is news')
  t.equal(later[1].hash, first[1].hash, 'the same state is not')
  t.same(await banner(gw, '?p=2&page_size=2'), later.slice(2))
  t.same(await banner(gw, '?page_size=1'), later.slice(0, 1))
  t.equal((await gw.api('GET', '/api/org/notifications?p=x')).status, 400)
  t.equal((await gw.api('DELETE', `/api/certs/${near}`)).status, 200)
  t.equal((await banner(gw)).length, 2, 'a deleted one is told no more')
})

t.test('the threshold of the management side is its own', async t => {
  const monitor = { warning_threshold_days: 3 }
  const gw = await gateway(t, {
    clock: handClock(START),
    settings: { management: { notifications: { certificate_expiry_monitor: monitor } } }
  })
  await added(gw, made('a', 2 * DAY).pem)
  await added(gw, made('b', 4 * DAY).pem)
  t.match(await banner(gw), [{ message: /Certificate a / }])
  const { cert_basics } = (await gw.api('GET', '/api/certs?mode=detailed')).body
  t.same(
    cert_basics.map(({ expiry }: { expiry: unknown }) => expiry),
    [
      { state: 'expiring', days_remaining: 2 },
      { state: 'valid', days_remaining: 4 }
    ]
  )
})

t.test('lists and details mark certificates that end', async t => {
  const clock = handClock(START)
  const gw = await gateway(t, { clock })
  const a = made('a', 31 * DAY)
  const id = await added(gw, a.pem + a.keyPem)
  const expiries = async () => [
    (await gw.api('GET', '/api/certs?mode=detailed')).body.cert_basics[0].expiry,
    (await gw.api('GET', '/api/certs?mode=detailed&p=-1')).body.cert_basics[0].expiry,
    (await gw.api('GET', '/api/certs?mode=detailed&filter=with_pk')).body.cert_basics[0].expiry,
    (await gw.api('GET', '/api/certs/details')).body.certificates[0].expiry,
    (await gw.api('GET', `/api/certs/${id}`)).body.expiry
  ]
  for (const [days, expected] of [
    [0, { state: 'valid', days_remaining: 31 }],
    [1, { state: 'expiring', days_remaining: 30 }],
    [30, { state: 'expired', days_remaining: 0 }],
    [1, { state: 'expired', days_remaining: -1 }]
  ] as const) {
    clock.jump(days * DAY)
    t.same(await expiries(), Array(5).fill(expected))
  }
})

t.test('clients’ certificates that requests have shown are told as long as they are in use', async t => {
  const clock = handClock(START)
  const gw = await gateway(t, { clock, settings: { gateway: { trusted_proxies: ['127.0.0.1/32'] } } })
  const own = made('client', 5 * DAY)
  const id = await added(gw, own.pem)
  const server = { clientCertificates: { enabled: true, allowlist: [id] } }
  t.equal((await gw.svc('POST', '/svc/apis/oas', api('a', 'svc://echo', { server }))).status, 200)
  const call = async () => (await gw.get('/a/', forwarded(own))).status
  t.equal(await call(), 200)
  const lines = () => gw.log.lines.filter(({ event }) => event === 'CertificateExpiringSoon')
  for (let i = 0; i < 100 && lines().length === 0; i++) await new Promise(resolve => setImmediate(resolve))
  t.match(lines(), [{ message: 'Certificate client is expiring in 5 days', api_id: 'a', cert_id: id }])
  t.equal((await banner(gw)).length, 1, 'stored and shown: told once')
  // As if a listed authority had signed it: it is nowhere but in requests.
  const { rev, body } = (await gw.store.get('certificate', id))!
  await gw.store.commit([{ kind: 'certificate', id, body: null, expect: rev }])
  t.match(await banner(gw), [{ data: { cert_id: id, days_remaining: 5 } }])
  clock.jump(2 * (DAY + 3_600_000))
  t.equal((await banner(gw)).length, 1)
  clock.jump(1)
  t.same(await banner(gw), [], 'nobody has used it for long')
  t.ok(body)
})

t.test('files are told to administrators of `default`, organisations see their own alone', async t => {
  const near = made('file', DAY)
  const file = join(folder(t), 'near.pem')
  writeFileSync(file, near.pem + near.keyPem)
  const gw = await gateway(t, {
    clock: handClock(START),
    settings: { gateway: { security: { certificates: { upstream: { '*': file } } } } }
  })
  await gw.admin('POST', '/admin/organisations', { id: 'acme', owner_name: 'Acme' })
  const other = await gw.user({ org_id: 'acme' })
  const reader = await gw.user({ org_id: 'default', user_permissions: { certs: 'read' } })
  const nobody = await gw.user({ org_id: 'default', user_permissions: { system: 'read' } })
  t.match(await banner(gw), [{ data: { cert_id: file }, message: 'Certificate file is expiring in 1 days' }])
  t.same(await banner(gw, '', reader), [])
  t.same(await banner(gw, '', other), [])
  t.equal((await gw.api('GET', '/api/org/notifications', undefined, { key: nobody })).status, 403)
  const theirs = await added(gw, made('theirs', DAY).pem, other)
  t.match(await banner(gw, '', other), [{ org_id: 'acme', data: { cert_id: theirs } }])
  t.equal((await banner(gw)).length, 1)
  t.same(await banner(gw, '', reader), [])
  t.equal(hashOf(near).length, 64)
})
