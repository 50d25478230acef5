import t, { type Test } from 'tap'
import type { Clock } from '../../../config/world.ts'
import { systemClock } from '../../../config/world.ts'
import type { Joining } from '../../../streams/broker.ts'
import { MemoryBroker } from '../../../streams/brokers/brokerMemory.ts'
import type { Hub } from '../../../streams/hub/hub.ts'
import { FakeClient, numbers, stage, turns } from './groupFakes.ts'

const PARTITIONS = 4
const log = { debug() {}, info() {}, warn() {}, error() {} }
const joining: Joining = {
  topics: ['topic'],
  group: 'g',
  start: 'earliest',
  isolation: 'read_committed',
  sessionMs: 30_000,
  heartbeatMs: 3000,
  rebalanceMs: 60_000,
  rackId: ''
}

function open(t: Test): MemoryBroker {
  const settings = {
    durable: false,
    partitions: PARTITIONS,
    retention_messages: 100_000,
    retention_bytes: 67_108_864,
    retention_age: 86_400
  }
  const broker = new MemoryBroker({ name: 'test', settings, durable: null, clock: systemClock, log })
  t.teardown(() => broker.close())
  return broker
}

function hubOn(
  broker: MemoryBroker,
  differences: Partial<Joining> = {}
): { hub: Hub; clock: Clock & { move(ms: number): Promise<void> } } {
  return stage({ sources: [{ broker, joining: { ...joining, ...differences } }] })
}

async function produce(broker: MemoryBroker, values: readonly string[]): Promise<void> {
  const messages = values.map((value, i) => ({
    key: null,
    value: Buffer.from(value),
    headers: [],
    partition: i % PARTITIONS
  }))
  await broker.produce({
    topic: 'topic',
    messages,
    acks: 'all',
    compression: 'none',
    isIdempotent: false,
    deadline: systemClock.now() + 5000
  })
}

async function until(what: string, is: () => boolean): Promise<void> {
  for (let i = 0; i < 2000 && !is(); i++) await turns(2)
  if (!is()) throw new Error(`never: ${what}`)
}

function clientOf(hub: Hub): FakeClient {
  const client = new FakeClient()
  client.writes = true
  return client.join(hub)
}

const count = (clients: readonly FakeClient[]) => clients.reduce((sum, { items }) => sum + items.length, 0)

t.test('two hubs of one group share the partitions, and one without clients leaves all to the other', async t => {
  const broker = open(t)
  const [a, b] = [hubOn(broker), hubOn(broker)]
  const [ofA, ofB] = [clientOf(a.hub), clientOf(b.hub)]
  await until('both have a part', () => a.hub.status().partitions === 2 && b.hub.status().partitions === 2)
  await produce(broker, numbers(400))
  await until('all is delivered', () => count([ofA, ofB]) === 400)
  t.same([ofA.items.length, ofB.items.length], [200, 200])
  ofB.seat.leave()
  await turns()
  await produce(broker, numbers(400, 400))
  await b.clock.move(5000)
  await until('the other has all', () => a.hub.status().partitions === PARTITIONS)
  await until('and gets all', () => count([ofA, ofB]) === 800)
  t.equal(new Set([...ofA.values, ...ofB.values]).size, 800, 'each once')
  t.equal(b.hub.status().state, 'idle')
  await a.hub.close('stopping', 0)
})

t.test('a group that began at the end gives what came while nobody was there', async t => {
  const broker = open(t)
  await produce(broker, ['old'])
  const { hub, clock } = hubOn(broker, { start: 'latest' })
  const first = clientOf(hub)
  await until('it reads', () => hub.status().state === 'active')
  first.seat.leave()
  await turns()
  await clock.move(5000)
  await until('it has left', () => hub.status().state === 'idle')
  await produce(broker, ['new'])
  await clock.move(600_000)
  const second = clientOf(hub)
  await until('it is delivered', () => second.items.length > 0)
  t.same(second.values, ['new'])
  await hub.close('stopping', 0)
})
