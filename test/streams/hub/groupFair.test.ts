import fc from 'fast-check'
import t from 'tap'
import type { Item } from '../../../streams/hub/hub.ts'
import { active, FakeClient, numbers, turns } from './groupFakes.ts'

const some = (count: number, room?: number) => Array.from({ length: count }, () => new FakeClient(room))
const lengths = (clients: readonly FakeClient[]) => clients.map(({ items }) => items.length)
const spreadOf = (counts: readonly number[]) => Math.max(...counts) - Math.min(...counts)

/** Messages are named after the team that wants them. */
const team =
  (name: string) =>
  ({ record }: Item) =>
    String(record.value).startsWith(name)

t.test('clients with the same filter differ by one at most, in single posts and in bursts', async t => {
  const teams = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 2, maxLength: 4 })
  const posts = fc.array(fc.tuple(fc.nat(3), fc.integer({ min: 1, max: 200 }), fc.boolean()), { maxLength: 30 })
  await fc.assert(
    fc.asyncProperty(teams, fc.nat(2), posts, fc.constantFrom(1, 5, 1000), async (sizes, all, script, messages) => {
      const groups = sizes.map((size, i) => some(size).map(client => Object.assign(client, { wants: team(`${i}`) })))
      const everything = some(all)
      const clients = [...groups.flat(), ...everything]
      const queue = { messages, bytes: 1e6, policy: 'disconnect' as const }
      const { broker, hub } = active(clients, { options: { queue } }, [0, 1])
      for (const [n, count, isBurst] of script) {
        for (let i = 0; i < count; i++) {
          broker.append(i % 2, `${isBurst ? i % sizes.length : n % sizes.length}`)
          if (isBurst || i > 20) continue
          broker.pump()
          await turns(1)
          for (const client of clients) client.write(client.unwritten)
        }
        broker.pump()
        // Everybody takes what it gets, at the end of each turn.
        for (let i = 0; i < 2000 && hub.status().queued > 0; i++) {
          await turns(1)
          for (const client of clients) client.write(client.unwritten)
        }
        await turns(1)
        for (const client of clients) client.write(client.unwritten)
      }
      for (const group of [...groups, everything])
        if (group.length > 0 && spreadOf(lengths(group)) > 1) throw new Error(lengths(clients).join(' '))
    }),
    { numRuns: 60 }
  )
  t.pass()
})

t.test('what was put aside goes to those that want it in turn, when they have room again together', async t => {
  const clients = some(4, 0)
  for (const client of clients.slice(0, 3)) client.wants = team('a')
  clients[3]!.wants = team('b')
  clients[3]!.room = 1000
  const { broker, hub } = active(clients)
  broker.append(0, ...numbers(120).map(n => (Number(n) % 2 === 0 ? 'a' : 'b')))
  broker.pump()
  await turns()
  t.same(lengths(clients), [0, 0, 0, 60])
  for (const client of clients.slice(0, 3)) {
    client.room = 1000
    client.seat.ready()
  }
  await turns()
  t.same(lengths(clients), [20, 20, 20, 60])
  t.equal(hub.status().queued, 0)
})

t.test('a slice asks filters a bounded number of times, and all have theirs in the end', async t => {
  const clients = some(400)
  let asked = 0
  for (const client of clients)
    client.wants = () => {
      asked++
      return false
    }
  const one = new FakeClient()
  one.writes = true
  const { broker } = active([...clients, one])
  broker.append(0, ...numbers(300))
  broker.pump()
  await turns(1)
  t.ok(asked <= 10_400 && one.items.length > 0 && one.items.length < 300, `${asked}, ${one.items.length}`)
  await turns(30)
  t.equal(one.items.length, 300)
})

t.test('a client holds no more that is not delivered than its queue may, by messages and bytes', async t => {
  for (const ack of ['write', 'client'] as const)
    for (const [queue, most] of [
      [{ messages: 5, bytes: 1e6 }, 5],
      [{ messages: 1000, bytes: 1 }, 1]
    ] as const) {
      const [client, other] = [new FakeClient(), new FakeClient()]
      const { broker } = active([client, other], { options: { ack, queue: { ...queue, policy: 'disconnect' } } })
      broker.append(0, ...numbers(100))
      broker.pump()
      await turns()
      t.same(lengths([client, other]), [most, most], ack)
      if (ack === 'write') client.write(1)
      else client.seat.acknowledge(client.cursors[0]!)
      await turns()
      t.same(lengths([client, other]), [most + 1, most])
    }
})

const acked = { ack: 'client' as const, ackTimeoutMs: 1000, maxDeliveries: 3 }

t.test('a client that lets its time run out pauses for as long, unless it acknowledges something', async t => {
  const client = new FakeClient()
  const { broker, hub, clock } = active([client], { options: acked })
  broker.append(0, ...numbers(20))
  broker.pump()
  await turns()
  for (let i = 0; i < 3; i++) {
    await clock.move(900)
    t.equal(client.seat.acknowledge(client.cursors[i]!), true)
  }
  t.equal(client.items.length, 20, 'its time began anew each time')
  await clock.move(1000)
  await turns()
  t.match([client.items.length, hub.status().queued], [20, 17])
  await clock.move(999)
  t.equal(client.items.length, 20)
  await clock.move(1)
  await turns()
  t.same(client.values.slice(20), numbers(8, 3), 'then it gets a few')
  t.equal(client.seat.acknowledge(client.cursors[20]!), true)
  await turns()
  t.same(client.values.slice(20), numbers(17, 3), 'and everything once it acknowledged one in time')
})

