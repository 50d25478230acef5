import type { Test } from 'tap'
import { systemClock } from '../../config/world.ts'
import type { Broker, Position, Produce } from '../../streams/broker.ts'
import type { Message, Placed } from '../../streams/message.ts'
import { type Reason, Undelivered } from '../../streams/undelivered.ts'
import { Reader } from './brokerReader.ts'

/** What the contract is run on: one cluster. */
export interface BrokerGiven {
  /** A fresh client of the cluster; the contract closes it. Each call gives another client. */
  broker(): Broker | Promise<Broker>
  /** Name of a fresh topic with so many partitions. */
  topic(partitions: number): Promise<string>
  /** What lies below the offset is gone, as after retention. */
  truncate(topic: string, partition: number, offset: number): Promise<void>
  /** The topic has so many partitions from now on: more than before. */
  grow(topic: string, partitions: number): Promise<void>
  /** What becomes of a topic that is missing when it is used. */
  readonly missingTopics: 'made' | 'refused'
}

type Sent = Partial<Message> & { readonly partition?: number }

/** What every broker keeps to. `open` starts, or finds, the cluster; it ends it by itself when the test ends. */
export function brokerContract(t: Test, open: (t: Test) => BrokerGiven | Promise<BrokerGiven>): void {
  const withBroker = (
    name: string,
    run: (t: Test, broker: Broker, given: BrokerGiven, second: () => Promise<Broker>) => Promise<void>
  ) =>
    t.test(name, async t => {
      const given = await open(t)
      const opened: Broker[] = []
      const fresh = async () => {
        const broker = await given.broker()
        opened.push(broker)
        return broker
      }
      try {
        await run(t, await fresh(), given, fresh)
      } finally {
        for (const broker of opened) await broker.close()
      }
    })

  withBroker('a message comes back with every field as it was sent', async (t, broker, given) => {
    const topic = await given.topic(2)
    const before = systemClock.now()
    const messages: (Message & { partition: number })[] = [
      { partition: 1, key: Buffer.from('ключ'), value: Buffer.from('value'), headers: [] },
      { partition: 1, key: null, value: null, headers: [] },
      { partition: 1, key: Buffer.alloc(0), value: Buffer.alloc(0), headers: [['empty', Buffer.alloc(0)]] },
      { partition: 1, key: Buffer.from([0, 255, 128]), value: Buffer.from([13, 10, 0, 254]), headers: repeated },
      { partition: 1, key: null, value: Buffer.alloc(900_000, 'ab'), headers: [] }
    ]
    const placed = await send(broker, topic, messages)
    const reader = Reader.read(broker, [{ topic, partition: 1, offset: 0 }])
    await reader.count(messages.length)
    for (const [i, message] of messages.entries()) {
      const { timestamp, ...came } = reader.all[i]!
      const { key, value, headers } = came
      t.match(came, { topic, partition: 1, offset: i })
      t.strictSame(bytes(key), bytes(message.key), `key ${i}`)
      t.ok(same(value, message.value), `value ${i}`)
      t.strictSame(byName(headers), byName(message.headers), `headers ${i}`)
      t.ok(timestamp >= before - 60_000 && timestamp <= systemClock.now() + 60_000, 'made now')
      t.match(placed[i], { topic, partition: 1, offset: i })
    }
    await ended(t, reader)
  })

  withBroker('each message is told where it went, whatever partitions a call has', async (t, broker, given) => {
    const topic = await given.topic(3)
    const sent = Array.from({ length: 30 }, (_, i) => ({ partition: (i * 7) % 3, value: Buffer.from(`${i}`) }))
    const placed = [...(await send(broker, topic, sent.slice(0, 13))), ...(await send(broker, topic, sent.slice(13)))]
    const reader = Reader.read(broker, beginnings(topic, 3))
    await reader.count(30)
    for (const [i, { partition }] of sent.entries()) {
      t.equal(placed[i]!.partition, partition)
      const found = reader.all.find(one => one.partition === partition && one.offset === placed[i]!.offset)
      t.equal(found?.value?.toString(), `${i}`)
    }
    t.strictSame(await send(broker, topic, []), [], 'no message is no work')
    await ended(t, reader)
  })

  withBroker('calls that are made one after another keep their order without waiting', async (t, broker, given) => {
    const topic = await given.topic(1)
    const calls: Promise<readonly Placed[]>[] = []
    for (let i = 0; i < 100; i++) calls.push(send(broker, topic, texts(`${i}a`, `${i}b`, `${i}c`)))
    const offsets = (await Promise.all(calls)).flat().map(({ offset }) => offset)
    t.strictSame(offsets, numbers(300))
    const reader = Reader.read(broker, beginnings(topic, 1))
    await reader.count(300)
    t.strictSame(
      reader.values(),
      numbers(100).flatMap(i => [`${i}a`, `${i}b`, `${i}c`])
    )
    await ended(t, reader)
  })

  withBroker('two groups get everything each, and a member goes on at the commit', async (t, broker, given) => {
    const topic = await given.topic(2)
    const [one, two] = [groupOf(topic), groupOf(topic)]
    await send(broker, topic, alternating(20))
    const a = Reader.join(broker, [topic], one)
    const b = Reader.join(broker, [topic], two)
    await Promise.all([a.count(20), b.count(20)])
    t.strictSame(sorted(a.values()), sorted(b.values()))
    t.strictSame(a.partitions, [0, 1])
    await a.reading.commit([
      { topic, partition: 0, offset: 10 },
      { topic, partition: 1, offset: 4 }
    ])
    await ended(t, a, b)
    await send(broker, topic, [{ partition: 0, value: Buffer.from('new') }])
    const again = Reader.join(broker, [topic], one)
    await again.until(() => again.values().includes('new') && again.values(1).length >= 6)
    t.strictSame(again.values(0), ['new'], 'what was committed does not come again')
    t.strictSame(again.values(1), ['9', '11', '13', '15', '17', '19'], 'what was not, does')
    const other = Reader.join(broker, [topic], two)
    await other.count(21)
    t.equal(other.all.length, 21, 'a group without commits begins anew')
    await ended(t, again, other)
  })

  withBroker('a group without commits begins where it is told to', async (t, broker, given) => {
    const topic = await given.topic(1)
    await send(broker, topic, texts('old'))
    const earliest = Reader.join(broker, [topic], groupOf(topic), { start: 'earliest' })
    const latest = Reader.join(broker, [topic], groupOf(topic), { start: 'latest' })
    await Promise.all([earliest.assignedTo(1), latest.assignedTo(1)])
    await Promise.all([earliest.count(1), latest.until(() => latest.assignments.at(-1)![0]!.offset === 1)])
    await send(broker, topic, texts('new'))
    await Promise.all([earliest.count(2), latest.count(1)])
    t.strictSame(earliest.values(), ['old', 'new'])
    t.strictSame(latest.values(), ['new'])
    await ended(t, earliest, latest)
  })

  withBroker(
    'members part the partitions, and who stays takes over those of who leaves',
    async (t, broker, given, second) => {
      const topic = await given.topic(4)
      const group = groupOf(topic)
      const a = Reader.join(broker, [topic], group)
      await a.assignedTo(4)
      const b = Reader.join(await second(), [topic], group)
      await Promise.all([a.assignedTo(2), b.assignedTo(2)])
      t.strictSame([...a.partitions, ...b.partitions].sort(), [0, 1, 2, 3])
      const from = [a.all.length, b.all.length]
      await send(
        broker,
        topic,
        numbers(40).map(i => ({ partition: i % 4, value: Buffer.from(`${i}`) }))
      )
      await Promise.all([a.count(from[0]! + 20), b.count(from[1]! + 20)])
      const lost = b.partitions
      const done = { topic, partition: lost[0]!, offset: 10 }
      await b.reading.commit([done])
      await ended(t, b)
      await a.assignedTo(4)
      await a.until(() => a.values(lost[1]).length >= 10)
      t.ok(a.assignments.at(-1)!.some(one => one.partition === done.partition && one.offset === done.offset))
      t.strictSame(a.values(lost[0]), [], 'committed by who left')
      t.strictSame(
        a.values(lost[1]),
        numbers(10).map(i => `${i * 4 + lost[1]!}`)
      )
      await ended(t, a)
    }
  )

  withBroker('a commit of a partition that is not the member’s fails', async (t, broker, given) => {
    const topic = await given.topic(1)
    const reader = Reader.join(broker, [topic], groupOf(topic))
    await reader.assignedTo(1)
    await t.rejects(reader.reading.commit([{ topic, partition: 7, offset: 1 }]))
    await ended(t, reader)
  })

  withBroker('what is paused stands still and goes on with nothing lost or doubled', async (t, broker, given) => {
    const topic = await given.topic(2)
    for (const [name, reader] of [
      ['alone', Reader.read(broker, beginnings(topic, 2))],
      ['member', Reader.join(broker, [topic], groupOf(topic))]
    ] as const) {
      await reader.assignedTo(2)
      reader.reading.pause({ topic, partition: 0 })
      reader.reading.pause({ topic, partition: 0 })
      // Rounds of the other partition: what was under way when it was paused has come by the first of them.
      for (let round = 0; round < 8; round++) {
        const value = Buffer.from(`${name}${round}`)
        await send(broker, topic, [{ value }, { value, partition: 1 }])
        await reader.until(() => reader.values(1).at(-1) === `${name}${round}`)
      }
      const seen = () => reader.values(0).filter(value => value.startsWith(name))
      for (const round of [4, 5, 6, 7]) t.notOk(seen().includes(`${name}${round}`))
      reader.reading.resume({ topic, partition: 0 })
      reader.reading.resume({ topic, partition: 0 })
      await reader.until(() => seen().length >= 8)
      t.strictSame(
        seen(),
        numbers(8).map(i => `${name}${i}`)
      )
      await ended(t, reader)
    }
  })

  withBroker('one who pauses inside each batch gets everything, once and in order', async (t, broker, given) => {
    const topic = await given.topic(1)
    for (let i = 0; i < 4; i++)
      await send(
        broker,
        topic,
        numbers(500).map(j => ({ value: Buffer.from(`${i * 500 + j}`.padEnd(2000)) }))
      )
    const reader = Reader.read(broker, beginnings(topic, 1))
    let pauses = 0
    reader.onRecords = (reading, place) => {
      pauses++
      reading.pause(place)
      setImmediate(() => reading.resume(place))
    }
    await reader.count(2000)
    t.ok(pauses > 1)
    t.strictSame(
      reader.all.map(({ offset }) => offset),
      numbers(2000)
    )
    await ended(t, reader)
  })

  withBroker('reading begins at the positions, and new records keep coming', async (t, broker, given) => {
    const [topic, other] = [await given.topic(2), await given.topic(1)]
    await send(broker, topic, alternating(10))
    await send(broker, other, texts('x', 'y'))
    const reader = Reader.read(
      broker,
      [
        { topic, partition: 0, offset: 3 },
        { topic: other, partition: 0, offset: 2 }
      ],
      'exact'
    )
    await reader.count(2)
    t.strictSame(reader.values(), ['6', '8'])
    t.match(
      reader.assignments[0]!.toSorted((a, b) => a.offset - b.offset),
      [
        { topic: other, partition: 0, offset: 2 },
        { topic, partition: 0, offset: 3 }
      ]
    )
    await send(broker, other, texts('z'))
    await reader.count(3)
    await send(broker, topic, [{ partition: 1, value: Buffer.from('unread') }, ...texts('last')])
    await reader.count(4)
    t.strictSame(reader.values(), ['6', '8', 'z', 'last'])
    t.strictSame(reader.gaps, [])
    await ended(t, reader)
  })

  withBroker('a reader below the oldest record hears of the gap before it reads on', async (t, broker, given) => {
    const topic = await given.topic(2)
    await send(broker, topic, alternating(20))
    await given.truncate(topic, 0, 6)
    const reader = Reader.read(broker, [
      { topic, partition: 0, offset: 2 },
      { topic, partition: 1, offset: 8 }
    ])
    await reader.count(6)
    t.strictSame(reader.gaps, [{ place: { topic, partition: 0 }, from: 2, to: 6 }])
    t.strictSame(reader.values(0), ['12', '14', '16', '18'])
    t.strictSame(reader.values(1), ['17', '19'])
    await ended(t, reader)
    await given.truncate(topic, 0, 10)
    const empty = Reader.read(broker, [{ topic, partition: 0, offset: 0 }])
    await empty.until(() => empty.gaps.length > 0)
    await send(broker, topic, texts('new'))
    await empty.count(1)
    t.match(empty.gaps, [{ from: 0, to: 10 }])
    t.match(empty.all, [{ offset: 10 }])
    await ended(t, empty)
  })

  withBroker('spans and positions of a time tell what a partition holds', async (t, broker, given) => {
    const topic = await given.topic(2)
    const spans = async () => (await broker.spans(topic)).toSorted((a, b) => a.partition - b.partition)
    const at = async (ms: number) =>
      (await broker.positionsAt(topic, ms)).toSorted((a, b) => a.partition - b.partition).map(({ offset }) => offset)
    t.match(await spans(), [
      { topic, partition: 0, low: 0, high: 0 },
      { topic, partition: 1, low: 0, high: 0 }
    ])
    t.strictSame(await at(0), [0, 0])
    await send(broker, topic, texts('a', 'b', 'c'))
    await given.truncate(topic, 0, 1)
    t.match(await spans(), [
      { topic, partition: 0, low: 1, high: 3 },
      { topic, partition: 1, low: 0, high: 0 }
    ])
    t.strictSame(await at(0), [1, 0])
    t.strictSame(await at(systemClock.now() + 3_600_000), [3, 0], 'nothing is so new')
    const reader = Reader.read(broker, [{ topic, partition: 0, offset: 1 }])
    await reader.count(2)
    const { timestamp } = reader.all[0]!
    t.strictSame(await at(timestamp), [1, 0])
    t.strictSame(await at(reader.all[1]!.timestamp + 1), [3, 0])
    await ended(t, reader)
    t.equal(await broker.partitions(topic), 2)
  })

  withBroker('partitions that come later are read from their beginning', async (t, broker, given) => {
    const topic = await given.topic(1)
    await send(broker, topic, texts('a'))
    const growing = Reader.read(broker, beginnings(topic, 1))
    const exact = Reader.read(broker, beginnings(topic, 1), 'exact')
    await Promise.all([growing.count(1), exact.count(1)])
    await given.grow(topic, 3)
    await partitionsOf(broker, topic, 3)
    await send(broker, topic, [{ partition: 2, value: Buffer.from('b') }, ...texts('c')])
    await Promise.all([growing.count(3), exact.count(2)])
    t.strictSame(sorted(growing.values()), ['a', 'b', 'c'])
    t.strictSame(growing.partitions, [0, 1, 2])
    t.strictSame(exact.values(), ['a', 'c'])
    t.strictSame(exact.partitions, [0])
    await ended(t, growing, exact)
  })

  withBroker('a topic is created with its partitions, and only once', async (t, broker, given) => {
    const topic = `${await given.topic(1)}.new`
    await broker.createTopic(topic, 3, 1)
    t.equal(await partitionsOf(broker, topic, 3), 3)
    await send(broker, topic, [{ partition: 2, value: Buffer.from('a') }])
    await broker.createTopic(topic, 5, 1)
    t.match(await broker.spans(topic), { length: 3 })
  })

  withBroker('a topic that cannot be is the operator’s to mend', async (t, broker, given) => {
    for (const topic of ['with space', 'a'.repeat(250), '', 'a/b']) await refused(t, broker, topic, 'misconfigured')
    const topic = `${await given.topic(1)}.missing`
    if (given.missingTopics === 'refused') await refused(t, broker, topic, 'misconfigured')
    else {
      t.ok((await broker.partitions(topic)) >= 1)
      t.match(await send(broker, topic, texts('a')), [{ topic, partition: 0, offset: 0 }])
    }
  })

  withBroker('who reads what is not there hears of it', async (t, broker) => {
    const reader = Reader.join(broker, ['with space'], groupOf('none'))
    await reader.until(() => reader.faults.some(fault => fault !== null))
    t.strictSame(reader.all, [])
    await reader.close()
  })

  withBroker('a taker that closes inside a call hears nothing more', async (t, broker, given) => {
    const topic = await given.topic(2)
    for (let i = 0; i < 3; i++)
      await send(
        broker,
        topic,
        numbers(400).map(j => ({ partition: j % 2, value: Buffer.alloc(1000) }))
      )
    const reader = Reader.read(broker, beginnings(topic, 2))
    let closing: Promise<void> | null = null
    reader.onRecords = () => {
      t.equal(closing, null, 'closed already')
      closing = reader.close()
    }
    await reader.count(1)
    await closing
    await send(broker, topic, texts('more'))
    const later = Reader.read(broker, beginnings(topic, 2))
    await later.count(1201)
    t.strictSame(reader.wrong, [])
    await ended(t, later)
  })

  withBroker('a closed broker ends what it began, and closing twice is fine', async (t, broker, given, second) => {
    const topic = await given.topic(1)
    const other = await second()
    await send(broker, topic, texts('a'))
    const alone = Reader.read(broker, beginnings(topic, 1))
    const member = Reader.join(broker, [topic], groupOf(topic))
    await Promise.all([alone.count(1), member.count(1)])
    await Promise.all([broker.close(), broker.close()])
    await broker.close()
    const error = await send(broker, topic, texts('b')).catch((error: unknown) => error)
    t.ok(error instanceof Undelivered && error.reason === 'unavailable')
    await send(other, topic, texts('c'))
    const later = Reader.read(other, beginnings(topic, 1))
    await later.count(2)
    t.strictSame(later.values(), ['a', 'c'], 'other clients go on')
    t.strictSame([...alone.values(), ...member.values()], ['a', 'a'])
    await ended(t, later, alone, member)
  })

  withBroker('a broker that works says so', async (t, broker, given) => {
    await send(broker, await given.topic(1), texts('a'))
    t.match(broker.state(), { isUp: true, fault: null })
    t.not(broker.name, '')
    const stop = broker.onState(() => {})
    stop()
    stop()
  })
}

