import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parseExact } from '../../config/exactJson.ts'
import { systemClock } from '../../config/world.ts'
import { type Move, moveKeys } from '../../control/cli/moveKeys.ts'
import { openRedis } from '../../gateway/redis/openRedis.ts'
import type { Store } from '../../gateway/store/store.ts'
import { storePostgres } from '../../gateway/store/storePostgres.ts'
import { storeRedis } from '../../gateway/store/storeRedis.ts'
import { storeSqlite } from '../../gateway/store/storeSqlite.ts'
import { compiled } from '../helpers/compiled.ts'
import { api, collectedLog, gateway, SECRET, withKey } from '../helpers/gateway.ts'
import { postgres } from '../helpers/postgres.ts'
import { redisServer } from '../helpers/redis.ts'
import { counters } from '../store/redis.ts'

t.setTimeout(60_000)
const program = join(import.meta.dirname, '../../control/commandLine.ts')
const server = await redisServer(t)
const log = collectedLog()

const key = (id: string, body: unknown = { name: id }, org = 'o1') => ({ kind: 'key' as const, id, org, body })
const all = async (store: Store) =>
  (await store.list('key', { page: -1, size: 1 })).documents.map(({ id, org, body }) => [id, org, JSON.stringify(body)])

async function redisOf(t: Test, key_prefix: string): Promise<Store> {
  const link = await openRedis(counters({ url: server.url, key_prefix }), { clock: systemClock, log })
  t.teardown(() => link.close())
  return storeRedis({ link, clock: systemClock, log })
}

function settings(t: Test, documents: object, key_prefix: string): string {
  const file = join(t.testdir(), 'settings.json')
  const storage = { documents, counters: { type: 'redis', url: server.url, key_prefix } }
  writeFileSync(file, JSON.stringify({ gateway: { secret: SECRET }, storage }))
  return file
}

function svc(...args: string[]): Promise<{ status: number; out: string; err: string }> {
  const node = ['--disable-warning=ExperimentalWarning', program, ...args]
  return new Promise(resolve => {
    execFile(process.execPath, node, { env: { PATH: process.env.PATH!, ...compiled } }, (error, out, err) =>
      resolve({ status: error === null ? 0 : Number(error.code), out, err })
    )
  })
}

async function run(config: string, given: Partial<Move> = {}): Promise<{ done: boolean; text: string }> {
  const lines: string[] = []
  const move: Move = { config, to: 'redis', overwrite: false, mirror: false, remove: false, ...given }
  const done = await moveKeys(move, line => void lines.push(line))
  return { done, text: lines.join('\n') }
}

t.test('the command line moves keys from SQLite to Redis and back, told line by line', async t => {
  const path = join(t.testdir(), 'svc.db')
  const file = settings(t, { type: 'sqlite', path }, 'lite')
  const written = [
    key('shop', parseExact('{"name":"shop","key":{"expires":1800000000,"n":9223372036854775807}}')),
    ...Array.from({ length: 700 }, (_, i) => key(`${i}`, { generated: true, key: { rate: i } }, `o${i % 3}`))
  ]
  const sqlite = await storeSqlite({ path, log })
  await sqlite.commit(written)
  await sqlite.commit([key('shop', written[0]!.body), { kind: 'policy', id: 'gold', org: '', body: 1 }])
  const before = await all(sqlite)
  await t.rejects(run(file), { message: `${path} is in use by another process: stop the gateway first` })
  await sqlite.close()

  const moved = await svc('move-keys', '--config', file, '--to', 'redis', '--delete')
  t.equal(moved.status, 0, moved.err)
  t.match(moved.out, /^701 keys to copy to redis\n701 copied, 0 were there, 0 replaced, 0 left/)
  t.match(moved.out, /every key is in redis\n701 deleted where they came from\n.*set storage.keys to "redis"/)
  const redis = await redisOf(t, 'lite')
  t.strictSame(await all(redis), before, 'in the order of creation, digit by digit')

  t.match(await run(file, { to: 'documents' }), { done: true, text: /701 copied.*\n.*\nnothing was deleted/ })
  const again = await storeSqlite({ path, log })
  t.strictSame(await all(again), before)
  t.equal((await again.list('policy', { page: 1, size: 1 })).total, 1)
  await again.close()
  t.equal((await redis.list('key', { page: 1, size: 1 })).total, 701, 'the source is untouched')
})

