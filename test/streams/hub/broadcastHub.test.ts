import t from 'tap'
import type { Place } from '../../../streams/broker.ts'
import { Budget } from '../../../streams/budget.ts'
import { Cursors } from '../../../streams/hub/cursor.ts'
import { Undelivered } from '../../../streams/undelivered.ts'
import { bytesOf, Listener, LogBroker, numbers, running, stand, turns, until } from './broadcastFakes.ts'

t.test('every client gets every message from the time it came, through one reader', async t => {
  const broker = new LogBroker(2)
  broker.append(0, ['old'])
  const { hub, first } = await running(broker)
  broker.put(0, 'a')
  broker.put(1, 'b')
  await until(() => first.got.length === 2)
  const second = new Listener()
  second.join(hub)
  broker.put(0, 'c')
  await until(() => second.got.length === 1 && first.got.length === 3)
  t.same(first.got, ['a', 'b', 'c'])
  t.same(second.got, ['c'])
  t.equal(broker.reads, 1)
  t.match(hub.status(), {
    state: 'active',
    clients: { sse: 2, websocket: 0, poll: 0 },
    delivered: 4,
    lag: 0,
    partitions: 2
  })
})

t.test('clients that are abreast get one and the same joined buffer', async t => {
  const { hub, broker, first } = await running(new LogBroker())
  const second = new Listener()
  second.join(hub)
  await turns()
  broker.put(0, 'a', 'b', 'c')
  await until(() => second.got.length === 3)
  t.equal(first.joins.length, 1)
  t.equal(first.joins[0], second.joins[0])
  t.equal(String(first.joins[0]), 'abc')
})

t.test('a cursor resumes within the window, by catching up, and below the start of the log with a gap', async t => {
  const rows = [
    { name: 'within', window: 1000, missed: 30, low: 0, expected: numbers(31, 5), gaps: [] },
    { name: 'by catching up', window: 10, missed: 300, low: 0, expected: numbers(301, 5), gaps: [] },
    { name: 'below the log', window: 10, missed: 100, low: 50, expected: ['gap:45', ...numbers(56, 50)], gaps: [45] }
  ]
  for (const { name, window, missed, low, expected, gaps } of rows) {
    const broker = new LogBroker()
    const options = { window: { messages: window, bytes: 1e6, ageMs: 300_000 }, queue: queue(10) }
    const { hub, first, clock } = await running(broker, { options })
    broker.put(0, ...numbers(5))
    await until(() => first.got.length === 5)
    const cursor = first.id!
    t.equal(first.seat!.cursor(), cursor, `${name}: a seat tells the same cursor as the newest event`)
    broker.put(0, ...numbers(missed, 5))
    await until(() => first.got.length === 5 + missed)
    broker.truncate(0, low)
    const again = new Listener()
    t.equal(again.join(hub, { cursor }), null, name)
    await until(() => again.got.length >= expected.length - 1, name)
    broker.put(0, String(5 + missed))
    await until(() => again.got.length >= expected.length, name)
    t.same(again.got, expected, name)
    t.same(
      again.gaps.map(({ items }) => items),
      gaps,
      name
    )
    await clock.move(10_000)
    t.equal(broker.readings.size, 1, `${name}: the reader of history is gone`)
  }
})

t.test('a resuming client that has no room slows its reader of history and gets all in the end', async t => {
  const broker = new LogBroker()
  const { hub, first, budget } = await running(broker, {
    options: { window: { messages: 5, bytes: 1e6, ageMs: 1e6 }, queue: queue(5) }
  })
  broker.put(0, '0')
  await until(() => first.got.length === 1)
  broker.put(0, ...numbers(3000, 1))
  await until(() => first.got.length === 3001)
  const before = bytesOf(budget)
  const slow = new Listener({ room: 3 })
  slow.join(hub, { cursor: first.items[0]!.cursor! })
  await turns(100)
  t.same(slow.got, ['1', '2', '3'])
  t.ok(bytesOf(budget) - before < 100 * 1000, 'what waits for it is bounded')
  while (slow.got.length < 3000) {
    slow.open(400)
    await turns(5)
  }
  t.same(slow.got, numbers(3000, 1))
})

