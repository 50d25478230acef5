import t from 'tap'
import { Budget } from '../../../streams/budget.ts'
import { nos } from '../../../streams/refusals.ts'
import { Undelivered } from '../../../streams/undelivered.ts'
import { active, FakeClient, numbers, stage, turns } from './groupFakes.ts'

const some = (count: number, room?: number) => Array.from({ length: count }, () => new FakeClient(room))

t.test('each message goes to one client, and idle clients differ by one at most', async t => {
  for (const [clients, partitions, messages] of [
    [1, 1, 10],
    [3, 1, 100],
    [7, 4, 2003],
    [100, 3, 5000]
  ] as const) {
    const all = some(clients)
    for (const client of all) client.writes = true
    const places = Array.from({ length: partitions }, (_, i) => i)
    const { broker, hub } = active(all, {}, places)
    for (const place of places) broker.append(place, ...numbers(messages, place * 10_000))
    broker.pump()
    await turns(80)
    const counts = all.map(({ items }) => items.length)
    t.ok(Math.max(...counts) - Math.min(...counts) <= 1, `${clients} clients, ${partitions} partitions`)
    t.equal(new Set(all.flatMap(({ values }) => values)).size, messages * partitions)
    t.equal(hub.status().delivered, messages * partitions)
    t.match(hub.status(), { queued: 0, lag: 0, partitions, state: 'active' })
  }
})

t.test('a message goes out in the order of its partition, and partitions take turns', async t => {
  const client = new FakeClient()
  const { broker } = active([client], {}, [0, 1])
  broker.append(0, ...numbers(100))
  broker.append(1, 'x', 'y')
  broker.pump()
  await turns()
  t.same(client.values.slice(0, 5), ['0', 'x', '1', 'y', '2'])
  t.same(
    client.values.filter(value => value !== 'x' && value !== 'y'),
    numbers(100)
  )
})

t.test('a slice ends after 500 messages, and every client that took some is flushed once in it', async t => {
  const clients = some(2)
  const { broker } = active(clients)
  broker.append(0, ...numbers(600))
  broker.pump()
  t.equal(clients[0]!.items.length, 0)
  await turns(1)
  t.same(
    clients.map(({ items, flushes }) => [items.length, flushes]),
    [
      [250, 1],
      [250, 1]
    ]
  )
  await turns(1)
  t.same(
    clients.map(({ items, flushes }) => [items.length, flushes]),
    [
      [300, 2],
      [300, 2]
    ]
  )
})

t.test('a full client is passed over until it has room again', async t => {
  const [slow, ...fast] = [new FakeClient(2), new FakeClient(), new FakeClient()]
  for (const client of fast) client.writes = true
  const { broker } = active([slow!, ...fast])
  broker.append(0, ...numbers(20))
  broker.pump()
  await turns()
  t.same(slow!.values, ['0', '3'])
  t.equal(fast[0]!.items.length + fast[1]!.items.length, 18)
  slow!.write(2)
  broker.append(0, ...numbers(3, 20))
  broker.pump()
  await turns()
  t.equal(slow!.items.length, 3)
})

t.test('one that takes and never writes leaves most of the window to others', async t => {
  const [stuck, fast] = [new FakeClient(), new FakeClient()]
  fast.writes = true
  const { broker } = active([stuck, fast], { checkpointLimit: 100 })
  broker.append(0, ...numbers(1000))
  broker.pump()
  await turns(10)
  t.same([stuck.items.length, fast.items.length], [50, 950])
})

t.test('a partition gives no more than its window', async t => {
  const client = new FakeClient()
  const { broker, hub } = active([client], { checkpointLimit: 10 }, [0, 1])
  broker.append(0, ...numbers(50))
  broker.append(1, 'x')
  broker.pump()
  await turns()
  t.equal(client.items.length, 10, 'no more than the share of one client')
  client.write(5)
  await turns()
  t.equal(client.items.length, 15)
  t.match(hub.status(), { queued: 36, delivered: 5 })
})

