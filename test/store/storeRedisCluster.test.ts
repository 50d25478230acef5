import t, { type Test } from 'tap'
import { systemClock } from '../../config/world.ts'
import { openRedis } from '../../gateway/redis/openRedis.ts'
import { type Store, Unavailable } from '../../gateway/store/store.ts'
import { storeRedis } from '../../gateway/store/storeRedis.ts'
import { storeContract } from '../contract/store.ts'
import { collectedLog } from '../helpers/gateway.ts'
import { redisCluster } from '../helpers/redis.ts'
import { counters } from './redis.ts'

t.setTimeout(120_000)
const cluster = await redisCluster(t)
let stores = 0

async function open(t: Test, prefix = `store${++stores}`): Promise<Store> {
  const log = collectedLog()
  const link = await openRedis(counters({ nodes: cluster.urls, key_prefix: prefix }), { clock: systemClock, log })
  t.teardown(() => link.close())
  return storeRedis({ link, clock: systemClock, log })
}

storeContract(t, open)

t.test('while its slot moves, a store answers rightly or not at all', async t => {
  const store = await open(t, 'moving')
  const ids = Array.from({ length: 300 }, (_, i) => `${i}`)
  const write = (id: string, body: unknown) => store.commit([{ kind: 'key', id, org: `o${Number(id) % 2}`, body }])
  for (const id of ids) await write(id, 0)
  const slot = await cluster.slotOf('moving:{store}')
  let isMoving = true
  const moved = cluster.moveSlot(slot, (cluster.ownerOf(slot) + 1) % 3).finally(() => {
    isMoving = false
  })
  const counts = new Map(ids.map(id => [id, 0]))
  const maybe = new Set<string>()
  const orUnavailable = async (call: () => Promise<void>) =>
    call().catch(cause => {
      if (!(cause instanceof Unavailable)) throw cause
    })
  for (let i = 0; isMoving; i++) {
    const id = ids[i % ids.length]!
    maybe.add(id)
    await orUnavailable(async () => {
      await write(id, counts.get(id)! + 1)
      counts.set(id, counts.get(id)! + 1)
      maybe.delete(id)
    })
    await orUnavailable(async () => {
      const { documents, total } = await store.list('key', { page: 1, size: 100, org: 'o1' })
      if (total !== 150 || documents.length !== 100) t.fail(`${documents.length} of ${total}`)
    })
    await orUnavailable(async () => {
      const other = ids[(i * 7) % ids.length]!
      if ((await store.get('key', other)) === null) t.fail('a document is missing')
    })
  }
  await moved
  const { documents, total } = await store.list<number>('key', { page: -1, size: 1 })
  t.equal(total, 300)
  t.strictSame(
    documents.map(({ id }) => id),
    ids
  )
  for (const { id, body, rev } of documents) {
    if (rev !== body + 1 && !maybe.has(id)) t.fail(`revision ${rev} of ${body}`)
    if (body !== counts.get(id) && !maybe.has(id)) t.fail('a write is lost')
  }
})
