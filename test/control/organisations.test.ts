import t from 'tap'
import type { Write } from '../../gateway/store/store.ts'
import { api, gateway } from '../helpers/gateway.ts'

const error = (Message: string) => ({ Status: 'Error', Message, Meta: null })

t.test('an organisation is created, read, changed and deleted', async t => {
  const gw = await gateway(t)
  const made = await gw.admin('POST', '/admin/organisations', {
    owner_name: 'Ada',
    cname: 'a.example',
    cname_enabled: true
  })
  t.equal(made.status, 200)
  t.match(made.body, { Status: 'OK', Message: 'Org created', Meta: /^[0-9a-f]{24}$/ })
  const id = made.body.Meta
  const place = `/admin/organisations/${id}`
  const expected = { id, owner_name: 'Ada', owner_slug: '', cname: 'a.example', cname_enabled: true }
  t.match((await gw.admin('GET', place)).body, expected)
  t.same((await gw.admin('PUT', place, { owner_slug: 'ada' })).body, {
    Status: 'OK',
    Message: 'Org updated',
    Meta: null
  })
  t.match((await gw.admin('GET', place)).body, { ...expected, owner_slug: 'ada' }, 'what was not given stays')
  t.same((await gw.admin('DELETE', place)).body, { Status: 'OK', Message: 'Org deleted', Meta: null })
  for (const [method, body] of [['GET'], ['PUT', {}], ['DELETE']] as const) {
    const answer = await gw.admin(method, place, body)
    t.equal(answer.status, 404)
    t.same(answer.body, error('Organisation not found'))
  }
})

t.test('an id may be given, once', async t => {
  const gw = await gateway(t)
  t.equal((await gw.admin('POST', '/admin/organisations', { id: 'acme', owner_name: 'A' })).body.Meta, 'acme')
  for (const id of ['acme', 'default'])
    t.equal((await gw.admin('POST', '/admin/organisations', { id, owner_name: 'A' })).status, 409, id)
  for (const id of ['a/b', 'a b', '..', 'x'.repeat(65)])
    t.equal((await gw.admin('POST', '/admin/organisations', { id, owner_name: 'A' })).status, 400, id)
  t.equal((await gw.admin('PUT', '/admin/organisations/acme', { id: 'other' })).status, 400)
  t.equal((await gw.admin('PUT', '/admin/organisations/acme', { id: 'acme', cname: 'c' })).status, 200)
})

t.test('what is no organisation is refused by its member', async t => {
  const gw = await gateway(t)
  for (const [body, pointer] of [
    [{}, '/owner_name'],
    [{ owner_name: '' }, '/owner_name'],
    [{ owner_name: 7 }, '/owner_name'],
    [{ owner_name: 'A', surprise: 1 }, '/surprise']
  ] as const) {
    const answer = await gw.admin('POST', '/admin/organisations', body)
    t.equal(answer.status, 400)
    t.equal(answer.body.Message, 'Request body malformed')
    t.equal(answer.body.faults[0].pointer, pointer)
  }
  const empty = await gw.admin('POST', '/admin/organisations')
  t.same([empty.status, empty.body.Message], [400, 'Failed to read response body, body empty'])
})

t.test('the organisation default is there though nobody wrote it, can be changed and never deleted', async t => {
  const gw = await gateway(t)
  const place = '/admin/organisations/default'
  t.match((await gw.admin('GET', place)).body, { id: 'default', owner_name: 'default' })
  const listed = async () => (await gw.admin('GET', '/admin/organisations')).body
  t.match(await listed(), { organisations: [{ id: 'default' }], pages: 1 })
  t.equal((await gw.admin('PUT', place, { owner_name: 'Ours' })).status, 200)
  t.match(await listed(), { organisations: [{ id: 'default', owner_name: 'Ours' }], pages: 1 })
  t.equal((await gw.admin('DELETE', place)).status, 409)
})

