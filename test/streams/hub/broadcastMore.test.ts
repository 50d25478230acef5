import t from 'tap'
import type { Position, Span } from '../../../streams/broker.ts'
import type { From } from '../../../streams/hub/hub.ts'
import { Listener, LogBroker, numbers, running, stand, turns, until } from './broadcastFakes.ts'

/** A broker whose answers come when they are let go: each tells what was so when it was asked. */
class LateBroker extends LogBroker {
  readonly asked: { readonly what: string; go(): void }[] = []
  override spans(topic: string): Promise<readonly Span[]> {
    return this.#late('spans', super.spans(topic))
  }
  override positionsAt(topic: string, ms: number): Promise<readonly Position[]> {
    return this.#late(`at ${ms}`, super.positionsAt(topic, ms))
  }
  async answer(what: string): Promise<void> {
    await until(() => this.asked.some(one => one.what === what), what)
    const index = this.asked.findIndex(one => one.what === what)
    this.asked.splice(index, 1)[0]!.go()
    await turns(3)
  }
  async #late<T>(what: string, answer: Promise<T>): Promise<T> {
    await new Promise<void>(go => this.asked.push({ what, go }))
    return answer
  }
}

const queue = (messages: number, policy: 'disconnect' | 'drop_oldest' | 'latest_by_key' = 'disconnect') => ({
  messages,
  bytes: 1e6,
  policy
})

t.test('what comes after a client was let in is its own, however late the broker tells its ends', async t => {
  for (const transport of ['sse', 'poll'] as const) {
    const broker = new LateBroker(2)
    const { hub, clock } = stand(broker)
    const put = (partition: number, value: string) => {
      broker.timestamp = clock.now()
      broker.put(partition, value)
    }
    const start = clock.now()
    put(0, 'old')
    await clock.move(10)
    const first = new Listener({ transport })
    first.join(hub)
    put(0, 'a')
    put(1, 'b')
    await clock.move(5000)
    put(0, 'c')
    await clock.move(5000)
    const second = new Listener({ transport })
    second.join(hub)
    put(1, 'd')
    // Answered as it was asked: before anything came.
    const gone = new Listener({ transport })
    gone.join(hub)
    gone.seat!.leave()
    await broker.answer('spans')
    put(0, 'e')
    await broker.answer(`at ${start + 10}`)
    t.equal(hub.status().state, 'active')
    put(1, 'f')
    const third = new Listener({ transport })
    third.join(hub)
    put(0, 'g')
    await turns(20)
    t.same([...first.got].sort(), ['a', 'b', 'c', 'd', 'e', 'f', 'g'])
    t.same(second.got, [], 'it waits for where it begins')
    await broker.answer('spans')
    await broker.answer(`at ${start + 10 + 10_000}`)
    while (broker.asked.length > 0) await broker.answer('spans')
    await until(() => second.got.length >= 4)
    t.notOk(second.got.some(value => ['old', 'a', 'b', 'c'].includes(value)))
    t.same([...second.got].sort(), ['d', 'e', 'f', 'g'])
    t.ok(third.got.includes('g') && !third.got.includes('d'))
    t.same([first.gaps, second.gaps], [[], []])
  }
})

t.test(
  'a producer whose clock is ahead brings older messages along; one that is behind hides none once the ends are known',
  async t => {
    const rows = [
      { name: 'ahead', skew: 3000, expected: ['old', 'new', 'live'] },
      { name: 'behind', skew: -3000, expected: ['new', 'live'] }
    ]
    for (const { name, skew, expected } of rows) {
      const broker = new LateBroker()
      const { hub, clock } = stand(broker)
      broker.timestamp = clock.now() + skew
      broker.put(0, 'old')
      await clock.move(1000)
      const client = new Listener()
      client.join(hub)
      broker.timestamp = clock.now() + skew
      broker.put(0, 'new')
      await broker.answer('spans')
      await broker.answer(`at ${clock.now()}`)
      broker.put(0, 'live')
      await turns(20)
      t.same(client.got, expected, name)
    }
  }
)

