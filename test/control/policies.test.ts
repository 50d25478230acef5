import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { api, gateway, rights, type TestGateway, withKey } from '../helpers/gateway.ts'
import { upstream } from '../helpers/upstream.ts'

const PATH = '/api/portal/policies'
const done = (Message: string) => ({ Message, Meta: null, Status: 'OK' })
const error = (Message: string) => ({ Status: 'Error', Message, Meta: null })
const UNKNOWN = 'Could not retrieve portal object.'
const NAME_TAKEN = 'This policy name has already been used. Enter a unique policy name.'

async function created(gw: TestGateway, body: object, given = {}): Promise<string> {
  const answer = await gw.api('POST', PATH, body, given)
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.body))
  return answer.body.Message
}

t.test('a policy is created, read, replaced and deleted in the words of the interface', async t => {
  const gw = await gateway(t)
  const given = {
    name: 'gold',
    rate: 10,
    per: 1,
    quota_max: 100,
    quota_renewal_rate: 60,
    throttle_interval: 0.5,
    throttle_retry_limit: 2,
    max_query_depth: 5,
    active: true,
    is_inactive: false,
    hmac_enabled: false,
    key_expires_in: '5h,34m,30s',
    post_expiry_action: 'retain',
    post_expiry_grace_period: '1d',
    tags: ['a'],
    meta_data: { tier: 1 },
    partitions: { acl: true, complexity: false, per_api: false, quota: true, rate_limit: true },
    smoothing: { enabled: true, threshold: 5, trigger: 0.5, step: 1, delay: 10 },
    hook_references: [
      {
        event_name: 'QuotaExceeded',
        event_timeout: 60,
        hook: { method: 'POST', target_path: 'https://hooks.example/x', header_map: { Authorization: 'Bearer z9z9' } }
      }
    ],
    ...rights('a')
  }
  const create = await gw.api('POST', PATH, { ...given, _id: 'mine', date_created: 'never' })
  t.equal(create.status, 200)
  t.equal(create.headers.get('etag'), '"1"')
  const id = create.body.Message
  t.same(create.body, done(id))
  t.match(id, /^[0-9a-f]{24}$/)
  const { body, headers } = await gw.api('GET', `${PATH}/${id}`)
  t.equal(headers.get('etag'), '"1"')
  const { date_created, last_updated, ...rest } = body
  t.match(date_created, /^\d{4}-\d\d-\d\dT/)
  t.match(last_updated, /^\d+$/)
  t.same(rest, { ...given, key_expires_in: 20_070, post_expiry_grace_period: 86_400, id, _id: id, org_id: 'default' })

  const put = await gw.api('PUT', `${PATH}/${id}`, { ...body, _id: 'other', name: 'silver', tags: null })
  t.same([put.status, put.body, put.headers.get('etag')], [200, done('Data updated'), '"2"'])
  const after = (await gw.api('GET', `${PATH}/${id}`)).body
  t.match(after, { _id: id, id, name: 'silver', tags: null, date_created })
  await gw.api('PUT', `${PATH}/${id}`, { name: 'silver' })
  t.equal((await gw.api('GET', `${PATH}/${id}`)).body.rate, 0, 'it is replaced whole')

  t.same((await gw.api('DELETE', `${PATH}/${id}`)).body, done('Data deleted'))
  t.equal((await gw.api('GET', `${PATH}/${id}`)).status, 404)
  const records = JSON.stringify((await gw.api('GET', '/api/audit-logs?p=-1')).body)
  t.match(records, 'silver')
  t.notMatch(records, 'z9z9', 'headers of webhooks are masked')
})