t.test('so many read history as is allowed; streams wait in line, polls are refused', async t => {
  const broker = new LogBroker()
  const { hub, first } = await running(broker, {
    readers: 1,
    options: { window: { messages: 5, bytes: 1e6, ageMs: 1e6 }, queue: queue(5) }
  })
  broker.put(0, ...numbers(100))
  await until(() => first.got.length === 100)
  const cursor = first.items[0]!.cursor!
  const slow = new Listener({ room: 1 })
  t.equal(slow.join(hub, { cursor }), null)
  const waiting = [new Listener(), new Listener(), new Listener()]
  t.equal(waiting[0]!.join(hub, { cursor }), null)
  t.equal(waiting[1]!.join(hub, 'earliest'), null)
  t.equal(waiting[2]!.join(hub, { cursor }), null)
  t.equal(new Listener({ transport: 'poll' }).join(hub, { cursor }), 'stream_catch_up')
  t.equal(new Listener().join(hub, { cursor: first.items[97]!.cursor! }), null, 'the window has it')
  await turns(20)
  t.equal(broker.readings.size, 2)
  t.equal(waiting[0]!.seat!.cursor(), cursor, 'one who waits stands where it stood')
  waiting[2]!.seat!.leave()
  slow.open()
  await until(() => waiting[1]!.got.length === 100)
  t.same(
    waiting.map(({ got }) => got.length),
    [99, 100, 0]
  )
  const next = new Listener()
  next.join(hub, { cursor })
  next.seat!.leave()
  const last = new Listener()
  last.join(hub, { cursor })
  await until(() => last.got.length === 99, 'one who left gives the place back')
})

t.test('many that come again to a gateway that has just begun find what they missed in the window', async t => {
  const broker = new LogBroker()
  const one = await running(broker)
  broker.put(0, ...numbers(40))
  await until(() => one.first.got.length === 40)
  const { hub } = stand(broker, { readers: 1 })
  const reads = broker.reads
  const clients = numbers(50).map(() => new Listener())
  for (const [i, client] of clients.entries())
    t.equal(client.join(hub, { cursor: one.first.items[i % 30]!.cursor! }), null)
  const fresh = new Listener()
  fresh.join(hub)
  await until(() => clients.every((client, i) => client.got.length === 39 - (i % 30)))
  broker.put(0, '40')
  await until(() => fresh.got.length === 1)
  for (const [i, client] of clients.entries()) t.same(client.got, numbers(40 - (i % 30), (i % 30) + 1))
  t.same(fresh.got, ['40'])
  t.equal(broker.reads, reads + 1)
})

t.test('a client that stops reading meets the policy while others go on', async t => {
  const rows = [
    { policy: 'disconnect', ended: ['slow'], got: numbers(3), dropped: 0 },
    { policy: 'drop_oldest', ended: [], got: [...numbers(3), 'gap:6', ...numbers(11, 9)], dropped: 6 },
    { policy: 'latest_by_key', ended: [], got: [...numbers(3), ...numbers(2, 18)], dropped: 15 }
  ] as const
  for (const { policy, ended, got, dropped } of rows) {
    const broker = new LogBroker()
    const { hub, first, clock } = await running(broker, { options: { queue: queue(10, policy) } })
    const slow = new Listener({ room: 3 })
    slow.join(hub)
    await turns()
    for (let i = 0; i < 19; i++) {
      if (i === 18) t.same(slow.ended, [], 'a burst alone makes nobody slow')
      if (i === 18) await clock.move(1000)
      broker.put(0, [i % 2 === 0 ? 'even' : 'odd', String(i)])
      await until(() => first.got.length === i + 1)
    }
    t.same(slow.ended, ended, policy)
    if (ended.length === 0) {
      slow.open()
      await turns()
      broker.put(0, ['even', '19'])
    }
    await turns()
    const expected = policy === 'latest_by_key' ? [...numbers(3), '17', '18', '19'] : got
    t.same(slow.got, expected, policy)
    t.equal(hub.status().dropped, policy === 'latest_by_key' ? 14 : dropped, policy)
  }
})