t.test('positions that fail at the second question are asked for again, and nothing is lost', async t => {
  const broker = new LogBroker()
  const { hub, clock } = stand(broker)
  let fails = 2
  const asked = broker.positionsAt.bind(broker)
  broker.positionsAt = (topic, ms) => (fails-- > 0 ? Promise.reject(new Error('no leader')) : asked(topic, ms))
  const client = new Listener()
  client.join(hub)
  broker.timestamp = clock.now()
  broker.put(0, 'a')
  await turns(5)
  t.match(hub.status(), { state: 'degraded', lastError: 'no leader' })
  await clock.move(3000)
  await until(() => client.got.length === 1)
  t.same(client.got, ['a'])
})

t.test('an id that is none of this stream is told as a gap, and the client goes on; a poll is refused', async t => {
  const other = await running(new LogBroker(), { stream: 'other' })
  other.broker.put(0, 'x')
  await until(() => other.first.id !== null)
  const ids = ['nonsense', '1.0-0', '1.t5.AAAAAAAAAAAAAAAA', other.first.id!, '', '1.0-1.'.padEnd(4096, 'A')]
  for (const cursor of ids)
    for (const isFirst of [false, true]) {
      const broker = new LogBroker()
      broker.append(0, ['old'])
      const { hub } = isFirst ? stand(broker) : await running(broker)
      for (const transport of ['sse', 'websocket'] as const) {
        const client = new Listener({ transport })
        t.equal(client.join(hub, { cursor }), null)
        await turns(6)
        broker.put(0, 'a')
        await until(() => client.got.length === 2)
        t.same(client.got, ['gap:-1', 'a'], cursor)
        const again = new Listener({ transport })
        again.join(hub, { cursor: client.gaps[0]!.cursor })
        await until(() => again.got.length === 1)
        t.same(again.got, ['a'], 'the cursor of the gap is one')
        again.seat!.leave()
      }
      t.equal(new Listener({ transport: 'poll' }).join(hub, { cursor }), 'stream_cursor')
    }
})

t.test('a burst of more than its queue costs a client nothing that reads, at whatever pace others do', async t => {
  for (const policy of ['disconnect', 'drop_oldest', 'latest_by_key'] as const)
    for (const isFiltered of [false, true]) {
      const broker = new LogBroker()
      const { hub, clock } = await running(broker, { options: { queue: queue(10, policy) } })
      const client = new Listener({ wants: isFiltered ? () => true : null })
      client.writes = false
      client.join(hub)
      const stopped = numbers(5).map(() => new Listener({ room: 0 }))
      for (const one of stopped) one.join(hub)
      await turns()
      broker.fetch = 900
      broker.put(0, ...numbers(900))
      let written = 0
      for (let i = 0; i < 900 && client.got.length < 900; i++) {
        await clock.move(1)
        await turns(2)
        client.seat!.written(client.got.length - written)
        written = client.got.length
      }
      const name = `${policy}${isFiltered ? ', filtered' : ''}`
      t.same(client.got, numbers(900), name)
      t.same([client.ended, client.gaps], [[], []], name)
    }
})

t.test('nobody waits for those of whom nothing was written since the last time', async t => {
  const broker = new LogBroker()
  const { hub, first, clock } = await running(broker, { options: { queue: queue(10, 'drop_oldest') } })
  const stopped = numbers(5).map(() => new Listener({ room: 0 }))
  for (const one of stopped) one.join(hub)
  await turns()
  broker.put(0, ...numbers(50))
  await turns(30)
  t.ok(first.got.length < 50, 'for once they may be reading')
  await clock.move(50)
  await until(() => first.got.length === 50)
  broker.put(0, ...numbers(500, 50))
  await until(() => first.got.length === 550)
  t.same(first.got, numbers(550))
})

