import t, { type Test } from 'tap'
import { systemClock } from '../../config/world.ts'
import { openRedis } from '../../gateway/redis/openRedis.ts'
import type { RedisLink } from '../../gateway/redis/redis.ts'
import { Full, type Store, Unavailable } from '../../gateway/store/store.ts'
import { storeRedis } from '../../gateway/store/storeRedis.ts'
import { storeContract, unavailable } from '../contract/store.ts'
import { collectedLog } from '../helpers/gateway.ts'
import { redisServer } from '../helpers/redis.ts'
import { counters } from './redis.ts'

t.setTimeout(60_000)
const server = await redisServer(t)
const key = (id: string, body: unknown = id, org = 'o1') => ({ kind: 'key' as const, id, org, body })
const everything = { page: -1, size: 10 } as const
let stores = 0

async function linkTo(t: Test, url: string, prefix = `store${++stores}`, log = collectedLog()): Promise<RedisLink> {
  const link = await openRedis(counters({ url, key_prefix: prefix }), { clock: systemClock, log })
  t.teardown(() => link.close())
  return link
}

async function open(t: Test, url: string, prefix?: string, log = collectedLog()): Promise<Store> {
  return storeRedis({ link: await linkTo(t, url, prefix, log), clock: systemClock, log })
}

storeContract(t, t => open(t, server.url))

t.test('documents, lists, sequence and deletions are there after opening again, for all who share them', async t => {
  const first = await open(t, server.url, 'shared')
  await first.commit([key('a'), key('b'), key('c')])
  await first.commit([key('a', 'new'), { kind: 'key', id: 'b', body: null }])
  const again = await open(t, server.url, 'shared')
  t.equal(await again.sequence(), 2)
  t.match(await again.since(1), [{ id: 'a' }, { id: 'b', deleted: true }])
  t.equal(await again.commit([key('d')]), 3)
  t.match(await first.list('key', everything), { total: 3, documents: [{ id: 'a' }, { id: 'c' }, { id: 'd' }] })
  t.equal(await (await open(t, server.url, 'other')).sequence(), 0, 'another prefix is another store')
  await server.cli('HSET', 'shared:{store}', 'version', '2')
  await t.rejects(open(t, server.url, 'shared'), { message: /version 2, but this program knows only 1/ })
})

t.test('a long list goes on by what is written meanwhile, and changes can be followed without a gap', async t => {
  const store = await open(t, server.url)
  for (let i = 0; i < 4; i++) await store.commit(Array.from({ length: 3_000 }, (_, j) => key(`${i} ${j}`)))
  let isWriting = true
  const written = (async () => {
    for (let i = 0; isWriting; i++)
      await store.commit([key(`0 ${i % 3_000}`, i), { kind: 'key', id: `1 ${i % 3_000}`, body: null }, key(`new ${i}`)])
  })()
  const seen = new Set<string>()
  let position = await store.sequence()
  for (let i = 0; i < 5; i++) {
    const { documents, total } = await store.list('key', { ...everything, contains: i % 2 === 0 ? '' : ' ' })
    t.equal(new Set(documents.map(({ id }) => id)).size, total)
    // Each commit deletes one and creates one, until there is none left to be deleted.
    t.ok(total >= 12_000)
    const newest = await store.sequence()
    for (const { id, sequence } of (await store.since(position))!) {
      seen.add(id)
      position = Math.max(position, sequence)
    }
    position = Math.max(position, newest)
  }
  isWriting = false
  await written
  for (const { id } of (await store.since(position))!) seen.add(id)
  const { documents } = await store.list('key', { ...everything, contains: 'new', idsOnly: true })
  for (const { id } of documents) if (!seen.has(id)) t.fail(`${id} was never told`)
})

