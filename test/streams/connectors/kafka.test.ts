import t from 'tap'
import { bufferOf, joiningOf, kafkaInput } from '../../../streams/connectors/kafkaInput.ts'
import { kafkaOutput } from '../../../streams/connectors/kafkaOutput.ts'
import type { Message } from '../../../streams/message.ts'
import { type Fate, type Reason, Undelivered } from '../../../streams/undelivered.ts'
import { callWith, faultsOf, message } from '../processors/message.ts'
import { connector, fakeBroker, placed, records, turns } from './fakeBroker.ts'

const base = { addresses: ['memory://m'], topic: 'orders' }
const LATE = Number.MAX_SAFE_INTEGER

function output(options: object = {}, fake = fakeBroker({ partitions: 4 })) {
  const made = kafkaOutput.open(connector({ ...base, ...options }), fake.tools)
  const send = (messages: readonly Message[] = [message(1)], variables: Record<string, string> = {}) =>
    made.send(messages, callWith(variables), LATE)
  const reason = async (...given: Parameters<typeof send>) => {
    try {
      await send(...given)
      return ''
    } catch (cause) {
      return cause instanceof Undelivered ? cause.reason : String(cause)
    }
  }
  return { made, send, reason, fake }
}

t.test('messages go to their partitions, by the defaults of the specification', async t => {
  const { send, fake } = output()
  const [where] = await send([message(1, 'foobar')])
  const [what] = fake.produced
  // FNV-1a of foobar as a signed number: -1080231576.
  t.match(where, { topic: 'orders', partition: 1080231576 % 4, offset: 0 })
  t.match(what, { acks: 'all', compression: 'none', isIdempotent: false, deadline: fake.clock.now() + 5000 })
  t.same(what!.messages[0], { ...message(1, 'foobar'), partition: 1080231576 % 4 })
  t.same(await send([]), [])
})

t.test('options change how messages go', async t => {
  const { made, send, fake } = output({
    ack_replicas: false,
    compression: 'lz4',
    key: '$svc_meta.user-$' + '{! value.id }',
    static_headers: { Other: 'fixed', from: '$svc_context.path' },
    metadata: { exclude_prefixes: ['TR'] },
    partitioner: 'manual',
    partition: '$' + '{! value.to }',
    timeout: '1s'
  })
  await send([message({ id: 7, to: 3 })], { 'svc_meta.user': 'ann', 'svc_context.path': '/x' })
  const [{ messages, deadline, ...how }] = fake.produced as [(typeof fake.produced)[0]]
  t.match(how, { acks: 'leader', compression: 'lz4' })
  t.equal(deadline, fake.clock.now() + 1000)
  t.equal(messages[0]!.partition, 3)
  t.equal(String(messages[0]!.key), 'ann-7')
  const texts = messages[0]!.headers.map(([name, value]) => [name, String(value)])
  t.same(texts, [
    ['Other', 'fixed'],
    ['from', '/x']
  ])
  await made.send([message({ id: 1, to: 0 })], null, fake.clock.now() + 10)
  t.equal(fake.produced[1]!.deadline, fake.clock.now() + 10, 'whichever comes first')
})

t.test('what cannot go is told before it goes', async t => {
  const manual = output({ partitioner: 'manual', partition: '$svc_meta.p' })
  for (const p of ['', '4', '-1', '1.5', 'x'])
    t.equal(await manual.reason([message(1)], { 'svc_meta.p': p }), 'invalid', p)
  const small = output({ max_msg_bytes: 100 })
  const bare = (size: number) => ({ key: null, value: Buffer.alloc(size), headers: [] })
  t.equal(await small.reason([bare(100)]), '')
  t.equal(await small.reason([bare(1), bare(101)]), 'too_large')
  const topic = output({ topic: 'of.$svc_meta.team' })
  t.equal((await topic.send([message(1)], { 'svc_meta.team': 'red' }))[0]!.topic, 'of.red')
  t.equal(await topic.reason([message(1)], { 'svc_meta.team': 'a b' }), 'invalid')
  const any = output({ topic: '$svc_meta.topic' })
  for (const name of ['', '.', '__consumer_offsets'])
    t.equal(await any.reason([message(1)], { 'svc_meta.topic': name }), 'invalid', name)
  t.equal(await output({}, fakeBroker({ partitions: 0 })).reason(), 'misconfigured')
  const away = fakeBroker({ partitions: () => Promise.reject(new Undelivered('unavailable', 'away')) })
  t.equal(await output({}, away).reason(), 'unavailable')
  for (const each of [manual, small, topic, any]) t.equal(each.fake.produced.length < 3, true)
})

