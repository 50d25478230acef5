import t from 'tap'
import { gateway } from '../helpers/gateway.ts'

const PATH = '/api/hooks'
const done = (Message: string, Meta: string | null = null) => ({ Message, Meta, Status: 'OK' })
const error = (Message: string) => ({ Status: 'Error', Message, Meta: null })
const INVALID = 'Webhook object validation failed.'
const MALFORMED = 'Request body malformed.'
const plain = { method: 'POST', target_path: 'https://hooks.example/in' }

t.test('a webhook is created, read, replaced and deleted', async t => {
  const gw = await gateway(t)
  const given = {
    ...plain,
    name: 'n',
    event_timeout: 60,
    header_map: { Authorization: 'Bearer z9z9', 'X-Own': 'z8z8' },
    template_path: 'templates/own.json',
    webhook_id: 'w'
  }
  const create = await gw.api('POST', PATH, given)
  const id = create.body.Meta
  t.same([create.status, create.body], [200, done('Webhook created', id)])
  t.match(id, /^[0-9a-f]{24}$/)
  const whole = { ...given, api_model: {}, id, org_id: 'default' }
  for (const one of [id, 'w']) {
    const { body, headers } = await gw.api('GET', `${PATH}/${one}`)
    t.same([body, headers.get('etag')], [whole, '"1"'])
  }
  t.same((await gw.api('GET', PATH)).body, { hooks: [whole], pages: 1 })
  const put = await gw.api('PUT', `${PATH}/${id}`, { method: 'PUT', target_path: 'http://10.0.0.1:8080/x?y=1' })
  t.same([put.body, put.headers.get('etag')], [done('Hook updated'), '"2"'])
  t.same((await gw.api('GET', `${PATH}/w`)).body, {
    api_model: {},
    event_timeout: 0,
    header_map: {},
    id,
    method: 'PUT',
    name: '',
    org_id: 'default',
    target_path: 'http://10.0.0.1:8080/x?y=1',
    template_path: '',
    webhook_id: 'w'
  })
  const late = await gw.api('PUT', `${PATH}/${id}`, plain, { headers: { 'If-Match': '"1"' } })
  t.equal(late.status, 412)
  const records = JSON.stringify((await gw.api('GET', '/api/audit-logs?p=-1')).body)
  t.match(records, '10.0.0.1')
  t.notMatch(records, /z9z9|z8z8/)
  t.same((await gw.api('DELETE', `${PATH}/w`)).body, done('Webhook deleted'))
  t.same((await gw.api('GET', PATH)).body, { hooks: [], pages: 0 })
  t.equal((await gw.api('POST', PATH, { ...plain, webhook_id: 'w' })).status, 200, 'the id is free again')
})

