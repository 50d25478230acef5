import t from 'tap'
import { systemClock } from '../../config/world.ts'
import type { Notice } from '../../gateway/certificates/notices.ts'
import { logEvents } from '../../gateway/events.ts'
import { Unavailable } from '../../gateway/store/store.ts'
import { storeMemory } from '../../gateway/store/storeMemory.ts'
import { storePostgres } from '../../gateway/store/storePostgres.ts'
import { authorityOf, forwarded } from '../authentication/certificates/made.ts'
import { CN, certificate, hashOf, hosts } from '../helpers/certificates.ts'
import { handClock } from '../helpers/clock.ts'
import { api, collectedLog } from '../helpers/gateway.ts'
import { postgres } from '../helpers/postgres.ts'
import { launch, SECRET, settings } from '../helpers/process.ts'
import { DAY, fragile, HOUR, iso, process, settled } from './watching.ts'

const START = Date.UTC(2030, 0, 1)
const made = (name: string, ms: number) => certificate({ subject: [[CN, name]], to: iso(START + ms) })

/** As a request of a client shows it. */
function client({ certificate: leaf, ...rest }: ReturnType<typeof certificate>, org = 'default') {
  const id = org + hashOf({ certificate: leaf, ...rest })
  return { id, leaf, role: 'client', apiId: 'a1', org } as const
}

t.test('each event comes once per certificate and its own cool-down', async t => {
  const clock = handClock(START)
  const one = process({ store: storeMemory(), clock })
  const watch = one.watch(t)
  const used = client(made('a', DAY + 2 * HOUR))
  const told = async (hours: number) => {
    clock.jump(hours * HOUR)
    watch.used(used)
    watch.used(used)
    await settled()
    return one.told()
  }
  for (const [hours, expected] of [
    [0, ['CertificateExpiringSoon: Certificate a is expiring in 1 days and 2 hours']],
    [0, []],
    [1, []],
    [22, []],
    [1, ['CertificateExpiringSoon: Certificate a is expiring in 2 hours']],
    // Expired: a cool-down of its own.
    [2, ['CertificateExpired: Certificate a is expired since 0 hours']],
    [23, []],
    [1, ['CertificateExpired: Certificate a is expired since 1 days']],
    [25, ['CertificateExpired: Certificate a is expired since 2 days and 1 hours']]
  ] as const)
    t.same(await told(hours), expected)
})

t.test('events tell of the certificate and of the API', async t => {
  const clock = handClock(START)
  const one = process({ store: storeMemory(), clock })
  const watch = one.watch(t)
  const a = made('a', DAY)
  watch.used(client(a))
  await settled()
  t.match(one.emitted, [
    {
      name: 'CertificateExpiringSoon',
      apiId: 'a1',
      certificate: { id: `default${hashOf(a)}`, name: 'a', role: 'client', expiresMs: START + DAY }
    }
  ])
})

t.test('lines of the log carry what they tell of the certificate, and nothing of requests', async t => {
  const clock = handClock(START)
  const one = process({ store: storeMemory(), clock })
  t.teardown(logEvents(one.events, clock, one.log))
  const watch = one.watch(t)
  const a = made('a', 2 * DAY + HOUR)
  const b = made('b', -HOUR)
  watch.used(client(a))
  watch.used({ ...client(b), role: 'upstream', apiId: '' })
  await settled()
  clock.jump(4 * DAY)
  watch.used(client(a))
  await settled()
  const line = (event: string, message: string) => ({ level: 'warn', msg: 'event', event, message })
  t.same(one.log.lines, [
    {
      ...line('CertificateExpiringSoon', 'Certificate a is expiring in 2 days and 1 hours'),
      ...{ cert_id: `default${hashOf(a)}`, cert_name: 'a', cert_role: 'client' },
      ...{ expires_at: '2030-01-03T01:00:00.000Z', days_remaining: 2, api_id: 'a1' }
    },
    {
      ...line('CertificateExpired', 'Certificate b is expired since 1 hours'),
      ...{ cert_id: `default${hashOf(b)}`, cert_name: 'b', cert_role: 'upstream' },
      ...{ expired_at: '2029-12-31T23:00:00.000Z', days_since_expiry: 0 }
    },
    {
      ...line('CertificateExpired', 'Certificate a is expired since 1 days and 23 hours'),
      ...{ cert_id: `default${hashOf(a)}`, cert_name: 'a', cert_role: 'client' },
      ...{ expired_at: '2030-01-03T01:00:00.000Z', days_since_expiry: 1, api_id: 'a1' }
    }
  ])
})