t.test('organisations come in pages, default among them once', async t => {
  const gw = await gateway(t, { settings: { management: { page_size: 3 } } })
  for (const id of ['a', 'b', 'c']) await gw.admin('POST', '/admin/organisations', { id, owner_name: id })
  const page = async (query: string) => {
    const { organisations, pages } = (await gw.admin('GET', `/admin/organisations${query}`)).body
    return [organisations.map(({ id }: { id: string }) => id).join(), pages]
  }
  const look = async (rows: readonly (readonly [string, string, number])[]) => {
    for (const [query, ids, pages] of rows) t.same(await page(query), [ids, pages], query)
  }
  await look([
    ['', 'a,b,c', 2],
    ['?p=0', 'a,b,c', 2],
    ['?p=2', 'default', 2],
    ['?p=3', '', 2],
    ['?p=-1', 'a,b,c,default', 1],
    ['?page_size=4', 'a,b,c,default', 1],
    ['?page_size=2&p=2', 'c,default', 2]
  ])
  await gw.admin('PUT', '/admin/organisations/default', {})
  await look([
    ['?p=2', 'default', 2],
    ['?p=-1', 'a,b,c,default', 1],
    ['?page_size=2&p=2', 'c,default', 2]
  ])
})

t.test('an organisation goes only when nothing belongs to it any more', async t => {
  const gw = await gateway(t)
  const refused = async (id: string, kind: string) => {
    const answer = await gw.admin('DELETE', `/admin/organisations/${id}`)
    t.equal(answer.status, 409)
    t.match(answer.body.Message, kind)
  }
  for (const id of ['u', 'k', 'a']) await gw.admin('POST', '/admin/organisations', { id, owner_name: id })
  const user = (await gw.admin('POST', '/admin/users', { org_id: 'u' })).body.Meta.id
  await refused('u', 'user')
  await gw.admin('DELETE', `/admin/users/${user}`)
  t.equal((await gw.admin('DELETE', '/admin/organisations/u')).status, 200)
  await gw.svc('POST', '/svc/apis/oas', api('one', 'http://127.0.0.1:1', { info: { orgId: 'a' } }))
  await refused('a', 'api')
  await gw.key({ org_id: 'k', access_rights: { one: { api_id: 'one', api_name: 'one', versions: ['Default'] } } })
  await refused('k', 'key')
})

t.test('a portal in which there is nothing but its default organisation goes along', async t => {
  const gw = await gateway(t)
  const place = '/admin/organisations/p'
  const portal = '/portal-api/organisations'
  await gw.admin('POST', '/admin/organisations', { id: 'p', owner_name: 'p' })
  const boss = (await gw.admin('POST', '/admin/users', { org_id: 'p', active: true })).body
  const as = (method: string, path: string, body?: unknown) => gw.api(method, path, body, { key: boss.Message })
  const leave = () => gw.admin('DELETE', `/admin/users/${boss.Meta.id}`)
  const refused = async () => {
    const answer = await gw.admin('DELETE', place)
    t.equal(answer.status, 409)
    t.match(answer.body.Message, 'portal')
  }
  t.equal((await as('PUT', `${portal}/1`, { Name: 'Ours' })).status, 200)
  await as('POST', `${portal}/1/teams`, { Name: 'Blue' })
  const { ID: user } = (await as('POST', '/portal-api/users', { Email: 'a@b.c' })).body
  await refused()
  await as('DELETE', `/portal-api/users/${user}`)
  const { ID: other } = (await as('POST', portal, { Name: 'second' })).body
  await refused()
  await as('DELETE', `${portal}/${other}`)
  await leave()
  t.equal((await gw.admin('DELETE', place)).status, 200)
  for (const kind of ['portal_organisation', 'portal_user', 'name'] as const)
    t.equal((await gw.store.list(kind, { org: 'p', page: 1, size: 1 })).total, 0, kind)

  await gw.admin('POST', '/admin/organisations', { id: 'q', owner_name: 'q' })
  const key = await gw.user({ org_id: 'q' })
  t.match((await gw.api('GET', portal, undefined, { key })).body, [{ ID: 1, Name: 'Default Organisation' }])
  for (const { body } of (await gw.store.list<any>('user', { org: 'q', page: 1, size: 1 })).documents)
    await gw.admin('DELETE', `/admin/users/${body.user.id}`)
  t.equal((await gw.admin('DELETE', '/admin/organisations/q')).status, 200, 'a portal that was only looked at')
})

