import t from 'tap'
import { gateway, type TestGateway } from '../helpers/gateway.ts'

const ORGANISATIONS = '/portal-api/organisations'
const USERS = '/portal-api/users'

async function organisation(gw: TestGateway, Name: string): Promise<number> {
  return (await gw.api('POST', ORGANISATIONS, { Name })).body.ID
}

async function user(gw: TestGateway, Email: string, OrganisationID: number): Promise<number> {
  return (await gw.api('POST', USERS, { Email, OrganisationID })).body.ID
}

const members = async (gw: TestGateway, id: number) =>
  (await gw.api('GET', `${ORGANISATIONS}/${id}`)).body.Users.map(({ ID }: { ID: number }) => ID)

t.test('there is a default organisation from the beginning, and it stays', async t => {
  const gw = await gateway(t)
  const { status, body } = await gw.api('GET', ORGANISATIONS)
  t.equal(status, 200)
  t.match(body, [
    {
      ID: 1,
      Name: 'Default Organisation',
      CreatedAt: /^\d{4}-\d\d-\d\d \d\d:\d\d$/,
      Teams: [{ Default: true, ID: 1, Name: 'Default Organisation All users' }],
      Users: []
    }
  ])
  t.same(Object.keys(body[0]), ['ID', 'Name', 'CreatedAt', 'UpdatedAt', 'Teams', 'Users'])
  const no = await gw.api('DELETE', `${ORGANISATIONS}/1`)
  t.equal(no.status, 409)
  t.same(no.body, { errors: ['the default organisation cannot be deleted'] })
  const team = await gw.api('DELETE', `${ORGANISATIONS}/1/teams/1`)
  t.equal(team.status, 409)
  t.same((await gw.api('GET', ORGANISATIONS)).body, body)
})

t.test('the first call may be of any kind', async t => {
  for (const [method, path, given, status] of [
    ['GET', `${ORGANISATIONS}/1`, undefined, 200],
    ['PUT', `${ORGANISATIONS}/1`, { Name: 'Ours' }, 200],
    ['POST', ORGANISATIONS, { Name: 'Second' }, 200],
    ['POST', USERS, { Email: 'a@example.com' }, 200],
    ['GET', USERS, undefined, 200],
    ['GET', `${ORGANISATIONS}/2`, undefined, 404],
    ['DELETE', `${USERS}/1`, undefined, 404]
  ] as const) {
    const gw = await gateway(t)
    t.equal((await gw.api(method, path, given)).status, status, `${method} ${path}`)
    t.equal((await gw.api('GET', `${ORGANISATIONS}/1`)).body.ID, 1)
  }
})

t.test('who only looks writes nothing, and sees the default organisation where it will stand', async t => {
  const gw = await gateway(t)
  const list = async (query = '') =>
    (await gw.api('GET', `${ORGANISATIONS}${query}`)).body.map(({ ID }: { ID: number }) => ID).join()
  const rows = [
    ['', '1'],
    ['?page=1&per_page=1', '1'],
    ['?page=2', ''],
    ['?page=-1', '1']
  ] as const
  for (const [query, ids] of rows) t.equal(await list(query), ids, query)
  const first = await gw.api('GET', `${ORGANISATIONS}/1`)
  t.equal(first.headers.get('etag'), '"0"')
  t.equal((await gw.api('GET', `${ORGANISATIONS}/1/teams/1`)).status, 200)
  t.equal((await gw.api('GET', `${USERS}/1`)).status, 404)
  t.equal((await gw.store.list('portal_organisation', { page: 1, size: 1 })).total, 0)

  const headers = { 'If-Match': first.headers.get('etag')! }
  const change = (Name: string) => gw.api('PUT', `${ORGANISATIONS}/1`, { Name }, { headers })
  const answers = await Promise.all([change('b'), change('c')])
  t.same(answers.map(({ status }) => status).sort(), [200, 412])
  await organisation(gw, 'a')
  t.equal(await list(), '1,2')

  const other = await gateway(t)
  await organisation(other, 'a')
  t.match((await other.api('GET', ORGANISATIONS)).body, [{ ID: 1 }, { ID: 2 }], 'the oldest one comes first')
})

