import t, { type Test } from 'tap'
import type { Broker, BrokerState } from '../../../streams/broker.ts'
import { type BrokerChange, brokers } from '../../../streams/brokers/brokers.ts'
import type { BrokerOptions } from '../../../streams/connector.ts'
import { type Reason, Undelivered } from '../../../streams/undelivered.ts'
import { Reader } from '../../contract/brokerReader.ts'
import { handClock } from '../../helpers/clock.ts'

const memory = {
  durable: false,
  partitions: 2,
  retention_messages: 100,
  retention_bytes: 100_000,
  retention_age: 0
}

/** Clusters that are none: what is opened, closed and told of them. */
function registry(t: Test) {
  const clock = handClock()
  const opened: {
    options: BrokerOptions
    isOpen: boolean
    /** What every message is answered with. */
    fault: Error | null
    topicFault: Error | null
    turn(state: BrokerState): void
  }[] = []
  const changes: BrokerChange[] = []
  const log = { debug() {}, info() {}, warn() {}, error() {} }
  function kafka(options: BrokerOptions): Broker {
    let state: BrokerState = { isUp: true, fault: null }
    const listeners = new Set<(state: BrokerState) => void>()
    const one = {
      options,
      isOpen: true,
      fault: null as Error | null,
      topicFault: null as Error | null,
      turn(next: BrokerState) {
        state = next
        for (const listener of listeners) listener(next)
      }
    }
    opened.push(one)
    const reading = { pause() {}, resume() {}, commit: async () => {}, close: async () => {} }
    return {
      name: options.addresses.join(),
      async produce() {
        if (one.fault !== null) throw one.fault
        return []
      },
      partitions: () => (one.topicFault === null ? 1 : Promise.reject(one.topicFault)),
      spans: async () => [],
      positionsAt: async () => [],
      join: () => reading,
      read: () => reading,
      state: () => state,
      onState(listener) {
        listeners.add(listener)
        return () => listeners.delete(listener)
      },
      createTopic: async () => {},
      async close() {
        one.isOpen = false
      }
    }
  }
  const all = brokers({ clock, log, memory, durable: null, kafka, status: change => changes.push(change) })
  t.teardown(() => all.close())
  return { all, clock, opened, changes }
}

const message = (value: string, partition = 0) => ({ key: null, value: Buffer.from(value), headers: [], partition })
const produce = (broker: Broker, topic: string, value: string) =>
  broker.produce({
    topic,
    messages: [message(value)],
    acks: 'all',
    compression: 'none',
    isIdempotent: false,
    deadline: Number.MAX_SAFE_INTEGER
  })

function reason(call: () => unknown): string {
  try {
    call()
  } catch (error) {
    return error instanceof Undelivered ? error.reason : `${error}`
  }
  return 'none'
}

t.test('one broker a cluster and credentials, however they are written', async t => {
  const { all, opened } = registry(t)
  const sasl = { mechanism: 'PLAIN', user: 'u', password: 'p' }
  const same: BrokerOptions[] = [
    { addresses: ['a:1', 'b:2'], sasl, tls: { enabled: true, root_cas: 'x' } },
    { addresses: ['b:2, a:1'], sasl: { ...sasl }, tls: { root_cas: 'x', enabled: true } },
    {
      addresses: ['b:2', 'a:1', 'a:1'],
      sasl: { password: 'p', user: 'u', mechanism: 'PLAIN' },
      tls: { enabled: true, root_cas: 'x' }
    }
  ]
  for (const options of same) all.get(options)
  t.equal(opened.length, 1)
  t.strictSame(opened[0]!.options, { ...same[0], addresses: ['a:1', 'b:2'] })
  const others: BrokerOptions[] = [
    { addresses: ['a:1'] },
    { addresses: ['a:1'], client_id: 'x' },
    { addresses: ['a:1'], sasl },
    { addresses: ['a:1'], sasl: { ...sasl, password: 'q' } },
    { addresses: ['a:1'], tls: { enabled: true } }
  ]
  for (const options of others) all.get(options)
  t.equal(opened.length, 1 + others.length)
})

t.test('a broker that was given back stays for a minute, and longer when it is asked for again', async t => {
  const { all, clock, opened } = registry(t)
  const options = { addresses: ['a:1'] }
  const [one, two] = [all.get(options), all.get(options)]
  await one.close()
  await one.close()
  await clock.move(120_000)
  t.ok(opened[0]!.isOpen, 'another has it')
  await two.close()
  await clock.move(59_999)
  const three = all.get(options)
  await clock.move(120_000)
  t.equal(opened.length, 1)
  t.ok(opened[0]!.isOpen)
  await three.close()
  await clock.move(60_000)
  t.notOk(opened[0]!.isOpen)
  const four = all.get(options)
  t.equal(opened.length, 2)
  await all.close()
  t.notOk(opened[1]!.isOpen, 'the end of all')
  await four.close()
  t.equal(
    reason(() => all.get(options)),
    'unavailable'
  )
})