t.test('what was taken and is not written counts, also where the client says it has room', async t => {
  const broker = new LogBroker()
  const { hub, first, clock } = await running(broker, { options: { queue: queue(10) } })
  const slow = new Listener()
  slow.writes = false
  slow.join(hub)
  await turns()
  for (let i = 0; i < 40 && slow.ended.length === 0; i++) {
    await clock.move(100)
    broker.put(0, String(i))
    await until(() => first.got.length === i + 1)
  }
  t.same(slow.ended, ['slow'])
  t.same(slow.got, numbers(10))
  const again = new Listener()
  again.join(hub, { cursor: slow.id! })
  await until(() => again.got.length === first.got.length - 10)
  t.same([...slow.got, ...again.got], first.got)
})

t.test('bytes bound a queue as messages do', async t => {
  const broker = new LogBroker()
  const options = { queue: { messages: 1000, bytes: 10_000, policy: 'disconnect' as const } }
  const { hub, first, clock } = await running(broker, { options })
  const slow = new Listener({ room: 0 })
  slow.join(hub)
  await turns()
  for (let i = 0; i < 12; i++) {
    await clock.move(600)
    broker.put(0, 'x'.repeat(1000))
    await until(() => first.got.length === i + 1)
    if (i < 8) t.same(slow.ended, [])
  }
  t.same(slow.ended, ['slow'])
})

t.test('a burst longer than every bound ends nobody who keeps up', async t => {
  const broker = new LogBroker()
  const { first } = await running(broker, {
    options: { queue: queue(10), window: { messages: 10, bytes: 1e6, ageMs: 1e6 } },
    bufferMessages: 50
  })
  broker.fetch = 700
  broker.put(0, ...numbers(5000))
  await until(() => first.got.length === 5000)
  t.same(first.got, numbers(5000))
})

t.test('a burst ends nobody whose socket tells a little later what it has written', async t => {
  const broker = new LogBroker()
  const { hub, first } = await running(broker, { options: { queue: queue(100) } })
  const later = [first, ...numbers(9).map(() => new Listener())]
  for (const client of later) {
    if (client !== first) client.join(hub)
    client.writes = false
    let unwritten = 0
    client.takeAll = batch => {
      client.got.push(...batch.items.map(({ record }) => String(record.value)))
      unwritten += batch.items.length
      setImmediate(() => {
        client.seat!.written(unwritten)
        unwritten = 0
      })
    }
  }
  await turns()
  broker.fetch = 5000
  broker.put(0, ...numbers(5000))
  await until(() => later.every(({ got }) => got.length === 5000))
  t.ok(later.every(({ ended }) => ended.length === 0))
  t.same(first.got, numbers(5000))
})

t.test('a majority without room is waited for, but not for long', async t => {
  const broker = new LogBroker()
  const { hub, first, clock } = await running(broker, { options: { queue: queue(10) } })
  const stuck = numbers(3).map(() => new Listener({ room: 0 }))
  for (const client of stuck) client.join(hub)
  await turns()
  broker.put(0, ...numbers(100))
  await turns(20)
  t.equal(first.got.length, 5)
  for (const client of stuck.slice(0, 2)) client.open()
  await turns(40)
  t.equal(first.got.length, 100)
  t.same([stuck[0]!.got, stuck[0]!.ended, stuck[2]!.ended], [numbers(100), [], []])
  first.room = 0
  for (const client of stuck) client.room = 0
  broker.put(0, ...numbers(100))
  await turns(20)
  t.equal(hub.status().queued, 95)
  for (let i = 0; i < 25; i++) {
    await clock.move(50)
    await turns(3)
  }
  t.equal(hub.status().queued, 0)
  broker.put(0, 'one more')
  await turns(3)
  t.same(
    [first, ...stuck].map(({ ended }) => ended),
    [['slow'], ['slow'], ['slow'], ['slow']]
  )
})