t.test('one that stops is cut or loses the oldest after a second, and no sooner', async t => {
  for (const policy of ['disconnect', 'drop_oldest', 'latest_by_key'] as const) {
    const broker = new LogBroker()
    const { hub, first, clock } = await running(broker, { options: { queue: queue(10, policy) } })
    const client = new Listener({ room: 0 })
    client.join(hub)
    await turns()
    for (let i = 0; i < 40; i++) {
      broker.put(0, String(i))
      await until(() => first.got.length === i + 1)
      if (i === 30) t.same([client.ended, hub.status().dropped], [[], 0], policy)
      if (i === 38) await clock.move(1000)
    }
    if (policy === 'disconnect') t.same(client.ended, ['slow'])
    else {
      client.open()
      await turns(3)
      t.same(client.got, ['gap:30', ...numbers(10, 30)], policy)
    }
  }
})

t.test('one that reads slower than messages come gets the newest by its policy, or is cut', async t => {
  for (const policy of ['disconnect', 'drop_oldest', 'latest_by_key'] as const) {
    const broker = new LogBroker()
    const { hub, first, clock, budget } = await running(broker, {
      options: { queue: queue(10, policy), window: { messages: 100, bytes: 1e6, ageMs: 1e6 } }
    })
    const client = new Listener({ room: 0 })
    client.join(hub)
    await turns()
    for (let i = 0; i < 1000 && client.ended.length === 0; i++) {
      broker.put(0, String(i))
      await until(() => first.got.length === i + 1)
      await clock.move(50)
      // It takes five at once: half of its queue.
      if (i % 8 === 0) client.open(1)
      await turns(2)
    }
    if (policy === 'disconnect') t.same(client.ended, ['slow'])
    else {
      const newest = client.items.at(-1)!.record.offset
      // It took some last when 993 had come, with ten of them waiting.
      t.ok(newest >= 983, `${newest} is of the newest: ${policy}`)
      const told = client.gaps.reduce((sum, { items }) => sum + items, 0)
      t.equal(told, newest + 1 - client.items.length)
    }
    t.ok(budget.used < 100_000)
  }
})

t.test('a client with one long write under way is not taken for one that stopped', async t => {
  const broker = new LogBroker()
  const options = { queue: { messages: 10, bytes: 100_000, policy: 'disconnect' as const } }
  const { hub, first, clock } = await running(broker, { options })
  const client = new Listener()
  client.writes = false
  client.join(hub)
  await turns()
  broker.put(0, 'x'.repeat(1_000_000))
  for (let i = 0; i < 30; i++) {
    broker.put(0, String(i))
    await until(() => first.got.length === i + 2)
    await clock.move(200)
  }
  t.same(client.ended, [])
  client.seat!.written(1)
  await until(() => client.got.length === 11)
  t.same(client.got.slice(1), numbers(10))
})

t.test('many come back behind the window: all are let in, and get everything in turn', async t => {
  const broker = new LogBroker()
  const { hub, first } = await running(broker, {
    readers: 3,
    options: { window: { messages: 5, bytes: 1e6, ageMs: 1e6 }, queue: queue(5) }
  })
  broker.put(0, ...numbers(200))
  await until(() => first.got.length === 200)
  const clients = numbers(1003).map(() => new Listener())
  for (const client of clients) t.equal(client.join(hub, { cursor: first.items[99]!.cursor! }), null)
  t.equal(new Listener().join(hub, 'earliest'), 'stream_catch_up', 'a thousand wait')
  t.ok(broker.readings.size <= 4)
  await until(() => clients.every(({ got }) => got.length === 100))
  broker.put(0, '200')
  await until(() => clients.every(({ got }) => got.length === 101))
  t.ok(clients.every(({ got }) => String(got) === String(numbers(101, 100))))
  t.equal(new Listener().join(hub, 'earliest'), null)
})

