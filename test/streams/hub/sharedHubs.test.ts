import t from 'tap'
import { systemClock } from '../../../config/world.ts'
import { brokers } from '../../../streams/brokers/brokers.ts'
import { Budget } from '../../../streams/budget.ts'
import { Delivery, type DeliveryGiven } from '../../../streams/delivery.ts'
import { broadcastHub } from '../../../streams/hub/broadcastHub.ts'
import { groupHub } from '../../../streams/hub/groupHub.ts'
import type { Hub, HubGiven, Source } from '../../../streams/hub/hub.ts'
import { SharedHubs } from '../../../streams/hub/sharedHubs.ts'
import { type DeliveryOptions, deliveryOptions } from '../../../streams/options.ts'
import { nos } from '../../../streams/refusals.ts'
import { Listener, LogBroker, until } from './broadcastFakes.ts'
import { countingClock, FakeBroker, FakeClient, numbers, turns } from './groupFakes.ts'

const quiet = { debug() {}, info() {}, warn() {}, error() {} }
const joining: Source['joining'] = {
  topics: ['t'],
  group: 'g',
  start: 'earliest',
  isolation: 'read_committed',
  sessionMs: 30_000,
  heartbeatMs: 3000,
  rebalanceMs: 60_000,
  rackId: ''
}

interface Different {
  readonly options?: Partial<DeliveryOptions>
  readonly joining?: Partial<Source['joining']>
  readonly alike?: string
}

/** A registry, and streams that want a hub of it. */
function registry<B extends FakeBroker | LogBroker>(broker: B) {
  const clock = countingClock()
  const hubs = new SharedHubs()
  const made: HubGiven[] = []
  function share({ options, joining: more, alike = '' }: Different = {}): Hub {
    const all = { ...deliveryOptions({}), ...options }
    return hubs.take(
      { sources: [{ broker, joining: { ...joining, ...more } }], options: all, alike, clock },
      sources => {
        const given: HubGiven = {
          sources,
          options: all,
          commitMs: 1000,
          bufferMessages: 5000,
          bufferBytes: 4_194_304,
          checkpointLimit: 1024,
          process: [],
          deadLetter: null,
          settings: { idle_leave: 5, catch_up_readers: 16 } as HubGiven['settings'],
          budget: new Budget(1e9),
          secret: Buffer.alloc(32),
          clock,
          log: quiet,
          random: { bytes: count => Buffer.alloc(count) },
          api: 'a',
          stream: 's'
        }
        made.push(given)
        return all.mode === 'broadcast' ? broadcastHub(given) : groupHub(given)
      }
    )
  }
  return { share, made, clock, broker }
}

function writer(hub: Hub): FakeClient {
  const client = new FakeClient()
  client.writes = true
  return client.join(hub)
}

t.test('clients of two streams of one group take turns, and each stream counts its own', async t => {
  const { share, broker, made } = registry(new FakeBroker())
  const [a, b] = [share(), share()]
  const clients = [writer(a), writer(a), writer(b)]
  t.equal(made.length, 1)
  t.equal(broker.readings.length, 1)
  broker.assign(0)
  broker.append(0, ...numbers(30))
  broker.pump()
  await turns()
  for (const { items } of clients) t.equal(items.length, 10)
  t.match(a.status(), { clients: { sse: 2 }, delivered: 20, lag: 0, partitions: 1, state: 'active' })
  t.match(b.status(), { clients: { sse: 1 }, delivered: 10, lag: 0, partitions: 1, state: 'active' })
  clients[2]!.seat.leave()
  t.equal(b.status().clients.sse, 0)
})

t.test('a stream that ends takes its own clients with it alone, and the last one the hub', async t => {
  const { share, broker, clock } = registry(new FakeBroker())
  const [old, fresh] = [share(), share()]
  const leaving = [writer(old), writer(old), writer(old)]
  const staying = writer(fresh)
  broker.assign(0)
  const closed = old.close('changed', 30_000)
  t.equal(old.join(new FakeClient(), null), nos.draining)
  t.equal(old.status().state, 'closing')
  broker.append(0, ...numbers(9))
  broker.pump()
  await turns()
  t.equal(staying.items.length, 3, 'those that drain still have their turns')
  await clock.move(30_000)
  await closed
  t.same(
    leaving.map(({ closed }) => closed),
    [['changed'], ['changed'], ['changed']]
  )
  t.same(staying.closed, [])
  t.equal(broker.reading.isClosed, false)
  broker.append(0, ...numbers(2))
  broker.pump()
  await turns()
  t.equal(staying.items.length - 3, 2 + 0)
  t.match(fresh.status(), { state: 'active', clients: { sse: 1 } })
  await fresh.close('disabled', 0)
  t.same(staying.closed, ['disabled'])
  t.equal(broker.reading.isClosed, true)
  t.equal(clock.pending, 0)
  writer(share())
  t.equal(broker.readings.length, 2, 'who comes then has a new one')
})

t.test('a second end is quicker, and what drains waits for no longer time', async t => {
  for (const others of [0, 1]) {
    const { share, clock } = registry(new FakeBroker())
    const hub = share()
    const kept = Array.from({ length: others }, () => share())
    const clients = [writer(hub), writer(hub), writer(hub)]
    const slowly = hub.close('changed', 30_000)
    await Promise.all([slowly, hub.close('disabled', 0)])
    for (const { closed } of clients) t.ok(closed.length > 0)
    await Promise.all(kept.map(one => one.close('disabled', 0)))
    t.equal(clock.pending, 0)
  }
})

