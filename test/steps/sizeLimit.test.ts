import t from 'tap'
import { api, gateway, withKey } from '../helpers/gateway.ts'
import { upstream } from '../helpers/upstream.ts'
import { ask, tell } from './ask.ts'

const on = (value: number) => ({ requestSizeLimit: { enabled: true, value } })

t.test('the stated length is held against the API first and the operation second', async t => {
  const up = await upstream(t, tell)
  const gw = await gateway(t, {
    apis: [
      api(
        'a',
        up.url,
        { middleware: { global: on(10), operations: { small: on(4), large: on(20), zero: on(0) } } },
        {
          '/small': { post: { operationId: 'small' } },
          '/large': { post: { operationId: 'large' } },
          '/zero': { post: { operationId: 'zero' } }
        }
      ),
      api(
        'only',
        up.url,
        { middleware: { operations: { small: on(4) } } },
        { '/small': { put: { operationId: 'small' } } }
      )
    ]
  })
  const cases: [method: string, path: string, bytes: number, status: number][] = [
    ['POST', '/a/x', 10, 200],
    ['POST', '/a/x', 11, 400],
    ['PUT', '/a/x', 11, 400],
    ['PATCH', '/a/x', 11, 400],
    ['ODD', '/a/x', 11, 501],
    ['POST', '/a/small', 4, 200],
    ['POST', '/a/small', 5, 400],
    ['POST', '/a/large', 11, 400],
    ['POST', '/a/zero', 0, 200],
    ['POST', '/a/zero', 1, 400],
    ['PUT', '/only/small', 5, 400],
    ['POST', '/only/small', 5, 200],
    ['PUT', '/only/x', 5, 200],
    ['DELETE', '/a/x', 11, 200],
    ['OPTIONS', '/a/x', 11, 200],
    ['GET', '/a/x', 11, 200]
  ]
  for (const [method, path, bytes, status] of cases) {
    const { headers, ...answer } = await ask(gw, path, {
      method,
      headers: { 'Content-Length': String(bytes) },
      body: 'x'.repeat(bytes)
    })
    t.equal(answer.status, status, `${method} ${path} ${bytes}`)
    if (status === 400) {
      t.equal(answer.text, '{"error":"Request is too large"}')
      t.equal(headers['x-svc-error'], 'request_too_large')
    }
    if (status === 200) t.equal(answer.json.body.length, bytes)
  }
})

t.test('without a stated length it is 411, but for the methods that are let through', async t => {
  const up = await upstream(t, tell)
  const gw = await gateway(t, { apis: [api('a', up.url, { server: withKey, middleware: { global: on(10) } })] })
  const chunked = { headers: { 'Transfer-Encoding': 'chunked' }, body: 'abc' }
  for (const method of ['POST', 'PUT', 'PATCH']) {
    const { status, text } = await ask(gw, '/a/', { method, ...chunked })
    t.same([status, text], [411, '{"error":"Content length is required for this request"}'], method)
  }
  t.equal((await ask(gw, '/a/', { method: 'POST', headers: ['Host', 'x'] })).status, 411, 'no body at all')
  for (const method of ['GET', 'DELETE', 'OPTIONS', 'HEAD', 'TRACE'])
    t.equal((await ask(gw, '/a/', { method })).status, 401, method)
})
