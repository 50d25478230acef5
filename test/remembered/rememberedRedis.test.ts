import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { load } from '../../config/load.ts'
import { systemClock } from '../../config/world.ts'
import { openRedis } from '../../gateway/redis/openRedis.ts'
import { rememberedRedis, type Times } from '../../gateway/remembered/rememberedRedis.ts'
import type { Outcome } from '../../streams/produce/remembered.ts'
import { rememberedContract } from '../contract/remembered.ts'
import { collectedLog } from '../helpers/gateway.ts'
import { redisServer } from '../helpers/redis.ts'
import { front } from '../streams/produce/front.ts'
import { made } from '../streams/produce/sink.ts'

const server = await redisServer(t)
const ok: Outcome = { status: 200, pairs: [], body: null }
const never = () => {}
let installations = 0

/** Two processes of one installation. */
async function two(t: Test, times?: Partial<Times>) {
  const key_prefix = `test-${++installations}`
  const file = {
    gateway: { secret: 'x'.repeat(20) },
    storage: { counters: { type: 'redis', url: server.url, key_prefix } }
  }
  const { storage } = load({ file: JSON.stringify(file), env: {} })
  const log = collectedLog()
  const given = { clock: systemClock, random: { bytes: randomBytes }, log }
  const all = { ageMs: 600_000, leaseMs: 10_000, ...times }
  const processes = await Promise.all(
    [1, 2].map(async () => {
      const link = await openRedis(storage.counters, given)
      const remembered = rememberedRedis({ ...given, link, times: all })
      t.teardown(async () => {
        remembered.close()
        await link.close()
      })
      return { link, remembered }
    })
  )
  const keys = async () => (await server.cli('KEYS', `${key_prefix}:*`)) as string[]
  return { one: processes[0]!, other: processes[1]!, log, keys, prefix: key_prefix }
}

async function until(is: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + 5_000
  while (!(await is())) {
    if (Date.now() > end) throw new Error('it did not come about')
    await wait(10)
  }
}

rememberedContract(t, async t => {
  const { one, other, keys } = await two(t, { ageMs: 400 })
  return {
    remembered: one.remembered,
    other: other.remembered,
    expire: () => until(async () => (await keys()).length === 0)
  }
})

t.test('the same key sent to two gateways at once produces once', async t => {
  const { one, other } = await two(t)
  const sides = [one, other].map(({ remembered }) => made({ remembered, options: { return: 'record' } }))
  const fronts = await Promise.all(sides.map(({ producer }) => front(t, call => producer.post(call))))
  const post = (i: number, key: string, body = 'x') =>
    fetch(`${fronts[i % 2]!.url}/post`, { method: 'POST', body, headers: { 'Idempotency-Key': key } })
  const sent = () => sides.flatMap(({ sink }) => sink.messages).length
  for (let round = 1; round <= 8; round++) {
    const answers = await Promise.all([0, 1, 2, 3].map(i => post(round + i, `${round}`)))
    t.same([...new Set(answers.map(({ status }) => status))], [200])
    t.equal(new Set(await Promise.all(answers.map(answer => answer.text()))).size, 1)
    t.equal(answers.filter(({ headers }) => headers.has('svc-idempotent-replay')).length, 3)
    t.equal(sent(), round)
  }
  t.equal((await post(1, '1', 'other')).status, 422)
})

t.test('a process that died with a request under way lets go of it, one that lives does not', async t => {
  const { one, other, prefix } = await two(t, { leaseMs: 300 })
  t.equal(await one.remembered.claim('a', 'x', never), 'yours')
  const told = Promise.withResolvers<Outcome | null>()
  t.equal(await other.remembered.claim('a', 'x', told.resolve), 'waiting')
  await wait(900)
  t.equal(await other.remembered.claim('a', 'y', never), 'other', 'three leases later')
  one.remembered.close()
  t.equal(await told.promise, null)
  t.equal(await other.remembered.claim('a', 'x', never), 'yours')
  one.remembered.settle('a', { ...ok, status: 202 })
  await until(async () => (await server.cli('HEXISTS', (await server.cli('KEYS', `${prefix}:*`))[0], 'o')) === 1)
  other.remembered.settle('a', ok)
  await until(async () => (await server.cli('HEXISTS', (await server.cli('KEYS', `${prefix}:*`))[0], 'f')) === 1)
  t.same(await other.remembered.claim('a', 'x', never), ok, 'the late one changes nothing')
})

