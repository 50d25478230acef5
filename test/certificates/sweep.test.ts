import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { certificateOf } from '../../gateway/certificates/openCertificates.ts'
import { Unavailable } from '../../gateway/store/store.ts'
import { storeMemory } from '../../gateway/store/storeMemory.ts'
import { CN, certificate, hashOf, publicKeyOf } from '../helpers/certificates.ts'
import { handClock } from '../helpers/clock.ts'
import { api, gateway } from '../helpers/gateway.ts'
import { postgres } from '../helpers/postgres.ts'
import { folder, launch, SECRET, settings } from '../helpers/process.ts'
import { DAY, fragile, HOUR, iso, keep, process, settled } from './watching.ts'

const START = Date.UTC(2030, 0, 1)
const made = (name: string, ms: number) => certificate({ subject: [[CN, name]], to: iso(START + ms) })

t.test('everything in the store is looked at, at start and each check cool-down, used or not', async t => {
  const clock = handClock(START)
  const store = storeMemory()
  await keep(store, made('near', 2 * DAY))
  await keep(store, made('far', 90 * DAY))
  await keep(store, made('over', -DAY), 'other')
  const one = process({ store, clock })
  one.sweep(t)
  await settled()
  t.same(one.told(), [
    'CertificateExpiringSoon: Certificate near is expiring in 2 days',
    'CertificateExpired: Certificate over is expired since 1 days'
  ])
  await keep(store, made('new', 3 * DAY))
  await clock.move(HOUR - 1)
  await settled()
  t.same(one.told(), [])
  await clock.move(1)
  await settled()
  t.same(one.told(), ['CertificateExpiringSoon: Certificate new is expiring in 2 days and 23 hours'])
  for (let hour = 0; hour < 23; hour++) {
    await clock.move(HOUR)
    await settled()
  }
  t.equal(one.told().length, 2, 'after a day those of the start are told again')
})

t.test('files that are held are looked at; bare keys have no end', async t => {
  const clock = handClock(START)
  const store = storeMemory()
  const near = made('file', DAY)
  const key = String(publicKeyOf(near).export({ format: 'pem', type: 'spki' }))
  const files = [
    certificateOf('/a.pem', '', near.pem, null),
    certificateOf('/key.pem', '', key, null),
    certificateOf('x', 'default', near.pem, null)
  ]
  const bare = { fingerprint: 'k', not_after: '0001-01-01T00:00:00Z', subject: { CommonName: 'k' }, dns_names: [] }
  await store.commit([
    { kind: 'certificate', id: 'k', org: 'default', body: { details: bare, pem: key, sealedKey: '' } }
  ])
  const one = process({ store, clock, files })
  one.sweep(t)
  await settled()
  t.match(one.emitted, [{ name: 'CertificateExpiringSoon', certificate: { id: '/a.pem', name: 'file' } }])
  t.equal(one.emitted.length, 1)
})

t.test('a sweep keeps what a request has shown', async t => {
  const clock = handClock(START)
  const store = storeMemory()
  const near = made('a', 9 * DAY)
  const id = await keep(store, near)
  const one = process({ store, clock })
  one.watch(t).used({ id, leaf: near.certificate, role: 'client', apiId: 'a1', org: 'default' })
  await settled()
  one.told()
  clock.jump(DAY)
  one.sweep(t)
  await settled()
  t.match(one.emitted, [{ apiId: 'a1', certificate: { id, role: 'client' } }])
})

t.test('a store that is away is asked again; a sweep that is ended stops', async t => {
  const clock = handClock(START)
  const memory = storeMemory()
  await keep(memory, made('a', DAY))
  let isAway = true
  const store = fragile(memory, () => (isAway ? new Unavailable('away') : null))
  const one = process({ store, clock })
  const stop = one.sweep(t)
  await settled()
  t.same(one.told(), [])
  isAway = false
  await clock.move(10_000)
  await settled()
  t.equal(one.told().length, 1)
  await stop()
  await clock.move(2 * DAY)
  await settled()
  t.same(one.told(), [])
  t.same(one.log.lines, [])
})

