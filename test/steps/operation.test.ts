import t, { type Test } from 'tap'
import { api, gateway, withKey } from '../helpers/gateway.ts'
import { type Answered, ask } from './ask.ts'

const said = ({ status, text }: Answered) => [status, text]
const FORBIDDEN = [403, '{"error":"Requested endpoint is forbidden"}']

type Case = [method: string, path: string, passes: boolean]

async function all(t: Test, gw: { url: string }, cases: readonly Case[]) {
  for (const [method, path, passes] of cases) {
    const answer = await ask(gw, path, { method })
    if (passes) t.equal(answer.status, 200, `${method} ${path}`)
    else t.same(said(answer), method === 'HEAD' ? [403, ''] : FORBIDDEN, `${method} ${path}`)
  }
}

t.test('one allow makes a list: what is not on it is refused, in every spelling', async t => {
  const gw = await gateway(t, {
    apis: [
      api(
        'a',
        'svc://echo',
        { middleware: { operations: { read: { allow: { enabled: true } }, root: { allow: { enabled: true } } } } },
        {
          '/items/{id}': { get: { operationId: 'read' }, put: { operationId: 'write' } },
          '/': { get: { operationId: 'root' } }
        }
      )
    ]
  })
  await all(t, gw, [
    ['GET', '/a/items/7', true],
    ['GET', '/a/', true],
    ['GET', '/a', true],
    ['GET', '//a//items/7', true],
    ['PUT', '/a/items/7', false],
    ['HEAD', '/a/items/7', false],
    ['OPTIONS', '/a/items/7', false],
    ['GET', '/a/items', false],
    ['GET', '/a/items/7/', false],
    ['GET', '/a/items/7/x', false],
    ['GET', '/a/x/items/7', false],
    ['GET', '/a/ITEMS/7', false],
    ['GET', '/a/items/..%2Fsecret', false],
    ['GET', '/a/items/7%2fx', false],
    ['GET', '/a/items/7;/../../secret', false],
    ['GET', '/a/secret', false],
    ['GET', '/a/svc/rate-limits/', false]
  ])
})

t.test('a blocked operation is refused, in every spelling of its path; its neighbours are not', async t => {
  const gw = await gateway(t, {
    apis: [
      api(
        'a',
        'svc://echo',
        { middleware: { operations: { admin: { block: { enabled: true } }, part: { block: { enabled: true } } } } },
        {
          '/admin/users': { get: { operationId: 'admin' } },
          '/map/{a}-{b}': { get: { operationId: 'part' } }
        }
      )
    ]
  })
  const blocked = [
    '/a/admin/users',
    '/a/admin/users?x',
    '/a//admin//users',
    '/a/admin/./users',
    '/a/x/../admin/users',
    '/a/x/%2e%2E/admin/users',
    '/a/%61dmin/%75sers',
    '/a/admin%2Fusers',
    '/a/admin%2fusers',
    '/a/admin%5Cusers',
    '/a/admin\\users',
    '/a/admin;x=1/users;y',
    '/a/admin/x/..;z/users',
    '/a%2Fadmin/users',
    '/a/admin/users%3Bx',
    '/a/map/1-2'
  ]
  const open = [
    '/a/admin',
    '/a/admin/users/',
    '/a/admin/users/7',
    '/a/admin/userss',
    '/a/Admin/users',
    '/a/admin%252Fusers',
    '/a/map/12'
  ]
  await all(t, gw, [
    ...blocked.map((path): Case => ['GET', path, false]),
    ...open.map((path): Case => ['GET', path, true]),
    ['POST', '/a/admin/users', true]
  ])
})