t.test('what was read can be put back', async t => {
  const gw = await gateway(t)
  const id = await organisation(gw, 'a')
  await user(gw, 'one@b.c', id)
  await gw.api('POST', `${ORGANISATIONS}/${id}/teams`, { Name: 'Blue', Users: [1] })
  for (const [path, own] of [
    [`${ORGANISATIONS}/${id}`, { ID: 9, CreatedAt: '2000-01-01 00:00', Teams: [], Users: [] }],
    [`${USERS}/1`, { ID: 9 }],
    [`${ORGANISATIONS}/${id}/teams/2`, { ID: 9, Default: false }],
    [`${ORGANISATIONS}/${id}/teams/3`, { ID: 9, Default: true }]
  ] as const) {
    const { body } = await gw.api('GET', path)
    const { UpdatedAt: _when, ...same } = body
    for (const given of [body, { ...body, ...own }]) {
      const back = await gw.api('PUT', path, given)
      t.match(back, { status: 200, body: same }, path)
      t.same(Object.keys(back.body), Object.keys(body))
    }
    t.equal((await gw.api('PUT', path, { ...body, Surprise: 1 })).status, 400, path)
  }
})

t.test('an organisation is created, read, renamed and deleted', async t => {
  const gw = await gateway(t)
  const made = await gw.api('POST', ORGANISATIONS, { Name: 'Eins' })
  t.equal(made.status, 200)
  t.match(made.body, { ID: 2, Name: 'Eins', Teams: [{ Default: true, ID: 2, Name: 'Eins All users' }], Users: [] })
  t.equal(made.body.CreatedAt, made.body.UpdatedAt)
  t.same((await gw.api('GET', `${ORGANISATIONS}/2`)).body, made.body)
  const renamed = await gw.api('PUT', `${ORGANISATIONS}/2`, { Name: 'Zwei' })
  t.equal(renamed.status, 200)
  t.match(renamed.body, { ID: 2, Name: 'Zwei', Teams: [{ ID: 2, Name: 'Zwei All users' }] })
  t.same((await gw.api('GET', `${ORGANISATIONS}/2`)).body, renamed.body)
  t.equal(await organisation(gw, 'Zwei'), 3, 'names need not be unique')
  t.same((await gw.api('DELETE', `${ORGANISATIONS}/3`)).body, { status: 'ok' })
  for (const [method, body] of [['GET'], ['PUT', { Name: 'a' }], ['DELETE']] as const) {
    const gone = await gw.api(method, `${ORGANISATIONS}/3`, body)
    t.equal(gone.status, 404)
    t.same(gone.body, { errors: ['organisation not found'] })
  }
  t.equal(await organisation(gw, 'Vier'), 4, 'an id is never given twice')
})

t.test('what is sent wrongly is refused, in the form of the portal', async t => {
  const gw = await gateway(t)
  const id = await organisation(gw, 'a')
  const names = [
    {},
    { Name: '' },
    { Name: ' \t' },
    { Name: 7 },
    { Name: null },
    { Name: 'x'.repeat(257) },
    { Name: 'a', id: 9 },
    { name: 'a' },
    []
  ]
  for (const [method, path] of [
    ['POST', ORGANISATIONS],
    ['PUT', `${ORGANISATIONS}/${id}`],
    ['POST', `${ORGANISATIONS}/${id}/teams`]
  ] as const)
    for (const body of [...names, '', '{"Name"', 'Name', '{"__proto__":{"Name":"a"}}']) {
      const answer = await gw.api(method, path, body)
      t.equal(answer.status, 400, `${method} ${path} ${JSON.stringify(body).slice(0, 50)}`)
      t.match(answer.body, { errors: [String] })
    }
  for (const body of [{}, { Email: 'a' }, { Email: 'a@b', OrganisationID: 99 }, { Email: 'a@b', Active: 'yes' }]) {
    const answer = await gw.api('POST', USERS, body)
    t.equal(answer.status, 400, JSON.stringify(body))
    t.match(answer.body, { errors: [String] })
  }
  for (const [wrong, status] of [
    ['x', 400],
    ['-1', 400],
    ['1.0', 400],
    ['1e3', 400],
    ['%00', 400],
    ['0x1', 400],
    ['1%2f2', 400],
    ['__proto__', 400],
    ['0', 404],
    ['99', 404],
    ['9007199254740993', 404],
    ['99999999999999999999', 404]
  ] as const)
    for (const [method, path] of [
      ['GET', `${ORGANISATIONS}/${wrong}`],
      ['PUT', `${ORGANISATIONS}/${wrong}`],
      ['DELETE', `${ORGANISATIONS}/${wrong}`],
      ['GET', `${ORGANISATIONS}/${wrong}/teams`],
      ['GET', `${ORGANISATIONS}/1/teams/${wrong}`],
      ['DELETE', `${USERS}/${wrong}`]
    ] as const) {
      const answer = await gw.api(method, path, method === 'PUT' ? { Name: 'a' } : undefined)
      t.equal(answer.status, status, `${method} ${path}`)
      t.match(answer.body, { errors: [String] })
    }
  t.same(
    (await gw.api('GET', ORGANISATIONS)).body.map(({ Name }: { Name: string }) => Name),
    ['Default Organisation', 'a']
  )
})