t.test('a late acknowledgement counts while no other client has the message', async t => {
  const [a, b] = [new FakeClient(), new FakeClient(0)]
  const { broker, hub, clock } = active([a, b], { options: { ...acked, maxDeliveries: 2 } })
  broker.append(0, ...numbers(6))
  broker.pump()
  await turns()
  await clock.move(1000)
  await turns()
  t.equal(a.seat.acknowledge(a.cursors[1]!), true, 'they wait: both are delivered')
  t.match(hub.status(), { delivered: 2, queued: 4 })
  await turns()
  t.same(a.values.slice(6), numbers(4, 2))
  t.equal(a.seat.acknowledge(a.cursors[2]!), true, 'it has it once more')
  t.match(hub.status(), { delivered: 3, queued: 0 })
  t.equal(a.seat.acknowledge(a.cursors[2]!), false, 'once')
  t.equal(a.seat.acknowledge(a.cursors[6]!), false, 'a copy of what is delivered')
  t.equal(hub.status().delivered, 3)
  b.room = 100
  b.seat.ready()
  await clock.move(1000)
  await turns()
  t.same(b.values, numbers(3, 3))
  t.equal(a.seat.acknowledge(a.cursors[4]!), false, 'it is with the other one')
  t.equal(hub.status().delivered, 3)
  t.equal(b.seat.acknowledge(b.cursors[2]!), true)
  await clock.move(1000)
  t.same(broker.commits.at(-1), '0:6')
  t.match(hub.status(), { delivered: 6, dropped: 0 })
})

t.test('what is acknowledged late is passed over wherever it waits', async t => {
  // Aside for a client without room, and parked by its key.
  for (const mode of ['group', 'key'] as const) {
    const [client, other] = [new FakeClient(), new FakeClient()]
    if (mode === 'group') client.wants = team('m')
    if (mode === 'group') other.wants = team('o')
    const { broker, hub, clock } = active(mode === 'group' ? [client, other] : [client], {
      options: { ...acked, mode }
    })
    broker.append(0, ...numbers(3).map(n => ({ key: 'k', value: `m${n}` })))
    broker.pump()
    await turns()
    await clock.move(1000)
    await turns()
    client.room = 0
    t.equal(client.seat.acknowledge(client.cursors[0]!), true)
    t.equal(client.seat.acknowledge(client.cursors[1]!), true)
    client.room = 100
    client.seat.ready()
    await turns()
    t.same(client.values, ['m0', 'm1', 'm2', 'm2'])
    t.match(hub.status(), { delivered: 2, queued: 0 })
    client.seat.acknowledge(client.cursors[3]!)
    await clock.move(1000)
    t.same(broker.commits.at(-1), '0:3')
  }
})

t.test('no message is given up for having waited behind another one, at whatever end', async t => {
  const letters: string[] = []
  const deadLetter = async ({ value }: { value: Buffer | null }) => void letters.push(String(value))
  for (const end of ['time', 'leave'] as const) {
    letters.length = 0
    let client = new FakeClient()
    const { broker, hub, clock } = active([client], { options: acked, deadLetter })
    broker.append(0, 'poison', ...numbers(20))
    broker.pump()
    await turns()
    for (let i = 0; i < 3; i++) {
      if (end === 'time') await clock.move(2000)
      else {
        client.seat.leave()
        client = new FakeClient().join(hub)
      }
      await turns()
    }
    await turns()
    t.same(letters, ['poison'])
    client.seat.acknowledge(client.cursors.at(-1)!)
    for (let i = 0; i < 30 && hub.status().delivered < 20; i++) {
      await clock.move(500)
      await turns()
      client.seat.acknowledge(client.cursors.at(-1)!)
    }
    t.match(hub.status(), { delivered: 20, deadLettered: 1, queued: 0 })
    t.same(letters, ['poison'])
  }
})

t.test('a worker that hung for a while works through what it has, and nothing is given up', async t => {
  const client = new FakeClient()
  const { broker, hub, clock } = active([client], { options: acked })
  broker.append(0, ...numbers(300))
  broker.pump()
  await turns()
  await clock.move(2500)
  await turns()
  for (let i = 0; i < client.items.length; i++) {
    client.seat.acknowledge(client.cursors[i]!)
    await turns(1)
    await clock.move(20)
    if (i === 200) {
      broker.append(0, ...numbers(100, 300))
      broker.pump()
    }
  }
  t.equal(new Set(client.values).size, 400)
  t.match(hub.status(), { delivered: 400, dropped: 0, queued: 0 })
  await clock.move(1000)
  t.same(broker.commits.at(-1), '0:400')
})

t.test('an acknowledgement counts that comes right before its client leaves', async t => {
  const [client, other] = [new FakeClient(), new FakeClient(0)]
  const { broker, hub } = active([client, other], { options: acked })
  broker.append(0, ...numbers(10))
  broker.pump()
  await turns()
  t.equal(client.seat.acknowledge(client.cursors[6]!), true)
  client.seat.leave()
  t.equal(client.seat.acknowledge(client.cursors[9]!), false)
  other.room = 100
  other.seat.ready()
  await turns()
  t.same(other.values, numbers(3, 7))
  t.equal(other.seat.acknowledge(client.cursors[9]!), false, 'the id of the one that left')
  t.match(hub.status(), { delivered: 7, redelivered: 3 })
})