t.test('what a leaving client had comes first for the others, in order', async t => {
  const [gone, other] = [new FakeClient(), new FakeClient(0)]
  const { broker, hub } = active([gone, other])
  broker.append(0, ...numbers(8))
  broker.pump()
  await turns()
  t.same(gone.values, numbers(8))
  gone.write(2)
  gone.room = 0
  broker.append(0, '8', '9')
  broker.pump()
  gone.seat.leave()
  gone.seat.leave()
  gone.write(3)
  other.room = 100
  other.seat.ready()
  await turns()
  t.same(other.values, numbers(8, 2))
  t.match(hub.status(), { redelivered: 6, delivered: 2, clients: { sse: 1 } })
})

t.test('commits are the lowest undelivered offset, at most one each period and only when it moved', async t => {
  const [a, b] = [new FakeClient(), new FakeClient()]
  const { broker, clock } = active([a, b])
  broker.append(0, ...numbers(6))
  broker.pump()
  await turns()
  b.write(3)
  await clock.move(1000)
  t.same(broker.commits, [], 'the first one is with a client')
  a.write(1)
  await clock.move(999)
  t.same(broker.commits, [])
  await clock.move(1)
  t.same(broker.commits, ['0:2'])
  a.write(2)
  await clock.move(1000)
  t.same(broker.commits, ['0:2', '0:6'])
  await clock.move(60_000)
  t.same(broker.commits, ['0:2', '0:6'])
  t.equal(clock.waiters(1000), 0, 'no timer without need')
})

t.test('a commit that fails is made up for by the next', async t => {
  const client = new FakeClient()
  const { broker, clock, hub } = active([client])
  client.writes = true
  broker.append(0, ...numbers(4))
  broker.pump()
  await turns()
  broker.beforeCommit = () => Promise.reject(new Error('rebalance in progress'))
  await clock.move(1000)
  t.same(broker.commits, [])
  t.match(hub.status().lastError, /rebalance in progress/)
  broker.beforeCommit = async () => {}
  await clock.move(1000)
  t.same(broker.commits, ['0:4'])
})

t.test('a message that clients never get delivered becomes a dead letter, or is dropped', async t => {
  for (const isKept of [true, false]) {
    const letters: string[] = []
    let refusals = 2
    const deadLetter = async ({ value }: { value: Buffer | null }) => {
      if (refusals-- > 0) throw new Undelivered('unavailable', 'no broker')
      letters.push(String(value))
    }
    const { broker, hub, clock, lines } = stage({
      options: { maxDeliveries: 2 },
      deadLetter: isKept ? deadLetter : null
    })
    let client = new FakeClient(1).join(hub)
    broker.assign(0)
    broker.append(0, 'poison', 'good')
    broker.pump()
    await turns()
    client.seat.leave()
    client = new FakeClient(1).join(hub)
    await turns()
    t.same(client.values, ['poison'])
    t.equal(hub.status().redelivered, 1)
    client.seat.leave()
    client = new FakeClient(1).join(hub)
    await turns()
    t.same(client.values, ['good'])
    client.write(1)
    await clock.move(1000)
    t.same(broker.commits, isKept ? [] : ['0:1', '0:2'], 'it stays until the dead letter is kept')
    await clock.move(2000)
    await clock.move(1000)
    t.same(letters, isKept ? ['poison'] : [])
    t.equal(broker.commits.at(-1), '0:2')
    t.match(hub.status(), { deadLettered: isKept ? 1 : 0, dropped: isKept ? 0 : 1, delivered: 1 })
    t.equal(lines.filter(({ msg }) => msg === 'stream message given up').length, 1)
  }
})

t.test('with client acknowledgement only that delivers, up to the id and nothing that is unknown', async t => {
  const [a, b] = [new FakeClient(), new FakeClient()]
  const { broker, hub, clock } = active([a, b], { options: { ack: 'client' } })
  broker.append(0, ...numbers(6))
  broker.pump()
  await turns()
  a.write(3)
  t.equal(hub.status().delivered, 0)
  t.equal(a.seat.acknowledge(b.items[0]!.cursor!), false)
  for (const cursor of ['', 'x', '0.0-99', '0.0-'.padEnd(10_000, '9')]) t.equal(a.seat.acknowledge(cursor), false)
  t.equal(a.seat.acknowledge(a.items[1]!.cursor!), true)
  t.equal(a.seat.acknowledge(a.items[1]!.cursor!), false, 'once')
  t.equal(hub.status().delivered, 2)
  t.equal(new Set([...a.items, ...b.items].map(({ cursor }) => cursor)).size, 6)
  b.seat.acknowledge(b.items[2]!.cursor!)
  await clock.move(1000)
  t.same(broker.commits, ['0:4'])
})

