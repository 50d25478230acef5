import t from 'tap'
import { gateway, type TestGateway } from '../helpers/gateway.ts'

const PATH = '/api/assets'
const error = (Message: string) => ({ Status: 'Error', Message, Meta: null })
const UNREADABLE = 'error reading json body.'
const data = {
  openapi: '3.0.3',
  info: { title: 't', version: '1' },
  paths: {},
  'x-svc-api-gateway': {
    middleware: {
      global: { cache: { enabled: true, cacheAllSafeRequests: true, timeout: 5 } },
      operations: { get: { requestSizeLimit: { enabled: true, value: 10 } } }
    }
  }
}

async function created(gw: TestGateway, body: object, given = {}): Promise<{ ID: string; Meta: string }> {
  const answer = await gw.api('POST', PATH, body, given)
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body))
  return answer.body
}

t.test('an asset is created, read, updated, patched and deleted, by either of its ids', async t => {
  const gw = await gateway(t)
  const create = await gw.api('POST', PATH, { id: 'mine', kind: 'oas-template', name: 'n', description: 'd', data })
  const { Meta: _id } = create.body
  t.same([create.status, create.body], [201, { ID: 'mine', Message: 'asset created', Meta: _id, Status: 'OK' }])
  t.match(_id, /^[0-9a-f]{24}$/)
  for (const id of ['mine', _id]) {
    const { status, body, headers } = await gw.api('GET', `${PATH}/${id}`)
    const { last_updated, ...rest } = body
    t.match(last_updated, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
    t.same([status, headers.get('etag')], [200, '"1"'])
    t.same(rest, { _id, id: 'mine', kind: 'oas-template', name: 'n', description: 'd', data, org_id: 'default' })
  }
  const put = await gw.api('PUT', `${PATH}/mine`, { _id: 'another', id: 'renamed', name: 'm', data: { a: 1 } })
  t.same(put.body, { ID: 'renamed', Message: 'asset updated', Meta: _id, Status: 'OK' })
  t.same([put.status, put.headers.get('etag')], [200, '"2"'])
  t.equal((await gw.api('GET', `${PATH}/mine`)).status, 404)
  t.match((await gw.api('GET', `${PATH}/renamed`)).body, { _id, name: 'm', description: '', data: { a: 1 } })
  t.equal((await gw.api('PUT', `${PATH}/${_id}`, { name: 'k' })).body.ID, 'renamed')
  t.match((await gw.api('GET', `${PATH}/${_id}`)).body, { id: 'renamed', name: 'k', data: { a: 1 } })
  t.equal((await created(gw, { id: 'mine', data })).ID, 'mine', 'the old id is free')
  const removed = { Message: 'Asset removed successfully', Meta: null, Status: 'OK' }
  t.same((await gw.api('DELETE', `${PATH}/renamed`)).body, removed)
  t.equal((await gw.api('GET', `${PATH}/${_id}`)).status, 404)
  const { ID, Meta } = await created(gw, { data })
  t.equal(ID, Meta, 'without a custom id it is the database id')
  t.same(
    (await gw.api('GET', `${PATH}?kind=oas-template`)).body.map(({ id }: any) => id),
    ['mine', ID]
  )
  t.same(
    (await gw.api('GET', `${PATH}?p=2&page_size=1`)).body.map(({ id }: any) => id),
    [ID]
  )
})

t.test('PATCH is JSON Merge Patch', async t => {
  const gw = await gateway(t)
  const { Meta } = await created(gw, { id: 'a', name: 'n', description: 'd', data: { a: { b: 1, c: [1, 2] }, d: 1 } })
  const cases: [object, object][] = [
    [{ name: 'm' }, { id: 'a', name: 'm', description: 'd', data: { a: { b: 1, c: [1, 2] }, d: 1 } }],
    [{ data: { a: { b: null, c: [3] }, e: { f: null, g: 1 } } }, { data: { a: { c: [3] }, d: 1, e: { g: 1 } } }],
    [
      { description: null, data: { a: null, e: null } },
      { description: '', data: { d: 1 } }
    ],
    [
      { id: 'b', _id: 'x', kind: null },
      { _id: Meta, id: 'b', kind: 'oas-template' }
    ],
    [{ id: null }, { _id: Meta, id: Meta }],
    [{ data: null }, { data: {} }]
  ]
  for (const [patch, after] of cases) {
    const { status } = await gw.api('PATCH', `${PATH}/${Meta}`, patch, {
      headers: { 'Content-Type': 'application/merge-patch+json' }
    })
    t.equal(status, 200, JSON.stringify(patch))
    const { body } = await gw.api('GET', `${PATH}/${Meta}`)
    for (const [name, value] of Object.entries(after)) t.same(body[name], value, JSON.stringify(patch))
  }
  for (const [patch, status] of [
    [{ data: [1] }, 400],
    [{ data: 'x' }, 400],
    [{ surprise: 1 }, 400],
    [{ kind: 'other' }, 422],
    [{ org_id: 'foreign' }, 403],
    ['[]', 400],
    ['12345678901234567890', 400]
  ] as const)
    t.equal((await gw.api('PATCH', `${PATH}/${Meta}`, patch)).status, status, JSON.stringify(patch))
})

t.test('what is wrong is refused with its text', async t => {
  const gw = await gateway(t)
  await created(gw, { id: 'taken', data })
  const { Meta } = await created(gw, { id: 'other', data })
  const kind = "unsupported asset kind: 'x'"
  const cases: [string, string, unknown, number, string][] = [
    ['POST', '', '', 400, UNREADABLE],
    ['PUT', '/other', '', 400, UNREADABLE],
    ['PATCH', '/other', '', 400, UNREADABLE],
    ['POST', '', '{', 400, UNREADABLE],
    ['POST', '', '[]', 400, UNREADABLE],
    ['POST', '', 'null', 400, UNREADABLE],
    ['POST', '', '12345678901234567890', 400, UNREADABLE],
    ['POST', '', '{"data":12345678901234567890}', 400, UNREADABLE],
    ['POST', '', { data: [] }, 400, UNREADABLE],
    ['POST', '', { data: 'x' }, 400, UNREADABLE],
    ['POST', '', { surprise: 1 }, 400, UNREADABLE],
    ['POST', '', { name: 1 }, 400, UNREADABLE],
    ['POST', '', { id: 'a\0b' }, 400, UNREADABLE],
    ['POST', '', { id: 'x'.repeat(257) }, 400, UNREADABLE],
    ['POST', '', '{"data":{"__proto__":{}}}', 400, UNREADABLE],
    ['POST', '', { id: 'taken' }, 409, "Asset ID already exists: 'taken'."],
    ['POST', '', { id: Meta }, 409, `Asset ID already exists: '${Meta}'.`],
    ['PUT', '/other', { id: 'taken' }, 409, "Asset ID already exists: 'taken'."],
    ['PATCH', '/other', { id: 'taken' }, 409, "Asset ID already exists: 'taken'."],
    ['POST', '', { kind: 'x' }, 422, kind],
    ['PUT', '/other', { kind: 'x' }, 422, kind],
    ['GET', '?kind=x', undefined, 400, kind],
    ['POST', '', { org_id: 'foreign' }, 403, 'access denied: the asset belongs to another organisation'],
    ['GET', '/nothing', undefined, 404, 'Asset not found'],
    ['PUT', '/nothing', {}, 404, 'Asset not found.'],
    ['PATCH', '/nothing', {}, 404, 'Asset not found.'],
    ['DELETE', '/nothing', undefined, 404, 'asset not found'],
    ['GET', '/%00', undefined, 404, 'Asset not found'],
    ['GET', '/a%2Fb', undefined, 404, 'Asset not found'],
    ['GET', `/${'x'.repeat(5000)}`, undefined, 404, 'Asset not found']
  ]
  for (const [method, path, body, status, message] of cases) {
    const answer = await gw.api(method, PATH + path, body)
    const { faults: _faults, ...told } = answer.body
    t.same([answer.status, told], [status, error(message)], `${method} ${path} ${JSON.stringify(body)?.slice(0, 60)}`)
  }
  t.equal((await gw.api('GET', PATH)).body.length, 2)
})

t.test('ids of any text are found again, and unique in an organisation alone', async t => {
  const gw = await gateway(t)
  const stranger = { key: await gw.user({ org_id: 'foreign' }) }
  for (const id of ['a/b', '__proto__', 'ä ö', '🔑', '100%', '..', 'a?b#c']) {
    const { Meta } = await created(gw, { id, data })
    await created(gw, { id, data }, stranger)
    const path = `${PATH}/${encodeURIComponent(id)}`
    // A URL has no segment of dots.
    if (id !== '..') t.equal((await gw.api('GET', path)).body._id, Meta, id)
    t.equal((await gw.api('POST', PATH, { id, data })).status, 409, id)
    for (const method of ['GET', 'PUT', 'PATCH', 'DELETE'])
      t.equal(
        (await gw.api(method, `${PATH}/${Meta}`, method === 'GET' || method === 'DELETE' ? undefined : {}, stranger))
          .status,
        404
      )
  }
  t.equal((await gw.api('GET', PATH, undefined, stranger)).body.length, 7)
  const race = await Promise.all(Array.from({ length: 20 }, () => gw.api('POST', PATH, { id: 'race', data })))
  t.same(race.map(({ status }) => status).sort(), [201, ...new Array(19).fill(409)])
})

t.test('data comes back as it was given: order, large integers, YAML', async t => {
  const gw = await gateway(t)
  const text = '{"z":1,"a":{"big":12345678901234567890,"small":1e-7,"nothing":null},"x-own":["ä",{}]}'
  const { ID } = await created(gw, JSON.parse('{}'))
  await gw.api('PUT', `${PATH}/${ID}`, `{"data":${text}}`)
  const raw = async () => {
    const key = await gw.user({ org_id: 'default' })
    return (await fetch(`${gw.managementUrl}${PATH}/${ID}`, { headers: { Authorization: key } })).text()
  }
  t.match(await raw(), text)
  await gw.api('PATCH', `${PATH}/${ID}`, '{"data":{"n":98765432109876543210}}')
  t.match(await raw(), `${text.slice(0, -1)},"n":98765432109876543210}`)
  const yaml = 'id: y\ndata:\n  big: 12345678901234567890\n  list: [1, two]\n'
  const answer = await gw.api('POST', PATH, yaml, { headers: { 'Content-Type': 'application/yaml' } })
  t.equal(answer.status, 201)
  t.same((await gw.api('GET', `${PATH}/y`)).body.data.list, [1, 'two'])
})

t.test('two who change the same asset cannot overwrite each other unknowingly', async t => {
  const gw = await gateway(t)
  const { ID } = await created(gw, { id: 'a', data })
  const patch = (name: string, tag?: string) =>
    gw.api('PATCH', `${PATH}/${ID}`, { name }, tag === undefined ? {} : { headers: { 'If-Match': tag } })
  const both = await Promise.all([patch('b', '"1"'), patch('c', '"1"')])
  t.same(both.map(({ status }) => status).sort(), [200, 412])
  const headers = { 'If-Match': '"1"' }
  t.equal((await gw.api('PUT', `${PATH}/${ID}`, { data }, { headers })).status, 412)
  t.equal((await gw.api('DELETE', `${PATH}/${ID}`, undefined, { headers })).status, 412)
  const free = await Promise.all(
    Array.from({ length: 10 }, (_, i) => gw.api('PATCH', `${PATH}/${ID}`, { data: { [`m${i}`]: i } }))
  )
  t.ok(free.every(({ status }) => status === 200))
  const after = (await gw.api('GET', `${PATH}/${ID}`)).body.data
  for (let i = 0; i < 10; i++) t.equal(after[`m${i}`], i, 'every change is there')
})
