import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '../../config/world.ts'
import { newUser, userWrites } from '../../control/users.ts'
import type { KeyRecord } from '../../gateway/keys/keys.ts'
import { customId } from '../../gateway/keys/token.ts'
import type { Store, Write } from '../../gateway/store/store.ts'
import { storePostgres } from '../../gateway/store/storePostgres.ts'
import { storeSqlite } from '../../gateway/store/storeSqlite.ts'
import { vault } from '../../gateway/vault.ts'
import { postgres } from '../../test/helpers/postgres.ts'
import { COMPILED, flags, program } from './contenders.ts'
import { apiDocument } from './documents.ts'
import { generate, type Measured } from './generator.ts'
import { folder, type Running, start } from './processes.ts'
import { type Options, progress, type Scenario, target } from './scenario.ts'
import { figure, median, percentile, type Table } from './table.ts'
import { startUpstream } from './upstream.ts'

const secret = 'only-for-this-bench'
const accessKey = 'bench-access-key-0123456789'
const heldRate = 1_000
const writers = 50
const log = { debug() {}, info() {}, warn: console.error, error: console.error }
const org = 'default'
const dbId = (kind: number, i: number) => `${String(kind).padStart(8, '0')}${String(i).padStart(16, '0')}`

interface Amounts {
  readonly apis: number
  readonly policies: number
  readonly users: number
  readonly keys: number
  /** Calls of each kind that are timed. */
  readonly calls: number
  /** Documents that each of the writers at once makes. */
  readonly each: number
}

/** Milliseconds of calls of one kind. */
interface Timed {
  readonly what: string
  readonly kind: 'read' | 'page' | 'write' | 'served'
  readonly p50: number
  readonly p99: number
  readonly worst: number
}

interface Result {
  readonly store: string
  readonly fillSeconds: number
  readonly startMs: number
  readonly timed: readonly Timed[]
  readonly lost: number
  readonly writersPerSecond: number
  readonly quiet: Measured
  readonly meanwhile: Measured
}

export const management: Scenario = {
  name: 'management',
  summary:
    '10,000 APIs, 100,000 policies and users, 1,000,000 keys in SQLite and PostgreSQL: reads, pages, writes, what they cost requests',
  async run(options) {
    const amounts: Amounts = options.quick
      ? { apis: 200, policies: 1_000, users: 1_000, keys: 5_000, calls: 30, each: 4 }
      : { apis: 10_000, policies: 50_000, users: 50_000, keys: 1_000_000, calls: 200, each: 20 }
    const upstream = await startUpstream()
    const results: Result[] = []
    for (const store of ['sqlite', 'postgres'] as const) results.push(await measure(store, upstream, amounts, options))
    await upstream.stop()
    const worst = ({ timed }: Result, kinds: readonly Timed['kind'][]) =>
      Math.max(...timed.filter(({ kind }) => kinds.includes(kind)).map(({ p99 }) => p99))
    return {
      tables: [...results.map(calls), beside(results)],
      details: [],
      targets: results.flatMap(result => [
        target(
          `${result.store}: every read of one object and every list page, p99`,
          worst(result, ['read', 'page']),
          '<=',
          20,
          ' ms'
        ),
        target(`${result.store}: every write, one at a time, p99`, worst(result, ['write']), '<=', 50, ' ms'),
        target(`${result.store}: a changed API answers, p99`, worst(result, ['served']), '<=', 50, ' ms'),
        target(`${result.store}: lost by ${writers} writers at once`, result.lost, '<=', 0),
        target(
          `${result.store}: p99 of requests meanwhile, above quiet times`,
          result.meanwhile.p99 - result.quiet.p99,
          '<=',
          5,
          ' ms'
        )
      ]),
      failures: results.flatMap(({ store, quiet, meanwhile, lost }) => {
        const failed = quiet.refused + quiet.broken + meanwhile.refused + meanwhile.broken
        return [
          ...(failed > 0 ? [`${store}: ${failed} requests were not answered as expected`] : []),
          ...(lost > 0 ? [`${store}: ${lost} acknowledged documents are not there`] : [])
        ]
      })
    }
  }
}

