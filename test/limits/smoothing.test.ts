import t from 'tap'
import { heldAllowance, nextAllowance, type Slope, slopeOf } from '../../gateway/limits/smoothing.ts'

const slope: Slope = { threshold: 10, triggerHundredths: 50, step: 10, delayMs: 1000 }

// Semantics §5.6, line by line: [current, n, max, threshold, step, next].
const worked = [
  [50, 45, 100, 10, 10, 60],
  [50, 44, 100, 10, 10, 50],
  [95, 90, 100, 10, 10, 100],
  [100, 100, 100, 10, 10, 100],
  [50, 35, 100, 10, 10, 40],
  [50, 36, 100, 10, 10, 50],
  [20, 5, 100, 15, 10, 15],
  [600, 550, 1000, 10, 100, 700],
  [600, 549, 1000, 10, 100, 600],
  [600, 450, 1000, 10, 100, 500],
  [600, 451, 1000, 10, 100, 600]
] as const

for (const [current, n, max, threshold, step, next] of worked)
  t.test(
    `from ${current} with ${n} requests, at most ${max} and in steps of ${step} the allowance is ${next}`,
    async t => {
      t.equal(nextAllowance(current, 0, 1, n, max, { ...slope, threshold, step }), next)
    }
  )

t.test('a counter without an allowance begins at the threshold, whatever came before', async t => {
  for (const n of [0, 1000]) t.equal(nextAllowance(0, 0, 1, n, 100, slope), 10)
})

t.test('nothing moves until the delay is over', async t => {
  t.equal(nextAllowance(50, 1000, 999, 50, 100, slope), 50)
  t.equal(nextAllowance(50, 1000, 1000, 50, 100, slope), 50)
  t.equal(nextAllowance(50, 1000, 1001, 50, 100, slope), 60)
})

t.test('a trigger of 0 acts exactly at the allowance', async t => {
  const sharp = { ...slope, triggerHundredths: 0 }
  t.equal(nextAllowance(50, 0, 1, 49, 100, sharp), 50)
  t.equal(nextAllowance(50, 0, 1, 50, 100, sharp), 60)
  t.equal(nextAllowance(50, 0, 1, 40, 100, sharp), 40)
  t.equal(nextAllowance(50, 0, 1, 41, 100, sharp), 50)
})

t.test('fractions that doubles cannot hold move nothing by one request', async t => {
  for (let hundredths = 0; hundredths <= 200; hundredths++)
    for (let step = 1; step <= 30; step++) {
      const { triggerHundredths } = slopeOf(
        { enabled: true, threshold: 1, trigger: hundredths / 100, step, delay: 1 },
        1000
      )!
      const given = { threshold: 1, triggerHundredths, step, delayMs: 1 }
      const first = 500 - Math.floor((hundredths * step) / 100)
      if (nextAllowance(500, 0, 1, first, 1000, given) !== 500 + step) t.fail(`up at ${first}: ${hundredths}, ${step}`)
      if (nextAllowance(500, 0, 1, first - 1, 1000, given) > 500)
        t.fail(`not up at ${first - 1}: ${hundredths}, ${step}`)
    }
  t.pass()
})

t.test('an allowance is lost after twice the delay without a request', async t => {
  t.equal(heldAllowance(50, 0, 1999, 100, slope), 50)
  t.equal(heldAllowance(50, 0, 2000, 100, slope), 0)
  t.equal(heldAllowance(0, 0, 1, 100, slope), 0)
})

t.test('an allowance follows when the ends are moved', async t => {
  t.equal(heldAllowance(50, 0, 1, 30, slope), 30)
  t.equal(heldAllowance(50, 0, 1, 100, { ...slope, threshold: 60 }), 60)
})

t.test('smoothing that is off, incomplete or not below the rate is none', async t => {
  const given = { enabled: true, threshold: 5, trigger: 0.5, step: 1, delay: 2 }
  t.same(slopeOf(given, 6), { threshold: 5, triggerHundredths: 50, step: 1, delayMs: 2000 })
  t.ok(slopeOf({ ...given, trigger: 0 }, 6))
  t.equal(slopeOf(given, 5), null)
  t.equal(slopeOf(undefined, 6), null)
  t.equal(slopeOf({ ...given, enabled: false }, 6), null)
  for (const member of ['enabled', 'threshold', 'trigger', 'step', 'delay'] as const) {
    const { [member]: _, ...rest } = given
    t.equal(slopeOf(rest, 6), null, `without ${member}`)
  }
})