t.test('what cannot be is refused with its text, and nothing is written', async t => {
  const gw = await gateway(t)
  await created(gw, { id: 'taken', name: 'taken' })
  const other = await created(gw, { id: 'other', name: 'other' })
  const malformed = 'Request body malformed.'
  const hook = (hook: object, more = {}) => ({ hook_references: [{ event_name: 'E', hook, ...more }] })
  const cases: [string, string, unknown, number, string][] = [
    ['POST', '', { name: 'taken' }, 400, NAME_TAKEN],
    ['PUT', `/${other}`, { name: 'taken' }, 400, NAME_TAKEN],
    ['POST', '', { id: 'taken' }, 409, 'A policy of the id taken exists already'],
    ['POST', '', { id: 'a/b' }, 400, 'Invalid Policy ID: Allowed characters: a-z, A-Z, 0-9, ., _, -, ~'],
    ['POST', '', { id: 'search' }, 400, 'Invalid policy ID.'],
    ['POST', '', { org_id: 'foreign' }, 403, 'access denied: the policy belongs to another organisation'],
    ['PUT', `/${other}`, { org_id: 'foreign' }, 403, 'access denied: the policy belongs to another organisation'],
    ['PUT', `/${other}`, { id: 'another' }, 400, 'Invalid policy ID.'],
    ['POST', '', '', 400, 'Failed to read response body, body empty'],
    ['POST', '', '{', 400, malformed],
    ['POST', '', [], 400, malformed],
    ['POST', '', { surprise: 1 }, 400, malformed],
    ['POST', '', { rate: 'x' }, 400, malformed],
    ['POST', '', '{"quota_max":12345678901234567890}', 400, malformed],
    ['POST', '', { key_expires_in: 'soon' }, 400, malformed],
    [
      'POST',
      '',
      { rate: 5, per: 1, smoothing: { enabled: true, threshold: 9, step: 1, delay: 1, trigger: 1 } },
      400,
      malformed
    ],
    ['POST', '', { smoothing: { trigger: 0.005 } }, 400, malformed],
    [
      'POST',
      '',
      { partitions: { per_api: true, acl: true }, id: 'p' },
      400,
      'cannot apply policy p which has per_api and any of partitions set'
    ],
    ['POST', '', hook({ target_path: 'file:///etc/passwd' }), 400, malformed],
    ['POST', '', hook({ target_path: 'https://user:word@a.example/' }), 400, malformed],
    ['POST', '', hook({ method: 'TRACE' }), 400, malformed],
    ['POST', '', hook({ header_map: { 'a b': 'c' } }), 400, malformed],
    ['POST', '', hook({ header_map: { a: 'b\r\nc: d' } }), 400, malformed],
    ['POST', '', hook({ org_id: 'foreign' }), 400, malformed],
    ['POST', '', hook({}, { event_timeout: -1 }), 400, malformed],
    ['POST', '', { hook_references: [{ hook: {} }] }, 400, malformed],
    ['PUT', '/nothing', {}, 404, UNKNOWN],
    ['GET', '/nothing', undefined, 404, UNKNOWN],
    ['DELETE', '/nothing', undefined, 404, 'Could not retrieve object for deletion'],
    ['GET', '/a%2Fb', undefined, 400, 'Invalid policy ID.'],
    ['GET', '/%00', undefined, 400, 'Invalid policy ID.'],
    ['PUT', `/${'x'.repeat(300)}`, {}, 400, 'Invalid policy ID.'],
    ['DELETE', '/a%20b', undefined, 400, 'Invalid policy ID.']
  ]
  for (const [method, path, body, status, message] of cases) {
    const answer = await gw.api(method, PATH + path, body)
    const { faults, ...told } = answer.body
    t.same([answer.status, told], [status, error(message)], `${method} ${path} ${JSON.stringify(body)?.slice(0, 80)}`)
    if (message === malformed) t.ok(faults.length > 0)
  }
  t.equal((await gw.api('GET', PATH)).body.Data.length, 2)
})