t.test('what a broker says of a message is not for its sender', async t => {
  const { send, fake } = output()
  fake.answer = () => Promise.reject(new Undelivered('invalid', 'record refused'))
  const told = (sent: Promise<unknown>) =>
    sent.catch(({ reason, isForeign }: Undelivered) => `${reason} ${isForeign ? 'theirs' : 'ours'}`)
  t.equal(await told(send()), 'invalid theirs')
  t.equal(await told(output({ topic: '$svc_meta.topic' }).send()), 'invalid ours')
})

t.test('so many messages are under way at most, and no more are forgotten when some fail', async t => {
  const { made, reason, send, fake } = output({ max_in_flight: 3 })
  const waiting: PromiseWithResolvers<void>[] = []
  fake.answer = async what => {
    const gate = Promise.withResolvers<void>()
    waiting.push(gate)
    await gate.promise
    return placed(what)
  }
  const first = send([message(1), message(2)])
  t.equal(await reason([message(3), message(4)]), 'busy')
  const second = reason([message(3)])
  t.equal(await reason(), 'busy')
  waiting[0]!.resolve()
  t.equal((await first).length, 2)
  waiting[1]!.reject(new Undelivered('unavailable', 'away'))
  t.equal(await second, 'unavailable')
  const many = send([1, 2, 3, 4, 5].map(value => message(value)))
  let isClosed = false
  const closing = made.close().then(() => {
    isClosed = true
  })
  await turns()
  t.equal(isClosed, false, 'closing waits for what is under way')
  waiting[2]!.resolve()
  t.equal((await many).length, 5, 'what is alone may be more')
  await closing
  t.equal(await reason(), 'unavailable', 'closed')
  t.same(fake.calls, ['closed'])
})

t.test('a batch goes when it is full, or its time is over, and each call gets its own places', async t => {
  const { send, fake } = output({ batching: { count: 3, period: '100ms' }, partitioner: 'round_robin' })
  const calls = [send([message(1)]), send([message(2), message(3)]), send([message(4)])]
  t.equal(fake.produced.length, 1)
  t.same(
    (await Promise.all(calls.slice(0, 2))).map(each => each.map(where => where!.offset)),
    [[0], [1, 2]]
  )
  await fake.clock.move(99)
  t.equal(fake.produced.length, 1)
  await fake.clock.move(1)
  t.equal((await calls[2]!).length, 1)
  t.equal(fake.produced.length, 2)
})

t.test('a batch without a period waits only while another is under way', async t => {
  const { send, fake } = output({ batching: { count: 100 } })
  const gate = Promise.withResolvers<void>()
  fake.answer = what => gate.promise.then(() => placed(what))
  const calls = [send(), send(), send()]
  t.equal(fake.produced.length, 1)
  gate.resolve()
  await Promise.all(calls)
  t.same(
    fake.produced.map(({ messages }) => messages.length),
    [1, 2]
  )
})

t.test('a topic is created at start, with patience, and the fault is seen until then', async t => {
  const fake = fakeBroker()
  let isThere = false
  fake.creation = () => (isThere ? Promise.resolve() : Promise.reject(new Undelivered('unavailable', 'away')))
  const { made } = output({ custom_topic_creation: { enabled: true, partitions: 3 } }, fake)
  await turns()
  t.match(made.fault(), /orders.*away/)
  isThere = true
  await fake.clock.move(1000)
  t.equal(made.fault(), null)
  t.same(fake.calls, ['create orders 3 -1', 'create orders 3 -1'])
  fake.fault = 'nobody there'
  t.equal(made.fault(), 'nobody there')
  await made.close()
})