t.test('what is not acknowledged in time goes to the front, and late ids say nothing of another client', async t => {
  const [a, b] = [new FakeClient(), new FakeClient()]
  const { broker, hub, clock } = active([a, b], { options: { ack: 'client', ackTimeoutMs: 30_000 } })
  broker.append(0, '0')
  broker.pump()
  await turns()
  const late = a.cursors[0]!
  await clock.move(29_999)
  t.equal(b.items.length, 0)
  await clock.move(1)
  await turns()
  t.same(b.values, ['0'])
  t.equal(a.seat.acknowledge(late), false)
  t.same(a.closed, [])
  t.equal(b.seat.acknowledge(late), false, 'the id of another delivery')
  t.equal(b.seat.acknowledge(b.items[0]!.cursor!), true)
  t.match(hub.status(), { delivered: 1, redelivered: 1 })
  await clock.move(60_000)
  t.equal(b.items.length + a.items.length, 2)
})

t.test('a late id does not acknowledge what the same client got between', async t => {
  const client = new FakeClient()
  const { broker, hub, clock } = active([client], { options: { ack: 'client', ackTimeoutMs: 10_000 } })
  broker.append(0, '0')
  broker.pump()
  await turns()
  await clock.move(9000)
  broker.append(0, '1')
  broker.pump()
  await turns()
  await clock.move(11_000)
  await turns()
  t.same(client.values, ['0', '1', '0', '1'])
  t.equal(client.seat.acknowledge(client.cursors[0]!), true)
  t.equal(hub.status().delivered, 1)
  t.equal(client.seat.acknowledge(client.cursors[2]!), false, 'the same message once more')
  t.equal(client.seat.acknowledge(client.cursors[3]!), true)
  t.equal(hub.status().delivered, 2)
})

t.test('an id of before a partition was away does not acknowledge what the same client got since', async t => {
  const client = new FakeClient()
  const other = new FakeClient()
  const { hub, broker, clock } = active([client, other], { options: { ack: 'client', ackTimeoutMs: 10_000 } })
  broker.append(0, ...numbers(3))
  broker.pump()
  await turns()
  t.same([client.values, other.values], [['0', '2'], ['1']])
  other.seat.leave()
  async function again(how: string): Promise<void> {
    broker.pump()
    await turns()
    t.same(client.values.slice(-3), ['0', '1', '2'], how)
  }
  broker.assign()
  broker.assign(0)
  await again('taken away')
  t.equal(client.seat.acknowledge(client.cursors[1]!), true, 'it has that in hand still')
  broker.reading.positions.set(0, 0)
  broker.reading.taker.gap({ topic: 't', partition: 0 }, 0, 0)
  await again('another history')
  broker.assign()
  await clock.move(20_000)
  broker.assign(0)
  await again('taken away for longer than the client may take')
  for (const id of client.cursors.slice(0, -3)) t.equal(client.seat.acknowledge(id), false)
  client.seat.leave()
  await clock.move(5000)
  await turns()
  const next = new FakeClient().join(hub)
  broker.assign(0)
  broker.pump()
  await turns()
  t.same(next.values, ['0', '1', '2'], 'the hub has left the group meanwhile')
  for (const id of client.cursors) t.equal(next.seat.acknowledge(id), false)
  t.equal(hub.status().delivered, 0)
  t.equal(next.seat.acknowledge(next.cursors[2]!), true)
  await clock.move(1000)
  t.same(broker.commits, ['0:3'])
})