t.test('the broker is told to wait while more has come than was handed out, and then to go on', async t => {
  const broker = new LogBroker()
  const { hub, first } = await running(broker, { bufferMessages: 100 })
  broker.fetch = 60
  broker.append(0, numbers(1000))
  broker.pump()
  await turns(1)
  const reading = [...broker.readings][0]!
  const seen = new Set<number>()
  await until(() => {
    seen.add(reading.paused.size)
    t.ok(hub.status().queued <= 160)
    return first.got.length === 1000
  })
  t.same(first.got, numbers(1000))
  t.equal(hub.status().paused, 0)
})

t.test('a filter takes its own messages alone, and only they count for its queue', async t => {
  const broker = new LogBroker()
  const { hub, first } = await running(broker, { options: { queue: queue(10) } })
  const third = ({ record }: { record: { value: Buffer | null } }) => Number(String(record.value)) % 3 === 0
  const listener = new Listener({ wants: third })
  const slow = new Listener({ wants: third, room: 0 })
  listener.join(hub)
  slow.join(hub)
  await turns()
  for (let i = 0; i < 28; i++) {
    broker.put(0, String(i))
    await until(() => first.got.length === i + 1)
  }
  t.same(listener.got, ['0', '3', '6', '9', '12', '15', '18', '21', '24', '27'])
  t.same(slow.ended, [])
  slow.open(4)
  await turns()
  t.same(slow.got, ['0', '3', '6', '9'])
  const cursor = slow.seat!.cursor()!
  slow.seat!.leave()
  const again = new Listener({ wants: third })
  again.join(hub, { cursor })
  await turns()
  t.same(again.got, ['12', '15', '18', '21', '24', '27'])
})

t.test('polls go on where the last one ended, also when nothing had come', async t => {
  const broker = new LogBroker()
  broker.append(0, numbers(3))
  const { hub, clock } = stand(broker, {
    options: { window: { messages: 5, bytes: 1e6, ageMs: 1000 }, queue: queue(5) },
    idleLeave: 1
  })
  const got: string[] = []
  let cursor: string | null = null
  const poll = async (limit: number) => {
    const client = new Listener({ transport: 'poll', room: limit })
    client.join(hub, cursor === null ? null : { cursor })
    await until(() => hub.status().state === 'active')
    await turns(20)
    cursor = client.seat!.cursor()
    client.seat!.leave()
    got.push(...client.got)
    return client.got.length
  }
  t.equal(await poll(10), 0)
  broker.put(0, ...numbers(4, 3))
  t.equal(await poll(3), 3)
  t.equal(await poll(3), 1)
  broker.put(0, ...numbers(40, 7))
  await clock.move(60_000)
  t.equal(hub.status().state, 'idle')
  t.equal(await poll(25), 25)
  t.equal(await poll(25), 15)
  t.same(got, numbers(44, 3))
})

t.test('a poll that ends before the positions are known goes on from its own time', async t => {
  const broker = new LogBroker()
  const { hub, clock } = stand(broker)
  const poll = new Listener({ transport: 'poll' })
  broker.fault = 'away'
  poll.join(hub)
  const cursor = poll.seat!.cursor()!
  poll.seat!.leave()
  broker.fault = null
  broker.timestamp = clock.now() - 1
  broker.append(0, ['before'])
  broker.timestamp = clock.now() + 1
  broker.append(0, ['after'])
  const next = new Listener({ transport: 'poll' })
  t.equal(next.join(hub, { cursor }), null)
  await until(() => hub.status().state === 'degraded')
  await clock.move(5000)
  await until(() => next.got.length === 1)
  t.same(next.got, ['after'])
})