t.test('faults of outputs are told where they stand', async t => {
  for (const [options, places] of [
    [{}, []],
    [{ topic: '$svc_meta.t', key: '', partition: '', batching: { period: '' }, timeout: '1s' }, []],
    [{ addresses: ['nowhere'], topic: 'a b' }, ['/addresses', '/topic']],
    [{ topic: '$' + '{! key }' }, ['/topic']],
    [{ topic: '$svc_meta.t', custom_topic_creation: { enabled: true } }, ['/custom_topic_creation']],
    [{ key: '$secret_env.X', static_headers: { 'a/b': '$svc_meta.' } }, ['/key', '/static_headers/a~1b']],
    [{ partitioner: 'manual' }, ['/partition']],
    [{ partition: '1' }, ['/partition']],
    [{ partitioner: 'manual', partition: '-1' }, ['/partition']],
    [{ partitioner: 'manual', partition: '0' }, []],
    [{ partitioner: 'manual', partition: '$svc_meta.p' }, []],
    [
      { custom_topic_creation: { enabled: true, partitions: 0, replication_factor: 0 } },
      ['/custom_topic_creation/partitions', '/custom_topic_creation/replication_factor']
    ],
    [{ custom_topic_creation: { partitions: 3 } }, ['/custom_topic_creation/partitions']],
    [{ custom_topic_creation: { enabled: true, partitions: 3, replication_factor: -1 } }, []],
    [{ timeout: '0s', batching: { period: '0s' } }, ['/timeout', '/batching/period']],
    [{ max_msg_bytes: 0 }, ['/max_msg_bytes']],
    [{ idempotent_write: true, ack_replicas: false }, ['/idempotent_write']]
  ] as const)
    t.same(
      Object.keys(faultsOf(fault => kafkaOutput.check!({ ...base, ...options }, fault))),
      places,
      JSON.stringify(options)
    )
})

const source = { addresses: ['memory://m'], topics: ['t'] }

function input(options: object = {}, fake = fakeBroker()) {
  const got: string[][] = []
  /** What the next deliveries answer; none: delivered. */
  const answers: (Undelivered | Promise<void>)[] = []
  const made = kafkaInput.open(
    connector({ ...source, ...options }),
    messages => {
      got.push(messages.map(({ value }) => String(value)))
      const answer = answers.shift()
      return answer instanceof Undelivered ? Promise.reject(answer) : (answer ?? Promise.resolve())
    },
    fake.tools
  )
  fake.taker!.assigned([0, 1].map(partition => ({ topic: 't', partition, offset: 0 })))
  const come = (from: number, to: number, partition = 0) =>
    fake.taker!.records({ topic: 't', partition }, records(from, to, partition), to)
  return { made, fake, got, answers, come, taker: fake.taker! }
}

const away = () => new Undelivered('unavailable', 'away')
const values = (from: number, to: number) => records(from, to).map(({ value }) => String(value))

t.test('a source joins its group, hands on each partition in order and commits behind it', async t => {
  const { made, fake, got, answers, come } = input({ checkpoint_limit: 3 })
  t.match(fake.joined, { topics: ['t'], group: 'svc.a1.orders', start: 'earliest', sessionMs: 10_000 })
  const slow = Promise.withResolvers<void>()
  answers.push(slow.promise)
  come(0, 5)
  come(0, 1, 1)
  await turns()
  t.same(got, [values(0, 3), ['0']], 'one part of a partition at a time; another does not wait for it')
  await fake.clock.move(1000)
  t.same(fake.commits, [[{ topic: 't', partition: 1, offset: 1 }]])
  slow.resolve()
  await turns()
  t.same(got[2], values(3, 5))
  await fake.clock.move(1000)
  t.same(fake.commits[1], [{ topic: 't', partition: 0, offset: 5 }])
  await made.close()
  t.same(fake.calls, ['left', 'closed'])
})

t.test('what was not delivered is tried again until it is, and nothing passes it by', async t => {
  const { made, fake, got, answers, come } = input()
  answers.push(away(), away(), away())
  come(0, 2)
  await turns()
  come(2, 4)
  t.match(made.fault(), /not delivered: away/)
  for (const wait of [1000, 2000, 4000]) {
    const before = got.length
    await fake.clock.move(wait - 1)
    t.equal(got.length, before)
    await fake.clock.move(1)
    await turns()
  }
  t.same(got, [values(0, 2), ['0'], ['0'], ['0'], ['1'], values(2, 4)], 'one by one: who fails holds the others up')
  t.match(made.status!(), { redelivered: 4, dropped: 0, partitions: 2, lag: 0 })
  t.equal(made.fault(), null)
  t.equal(fake.logged.length, 1, 'told once')
  await made.close()
  t.same(fake.commits.at(-1), [{ topic: 't', partition: 0, offset: 4 }])
})

t.test('a message that can never be delivered is dropped alone', async t => {
  const fake = fakeBroker()
  const got: string[] = []
  const made = kafkaInput.open(
    connector(source),
    async messages => {
      const all = messages.map(({ value }) => String(value))
      if (all.includes('37')) throw new Undelivered('invalid', 'poison')
      if (all.includes('99')) throw new Undelivered('too_large', 'poison')
      got.push(...all)
    },
    fake.tools
  )
  fake.taker!.assigned([{ topic: 't', partition: 0, offset: 0 }])
  fake.taker!.records({ topic: 't', partition: 0 }, records(0, 100), 100)
  await turns(30)
  t.same(
    got,
    values(0, 99).filter(value => value !== '37')
  )
  t.same(
    fake.logged.map(([, { offset, dropped }]) => [offset, dropped]),
    [[37, 1]],
    'told once in a while'
  )
  await made.close()
  t.same(fake.commits, [[{ topic: 't', partition: 0, offset: 100 }]])
})