t.test('lists come in pages', async t => {
  const gw = await gateway(t)
  for (let i = 2; i <= 25; i++) await organisation(gw, `o${i}`)
  for (const [query, from, to] of [
    ['', 1, 20],
    ['?page=2', 21, 25],
    ['?p=2&per_page=10', 11, 20],
    ['?page=0&per_page=3', 1, 3],
    ['?page=99', 1, 0],
    ['?page=-1', 1, 25],
    ['?per_page=1000', 1, 25]
  ] as const) {
    const { status, body } = await gw.api('GET', ORGANISATIONS + query)
    t.equal(status, 200)
    t.same(
      body.map(({ ID }: { ID: number }) => ID),
      Array.from({ length: to - from + 1 }, (_, i) => from + i),
      query
    )
  }
  for (const query of ['?page=x', '?per_page=0', '?per_page=-1'])
    t.equal((await gw.api('GET', ORGANISATIONS + query)).status, 400, query)
  for (const page of ['', '?page=-1']) t.same((await gw.api('GET', USERS + page)).body, [])
})

t.test('users belong to an organisation and to its default team', async t => {
  const gw = await gateway(t)
  const id = await organisation(gw, 'a')
  const made = await gw.api('POST', USERS, { Email: 'Ada@example.com', First: 'Ada', OrganisationID: id })
  const ada = {
    Active: true,
    Email: 'Ada@example.com',
    First: 'Ada',
    Last: '',
    Role: 'consumer-team-member',
    Provider: 'password',
    OrganisationID: id,
    ID: 1
  }
  t.same(made.body, ada)
  t.same((await gw.api('GET', `${ORGANISATIONS}/${id}`)).body.Users, [ada])
  t.same((await gw.api('GET', `${ORGANISATIONS}/${id}/teams/2`)).body.Users, [1])
  const taken = await gw.api('POST', USERS, { Email: 'ADA@example.com' })
  t.equal(taken.status, 409)
  t.same(taken.body, { errors: ['a user of this e-mail address exists already'] })
  const changed = await gw.api('PUT', `${USERS}/1`, { Active: false, Email: 'ada@example.org', OrganisationID: 1 })
  t.same(changed.body, { ...ada, Active: false, Email: 'ada@example.org', OrganisationID: 1 })
  t.same(await members(gw, id), [])
  t.same(await members(gw, 1), [1])
  t.equal((await gw.api('PUT', `${USERS}/1`, { OrganisationID: 77 })).status, 400)
  t.equal((await gw.api('POST', USERS, { Email: 'ada@example.com' })).status, 200, 'the old address is free')
  t.equal(
    (await gw.api('PUT', `${USERS}/1`, { Email: 'ADA@EXAMPLE.ORG' })).status,
    200,
    'the own address in other case'
  )
  t.equal((await gw.api('PUT', `${USERS}/1`, { Email: 'ada@example.com' })).status, 409)
  t.same((await gw.api('DELETE', `${USERS}/1`)).body, { status: 'ok' })
  t.equal((await gw.api('GET', `${USERS}/1`)).status, 404)
  t.same(await members(gw, 1), [2])
  t.same((await gw.api('GET', USERS)).body.length, 1)
  t.equal((await gw.api('POST', USERS, { Email: 'ada@example.org' })).body.ID, 3)
})

