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
  'late',
  'room',
  'rebalance',
  'time',
  'turn'
] as const
const PARTITIONS = 3
/** A failure tells the smallest script that was found by then, before the file's time is up. */
const plugins = [fc.interruptAfterTimeLimit(15_000, { failOnInterrupt: true })]

const script = fc.array(fc.tuple(fc.constantFrom(...OPS), fc.nat(20), fc.nat(20)), {
  minLength: 50,
  maxLength: 150,
  size: 'max'
})

const id = ({ record }: Item) => `${record.partition}:${record.offset}`

type Script = readonly (readonly [(typeof OPS)[number], number, number])[]

/** A client acknowledges what it had of a partition that was away meanwhile, and has the same offsets and more of it anew. */
const awayAndBack: Script = [
  ['join', 0, 0],
  ['join', 0, 0],
  ['join', 0, 0],
  ['leave', 0, 0],
  ['append', 0, 5],
  ['join', 0, 0],
  ['room', 16, 2],
  ['join', 0, 0],
  ['pump', 4, 0],
  ['leave', 14, 0],
  ['room', 11, 1],
  ['turn', 0, 0],
  ['rebalance', 0, 0],
  ['time', 6, 0],
  ['room', 10, 5],
  ['rebalance', 3, 0],
  ['leave', 20, 0],
  ['pump', 1, 0],
  ['pump', 2, 0],
  ['time', 9, 0],
  ['late', 9, 17]
]

/** Runs the script, then lets one client have everything; checks commits all the way. */
async function run(ops: Script, how: Differences): Promise<void> {
  const { hub, broker, clock, budget } = stage({ checkpointLimit: 12, bufferMessages: 8, ...how })
  const isAcked = how.options?.ack === 'client'
  const delivered = new Set<string>()
  let clients: FakeClient[] = []
  const ids: string[][] = []
  let names = 0

  broker.beforeCommit = async () => {
    if (names % 5 === 4) throw new Error('not now')
  }

  /** Any of what it ever got, also long after its time: then that one counts, with those before it, or nothing does. */
  function acknowledge(client: FakeClient, index: number): void {
    const before = hub.status().delivered
    const isCounted = client.seat.acknowledge(client.cursors[index]!)
    if (isCounted) for (const item of client.items.slice(0, index + 1)) delivered.add(id(item))
    else if (hub.status().delivered !== before) throw new Error('what does not count delivers nothing')
  }

  function deliver(client: FakeClient, count: number): void {
    const from = client.items.length - client.unwritten
    const items = client.items.slice(from, from + count)
    if (items.length === 0) return
    if (isAcked) {
      client.unwritten -= items.length
      acknowledge(client, from + items.length - 1)
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
      ids.push(joined.cursors)
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
    else if (op === 'late' && isAcked && client !== undefined && client.items.length > 0)
      acknowledge(client, (a * 21 + b) % client.items.length)
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
  ids.push(last.cursors)
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
  const all = ids.flat()
  if (isAcked && new Set(all).size < all.length) throw new Error('an id of two deliveries')
  const closing = hub.close('stopping', 0)
  await clock.move(3000)
  await closing
}

const never = { maxDeliveries: Number.MAX_SAFE_INTEGER }
const cases: Record<string, Differences> = {
  'in a group': { options: never },
  'by key': { options: { ...never, mode: 'key', queue: { messages: 4, bytes: 1e6, policy: 'disconnect' } } },
  'with client acknowledgement': { options: { ...never, ack: 'client', ackTimeoutMs: 1500 } },
  'by key with client acknowledgement': { options: { ...never, mode: 'key', ack: 'client', ackTimeoutMs: 1500 } }
}

for (const [name, differences] of Object.entries(cases))
  t.test(`whatever happens ${name}, no message is lost and no commit passes an undelivered one`, async t => {
    await fc.assert(
      fc.asyncProperty(script, async ops => run(ops, differences)),
      { numRuns: 150, examples: [[[...awayAndBack]]], plugins }
    )
    t.pass()
  })

t.test(
  'a client that acknowledges something within each ack_timeout gets everything once, whatever waits behind',
  async t => {
    const steps = fc.array(fc.tuple(fc.integer({ min: 1, max: 8 }), fc.nat(30), fc.nat(999)), {
      minLength: 30,
      maxLength: 80
    })
    await fc.assert(
      fc.asyncProperty(steps, fc.integer({ min: 1, max: 4 }), async (script, count) => {
        const options = { ack: 'client' as const, ackTimeoutMs: 1000, maxDeliveries: 1 }
        const clients = Array.from({ length: count }, () => new FakeClient())
        const { hub, broker, clock } = stage({ options, checkpointLimit: 300 })
        for (const client of clients) client.join(hub)
        broker.assign(0, 1)
        const acked = clients.map(() => 0)
        function work(most: number): void {
          for (const [i, client] of clients.entries()) {
            const upTo = Math.min(client.items.length, acked[i]! + most)
            if (upTo > acked[i]! && !client.seat.acknowledge(client.cursors[upTo - 1]!)) throw new Error('ignored')
            acked[i] = upTo
          }
        }
        for (const [most, more, ms] of script) {
          broker.append(more % 2, ...Array.from({ length: more }, (_, i) => `${i}`))
          broker.pump()
          await turns(2)
          await clock.move(ms)
          work(most)
        }
        for (let i = 0; hub.status().queued > 0 || clients.some((client, n) => client.items.length > acked[n]!); i++) {
          if (i > 500) throw new Error('stuck')
          work(50)
          await turns(2)
          await clock.move(900)
        }
        const total = [...broker.logs.values()].reduce((sum, { length }) => sum + length, 0)
        const { delivered, redelivered, dropped } = hub.status()
        if (delivered !== total || redelivered > 0 || dropped > 0) throw new Error(JSON.stringify(hub.status()))
      }),
      { numRuns: 60, plugins }
    )
    t.pass()
  }
)
