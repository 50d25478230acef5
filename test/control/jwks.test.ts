import t from 'tap'
import { jwks } from '../../control/endpoints/jwks.ts'
import { jwksCacheMemory } from '../../gateway/jwks/jwksCacheMemory.ts'
import { handClock } from '../helpers/clock.ts'
import { api, gateway } from '../helpers/gateway.ts'

t.test('fetched key sets are remembered for their time, each API its own, and forgotten on demand', async t => {
  const clock = handClock()
  const cache = jwksCacheMemory({ clock, most: 3 })
  const set = { keys: [{ kty: 'OKP' }] }
  const keep = (apiId: string, url: string, forMs = 1000) => cache.set(apiId, url, set, { epoch: cache.epoch, forMs })
  keep('a', 'https://one')
  keep('a', 'https://two')
  keep('b', 'https://one', 5000)
  t.equal(cache.get('a', 'https://one'), set)
  t.equal(cache.get('c', 'https://one'), null)
  cache.forget('a')
  t.same([cache.get('a', 'https://one'), cache.get('a', 'https://two')], [null, null])
  t.equal(cache.get('b', 'https://one'), set)
  cache.forget('nobody')

  keep('a', 'https://one')
  await clock.move(1000)
  t.equal(cache.get('a', 'https://one'), null)
  t.equal(cache.get('b', 'https://one'), set)

  const epoch = cache.epoch
  cache.forgetAll()
  t.equal(cache.get('b', 'https://one'), null)
  cache.set('b', 'https://one', set, { epoch, forMs: 1000 })
  t.equal(cache.get('b', 'https://one'), null, 'what was fetched before does not come back')

  for (const url of ['1', '2', '3', '4']) keep('a', url)
  t.same(
    ['1', '2', '3', '4'].map(url => cache.get('a', url) !== null),
    [false, true, true, true]
  )
})

t.test('an administrator of the owning organisation empties the cache of an API, nobody else', async t => {
  const gw = await gateway(t, { apis: [api('mine', 'svc://echo')] })
  const { body } = await gw.svc('POST', '/svc/apis/oas', api('theirs', 'svc://echo', { info: { orgId: 'other' } }))
  t.equal(body.status, 'ok')
  const writer = await gw.user({ org_id: 'default', user_permissions: { apis: 'write' } })
  const reader = await gw.user({ org_id: 'default', user_permissions: { apis: 'read' } })
  const stranger = await gw.user({ org_id: 'other' })
  const not = 'Update not allowed, API not owned by user'
  for (const [path, key, status, message] of [
    ['theirs', undefined, 403, not],
    ['mine', stranger, 403, not],
    ['mine', writer, 403, not],
    ['unknown', writer, 403, not],
    ['mine', reader, 403, "access denied: You do not have permission to carry out 'delete' operation."],
    ['unknown', undefined, 404, 'API not found'],
    ['mine', null, 401, 'Not authorised']
  ] as const) {
    const answer = await gw.api('DELETE', `/api/cache/jwks/${path}`, undefined, key === undefined ? {} : { key })
    t.equal(answer.status, status, `${path} ${message}`)
    t.same(answer.body, { Status: 'Error', Message: message, Meta: null })
  }
  for (const [path, key] of [
    ['mine', undefined],
    ['mine', undefined],
    ['theirs', stranger]
  ] as const) {
    const answer = await gw.api('DELETE', `/api/cache/jwks/${path}`, undefined, key === undefined ? {} : { key })
    t.equal(answer.status, 200)
    t.same(answer.body, { message: 'success', status: 'OK' })
  }
  for (const path of ['/svc/cache/jwks', '/svc/cache/jwks/mine', '/svc/cache/jwks/unknown', '/svc/cache/jwks/%00']) {
    const answer = await gw.svc('DELETE', path)
    t.equal(answer.status, 200)
    t.same(answer.body, { status: 'ok', message: 'cache invalidated' })
  }
})

t.test('each call reaches the cache', async t => {
  const apis = { find: (id: string) => (id === 'db' || id === 'a' ? { id: 'a', orgId: 'default' } : null) }
  for (const [path, apiID, left] of [
    ['/api/cache/jwks/{apiID}', 'a', [false, true]],
    ['/api/cache/jwks/{apiID}', 'db', [false, true]],
    ['/svc/cache/jwks/{apiID}', 'a', [false, true]],
    ['/svc/cache/jwks/{apiID}', 'b', [true, false]],
    ['/svc/cache/jwks', '', [false, false]]
  ] as const) {
    const cache = jwksCacheMemory({ clock: handClock() })
    for (const id of ['a', 'b']) cache.set(id, 'https://one', { keys: [] }, { epoch: 0, forMs: 1000 })
    const row = jwks.find(row => row.path === path)!
    row.handle({ params: { apiID }, caller: { admin: true, org: 'default' } } as never, { apis, jwks: cache } as never)
    t.same(
      ['a', 'b'].map(id => cache.get(id, 'https://one') !== null),
      left,
      `${path} ${apiID}`
    )
  }
})