t.test('earliest and a time begin there', async t => {
  const broker = new LogBroker(2)
  broker.append(0, ['a', 'b'])
  broker.timestamp = 5000
  broker.append(0, ['c'])
  broker.append(1, ['d'])
  const rows = [
    { from: 'earliest', options: {}, expected: ['a', 'b', 'c', 'd'] },
    { from: { timestamp: 2000 }, options: {}, expected: ['c', 'd'] },
    { from: null, options: { start: 'earliest' }, expected: ['a', 'b', 'c', 'd'] },
    { from: null, options: { start: 'committed' }, expected: [] }
  ] as const
  for (const { from, options, expected } of rows) {
    const { hub, clock } = stand(broker, { options })
    const client = new Listener()
    client.join(hub, from)
    await until(() => hub.status().state === 'active')
    await turns(20)
    await clock.move(5000)
    t.same(client.got.sort(), expected, JSON.stringify(from))
  }
})

t.test('offsets without records in front of the window do not keep a reader of history', async t => {
  const broker = new LogBroker()
  const { hub, first, clock } = await running(broker)
  broker.put(0, 'a', 'b')
  broker.mark(0)
  await until(() => first.got.length === 2)
  first.seat!.leave()
  await clock.move(400_000)
  const again = new Listener()
  const { hub: other, clock: time } = stand(broker, { options: { window: { messages: 0, bytes: 1, ageMs: 1e6 } } })
  again.join(other, { cursor: first.items[0]!.cursor! })
  await until(() => again.got.length === 1)
  t.equal(broker.readings.size, 2)
  await time.move(10_000)
  await turns()
  t.equal(broker.readings.size, 1)
  broker.put(0, 'c')
  await until(() => again.got.length === 2)
  t.same(again.got, ['b', 'c'])
  t.equal(hub.status().state, 'idle')
})

t.test(
  'a cursor beyond the end: of a broker ahead of us it waits, of a topic made anew it is told as a gap',
  async t => {
    const broker = new LogBroker()
    const { hub, first } = await running(broker)
    broker.isHeld = true
    broker.append(0, numbers(5))
    const ahead = new Listener()
    t.equal(ahead.join(hub, { cursor: cursorAt(broker, 3) }), null)
    const lost = new Listener()
    lost.join(hub, { cursor: cursorAt(broker, 999) })
    await turns(20)
    broker.isHeld = false
    broker.pump()
    await until(() => first.got.length === 5)
    await turns()
    t.same(ahead.got, ['3', '4'])
    t.same(lost.got, ['gap:-1', ...numbers(5)])
  }
)

t.test('partitions that come later are read from their beginning, also by those who were away', async t => {
  const broker = new LogBroker()
  const { hub, first } = await running(broker)
  broker.put(0, 'a')
  await until(() => first.got.length === 1)
  const cursor = first.id!
  broker.grow(1)
  broker.put(1, 'b', 'c')
  await until(() => first.got.length === 3)
  const again = new Listener()
  again.join(hub, { cursor })
  await until(() => again.got.length === 2)
  t.same(again.got, ['b', 'c'])
  t.match(first.id, /^1\.0-1_1-2\./)
  t.equal(hub.status().partitions, 2)
})

t.test(
  'with more than eight partitions one event in some carries an id, and resuming repeats no more than those',
  async t => {
    const broker = new LogBroker(20)
    const options = { idInterval: 5 }
    const { hub, first } = await running(broker, { options })
    const all = numbers(100)
    for (const value of all) broker.put(Number(value) % 20, value)
    await until(() => first.got.length === 100)
    t.equal(first.items.filter(({ cursor }) => cursor !== null).length, 20)
    for (const stop of [7, 33, 58]) {
      const seen = first.items.slice(0, stop)
      const cursor = seen.findLast(item => item.cursor !== null)!.cursor!
      const again = new Listener()
      again.join(hub, { cursor })
      await turns(20)
      t.ok(again.got.length <= 100 - stop + 4 && again.got.length >= 100 - stop)
      t.same([...new Set([...seen.map(({ record }) => String(record.value)), ...again.got])].sort(), all.sort())
    }
    const rare = new Listener({ wants: ({ record }) => String(record.value) === 'rare' })
    rare.join(hub)
    await turns()
    broker.put(3, 'x', 'rare', 'y', 'z')
    await until(() => rare.got.length === 1)
    t.type(rare.id, 'string', 'a filter does not lose the id')
    const again = new Listener()
    again.join(hub, { cursor: rare.id! })
    await until(() => again.got.length === 2)
    t.same(again.got, ['y', 'z'])
  }
)

