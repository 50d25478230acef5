import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { StreamingSettings } from '../../../config/settings.ts'
import { systemClock } from '../../../config/world.ts'
import type { Store } from '../../../gateway/store/store.ts'
import { storeMemory } from '../../../gateway/store/storeMemory.ts'
import { storeSqlite } from '../../../gateway/store/storeSqlite.ts'
import { streamLog } from '../../../gateway/store/streamLog.ts'
import { BrokerHandle } from '../../../streams/brokers/brokerHandle.ts'
import { MemoryBroker } from '../../../streams/brokers/brokerMemory.ts'
import { type DurableLog, NotWritten } from '../../../streams/brokers/durableLog.ts'
import { Undelivered } from '../../../streams/undelivered.ts'
import { type BrokerGiven, brokerContract } from '../../contract/broker.ts'
import { Reader } from '../../contract/brokerReader.ts'
import { handClock } from '../../helpers/clock.ts'

const log = { debug() {}, info() {}, warn() {}, error() {} }
const plain: StreamingSettings['memory'] = {
  durable: false,
  partitions: 1,
  retention_messages: 100_000,
  retention_bytes: 67_108_864,
  retention_age: 86_400
}
type Given = Partial<ConstructorParameters<typeof MemoryBroker>[0]> & { readonly kept?: Partial<typeof plain> }

function open(t: Test, { kept = {}, ...given }: Given = {}): MemoryBroker {
  const settings = { ...plain, ...kept }
  const broker = new MemoryBroker({ name: 'test', settings, durable: null, clock: systemClock, log, ...given })
  t.teardown(() => broker.close())
  return broker
}

function cluster(broker: MemoryBroker): BrokerGiven {
  let topics = 0
  return {
    broker: () => new BrokerHandle(broker, () => {}),
    async topic(partitions) {
      const topic = `topic${++topics}`
      await broker.createTopic(topic, partitions, 1)
      return topic
    },
    truncate: (topic, partition, offset) => broker.truncate(topic, partition, offset),
    grow: (topic, partitions) => broker.grow(topic, partitions),
    missingTopics: 'made'
  }
}

async function sqlite(t: Test, path = join(t.testdir(), 'svc.db')): Promise<Store> {
  const store = await storeSqlite({ path, log })
  t.teardown(() => store.close())
  return store
}

t.test('in memory', async t => brokerContract(t, t => cluster(open(t))))

t.test('durable', async t => {
  const durable = streamLog(await sqlite(t))
  let brokers = 0
  brokerContract(t, t => cluster(open(t, { name: `cluster${++brokers}`, durable })))
})

type Send = readonly { readonly value: string | Buffer; readonly partition?: number }[]
const to = (topic: string, sent: Send, deadline = Number.MAX_SAFE_INTEGER) => ({
  topic,
  messages: sent.map(({ value, partition = 0 }) => ({ key: null, value: Buffer.from(value), headers: [], partition })),
  acks: 'all' as const,
  compression: 'none' as const,
  isIdempotent: false,
  deadline
})
const values = (count: number, from = 0) => Array.from({ length: count }, (_, i) => ({ value: `${from + i}` }))
const reason = (call: Promise<unknown>) =>
  call.then(
    () => 'delivered',
    (error: unknown) => (error instanceof Undelivered ? error.reason : `${error}`)
  )

t.test('the oldest records leave by each bound, and the newest one stays', async t => {
  for (const [kept, low] of [
    [{ retention_messages: 3 }, 7],
    [{ retention_bytes: 65 * 4 }, 6],
    [{ retention_messages: 1 }, 9],
    [{}, 0]
  ] as const) {
    const broker = open(t, { kept })
    await broker.produce(to('a', values(10)))
    t.match(await broker.spans('a'), [{ low, high: 10 }], JSON.stringify(kept))
    const reader = Reader.read(broker, [{ topic: 'a', partition: 0, offset: 2 }])
    await reader.until(() => reader.values().at(-1) === '9')
    t.equal(reader.all[0]!.offset, Math.max(low, 2))
    t.equal(reader.gaps.length, low > 2 ? 1 : 0)
    t.strictSame(reader.wrong, [])
  }
  const small = open(t, { kept: { retention_bytes: 100 } })
  t.equal(await reason(small.produce(to('a', [{ value: 'x'.repeat(37) }]))), 'too_large')
  t.match(await small.spans('a'), [{ low: 0, high: 0 }])
})