t.test('a partition that is taken away is forgotten, and comes back from its commit', async t => {
  const client = new FakeClient(3)
  const { broker, hub, clock, budget } = active([client], {}, [0, 1])
  broker.append(0, ...numbers(10))
  broker.pump()
  await turns()
  t.ok(budget.used > 0)
  broker.assign(1)
  t.equal(budget.used, 0)
  client.write(3)
  await clock.move(1000)
  t.same(broker.commits, [], 'what was delivered of it counts no more')
  t.match(hub.status(), { delivered: 0, queued: 0, partitions: 1 })
  broker.assign(1, 0)
  broker.pump()
  await turns()
  t.same(client.values, ['0', '1', '2', '0', '1', '2'])
  client.room = 100
  client.write(3)
  await turns()
  client.write(7)
  await clock.move(1000)
  t.same(broker.commits, ['0:10'])
})

t.test('a partition that stays goes on without repeats, also where it is read again from its commit', async t => {
  const client = new FakeClient(3)
  const { broker, hub } = active([client])
  broker.append(0, ...numbers(6))
  broker.pump()
  await turns()
  for (const again of [6, 0, 4]) {
    broker.reading.positions.set(0, again)
    broker.assign(0)
    broker.pump()
    await turns()
  }
  client.room = 100
  client.seat.ready()
  await turns()
  client.write(6)
  t.same(client.values, numbers(6))
  t.equal(hub.status().delivered, 6)
})

t.test('a position behind a marker that brings no record loses nothing of what waits', async t => {
  const client = new FakeClient(1)
  const { broker, clock } = active([client])
  broker.append(0, 'a', 'b')
  broker.pump()
  await turns()
  broker.reading.taker.assigned([{ topic: 't', partition: 0, offset: 3 }])
  for (let i = 0; i < 2; i++) {
    client.write(1)
    await turns()
  }
  t.same(client.values, ['a', 'b'])
  await clock.move(1000)
  t.same(broker.commits, ['0:3'])
})

t.test('a log that was made anew before anything was committed is read from its beginning', async t => {
  const client = new FakeClient()
  client.writes = true
  const { broker } = active([client])
  broker.append(0, ...numbers(6))
  broker.pump()
  await turns()
  broker.logs.clear()
  broker.reading.positions.set(0, 0)
  broker.append(0, 'new')
  broker.reading.taker.gap({ topic: 't', partition: 0 }, 0, 0)
  broker.assign(0)
  broker.pump()
  await turns()
  t.equal(client.values.at(-1), 'new')
})

t.test('a log that was made anew is read from its beginning', async t => {
  const client = new FakeClient()
  client.writes = true
  const { broker, clock } = active([client])
  broker.append(0, ...numbers(6))
  broker.pump()
  await turns()
  await clock.move(1000)
  t.same(broker.commits, ['0:6'])
  broker.logs.clear()
  broker.reading.positions.set(0, 0)
  broker.append(0, 'new')
  broker.assign(0)
  broker.pump()
  await turns()
  t.equal(client.values.at(-1), 'new')
})

t.test('the broker pauses at the mark and goes on at half of it, by messages, bytes and the budget', async t => {
  const value = 'v'.repeat(36)
  const cases = [
    { bufferMessages: 10, bufferBytes: 1e9, budget: new Budget(1e9) },
    { bufferMessages: 1e9, bufferBytes: 1000, budget: new Budget(1e9) }
  ]
  for (const bounds of cases) {
    const client = new FakeClient(1)
    const { broker, hub } = active([client], bounds)
    broker.append(0, ...Array.from({ length: 30 }, () => value))
    broker.pump(10)
    t.ok(broker.reading.paused.has(0))
    t.equal(hub.status().paused, 1)
    await turns()
    for (let i = 0; i < 4; i++) {
      t.ok(broker.reading.paused.has(0))
      client.write(1)
      await turns()
    }
    t.notOk(broker.reading.paused.has(0), 'five wait')
  }
  const budget = new Budget(2000)
  const client = new FakeClient(1)
  const { broker, clock } = active([client], { budget })
  broker.append(0, value, value)
  budget.add(1900)
  broker.pump()
  await turns()
  t.ok(broker.reading.paused.has(0))
  budget.add(-1900)
  await clock.move(100)
  t.notOk(broker.reading.paused.has(0))
})