t.test('a gateway keeps its keys in Redis and all else in its documents', async t => {
  const orders = api('orders', 'svc://echo', { server: { listenPath: { value: '/orders/', strip: true }, ...withKey } })
  const storage = {
    documents: { type: 'memory' },
    keys: 'redis',
    counters: { type: 'redis', url: server.url, key_prefix: 'gw' }
  }
  const gw = await gateway(t, { settings: { storage }, apis: [orders] })
  const redis = await redisOf(t, 'gw')
  const access_rights = { orders: { api_id: 'orders', api_name: 'orders', versions: ['Default'] } }
  const gold = { name: 'Gold', active: true, rate: 100, per: 1, access_rights }
  const policy = (await gw.api('POST', '/api/portal/policies', gold)).body.Message
  const token = await gw.key({ apply_policies: [policy] })
  const opens = async (key: string) => (await gw.get('/orders/', { Authorization: key })).status
  t.equal(await opens(token), 200)
  t.equal((await gw.api('POST', '/api/keys/shop', { apply_policies: [policy], alias: 'shop' })).status, 200)
  t.equal((await gw.api('POST', '/api/keys/shop', { apply_policies: [policy] })).status, 409)
  t.equal(await opens('shop'), 200)
  t.equal((await redis.list('key', { page: 1, size: 1 })).total, 2)
  t.equal((await redis.list('audit', { page: 1, size: 1 })).total, 0)
  t.equal((await gw.svc('GET', '/svc/keys')).body.keys.length, 2)
  t.match((await gw.api('GET', '/api/keys/detailed?p=1')).body, { keys: { length: 2 } })
  t.equal((await gw.api('GET', '/api/keys/detailed?q=sho')).body.keys.length, 1)
  const audited = (await gw.api('GET', '/api/audit-logs?p=-1')).body.audit_logs
  t.equal(audited.filter(({ url }: { url: string }) => url.startsWith('/api/keys')).length, 2)
  t.equal((await gw.api('DELETE', '/api/keys/shop')).status, 200)
  t.equal(await opens('shop'), 403)
  // Another process writes: within a second it counts here.
  const { kind, id, rev } = (await redis.list('key', { page: 1, size: 1 })).documents[0]!
  await redis.commit([{ kind, id, body: null, expect: rev }])
  const until = performance.now() + 5_000
  while ((await opens(token)) !== 403 && performance.now() < until) await new Promise(next => setTimeout(next, 50))
  t.equal(await opens(token), 403)
  t.equal((await fetch(`${gw.url}/ready`)).status, 200)
})

t.test('what it is called with wrongly is told, and nothing is opened', async t => {
  const memory = settings(t, { type: 'memory' }, 'x')
  const cases: [string[], number, RegExp][] = [
    [['move-keys', '--config', memory, '--to', 'redis', '--key', 'x'], 2, /move-keys knows no --key/],
    [['move-keys', '--config', memory, '--to', 'redis'], 1, /^storage.documents is "memory"[^\n]*\n$/],
    [['move-keys', '--config', memory, '--to', 'redis', '--to', 'documents'], 2, /^--to is given twice/],
    [['move-keys', '--config', memory, '--mirror', '--mirror', '--to', 'redis'], 2, /^--mirror is given twice/],
    [['validate', 'x.yaml', '--overwrite'], 2, /validate knows no --overwrite/],
    [['plan', 'x.yaml', '--mirror'], 2, /plan knows no --mirror/]
  ]
  await Promise.all(cases.map(async ([args, status, err]) => t.match(await svc(...args), { status, err, out: '' })))
  const no = settings(t, { type: 'sqlite', path: '/no/such/svc.db' }, 'x')
  await t.rejects(run(no), { message: 'there is no store at /no/such/svc.db' })
  writeFileSync(no, JSON.stringify({ gateway: { secret: SECRET }, storage: { documents: { path: no } } }))
  await t.rejects(run(no), { message: 'storage.counters names no Redis: its url is missing' })
  writeFileSync(no, JSON.stringify({ storage: { wrong: 1 } }))
  await t.rejects(run(no), { message: /wrong/ })
})

