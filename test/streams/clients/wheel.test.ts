import t from 'tap'
import { Wheel } from '../../../streams/clients/wheel.ts'
import { handClock } from '../../helpers/clock.ts'

t.test('everybody is looked at every half second, a fifth of them at a time', async t => {
  const clock = handClock()
  const wheel = new Wheel(clock)
  const looks: number[][] = Array.from({ length: 10 }, () => [])
  const watched = looks.map(own => ({ slot: 0, look: (now: number) => void own.push(now) }))
  for (const one of watched) wheel.add(one)
  const start = clock.now()
  await clock.move(1000)
  t.ok(looks.every(own => own.length === 2 && own[1]! - own[0]! === 500))
  for (let at = 100; at <= 500; at += 100) t.equal(looks.filter(own => own[0] === start + at).length, 2)
  wheel.delete(watched[0]!)
  wheel.delete(watched[0]!)
  await clock.move(500)
  t.equal(looks[0]!.length, 2)
  t.equal(looks[1]!.length, 3)
})

t.test('nothing waits while nobody is watched', async t => {
  const clock = handClock()
  const wheel = new Wheel(clock)
  t.equal(clock.waiters(100), 0)
  const one = { slot: 0, look: () => {} }
  await clock.move(5000)
  wheel.add(one)
  t.equal(wheel.now, clock.now())
  t.equal(clock.waiters(100), 1)
  wheel.delete(one)
  t.equal(clock.waiters(100), 0)
  wheel.add(one)
  t.equal(clock.waiters(100), 1)
  wheel.close()
  t.equal(clock.waiters(100), 0)
})
