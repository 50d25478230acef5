import { setTimeout as pause } from 'node:timers/promises'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { CompressionTypes, Kafka, logLevel } from 'kafkajs'
import t from 'tap'
import { type Log, systemClock } from '../../config/world.ts'
import type { Broker } from '../../streams/broker.ts'
import { brokerKafka } from '../../streams/brokers/kafka/brokerKafka.ts'
import { compress, decompress } from '../../streams/brokers/kafka/codecs.ts'
import type { BrokerOptions } from '../../streams/connector.ts'
import type { Undelivered } from '../../streams/undelivered.ts'
import { brokerContract } from '../contract/broker.ts'
import { Reader } from '../contract/brokerReader.ts'
import { kafka } from '../helpers/kafka.ts'

// Starting a broker with users and taking a whole contract takes some 20 s.
t.setTimeout(120_000)
const server = await kafka(t, { tls: true, sasl: true })
const log: Log = { debug() {}, info() {}, warn() {}, error() {} }
let topics = 0

const open = (options: Partial<BrokerOptions> = {}) =>
  brokerKafka({
    options: { addresses: server.brokers, ...options },
    clock: systemClock,
    log,
    refreshMs: 300
  })

brokerContract(t, () => ({
  broker: () => open(),
  topic: partitions => server.topic(`contract${topics++}`, partitions),
  truncate: server.truncate,
  grow: server.addPartitions,
  missingTopics: 'refused'
}))

const soon = (ms = 15_000) => systemClock.now() + ms
const manner = { acks: 'all', compression: 'none', isIdempotent: false } as const
const texts = (...values: string[]) =>
  values.map(value => ({ partition: 0, key: null, value: Buffer.from(value), headers: [] }))

async function using(options: Partial<BrokerOptions>, run: (broker: Broker) => Promise<void>): Promise<void> {
  const broker = open(options)
  try {
    await run(broker)
  } finally {
    await broker.close()
  }
}

const reasonOf = (call: Promise<unknown>) =>
  call.then(
    () => 'delivered',
    (error: Undelivered) => error.reason
  )

t.test('encrypted and logged in as told, and refused as the operator’s mistake', async t => {
  const topic = await server.topic('logins', 1)
  const ca = server.tls!.ca
  const login = (mechanism: string, user: string, password: string) => ({ mechanism, user, password })
  const { alice, bob } = server.sasl!
  const tls = { enabled: true, root_cas: ca }
  const addresses = server.sasl!.brokers
  const cases: [string, Partial<BrokerOptions>, string][] = [
    ['authority', { addresses: server.tls!.brokers, tls }, 'delivered'],
    ['unchecked', { addresses: server.tls!.brokers, tls: { enabled: true, skip_cert_verify: true } }, 'delivered'],
    ['unknown authority', { addresses: server.tls!.brokers, tls: { enabled: true } }, 'misconfigured'],
    ['plain', { addresses, tls, sasl: login('PLAIN', 'alice', alice) }, 'delivered'],
    ['scram 256', { addresses, tls, sasl: login('SCRAM-SHA-256', 'bob', bob) }, 'delivered'],
    ['scram 512', { addresses, tls, sasl: login('SCRAM-SHA-512', 'bob', bob) }, 'delivered'],
    ['wrong password', { addresses, tls, sasl: login('PLAIN', 'alice', 'wrong') }, 'misconfigured'],
    ['wrong scram password', { addresses, tls, sasl: login('SCRAM-SHA-256', 'bob', 'wrong') }, 'misconfigured'],
    ['not offered', { addresses, tls, sasl: { mechanism: 'OAUTHBEARER', access_token: 'a' } }, 'misconfigured']
  ]
  for (const [name, options, expected] of cases)
    await using(options, async broker => {
      const call = broker.produce({ ...manner, topic, messages: texts(name), deadline: soon() })
      t.equal(await reasonOf(call), expected, name)
      if (expected !== 'delivered') return
      const reader = Reader.join(broker, [topic], `logins ${name}`)
      await reader.until(() => reader.values().includes(name), name)
      await reader.close()
    })
})