t.test('notices of what is nowhere any more are forgotten', async t => {
  const clock = handClock(START)
  const store = storeMemory()
  const one = process({ store, clock })
  const gone = made('gone', 20 * DAY)
  one.watch(t).used({ id: hashOf(gone), leaf: gone.certificate, role: 'upstream', apiId: 'a', org: 'default' })
  await keep(store, made('kept', 20 * DAY))
  await settled()
  one.sweep(t)
  const count = async () => (await store.list('notice', { page: 1, size: 1 })).total
  await settled()
  t.equal(await count(), 2)
  for (let hour = 0; hour < 49; hour++) {
    await clock.move(HOUR)
    await settled()
  }
  t.equal(await count(), 2)
  for (let hour = 0; hour < 3; hour++) {
    await clock.move(HOUR)
    await settled()
  }
  t.equal(await count(), 1)
})

t.test('two gateways of one database: one of them tells', async t => {
  const server = await postgres(t, { version: 17 })
  const settings = { storage: { documents: { type: 'postgres', url: await server.database(), pool_size: 4 } } }
  const clock = () => handClock(START)
  const first = await gateway(t, { settings, clock: clock() })
  t.equal((await first.api('POST', '/api/certs', made('shared', DAY).pem)).status, 200)
  const clocks = [clock(), clock()]
  const both = await Promise.all(clocks.map(clock => gateway(t, { settings, clock })))
  const lines = () => both.flatMap(({ log }) => log.lines).filter(({ event }) => event === 'CertificateExpiringSoon')
  for (let i = 0; i < 200 && lines().length === 0; i++) await new Promise(resolve => setTimeout(resolve, 10))
  await Promise.all(both.map(({ store }) => store.sequence()))
  t.match(lines(), [{ message: 'Certificate shared is expiring in 1 days', level: 'warn' }])
  t.equal(lines().length, 1)
  const { body } = await first.api('GET', '/api/org/notifications')
  t.equal(body.length, 1)
})

t.test('a process with threads tells a file of its settings once', async t => {
  const cwd = folder(t)
  const near = certificate({ subject: [[CN, 'in a file']], to: iso(Date.now() + DAY + HOUR / 2) })
  const file = join(cwd, 'near.pem')
  writeFileSync(file, near.pem + near.keyPem)
  const gw = launch(t, {
    cwd,
    settings: settings(
      { workers: 2, secret: SECRET, security: { certificates: { upstream: { '*': file } } } },
      { storage: { documents: { type: 'memory' } } }
    )
  })
  await gw.ready
  const line = await gw.line(({ event }) => event === 'CertificateExpiringSoon')
  t.match(line, { message: 'Certificate in a file is expiring in 1 days', cert_id: file, cert_role: '' })
  gw.child.kill('SIGTERM')
  t.equal(await gw.ended, 0)
  t.equal(gw.lines().filter(({ event }) => event === 'CertificateExpiringSoon').length, 1)
})

t.test('an API that names a certificate that is not there is saved, and the log says so once', async t => {
  const clock = handClock(START)
  const gw = await gateway(t, { clock })
  const missing = made('a', 90 * DAY)
  const id = `default${hashOf(missing)}`
  const naming = api('a', 'svc://echo', { server: { clientCertificates: { enabled: true, allowlist: [id] } } })
  t.equal((await gw.svc('POST', '/svc/apis/oas', naming)).status, 200)
  const lines = () => gw.log.lines.filter(({ msg }) => msg === 'an API names a certificate that is not there')
  await clock.move(1_000)
  t.match(lines(), [{ level: 'warn', api_id: 'a', certificate: id }])
  t.equal((await gw.svc('PUT', '/svc/apis/oas/a', { ...naming, info: { title: 'b', version: '2' } })).status, 200)
  await clock.move(1_000)
  t.equal(lines().length, 1)
  t.equal((await gw.api('POST', '/api/certs', missing.pem)).status, 200)
  await clock.move(1_000)
  t.equal(lines().length, 1)
})

t.test('an id that the settings name and that is not there is told as well, once', async t => {
  const clock = handClock(START)
  const missing = made('a', 90 * DAY)
  const id = `default${hashOf(missing)}`
  const security = { certificates: { upstream: { 'a.test': id } }, pinned_public_keys: { '*': `${id}, other` } }
  const gw = await gateway(t, { clock, settings: { gateway: { security } } })
  const lines = () => gw.log.lines.filter(({ msg }) => msg === 'the settings name a certificate that is not there')
  await clock.move(1_000)
  t.match(lines(), [
    { level: 'warn', certificate: id },
    { level: 'warn', certificate: 'other' }
  ])
  t.equal((await gw.api('POST', '/api/certs', missing.pem)).status, 200)
  await clock.move(1_000)
  t.equal(lines().length, 2)
})