t.test('records leave by age, whether anybody looks or not', async t => {
  const clock = handClock()
  const broker = open(t, { clock, kept: { retention_age: 10 } })
  const start = clock.now()
  await broker.produce(to('a', values(2)))
  await clock.move(6_000)
  await broker.produce(to('a', values(1)))
  t.strictSame(await broker.positionsAt('a', start + 1), [{ topic: 'a', partition: 0, offset: 2 }])
  t.strictSame(await broker.positionsAt('a', start), [{ topic: 'a', partition: 0, offset: 0 }])
  await clock.move(4_000)
  t.match(await broker.spans('a'), [{ low: 2, high: 3 }])
  await clock.move(6_000)
  t.match(await broker.spans('a'), [{ low: 3, high: 3 }])
  await clock.move(60_000)
  t.equal(clock.waiters(10_000), 0, 'nothing is held, nothing is waited for')
})

t.test('a clock that goes back does not put times out of order', async t => {
  let now = 1_000_000
  const broker = open(t, { clock: { ...systemClock, now: () => now } })
  await broker.produce(to('a', values(1)))
  now -= 5_000
  t.match(await broker.produce(to('a', values(1))), [{ timestamp: 1_000_000 }])
})

t.test('a reader that retention overtakes while it is paused hears of the gap when it goes on', async t => {
  const broker = open(t, { kept: { retention_messages: 10 } })
  const place = { topic: 'a', partition: 0 }
  const reader = Reader.read(broker, [{ ...place, offset: 0 }])
  await broker.produce(to('a', values(5)))
  await reader.count(5)
  reader.reading.pause(place)
  await broker.produce(to('a', values(40, 5)))
  reader.reading.resume(place)
  await reader.count(15)
  t.strictSame(reader.gaps, [{ place, from: 5, to: 35 }])
  t.strictSame(reader.wrong, [])
})

t.test('a position of an earlier life of the broker begins at the oldest record, with a gap', async t => {
  const broker = open(t)
  await broker.produce(to('a', values(3)))
  const reader = Reader.read(broker, [{ topic: 'a', partition: 0, offset: 500 }])
  await reader.count(3)
  t.match(reader.gaps, [{ from: 0, to: 0 }])
  t.strictSame(reader.wrong, [])
})

t.test('nothing is told inside a call, and a long backlog comes in turns', async t => {
  const broker = open(t)
  await broker.produce(to('a', values(2_000)))
  const reader = Reader.read(broker, [{ topic: 'a', partition: 0, offset: 0 }])
  let sizes = 0
  reader.onRecords = () => sizes++
  t.equal(reader.assignments.length, 0)
  let turns = 0
  while (reader.all.length < 2_000 && turns++ < 100) await new Promise<void>(resolve => setImmediate(resolve))
  t.ok(sizes >= 4 && turns >= 4)
  const before = reader.all.length
  void broker.produce(to('a', values(1)))
  t.equal(reader.all.length, before)
  await reader.count(2_001)
})

t.test('a position of a partition that is not there yet is taken when it comes', async t => {
  const broker = open(t)
  const reader = Reader.read(broker, [{ topic: 'a', partition: 1, offset: 0 }], 'exact')
  await reader.until(() => reader.faults.length > 0)
  t.match(reader.faults, [/a:1/])
  await broker.grow('a', 2)
  await broker.produce(to('a', [{ value: 'x', partition: 1 }]))
  await reader.count(1)
  t.match(reader.faults.at(-1), null)
  t.equal(await reason(broker.produce(to('a', [{ value: 'x' }, { value: 'y', partition: 2 }]))), 'invalid')
  t.match(await broker.spans('a'), [{ high: 0 }, { high: 1 }], 'all of a call or nothing')
})