t.test('a certificate is looked at once in a check cool-down', async t => {
  const clock = handClock(START)
  const one = process({ store: storeMemory(), clock }, { check_cooldown_seconds: 600, event_cooldown_seconds: 1 })
  const watch = one.watch(t)
  const used = client(made('a', 10 * DAY))
  const far = client(made('b', 31 * DAY))
  for (const [seconds, events] of [
    [0, 1],
    [599, 0],
    [1, 1],
    [599, 0],
    [2, 1]
  ] as const) {
    clock.jump(seconds * 1000)
    watch.used(used)
    watch.used(far)
    await settled()
    t.equal(one.told().length, events)
  }
})

t.test('thresholds are as configured', async t => {
  const clock = handClock(START)
  const one = process({ store: storeMemory(), clock }, { warning_threshold_days: 7 })
  const watch = one.watch(t)
  for (const days of [8, 7, 1]) watch.used(client(made(`${days}`, days * DAY)))
  await settled()
  t.same(one.told(), [
    'CertificateExpiringSoon: Certificate 7 is expiring in 7 days',
    'CertificateExpiringSoon: Certificate 1 is expiring in 1 days'
  ])
})

t.test('names: the common name, else a host, else the fingerprint', async t => {
  const clock = handClock(START)
  const one = process({ store: storeMemory(), clock })
  const watch = one.watch(t)
  const to = iso(START + DAY)
  const nameless = certificate({ subject: [], to })
  for (const each of [
    certificate({
      subject: [
        [CN, 'first'],
        [CN, 'last']
      ],
      to
    }),
    certificate({ subject: [], extensions: [hosts('a.example', 'b.example')], to }),
    nameless,
    certificate({ subject: [[CN, 'x'.repeat(1000)]], to })
  ])
    watch.used(client(each))
  await settled()
  t.same(
    one.emitted.map(({ certificate }) => certificate?.name),
    ['last', 'a.example', hashOf(nameless), 'x'.repeat(256)]
  )
})

t.test('an upstream’s own certificate counts in each organisation, a file in none', async t => {
  const clock = handClock(START)
  const store = storeMemory()
  const one = process({ store, clock })
  const watch = one.watch(t)
  const up = made('up', DAY)
  const of = (org: string, id: string) => watch.used({ id, leaf: up.certificate, role: 'upstream', apiId: 'a', org })
  of('default', hashOf(up))
  of('other', hashOf(up))
  of('other', `other${hashOf(up)}`)
  await settled()
  t.same(
    one.emitted.splice(0).map(({ certificate }) => certificate?.id),
    [`default${hashOf(up)}`, `other${hashOf(up)}`]
  )
  of('default', '/etc/up.pem')
  of('other', '/etc/up.pem')
  await settled()
  t.same(
    one.emitted.map(({ certificate }) => certificate?.id),
    ['/etc/up.pem']
  )
  const { documents } = await store.list<Notice>('notice', { page: -1, size: 1 })
  t.same(documents.map(({ org }) => org).sort(), ['', 'default', 'other'])
})

t.test('of several processes and threads one tells', async t => {
  const clock = handClock(START)
  const store = storeMemory()
  const all = [1, 2, 3].map(() => process({ store, clock }))
  const watches = all.map(each => each.watch(t))
  const used = client(made('a', DAY))
  const told = async () => {
    for (const watch of watches) watch.used(used)
    await settled()
    return all.flatMap(each => each.told()).length
  }
  t.equal(await told(), 1)
  clock.jump(23 * HOUR)
  t.equal(await told(), 0)
  clock.jump(HOUR)
  t.equal(await told(), 1)
})

t.test('while the store is away nothing is told, and nothing is lost', async t => {
  const clock = handClock(START)
  let isAway = true
  const store = fragile(storeMemory(), () => (isAway ? new Unavailable('away') : null))
  const one = process({ store, clock })
  const watch = one.watch(t)
  for (const name of ['a', 'b']) watch.used(client(made(name, DAY)))
  await settled()
  await clock.move(5_000)
  t.same(one.told(), [])
  isAway = false
  await clock.move(5_000)
  await settled()
  t.equal(one.told().length, 2)
  t.same(one.log.lines, [])
})