t.test('streams that all end at once give their partitions away before their clients have left', async t => {
  const { share, broker, clock } = registry(new FakeBroker())
  const [a, b] = [share(), share()]
  const clients = [writer(a), writer(a), writer(b), writer(b)]
  broker.assign(0)
  const closed = Promise.all([a.close('stopping', 30_000), b.close('stopping', 30_000)])
  await turns()
  t.equal(broker.reading.isClosed, true)
  await clock.move(30_000)
  await closed
  for (const client of clients) t.ok(client.closed.includes('stopping'))
})

t.test('each stream keeps its own bounds of clients and its own need of the broker', async t => {
  const { share, broker, made } = registry(new FakeBroker())
  const [one, needy, any] = [
    share({ options: { maxClients: 1 } }),
    share({ options: { requireBroker: true } }),
    share()
  ]
  t.equal(made.length, 1)
  const first = writer(one)
  t.equal(one.join(new FakeClient(), null), nos.tooManyClients)
  writer(any)
  first.seat.leave()
  writer(one)
  broker.fault = 'connection refused'
  t.equal(needy.join(new FakeClient(), null), nos.unavailable)
  writer(any)
})

t.test('what a hub acts on parts them', async t => {
  const rows: [Different, number][] = [
    [{}, 1],
    [{ options: { heartbeatMs: 1, envelope: true, maxClients: 3, headers: ['a'] } }, 1],
    [{ joining: { group: 'other' } }, 2],
    [{ joining: { topics: ['t', 'u'] } }, 2],
    [{ joining: { start: 'latest' } }, 2],
    [{ options: { mode: 'key' } }, 2],
    [{ alike: 'processors' }, 2]
  ]
  for (const [different, hubs] of rows) {
    const { share, made } = registry(new FakeBroker())
    share()
    share(different)
    t.equal(made.length, hubs, JSON.stringify(different))
  }
})

t.test('a new version of a broadcast goes on with the window and the reader of the old one', async t => {
  const { share, broker } = registry(new LogBroker())
  const options = { mode: 'broadcast' as const }
  const old = share({ options })
  const first = new Listener()
  first.join(old)
  await until(() => old.status().state === 'active')
  broker.put(0, 'a', 'b')
  await until(() => first.got.length === 2)
  const fresh = share({ options })
  t.match(fresh.status(), { delivered: 0, clients: { sse: 0 } })
  await old.close('changed', 0)
  const again = new Listener()
  again.join(fresh, { cursor: first.items[0]!.cursor! })
  await until(() => again.got.length === 1)
  t.same(again.got, ['b'])
  t.equal(broker.reads, 1)
  t.match(fresh.status(), { delivered: 1, clients: { sse: 1 } })
  await fresh.close('disabled', 0)
  t.equal(broker.readings.size, 0)
})

t.test('streams share over whatever handles they have of one broker, and a hub outlives them', async t => {
  const memory = { durable: false, partitions: 1, retention_messages: 1000, retention_bytes: 1e6, retention_age: 60 }
  const all = brokers({
    clock: systemClock,
    log: quiet,
    memory,
    durable: null,
    kafka() {
      throw new Error('not of this test')
    },
    status() {}
  })
  t.teardown(() => all.close())
  const hubs = new SharedHubs()
  const served: Hub[] = []
  const stream = (name: string, options: Partial<DeliveryOptions> = {}) => {
    const broker = all.get({ addresses: ['memory://x'] })
    const delivery = new Delivery({
      sources: [{ broker, joining }],
      options: { ...deliveryOptions({}), ...options },
      commitMs: 1000,
      bufferMessages: 5000,
      bufferBytes: 4_194_304,
      checkpointLimit: 1024,
      process: [],
      steps: [],
      settings: { idle_leave: 5, catch_up_readers: 16 } as HubGiven['settings'],
      budget: new Budget(1e9),
      secret: Buffer.alloc(32),
      clock: systemClock,
      log: quiet,
      random: { bytes: count => Buffer.alloc(count) },
      api: name,
      stream: 's',
      clients: { serve: (_kind, _call, hub) => void served.push(hub), acknowledge() {}, close() {} },
      hubs
    } satisfies DeliveryGiven)
    delivery.serve('stream', {} as Parameters<Delivery['serve']>[1])
    const client = writer(served.at(-1)!)
    const close = () => delivery.close('disabled', 0).then(() => broker.close())
    return { broker, client, delivery, close }
  }
  const produce = (values: readonly string[]) =>
    all.get({ addresses: ['memory://x'] }).produce({
      topic: 't',
      messages: values.map(value => ({ key: null, value: Buffer.from(value), headers: [], partition: 0 })),
      acks: 'all',
      compression: 'none',
      isIdempotent: false,
      deadline: systemClock.now() + 5000
    })
  const [a, b] = [stream('a'), stream('b', { maxClients: 5 })]
  await until(() => a.delivery.status().state === 'active')
  await produce(numbers(10))
  await until(() => a.client.items.length + b.client.items.length === 10)
  t.same([a.client.items.length, b.client.items.length], [5, 5])
  await a.close()
  await produce(numbers(3))
  await until(() => b.client.items.length === 8)
  t.same(b.client.closed, [])
  await b.close()
})