t.test('with more than 256 partitions a cursor is a time', async t => {
  const broker = new LogBroker(300)
  const { first, hub, clock } = await running(broker)
  broker.timestamp = clock.now() + 10_000
  broker.put(299, 'a')
  broker.timestamp += 10_000
  broker.put(7, 'b')
  await until(() => first.got.length === 2)
  t.match(first.items[0]!.cursor, /^1\.t\d+\./)
  const again = new Listener()
  again.join(hub, { cursor: first.items[0]!.cursor! })
  await until(() => again.got.length === 2)
  t.same(again.got, ['a', 'b'], 'some come again')
})

t.test('a gap that the broker tells reaches every client between the messages around it', async t => {
  const broker = new LogBroker()
  const { hub, first } = await running(broker)
  const full = new Listener({ room: 1 })
  full.join(hub)
  await turns()
  broker.put(0, 'a', 'b')
  await until(() => first.got.length === 2)
  const cursor = first.id!
  broker.isHeld = true
  broker.append(0, numbers(10))
  broker.truncate(0, 8)
  broker.isHeld = false
  broker.pump()
  await until(() => first.got.length === 7)
  t.same(first.got, ['a', 'b', 'gap:6', '6', '7', '8', '9'])
  full.open()
  await turns()
  t.same(
    full.got.filter(value => value !== 'gap:6'),
    ['a', 'b', '6', '7', '8', '9']
  )
  t.equal(full.gaps.length, 1)
  const again = new Listener()
  again.join(hub, { cursor })
  await until(() => again.got.length === 5)
  t.same(again.got, ['gap:6', '6', '7', '8', '9'], 'who comes later hears of it too')
})

t.test('a reader that stands still is told in the status; its clients stay and go on', async t => {
  const { hub, broker, first } = await running(new LogBroker())
  const [reading] = broker.readings
  reading!.taker.state('broker away')
  t.match(hub.status(), { state: 'degraded', lastError: 'broker away' })
  const second = new Listener()
  t.equal(second.join(hub), null)
  reading!.taker.state(null)
  broker.put(0, 'a')
  await until(() => second.got.length === 1)
  t.match(hub.status(), { state: 'active', lastError: null })
  t.same(first.got, ['a'])
})

t.test('positions that cannot be found out are asked for again while the clients wait', async t => {
  const broker = new LogBroker()
  broker.append(0, numbers(3))
  broker.fault = 'no such topic'
  const { hub, clock } = stand(broker)
  const client = new Listener()
  t.equal(client.join(hub), null)
  await until(() => hub.status().state === 'degraded')
  t.match(hub.status(), { lastError: 'no such topic', lag: -1 })
  broker.fault = null
  await clock.move(1000)
  await until(() => hub.status().state === 'active')
  await turns()
  broker.put(0, '3')
  await until(() => client.got.length === 1)
  t.same(client.got, ['3'])
})

t.test('a reader of history that fails for long ends its client', async t => {
  const broker = new LogBroker()
  const { hub, first, clock } = await running(broker, {
    options: { window: { messages: 1, bytes: 1e6, ageMs: 1e6 }, queue: queue(1) }
  })
  broker.put(0, ...numbers(10))
  await until(() => first.got.length === 10)
  broker.isHeld = true
  const again = new Listener()
  again.join(hub, { cursor: first.items[0]!.cursor! })
  await turns()
  const reading = [...broker.readings].at(-1)!
  reading.taker.state('away')
  await clock.move(5000)
  t.same(again.ended, [])
  await clock.move(5000)
  t.same(again.ended, ['fault'])
  t.equal(reading.isClosed, true)
  t.same(first.ended, [])
})