t.test('membership follows the clients, and one that comes back in time finds it as it was', async t => {
  const { hub, broker, clock, lines } = stage()
  t.match(hub.status(), { state: 'idle', lag: -1 })
  t.equal(broker.readings.length, 0, 'nobody, nothing')
  const client = new FakeClient().join(hub)
  t.equal(hub.status().state, 'joining')
  broker.append(0, ...numbers(4))
  broker.assign(0)
  t.equal(hub.status().state, 'active')
  broker.pump(2)
  await turns()
  client.write(1)
  client.seat.leave()
  t.ok(broker.reading.paused.has(0))
  await turns()
  t.same(broker.commits, ['0:1'], 'as soon as the last one has left')
  await clock.move(4999)
  const second = new FakeClient().join(hub)
  t.notOk(broker.reading.paused.has(0))
  broker.pump()
  await turns()
  t.same(second.values, ['1', '2', '3'])
  await clock.move(60_000)
  t.same([broker.readings.length, broker.reading.isClosed], [1, false])
  second.seat.leave()
  await clock.move(5000)
  await turns()
  t.ok(broker.reading.isClosed)
  t.equal(hub.status().state, 'idle')
  const third = new FakeClient().join(hub)
  broker.assign(0)
  broker.pump()
  await turns()
  t.same(third.values, ['1', '2', '3'])
  t.same(
    lines.filter(({ msg }) => msg === 'stream state').map(({ state }) => state),
    ['joining', 'active', 'idle', 'joining', 'active']
  )
})

t.test('one that comes while the hub leaves is served after that, from the commit', async t => {
  const { hub, broker, clock } = stage()
  const first = new FakeClient(1).join(hub)
  broker.append(0, 'a', 'b')
  broker.assign(0)
  broker.pump()
  await turns()
  first.write(1)
  await turns()
  let commit!: () => void
  broker.beforeCommit = () => new Promise(resolve => (commit = resolve))
  first.seat.leave()
  await clock.move(5000)
  const second = new FakeClient().join(hub)
  await turns()
  t.same(second.values, [])
  t.equal(broker.readings.length, 1)
  commit()
  await turns()
  t.equal(broker.readings.length, 2)
  broker.assign(0)
  broker.pump()
  await turns()
  t.same(second.values, ['b'])
})

t.test('a group that begins at the end has a commit from the first moment', async t => {
  const { hub, broker, clock } = stage({ start: 'latest' })
  new FakeClient().join(hub)
  broker.append(0, 'old')
  broker.committed.set(0, 1)
  broker.beforeCommit = () => Promise.reject(new Error('not now'))
  broker.assign(0)
  await turns()
  broker.beforeCommit = async () => {}
  await clock.move(1000)
  t.same(broker.commits, ['0:1'], 'tried again')
  broker.assign()
  broker.assign(0)
  await turns()
  t.same(broker.commits, ['0:1', '0:1'], 'at once')
  broker.commits.length = 1
  await clock.move(600_000)
  t.same(broker.commits, ['0:1'], 'and the same one as long as nothing comes')
})

t.test('reading that stands still shows, and ends no client', async t => {
  const client = new FakeClient()
  const { hub, broker, lines } = active([client])
  broker.reading.taker.state('no leader')
  t.match(hub.status(), { state: 'degraded', lastError: 'no leader' })
  broker.reading.taker.state(null)
  t.match(hub.status(), { state: 'active', lastError: null }, 'what is over is told no more')
  t.same(client.closed, [])
  t.match(lines.map(({ state }) => state).slice(-2), ['degraded', 'active'])
})

t.test('a client is refused when too much waits or the hub closes', async t => {
  const budget = new Budget(1)
  budget.add(1)
  t.equal(stage({ budget }).hub.join(new FakeClient(), null), nos.budget)
  const closed = stage()
  await closed.hub.close('disabled', 0)
  t.equal(closed.hub.join(new FakeClient(), null), nos.draining)
})