t.test('a refused login is told by the state, without the password', async t => {
  const sasl = { mechanism: 'PLAIN', user: 'alice', password: 'a wrong secret' }
  const tls = { enabled: true, root_cas: server.tls!.ca }
  const topic = await server.topic('refused logins', 1).catch(() => 'refused-logins')
  await using({ addresses: server.sasl!.brokers, tls, sasl }, async broker => {
    for (let i = 0; i < 4; i++) {
      const call = broker.produce({ ...manner, topic, messages: texts('a'), deadline: soon() })
      t.equal(await reasonOf(call), 'misconfigured')
    }
    t.match(broker.state(), { isUp: true, fault: /[Aa]uthentication/ }, 'the cluster is there')
    t.notMatch(JSON.stringify([broker.state(), broker.name]), /secret/)
  })
})

t.test('every compression is understood by the broker, by others and by us', async t => {
  const topic = await server.topic('compressions', 1)
  const kafkajs = new Kafka({ brokers: [...server.brokers], logLevel: logLevel.NOTHING })
  const value = Buffer.from('text that repeats itself '.repeat(4000))
  await using({}, async broker => {
    const reader = Reader.read(broker, [{ topic, partition: 0, offset: 0 }])
    let count = 0
    for (const compression of ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const)
      for (const isIdempotent of [false, true]) {
        const messages = [{ partition: 0, key: Buffer.from('k'), value, headers: [['h', Buffer.from('v')] as const] }]
        const deadline = soon()
        const [placed] = await broker.produce({ topic, messages, acks: 'leader', compression, isIdempotent, deadline })
        t.equal(placed!.offset, count++)
      }
    const producer = kafkajs.producer()
    await producer.connect()
    await producer.send({
      topic,
      messages: [{ key: 'k', value, headers: { h: 'v' } }],
      compression: CompressionTypes.GZIP
    })
    await producer.disconnect()
    await reader.count(count + 1)
    for (const { key, value: came, headers } of reader.all) {
      t.ok(came!.equals(value))
      t.strictSame([key, headers], [Buffer.from('k'), [['h', Buffer.from('v')]]])
    }
    await reader.close()
  })
})

t.test('what would unpack to more than 64 MiB is refused before it does', async t => {
  const zeros = Buffer.alloc(65 << 20)
  const bombs: [number, Buffer][] = [
    [1, gzipSync(zeros)],
    [3, await compress(3, zeros)],
    [4, zstdCompressSync(zeros)],
    [2, Buffer.from([0xff, 0xff, 0xff, 0xff, 0x0f, 0])],
    [5, zeros]
  ]
  for (const [codec, bomb] of bombs) await t.rejects(async () => decompress(codec, bomb), `codec ${codec}`)
  const fine = Buffer.from('abc'.repeat(100_000))
  for (const codec of [0, 1, 2, 3, 4]) t.ok((await decompress(codec, await compress(codec, fine))).equals(fine))
  for (const codec of [1, 2, 3, 4]) await t.rejects(async () => decompress(codec, Buffer.from('garbage that is none')))
})

t.test('a message that is too large does not take those beside it along', async t => {
  const topic = await server.topic('sizes', 1)
  await using({}, async broker => {
    const small = Buffer.alloc(300_000, 'a')
    const send = (value: Buffer) =>
      reasonOf(broker.produce({ ...manner, topic, messages: [{ ...texts('')[0]!, value }], deadline: soon() }))
    // The first is alone under way, so the others go together; three of them are too large as one batch.
    const sent = await Promise.all([small, small, Buffer.alloc(1_200_000), small, small, small].map(send))
    t.strictSame(sent, ['delivered', 'delivered', 'too_large', 'delivered', 'delivered', 'delivered'])
    const many = Array.from({ length: 6 }, () => ({ ...texts('')[0]!, value: small }))
    for (const isIdempotent of [false, true]) {
      const placed = await broker.produce({ ...manner, isIdempotent, topic, messages: many, deadline: soon() })
      t.strictSame(
        placed.map(({ offset }) => offset - placed[0]!.offset),
        [0, 1, 2, 3, 4, 5],
        'one call of more than a batch may have'
      )
    }
  })
})

