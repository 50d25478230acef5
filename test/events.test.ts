import t from 'tap'
import { eventBus, logEvents } from '../gateway/events.ts'
import { collectedLog } from './helpers/gateway.ts'

function world() {
  const timers = new Set<() => void>()
  const clock = {
    now: () => 1_000,
    after(_ms: number, run: () => void) {
      timers.add(run)
      return () => void timers.delete(run)
    }
  }
  const log = collectedLog()
  const bus = eventBus(clock, log)
  const tick = () => {
    const due = [...timers]
    timers.clear()
    for (const run of due) run()
  }
  return { log, bus, tick, stop: logEvents(bus, clock, log), timers }
}

t.test('an event is a warning with all that is known about it', async t => {
  const { bus, log } = world()
  bus.emit('AuthFailure', 'unknown', { apiId: 'a', path: '/a/', origin: '192.0.2.1', key: 'hash' })
  t.same(log.lines, [
    {
      level: 'warn',
      msg: 'event',
      event: 'AuthFailure',
      message: 'unknown',
      api_id: 'a',
      path: '/a/',
      origin: '192.0.2.1',
      key: 'hash'
    }
  ])
})

t.test('a flood of one event is two lines: the first, and how many came after it', async t => {
  const { bus, log, tick, stop, timers } = world()
  for (let i = 0; i < 1_000; i++) bus.emit('RatelimitExceeded', 'too many', { apiId: 'a', key: 'hash' })
  bus.emit('RatelimitExceeded', 'too many', { apiId: 'b', key: 'hash' })
  t.equal(log.lines.length, 2)
  tick()
  t.equal(log.lines.length, 3)
  t.equal(log.lines[2]!.count, 999)
  bus.emit('RatelimitExceeded', 'too many', { apiId: 'a', key: 'hash' })
  bus.emit('RatelimitExceeded', 'too many', { apiId: 'a', key: 'hash' })
  stop()
  t.equal(log.lines.length, 5)
  t.equal(timers.size, 0)
})

t.test('a listener that throws is told in the log and holds up nobody', async t => {
  const { bus, log } = world()
  const heard: string[] = []
  bus.listen(() => {
    throw new Error('broken')
  })
  const stop = bus.listen(({ name }) => heard.push(name))
  bus.emit('KeyExpired', 'expired', {})
  stop()
  bus.emit('KeyExpired', 'expired', {})
  t.same(heard, ['KeyExpired'])
  t.match(
    log.lines.find(({ level }) => level === 'error'),
    { cause: /broken/ }
  )
})
