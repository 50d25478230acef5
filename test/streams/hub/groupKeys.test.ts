import t from 'tap'
import { KeySlots } from '../../../streams/hub/keySlots.ts'
import { active, FakeClient, numbers, type Stage, turns } from './groupFakes.ts'

const byKey = { mode: 'key' as const }
const some = (count: number) => Array.from({ length: count }, () => new FakeClient())

/** Each of these keys with the values that it had, in order; of the client that has them. */
function seen(clients: readonly FakeClient[]): Map<string, { readonly client: number; readonly values: string[] }[]> {
  const found = new Map<string, { readonly client: number; readonly values: string[] }[]>()
  for (const [client, { items }] of clients.entries())
    for (const { record } of items) {
      const key = String(record.key)
      const entries = found.get(key) ?? []
      found.set(key, entries)
      const entry = entries.find(one => one.client === client)
      if (entry === undefined) entries.push({ client, values: [String(record.value)] })
      else entry.values.push(String(record.value))
    }
  return found
}

async function bring({ broker }: Stage, keys: number, rounds: readonly string[]): Promise<void> {
  for (const value of rounds) broker.append(0, ...numbers(keys).map(key => ({ key, value })))
  broker.pump()
  await turns(30)
}

t.test('all messages of a key go to one client, in order, and keys spread over all clients', async t => {
  const clients = some(8)
  for (const client of clients) client.writes = true
  const made = active(clients, { options: byKey })
  await bring(made, 400, ['a', 'b', 'c'])
  const keys = seen(clients)
  t.equal(keys.size, 400)
  t.ok([...keys.values()].every(places => places.length === 1 && places[0]!.values.join('') === 'abc'))
  for (const { items } of clients) t.ok(items.length > 400 * 3 * 0.05, `${items.length}`)
})

t.test('a client that comes or goes moves few keys', async t => {
  const clients = some(5)
  for (const client of clients) client.writes = true
  const made = active(clients, { options: byKey })
  await bring(made, 500, ['a'])
  const before = seen(clients)
  const sixth = new FakeClient()
  sixth.writes = true
  sixth.join(made.hub)
  await bring(made, 500, ['b'])
  const moved = [...seen([...clients, sixth])].filter(([, places]) => places.length > 1)
  t.ok(
    moved.every(([, places]) => places[1]!.client === 5),
    'only to the new one'
  )
  t.ok(moved.length > 30 && moved.length < 150, `${moved.length} of 500`)
  for (const client of [...clients, sixth]) client.items.length = 0
  sixth.seat.leave()
  await bring(made, 500, ['c'])
  t.same(
    [...seen(clients)].map(([key, [place]]) => [key, place!.client]).sort(),
    [...before].map(([key, [place]]) => [key, place!.client]).sort(),
    'as it was'
  )
})

t.test('messages without a key are given in turn', async t => {
  const clients = some(3)
  const { broker } = active(clients, { options: byKey })
  broker.append(0, ...numbers(30))
  broker.pump()
  await turns()
  t.same(
    clients.map(({ items }) => items.length),
    [10, 10, 10]
  )
})

t.test('what waits for a full client does not hold up others, within the bound of its queue', async t => {
  const clients = some(4)
  const queue = { messages: 20, bytes: 1e6, policy: 'disconnect' as const }
  const made = active(clients, { options: { ...byKey, queue } })
  const { broker, hub } = made
  await bring(made, 100, ['a'])
  const slow = clients[0]!
  for (const client of clients) client.writes = true
  for (const client of clients) client.write(client.unwritten)
  await turns()
  const mine = [...seen(clients)].filter(([, [place]]) => place!.client === 0).map(([key]) => key)
  const others = [...seen(clients)].filter(([, [place]]) => place!.client !== 0).map(([key]) => key)
  slow.room = 0
  const had = slow.items.length
  const key = mine[0]!
  broker.append(0, ...numbers(20).map(value => ({ key, value })), ...others.map(other => ({ key: other, value: 'b' })))
  broker.pump()
  await turns()
  t.equal(hub.status().queued, 20, 'others have theirs')
  broker.append(0, { key, value: '20' }, { key: others[0]!, value: 'c' })
  broker.pump()
  await turns()
  t.equal(hub.status().queued, 22, 'beyond it the partition waits')
  slow.room = 1000
  slow.seat.ready()
  await turns()
  t.same(slow.values.slice(had), numbers(21))
  t.equal(hub.status().queued, 0)
})

t.test('what waited for a client that leaves is spread anew, in order', async t => {
  const [gone, other] = [new FakeClient(0), new FakeClient()]
  const { broker, hub, clock } = active([gone], { options: byKey })
  broker.append(0, ...numbers(10).map(value => ({ key: value, value })))
  broker.pump()
  await turns()
  t.match(hub.status(), { queued: 10, redelivered: 0 })
  other.join(hub)
  gone.seat.leave()
  await turns()
  t.same(other.values, numbers(10))
  other.write(10)
  await clock.move(1000)
  t.same(broker.commits, ['0:10'])
  t.equal(hub.status().redelivered, 0, 'no client had them')
})

t.test('a key whose client does not want the message goes to one that does, always the same', async t => {
  const clients = some(6)
  for (const [i, client] of clients.entries()) if (i > 1) client.wants = () => false
  const made = active(clients, { options: byKey })
  await bring(made, 50, ['a', 'b'])
  const places = [...seen(clients).values()]
  t.equal(places.length, 50)
  t.ok(places.every(place => place.length === 1))
})

t.test('slots without owners have none, and any number of owners has each its part', t => {
  const slots = new KeySlots<{ number: number }>()
  const key = Buffer.from('k')
  t.equal(slots.of(key, null), null)
  const owners = numbers(200).map(number => ({ number: Number(number) }))
  for (const owner of owners) slots.add(owner)
  const counts = new Map<number, number>()
  for (let i = 0; i < 40_000; i++) {
    const { number } = slots.of(Buffer.from(`user-${i}`), null)!
    counts.set(number, (counts.get(number) ?? 0) + 1)
  }
  t.equal(counts.size, 200)
  t.ok(Math.max(...counts.values()) < 400 && Math.min(...counts.values()) > 80, 'of 200 on average')
  t.equal(
    slots.of(key, () => false),
    null
  )
  for (const owner of owners) slots.remove(owner)
  t.equal(slots.of(key, null), null)
  t.end()
})
