import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { handClock } from '../helpers/clock.ts'
import { api, gateway, rights, type TestGateway, withKey } from '../helpers/gateway.ts'
import { postgres } from '../helpers/postgres.ts'
import { redisServer } from '../helpers/redis.ts'
import { soon } from '../helpers/soon.ts'

t.setTimeout(120_000)
const [database, redis] = await Promise.all([postgres(t, { version: 17 }), redisServer(t)])

async function until(is: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + 5_000
  while (!(await is())) {
    if (Date.now() > end) throw new Error('it did not come about')
    await wait(20)
  }
}

t.test('a write counts in the other process within a second, whatever happens to the messages about it', async t => {
  const settings = {
    storage: {
      documents: { type: 'postgres', url: await database.database(), pool_size: 4 },
      counters: { type: 'redis', url: redis.url }
    }
  }
  const [one, two] = [await gateway(t, { settings }), await gateway(t, { settings })]
  const ok = async (answer: ReturnType<TestGateway['svc']>) => {
    const { status, body } = await answer
    if (status !== 200) throw new Error(`${status}: ${JSON.stringify(body)}`)
  }
  const listening = async () => Number((await redis.cli('PUBSUB', 'NUMSUB', 'svc:changes'))[1])
  const policy = (is_inactive: boolean) => ({
    id: 'gold',
    name: 'gold',
    active: true,
    is_inactive,
    ...rights('orders')
  })
  await ok(one.svc('POST', '/svc/apis/oas', api('orders', 'svc://echo', { server: withKey })))
  await ok(one.svc('POST', '/svc/policies', policy(false)))
  const gold = await one.key({ apply_policies: ['gold'] })
  await soon(t, 'the API is there', 401, () => two.get('/orders/'))
  const open = (key: string) => () => two.get('/orders/', { Authorization: key })
  let keys = 0

  /** A key is used here and revoked there, a policy switched off there and on again. */
  async function revoked(t: Test, what: string): Promise<void> {
    const name = `key-${++keys}`
    await ok(one.svc('POST', `/svc/keys/${name}`, rights('orders')))
    await soon(t, `${what}: a new key`, 200, open(name))
    await soon(t, `${what}: a key of a policy`, 200, open(gold))
    await ok(one.svc('DELETE', `/svc/keys/${name}`))
    await soon(t, `${what}: a revoked key`, 403, open(name))
    await ok(one.svc('PUT', '/svc/policies/gold', policy(true)))
    await soon(t, `${what}: a changed policy`, 403, open(gold))
    await ok(one.svc('PUT', '/svc/policies/gold', policy(false)))
  }

  await until(async () => (await listening()) === 2)
  await revoked(t, 'with messages')
  t.ok((await redis.calls()).publish! >= 4)

  for (let i = 0; i < 2; i++) {
    await redis.cli('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await revoked(t, 'listeners cut off')
  }
  await until(async () => (await listening()) === 2)

  await redis.cli('ACL', 'SETUSER', 'default', '-publish')
  await revoked(t, 'no message arrives')
  await redis.cli('ACL', 'SETUSER', 'default', '+publish')

  redis.pause()
  await revoked(t, 'Redis stands still')
  redis.resume()

  await redis.stop()
  await revoked(t, 'Redis is away')
  await redis.start()
  await until(async () => (await listening()) === 2)
  await revoked(t, 'Redis is back')

  await ok(one.svc('POST', '/svc/keys/alice', rights('orders')))
  await soon(t, 'before the restart', 200, open('alice'))
  await database.stop('immediate')
  await database.start()
  await until(async () => (await one.svc('DELETE', '/svc/keys/alice')).status === 200)
  await soon(t, 'revoked after the restart of the database', 403, open('alice'))
  await revoked(t, 'the database was restarted')

  await ok(one.svc('POST', '/svc/keys/bob', rights('orders')))
  await soon(t, 'before the flood', 200, open('bob'))
  const [{ id: bob }] = await database.sql(
    `SELECT id FROM svc_documents WHERE kind = 'key' AND body LIKE '%"name":"bob"%'`,
    settings.storage.documents.url
  )
  const many = Array.from(
    { length: 10_000 },
    (_, i) => ({ kind: 'key', id: `${i}`, org: 'default', body: {} }) as const
  )
  await one.store.commit([...many, { kind: 'key', id: bob, body: null }])
  await soon(t, 'revoked among 10,000 changes', 403, open('bob'))
})

t.test(
  'a process that is cut off from the database serves for max_stale what it knows, then asks it for keys',
  async t => {
    const clock = handClock()
    const documents = { type: 'postgres', url: await database.database(), pool_size: 4, max_stale: 60 }
    const running = await gateway(t, {
      settings: { storage: { documents } },
      clock,
      apis: [api('orders', 'svc://echo', { server: withKey }), api('open', 'svc://echo')]
    })
    await running.svc('POST', '/svc/policies', { id: 'gold', name: 'gold', active: true, ...rights('orders') })
    const keys = [await running.key(rights('orders')), await running.key({ apply_policies: ['gold'] })]
    const person = await running.user({ org_id: 'default' })
    const statuses = async () =>
      Promise.all([
        ...keys.map(async key => (await running.get('/orders/', { Authorization: key })).status),
        (await running.get('/open/')).status,
        running.api('GET', '/api/users/me', undefined, { key: person }).then(({ status }) => status)
      ])
    const pass = async (seconds: number) => {
      for (let i = 0; i < seconds * 2; i++) await clock.move(500)
    }
    t.same(await statuses(), [200, 200, 200, 200])
    await database.stop()
    await pass(59)
    t.same((await statuses()).slice(0, 3), [200, 200, 200])
    await pass(2)
    t.same(await statuses(), [503, 503, 200, 503])
    const lines = () =>
      running.log.lines.filter(({ msg }) => /no longer believed|compared with the store again/.test(msg))
    t.equal(lines().length, 1)
    await database.start()
    await soon(t, 'keys are known again', 200, () => running.get('/orders/', { Authorization: keys[0]! }))
    await soon(t, 'and watched', 2, async () => {
      await clock.move(500)
      return { status: lines().length }
    })
    t.same(await statuses(), [200, 200, 200, 200])
  }
)