t.test('a write that failed after it was done is told once', async t => {
  const clock = handClock(START)
  const store = storeMemory()
  let isAway = true
  const lying: typeof store = {
    ...store,
    async commit(writes) {
      const sequence = await store.commit(writes)
      if (isAway) throw new Unavailable('the connection was lost')
      return sequence
    }
  }
  const one = process({ store: lying, clock })
  const two = process({ store, clock })
  const used = client(made('a', DAY))
  one.watch(t).used(used)
  await settled()
  t.same(one.told(), [])
  two.watch(t).used(used)
  await settled()
  t.same(two.told(), [], 'another process takes it for told')
  isAway = false
  await clock.move(5_000)
  await settled()
  t.equal(one.told().length, 1)
})

t.test('more certificates than can wait are told when they are used again', async t => {
  const clock = handClock(START)
  let isAway = true
  const store = fragile(storeMemory(), () => (isAway ? new Unavailable('away') : null))
  const one = process({ store, clock })
  const watch = one.watch(t)
  const leaf = made('a', DAY)
  // The same bytes with other fingerprints: making a thousand certificates takes seconds.
  const all = Array.from({ length: 1_001 }, (_, i) => {
    const fingerprint = i.toString(16).padStart(64, '0')
    const shown = Object.create(leaf.certificate, {
      fingerprint256: { value: fingerprint.match(/../g)!.join(':') },
      validToDate: { value: leaf.certificate.validToDate },
      subjectAltName: { value: undefined },
      toLegacyObject: { value: () => ({ subject: { CN: 'a' } }) }
    })
    return { id: `default${fingerprint}`, leaf: shown, role: 'client', apiId: '', org: 'default' } as const
  })
  for (const each of all) watch.used(each)
  await settled()
  isAway = false
  await clock.move(5_000)
  for (let i = 0; i < 100 && one.emitted.length < 1_000; i++) await settled()
  t.equal(one.told().length, 1_000)
  watch.used(all.at(-1)!)
  await settled()
  t.equal(one.told().length, 1)
})

t.test('two processes of one database that tell at the same moment: one does', async t => {
  const server = await postgres(t, { version: 17 })
  const url = await server.database()
  const clock = handClock(START)
  const stores = await Promise.all(
    [1, 2].map(() => storePostgres({ url, poolSize: 2, clock: systemClock, log: collectedLog() }))
  )
  t.teardown(() => Promise.all(stores.map(store => store.close())))
  const all = stores.map(store => process({ store, clock }))
  const notices = all.map(({ notices }) => notices)
  const [a, b] = [made('a', DAY), made('b', -DAY)]
  const subjects = [a, b].map(each => ({
    id: `default${hashOf(each)}`,
    org: 'default',
    fingerprint: hashOf(each),
    name: 'a',
    expiresMs: each.certificate.validToDate.getTime(),
    role: '' as const,
    apiId: ''
  }))
  const tell = () =>
    Promise.all([1, 2, 3].flatMap(() => notices.flatMap(each => subjects.map(subject => each.tell(subject)))))
  const told = () => all.flatMap(each => each.told().map(line => line.slice(0, line.indexOf(':')))).sort()
  await tell()
  t.same(told(), ['CertificateExpired', 'CertificateExpiringSoon'])
  clock.jump(DAY - 1)
  await tell()
  t.same(told(), [])
})

t.test('threads tell of what their requests use, once', async t => {
  const gw = launch(t, {
    settings: settings(
      { workers: 2, trusted_proxies: ['127.0.0.1/32'] },
      { storage: { documents: { type: 'memory' } } }
    )
  })
  const url = await gw.ready
  const root = certificate({ extensions: [authorityOf()] })
  const leaf = certificate({ issuer: root, subject: [[CN, 'leaf']], to: iso(Date.now() + DAY + HOUR / 2) })
  const headers = { 'X-Svc-Authorization': SECRET }
  const added = await fetch(`${url}/svc/certs`, { method: 'POST', body: root.pem, headers })
  const { id } = (await added.json()) as { id: string }
  const server = { clientCertificates: { enabled: true, allowlist: [id] } }
  t.equal((await gw.svc('POST', '/svc/apis/oas', api('a', 'svc://echo', { server }))).status, 200)
  for (let i = 0; i < 20; i++)
    t.equal((await fetch(`${url}/a/`, { headers: { ...forwarded(leaf), Connection: 'close' } })).status, 200)
  t.match(await gw.line(({ event }) => event === 'CertificateExpiringSoon'), {
    message: 'Certificate leaf is expiring in 1 days',
    api_id: 'a',
    cert_id: `default${hashOf(leaf)}`,
    cert_name: 'leaf',
    cert_role: 'client',
    days_remaining: 1
  })
  gw.child.kill('SIGTERM')
  t.equal(await gw.ended, 0)
  t.equal(gw.lines().filter(({ event }) => event === 'CertificateExpiringSoon').length, 1)
})