t.test('more than the bound is refused at once, and what was taken arrives', async t => {
  const topic = await server.topic('bounds', 1)
  await using({}, async broker => {
    const value = Buffer.alloc(1_000)
    const calls: Promise<string>[] = []
    for (let i = 0; i < 20_500; i++) {
      const messages = [{ ...texts('')[0]!, value }]
      calls.push(reasonOf(broker.produce({ ...manner, topic, messages, deadline: soon(30_000) })))
    }
    const reasons = await Promise.all(calls)
    t.equal(reasons.filter(reason => reason === 'busy').length, 500)
    t.equal(reasons.filter(reason => reason === 'delivered').length, 20_000)
    t.match(await broker.spans(topic), [{ high: 20_000 }])
  })
})

t.test('who sends in bulk leaves room for others', async t => {
  const topic = await server.topic('bulk', 1)
  const other = await server.topic('beside', 1)
  await using({}, async broker => {
    const send = (topic: string, count: number, length: number) => {
      const messages = Array.from({ length: count }, () => ({ ...texts('')[0]!, value: Buffer.alloc(length) }))
      return reasonOf(broker.produce({ ...manner, topic, messages, deadline: soon(30_000) }))
    }
    const bulk = Array.from({ length: 20 }, () => send(topic, 1_000, 10))
    const small = Array.from({ length: 200 }, () => send(topic, 10, 1_000))
    const heavy = Array.from({ length: 100 }, () => send(other, 1, 1_000_000))
    const beside = Array.from({ length: 100 }, () => send(other, 1, 1_000))
    const count = async (calls: Promise<string>[]) => Map.groupBy(await Promise.all(calls), reason => reason)
    t.equal((await count(bulk)).get('busy')!.length, 10)
    t.strictSame([...(await count(small)).keys()], ['delivered'])
    t.ok((await count(heavy)).get('busy')!.length > 70, '16 MiB of a topic')
    t.strictSame([...(await count(beside)).keys()], ['delivered'])
    t.equal(await send(topic, 15_000, 10), 'delivered', 'one alone')
  })
})

t.test('what the topic does not take is told in our words, to its sender alone', async t => {
  const topic = 'compacted'
  const configEntries = [{ name: 'cleanup.policy', value: 'compact' }]
  await (await server.admin()).createTopics({ topics: [{ topic, configEntries }], waitForLeaders: true })
  await using({}, async broker => {
    const send = (key: string | null) => {
      const messages = [{ ...texts('a')[0]!, key: key === null ? null : Buffer.from(key) }]
      return broker.produce({ ...manner, topic, messages, deadline: soon() }).then(
        () => 'delivered',
        ({ reason, message, cause }: Undelivered) => ({ reason, message, cause: String(cause) })
      )
    }
    await send('first')
    const [a, none, b] = await Promise.all([send('a'), send(null), send('b'), send('c')])
    t.strictSame([a, b], ['delivered', 'delivered'])
    const message = 'the topic does not take this message'
    t.match(none, { reason: 'invalid', message, cause: /compacted.*87/ })
  })
})

t.test('the wrong side of a listener is told, and is no outage', async t => {
  const topic = await server.topic('sides', 1)
  const tls = { enabled: true, root_cas: server.tls!.ca }
  const cases: [string, Partial<BrokerOptions>][] = [
    ['without TLS', { addresses: server.tls!.brokers }],
    ['TLS where there is none', { tls }],
    ['without a login', { addresses: server.sasl!.brokers, tls }]
  ]
  const tried = cases.map(([name, options]) =>
    using(options, async broker => {
      for (let i = 0; i < 4; i++) {
        const call = broker.produce({ ...manner, topic, messages: texts('a'), deadline: soon() })
        await t.rejects(call, { message: /closed the connection: does it .*\?|SSL|TLS/ }, name)
      }
      t.match(broker.state(), { isUp: true }, name)
    })
  )
  await Promise.all(tried)
})

t.test('link-local addresses are never reached, whatever spells them', async t => {
  for (const address of ['169.254.169.254:80', '[::ffff:169.254.169.254]:80', '2852039166:80'])
    await using({ addresses: [address] }, async broker => {
      const call = broker.produce({ ...manner, topic: 'none', messages: texts('a'), deadline: soon() })
      await t.rejects(call, { reason: 'misconfigured', message: /link-local/ }, address)
    })
})

