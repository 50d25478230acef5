import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type Log, systemClock } from '../../config/world.ts'
import type { Broker, Produce } from '../../streams/broker.ts'
import { brokerKafka } from '../../streams/brokers/kafka/brokerKafka.ts'
import { crc32c } from '../../streams/brokers/kafka/crc32c.ts'
import { type Head, headAt } from '../../streams/brokers/kafka/recordsIn.ts'
import type { Undelivered } from '../../streams/undelivered.ts'
import { Reader } from '../contract/brokerReader.ts'
import { kafka } from '../helpers/kafka.ts'

// Starting a broker after a crash takes some three seconds, and that is done twice.
t.setTimeout(120_000)
const data = mkdtempSync(join(tmpdir(), 'svc-kafka-faults-'))
t.teardown(() => rmSync(data, { recursive: true, force: true }))
// With users, since only then the store is made where the properties say.
const server = await kafka(t, { sasl: true, properties: { 'log.dirs': join(data, 'log') } })
const lines: string[] = []
const log: Log = {
  debug() {},
  info: message => void lines.push(message),
  warn: message => void lines.push(message),
  error: message => void lines.push(message)
}
process.on('warning', warning => lines.push(`warning: ${warning.name}`))

function open(t: Test, addresses = server.brokers): Broker {
  const options = { addresses }
  const broker = brokerKafka({ options, clock: systemClock, log, refreshMs: 500 })
  t.teardown(() => broker.close())
  return broker
}

const text = (value: string) => ({ partition: 0, key: null, value: Buffer.from(value), headers: [] })

/** What became of one message: `delivered`, or the reason; and how long that took, ms. */
async function send(broker: Broker, topic: string, value: string, ms: number, how: Partial<Produce> = {}) {
  const began = systemClock.now()
  const deadline = began + ms
  const message = text(value)
  const call = { topic, messages: [message], acks: 'all', compression: 'none', isIdempotent: false, deadline } as const
  const outcome = await broker.produce({ ...call, ...how }).then(
    () => 'delivered',
    (error: Undelivered) => error.reason
  )
  return { outcome, took: systemClock.now() - began }
}

async function becomes(state: 'up' | 'down', broker: Broker): Promise<void> {
  for (let waited = 0; broker.state().isUp !== (state === 'up') && waited < 600; waited++) await pause(50)
  if (broker.state().isUp !== (state === 'up')) throw new Error(`it did not go ${state}`)
}

t.test('a broker that is killed and started again loses nothing that was acknowledged', async t => {
  const topic = await server.topic('killed', 2)
  const broker = open(t)
  const member = Reader.join(broker, [topic], 'killed', { sessionMs: 30_000 })
  const alone = Reader.read(broker, [
    { topic, partition: 0, offset: 0 },
    { topic, partition: 1, offset: 0 }
  ])
  await member.until(() => member.partitions.length === 2)
  const acknowledged: string[] = []
  const outcomes: Record<string, number> = {}
  let slowest = 0
  let isOn = true
  let isDown = false
  const workers = [0, 1, 2, 3].map(async worker => {
    for (let i = 0; isOn; i++) {
      const value = `${worker} ${i}`
      const partition = worker % 2
      const messages = [{ ...text(value), partition }]
      const wasDown = isDown && !broker.state().isUp
      const { outcome, took } = await send(broker, topic, value, 5_000, { messages, isIdempotent: worker === 3 })
      if (outcome === 'delivered') acknowledged.push(value)
      else await pause(20)
      if (wasDown) slowest = Math.max(slowest, took)
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
    }
  })
  await member.count(200)
  await server.stop('SIGKILL')
  isDown = true
  await becomes('down', broker)
  await pause(500)
  isDown = false
  await server.start()
  await becomes('up', broker)
  const before = acknowledged.length
  while (acknowledged.length < before + 200) await pause(20)
  isOn = false
  await Promise.all(workers)
  t.ok(slowest < 1_000, `known to be down, it answers at once: ${slowest} ms`)
  t.ok((outcomes.unavailable ?? 0) > 0, JSON.stringify(outcomes))
  t.strictSame(
    Object.keys(outcomes).filter(name => !['delivered', 'unavailable', 'unknown'].includes(name)),
    []
  )
  for (const reader of [member, alone]) {
    await reader.until(() => {
      const got = new Set(reader.values())
      return acknowledged.every(value => got.has(value))
    }, 'all that was acknowledged')
    const places = reader.all.map(({ partition, offset }) => `${partition}/${offset}`)
    t.equal(new Set(places).size, places.length, 'no record came twice')
    await reader.close()
    t.strictSame(reader.wrong, [])
  }
  const idempotent = alone.values().filter(value => value.startsWith('3 '))
  t.equal(new Set(idempotent).size, idempotent.length, 'idempotent messages are single')
  t.equal(lines.filter(line => line === 'kafka broker cannot be used').length, 1, 'a line a change')
  t.strictSame(
    lines.filter(line => line.startsWith('warning')),
    []
  )
})

