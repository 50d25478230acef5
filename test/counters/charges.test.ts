import t from 'tap'
import { quotaCharge, rateCharge } from '../../gateway/counters/charges.ts'

const habits = { algorithm: 'sliding_log', countsRefused: true, smoothing: true } as const
const smoothing = { enabled: true, threshold: 5, trigger: 0.29, step: 2, delay: 30 }

t.test('a rate becomes a charge, with smoothing where that is valid', async t => {
  t.match(rateCharge('x', { rate: 10, per: 60, smoothing }, habits), {
    id: 'x',
    kind: 'rate',
    algorithm: 'sliding_log',
    allowed: 10,
    perMs: 60_000,
    slope: { threshold: 5, triggerHundredths: 29, step: 2, delayMs: 30_000 },
    countsRefused: true
  })
  t.equal(rateCharge('x', { rate: 5, per: 60, smoothing }, habits)!.slope, null)
  t.equal(rateCharge('x', { rate: 10, per: 60, smoothing }, { ...habits, smoothing: false })!.slope, null)
  t.equal(rateCharge('x', { rate: 0, per: 60 }, habits), null)
})

t.test('a quota becomes a charge', async t => {
  t.match(quotaCharge('x', { quota_max: 10, quota_renewal_rate: 60 }), { kind: 'quota', allowed: 10, perMs: 60_000 })
  t.equal(quotaCharge('x', { quota_max: -1, quota_renewal_rate: 60 }), null)
})

t.test('equal ids lead to equal counters', async t => {
  const words = (id: string) => {
    const { w0, w1, w2, w3 } = rateCharge(id, { rate: 1, per: 1 }, habits)!
    return [w0, w1, w2, w3]
  }
  t.same(words('x'), words('x'))
  t.strictNotSame(words('x'), words('y'))
})