t.test('teams hold members of their organisation', async t => {
  const gw = await gateway(t)
  const id = await organisation(gw, 'a')
  const [one, two] = [await user(gw, 'one@b.c', id), await user(gw, 'two@b.c', id)]
  const stranger = await user(gw, 'x@b.c', 1)
  const teams = `${ORGANISATIONS}/${id}/teams`
  const made = await gw.api('POST', teams, { Name: 'Blue', Users: [two, two, one] })
  t.same(made.body, { Default: false, ID: 3, Name: 'Blue', Users: [two, one] })
  t.same((await gw.api('GET', teams)).body, [
    { Default: true, ID: 2, Name: 'a All users', Users: [one, two] },
    made.body
  ])
  t.same((await gw.api('GET', `${ORGANISATIONS}/${id}`)).body.Teams, [
    { Default: true, ID: 2, Name: 'a All users' },
    { Default: false, ID: 3, Name: 'Blue' }
  ])
  t.equal((await gw.api('POST', teams, { Name: 'Red', Users: [stranger] })).status, 400)
  t.equal((await gw.api('PUT', `${teams}/3`, { Users: [stranger] })).status, 400)
  t.equal((await gw.api('PUT', `${teams}/2`, { Users: [one] })).status, 400, 'the default team holds everybody')
  t.equal((await gw.api('PUT', `${teams}/2`, { Name: 'All', Users: [two, one] })).body.Name, 'All')
  t.same((await gw.api('PUT', `${teams}/3`, { Name: 'Green' })).body, { ...made.body, Name: 'Green' })
  t.same((await gw.api('PUT', `${teams}/3`, { Users: [one] })).body.Users, [one])
  t.equal(
    (await gw.api('PUT', `${ORGANISATIONS}/${id}`, { Name: 'b' })).body.Teams[0].Name,
    'All',
    'a name of its own stays'
  )
  await gw.api('DELETE', `${USERS}/${one}`)
  t.same((await gw.api('GET', `${teams}/3`)).body.Users, [])
  await gw.api('PUT', `${teams}/3`, { Users: [two] })
  t.same((await gw.api('DELETE', `${teams}/3`)).body, { status: 'ok' })
  t.same((await gw.api('GET', teams)).body, [{ Default: true, ID: 2, Name: 'All', Users: [two] }])
  t.equal((await gw.api('GET', `${teams}/3`)).status, 404)
  t.equal((await gw.api('GET', `${ORGANISATIONS}/1/teams/2`)).status, 404, "another organisation's team")

  await gw.api('DELETE', `${ORGANISATIONS}/${id}`)
  t.same(await members(gw, 1), [stranger, two])
  t.equal((await gw.api('GET', `${USERS}/${two}`)).body.OrganisationID, 1)
})

t.test('50 who write at once lose nothing and get ids of their own', async t => {
  const gw = await gateway(t)
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, i) =>
      i % 2 === 0
        ? gw.api('POST', ORGANISATIONS, { Name: `o${i}` })
        : gw.api('POST', USERS, { Email: `u${i}@example.com`, OrganisationID: 1 })
    )
  )
  t.same([...new Set(answers.map(({ status }) => status))], [200])
  const ids = (rest: number) => answers.filter((_, i) => i % 2 === rest).map(({ body }) => body.ID as number)
  const sorted = (numbers: number[]) => numbers.sort((a, b) => a - b)
  const from = (first: number) => Array.from({ length: 25 }, (_, i) => first + i)
  t.same(sorted(ids(0)), from(2))
  t.same(sorted(ids(1)), from(1))
  t.same(sorted(await members(gw, 1)), from(1))
  const all = (await gw.api('GET', `${ORGANISATIONS}?page=-1`)).body
  t.equal(new Set(all.flatMap(({ Teams }: any) => Teams.map(({ ID }: any) => ID))).size, 26)
})