t.test('a broker that hangs costs the first calls their time and nobody else any', async t => {
  const topic = await server.topic('hangs', 1)
  const broker = open(t)
  t.equal((await send(broker, topic, 'before', 10_000)).outcome, 'delivered')
  t.equal((await send(broker, topic, 'before too', 10_000, { isIdempotent: true })).outcome, 'delivered')
  server.hang(true)
  const under = send(broker, topic, 'under way', 1_500)
  const waiting = send(broker, topic, 'not sent', 1_200)
  const single = send(broker, topic, 'single', 1_500, { isIdempotent: true })
  t.match(await waiting, { outcome: 'unavailable' })
  t.match(await under, { outcome: 'unknown' })
  t.match(await single, { outcome: 'unknown' })
  await becomes('down', broker)
  const later = await send(broker, topic, 'refused', 5_000)
  t.equal(later.outcome, 'unavailable')
  t.ok(later.took < 500, `${later.took} ms`)
  server.hang(false)
  await becomes('up', broker)
  for (const isIdempotent of [false, true]) {
    t.equal((await send(broker, topic, `after ${isIdempotent}`, 10_000, { isIdempotent })).outcome, 'delivered')
  }
  const reader = Reader.read(broker, [{ topic, partition: 0, offset: 0 }])
  await reader.until(() => reader.values().includes('after true'))
  const values = reader.values()
  t.ok(values.filter(value => value === 'single').length <= 1)
  t.ok(values.filter(value => value === 'under way').length <= 1)
  t.notOk(values.includes('not sent') || values.includes('refused'), 'what was safe to repeat was not written')
  await reader.close()
})

t.test('the time of one call is no matter of the calls beside it', async t => {
  const topics = [await server.topic('patient', 1), await server.topic('hasty', 1)] as const
  const broker = open(t)
  for (const topic of topics) await send(broker, topic, 'before', 10_000)
  for (const ms of [700, 1_800]) {
    server.hang(true)
    const patient = send(broker, topics[0], 'a', 10_000)
    const hasty = send(broker, topics[1], 'b', 300)
    const other = send(broker, topics[1], 'c', 10_000)
    await pause(ms)
    server.hang(false)
    t.match([await patient, await hasty], [{ outcome: 'delivered' }, { outcome: 'unknown' }], `${ms} ms`)
    t.match(await other, { outcome: 'delivered' }, 'behind it in its topic')
    await becomes('up', broker)
    t.match(await send(broker, topics[1], 'd', 10_000), { outcome: 'delivered' })
  }
})

t.test('when a broker that hung is killed and comes back', async t => {
  const [topic, kept] = [await server.topic('repeats', 1), await server.topic('kept', 2)]
  const broker = open(t)
  const member = Reader.join(broker, [kept], 'kept', { sessionMs: 30_000, heartbeatMs: 300 })
  await member.until(() => member.partitions.length === 2)
  t.equal((await send(broker, kept, 'a', 10_000)).outcome, 'delivered')
  await member.count(1)
  t.equal((await send(broker, topic, 'first', 10_000, { isIdempotent: true })).outcome, 'delivered')
  server.hang(true)
  const sent = send(broker, topic, 'second', 20_000, { isIdempotent: true })
  const third = send(broker, topic, 'third', 20_000)
  await pause(300)
  await server.restart('SIGKILL')

  t.test('a message that is idempotent is sent again when its connection is lost, and is there once', async t => {
    t.match([await sent, await third], [{ outcome: 'delivered' }, { outcome: 'unknown' }])
    const reader = Reader.read(broker, [{ topic, partition: 0, offset: 0 }])
    await reader.until(() => reader.values().includes('second'))
    t.strictSame(
      reader.values().filter(value => value !== 'third'),
      ['first', 'second']
    )
    await reader.close()
  })

  t.test('a member whose coordinator was away keeps its partitions and goes on', async t => {
    await becomes('up', broker)
    t.equal((await send(broker, kept, 'b', 10_000)).outcome, 'delivered')
    await member.until(() => member.values().includes('b'))
    t.strictSame(member.values(), ['a', 'b'], 'nothing came again')
    let committed = 'no'
    for (let tries = 0; committed !== 'yes' && tries < 100; tries++) {
      committed = await member.reading.commit([{ topic: kept, partition: 0, offset: 2 }]).then(
        () => 'yes',
        () => pause(100, 'no')
      )
    }
    t.equal(committed, 'yes')
    await member.close()
  })
})