t.test('an embedded broker is one by its name, and outlives its users', async t => {
  const { all, clock } = registry(t)
  const first = all.get({ addresses: ['memory://a'] })
  await produce(first, 't', 'x')
  await first.close()
  await clock.move(3_600_000)
  const again = all.get({ addresses: ['memory://a'], sasl: { user: 'u' }, client_id: 'c' })
  t.equal(again.name, 'memory://a')
  const reader = Reader.read(again, [{ topic: 't', partition: 0, offset: 0 }])
  await reader.count(1)
  t.equal(await again.partitions('t'), 2)
  t.match(await all.get({ addresses: ['memory://b'] }).spans('t'), [{ high: 0 }, { high: 0 }])
})

t.test('an embedded broker is seen by its organisation alone', async t => {
  const { all } = registry(t)
  await produce(all.get({ addresses: ['memory://a'] }, 'default'), 't', 'x')
  const other = all.get({ addresses: ['memory://a'] }, 'other')
  t.match(await other.spans('t'), [{ high: 0 }, { high: 0 }])
  await produce(other, 't', 'y')
  t.match(await all.get({ addresses: ['memory://a'] }, 'other').spans('t'), [{ high: 1 }, { high: 0 }])
})

t.test('a broker for one stream goes on with its next version, and ends a minute after the last', async t => {
  const { all, clock } = registry(t)
  const first = all.own('api', 'stream')
  await produce(first, 't', 'x')
  const next = all.own('api', 'stream')
  await first.close()
  await clock.move(3_600_000)
  t.match(await next.spans('t'), [{ high: 1 }, { high: 0 }])
  t.match(await all.own('api', 'other').spans('t'), [{ high: 0 }, { high: 0 }])
  await next.close()
  await clock.move(60_000)
  t.match(await all.own('api', 'stream').spans('t'), [{ high: 0 }, { high: 0 }])
})

t.test('addresses that are none are refused', async t => {
  const { all } = registry(t)
  for (const addresses of [['a'], ['memory://a', 'b:1'], []])
    t.equal(
      reason(() => all.get({ addresses })),
      'misconfigured'
    )
})

t.test('the state tells at once why a user’s own messages did not arrive, until one does', async t => {
  const { all, opened } = registry(t)
  const handle = all.get({ addresses: ['a:1'] })
  const beside = all.get({ addresses: ['a:1'] })
  const [one] = opened
  const fails = (reason: Reason) => {
    one!.fault = new Undelivered(reason, `it was ${reason}`)
    return t.rejects(produce(handle, 't', 'x'), new Undelivered(reason, `it was ${reason}`))
  }
  for (const reason of ['invalid', 'too_large', 'busy'] as const) await fails(reason)
  t.strictSame(handle.state(), { isUp: true, fault: null }, 'the sender’s own matter')
  await fails('unknown')
  t.strictSame(handle.state(), { isUp: true, fault: 'it was unknown' })
  t.strictSame(beside.state(), { isUp: true, fault: null }, 'another user has had no failure')
  one!.fault = null
  await produce(handle, 't', 'x')
  t.strictSame(handle.state(), { isUp: true, fault: null })
  await fails('unavailable')
  one!.turn({ isUp: false, fault: 'away' })
  t.strictSame(handle.state(), { isUp: false, fault: 'away' })
  one!.turn({ isUp: true, fault: null })
  t.strictSame(handle.state(), { isUp: true, fault: null }, 'it came back')
  await fails('misconfigured')
  one!.topicFault = new Undelivered('misconfigured', 'no such topic')
  one!.fault = null
  await produce(handle, 't', 'x')
  await t.rejects(async () => handle.partitions('other'))
  t.strictSame(handle.state(), { isUp: true, fault: 'no such topic' })
})

t.test('changes are told once each, with the name, as long as the broker is there', async t => {
  const { all, clock, opened, changes } = registry(t)
  const handle = all.get({ addresses: ['a:1'] })
  all.get({ addresses: ['a:1'] })
  const heard: BrokerState[] = []
  handle.onState(state => heard.push(state))
  const { turn } = opened[0]!
  turn({ isUp: false, fault: 'away' })
  turn({ isUp: false, fault: 'still away' })
  turn({ isUp: true, fault: null })
  turn({ isUp: true, fault: null })
  t.strictSame(changes, [
    { broker: 'a:1', isUp: false, fault: 'away' },
    { broker: 'a:1', isUp: true, fault: null }
  ])
  t.equal(heard.length, 4)
  await handle.close()
  turn({ isUp: false, fault: 'again' })
  t.equal(heard.length, 4, 'who gave it back hears nothing')
  t.equal(changes.length, 3)
  await all.close()
  turn({ isUp: true, fault: null })
  t.equal(changes.length, 3)
  await clock.move(60_000)
})
