import t from 'tap'
import { bucketEnd, bucketRuns, fixedEnd, fixedRuns, logBlocker, logBound, rateOf } from '../../gateway/limits/rate.ts'

t.test('a rate is whole requests in whole milliseconds', async t => {
  t.same(rateOf(100, 60), { allowed: 100, perMs: 60_000 })
  t.same(rateOf(2.9, 60), { allowed: 2, perMs: 60_000 })
  t.same(rateOf(0.5, 60), { allowed: 1, perMs: 120_000 })
  t.same(rateOf(0.1, 0.3), { allowed: 1, perMs: 3000 })
  t.same(rateOf(1, 0.0001), { allowed: 1, perMs: 1 })
})

t.test('no rate, no window and negative ones are unlimited', async t => {
  for (const [rate, per] of [
    [0, 60],
    [-1, 60],
    [10, 0],
    [10, -1],
    [undefined, 60],
    [10, undefined]
  ] as const)
    t.equal(rateOf(rate, per), null)
})

t.test('a bucket runs up to and with its end', async t => {
  t.notOk(bucketRuns(-Infinity, 0))
  t.equal(bucketEnd(-Infinity, 0, 10), 10)
  t.ok(bucketRuns(10, 10))
  t.equal(bucketEnd(10, 10, 10), 10)
  t.notOk(bucketRuns(10, 11))
  t.equal(bucketEnd(10, 11, 10), 21)
  t.equal(bucketEnd(3600, 5, 10), 15, 'a window that was made shorter')
  t.equal(bucketEnd(10, 5, 3600), 10, 'a window that was made longer')
})

t.test('fixed windows are aligned to the epoch and do not contain their end', async t => {
  for (const [now, end] of [
    [0, 10],
    [9, 10],
    [10, 20],
    [19, 20]
  ] as const)
    t.equal(fixedEnd(now, 10), end)
  t.ok(fixedRuns(10, 9))
  t.notOk(fixedRuns(10, 10))
})

t.test('an entry leaves the log when it is as old as the window is long', async t => {
  t.equal(logBound(10, 10), 0)
  t.equal(logBlocker(3, 3), 0)
  t.equal(logBlocker(5, 3), 2)
  t.ok(logBlocker(2, 3) < 0)
})