/** A receiver that refuses some values, one by one, and tells which were delivered. */
function telling(refuse: Record<string, Reason>) {
  const tries: string[] = []
  const got: string[] = []
  return {
    tries,
    got,
    async take(messages: readonly Message[]) {
      const each = messages.map(({ value }): Fate => {
        const text = String(value)
        tries.push(text)
        const reason = refuse[text]
        if (reason === undefined) got.push(text)
        return reason === undefined ? null : new Undelivered(reason, text)
      })
      const bad = each.find(fate => fate !== null)
      if (bad) throw new Undelivered(bad.reason, bad.message, { each })
    }
  }
}

t.test('what a failed batch did deliver does not come again, and only what fails is tried again', async t => {
  const fake = fakeBroker()
  const refuse: Record<string, Reason> = { 3: 'failed', 7: 'rejected' }
  const { take, tries, got } = telling(refuse)
  const made = kafkaInput.open(connector(source), take, fake.tools)
  fake.taker!.assigned([{ topic: 't', partition: 0, offset: 0 }])
  fake.taker!.records({ topic: 't', partition: 0 }, records(0, 10), 15)
  for (const ms of [1000, 2000, 4000]) {
    await turns()
    await fake.clock.move(ms)
  }
  t.same(tries, [...values(0, 10), '3', '3', '3'])
  t.same(fake.commits, [[{ topic: 't', partition: 0, offset: 3 }]], 'what is before it is through')
  t.match(made.status!(), { redelivered: 3, dropped: 1, lag: 12, partitions: 1 })
  t.match(made.fault(), /not delivered: 3/)
  delete refuse['3']
  await fake.clock.move(8000)
  await turns()
  t.same(got, ['0', '1', '2', '4', '5', '6', '8', '9', '3'])
  t.equal(made.fault(), null)
  await made.close()
  t.same(fake.commits.at(-1), [{ topic: 't', partition: 0, offset: 10 }])
})

t.test('without replays what the receiver refused is dropped, what it never saw is not', async t => {
  for (const [reason, isDropped] of [
    ['failed', true],
    ['unknown', true],
    ['rejected', true],
    ['busy', false],
    ['unavailable', false],
    ['misconfigured', false]
  ] as const) {
    const fake = fakeBroker()
    const refuse: Record<string, Reason> = { 1: reason }
    const { take, got } = telling(refuse)
    const made = kafkaInput.open(connector({ ...source, auto_replay_nacks: false }), take, fake.tools)
    fake.taker!.assigned([{ topic: 't', partition: 0, offset: 0 }])
    fake.taker!.records({ topic: 't', partition: 0 }, records(0, 3), 3)
    await turns()
    delete refuse['1']
    await fake.clock.move(1000)
    await turns()
    t.same(got, isDropped ? ['0', '2'] : ['0', '2', '1'], reason)
    t.equal(made.status!().dropped, isDropped ? 1 : 0)
    await made.close()
    t.same(fake.commits.at(-1), [{ topic: 't', partition: 0, offset: 3 }])
  }
})

t.test('a topic that was made anew is handed on from its beginning, committed before or not', async t => {
  for (const isCommitted of [false, true]) {
    const { made, fake, got, come, taker } = input()
    come(0, 3)
    await turns()
    if (isCommitted) await fake.clock.move(1000)
    else taker.gap({ topic: 't', partition: 0 }, 0, 0)
    taker.assigned([{ topic: 't', partition: 0, offset: 0 }])
    come(0, 2)
    await turns()
    t.same(got, [values(0, 3), values(0, 2)])
    await made.close()
    t.same(fake.commits.at(-1), [{ topic: 't', partition: 0, offset: 2 }])
  }
})

t.test('the log names the message that was refused, not the first one of its batch', async t => {
  const { made, fake, answers, come } = input()
  const refused = new Undelivered('unknown', 'answered 500')
  answers.push(new Undelivered('unknown', 'answered 500', { each: [null, null, refused, undefined] }))
  come(0, 4)
  await turns()
  t.match(fake.logged, [[/tried again/, { partition: 0, offset: 2 }]])
  await made.close()
})