t.test('ignoreCase of a rule acts on its operation, ignoreCase of the API on all', async t => {
  const paths = { '/Admin/{id}': { get: { operationId: 'admin' } }, '/other': { get: { operationId: 'other' } } }
  const gw = await gateway(t, {
    apis: [
      api(
        'one',
        'svc://echo',
        {
          middleware: {
            operations: { admin: { block: { enabled: true, ignoreCase: true } }, other: { block: { enabled: true } } }
          }
        },
        paths
      ),
      api(
        'every',
        'svc://echo',
        {
          middleware: {
            global: { ignoreCase: { enabled: true } },
            operations: { admin: { block: { enabled: true } }, other: { block: { enabled: true } } }
          }
        },
        paths
      )
    ]
  })
  await all(t, gw, [
    ['GET', '/one/ADMIN/x', false],
    ['GET', '/one/aDmIn/X', false],
    ['GET', '/one/other', false],
    ['GET', '/one/Other', true],
    ['GET', '/every/admin/x', false],
    ['GET', '/every/OTHER', false],
    ['GET', '/every/%4Fther', false]
  ])
})

t.test('the first operation by precedence decides: more slashes, longer, plain before parameters', async t => {
  const gw = await gateway(t, {
    apis: [
      api(
        'a',
        'svc://echo',
        {
          middleware: {
            operations: {
              any: { block: { enabled: true } },
              deep: { block: { enabled: true } },
              me: { rateLimit: { enabled: true, rate: 1000, per: '1s' } }
            }
          }
        },
        {
          '/users/{id}': { get: { operationId: 'any' } },
          '/users/me': { get: { operationId: 'me' } },
          '/users/{id}/items': { get: {} },
          '/users/{id}/{what}': { get: { operationId: 'deep' } }
        }
      )
    ]
  })
  await all(t, gw, [
    ['GET', '/a/users/me', true],
    ['GET', '/a/users/you', false],
    ['GET', '/a/users/me/items', true],
    ['GET', '/a/users/me/item', false]
  ])
})

for (const [matching, cases] of [
  [
    'exact',
    [
      ['/json', true],
      ['/api/v1/json', false],
      ['/json/data', false],
      ['/users/7', true],
      ['/users/7/x', false],
      ['/x/users/7', false]
    ]
  ],
  [
    'prefix',
    [
      ['/json', true],
      ['/api/v1/json', false],
      ['/json/data', true],
      ['/users/7', true],
      ['/users/7/x', true],
      ['/x/users/7', false]
    ]
  ],
  [
    'contains',
    [
      ['/json', true],
      ['/api/v1/json', true],
      ['/json/data', true],
      ['/users/7', true],
      ['/users/7/x', true],
      ['/x/users/7', true]
    ]
  ]
] as const)
  t.test(`endpoint_matching ${matching}`, async t => {
    const gw = await gateway(t, {
      settings: { gateway: { endpoint_matching: matching } },
      apis: [
        api(
          'a',
          'svc://echo',
          { middleware: { operations: { json: { block: { enabled: true } }, user: { block: { enabled: true } } } } },
          { '/json': { get: { operationId: 'json' } }, '/users/{id}': { get: { operationId: 'user' } } }
        )
      ]
    })
    await all(
      t,
      gw,
      cases.map(([path, hit]): Case => ['GET', `/a${path}`, !hit])
    )
  })

t.test('the page of limits stays open to keys on an API with an allow list', async t => {
  const gw = await gateway(t, {
    apis: [
      api(
        'a',
        'svc://echo',
        { server: withKey, middleware: { operations: { read: { allow: { enabled: true } } } } },
        { '/items': { get: { operationId: 'read' } } }
      )
    ]
  })
  const key = await gw.key({
    access_rights: { a: { api_id: 'a', allowed_urls: [{ url: '/items', methods: ['GET'] }] } }
  })
  const headers = { Authorization: key }
  t.equal((await ask(gw, '/a/svc/rate-limits/', { headers })).status, 200)
  t.equal((await ask(gw, '/a/svc/rate-limits/')).status, 401)
  t.same(said(await ask(gw, '/a/svc/rate-limits/', { method: 'POST', headers })), FORBIDDEN)
  t.same(said(await ask(gw, '/a/svc/other', { headers })), FORBIDDEN)
})