t.test('a group that reads from the newest loses nothing of partitions that come or change hands', async t => {
  const broker = open(t)
  await broker.produce(to('a', values(2)))
  const how = { start: 'latest' } as const
  const first = Reader.join(broker, ['a'], 'g', how)
  await first.assignedTo(1)
  await broker.grow('a', 2)
  await broker.produce(to('a', [{ value: 'new', partition: 1 }, { value: 'also' }]))
  await first.count(2)
  const second = Reader.join(broker, ['a'], 'g', how)
  await second.assignedTo(1)
  await second.count(1)
  t.equal(second.all[0]!.partition, second.partitions[0], 'begins where the group began')
  await first.close()
  await second.assignedTo(2)
  await second.count(2)
  t.strictSame(second.values().toSorted(), ['also', 'new'])
  await t.rejects(first.reading.commit([{ topic: 'a', partition: 0, offset: 1 }]))
  t.strictSame([...first.wrong, ...second.wrong], [])
})

t.test('partitions of several topics are parted evenly, each to a member that wants it', async t => {
  const broker = open(t)
  await broker.createTopic('a', 3, 1)
  await broker.createTopic('b', 1, 1)
  const members = [Reader.join(broker, ['a', 'b'], 'g'), Reader.join(broker, ['b', 'a'], 'g')]
  await Promise.all(members.map(one => one.assignedTo(2)))
  const only = Reader.join(broker, ['b'], 'g')
  await only.assignedTo(0)
  await members[0]!.close()
  await Promise.all([members[1]!.assignedTo(3), only.assignedTo(1)])
  t.ok(only.assignments.flat().every(({ topic }) => topic === 'b'))
  await members[1]!.close()
  await only.assignedTo(1)
})

t.test('topics and groups are bounded', async t => {
  const broker = open(t)
  for (let i = 0; i < 1000; i++) await broker.produce(to(`t${i}`, values(1)))
  t.equal(await reason(broker.produce(to('one-more', values(1)))), 'misconfigured')
  t.equal(await reason(broker.produce(to('t999', values(1)))), 'delivered')
  for (let i = 0; i < 10_001; i++) {
    const reading = broker.join({ ...joining, topics: ['t0'], group: `g${i}` }, silent)
    await reading.commit([{ topic: 't0', partition: 0, offset: 1 }])
    await reading.close()
  }
  const [oldest, newest] = ['g0', 'g10000'].map(group => Reader.join(broker, ['t0'], group))
  await oldest!.count(1)
  await newest!.until(() => newest!.assignments[0]?.[0]?.offset === 1)
  for (const group of ['', 'x'.repeat(256)]) {
    const reader = Reader.join(broker, ['t0'], group)
    await reader.until(() => reader.faults.length > 0)
  }
})

const silent = { assigned() {}, records() {}, gap() {}, state() {} }
const joining = {
  start: 'earliest',
  isolation: 'read_committed',
  sessionMs: 10_000,
  heartbeatMs: 500,
  rebalanceMs: 10_000,
  rackId: ''
} as const

t.test('a small piece of a large buffer does not keep all of that', async t => {
  const broker = open(t)
  const large = Buffer.alloc(1_000_000, 'x')
  const message = { key: large.subarray(5, 8), value: large.subarray(10, 20), headers: [], partition: 0 }
  await broker.produce({ ...to('a', []), messages: [message] })
  const reader = Reader.read(broker, [{ topic: 'a', partition: 0, offset: 0 }])
  await reader.count(1)
  const { key, value } = reader.all[0]!
  t.equal(value!.toString(), 'x'.repeat(10))
  for (const piece of [key, value]) t.ok(piece!.buffer.byteLength < 100_000)
})

