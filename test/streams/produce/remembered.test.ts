import t from 'tap'
import { type Outcome, rememberedMemory } from '../../../streams/produce/remembered.ts'
import { handClock } from '../../helpers/clock.ts'

const ok: Outcome = { status: 200, pairs: [], body: null }
const never = () => {}

t.test('one tries, others wait, and what is final is kept for its time', async t => {
  const clock = handClock()
  const remembered = rememberedMemory(clock)
  const told: (Outcome | null)[] = []
  t.equal(remembered.claim('a', 'x', never), 'yours')
  t.equal(remembered.claim('a', 'y', never), 'other')
  t.equal(
    remembered.claim('a', 'x', outcome => told.push(outcome)),
    'waiting'
  )
  remembered.settle('a', ok)
  t.same(told, [ok])
  t.equal(remembered.claim('a', 'x', never), ok)
  t.equal(remembered.claim('a', 'y', never), 'other')
  await clock.move(599_999)
  t.equal(remembered.claim('a', 'x', never), ok)
  await clock.move(1)
  t.equal(remembered.claim('a', 'x', never), 'yours')
  remembered.settle('a', null)
  t.equal(remembered.claim('a', 'y', never), 'yours', 'what is not final is forgotten')
})

t.test('of a request that arrived in part, the part is told to whoever tries again', async t => {
  const remembered = rememberedMemory(handClock())
  remembered.claim('a', 'x', never)
  const partial = { results: ['delivered' as const, null] }
  remembered.settle('a', null, partial)
  t.equal(remembered.claim('a', 'y', never), 'other')
  t.equal(remembered.claim('a', 'x', never), partial)
  t.equal(remembered.claim('a', 'x', never), 'waiting', 'it is under way')
  remembered.settle('a', ok, partial)
  t.equal(remembered.claim('a', 'x', never), ok)
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