t.test('nobody waits long for a broker that was never there', async t => {
  const broker = open(t, ['127.0.0.1:1'])
  t.match(broker.state(), { isUp: true })
  const first = await send(broker, 'none', 'a', 5_000)
  t.equal(first.outcome, 'unavailable')
  t.ok(first.took < 2_500, `${first.took} ms`)
  await becomes('down', broker)
  const later = await send(broker, 'none', 'a', 5_000)
  t.match(later, { outcome: 'unavailable' })
  t.ok(later.took < 200, `${later.took} ms`)
  t.match(broker.state(), { isUp: false, fault: /ECONNREFUSED/ })
})

t.test('one that takes connections and says nothing costs a call no more than its time', async t => {
  const sockets = new Set<{ destroy(): void }>()
  const silent = createServer(socket => void sockets.add(socket.on('error', () => {}))).listen(0, '127.0.0.1')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    silent.close()
  })
  await new Promise(resolve => silent.once('listening', resolve))
  const broker = open(t, [`127.0.0.1:${(silent.address() as { port: number }).port}`])
  const calls = [500, 600, 700].map(ms => send(broker, 'none', 'a', ms))
  for (const { outcome, took } of await Promise.all(calls)) {
    t.equal(outcome, 'unavailable')
    t.ok(took < 2_000, `${took} ms`)
  }
})

t.test('a topic that is missing is told at once', async t => {
  const { outcome, took } = await send(open(t), 'missing', 'a', 5_000)
  t.equal(outcome, 'misconfigured')
  t.ok(took < 1_500, `${took} ms`)
})

t.test('records that cannot be read are a gap, and reading goes on behind them', async t => {
  const topic = await server.topic('poison', 1)
  const broker = open(t)
  for (const value of ['a', 'poison 1', 'b', 'poison 2', 'c']) {
    const messages = [text(value), text(value)]
    t.equal((await send(broker, topic, value, 10_000, { messages })).outcome, 'delivered')
  }
  const file = join(data, 'log', `${topic}-0`, '00000000000000000000.log')
  const bytes = readFileSync(file)
  const heads: { readonly at: number; readonly head: Head }[] = []
  for (let at = 0, head = headAt(bytes, 0); head !== null; head = headAt(bytes, at)) {
    heads.push({ at, head })
    at += head.bytes.length
  }
  const poisoned = heads.filter(({ head }) => head.bytes.includes('poison'))
  t.equal(poisoned.length, 2)
  const handle = openSync(file, 'r+')
  // One has lost a byte; the other is whole, in a compression that nobody knows.
  writeSync(handle, 'P', poisoned[0]!.at + poisoned[0]!.head.bytes.indexOf('poison'))
  const { at, head } = poisoned[1]!
  head.bytes.writeInt16BE(5, 21)
  head.bytes.writeUInt32BE(crc32c(head.bytes, 21, head.bytes.length), 17)
  writeSync(handle, head.bytes, 0, head.bytes.length, at)
  closeSync(handle)
  for (const reader of [
    Reader.read(broker, [{ topic, partition: 0, offset: 0 }]),
    Reader.join(broker, [topic], 'poison')
  ]) {
    await reader.until(() => reader.values().includes('c'))
    t.strictSame(reader.values(), ['a', 'a', 'b', 'b', 'c', 'c'])
    t.match(reader.gaps, [
      { from: 2, to: 4 },
      { from: 6, to: 8 }
    ])
    await reader.close()
    t.strictSame(reader.wrong, [])
  }
  t.equal(lines.filter(line => line === 'kafka records that cannot be read are passed over').length, 4)
})
