import t from 'tap'
import { quotaEnd, quotaOf, quotaRuns } from '../../gateway/limits/quota.ts'

t.test('a quota without a maximum is none, one without renewal never ends', async t => {
  t.same(quotaOf(100, 60), { allowed: 100, perMs: 60_000 })
  for (const renewal of [0, -1, undefined]) t.same(quotaOf(100, renewal), { allowed: 100, perMs: Infinity })
  for (const max of [0, -1, undefined]) t.equal(quotaOf(max, 60), null)
})

t.test('a period ends before its end', async t => {
  t.notOk(quotaRuns(-Infinity, 0))
  t.ok(quotaRuns(60, 59))
  t.notOk(quotaRuns(60, 60))
  t.equal(quotaEnd(60, 59, 60), 60)
  t.equal(quotaEnd(60, 60, 60), 120)
})

t.test('a shorter period counts at once, a longer one after the end of the one that runs', async t => {
  t.equal(quotaEnd(3600, 10, 60), 70)
  t.equal(quotaEnd(60, 10, 3600), 60)
  t.equal(quotaEnd(Infinity, 10, 60), 70)
  t.equal(quotaEnd(60, 10, Infinity), 60)
})
