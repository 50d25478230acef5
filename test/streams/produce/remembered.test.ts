import t from 'tap'
import { type Outcome, rememberedMemory } from '../../../streams/produce/remembered.ts'
import { rememberedContract } from '../../contract/remembered.ts'
import { handClock } from '../../helpers/clock.ts'

const ok: Outcome = { status: 200, pairs: [], body: null }
const never = () => {}

rememberedContract(t, async () => {
  const clock = handClock()
  const remembered = rememberedMemory(clock)
  return { remembered, other: remembered, expire: () => clock.move(600_000) }
})

t.test('entries, bytes and waiters are bounded', async t => {
  const few = rememberedMemory(handClock(), { ageMs: 1000, entries: 2, bytes: 1_000_000 })
  for (const id of ['a', 'b', 'c']) {
    few.claim(id, 'x', never)
    few.settle(id, ok)
  }
  t.equal(few.claim('a', 'x', never), 'yours', 'the oldest left')
  t.equal(few.claim('c', 'x', never), ok)
  const small = rememberedMemory(handClock(), { ageMs: 1000, entries: 100, bytes: 3000 })
  for (const id of ['a', 'b']) {
    small.claim(id, 'x', never)
    small.settle(id, { ...ok, body: Buffer.alloc(2000) })
  }
  t.equal(small.claim('a', 'x', never), 'yours')
  t.not(small.claim('b', 'x', never), 'yours')
  const crowd = rememberedMemory(handClock())
  const claims = Array.from({ length: 102 }, () => crowd.claim('a', 'x', never))
  t.equal(claims[0], 'yours')
  t.equal(claims[100], 'waiting')
  t.equal(claims[101], 'crowded')
})
