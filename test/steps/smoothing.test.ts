import t from 'tap'
import { handClock } from '../helpers/clock.ts'
import { api, gateway, rights, withKey } from '../helpers/gateway.ts'
import { ask, eventsOf } from './ask.ts'

const smoothing = { enabled: true, threshold: 2, trigger: 0.5, step: 2, delay: 5 }

for (const rate_limiter of ['bucket', 'fixed_window', 'sliding_log'])
  t.test(
    `${rate_limiter}: the allowance begins at the threshold, climbs under load and falls again, with its events`,
    async t => {
      const clock = handClock()
      const gw = await gateway(t, {
        clock,
        settings: { gateway: { rate_limiter, rate_limit_response_headers: 'rate_limits' } },
        apis: [api('a', 'svc://echo', { server: withKey })]
      })
      const key = await gw.key({ ...rights('a'), rate: 5, per: 100, smoothing })
      const get = async () => {
        const { status, headers } = await ask(gw, '/a/', { headers: { Authorization: key } })
        return [status, headers['x-ratelimit-limit'], headers['x-ratelimit-remaining']]
      }
      const events = () =>
        eventsOf(gw, 'RateLimitSmoothingUp', 'RateLimitSmoothingDown').map(({ event, message }) => [event, message])
      t.same(
        [await get(), await get(), await get()],
        [
          [200, '2', '1'],
          [200, '2', '0'],
          [429, '2', '0']
        ]
      )
      t.same(events(), [])
      clock.jump(5001)
      t.same(
        [await get(), await get(), await get()],
        [
          [200, '4', '1'],
          [200, '4', '0'],
          [429, '4', '0']
        ]
      )
      clock.jump(5001)
      t.same(
        [await get(), await get()],
        [
          [200, '5', '0'],
          [429, '5', '0']
        ],
        'not above the rate'
      )
      await clock.move(1000)
      t.same(events(), [
        ['RateLimitSmoothingUp', 'Rate limit increased with smoothing'],
        ['RateLimitSmoothingUp', 'Rate limit increased with smoothing']
      ])
      // Kept alive by a request in each delay until the window has ended.
      for (let i = 0; i < 12; i++) {
        clock.jump(8000)
        await get()
      }
      await clock.move(1000)
      t.match(events()[2], ['RateLimitSmoothingDown', 'Rate limit decreased with smoothing'])
      t.equal((await get())[1], '3', 'one step: the next would need an empty window')
    }
  )

t.test('switched off in the settings, the plain rate counts', async t => {
  const gw = await gateway(t, {
    settings: { gateway: { enable_rate_limit_smoothing: false, rate_limit_response_headers: 'rate_limits' } },
    apis: [api('a', 'svc://echo', { server: withKey })]
  })
  const key = await gw.key({ ...rights('a'), rate: 5, per: 100, smoothing })
  t.equal((await ask(gw, '/a/', { headers: { Authorization: key } })).headers['x-ratelimit-limit'], '5')
})