async function measure(
  type: 'sqlite' | 'postgres',
  upstream: Running,
  amounts: Amounts,
  options: Options
): Promise<Result> {
  const temp = folder()
  const ends: (() => unknown)[] = []
  const server =
    type === 'postgres' ? await postgres({ teardown: end => void ends.push(end) }, { version: 17, sync: true }) : null
  const documents = server === null ? { type, path: join(temp.path, 'svc.db') } : { type, url: server.url }
  const opened =
    server === null
      ? await storeSqlite({ path: join(temp.path, 'svc.db'), log })
      : await storePostgres({ url: server.url, poolSize: 4, clock: systemClock, log })
  progress(`${type}: writing documents`)
  const from = performance.now()
  await fill(opened, amounts, upstream.url)
  await opened.close()
  const fillSeconds = (performance.now() - from) / 1000
  progress(`${type}: written in ${figure(fillSeconds, 1)} s`)

  const config = join(temp.path, 'settings.json')
  writeFileSync(
    config,
    JSON.stringify({
      gateway: { listen_address: '127.0.0.1', listen_port: 0, secret, access_logs: { enabled: false } },
      management: { listen_port: 0 },
      storage: { documents }
    })
  )
  const starting = performance.now()
  const args = [...flags, program, '--config', config]
  const running = await start({
    name: 'gateway',
    place: 'gateway',
    program: process.execPath,
    args,
    env: { ...COMPILED, ...options.env },
    port: null
  })
  const startMs = performance.now() - starting
  const api = caller(running)
  const load = { url: `${running.url}/api-3/items/7`, connections: 16, rate: heldRate, seconds: options.seconds }
  await generate({ ...load, seconds: 2 })
  const quiet = await generate(load)
  const timed = await timeCalls(api, running, amounts, upstream.url)
  progress(`${type}: ${timed.map(({ what, p99 }) => `${what} ${figure(p99, 1)}`).join(', ')} ms p99`)
  const { lost, perSecond } = await writeAtOnce(api, amounts)
  const meanwhile = await during(generate(load), api, amounts)
  running.mustRun()
  await running.stop()
  for (const end of ends.reverse()) await end()
  temp.remove()
  return { store: type, fillSeconds, startMs, timed, lost, writersPerSecond: perSecond, quiet, meanwhile }
}

/** Straight into the store, as the interface would have written them. */
async function fill(store: Store, { apis, policies, users, keys }: Amounts, upstream: string): Promise<void> {
  const random = { bytes: (count: number) => randomBytes(count) }
  const sealed = vault(secret, random)
  const batches = async (count: number, size: number, make: (i: number) => readonly Write[]) => {
    for (let first = 0; first < count; first += size) {
      const writes = Array.from({ length: Math.min(size, count - first) }, (_, i) => make(first + i))
      await store.commit(writes.flat())
    }
  }
  const at = '2026-01-01T00:00:00.000Z'
  const person = (i: number, key: string) => {
    const given = { active: true, email_address: `user${i}@example.com`, first_name: `User ${i}`, org_id: org }
    return userWrites(newUser(given, dbId(1, i), at), key, '', sealed)
  }
  await store.commit(person(0, accessKey))
  await batches(users - 1, 1_000, i => person(i + 1, `unused-access-key-${i + 1}`))
  await batches(policies, 1_000, i => [policyOf(i)])
  await batches(apis, 200, i => {
    const id = `api-${i}`
    return [{ kind: 'api', id, org, body: apiOf(i, upstream, 0) }]
  })
  await batches(keys, 5_000, i => {
    const name = `key-${i}`
    const body: KeyRecord = { name, generated: false, key: keyOf(at) }
    return [{ kind: 'key', id: customId(org, name), org, body }]
  })
}

function policyOf(i: number): Write {
  const id = `policy-${i}`
  const body = { _id: dbId(2, i), id, name: id, org_id: org, active: true, ...limits(i), last_updated: '1767225600' }
  return { kind: 'policy', id, org, body }
}

const rights = { 'api-3': { api_id: 'api-3', api_name: 'api-3', versions: ['Default'] } }
const limits = (i: number) => ({ rate: 100 + (i % 50), per: 60, quota_max: -1, access_rights: rights })
const keyOf = (at: string) => ({
  org_id: org,
  rate: 1000,
  per: 1,
  access_rights: rights,
  date_created: at,
  last_updated: '1767225600'
})

function apiOf(i: number, upstream: string, generation: number): object {
  const id = `api-${i}`
  const document = apiDocument({ id, listenPath: `/${id}/`, upstream, access: 'keyless', generation }) as {
    'x-svc-api-gateway': { info: Record<string, unknown> }
  }
  Object.assign(document['x-svc-api-gateway'].info, { dbId: dbId(3, i), orgId: org })
  return document
}

type Call = (method: string, path: string, body?: unknown) => Promise<Readonly<Record<string, string>>>