t.test('who cannot be taken in is refused with the reason', async t => {
  const full = new Budget(10)
  full.add(10)
  const rows = [
    { more: { budget: full }, code: 'stream_budget', isFirst: true },
    { more: {}, from: { cursor: 'nonsense' }, transport: 'poll', code: 'stream_cursor' }
  ] as const
  for (const { more, code, ...row } of rows) {
    const broker = new LogBroker()
    const { hub } = stand(broker, more)
    if (!('isFirst' in row)) new Listener().join(hub)
    t.equal(('from' in row ? new Listener(row) : new Listener()).join(hub, 'from' in row ? row.from : null), code)
  }
})

t.test('processors run once a record: what they filter is not delivered, what they reject is dropped', async t => {
  const broker = new LogBroker()
  let runs = 0
  const { hub, first } = await running(broker, {
    process: [
      message => {
        runs++
        if (String(message.value) === 'bad') throw new Undelivered('invalid', 'not so')
        if (String(message.value) === 'odd') throw new TypeError('broken')
        return String(message.value) === 'none' ? null : { ...message, value: Buffer.from(`<${message.value}>`) }
      }
    ]
  })
  const second = new Listener()
  second.join(hub)
  await turns()
  broker.put(0, 'a', 'none', 'bad', 'odd', 'b', 'none')
  await until(() => second.got.length === 2)
  t.same(first.got, ['<a>', '<b>'])
  t.equal(runs, 6)
  t.match(hub.status(), { dropped: 2, lag: 0, queued: 0 })
  t.match(first.seat!.cursor(), /^1\.0-6\./, 'a position moves on behind what was filtered')
})

t.test('without resume nothing carries a cursor, and one who comes with one is told of the gap', async t => {
  const { hub, broker, first } = await running(new LogBroker(), { options: { resume: false } })
  const again = new Listener()
  t.equal(again.join(hub, { cursor: '1.0-0' }), null)
  await turns()
  broker.put(0, 'a')
  await until(() => again.got.length === 2)
  t.same(again.got, ['gap:-1', 'a'])
  t.equal(first.items[0]!.cursor, null)
  t.equal(first.seat!.cursor(), null)
})

t.test('the reader goes on for as long as the window promises, then lets go of everything', async t => {
  const { hub, broker, first, clock, budget } = await running(new LogBroker())
  broker.put(0, 'a')
  await until(() => first.got.length === 1)
  first.seat!.leave()
  await clock.move(200_000)
  broker.put(0, 'b')
  await turns()
  const again = new Listener()
  again.join(hub, { cursor: first.id! })
  await until(() => again.got.length === 1)
  t.equal(broker.reads, 1)
  again.seat!.leave()
  await clock.move(300_000)
  t.equal(hub.status().state, 'idle')
  t.equal(broker.readings.size, 0)
  t.equal(bytesOf(budget), 0)
})

t.test('messages leave the window by age', async t => {
  const { broker, first, clock, budget } = await running(new LogBroker(), {
    options: { window: { messages: 1000, bytes: 1e6, ageMs: 60_000 } }
  })
  broker.put(0, 'a')
  await until(() => first.got.length === 1)
  await clock.move(30_000)
  broker.put(0, 'b')
  await until(() => first.got.length === 2)
  t.equal(bytesOf(budget), 130)
  await clock.move(31_000)
  t.equal(bytesOf(budget), 65)
  await clock.move(60_000)
  t.equal(bytesOf(budget), 0)
})

