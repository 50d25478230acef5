import fc from 'fast-check'
import t from 'tap'
import type { Item } from '../../../streams/hub/hub.ts'
import { type Differences, FakeClient, stage, turns } from './groupFakes.ts'

/** What may happen, in any order; the two numbers choose who and how much. */
const OPS = [
  'append',
  'append',
  'pump',
  'pump',
  'join',
  'leave',
  'deliver',
  'deliver',
  'room',
  'rebalance',
  'time',
  'turn'
] as const
const PARTITIONS = 3

const script = fc.array(fc.tuple(fc.constantFrom(...OPS), fc.nat(20), fc.nat(20)), {
  minLength: 50,
  maxLength: 150,
  size: 'max'
})

const id = ({ record }: Item) => `${record.partition}:${record.offset}`

/** Runs the script, then lets one client have everything; checks commits all the way. */
async function run(ops: readonly (readonly [(typeof OPS)[number], number, number])[], how: Differences): Promise<void> {
  const { hub, broker, clock, budget } = stage({ checkpointLimit: 12, bufferMessages: 8, ...how })
  const isAcked = how.options?.ack === 'client'
  const delivered = new Set<string>()
  let clients: FakeClient[] = []
  let names = 0

  broker.beforeCommit = async () => {
    if (names % 5 === 4) throw new Error('not now')
  }

  function deliver(client: FakeClient, count: number): void {
    const from = client.items.length - client.unwritten
    const items = client.items.slice(from, from + count)
    if (items.length === 0) return
    if (isAcked) {
      client.unwritten -= items.length
      if (client.seat.acknowledge(items.at(-1)!.cursor!)) for (const item of items) delivered.add(id(item))
      client.seat.ready()
      return
    }
    for (const item of items) delivered.add(id(item))
    client.write(items.length)
  }

  function check(): void {
    for (const [partition, offset] of broker.committed)
      for (let i = 0; i < offset; i++)
        if (!delivered.has(`${partition}:${i}`)) throw new Error(`${partition}:${offset} passes ${i}`)
    const { lag, queued } = hub.status()
    if (queued < 0 || lag < -1 || budget.used < 0) throw new Error('a count below nothing')
  }

  const append = (partition: number, count: number) => {
    for (let i = 0; i < count; i++)
      broker.append(partition, { key: i % 3 === 0 ? null : `k${names % 7}`, value: `${names++}` })
  }

  for (const [op, a, b] of ops) {
    const client = clients[a % Math.max(1, clients.length)]
    if (op === 'append') append(a % PARTITIONS, b)
    else if (op === 'pump' && broker.readings.length > 0) broker.pump(a + 1)
    else if (op === 'join' && clients.length < 6) {
      const joined = new FakeClient(b % 6)
      // Everything is wanted by somebody, as long as one without a filter is there.
      if (a % 4 === 1) joined.wants = ({ record }) => record.offset % 2 === 0
      if (clients.every(({ wants }) => wants !== null)) joined.wants = null
      const before = broker.readings.length
      clients.push(joined.join(hub))
      if (broker.readings.length > before) broker.assign(0, 1)
    } else if (op === 'leave' && client !== undefined) {
      client.seat.leave()
      clients = clients.filter(other => other !== client)
      // Otherwise what only it wanted would be done with.
      if (clients.every(({ wants }) => wants !== null)) {
        for (const other of clients) other.seat.leave()
        clients = []
      }
    } else if (op === 'deliver' && client !== undefined) deliver(client, b)
    else if (op === 'room' && client !== undefined) {
      client.room = b
      client.seat.ready()
    } else if (op === 'rebalance' && broker.readings.length > 0)
      broker.assign(...[0, 1, 2].filter(partition => (a >> partition) & 1))
    else if (op === 'time') await clock.move(a * 100)
    else if (op === 'turn') await turns(1)
    check()
  }

  names = 0
  const last = new FakeClient().join(hub)
  for (const client of clients) client.seat.leave()
  broker.assign(0, 1, 2)
  const isDone = () =>
    [...broker.logs].every(([partition, { length }]) => (broker.committed.get(partition) ?? 0) === length)
  for (let i = 0; i < 200 && !isDone(); i++) {
    broker.pump()
    await turns(2)
    deliver(last, last.unwritten)
    await turns(1)
    await clock.move(1000)
    check()
  }
  if (!isDone()) throw new Error(`stuck: ${JSON.stringify([[...broker.committed], hub.status()])}`)
  if (budget.used !== 0 || hub.status().queued !== 0) throw new Error('something is left over')
  const closing = hub.close('stopping', 0)
  await clock.move(3000)
  await closing
}

const never = { maxDeliveries: Number.MAX_SAFE_INTEGER }
const cases: Record<string, Differences> = {
  'in a group': { options: never },
  'by key': { options: { ...never, mode: 'key', queue: { messages: 4, bytes: 1e6, policy: 'disconnect' } } },
  'with client acknowledgement': { options: { ...never, ack: 'client', ackTimeoutMs: 1500 } }
}

for (const [name, differences] of Object.entries(cases))
  t.test(`whatever happens ${name}, no message is lost and no commit passes an undelivered one`, async t => {
    await fc.assert(
      fc.asyncProperty(script, async ops => run(ops, differences)),
      { numRuns: 150 }
    )
    t.pass()
  })