/** @throws Error when it does not answer with a success */
function caller({ management: url }: Running): Call {
  if (url === null) throw new Error('the gateway has told no management interface')
  return async (method, path, body) => {
    const answer = await fetch(url + path, {
      method,
      headers: { Authorization: accessKey, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
      body: body === undefined ? null : JSON.stringify(body)
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text.slice(0, 500)}`)
    return JSON.parse(text)
  }
}

async function timeCalls(api: Call, running: Running, amounts: Amounts, upstream: string): Promise<Timed[]> {
  const { apis, policies, users, keys, calls } = amounts
  const any = (count: number) => Math.floor(Math.random() * count)
  const timed: Timed[] = []
  const time = async (what: string, kind: Timed['kind'], call: (i: number) => Promise<unknown>) => {
    // What a first call compiles and reads is no property of the interface.
    for (let i = 0; i < 5; i++) await call(-1 - i)
    const times: number[] = []
    for (let i = 0; i < calls; i++) {
      const from = performance.now()
      await call(i)
      times.push(performance.now() - from)
    }
    times.sort((a, b) => a - b)
    timed.push({ what, kind, p50: median(times), p99: percentile(times, 0.99), worst: times.at(-1)! })
  }
  await time('key', 'read', () => api('GET', `/api/keys/key-${any(keys)}`))
  await time('key of an API', 'read', () => api('GET', `/api/apis/api-3/keys/key-${any(keys)}`))
  await time('policy', 'read', () => api('GET', `/api/portal/policies/policy-${any(policies)}`))
  await time('user', 'read', () => api('GET', `/api/users/${dbId(1, any(users))}`))
  await time('API', 'read', () => api('GET', `/api/apis/oas/api-${any(apis)}`))
  await time('API by database id', 'read', () => api('GET', `/api/apis/oas/${dbId(3, any(apis))}`))
  await time('URLs of an API', 'read', () => api('GET', `/api/apis/oas/api-${any(apis)}/urls`))
  const page = (count: number) => 1 + any(Math.floor(count / 10))
  await time('page of keys', 'page', () => api('GET', `/api/keys/detailed?p=${page(keys)}`))
  await time('page of policies', 'page', () => api('GET', `/api/portal/policies?p=${page(policies)}`))
  await time('page of users', 'page', () => api('GET', `/api/users?p=${page(users)}`))
  await time('page of API documents', 'page', () => api('GET', `/api/apis/oas?p=${page(apis)}`))
  await time('page of APIs by name', 'page', () => api('GET', `/api/apis?p=${page(apis)}&sort=name`))
  await time('write a policy', 'write', i =>
    api('PUT', `/api/portal/policies/policy-${any(policies)}`, {
      ...limits(i + 9),
      name: `changed ${i} ${Math.random()}`
    })
  )
  await time('write a key', 'write', () => api('PUT', `/api/keys/key-${any(keys)}`, keyOf('')))
  await time('write a user', 'write', i =>
    api('PUT', `/api/users/${dbId(1, 1 + any(users - 1))}`, {
      first_name: `Changed ${i}`,
      last_name: 'x',
      email_address: `changed${Math.random()}@example.com`,
      active: true,
      user_permissions: { apis: 'read' }
    })
  )
  await time('create a policy', 'write', i =>
    api('POST', '/api/portal/policies', { ...limits(1), name: `created ${i}` })
  )
  await time('page of audit records', 'page', () => api('GET', '/api/audit-logs?p=2'))
  let generation = 1
  await time('write an API and be answered by it', 'served', async () => {
    const i = any(apis)
    await api('PUT', `/api/apis/oas/api-${i}`, apiOf(i, upstream, ++generation))
    const answer = await fetch(`${running.url}/api-${i}/items/7`)
    await answer.arrayBuffer()
    if (answer.headers.get('X-Generation') !== String(generation)) throw new Error('the older document still answers')
  })
  return timed
}

/** Many writers, then a count of what they were told is there. */
async function writeAtOnce(api: Call, { each }: Amounts): Promise<{ lost: number; perSecond: number }> {
  const from = performance.now()
  const ids = await Promise.all(
    Array.from({ length: writers }, async (_, writer) => {
      const made: string[] = []
      for (let i = 0; i < each; i++) {
        const { Message } = await api('POST', '/api/portal/policies', { ...limits(i), name: `writer ${writer} ${i}` })
        made.push(Message!)
      }
      return made
    })
  )
  const perSecond = (writers * each) / ((performance.now() - from) / 1000)
  let lost = 0
  for (const id of ids.flat()) await api('GET', `/api/portal/policies/${id}`).catch(() => lost++)
  return { lost, perSecond }
}

/** Reads, pages and writes, one after another, until the load has ended. */
async function during(load: Promise<Measured>, api: Call, { policies, keys, apis }: Amounts): Promise<Measured> {
  let going = true
  const end = () => {
    going = false
  }
  load.then(end, end)
  for (let i = 0; going; i++) {
    await api('GET', `/api/keys/detailed?p=${1 + ((i * 997) % Math.floor(keys / 10))}`)
    await api('GET', `/api/apis/oas/api-${i % apis}`)
    await api('PUT', `/api/portal/policies/policy-${i % policies}`, {
      ...limits(i),
      name: `meanwhile ${i} ${Math.random()}`
    })
  }
  return load
}

function calls({ store, timed, fillSeconds, startMs, writersPerSecond }: Result): Table {
  const rows = timed.map(({ what, p50, p99, worst }) => [what, figure(p50, 2), figure(p99, 2), figure(worst, 2)])
  const caption = `${store}: calls one at a time, ms; filled in ${figure(fillSeconds)} s, started in ${figure(startMs)} ms, ${figure(writersPerSecond)} writes/s by ${writers} at once`
  return { caption, head: ['call', 'p50', 'p99', 'worst'], rows }
}

function beside(results: readonly Result[]): Table {
  const rows = results.map(({ store, quiet, meanwhile }) => [
    store,
    ...[quiet, meanwhile].flatMap(({ p50, p99, worst }) => [figure(p50, 2), figure(p99, 2), figure(worst, 2)])
  ])
  const head = ['store', 'p50 quiet', 'p99', 'worst', 'p50 meanwhile', 'p99', 'worst']
  return {
    caption: `Requests at ${figure(heldRate)}/s while documents are read and written without a pause, ms`,
    head,
    rows
  }
}
