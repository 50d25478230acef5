import t from 'tap'
import { api, gateway, rights, withKey } from './helpers/gateway.ts'
import { upstream } from './helpers/upstream.ts'

t.test('a request with a key is proxied, one without is refused, and the limit holds', async t => {
  const up = await upstream(t, (req, res) => res.end(`${req.method} ${req.url}`))
  const gw = await gateway(t, { apis: [api('orders', up.url, { server: withKey })] })
  const key = await gw.key({ rate: 2, per: 60, ...rights('orders') })

  const missing = await gw.get('/orders/items/7')
  t.equal(missing.status, 401)
  t.same(await missing.json(), { error: 'Authorization field missing' })
  const unknown = await gw.get('/orders/items/7', { Authorization: 'nobody' })
  t.equal(unknown.status, 403)

  for (let i = 0; i < 2; i++) {
    const passed = await gw.get('/orders/items/7?x=1', { Authorization: key })
    t.equal(passed.status, 200)
    t.equal(await passed.text(), 'GET /items/7?x=1')
  }
  const over = await gw.get('/orders/items/7', { Authorization: key })
  t.equal(over.status, 429)
  t.same(await over.json(), { error: 'Rate Limit Exceeded' })
  t.equal(up.requests.length, 2)
})

t.test('a path that no API takes is 404 in JSON', async t => {
  const gw = await gateway(t)
  const answer = await gw.get('/nowhere')
  t.equal(answer.status, 404)
  t.equal(answer.headers.get('content-type'), 'application/json')
  t.same(await answer.json(), { error: 'Not Found' })
})