t.test('a durable broker goes on where it was, after a close and after a sudden end', async t => {
  for (const end of ['close', 'kill'] as const) {
    const path = join(t.testdir(), `${end}.db`)
    const store = await sqlite(t, path)
    const first = open(t, { durable: streamLog(store), kept: { retention_messages: 50 } })
    await first.createTopic('a', 2, 1)
    const other = open(t, { name: 'other', durable: streamLog(store) })
    await other.produce(to('a', values(3)))
    const pairs: [string, Buffer][] = [
      ['n', Buffer.from([255])],
      ['n', Buffer.alloc(0)]
    ]
    const odd = { key: Buffer.from([1, 254]), value: null, headers: pairs, partition: 1 }
    const placed = await first.produce({ ...to('a', []), messages: [odd] })
    for (let i = 0; i < 10; i++) await first.produce(to('a', values(20, i * 20)))
    const reader = Reader.join(first, ['a'], 'g')
    await reader.count(51)
    await reader.reading.commit([{ topic: 'a', partition: 0, offset: 170 }])
    await first.truncate('a', 0, 165)
    if (end === 'close') await first.close()
    await store.close()

    const again = open(t, { durable: streamLog(await sqlite(t, path)), kept: { retention_messages: 50 } })
    const spans = [
      { topic: 'a', partition: 0, low: 165, high: 200 },
      { topic: 'a', partition: 1, low: 0, high: 1 }
    ]
    t.strictSame(await again.spans('a'), spans, end)
    const member = Reader.join(again, ['a'], 'g')
    await member.until(() => member.values(0).at(-1) === '199' && member.values(1).length === 1)
    t.equal(member.values(0)[0], '170')
    const { key, value, headers, timestamp } = member.all.find(({ partition }) => partition === 1)!
    t.strictSame(
      { key, value, headers, timestamp },
      { key: odd.key, value, headers: pairs, timestamp: placed[0]!.timestamp }
    )
    t.equal(value, null)
    t.match(await again.produce(to('a', values(1))), [{ offset: 200 }])
    t.strictSame([...reader.wrong, ...member.wrong], [])
    await again.close()
  }
})

t.test('offsets go on although every record had left', async t => {
  const store = storeMemory()
  const clock = handClock()
  const kept = { retention_age: 5 }
  const first = open(t, { durable: streamLog(store), clock, kept })
  await first.produce(to('a', values(3)))
  await clock.move(6_000)
  t.match(await first.spans('a'), [{ low: 3, high: 3 }])
  await first.close()
  const again = open(t, { durable: streamLog(store), clock, kept })
  t.match(await again.produce(to('a', values(1))), [{ offset: 3 }])
})

t.test('a durable log takes as much room as retention holds, and the store remembers few deletions', async t => {
  const store = storeMemory()
  const broker = open(t, { durable: streamLog(store), kept: { retention_messages: 20 } })
  for (let i = 0; i < 300; i++) await broker.produce(to('a', values(1)))
  t.ok((await store.list('stream_log', { page: 1, size: 1 })).total < 30)
  t.equal((await store.since(0))!.filter(({ deleted }) => deleted).length, 0)
  await broker.truncate('a', 0, 300)
  const { documents } = await store.list('stream_log', { page: -1, size: 1 })
  t.notMatch(JSON.stringify(documents), '"records"', 'and nothing of what has left')
})

t.test('one write takes along what came meanwhile, and a record is seen only when it is safe', async t => {
  const { durable, writes, release, free } = held()
  const broker = open(t, { durable })
  const reader = Reader.read(broker, [{ topic: 'a', partition: 0, offset: 0 }])
  await reader.assignedTo(1)
  const calls = [broker.produce(to('a', values(2)))]
  await turn()
  for (let i = 0; i < 50; i++) calls.push(broker.produce(to('a', values(1, 2 + i))))
  await turn()
  t.equal(writes.length, 1)
  t.match(await broker.spans('a'), [{ high: 0 }])
  t.strictSame(reader.all, [])
  release(null)
  await calls[0]
  await reader.count(2)
  release(null)
  t.equal((await Promise.all(calls)).flat().at(-1)!.offset, 51)
  t.equal(writes.length, 2)
  await reader.count(52)
  t.strictSame(reader.wrong, [])
  free()
})

