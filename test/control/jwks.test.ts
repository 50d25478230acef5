import t from 'tap'
import { jwks } from '../../control/endpoints/jwks.ts'
import { changesLocal } from '../../gateway/changes/changesLocal.ts'
import { openKeySets } from '../../gateway/jwks/openKeySets.ts'
import { storeMemory } from '../../gateway/store/storeMemory.ts'
import { handClock } from '../helpers/clock.ts'
import { api, collectedLog, gateway } from '../helpers/gateway.ts'
import { upstream } from '../helpers/upstream.ts'

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
  const long = 'x'.repeat(3_000)
  for (const path of ['', '/mine', '/unknown', '/%00', '/%20', `/${long}`]) {
    const answer = await gw.svc('DELETE', `/svc/cache/jwks${path}`)
    t.equal(answer.status, 200, path.slice(0, 20))
    t.same(answer.body, { status: 'ok', message: 'cache invalidated' })
  }
})

t.test('each call reaches the key sets of the API that it names', async t => {
  const apis = { find: (id: string) => (id === 'db' || id === 'a' ? { id: 'a', orgId: 'default' } : null) }
  const server = await upstream(t, (_req, res) => void res.end('{"keys":[]}'))
  for (const [path, apiID, left] of [
    ['/api/cache/jwks/{apiID}', 'a', [false, true]],
    ['/api/cache/jwks/{apiID}', 'db', [false, true]],
    ['/svc/cache/jwks/{apiID}', 'a', [false, true]],
    ['/svc/cache/jwks/{apiID}', 'b', [true, false]],
    ['/svc/cache/jwks', '', [false, false]]
  ] as const) {
    const settings = { jwks: { cache: { timeout: 240 } } }
    const clock = handClock()
    const store = storeMemory()
    const keySets = openKeySets({ store, changes: changesLocal(), settings, clock, log: collectedLog() })
    const place = { url: server.url, cacheMs: 0 }
    for (const id of ['a', 'b']) await keySets.get(id, place)
    const row = jwks.find(row => row.path === path)!
    await row.handle(
      { params: { apiID }, caller: { admin: true, org: 'default' } } as never,
      { apis, keySets } as never
    )
    const sets = ['a', 'b'].map(id => keySets.get(id, place))
    t.same(
      sets.map(set => !(set instanceof Promise)),
      left,
      `${path} ${apiID}`
    )
    await Promise.all(sets)
    keySets.close()
    await store.close()
  }
})