t.test('what is wrong is refused with its text', async t => {
  const gw = await gateway(t)
  await gw.api('POST', PATH, { ...plain, webhook_id: 'taken' })
  const id = (await gw.api('POST', PATH, plain)).body.Meta
  const cases: [string, string, unknown, number, string][] = [
    ['POST', '', '', 400, 'Failed to read response body, body empty'],
    ['POST', '', '{', 400, MALFORMED],
    ['POST', '', [], 400, MALFORMED],
    ['POST', '', { ...plain, surprise: 1 }, 400, MALFORMED],
    ['POST', '', { ...plain, header_map: { a: 1 } }, 400, MALFORMED],
    ['POST', '', { ...plain, event_timeout: -1 }, 400, MALFORMED],
    ['POST', '', {}, 400, INVALID],
    ['POST', '', { method: 'POST' }, 400, INVALID],
    ['POST', '', { target_path: plain.target_path }, 400, INVALID],
    ['PUT', `/${id}`, {}, 400, INVALID],
    ...['', 'post', 'HEAD', 'TRACE', '__proto__'].map(
      method => ['POST', '', { ...plain, method }, 400, INVALID] as [string, string, unknown, number, string]
    ),
    ...[
      '',
      '/relative',
      '//a.example/x',
      'ftp://a.example/',
      'file:///etc/passwd',
      'javascript:alert(1)',
      'http://',
      'https:///x',
      'https://user@a.example/',
      'https://:word@a.example/',
      'https://a.example/\r\nX: y',
      ' https://a.example/',
      'https://a.example:99999/'
    ].map(
      target_path => ['POST', '', { ...plain, target_path }, 400, INVALID] as [string, string, unknown, number, string]
    ),
    ...[
      { '': 'x' },
      { 'a b': 'x' },
      { 'a\nb': 'x' },
      { a: 'x\r\ny: z' },
      { a: '\u0000' },
      { a: '€' },
      { Host: 'x' },
      { 'content-length': '1' }
    ].map(
      header_map => ['POST', '', { ...plain, header_map }, 400, INVALID] as [string, string, unknown, number, string]
    ),
    ['POST', '', { ...plain, template_path: '../../etc/passwd' }, 400, INVALID],
    ['POST', '', { ...plain, webhook_id: 'a\0b' }, 400, INVALID],
    ['POST', '', { ...plain, webhook_id: 'taken' }, 409, 'Duplicate webhook_id.'],
    ['POST', '', { ...plain, webhook_id: id }, 409, 'Duplicate webhook_id.'],
    ['PUT', `/${id}`, { ...plain, webhook_id: 'taken' }, 409, 'Duplicate webhook_id.'],
    ['POST', '', { ...plain, org_id: 'foreign' }, 403, 'access denied: the webhook belongs to another organisation'],
    ['GET', '/nothing', undefined, 404, 'Could not retrieve webhook detail.'],
    ['PUT', '/nothing', plain, 404, 'Webhook not found.'],
    ['DELETE', '/nothing', undefined, 404, 'Webhook not found.'],
    ['GET', '/%00', undefined, 404, 'Could not retrieve webhook detail.']
  ]
  for (const [method, path, body, status, message] of cases) {
    const answer = await gw.api(method, PATH + path, body)
    const { faults: _faults, ...told } = answer.body
    t.same([answer.status, told], [status, error(message)], `${method} ${path} ${JSON.stringify(body)?.slice(0, 90)}`)
  }
  t.equal((await gw.api('GET', PATH)).body.hooks.length, 2)
})

t.test('webhooks of another organisation are unknown; lists are paged', async t => {
  const gw = await gateway(t)
  const stranger = { key: await gw.user({ org_id: 'foreign' }) }
  const id = (await gw.api('POST', PATH, { ...plain, webhook_id: 'w' })).body.Meta
  for (const one of [id, 'w'])
    for (const method of ['GET', 'PUT', 'DELETE'])
      t.equal((await gw.api(method, `${PATH}/${one}`, method === 'PUT' ? plain : undefined, stranger)).status, 404)
  t.equal((await gw.api('POST', PATH, { ...plain, webhook_id: 'w' }, stranger)).status, 200)
  for (let i = 0; i < 11; i++) await gw.api('POST', PATH, { ...plain, name: `n${i}` })
  const sizes: [string, number, number][] = [
    ['', 10, 2],
    ['?p=2', 2, 2],
    ['?p=3', 0, 2],
    ['?p=-1', 12, 1],
    ['?page_size=5&p=3', 2, 3]
  ]
  for (const [query, count, pages] of sizes) {
    const { body } = await gw.api('GET', PATH + query)
    t.same([body.hooks.length, body.pages], [count, pages], query)
  }
  const reader = { key: await gw.user({ org_id: 'default', user_permissions: { hooks: 'read' } }) }
  t.equal((await gw.api('GET', `${PATH}/w`, undefined, reader)).status, 200)
  t.equal((await gw.api('POST', PATH, plain, reader)).status, 403)
  const race = await Promise.all(
    Array.from({ length: 10 }, () => gw.api('POST', PATH, { ...plain, webhook_id: 'race' }))
  )
  t.same(race.map(({ status }) => status).sort(), [200, ...new Array(9).fill(409)])
})