const repeated: readonly (readonly [string, Buffer])[] = [
  ['a', Buffer.from('1')],
  ['b', Buffer.from([255, 0])],
  ['a', Buffer.from('2')],
  ['A', Buffer.from('ä')]
]
const numbers = (count: number) => Array.from({ length: count }, (_, i) => i)
const texts = (...values: string[]): Sent[] => values.map(value => ({ value: Buffer.from(value) }))
const bytes = (buffer: Buffer | null) => (buffer === null ? null : buffer.toString('hex'))
const same = (a: Buffer | null, b: Buffer | null) => (a === null || b === null ? a === b : a.equals(b))
/** Values by name: a client may put headers of one name together. */
const byName = (headers: Message['headers']) => {
  const names = Map.groupBy(headers, ([name]) => name)
  return Object.fromEntries([...names].map(([name, all]) => [name, all.map(([, value]) => value.toString('hex'))]))
}
const sorted = (values: readonly string[]) => values.toSorted()
/** `0`, `1`, … by turns to partitions 0 and 1. */
const alternating = (count: number): Sent[] =>
  numbers(count).map(i => ({ partition: i % 2, value: Buffer.from(`${i}`) }))
let groups = 0
const groupOf = (topic: string) => `${topic}.group${++groups}`
const beginnings = (topic: string, partitions: number): Position[] =>
  numbers(partitions).map(partition => ({ topic, partition, offset: 0 }))

