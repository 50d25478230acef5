import t from 'tap'
import type { Deliver, Output } from '../../../streams/connector.ts'
import { brokerInput } from '../../../streams/connectors/brokerInput.ts'
import { brokerOutput } from '../../../streams/connectors/brokerOutput.ts'
import { type Fate, type Reason, Undelivered } from '../../../streams/undelivered.ts'
import { handClock } from '../../helpers/clock.ts'
import { until } from '../produce/front.ts'
import { connector, message, world } from './world.ts'

/** An output that fails so often for these reasons, then takes everything. */
interface Child extends Output {
  readonly got: string[]
  fails: Reason[]
  /** Set: calls wait until it is called. */
  hold: boolean
  readonly held: (() => void)[]
  isClosed: boolean
}

function child(partition: number): Child {
  const made: Child = {
    got: [],
    fails: [],
    hold: false,
    held: [],
    isClosed: false,
    async send(messages) {
      if (made.hold) await new Promise<void>(resolve => made.held.push(resolve))
      const reason = made.fails.shift()
      if (reason !== undefined) throw new Undelivered(reason, `child ${partition}: ${reason}`)
      made.got.push(...messages.map(({ value }) => String(value)))
      return messages.map((_, offset) => ({ topic: 't', partition, offset, timestamp: 1 }))
    },
    fault: () => (made.fails.length > 0 ? `child ${partition}` : null),
    close: async () => {
      made.isClosed = true
    }
  }
  return made
}

function fan(pattern: string | undefined, count = 2, copies?: number) {
  const clock = handClock()
  const children: Child[] = []
  const tools = world(
    {
      output: () => {
        const one = child(children.length)
        children.push(one)
        return one
      }
    },
    clock
  )
  const below = Array.from({ length: count }, () => connector('fake', {}))
  const output = brokerOutput.open(connector('broker', { pattern, copies }, below), tools)
  const send = (text: string) => output.send([message(text)], null, clock.now() + 1000)
  return { output, children, clock, send }
}

const reason = (sent: Promise<unknown>) =>
  sent.then(
    () => 'sent',
    (cause: unknown) => (cause instanceof Undelivered ? cause.reason : String(cause))
  )

t.test('fan_out gives a message to all, each tried again by itself until the deadline', async t => {
  for (const pattern of [undefined, 'fan_out', 'fan_out_sequential']) {
    const { children, clock, send } = fan(pattern)
    children[0]!.fails = ['unavailable', 'failed']
    const sent = send('a')
    await clock.waiting(100)
    await clock.move(100)
    await clock.waiting(200)
    await clock.move(200)
    t.match(await sent, [{ partition: 0 }], 'the place in the first')
    t.same(
      children.map(({ got }) => got),
      [['a'], ['a']]
    )
  }
})

t.test('fan_out ends at the deadline, and at once with what will not pass', async t => {
  const { children, clock, send } = fan('fan_out')
  children[1]!.fails = Array.from({ length: 50 }, (): Reason => 'unavailable')
  const sent = reason(send('a'))
  for (const wait of [100, 200, 400]) {
    await clock.waiting(wait)
    await clock.move(wait)
  }
  t.equal(await sent, 'unknown', 'the other one has it: trying again is not safe')
  t.same(children[0]!.got, ['a'])
  for (const why of ['invalid', 'too_large', 'misconfigured'] as const) {
    const two = fan('fan_out')
    two.children[0]!.fails = [why]
    t.equal(await reason(two.send('a')), why)
  }
})

t.test('fail fast tries nothing again, and one after another stops at the first failure', async t => {
  const fast = fan('fan_out_fail_fast')
  fast.children[0]!.fails = ['failed']
  t.equal(await reason(fast.send('a')), 'failed')
  t.same(fast.children[1]!.got, ['a'])
  const sequential = fan('fan_out_sequential_fail_fast', 3)
  sequential.children[1]!.fails = ['unavailable']
  t.equal(await reason(sequential.send('a')), 'unknown')
  t.same(
    sequential.children.map(({ got }) => got),
    [['a'], [], []]
  )
  const first = fan('fan_out_sequential_fail_fast')
  first.children[0]!.fails = ['unavailable']
  t.equal(await reason(first.send('a')), 'unavailable', 'nobody has it')
})

t.test('one after another begins the second only when the first is done', async t => {
  const { children, send } = fan('fan_out_sequential')
  children[0]!.hold = true
  const sent = send('a')
  await until(() => children[0]!.held.length === 1)
  t.same(children[1]!.got, [])
  children[0]!.held[0]!()
  await sent
  t.same(children[1]!.got, ['a'])
})

t.test('round robin goes in turn, and on to the next when one fails', async t => {
  const { children, send, output } = fan('round_robin', 3)
  for (const text of ['a', 'b', 'c', 'd']) await send(text)
  t.same(
    children.map(({ got }) => got),
    [['a', 'd'], ['b'], ['c']]
  )
  children[1]!.fails = ['unavailable']
  t.equal(output.fault(), null, 'others work')
  t.match(await send('e'), [{ partition: 2 }])
  for (const one of children) one.fails = ['busy']
  t.match(output.fault(), 'child')
  t.equal(await reason(send('f')), 'busy')
  children[0]!.fails = ['unknown']
  children[1]!.fails = ['unavailable']
  children[2]!.fails = ['unavailable']
  t.equal(await reason(send('g')), 'unknown', 'one of them may have it')
})