t.test('names are unique in an organisation, freed by deletion and renaming, whoever writes', async t => {
  const gw = await gateway(t)
  const stranger = await gw.user({ org_id: 'foreign' })
  const id = await created(gw, { name: 'one' })
  await created(gw, { name: 'one' }, { key: stranger })
  await created(gw, {})
  await created(gw, { name: '' })
  const taken = async (name: string) => (await gw.api('POST', PATH, { name })).body.Message === NAME_TAKEN
  t.ok(await taken('one'))
  t.same((await gw.svc('POST', '/svc/policies', { id: 's', name: 'one' })).body, {
    status: 'error',
    message: NAME_TAKEN
  })
  await gw.svc('POST', '/svc/policies', { id: 's', name: 'two' })
  t.ok(await taken('two'))
  t.equal((await gw.api('PUT', `${PATH}/${id}`, { name: 'one' })).status, 200, 'its own name stays its own')
  t.equal((await gw.api('PUT', `${PATH}/${id}`, { name: 'three' })).status, 200)
  t.equal((await gw.svc('PUT', '/svc/policies/s', { name: 'one' })).status, 200)
  t.notOk(await taken('two'))
  t.ok(await taken('three'))
  await gw.api('DELETE', `${PATH}/${id}`)
  t.notOk(await taken('three'))
  await gw.svc('PUT', '/svc/policies/s', { name: 'moved', org_id: 'foreign' })
  t.notOk(await taken('moved'))
  t.equal((await gw.api('POST', PATH, { name: 'moved' }, { key: stranger })).body.Message, NAME_TAKEN)
  const together = await Promise.all(Array.from({ length: 20 }, () => gw.api('POST', PATH, { name: 'race' })))
  t.same(together.map(({ status }) => status).sort(), [200, ...new Array(19).fill(400)])
})

t.test('a custom id and the database id lead to the same policy', async t => {
  const gw = await gateway(t)
  t.equal(await created(gw, { id: 'my.policy' }), 'my.policy')
  const { _id } = (await gw.api('GET', `${PATH}/my.policy`)).body
  t.match(_id, /^[0-9a-f]{24}$/)
  t.equal((await gw.api('GET', `${PATH}/${_id}`)).body.id, 'my.policy')
  t.equal((await gw.api('PUT', `${PATH}/${_id}`, { id: 'my.policy', name: 'n' })).status, 200)
  t.equal((await gw.api('DELETE', `${PATH}/${_id}`)).status, 200)
  t.equal((await gw.api('GET', `${PATH}/${_id}`)).status, 404)
})

t.test("nobody gives a policy another's database id", async t => {
  const gw = await gateway(t)
  const stranger = { key: await gw.user({ org_id: 'foreign' }) }
  await created(gw, { id: 'first', name: 'kept' })
  const { _id } = (await gw.api('GET', `${PATH}/first`)).body
  const refused = `A policy of the id ${_id} exists already`
  for (const given of [{}, stranger]) {
    const answer = await gw.api('POST', PATH, { id: _id }, given)
    t.same([answer.status, answer.body], [409, error(refused)])
  }
  for (const body of [{ id: _id }, { _id }]) {
    const answer = await gw.svc('POST', '/svc/policies', body)
    t.same([answer.status, answer.body], [409, { status: 'error', message: refused }])
  }
  t.equal((await gw.api('GET', `${PATH}/${_id}`)).body.name, 'kept')
  t.equal((await gw.api('PUT', `${PATH}/${_id}`, { id: 'first', name: 'again' })).status, 200)
  t.equal((await gw.api('DELETE', `${PATH}/first`)).status, 200)
  for (const id of [_id, 'first']) t.equal(await created(gw, { id }), id, 'what was deleted keeps no id')
  const race = await Promise.all(Array.from({ length: 10 }, () => gw.svc('POST', '/svc/policies', { id: 'race' })))
  t.same(race.map(({ status }) => status).sort(), [200, ...new Array(9).fill(409)])
  await Promise.all(['race', 'first', _id].map(id => gw.svc('DELETE', `/svc/policies/${id}`)))
  t.equal((await gw.store.list('name', { org: '', page: 1, size: 1 })).total, 0, 'nothing is left behind')
})