t.test('the id of an organisation that was deleted is never given again', async t => {
  const gw = await gateway(t)
  const create = () => gw.admin('POST', '/admin/organisations', { id: 'once', owner_name: 'A' })
  t.equal((await create()).status, 200)
  t.equal((await gw.admin('DELETE', '/admin/organisations/once')).status, 200)
  for (let i = 0; i < 2; i++) {
    const again = await create()
    t.same(
      [again.status, again.body],
      [409, error('An organisation of this id was deleted: its id cannot be given again')]
    )
  }
  t.equal((await gw.admin('GET', '/admin/organisations/once')).status, 404)
  t.equal((await gw.admin('POST', '/admin/organisations', { owner_name: 'A' })).status, 200)
})

t.test('no user is left in an organisation that was deleted while the user came', async t => {
  const gw = await gateway(t)
  const commit = gw.store.commit.bind(gw.store)
  /** Once, right before a commit that writes such a document, something else happens. */
  const before = (wanted: (write: Write) => boolean, happens: () => Promise<unknown>) => {
    gw.store.commit = async writes => {
      if (writes.some(wanted)) {
        gw.store.commit = commit
        await happens()
      }
      return commit(writes)
    }
  }
  for (const moved of [false, true])
    for (const kind of ['user', 'organisation']) {
      const id = `${kind}${moved}`
      await gw.admin('POST', '/admin/organisations', { id, owner_name: id })
      const [path, method] = moved
        ? [`/admin/users/${(await gw.admin('POST', '/admin/users', {})).body.Meta.id}`, 'PUT']
        : ['/admin/users', 'POST']
      const come = () => gw.admin(method, path, { org_id: id })
      const leave = () => gw.admin('DELETE', `/admin/organisations/${id}`)
      const [late, early, status] = kind === 'user' ? ([come, leave, 400] as const) : ([leave, come, 409] as const)
      const told: number[] = []
      before(
        write => write.kind === kind,
        async () => told.push((await early()).status)
      )
      told.push((await late()).status)
      t.same(told, [200, status], id)
      t.equal((await gw.store.list('user', { org: id, page: 1, size: 1 })).total, kind === 'user' ? 0 : 1)
    }
})

t.test('many users come into an organisation at once, which stays as it was', async t => {
  const gw = await gateway(t)
  await gw.admin('POST', '/admin/organisations', { id: 'busy', owner_name: 'A' })
  const came = await Promise.all(Array.from({ length: 30 }, () => gw.admin('POST', '/admin/users', { org_id: 'busy' })))
  t.same(
    came.map(({ status }) => status),
    new Array(30).fill(200)
  )
  t.equal((await gw.admin('GET', '/admin/organisations/busy')).headers.get('etag'), '"1"')
})

t.test('two who change an organisation do not overwrite each other unknowingly', async t => {
  const gw = await gateway(t)
  const place = '/admin/organisations/default'
  const { headers } = await gw.admin('GET', place)
  t.equal(headers.get('etag'), '"0"')
  const put = (tag: string, body: object) =>
    fetch(gw.managementUrl + place, {
      method: 'PUT',
      headers: { 'Admin-Auth': 'a secret of the tests', 'If-Match': tag },
      body: JSON.stringify(body)
    })
  const first = await put('"0"', { cname: 'first' })
  t.same([first.status, first.headers.get('etag')], [200, '"1"'])
  t.equal((await put('"0"', { cname: 'second' })).status, 412)
  t.equal((await gw.admin('GET', place)).body.cname, 'first')
})