t.test('what processors filter out or reject is passed over, and what they change goes out changed', async t => {
  const client = new FakeClient()
  client.writes = true
  const { broker, hub, clock, lines, budget } = active([client], {
    process: [
      message => {
        const text = String(message.value)
        if (text === 'filtered') return null
        if (text === 'invalid') throw new Undelivered('invalid', 'does not fit')
        if (text === 'broken') throw new TypeError('a bug')
        return text === 'same' ? message : { ...message, value: Buffer.from(`${text}!`) }
      }
    ]
  })
  broker.append(0, 'a', 'filtered', 'invalid', 'broken', 'same', ...Array.from({ length: 100 }, () => 'invalid'))
  broker.pump()
  await turns()
  t.same(client.values, ['a!', 'same'])
  t.match(client.items[0]!.record, { topic: 't', partition: 0, offset: 0 })
  t.match(hub.status(), { delivered: 2, dropped: 102, queued: 0 })
  t.equal(budget.used, 0)
  await clock.move(1000)
  t.same(broker.commits, ['0:105'])
  t.equal(lines.filter(({ msg }) => msg === 'stream message given up').length, 1)
})

t.test('a filter decides who may get a message; what nobody wants is done', async t => {
  const [odd, all, even] = [new FakeClient(), new FakeClient(0), new FakeClient()]
  odd.wants = ({ record }) => Number(record.value) % 2 === 1
  even.wants = ({ record }) => Number(record.value) % 2 === 0 && Number(record.value) !== 4
  const { broker, hub, clock } = active([odd, even])
  broker.append(0, ...numbers(8))
  broker.pump()
  await turns()
  t.same(
    [odd.values, even.values],
    [
      ['1', '3', '5', '7'],
      ['0', '2', '6']
    ]
  )
  odd.write(4)
  even.write(3)
  await clock.move(1000)
  t.same(broker.commits, ['0:8'])
  all.join(hub)
  broker.append(0, '4', '9')
  broker.pump()
  await turns()
  t.same([odd.values.at(-1), all.values, hub.status().queued], ['9', [], 1], 'it waits for the one who wants it')
  all.room = 1
  all.seat.ready()
  await turns()
  t.same(all.values, ['4'])
})

t.test('messages for a full client are passed by others, in a bounded number, and reach it in order', async t => {
  const [mine, others] = [new FakeClient(1), new FakeClient()]
  mine.wants = ({ record }) => String(record.value).startsWith('m')
  others.wants = ({ record }) => !mine.wants!({ record } as never)
  others.writes = true
  const { broker, hub } = active([mine, others])
  broker.append(0, ...numbers(300).flatMap(n => [`m${n}`, n]))
  broker.pump()
  await turns()
  t.equal(others.items.length, 257, 'one is with the client, 256 wait beside, the next one stops its partition')
  for (let i = 0; i < 299; i++) {
    mine.write(1)
    await turns(2)
  }
  t.same(
    mine.values,
    numbers(300).map(n => `m${n}`)
  )
  t.same(others.values, numbers(300))
  t.equal(hub.status().queued, 0)
  broker.append(0, 'm300', 'm301', '300')
  broker.pump()
  await turns()
  t.equal(hub.status().queued, 2)
  mine.seat.leave()
  await turns()
  t.equal(hub.status().queued, 0, 'nobody wants them any more')
})

t.test('a closing hub gives out nothing, spreads the ends, waits for writes, commits and leaves', async t => {
  const clients = some(4, 1)
  const { broker, hub, clock } = active(clients)
  broker.append(0, ...numbers(10))
  broker.pump()
  await turns()
  for (const client of clients) client.leavesWhenClosed = false
  let isClosed = false
  const closing = hub.close('stopping', 1000).then(() => {
    isClosed = true
  })
  t.match(hub.status(), { state: 'closing' })
  clients[0]!.write(1)
  clients[1]!.write(1)
  await clock.move(260)
  t.same(
    clients.map(({ closed }) => closed.length),
    [1, 1, 0, 0]
  )
  clients[1]!.seat.leave()
  clients[2]!.seat.leave()
  t.notOk(broker.reading.isClosed)
  clients[3]!.write(1)
  await turns()
  t.ok(broker.reading.isClosed)
  t.same(broker.commits, ['0:2'], 'the third client left with its message')
  t.notOk(isClosed)
  await clock.move(740)
  await closing
  t.same(
    clients.map(({ closed, items }) => [...closed, items.length]),
    Array.from({ length: 4 }, () => ['stopping', 1])
  )
})