function send(broker: Broker, topic: string, sent: readonly Sent[], how: Partial<Produce> = {}) {
  const messages = sent.map(message => ({ partition: 0, key: null, value: null, headers: [], ...message }))
  const deadline = systemClock.now() + 30_000
  return broker.produce({ topic, messages, acks: 'all', compression: 'none', isIdempotent: false, deadline, ...how })
}

/** The reading ends, and all that the reader was told was in order. */
async function ended(t: Test, ...readers: readonly Reader[]): Promise<void> {
  for (const reader of readers) {
    await reader.close()
    t.strictSame(reader.wrong, [])
  }
}

/** What it has once a client that remembers the number has learnt of the new one, and what it has otherwise. */
async function partitionsOf(broker: Broker, topic: string, count: number): Promise<number> {
  let partitions = await broker.partitions(topic)
  for (let tries = 0; partitions !== count && tries < 300; tries++) {
    await new Promise<void>(resolve => systemClock.after(100, resolve))
    partitions = await broker.partitions(topic)
  }
  return partitions
}

async function refused(t: Test, broker: Broker, topic: string, reason: Reason): Promise<void> {
  const calls = [
    () => send(broker, topic, texts('a')),
    () => broker.partitions(topic),
    () => broker.spans(topic),
    () => broker.positionsAt(topic, 0)
  ]
  for (const call of calls) {
    const error = await (async () => call())().catch((error: unknown) => error)
    t.ok(error instanceof Undelivered && error.reason === reason, `${topic.slice(0, 20)}: ${error}`)
  }
}
