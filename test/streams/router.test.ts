import t from 'tap'
import type { Endpoint, EndpointKind } from '../../streams/plan.ts'
import { router } from '../../streams/router.ts'

const one = (kind: EndpointKind, path: string, verbs = ['GET']): Endpoint => ({ kind, path, verbs, stream: 's', of: 0 })

t.test('a path leads to its endpoint, or to the refusal that tells what it would take', async t => {
  const table = router([
    one('produce', '/in', ['POST', 'PUT']),
    one('produce_websocket', '/in/ws'),
    one('poll', '/out'),
    one('stream', '/out/{topic}'),
    one('stream', '/out/all'),
    one('websocket', '/out/{topic}/ws'),
    one('produce', '/out', ['POST']),
    one('stream', '/{a}/{b}/{c}'),
    one('poll', '/slash/'),
    one('produce', '/orders/{id}', ['POST']),
    one('produce', '/orders/all', ['PUT'])
  ])
  const cases: [method: string, path: string, isUpgrade: boolean, found: string | number, allow?: string][] = [
    ['POST', '/in', false, 'produce'],
    ['PUT', '/in', false, 'produce'],
    ['GET', '/in', false, 405, 'POST, PUT'],
    ['POST', '/in/', false, 404],
    ['POST', '/IN', false, 404],
    ['GET', '/', false, 404],
    ['GET', '/in/ws', false, 426],
    ['POST', '/in/ws', false, 405, 'GET'],
    ['GET', '/in/ws', true, 'produce_websocket'],
    ['GET', '/out', false, 'poll'],
    ['POST', '/out', false, 'produce'],
    ['DELETE', '/out', false, 405, 'GET, POST'],
    ['GET', '/out', true, 400],
    ['GET', '/out/all', false, 'stream'],
    ['GET', '/out/orders', false, 'stream'],
    ['GET', '/out/', false, 404],
    ['GET', '/out/orders/ws', true, 'websocket'],
    ['GET', '/out/orders/ws', false, 426],
    ['GET', '/a/b/c', false, 'stream'],
    ['GET', '/a/b/c/d', false, 404],
    ['POST', '/orders/all', false, 'produce'],
    ['PUT', '/orders/all', false, 'produce'],
    ['GET', '/orders/all', false, 405, 'POST, PUT'],
    ['GET', '/slash/', false, 'poll'],
    ['GET', '/slash', false, 404]
  ]
  for (const [method, path, isUpgrade, wanted, allow] of cases) {
    const found = table.find(method, path, isUpgrade)
    const name = `${method} ${path}${isUpgrade ? ' (upgrade)' : ''}`
    if ('code' in found) {
      t.equal(found.status, wanted, name)
      if (allow !== undefined) t.same(found.pairs, ['Allow', allow], name)
    } else t.equal(found.endpoint.kind, wanted, name)
  }
})

t.test('placeholders give what stood in them', async t => {
  const table = router([one('stream', '/{shop}/orders/{id}')])
  for (const [path, params] of [
    ['/north/orders/__proto__', { shop: 'north', id: '__proto__' }],
    ['/a%20b/orders/%C3%BC%25', { shop: 'a b', id: 'ü%' }],
    ['/%/orders/%ff', { shop: '%', id: '%ff' }]
  ] as const) {
    const found = table.find('GET', path, false)
    t.same('params' in found && { ...found.params }, params)
  }
})
