import t from 'tap'
import { spread } from '../../../streams/hub/spread.ts'
import { handClock } from '../../helpers/clock.ts'
import { FakeClient, turns } from './groupFakes.ts'

function clients(count: number): FakeClient[] {
  const made = Array.from({ length: count }, () => new FakeClient())
  for (const client of made) client.leavesWhenClosed = false
  return made
}

const closed = (all: readonly FakeClient[]) => all.filter(({ closed }) => closed.length > 0).length

t.test('clients are closed evenly over the time, each once, with the reason', async t => {
  for (const [count, ms] of [
    [10, 1000],
    [1000, 10_000],
    [3, 60_000]
  ] as const) {
    const all = clients(count)
    const clock = handClock()
    const done = spread(all, 'stopping', ms, clock)
    for (const part of [0.25, 0.5, 0.75]) {
      await clock.move(ms / 4)
      t.ok(Math.abs(closed(all) - count * part) <= Math.max(2, count / 50), `${closed(all)} of ${count} at ${part}`)
    }
    await clock.move(ms / 4)
    await done
    t.ok(all.every(({ closed }) => closed.join() === 'stopping'))
  }
})

t.test('without time all are closed as fast as fairness allows', async t => {
  const few = clients(100)
  const clock = handClock()
  const done = spread(few, 'disabled', 0, clock)
  t.equal(closed(few), 100, 'before it returns')
  await done
  const many = clients(1200)
  const all = spread(many, 'disabled', 0, clock)
  t.equal(closed(many), 500)
  await all
  t.equal(closed(many), 1200)
})

t.test('nobody to close is done at once, and one that leaves meanwhile holds nothing up', async t => {
  const clock = handClock()
  await spread([], 'stopping', 10_000, clock)
  const set = new Set(clients(2))
  const done = spread(set, 'stopping', 100, clock)
  set.clear()
  await clock.move(100)
  await turns()
  await done
  t.equal(clock.waiters(20), 0)
})