t.test('run again it copies what is new, and a key with other content stays unless it is told otherwise', async t => {
  const database = await postgres(t, { version: 17 })
  const url = await database.database()
  const documents = await storePostgres({ url, poolSize: 4, clock: systemClock, log })
  t.teardown(() => documents.close())
  const redis = await redisOf(t, 'pg')
  await documents.commit([key('a'), key('b'), key('c')])
  const config = settings(t, { type: 'postgres', url }, 'pg')
  const move = (given: Partial<Move> = {}) => run(config, given)
  t.match(await move(), { done: true, text: /3 copied, 0 were there/ })
  t.match(await move(), { done: true, text: /0 copied, 3 were there/ })
  await redis.commit([key('b', 'changed there')])
  await documents.commit([key('d')])
  const differs = await move({ remove: true })
  t.match(differs, {
    done: false,
    text: /left as it is there: b \(other content\)\n1 copied, 2 were there, 0 replaced, 1/
  })
  t.match(differs.text, /3 deleted where they came from, 1 stay there/)
  t.strictSame(
    (await all(documents)).map(([id]) => id),
    ['b']
  )
  t.match(await redis.get('key', 'b'), { body: 'changed there' })
  t.match(await move({ overwrite: true }), {
    done: true,
    text: /0 copied, 0 were there, 1 replaced, 0 left.*\n3 keys are in redis alone: moved there before/
  })
  await t.rejects(move({ mirror: true }), { message: /were deleted in documents when they were moved/ })
  t.match(await redis.get('key', 'b'), { body: { name: 'b' }, rev: 3 })
  t.match(await move({ to: 'documents' }), { done: true, text: /3 copied, 1 were there/ })
  t.equal((await all(documents)).length, 4)

  const ids = async (store: Store) => (await all(store)).map(([id]) => id).sort()
  await documents.commit([
    { kind: 'key', id: 'b', body: null },
    { kind: 'key', id: 'c', body: null }
  ])
  await redis.commit([key('made there'), key('d', 'changed there')])
  const told = await move({ overwrite: true })
  t.equal(told.done, false, 'keys that were revoked here are not left there in silence')
  t.match(told.text, /1 replaced.*\n3 keys are in redis alone: revoked here since the last copy.*--mirror removes them/)
  t.notMatch(told.text, /set storage.keys/)
  t.match(await move({ overwrite: true, remove: true }), { done: false, text: /\nnothing was deleted/ })
  t.strictSame(await ids(documents), ['a', 'd'])
  t.strictSame(await ids(redis), ['a', 'b', 'c', 'd', 'made there'])
  await documents.commit([key('d', 'newer')])
  t.match(await move({ mirror: true }), { done: true, text: /1 replaced.*\n3 keys are removed in redis.*\n.*no other/ })
  t.strictSame((await all(redis)).sort(), (await all(documents)).sort())
  t.strictSame(await ids(redis), ['a', 'd'])

  t.match(await move({ mirror: true, remove: true }), { done: true, text: /2 deleted where they came from/ })
  t.match(await move({ remove: true }), { done: true, text: /2 keys are in redis alone: moved/ })
  t.match(await move({ to: 'documents', mirror: true }), { done: true, text: /2 copied/ })
  t.match(await move({ mirror: true }), { done: true, text: /2 were there/ })
  await documents.commit((await ids(documents)).map(id => ({ kind: 'key', id: id as string, body: null })))
  await t.rejects(move({ mirror: true }), { message: /no keys in documents: --mirror would remove all 2 in redis/ })
})