t.test('a log that fails: the calls under way are unknown, others unavailable, until it is read again', async t => {
  const clock = handClock()
  const { durable, release, loads, free } = held()
  const broker = open(t, { durable, clock })
  const states: boolean[] = []
  broker.onState(({ isUp }) => states.push(isUp))
  const lost = reason(broker.produce(to('a', values(1))))
  await turn()
  const waiting = reason(broker.produce(to('a', values(1), clock.now() + 500)))
  const member = Reader.join(broker, ['a'], 'g')
  await member.assignedTo(1)
  const commit = () => reason(member.reading.commit([{ topic: 'a', partition: 0, offset: 0 }]))
  const kept = commit()
  release(new Error('disk'))
  t.equal(await lost, 'unknown')
  t.equal(await kept, 'unknown')
  t.equal(await commit(), 'unavailable')
  t.equal(await reason(broker.produce(to('a', values(1)))), 'unavailable')
  t.match(broker.state(), { isUp: false, fault: /disk/ })
  await clock.move(500)
  t.equal(await waiting, 'unavailable')
  loads.push(new Error('away'))
  await clock.move(1_000)
  t.match(broker.state(), { isUp: false, fault: /away/ })
  await clock.move(1_000)
  t.strictSame(states, [false, false, true])
  const found = broker.produce(to('a', values(1)))
  await turn()
  release(null)
  t.match(await found, [{ offset: 0 }])
  free()
})

t.test('what a log without room has not written may be sent again', async t => {
  const clock = handClock()
  const { durable, release, free } = held()
  const broker = open(t, { durable, clock })
  await turn()
  const refused = reason(broker.produce(to('a', values(1))))
  await turn()
  release(new NotWritten('no room'))
  t.equal(await refused, 'unavailable')
  await clock.move(1_000)
  const again = broker.produce(to('a', values(1)))
  await turn()
  release(null)
  t.match(await again, [{ offset: 0 }])
  free()
})

t.test('what waits for the log is bounded in bytes and time', async t => {
  const clock = handClock()
  const { durable, release, free } = held()
  const broker = open(t, { durable, clock })
  await turn()
  const slow = reason(broker.produce(to('a', values(1), clock.now() + 1_000)))
  await turn()
  const large = { value: Buffer.alloc(40_000_000) }
  const waiting = reason(broker.produce(to('a', [large], clock.now() + 5_000)))
  t.equal(await reason(broker.produce(to('a', [large]))), 'busy')
  await clock.move(1_000)
  t.equal(await slow, 'unknown')
  await clock.move(4_000)
  t.equal(await waiting, 'unavailable')
  t.equal(await reason(broker.produce(to('a', [large], clock.now() - 1))), 'unavailable')
  release(null)
  await turn()
  t.match(await broker.spans('a'), [{ high: 1 }], 'written in the end')
  const next = reason(broker.produce(to('a', values(1))))
  await turn()
  release(null)
  t.equal(await next, 'delivered')
  free()
})

t.test('a broker whose log cannot be read at first tells its readers, and waits', async t => {
  const clock = handClock()
  const { durable, loads, free } = held()
  free()
  loads.push(new Error('away'))
  const broker = open(t, { durable, clock })
  const early = reason(broker.produce(to('a', values(1), clock.now() + 100)))
  const reader = Reader.join(broker, ['a'], 'g')
  await reader.until(() => reader.faults.length > 0)
  t.match(reader.faults, [/away/])
  t.equal(await reason((async () => broker.partitions('a'))()), 'unavailable')
  await clock.move(100)
  t.equal(await early, 'unavailable')
  await clock.move(900)
  await reader.assignedTo(1)
  t.strictSame(reader.faults.at(-1), null)
  await broker.produce(to('a', values(1)))
  await reader.count(1)
  await reader.reading.commit([{ topic: 'a', partition: 0, offset: 1 }])
})

const turn = () => new Promise<void>(resolve => setImmediate(resolve))

/** A log whose writes end when they are told to. */
function held() {
  const writes: ((error: Error | null) => void)[] = []
  const loads: Error[] = []
  let isFree = false
  let released = 0
  const durable: DurableLog = {
    async load() {
      const error = loads.shift()
      if (error !== undefined) throw error
      return { topics: [], segments: [], groups: [] }
    },
    write: () =>
      new Promise((resolve, reject) => {
        if (isFree) resolve()
        else writes.push(error => (error === null ? resolve() : reject(error)))
      })
  }
  const release = (error: Error | null) => writes[released++]!(error)
  const free = () => {
    isFree = true
  }
  return { durable, writes, loads, release, free }
}