t.test('policies of another organisation are unknown', async t => {
  const gw = await gateway(t)
  const stranger = { key: await gw.user({ org_id: 'foreign' }) }
  const id = await created(gw, { id: 'p', name: 'n', ...rights('a') })
  const { _id } = (await gw.api('GET', `${PATH}/p`)).body
  await gw.api('PUT', `${PATH}/p`, { name: 'n' })
  for (const one of [id, _id])
    for (const [method, path, body] of [
      ['GET', '', undefined],
      ['PUT', '', { name: 'x' }],
      ['DELETE', '', undefined],
      ['GET', '/revisions', undefined],
      ['GET', '/revisions/1', undefined],
      ['POST', '/revisions/1/restore', undefined]
    ] as const)
      t.equal((await gw.api(method, `${PATH}/${one}${path}`, body, stranger)).status, 404, `${method} ${path}`)
  for (const path of [PATH, `${PATH}?p=-1`, `${PATH}?active=true`, `${PATH}/search?q=n`, `${PATH}/search?policy_ids=p`])
    t.same((await gw.api('GET', path, undefined, stranger)).body.Data, [], path)
  const reader = { key: await gw.user({ org_id: 'default', user_permissions: { policies: 'read' } }) }
  t.equal((await gw.api('GET', `${PATH}/p`, undefined, reader)).status, 200)
  t.equal((await gw.api('PUT', `${PATH}/p`, {}, reader)).status, 403)
  t.equal((await gw.api('POST', `${PATH}/p/revisions/1/restore`, undefined, reader)).status, 403)
  await gw.svc('PUT', '/svc/policies/p', { name: 'n', org_id: 'foreign' })
  const seen = await gw.api('GET', `${PATH}/p/revisions`, undefined, stranger)
  t.same(
    seen.body.revisions.map(({ revision }: any) => revision),
    [3],
    'not what it was elsewhere'
  )
  t.equal((await gw.api('GET', `${PATH}/p/revisions/1`, undefined, stranger)).status, 404)
})

t.test('lists are paged, the folder first, and narrowed to active ones', async t => {
  const folder = join(t.testdir(), 'policies')
  mkdirSync(folder)
  for (const id of ['f1', 'f2', 'f3'])
    writeFileSync(join(folder, `${id}.json`), JSON.stringify({ name: id, key_expires_in: '1h30m' }))
  writeFileSync(join(folder, 'foreign.json'), JSON.stringify({ org_id: 'foreign' }))
  const gw = await gateway(t, { settings: { gateway: { policies_path: folder }, management: { page_size: 4 } } })
  for (let i = 1; i <= 6; i++) await created(gw, { id: `s${i}`, active: i % 2 === 1, is_inactive: i === 5 })
  const ids = async (query: string) => {
    const { status, body } = await gw.api('GET', PATH + query)
    return status === 200 ? [body.Data.map(({ id }: any) => id).join(' '), body.Pages] : status
  }
  const all = 'f1 f2 f3 s1 s2 s3 s4 s5 s6'
  const cases: [string, unknown][] = [
    ['', ['f1 f2 f3 s1', 3]],
    ['?p=0', ['f1 f2 f3 s1', 3]],
    ['?p=2', ['s2 s3 s4 s5', 3]],
    ['?p=3', ['s6', 3]],
    ['?p=4', ['', 3]],
    ['?p=999999999', ['', 3]],
    ['?p=-1', [all, 1]],
    ['?p=2&page_size=2', ['f3 s1', 5]],
    ['?p=3&page_size=2', ['s2 s3', 5]],
    ['?page_size=1000', [all, 1]],
    ['?active=true', ['f1 f2 f3 s1', 2]],
    ['?active=true&p=2', ['s3', 2]],
    ['?active=false', ['s2 s4 s5 s6', 1]],
    ['?active=false&p=-1', ['s2 s4 s5 s6', 1]],
    ['?active=perhaps', 400],
    ['?p=x', 400],
    ['?p=x', 400]
  ]
  for (const [query, expected] of cases) t.same(await ids(query), expected, query)
  t.match((await gw.api('GET', `${PATH}/f1`)).body, { name: 'f1', key_expires_in: 5400 })
  for (const method of ['PUT', 'DELETE']) {
    const { status, body } = await gw.api(method, `${PATH}/f1`, method === 'PUT' ? {} : undefined)
    t.same([status, body.Message], [409, 'Policy f1 comes from a file and is read-only'])
  }
  t.equal((await gw.api('GET', `${PATH}/foreign`)).status, 404)
})

