import t, { type Test } from 'tap'
import { systemClock } from '../../../config/world.ts'
import { MemoryBroker } from '../../../streams/brokers/brokerMemory.ts'
import { Listener, stand, until } from './broadcastFakes.ts'

const log = { debug() {}, info() {}, warn() {}, error() {} }
const settings = {
  durable: false,
  partitions: 2,
  retention_messages: 100_000,
  retention_bytes: 67_108_864,
  retention_age: 86_400
}

function memory(t: Test): MemoryBroker {
  const broker = new MemoryBroker({ name: 'test', settings, durable: null, clock: systemClock, log })
  t.teardown(() => broker.close())
  return broker
}

async function put(broker: MemoryBroker, partition: number, from: number, count: number): Promise<void> {
  const messages = Array.from({ length: count }, (_, i) => ({
    key: null,
    value: Buffer.from(`${partition}:${from + i}`),
    headers: [],
    partition
  }))
  const how = { acks: 'all', compression: 'none', isIdempotent: false } as const
  await broker.produce({ topic: 't', messages, ...how, deadline: systemClock.now() + 10_000 })
}

const valuesOf = (partition: number, from: number, until: number) =>
  Array.from({ length: until - from }, (_, i) => `${partition}:${from + i}`)

t.test('resuming on the memory broker: in the window, from history, below it, and in a new partition', async t => {
  const broker = memory(t)
  await broker.createTopic('t', 2, 1)
  const options = {
    window: { messages: 20, bytes: 1e6, ageMs: 60_000 },
    queue: { messages: 20, bytes: 1e6, policy: 'disconnect' as const }
  }
  const { hub, clock } = stand(broker, { options })
  const first = new Listener()
  first.join(hub)
  await until(() => hub.status().state === 'active')
  await put(broker, 0, 0, 10)
  await put(broker, 1, 0, 10)
  await until(() => first.got.length === 20)
  const cursor = first.items[4]!.cursor!
  const resumed = async (count: number, text = cursor) => {
    const again = new Listener()
    t.equal(again.join(hub, { cursor: text }), null)
    await until(() => again.got.length >= count, `${count} messages`)
    again.seat!.leave()
    return again.got.filter(value => value.startsWith('0:') || value.startsWith('gap'))
  }
  t.same(await resumed(15), valuesOf(0, 5, 10))
  await put(broker, 0, 10, 500)
  await until(() => first.got.length === 520)
  t.same(await resumed(515), valuesOf(0, 5, 510))
  broker.truncate('t', 0, 400)
  t.same(await resumed(10 + 1 + 110), ['gap:395', ...valuesOf(0, 400, 510)])
  const before = first.id!
  await broker.grow('t', 3)
  await put(broker, 2, 0, 3)
  await until(() => first.got.length === 523)
  const again = new Listener()
  again.join(hub, { cursor: before })
  await until(() => again.got.length === 3)
  t.same(again.got, valuesOf(2, 0, 3))
  await clock.move(10_000)
  await hub.close('stopping', 0)
})