t.test('what a transaction gave up is not read, nor are its marks', async t => {
  const topic = await server.topic('transactions', 1)
  const kafkajs = new Kafka({ brokers: [...server.brokers], logLevel: logLevel.NOTHING })
  const producer = kafkajs.producer({ idempotent: true, transactionalId: 'test', maxInFlightRequests: 1 })
  await producer.connect()
  for (const [value, end] of [
    ['a', 'commit'],
    ['b', 'abort'],
    ['c', 'commit'],
    ['d', 'abort']
  ] as const) {
    const transaction = await producer.transaction()
    await transaction.send({ topic, messages: [{ value }] })
    await transaction[end]()
  }
  await producer.disconnect()
  await using({}, async broker => {
    const committed = Reader.join(broker, [topic], 'committed')
    const all = Reader.join(broker, [topic], 'uncommitted', { isolation: 'read_uncommitted' })
    await broker.produce({ ...manner, topic, messages: texts('e'), deadline: soon() })
    await Promise.all([committed, all].map(reader => reader.until(() => reader.values().includes('e'))))
    t.strictSame(committed.values(), ['a', 'c', 'e'])
    t.strictSame(all.values(), ['a', 'b', 'c', 'd', 'e'])
    await Promise.all([committed.close(), all.close()])
  })
})

t.test('a plain kafkajs consumer is a member like any other', async t => {
  const topic = await server.topic('mixed', 4)
  const kafkajs = new Kafka({ brokers: [...server.brokers], logLevel: logLevel.NOTHING })
  const consumer = kafkajs.consumer({ groupId: 'mixed', maxWaitTimeInMs: 100, heartbeatInterval: 300 })
  const theirs = new Set<number>()
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({ eachMessage: async ({ partition }) => void theirs.add(partition) })
  await using({}, async broker => {
    const ours = Reader.join(broker, [topic], 'mixed')
    await ours.until(() => ours.partitions.length === 2, 'half of the partitions')
    const messages = [0, 1, 2, 3].map(partition => ({ ...texts('a')[0]!, partition }))
    await broker.produce({ ...manner, topic, messages, deadline: soon() })
    await ours.until(() => ours.all.length >= 2)
    for (let waited = 0; theirs.size < 2 && waited < 200; waited++) await pause(50)
    await consumer.disconnect()
    await ours.until(() => ours.partitions.length === 4, 'the other half')
    await ours.close()
    t.strictSame(ours.wrong, [])
  })
  t.equal(theirs.size, 2)
})

t.test('a member that is there when its topic grows reads the new partition from its beginning', async t => {
  const topic = await server.topic('grows', 1)
  await using({}, async broker => {
    const reader = Reader.join(broker, [topic], 'grows', { start: 'latest' })
    await reader.until(() => reader.partitions.length === 1)
    await server.addPartitions(topic, 2)
    const admin = await server.admin()
    t.equal((await admin.fetchTopicOffsets(topic)).length, 2)
    let sent = 'unavailable'
    while (sent !== 'delivered') {
      const messages = [{ ...texts('first')[0]!, partition: 1 }]
      sent = await reasonOf(broker.produce({ ...manner, topic, messages, deadline: soon() }))
    }
    await reader.until(() => reader.values(1).includes('first'))
    t.strictSame(reader.partitions, [0, 1])
    await reader.close()
  })
})

t.test('addresses are taken as they are written', async t => {
  const [address] = server.brokers
  for (const addresses of [[`127.0.0.1:1, ${address}`], ['127.0.0.1:1', `kafka://${address}`]])
    await using({ addresses }, async broker => {
      t.type(await broker.partitions(await server.topic(`addresses${topics++}`, 1)), 'number')
    })
  t.throws(() => open({ addresses: ['localhost:none'] }), /not an address/)
  await using({ addresses: ['[::1]:1', 'host'] }, async broker => {
    t.equal(broker.name, 'kafka://[::1]:1,host:9092')
  })
})
