import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { load } from '../../config/load.ts'
import { systemClock } from '../../config/world.ts'
import { openChanges } from '../../gateway/changes/openChanges.ts'
import { openRedis } from '../../gateway/redis/openRedis.ts'
import type { Store } from '../../gateway/store/store.ts'
import { storeMemory } from '../../gateway/store/storeMemory.ts'
import { changesContract } from '../contract/changes.ts'
import { handClock } from '../helpers/clock.ts'
import { collectedLog } from '../helpers/gateway.ts'
import { redisServer } from '../helpers/redis.ts'

const redis = await redisServer(t)
const log = collectedLog()
let installations = 0

/** A process that hears of writes through Redis alone: the clock stands, so it never looks by itself. */
async function process(t: Test, prefix: string, stores: { documents: Store | null; keys: Store | null }) {
  const counters = { type: 'redis', url: redis.url, key_prefix: prefix }
  const settings = load({
    file: JSON.stringify({ gateway: { secret: 'x'.repeat(20) }, storage: { counters } }),
    env: {}
  })
  const link = await openRedis(settings.storage.counters, { clock: systemClock, log })
  const clock = handClock()
  const changes = await openChanges({ ...stores, link, clock, log, maxStaleMs: 600_000 })
  t.teardown(async () => {
    await changes.close()
    await link.close()
  })
  const heard: string[] = []
  changes.listen(all => void heard.push(...(all ?? []).map(({ kind, id }) => `${kind} ${id}`)))
  return { changes, clock, heard }
}

async function until(is: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + 5_000
  while (!(await is())) {
    if (Date.now() > end) throw new Error('it did not come about')
    await wait(5)
  }
}

const listeners = async (channel: string) => Number((await redis.cli('PUBSUB', 'NUMSUB', channel))[1])

changesContract(t, async t => {
  const stores = { documents: storeMemory(), keys: storeMemory() }
  return (await process(t, `test-${++installations}`, stores)).changes
})

t.test('a write is heard through Redis, by the channel of the store that it went to', async t => {
  const stores = { documents: storeMemory(), keys: storeMemory() }
  const [one, two] = [await process(t, 'both', stores), await process(t, 'both', stores)]
  for (const channel of ['both:changes', 'both:changes:keys']) await until(async () => (await listeners(channel)) === 2)
  const write = async (kind: 'key' | 'policy', id: string) => {
    const store = kind === 'key' ? stores.keys : stores.documents
    const sequence = await store.commit([{ kind, id, org: '', body: 1 }])
    await one.changes.publish([{ sequence, kind, id, deleted: false }])
    await two.clock.move(50)
    await until(() => two.heard.length > 0)
    t.strictSame(two.heard.splice(0), [`${kind} ${id}`])
  }
  await write('policy', 'p')
  await write('key', 'a')
  await write('key', 'b')
  await redis.cli('CLIENT', 'KILL', 'TYPE', 'pubsub')
  await stores.keys.commit([{ kind: 'key', id: 'unheard', org: '', body: 1 }])
  await two.clock.move(50)
  await until(() => two.heard.length > 0)
  t.strictSame(two.heard.splice(0), ['key unheard'], 'whoever listens anew looks at once')
})

t.test('with documents of its own a process follows keys alone', async t => {
  const keys = storeMemory()
  const [one, two] = [
    await process(t, 'keys', { documents: null, keys }),
    await process(t, 'keys', { documents: null, keys })
  ]
  await until(async () => (await listeners('keys:changes:keys')) === 2)
  t.equal(await listeners('keys:changes'), 0)
  await one.changes.publish([{ sequence: 7, kind: 'policy', id: 'p', deleted: false }])
  const sequence = await keys.commit([{ kind: 'key', id: 'a', org: '', body: 1 }])
  await one.changes.publish([{ sequence, kind: 'key', id: 'a', deleted: false }])
  await two.clock.move(50)
  await until(() => two.heard.length > 0)
  t.strictSame(two.heard, ['key a'])
  t.strictSame(one.heard, ['policy p', 'key a'])
})