t.test('closing closes every client over the time given, then the readers, and lets nobody in', async t => {
  const { hub, broker, clock } = await running(new LogBroker())
  const clients = numbers(9).map(() => new Listener())
  for (const client of clients) client.join(hub)
  await turns()
  const closing = hub.close('stopping', 1000)
  t.equal(new Listener().join(hub), 'stream_draining')
  t.equal(hub.status().state, 'closing')
  await clock.move(500)
  const early = clients.filter(({ ended }) => ended.length > 0).length
  t.ok(early > 2 && early < 8)
  broker.put(0, 'a')
  await turns()
  t.equal(clients.filter(({ got }) => got.length === 1).length, 9 - early)
  await clock.move(1000)
  await closing
  t.ok(clients.every(({ ended }) => ended.length === 1 && ended[0] === 'stopping'))
  t.equal(broker.readings.size, 0)
})

t.test('a turn of the event loop has a bounded number of client writes', async t => {
  const { hub, broker } = await running(new LogBroker())
  const clients = numbers(1300).map(() => new Listener())
  for (const client of clients) client.join(hub)
  await turns(20)
  broker.put(0, 'a')
  let last = 0
  await until(() => {
    const now = clients.filter(({ got }) => got.length === 1).length
    t.ok(now - last <= 500)
    last = now
    return now === 1300
  })
})

t.test('several topics stand in one cursor', async t => {
  const broker = new LogBroker(1, 'x')
  broker.grow(0, 'y')
  broker.grow(1, 'y')
  const { hub, first } = await running(broker, { topics: ['x', 'y'] })
  const put = (topic: string, partition: number, value: string) => {
    broker.append(partition, [value], topic)
    broker.pump()
    return until(() => first.got.at(-1) === value)
  }
  await put('y', 1, 'a')
  t.match(first.id, /^1\.0-0~0-0_1-1\./)
  const cursor = first.id!
  await put('x', 0, 'b')
  await put('y', 0, 'c')
  const again = new Listener()
  again.join(hub, { cursor })
  await until(() => again.got.length === 2)
  t.same(again.got, ['b', 'c'])
})

function queue(messages: number, policy: 'disconnect' | 'drop_oldest' | 'latest_by_key' = 'disconnect') {
  return { messages, bytes: 1e6, policy }
}

/** As another gateway with the same secret makes it. */
function cursorAt(broker: LogBroker, offset: number): string {
  const places: Place[] = [...broker.logs.values()]
  const cursors = new Cursors(Buffer.alloc(32, 7), ['a', 's', 't'], 1, false)
  return cursors.sign(places.map(({ partition }) => `${partition}-${offset}`).join('_'))
}

t.test('a hub that is closed leaves no timer and no byte, whenever its clients leave', async t => {
  for (const leavesAtOnce of [true, false]) {
    const { hub, broker, first, clock, budget } = await running(new LogBroker())
    const others = numbers(3).map(() => new Listener())
    for (const client of others) {
      if (!leavesAtOnce) client.close = () => {}
      client.join(hub)
    }
    broker.put(0, ...numbers(20))
    await until(() => first.got.length === 20)
    const slowly = hub.close('changed', 60_000)
    await clock.move(10_000)
    broker.put(0, 'late')
    await turns()
    await Promise.all([slowly, hub.close('disabled', 0)])
    for (const client of others) client.seat!.leave()
    await turns()
    t.same([clock.pending, bytesOf(budget), broker.readings.size], [0, 0, 0])
  }
})

t.test('windows give way to each other and refuse nobody', async t => {
  const budget = new Budget(20_000)
  const clients: Listener[] = []
  const value = 'x'.repeat(936)
  for (let i = 0; i < 3; i++) {
    const { broker, hub, first } = await running(new LogBroker(), { budget })
    clients.push(first)
    for (let count = 1; count <= 40; count++) {
      broker.put(0, value)
      await until(() => first.got.length === count)
    }
    t.notOk(budget.isFull)
    t.ok(budget.windows.used <= 10_000, 'half of it at most')
    t.equal(new Listener().join(hub), null)
  }
  for (const { ended } of clients) t.same(ended, [])
})