t.test('one that reads history slowly gives its place to those who wait, and loses nothing', async t => {
  const broker = new LogBroker()
  const { hub, first, clock } = await running(broker, {
    readers: 1,
    options: { window: { messages: 5, bytes: 1e6, ageMs: 1e6 }, queue: queue(5) }
  })
  broker.put(0, ...numbers(200))
  await until(() => first.got.length === 200)
  const cursor = first.items[0]!.cursor!
  const slow = new Listener({ room: 10 })
  slow.join(hub, { cursor })
  const quick = [new Listener(), new Listener()]
  for (const client of quick) client.join(hub, { cursor })
  await turns(20)
  t.same([slow.got.length, quick[0]!.got.length], [10, 0])
  await clock.move(2000)
  await until(() => quick.every(({ got }) => got.length === 199))
  slow.open()
  await until(() => slow.got.length === 199)
  t.same(slow.got, numbers(199, 1))
  t.equal(broker.readings.size, 1)
})

t.test('a topic that is made anew begins anew for everybody: told as a gap, and nothing of it is missing', async t => {
  const broker = new LogBroker(2)
  const { hub, first, budget } = await running(broker)
  const filtered = new Listener({ wants: ({ record }) => String(record.value) !== 'new1' })
  const stopped = new Listener({ room: 0 })
  const poll = new Listener({ transport: 'poll' })
  for (const client of [filtered, stopped, poll]) client.join(hub)
  broker.put(0, ...numbers(50))
  broker.put(1, ...numbers(50, 50))
  await until(() => [first, filtered, poll].every(({ got }) => got.length === 100))
  const old = first.id!
  broker.remake()
  await until(() => first.gaps.length === 2)
  broker.put(0, 'new0', 'new1')
  await until(() => first.got.includes('new1'))
  const place = first.id!
  broker.put(1, 'new2')
  const told = ['gap:-1', 'gap:-1', 'new0', 'new1', 'new2']
  await until(() => first.got.includes('new2'))
  await turns(20)
  t.same(first.got.slice(100), told)
  t.same(filtered.got.slice(100), told.toSpliced(3, 1))
  t.same(poll.got.slice(100), told)
  stopped.open()
  await until(() => stopped.got.includes('new2'))
  t.same(stopped.got, ['gap:-1', 'new0', 'new1', 'new2'])
  const rows: (readonly [string, From, string[]])[] = [
    ['a cursor of the old history', { cursor: old }, ['gap:-1', 'new0', 'new1', 'new2']],
    ['the cursor of the gap', { cursor: first.gaps[1]!.cursor }, ['new0', 'new1', 'new2']],
    ['a cursor of the new one', { cursor: place }, ['new2']],
    ['the oldest', 'earliest', ['new0', 'new1', 'new2']],
    ['the newest', 'latest', []]
  ]
  const clients = rows.map(([, from]) => {
    const client = new Listener()
    t.equal(client.join(hub, from), null)
    return client
  })
  await turns(40)
  broker.put(0, 'live')
  await until(() => clients.every(({ got }) => got.includes('live')))
  rows.forEach(([name, , expected], i) => {
    t.same([...clients[i]!.got].sort(), [...expected, 'live'].sort(), name)
  })
  t.equal(hub.status().lag, 0)
  await hub.close('disabled', 0)
  t.same([budget.used, budget.windows.used], [0, 0])
})

t.test('one that reads history while a topic is made anew goes on with the new one', async t => {
  const broker = new LogBroker()
  const options = { window: { messages: 5, bytes: 1e6, ageMs: 1e6 }, queue: queue(5) }
  const { hub, first } = await running(broker, { options, readers: 1 })
  broker.put(0, ...numbers(200))
  await until(() => first.got.length === 200)
  const cursor = first.items[9]!.cursor!
  const [reads, waits] = [new Listener({ room: 10 }), new Listener()]
  for (const client of [reads, waits]) client.join(hub, { cursor })
  await until(() => reads.got.length === 10)
  broker.remake()
  await until(() => first.gaps.length === 1)
  broker.put(0, ...numbers(20, 1000))
  await until(() => waits.got.length === 21)
  t.same(waits.got, ['gap:-1', ...numbers(20, 1000)])
  reads.open()
  await until(() => reads.got.length === 31)
  t.same(reads.got, [...numbers(10, 10), 'gap:-1', ...numbers(20, 1000)])
})