t.test('with a choice one that hangs takes its share of the time, and is then the last choice for a while', async t => {
  for (const pattern of ['round_robin', 'greedy']) {
    const { children, send, clock, output } = fan(pattern, 2)
    const deadlines: number[] = []
    const first = children[0]!
    const usual = first.send
    let isDead = true
    first.send = async (messages, call, deadline) => {
      deadlines.push(deadline - clock.now())
      if (!isDead) return usual(messages, call, deadline)
      throw new Undelivered('unknown', 'no answer')
    }
    for (const text of ['a', 'b', 'c', 'd']) await send(text)
    t.same(children[1]!.got, ['a', 'b', 'c', 'd'], pattern)
    t.same(deadlines, [500], 'the other one has as much')
    await clock.move(5000)
    await Promise.all([send('e'), send('f'), send('g')])
    t.equal(deadlines.length, 2, 'one call alone finds out')
    isDead = false
    await clock.move(5000)
    for (const text of ['h', 'i']) await send(text)
    t.equal(deadlines.length, 2, 'longer each time')
    await clock.move(5000)
    for (const text of ['j', 'k']) await send(text)
    t.ok(first.got.length > 0, 'it is back')
    await output.close()
  }
})

t.test('what one output has of several messages does not go to it, or to the next, again', async t => {
  const partly = (made: Child, taken: number): void => {
    const usual = made.send
    made.send = async (messages, call, deadline) => {
      made.send = usual
      await usual(messages.slice(0, taken), call, deadline)
      const each = messages.map(
        (_, i): Fate => (i < taken ? null : i === taken ? new Undelivered('failed', 'no') : undefined)
      )
      throw new Undelivered('failed', 'no', { each })
    }
  }
  const messages = ['a', 'b', 'c', 'd'].map(text => message(text))
  const choice = fan('round_robin')
  partly(choice.children[0]!, 2)
  await choice.output.send(messages, null, choice.clock.now() + 1000)
  t.same(
    choice.children.map(({ got }) => got),
    [
      ['a', 'b'],
      ['c', 'd']
    ]
  )
  const all = fan('fan_out')
  partly(all.children[0]!, 1)
  const sent = all.output.send(messages, null, all.clock.now() + 1000)
  await all.clock.waiting(100)
  await all.clock.move(100)
  t.equal((await sent).length, 4)
  t.same(
    all.children.map(({ got }) => got),
    [
      ['a', 'b', 'c', 'd'],
      ['a', 'b', 'c', 'd']
    ]
  )
  const hasty = fan('fan_out')
  partly(hasty.children[0]!, 3)
  await hasty.output.send(messages, null, hasty.clock.now()).then(
    () => t.fail('no time for another try'),
    ({ each }: Undelivered) =>
      t.same(
        each!.map(fate => (fate === null ? null : fate?.reason)),
        [null, null, null, 'failed']
      )
  )
})

t.test('greedy takes the one that is free', async t => {
  const { children, send } = fan('greedy', 2)
  children[0]!.hold = true
  const slow = send('a')
  await until(() => children[0]!.held.length === 1)
  for (const text of ['b', 'c']) await send(text)
  t.same(children[1]!.got, ['b', 'c'])
  children[0]!.held[0]!()
  await slow
  children[0]!.hold = false
  children[0]!.fails = ['busy']
  await send('d')
  t.same(children[1]!.got, ['b', 'c', 'd'])
})

t.test('copies count as outputs of their own, and closing ends them all and every wait', async t => {
  const { output, children, send } = fan('fan_out', 2, 3)
  await send('a')
  t.equal(children.length, 6)
  t.ok(children.every(({ got }) => got[0] === 'a'))
  children[0]!.fails = ['unavailable', 'unavailable']
  const sent = reason(send('b'))
  await until(() => children[0]!.fails.length === 1)
  await output.close()
  t.equal(await sent, 'unknown')
  t.ok(children.every(({ isClosed }) => isClosed))
})

t.test('a broker of inputs brings what each of them brings', async t => {
  const delivers: Deliver[] = []
  let closed = 0
  let fault: string | null = null
  const tools = world({
    input: (_, deliver) => {
      delivers.push(deliver)
      return { fault: () => fault, close: async () => void closed++ }
    }
  })
  const got: string[] = []
  const input = brokerInput.open(
    connector('broker', { copies: 2 }, [connector('a', {}), connector('b', {})]),
    async ([one]) => void got.push(String(one!.value)),
    tools
  )
  t.equal(delivers.length, 4)
  for (const [i, deliver] of delivers.entries()) await deliver([message(String(i))])
  t.same(got, ['0', '1', '2', '3'])
  t.equal(input.fault(), null)
  fault = 'away'
  t.equal(input.fault(), 'away')
  await input.close()
  t.equal(closed, 4)
})