t.test('what waits for a bound of ours is offered whole, and counts as no failure', async t => {
  const { made, fake, got, answers, come } = input({ auto_replay_nacks: false })
  answers.push(new Undelivered('busy', 'full'), new Undelivered('busy', 'full'))
  come(0, 3)
  for (let i = 0; i < 3; i++) {
    await turns()
    await fake.clock.move(50)
  }
  t.same(got, [values(0, 3), values(0, 3), values(0, 3)])
  t.match(made.status!(), { redelivered: 0, dropped: 0 })
  t.same(fake.logged, [])
  await made.close()
  t.same(fake.commits, [[{ topic: 't', partition: 0, offset: 3 }]])
})

t.test('a partition with enough records is paused, and goes on when half is gone', async t => {
  const { made, fake, answers, come, got } = input({ fetch_buffer_cap: 10, checkpoint_limit: 4 })
  const gates = [0, 1, 2, 3].map(() => Promise.withResolvers<void>())
  answers.push(...gates.map(({ promise }) => promise))
  come(0, 4)
  come(4, 14)
  t.same([...fake.paused], ['t:0'])
  gates[0]!.resolve()
  await turns()
  t.same([...fake.paused], ['t:0'], 'six are left')
  gates[1]!.resolve()
  await turns()
  t.same([...fake.paused], [])
  gates[2]!.resolve()
  gates[3]!.resolve()
  await turns()
  t.same(got.flat(), values(0, 14))
  await made.close()
})

t.test('a rebalance takes partitions away and brings them back without loss or repeats', async t => {
  const { made, fake, got, answers, come, taker } = input({ fetch_buffer_cap: 3, checkpoint_limit: 1 })
  const gate = Promise.withResolvers<void>()
  answers.push(gate.promise)
  come(0, 5)
  t.same([...fake.paused], ['t:0'])
  taker.assigned([{ topic: 't', partition: 1, offset: 0 }])
  t.same([...fake.paused], [], 'it comes back to an empty lane')
  gate.resolve()
  await turns()
  t.same(got, [['0']], 'nothing of a lost partition goes on')
  taker.assigned([0, 1].map(partition => ({ topic: 't', partition, offset: 0 })))
  come(0, 2)
  await turns()
  t.same(got, [['0'], ['0'], ['1']], 'from the last commit')
  // The same partitions again, read from the commit: what is here is not taken twice.
  taker.assigned([0, 1].map(partition => ({ topic: 't', partition, offset: 0 })))
  come(0, 4)
  await turns()
  t.same(got.flat(), ['0', '0', '1', '2', '3'])
  await made.close()
  t.same(fake.commits, [[{ topic: 't', partition: 0, offset: 4 }]], 'and nothing was committed for what was lost')
})

t.test('a commit that was not kept is made up for', async t => {
  const { made, fake, come } = input({ commit_period: '200ms' })
  fake.commit = () => Promise.reject(away())
  come(0, 2)
  await turns()
  await fake.clock.move(200)
  fake.commit = () => Promise.resolve()
  await turns()
  await fake.clock.move(200)
  t.same(fake.commits, [[{ topic: 't', partition: 0, offset: 2 }], [{ topic: 't', partition: 0, offset: 2 }]])
  await made.close()
})

t.test('options of inputs, with their defaults', async t => {
  t.same(joiningOf({ ...source, topics: ['a, b', 'a'], consumer_group: '' }, 'fallback'), {
    topics: ['a', 'b'],
    group: 'fallback',
    start: 'earliest',
    isolation: 'read_uncommitted',
    sessionMs: 10_000,
    heartbeatMs: 3000,
    rebalanceMs: 60_000,
    rackId: ''
  })
  t.match(joiningOf({ ...source, consumer_group: 'g', start_from_oldest: false }, 'x'), { group: 'g', start: 'latest' })
  t.match(bufferOf(source), { commitMs: 1000, bufferMessages: 5000, checkpointLimit: 1024 })
  for (const [options, places] of [
    [{}, []],
    [{ topics: ['a,b', 'c'] }, []],
    [{ topics: ['foo:0', 'foo:0-5', 'a b', ''] }, ['/topics/0', '/topics/1', '/topics/2', '/topics/3']],
    [{ addresses: [] }, ['/addresses']],
    [
      { commit_period: '', group: { session_timeout: '1s', heartbeat_interval: '2s' } },
      ['/commit_period', '/group/heartbeat_interval']
    ]
  ] as const)
    t.same(
      Object.keys(faultsOf(fault => kafkaInput.check!({ ...source, ...options }, fault))),
      places,
      JSON.stringify(options)
    )
})