t.test('Redis without room refuses with Full and keeps nothing of the commit; reads and deletions go on', async t => {
  const small = await redisServer(t, { maxmemory: '4mb' })
  const log = collectedLog()
  const store = await open(t, small.url, 'small', log)
  t.match(log.lines, [{ level: 'warn', msg: /keeps nothing/ }])
  const refused: unknown[] = []
  for (let i = 0; i < 100 && refused.length === 0; i++)
    await store.commit([key(`${i}`, 'x'.repeat(100_000))]).catch((error: unknown) => refused.push(error))
  t.ok(refused[0] instanceof Full, String(refused[0]))
  const total = await store.sequence()
  t.equal((await store.list('key', { page: 1, size: 1 })).total, total)
  t.equal(await store.commit([]), total)
  await store.commit(Array.from({ length: 5 }, (_, i) => ({ kind: 'key' as const, id: `${i}`, body: null })))
  await store.commit([key('fits')])
  await small.cli('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
  await open(t, small.url, 'small', log)
  t.match(log.lines.at(-1), { level: 'warn', msg: /throws away/, policy: 'allkeys-lru' })
})

t.test(
  'while Redis is away, hangs or takes no writes, calls are unavailable, and work again by themselves',
  async t => {
    const own = await redisServer(t, { args: ['--appendonly', 'yes'] })
    const log = collectedLog()
    const store = await open(t, own.url, 'own', log)
    t.strictSame(log.lines, [], 'nothing to warn of')
    await store.commit([key('a')])
    const fails = async () => {
      await unavailable(t, () => store.get('key', 'a'))
      await unavailable(t, () => store.list('key', everything))
      await unavailable(t, () => store.since(0))
      await unavailable(t, () => store.sequence())
      await unavailable(t, () => store.commit([key('b')]))
    }
    await own.cli('CONFIG', 'SET', 'min-replicas-to-write', '1')
    await unavailable(t, () => store.commit([key('b')]))
    await unavailable(t, () => store.commit([]))
    t.match(await store.get('key', 'a'), { rev: 1 })
    await own.cli('CONFIG', 'SET', 'min-replicas-to-write', '0')
    await own.cli('SET', 'own:{store}:d:key:wrong', 'nonsense')
    await unavailable(t, () => store.get('key', 'wrong'))
    own.pause()
    await unavailable(t, () => store.get('key', 'a'))
    own.resume()
    await own.kill()
    await fails()
    await own.start()
    for (let tries = 0; ; tries++) {
      const found = await Promise.resolve(store.get('key', 'a')).catch((error: unknown) => error)
      if (!(found instanceof Unavailable)) {
        t.match(found, { rev: 1 })
        break
      }
      if (tries > 500) throw found
      await new Promise(resolve => setTimeout(resolve, 10))
    }
    await own.cli('SCRIPT', 'FLUSH')
    await store.commit([key('b')])
  }
)

t.test('it tells that another server answers, that it was made anew and that the connection was lost', async t => {
  const own = await redisServer(t, { args: ['--appendonly', 'yes'] })
  const link = await linkTo(t, own.url, 'own')
  const store = await storeRedis({ link, clock: systemClock, log: collectedLog() })
  const stand = async () => {
    const end = Date.now() + 10_000
    for (;;) {
      const found = await store.stand!().catch((error: unknown) => error as Error)
      if (!(found instanceof Error)) return found
      if (Date.now() > end) throw found
      await new Promise(resolve => setTimeout(resolve, 10))
    }
  }
  t.match(await stand(), { sequence: 0 })
  await store.commit([key('a')])
  const first = await stand()
  t.equal(first.sequence, 1)
  await store.commit([key('b')])
  t.strictSame(await stand(), { ...first, sequence: 2 }, 'writes alone do not change it')
  await own.cli('FLUSHALL')
  await store.commit([key('c')])
  await store.commit([key('d')])
  const anew = await stand()
  t.equal(anew.sequence, 2)
  t.not(anew.origin, first.origin)
  await own.kill()
  await own.start()
  const restarted = await stand()
  t.equal(restarted.sequence, 2)
  t.not(restarted.origin, anew.origin)
  t.not(restarted.origin.split(' ')[0], anew.origin.split(' ')[0], 'by the server itself')
  await own.cli('ACL', 'SETUSER', 'default', '-info')
  const unasked = await stand()
  t.equal(unasked.sequence, 2)
  await own.cli('CLIENT', 'KILL', 'TYPE', 'normal')
  let after = await stand()
  for (let i = 0; i < 200 && after.origin === unasked.origin; i++) after = await stand()
  t.not(after.origin, unasked.origin, 'where asking is forbidden, by the connection')
})