t.test('a portal belongs to an organisation of the management interface, and to those who may use it', async t => {
  const gw = await gateway(t)
  const id = await organisation(gw, 'a')
  await user(gw, 'one@b.c', id)
  const stranger = await gw.user({ org_id: 'other' })
  for (const [method, path, given] of [
    ['GET', `${ORGANISATIONS}/${id}`],
    ['PUT', `${ORGANISATIONS}/${id}`, { Name: 'mine' }],
    ['DELETE', `${ORGANISATIONS}/${id}`],
    ['GET', `${ORGANISATIONS}/${id}/teams`],
    ['POST', `${ORGANISATIONS}/${id}/teams`, { Name: 'mine' }],
    ['DELETE', `${ORGANISATIONS}/${id}/teams/2`],
    ['GET', `${USERS}/1`],
    ['PUT', `${USERS}/1`, { First: 'x' }],
    ['DELETE', `${USERS}/1`]
  ] as const)
    t.equal((await gw.api(method, path, given, { key: stranger })).status, 404, `${method} ${path}`)
  t.equal((await gw.api('GET', ORGANISATIONS, undefined, { key: stranger })).body.length, 1)
  t.same((await gw.api('GET', USERS, undefined, { key: stranger })).body, [])
  t.equal((await gw.api('POST', ORGANISATIONS, { Name: 'theirs' }, { key: stranger })).body.ID, 2)
  t.equal((await gw.api('POST', USERS, { Email: 'one@b.c' }, { key: stranger })).body.ID, 1)
  t.equal((await gw.api('GET', `${ORGANISATIONS}/${id}`)).body.Name, 'a')

  const writer = await gw.user({ org_id: 'default', user_permissions: { portal: 'write' } })
  t.equal((await gw.api('GET', ORGANISATIONS, undefined, { key: writer })).status, 200)
  for (const [key, status] of [
    [await gw.user({ org_id: 'default', user_permissions: { portal: 'read' } }), 403],
    [await gw.user({ org_id: 'default', user_permissions: { apis: 'write' } }), 403],
    [await gw.user({ org_id: 'default', active: false }), 403],
    ['wrong', 401],
    [null, 401]
  ] as const) {
    const answer = await gw.api('GET', ORGANISATIONS, undefined, { key })
    t.equal(answer.status, status)
    t.match(answer.body, { errors: [String] })
  }
})

t.test('of two who change one organisation from the same state, the second is told', async t => {
  const gw = await gateway(t)
  const id = await organisation(gw, 'a')
  const path = `${ORGANISATIONS}/${id}`
  const state = (await gw.api('GET', path)).headers.get('etag')!
  const change = (Name: string) => gw.api('PUT', path, { Name }, { headers: { 'If-Match': state } })
  const answers = await Promise.all([change('b'), change('c'), change('d')])
  t.same(answers.map(({ status }) => status).sort(), [200, 412, 412])
  const winner = answers.find(({ status }) => status === 200)!
  const now = await gw.api('GET', path)
  t.same(now.body, winner.body)
  t.equal(now.headers.get('etag'), winner.headers.get('etag'))
  t.equal((await gw.api('DELETE', path, undefined, { headers: { 'If-Match': state } })).status, 412)
  t.equal((await gw.api('GET', `${path}/teams/2`)).headers.get('etag'), now.headers.get('etag'))
})

t.test('a change leaves one audit record, with what it changed', async t => {
  const gw = await gateway(t)
  const id = await organisation(gw, 'a')
  await gw.api('PUT', `${ORGANISATIONS}/${id}`, { Name: 'b' })
  await gw.api('PUT', `${ORGANISATIONS}/99`, { Name: 'b' })
  const { documents } = await gw.store.list<any>('audit', { page: -1, size: 1 })
  t.match(
    documents.map(({ body }) => body),
    [
      { method: 'POST', status: 200 },
      { method: 'PUT', status: 200 },
      { method: 'PUT', status: 404 }
    ]
  )
  t.ok(documents[1]!.body.diff.some(({ path, value }: any) => path === '/Name' && value === 'b'))
})