t.test('policies are found by text, ids, state, API and authentication, and sorted', async t => {
  const gw = await gateway(t, {
    apis: [api('locked', 'svc://echo', { server: withKey as object }), api('open', 'svc://echo')]
  })
  for (const policy of [
    { id: 'a', name: 'Gold plan', tags: ['paid'], ...rights('locked') },
    { id: 'b', name: 'Silver plan', active: false, ...rights('open') },
    { id: 'c', name: 'bronze', is_inactive: true, ...rights('locked', 'open') }
  ])
    await created(gw, { active: true, ...policy })
  const { _id } = (await gw.api('GET', `${PATH}/c`)).body
  const cases: [string, unknown][] = [
    ['', 'a b c'],
    ['q=PLAN', 'a b'],
    ['q=paid', 'a'],
    ['q=c', 'c'],
    ['q=nothing', ''],
    ['policy_ids=c,a', 'c a'],
    [`policy_ids=${_id},c,unknown`, 'c'],
    ['policy_ids=a%2Fb', 'Policy ID is not in hex format.'],
    ['policy_ids=a,,b', 'Policy ID is not in hex format.'],
    ['active=true', 'a'],
    ['state=active', 'a'],
    ['state=draft', 'b'],
    ['state=deny', 'c'],
    ['state=other', 400],
    ['sort=name', 'a b c'],
    ['sort=-name', 'c b a'],
    ['sort=state', 'a c b'],
    ['sort=-date_created&policy_ids=a', 'a'],
    ['sort=-name&p=2&page_size=2', 'a'],
    ['sort=-name&p=-1', 'c b a'],
    ['sort=rate', 400],
    ['api_id=open', 'b c'],
    ['api_id=__proto__', ''],
    ['auth_type=authToken', 'a c'],
    ['auth_type=keyless', 'b c'],
    ['auth_type=jwt', ''],
    ['p=2&page_size=2', 'c'],
    ['p=-1&q=plan', 'a b']
  ]
  for (const [query, expected] of cases) {
    const { status, body } = await gw.api('GET', `${PATH}/search?${query}`)
    const told = status === 200 ? body.Data.map(({ id }: any) => id).join(' ') : body.Message
    t.equal(typeof expected === 'number' ? status : told, expected, query)
  }
})

t.test('what is written counts for the next request', async t => {
  const server = await upstream(t)
  const gw = await gateway(t, { apis: [api('a', server.url, { server: withKey as object })] })
  const id = await created(gw, { active: true, rate: 100, per: 60, ...rights('a') })
  const token = await gw.key({ apply_policies: [id] })
  const status = async () => (await gw.get('/a/', { Authorization: token })).status
  t.equal(await status(), 200)
  await gw.api('PUT', `${PATH}/${id}`, { active: true, is_inactive: true, ...rights('a') })
  t.equal(await status(), 403)
  await gw.api('POST', `${PATH}/${id}/revisions/1/restore`)
  t.equal(await status(), 200)
  await gw.api('DELETE', `${PATH}/${id}`)
  t.equal(await status(), 403)
})

t.test('two who change the same policy cannot overwrite each other unknowingly', async t => {
  const gw = await gateway(t)
  const id = await created(gw, { name: 'start' })
  const put = (name: string, tag?: string) =>
    gw.api('PUT', `${PATH}/${id}`, { name }, tag === undefined ? {} : { headers: { 'If-Match': tag } })
  t.equal((await put('first', '"1"')).status, 200)
  const late = await put('second', '"1"')
  t.same([late.status, late.headers.get('etag')], [412, '"2"'])
  t.equal((await gw.api('GET', `${PATH}/${id}`)).body.name, 'first')
  const both = await Promise.all([put('third', '"2"'), put('fourth', '"2"')])
  t.same(both.map(({ status }) => status).sort(), [200, 412])
  t.equal((await put('any', '*')).status, 200)
  const free = await Promise.all(Array.from({ length: 10 }, (_, i) => put(`n${i}`)))
  t.ok(
    free.every(({ status }) => status === 200),
    'without If-Match all come through, one after another'
  )
  t.equal((await gw.api('GET', `${PATH}/${id}`)).headers.get('etag'), '"14"')
  const headers = { 'If-Match': '"1"' }
  t.equal((await gw.api('DELETE', `${PATH}/${id}`, undefined, { headers })).status, 412)
  t.equal((await gw.svc('PUT', `/svc/policies/${id}`, { name: 'x' }, headers)).status, 412)
})