t.test('a flushed or restarted Redis learns again what is under way, and what came of it meanwhile', async t => {
  const { one, other, log } = await two(t, { leaseMs: 600 })
  t.equal(await one.remembered.claim('under way', 'x', never), 'yours')
  t.equal(await one.remembered.claim('ended', 'x', never), 'yours')
  await server.stop()
  await until(() => !one.link.isConnected && !other.link.isConnected)
  t.equal(await other.remembered.claim('new', 'x', never), 'away')
  t.equal(await one.remembered.claim('under way', 'x', never), 'waiting', 'known here')
  one.remembered.settle('ended', ok)
  await until(async () => (await one.remembered.claim('ended', 'x', never)) === ok)
  await server.start()
  await until(() => one.link.isConnected && other.link.isConnected)
  await until(async () => (await other.remembered.claim('ended', 'y', never)) === 'other')
  t.same(await other.remembered.claim('ended', 'x', never), ok)
  await until(async () => (await other.remembered.claim('under way', 'y', never)) === 'other')
  one.remembered.settle('under way', ok)
  const lines = log.lines.map(({ level, msg }) => `${level} ${msg}`)
  t.ok(lines.includes('error idempotency keys cannot be shared: requests that have one are refused'))
  t.ok(lines.includes('info idempotency keys are shared again'))
})

t.test('a Redis that stands still costs a second once, and what it may have claimed is let go', async t => {
  const { one, other } = await two(t, { leaseMs: 900 })
  t.equal(await one.remembered.claim('before', 'x', never), 'yours')
  server.pause()
  const told = Promise.withResolvers<Outcome | null>()
  const first = one.remembered.claim('a', 'x', never)
  t.equal(one.remembered.claim('a', 'x', told.resolve), 'waiting')
  t.equal(await first, 'away')
  t.equal(await told.promise, null)
  t.equal(one.remembered.claim('a', 'x', never), 'away', 'nobody waits again')
  one.remembered.settle('before', ok)
  server.resume()
  await until(async () => (await other.remembered.claim('a', 'x', never)) === 'yours')
  await until(async () => JSON.stringify(await other.remembered.claim('before', 'x', never)) === JSON.stringify(ok))
})

t.test('a Redis that is full refuses, and an answer that is too long is kept without its body', async t => {
  const { one, other } = await two(t)
  const body = Buffer.alloc(3_000_000, 'a')
  t.equal(await one.remembered.claim('long', 'x', never), 'yours')
  one.remembered.settle('long', { status: 200, pairs: ['Content-Type', 'application/json', 'a', 'b'], body })
  t.same(await other.remembered.claim('long', 'x', never), { status: 200, pairs: ['a', 'b'], body: null })
  await server.cli('CONFIG', 'SET', 'maxmemory', '1')
  t.equal(await one.remembered.claim('full', 'x', never), 'away')
  await server.cli('CONFIG', 'SET', 'maxmemory', '0')
  t.equal(await one.remembered.claim('full', 'x', never), 'yours')
})

t.test('names in Redis hold neither key nor credential, and all leave by themselves', async t => {
  const { one, keys, prefix } = await two(t)
  t.equal(await one.remembered.claim('["api","stream","secret","idempotent"]', 'x', never), 'yours')
  for (const settle of [false, true]) {
    if (settle) one.remembered.settle('["api","stream","secret","idempotent"]', ok)
    const [key, ...more] = await keys()
    t.match(key, new RegExp(`^${prefix}:once:[\\w-]{43}$`))
    t.equal(more.length, 0)
    t.ok((await server.cli('PTTL', key!)) > 0)
  }
})