t.test('closing waits two seconds for what is not written, and a second call is quicker than the first', async t => {
  const clients = some(3)
  const { broker, hub, clock } = active(clients)
  for (const client of clients) client.leavesWhenClosed = false
  broker.append(0, ...numbers(3))
  broker.pump()
  await turns()
  broker.beforeClose = () => Promise.reject(new Error('broker away'))
  broker.beforeCommit = () => Promise.reject(new Error('broker away'))
  const first = hub.close('changed', 30_000)
  await clock.move(1000)
  t.same(clients[2]!.closed, [])
  const second = hub.close('disabled', 0)
  t.same(clients[2]!.closed, ['disabled'])
  t.notOk(broker.reading.isClosed)
  await clock.move(1000)
  await turns()
  t.ok(broker.reading.isClosed)
  await second
  await clock.move(30_000)
  await first
})

t.test('history that is gone is skipped, counted and told to the log', async t => {
  const client = new FakeClient()
  client.writes = true
  const { broker, hub, clock, lines } = active([client])
  broker.reading.taker.gap({ topic: 't', partition: 0 }, 0, 40)
  await clock.move(1000)
  t.same(broker.commits, ['0:40'])
  t.equal(hub.status().dropped, 40)
  t.match(
    lines.find(({ msg }) => msg === 'stream gap'),
    { topic: 't', partition: 0, missing: 40 }
  )
})

t.test('lag is what lies behind the delivered, also of partitions that bring nothing', async t => {
  const { hub, broker, clock } = stage()
  broker.append(0, ...numbers(5))
  broker.append(1, ...numbers(2))
  const client = new FakeClient(1).join(hub)
  broker.assign(0, 1)
  await turns()
  t.equal(hub.status().lag, 7)
  broker.pump()
  await turns()
  client.write(1)
  t.equal(hub.status().lag, 6)
  client.seat.leave()
  broker.append(0, ...numbers(10))
  await clock.move(4000)
  hub.status()
  await turns()
  t.equal(hub.status().lag, 6, 'asked at most every five seconds')
  const back = new FakeClient(0).join(hub)
  back.seat.leave()
  await clock.move(2000)
  hub.status()
  await turns()
  t.equal(hub.status().lag, 16)
})

t.test('lag is known too while nobody listens, from where the group was left', async t => {
  const client = new FakeClient()
  client.writes = true
  const { hub, broker, clock } = stage({ idleLeave: 5 })
  t.equal(hub.status().lag, -1, 'nothing is known before the first client')
  client.join(hub)
  broker.assign(0, 1)
  broker.append(1)
  broker.append(0, ...numbers(10))
  broker.pump()
  await turns()
  client.seat.leave()
  await clock.move(5000)
  await turns()
  hub.status()
  await turns()
  t.match(hub.status(), { state: 'idle', lag: 0, partitions: 0 })
  broker.append(0, ...numbers(4))
  broker.append(1, ...numbers(3))
  await clock.move(5000)
  hub.status()
  await turns()
  t.equal(hub.status().lag, 7)
  broker.append(1, 'more')
  hub.status()
  await turns()
  t.equal(hub.status().lag, 7, 'asked at most every five seconds')
  new FakeClient().join(hub)
  t.match(hub.status(), { state: 'joining', lag: 7 })
  broker.assign(0, 1)
  broker.pump()
  t.match(hub.status(), { state: 'active', lag: 8, partitions: 2 })
})

t.test('a hub that is closed leaves no timer, whenever its clients leave', async t => {
  for (const options of [{}, { ack: 'client' as const }])
    for (const leavesWhenClosed of [true, false]) {
      const clients = some(3)
      for (const client of clients) client.leavesWhenClosed = leavesWhenClosed
      const { hub, broker, clock } = active(clients, { options })
      broker.append(0, ...numbers(10))
      broker.pump()
      await turns()
      const slowly = hub.close('changed', 60_000)
      const quickly = hub.close('disabled', 0)
      await clock.move(2000)
      await turns()
      await Promise.all([slowly, quickly])
      for (const client of clients) client.seat.leave()
      await turns()
      t.equal(clock.pending, 0)
    }
})
