import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { readApi } from '../../gateway/documents/readApi.ts'
import { api, gateway } from '../helpers/gateway.ts'
import { upstream } from '../helpers/upstream.ts'
import { type Asked, ask, tell } from './ask.ts'

type Case = [path: string, given: Asked, expected: string]

/** A document whose operations are all checked; those with an operationId. */
function checked(id: string, upstream: string, paths: Record<string, any>, more: Record<string, unknown> = {}): any {
  const ids = Object.values(paths)
    .flatMap(item => Object.values(item as object))
    .map(operation => operation.operationId)
    .filter(operationId => typeof operationId === 'string')
  const operations = Object.fromEntries(ids.map(each => [each, { validateRequest: { enabled: true } }]))
  return { ...api(id, upstream, { middleware: { operations } }, paths), ...more }
}

const query = (name: string, schema: object, more: object = {}) => ({ name, in: 'query', schema, ...more })
const json = (schema: object, more: object = {}) => ({ content: { 'application/json': { schema } }, ...more })
const post = (body: string, type = 'application/json'): Asked => ({
  method: 'POST',
  headers: { 'Content-Type': type },
  body
})

async function walk(t: Test, gw: { readonly url: string }, cases: readonly Case[]): Promise<void> {
  for (const [path, given, expected] of cases) {
    const { status, json, text } = await ask(gw, path, given)
    const name = `${given.method ?? 'GET'} ${path} ${String(given.body ?? '').slice(0, 60)}`
    if (expected === '') t.equal(status, 200, `${name}: ${text.slice(0, 200)}`)
    else t.same([status, json?.error], [422, `request validation error: ${expected}`], name)
  }
}

t.test('parameters are read by their place and style and held to their schemas', async t => {
  const up = await upstream(t, tell)
  const object = { type: 'object', properties: { a: { type: 'integer' }, b: { type: 'string' } }, required: ['a'] }
  const list = { type: 'array', items: { type: 'integer' }, maxItems: 3 }
  const gw = await gateway(t, {
    apis: [
      checked(
        'a',
        up.url,
        {
          '/users/{id}/posts/{day}': {
            parameters: [
              { name: 'id', in: 'path', required: true, schema: { type: 'string' } },
              { $ref: '#/components/parameters/page' }
            ],
            get: {
              operationId: 'own',
              parameters: [
                { name: 'id', in: 'path', required: true, schema: { type: 'integer', minimum: 1 } },
                { name: 'day', in: 'path', required: true, schema: { type: 'string', format: 'date' } },
                { name: 'X-Tags', in: 'header', schema: list },
                { name: 'Authorization', in: 'header', required: true, schema: { type: 'string' } },
                { name: 'seen', in: 'cookie', required: true, schema: { type: 'boolean' } }
              ]
            }
          },
          '/q': {
            get: {
              operationId: 'q',
              parameters: [
                query('need', { type: 'string', minLength: 2 }, { required: true }),
                query('empty', { type: 'integer' }, { allowEmptyValue: true }),
                query('many', list),
                query('comma', list, { explode: false }),
                query('space', list, { style: 'spaceDelimited', explode: false }),
                query('pipe', list, { style: 'pipeDelimited', explode: false }),
                query('deep', object, { style: 'deepObject' }),
                query('flat', object, { explode: false }),
                query('spread', { type: 'object', properties: { from: { type: 'integer' }, to: { type: 'integer' } } }),
                query('word', { type: 'string', enum: ['on', 'off'] }),
                query('either', {
                  anyOf: [
                    { type: 'integer', maximum: 9 },
                    { type: 'string', pattern: '^x?[0-9]{2}$' }
                  ]
                }),
                { name: 'filter', in: 'query', content: { 'application/json': { schema: object } } }
              ]
            }
          },
          '/p/{list}/{point}/{.dot}.json': {
            get: {
              operationId: 'p',
              parameters: [
                { name: 'list', in: 'path', required: true, schema: list },
                { name: 'point', in: 'path', required: true, explode: true, schema: object },
                { name: '.dot', in: 'path', required: true, style: 'label', schema: { type: 'integer' } }
              ]
            }
          }
        },
        {
          components: {
            parameters: { page: query('page', { $ref: '#/components/schemas/n' }) },
            schemas: { n: { type: 'integer' } }
          }
        }
      )
    ]
  })
  const user = { headers: { Cookie: 'x=1; seen=true' } }
  const need = '/a/q?need=ab&'
  await walk(t, gw, [
    ['/a/users/7/posts/2024-02-29?page=3', user, ''],
    ['/a/users/7/posts/2024-02-29?page=3&other=x', user, ''],
    ['/a/users/x/posts/2024-02-29', user, 'parameter "id" in path must be integer'],
    ['/a/users/7;x/posts/2024-02-29', user, 'parameter "id" in path must be integer'],
    ['/a/users/0/posts/2024-02-29', user, 'parameter "id" in path must be >= 1'],
    ['/a/users/1.5/posts/2024-02-29', user, 'parameter "id" in path must be integer'],
    ['/a/users/7/posts/2023-02-29', user, 'parameter "day" in path must match format "date"'],
    ['/a//users/7/./posts/x/../2024-01-01', user, ''],
    ['/a/users/7/posts/2024-02-29?page=x', user, 'parameter "page" in query must be integer'],
    ['/a/users/7/posts/2024-02-29?page=1&page=2', user, 'parameter "page" in query must stand there once'],
    ['/a/users/7/posts/2024-02-29', {}, 'parameter "seen" in cookie is required'],
    ['/a/users/7/posts/2024-02-29', { headers: { Cookie: 'seen=1' } }, 'parameter "seen" in cookie must be boolean'],
    ['/a/users/7/posts/2024-02-29', { headers: { Cookie: 'seen=true', 'X-Tags': '1, 2' } }, ''],
    [
      '/a/users/7/posts/2024-02-29',
      { headers: { Cookie: 'seen=true', 'X-Tags': '1,b' } },
      'parameter "X-Tags" in header /1 must be integer'
    ],
    ['/a/other', {}, ''],
    ['/a/q', {}, 'parameter "need" in query is required'],
    ['/a/q?need=', {}, 'parameter "need" in query may not be empty'],
    ['/a/q?need=%C3%A9%C3%A9', {}, ''],
    ['/a/q?need=x', {}, 'parameter "need" in query must NOT have fewer than 2 characters'],
    [`${need}empty`, {}, ''],
    [`${need}empty=&pipe=1`, {}, ''],
    [`${need}empty=x`, {}, 'parameter "empty" in query must be integer'],
    [`${need}many=1&many=2`, {}, ''],
    [`${need}many=1&many=b`, {}, 'parameter "many" in query /1 must be integer'],
    [`${need}comma=1,2,3`, {}, ''],
    [`${need}comma=1,2,3,4`, {}, 'parameter "comma" in query must NOT have more than 3 items'],
    [`${need}space=1%202`, {}, ''],
    [`${need}space=1+x`, {}, 'parameter "space" in query /1 must be integer'],
    [`${need}pipe=1|2`, {}, ''],
    [`${need}pipe=1%7Cx`, {}, 'parameter "pipe" in query /1 must be integer'],
    [`${need}deep[a]=1&deep[b]=1`, {}, ''],
    [`${need}deep%5Ba%5D=x`, {}, 'parameter "deep" in query /a must be integer'],
    [`${need}deep[b]=1`, {}, 'parameter "deep" in query /a is required'],
    [`${need}deep[a]=1&deep[a]=2`, {}, 'parameter "deep" in query has the member a twice'],
    [`${need}deep[__proto__]=1&deep[a]=2`, {}, ''],
    [`${need}flat=a,1,b,x`, {}, ''],
    [`${need}flat=a`, {}, 'parameter "flat" in query must be a list of names and values'],
    [`${need}from=1&to=2`, {}, ''],
    [`${need}from=1&to=b`, {}, 'parameter "spread" in query /to must be integer'],
    [`${need}word=on`, {}, ''],
    [`${need}word=up`, {}, 'parameter "word" in query must be one of "on", "off"'],
    [`${need}either=7`, {}, ''],
    [`${need}either=70`, {}, ''],
    [`${need}either=700`, {}, 'parameter "either" in query must match a schema in anyOf'],
    [`${need}filter=${encodeURIComponent('{"a":1}')}`, {}, ''],
    [`${need}filter=x`, {}, 'parameter "filter" in query must be JSON'],
    [`${need}filter=${encodeURIComponent('{"a":"1"}')}`, {}, 'parameter "filter" in query /a must be integer'],
    ['/a/p/1,2/a=1,b=x/.5.json', {}, ''],
    ['/a/p/1,x/a=1,b=x/.5.json', {}, 'parameter "list" in path /1 must be integer'],
    ['/a/p/1/a=x/.5.json', {}, 'parameter "point" in path /a must be integer'],
    ['/a/p/1/a=1/.x.json', {}, 'parameter ".dot" in path must be integer']
  ])
})

t.test('path parameters are read in the style label; paths in the style matrix have no rules', async t => {
  const up = await upstream(t, tell)
  const list = { type: 'array', items: { type: 'string', minLength: 3 }, maxItems: 3 }
  const object = { type: 'object', properties: { R: { type: 'integer' }, G: { type: 'integer' } }, required: ['R'] }
  const path = (name: string, style: string, schema: object, explode?: boolean) => ({
    [`/${name}/{color}/end`]: {
      get: {
        operationId: name,
        parameters: [{ name: 'color', in: 'path', required: true, style, schema, ...(explode ? { explode } : {}) }]
      }
    }
  })
  const gw = await gateway(t, {
    apis: [
      checked('s', up.url, {
        ...path('l', 'label', list),
        ...path('le', 'label', list, true),
        ...path('lo', 'label', object),
        ...path('loe', 'label', object, true)
      })
    ]
  })
  const no = (rest: string) => `parameter "color" in path ${rest}`
  await walk(t, gw, [
    ['/s/l/.blue.black.brown/end', {}, ''],
    ['/s/l/.blue,black,brown/end', {}, ''],
    ['/s/l/.blue.x/end', {}, no('/1 must NOT have fewer than 3 characters')],
    ['/s/le/.blue.black.brown/end', {}, ''],
    ['/s/lo/.R.100.G.200/end', {}, ''],
    ['/s/lo/.R.100.G.x/end', {}, no('/G must be integer')],
    ['/s/loe/.R=100.G=200/end', {}, '']
  ])
})

t.test('no rule is passed by a segment of parameters alone', async t => {
  const up = await upstream(t, tell)
  const get = (operationId: string) => ({ get: { operationId } })
  const gw = await gateway(t, {
    apis: [
      api(
        'b',
        up.url,
        { middleware: { operations: { long: { block: { enabled: true } } } } },
        { '/b/{id}/c': get('long'), '/b/c': get('short') }
      )
    ]
  })
  for (const path of ['/b/7/c', '/b/;id=5/c', '/b/%3bid=5/c', '/b%2f;id=5/c', '/b\\;id=5/c', '/;x/b/c'])
    t.equal((await gw.get(`/b${path}`)).status, 403, path)
  for (const path of ['/b/c', '/b/c;v=1', '/other']) t.equal((await gw.get(`/b${path}`)).status, 200, path)
  const matrix = [{ name: 'id', in: 'path', required: true, style: 'matrix', schema: { type: 'integer' } }]
  const paths = { '/m/{id}': { get: { operationId: 'm', parameters: matrix } } }
  for (const operation of ['block', 'allow', 'ignoreAuthentication', 'validateRequest']) {
    const extension = { middleware: { operations: { m: { [operation]: { enabled: true } } } } }
    const { status, body } = await gw.svc('POST', '/svc/apis/oas', api('m', up.url, extension, paths))
    t.equal(status, 400, operation)
    t.match(body.message, /\/paths\/~1m~1\{id\}\/get\/parameters\/0 is of style matrix/)
  }
  t.equal(
    (await gw.svc('POST', '/svc/apis/oas', api('m', up.url, {}, paths))).status,
    200,
    'without rules it is proxied'
  )
})

t.test('a discriminator chooses the schema that a value is held to, alone', async t => {
  const up = await upstream(t, tell)
  const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` })
  const animal = (more: object) => ({ type: 'object', properties: { kind: { type: 'string' }, ...more } })
  const discriminator = { propertyName: 'kind', mapping: { kitty: '#/components/schemas/Cat', puppy: 'Dog' } }
  const of = (operationId: string, schema: object) => ({ post: { operationId, requestBody: json(schema) } })
  const pets = { oneOf: [ref('Cat'), ref('Dog')], discriminator }
  const gw = await gateway(t, {
    apis: [
      checked(
        'd',
        up.url,
        {
          '/one': of('one', pets),
          '/any': of('any', { anyOf: [ref('Cat'), ref('Dog')], discriminator: { propertyName: 'kind' } }),
          '/many': of('many', { type: 'array', items: ref('Pets') }),
          '/mixed': of('mixed', { oneOf: [ref('Cat'), { type: 'string' }], discriminator })
        },
        {
          components: {
            schemas: {
              Cat: animal({ lives: { type: 'integer' } }),
              Dog: animal({ lives: { type: 'string' }, bark: { type: 'boolean' } }),
              Pets: { nullable: true, ...pets }
            }
          }
        }
      )
    ]
  })
  const values = '"Cat", "Dog", "kitty", "puppy"'
  await walk(t, gw, [
    ['/d/one', post('{"kind":"Cat"}'), ''],
    ['/d/one', post('{"kind":"kitty","lives":7}'), ''],
    ['/d/one', post('{"kind":"puppy","lives":"7"}'), ''],
    ['/d/one', post('{"kind":"Dog","lives":7}'), 'body /lives must be string'],
    ['/d/one', post('{"lives":7}'), 'body /kind is required'],
    ['/d/one', post('{"kind":"Cow","lives":7}'), `body /kind must be one of ${values}`],
    ['/d/one', post('{"kind":7}'), `body /kind must be one of ${values}`],
    ['/d/one', post('{"kind":"constructor"}'), `body /kind must be one of ${values}`],
    ['/d/one', post('7'), 'body must match exactly one schema in oneOf'],
    ['/d/any', post('{"kind":"Dog","bark":true}'), ''],
    ['/d/any', post('{"kind":"Cat","lives":"7"}'), 'body /lives must be integer'],
    ['/d/many', post('[{"kind":"Cat"},null,{"kind":"puppy"}]'), ''],
    ['/d/many', post('[{"kind":"Cat"},{"kind":"puppy","bark":1}]'), 'body /1/bark must be boolean'],
    ['/d/mixed', post('"a"'), ''],
    ['/d/mixed', post('{"lives":7}'), '']
  ])
})

t.test('an integer of format int64 in a parameter stays within its 64 bits to the last digit', async t => {
  const up = await upstream(t, tell)
  const int64 = { type: 'integer', format: 'int64' }
  const parameters = [
    query('n', int64),
    query('list', { type: 'array', items: int64 }),
    query('any', { type: 'integer' })
  ]
  const gw = await gateway(t, { apis: [checked('i', up.url, { '/x': { get: { operationId: 'x', parameters } } })] })
  const no = 'parameter "n" in query must match format "int64"'
  await walk(t, gw, [
    ['/i/x?n=9223372036854775807', {}, ''],
    ['/i/x?n=-9223372036854775808', {}, ''],
    ['/i/x?n=9223372036854775808', {}, no],
    ['/i/x?n=-9223372036854775809', {}, no],
    ['/i/x?n=99999999999999999999999', {}, no],
    ['/i/x?list=1&list=9223372036854775808', {}, 'parameter "list" in query /1 must match format "int64"'],
    ['/i/x?any=9223372036854775808', {}, '']
  ])
})

t.test('JSON bodies are held to the schema and reach the upstream as they came', async t => {
  const up = await upstream(t, tell)
  const item = {
    type: 'object',
    required: ['id', 'price'],
    additionalProperties: false,
    properties: {
      id: { type: 'string', readOnly: true },
      price: { type: 'number', minimum: 0, exclusiveMinimum: true, multipleOf: 0.01 },
      note: { type: 'string', nullable: true, maxLength: 3 },
      parts: { type: 'array', items: { $ref: '#/components/schemas/item' }, uniqueItems: true },
      code: { type: 'string', pattern: '^[A-Z]{2}\\d+$' },
      when: { type: 'string', format: 'date-time' },
      count: { type: 'integer', format: 'int32' }
    }
  }
  const gw = await gateway(t, {
    apis: [
      checked(
        'b',
        up.url,
        {
          '/item': { post: { operationId: 'item', requestBody: { $ref: '#/components/requestBodies/item' } } },
          '/maybe': { post: { operationId: 'maybe', requestBody: json({ type: 'array' }) } },
          '/kinds': {
            post: {
              operationId: 'kinds',
              requestBody: {
                content: { 'application/*+x': {}, 'text/plain': { schema: { type: 'integer' } }, 'image/*': {} }
              }
            }
          },
          '/merged': {
            post: {
              operationId: 'merged',
              requestBody: json({ allOf: [{ $ref: '#/components/schemas/item' }, { required: ['id', 'note'] }] })
            }
          },
          '/free': { post: { operationId: 'free' } }
        },
        {
          components: {
            requestBodies: { item: json({ $ref: '#/components/schemas/item' }, { required: true }) },
            schemas: { item }
          }
        }
      )
    ]
  })
  const deep = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)
  await walk(t, gw, [
    ['/b/item', post('{"price":4.18}'), ''],
    ['/b/item', post('{"price":4.18,"note":null}', 'application/JSON ; charset="UTF-8"'), ''],
    ['/b/item', { method: 'POST' }, 'body is required'],
    [
      '/b/item',
      { method: 'POST', headers: { 'Transfer-Encoding': 'chunked', 'Content-Type': 'application/json' } },
      'body is required'
    ],
    ['/b/item', post('{"price":0}'), 'body /price must be > 0'],
    ['/b/item', post('{"price":"1"}'), 'body /price must be number'],
    ['/b/item', post('{}'), 'body /price is required'],
    ['/b/item', post('{"price":1,"note":"abcd"}'), 'body /note must NOT have more than 3 characters'],
    ['/b/item', post('{"price":1,"note":7}'), 'body /note must be string or null'],
    ['/b/item', post('{"price":1,"x/y":7}'), 'body /x~1y is not known here'],
    ['/b/item', post('{"price":1,"__proto__":{"a":1}}'), 'body /__proto__ is not known here'],
    ['/b/item', post('{"price":1,"parts":[{"price":1},{"price":"x"}]}'), 'body /parts/1/price must be number'],
    [
      '/b/item',
      post('{"price":1,"parts":[{"price":1,"code":"AB1"},{"code":"AB1","price":1}]}'),
      'body /parts must hold no item twice'
    ],
    ['/b/item', post('{"price":1,"code":"a"}'), 'body /code must match pattern "^[A-Z]{2}\\d+$"'],
    ['/b/item', post('{"price":1,"when":"2024-01-01T00:00:00Z"}'), ''],
    ['/b/item', post('{"price":1,"when":"2024-01-01"}'), 'body /when must match format "date-time"'],
    ['/b/item', post('{"price":1,"count":2147483648}'), 'body /count must match format "int32"'],
    ['/b/item', post('[]'), 'body must be object'],
    ['/b/item', post('{"price":1'), 'body must be JSON'],
    ['/b/item', post('\ufeff{"price":1}'), 'body must be JSON'],
    ['/b/item', post('{"price":1}', 'application/json; charset=utf-16'), 'body must be UTF-8'],
    [
      '/b/item',
      { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: Buffer.from([0x22, 0xff, 0x22]) },
      'body must be UTF-8'
    ],
    ['/b/item', post('<a/>', 'text/html'), 'body has a content type that is not expected: text/html'],
    ['/b/item', { method: 'POST', body: '{}' }, 'body must have a content type'],
    [
      '/b/item',
      { ...post('x'), headers: { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' } },
      'body must have no content encoding'
    ],
    ['/b/maybe', { method: 'POST' }, ''],
    ['/b/maybe', post(deep(100)), ''],
    ['/b/maybe', post(deep(101)), 'body is nested deeper than 100 levels'],
    ['/b/maybe', post('{}'), 'body must be array'],
    ['/b/kinds', post('x', 'text/plain; charset=x'), ''],
    ['/b/kinds', post('x', 'image/png'), ''],
    ['/b/kinds', post('{}'), 'body has a content type that is not expected: application/json'],
    ['/b/merged', post('{"price":1}'), 'body /note is required'],
    ['/b/merged', post('{"price":1,"note":null}'), ''],
    ['/b/free', post('anything', 'x/y'), '']
  ])
  const odd = '{ "price" : 1.10,\n "price":2e0, "note":"\\u0041" }'
  t.equal((await ask(gw, '/b/item', post(odd))).json.body, odd)
  const long = `{"price":1,"parts":[${' '.repeat(300_000)}]}`
  t.equal(
    (
      await ask(gw, '/b/item', {
        ...post(long),
        headers: { 'Content-Type': 'application/json', 'Transfer-Encoding': 'chunked' }
      })
    ).json.body,
    long
  )
  const { json: told } = await ask(gw, '/b/item', post(JSON.stringify({ price: 1, ['k'.repeat(5000)]: 1 })))
  t.ok(told.error.length < 300, 'long names are cut')
})

t.test('OpenAPI 3.1 schemas are JSON Schema 2020-12, references beside other keywords included', async t => {
  const up = await upstream(t, tell)
  const gw = await gateway(t, {
    apis: [
      checked(
        'c',
        up.url,
        {
          '/x': {
            post: {
              operationId: 'x',
              requestBody: json({
                type: ['object', 'null'],
                properties: {
                  n: { $ref: '#/components/schemas/n', exclusiveMinimum: 5 },
                  list: { prefixItems: [{ const: 'a' }], items: { type: 'integer' } }
                },
                dependentRequired: { n: ['list'] }
              })
            }
          },
          '/open': {
            post: {
              operationId: 'open',
              requestBody: json({
                allOf: [{ $ref: '#/components/schemas/base' }],
                properties: { b: true },
                unevaluatedProperties: false
              })
            }
          },
          '/tree': { post: { operationId: 'tree', requestBody: json({ $ref: '#/components/schemas/tree' }) } },
          '/loop': { post: { operationId: 'loop', requestBody: json({ $ref: '#/components/schemas/loop' }) } }
        },
        {
          openapi: '3.1.0',
          components: {
            schemas: {
              n: { type: 'integer', maximum: 9 },
              base: { type: 'object', properties: { a: { type: 'string' } } },
              tree: {
                oneOf: [
                  { type: 'integer' },
                  {
                    type: 'object',
                    properties: { of: { $ref: '#/components/schemas/tree' }, op: { const: '+' } },
                    required: ['of', 'op']
                  },
                  {
                    type: 'object',
                    properties: { of: { $ref: '#/components/schemas/tree' }, op: { const: '-' } },
                    required: ['of', 'op']
                  }
                ]
              },
              loop: { allOf: [{ $ref: '#/components/schemas/loop' }] }
            }
          }
        }
      )
    ]
  })
  const tree = (levels: number) => `${'{"of":'.repeat(levels)}1${',"op":"-"}'.repeat(levels)}`
  await walk(t, gw, [
    ['/c/x', post('null'), ''],
    ['/c/x', post('{"n":6,"list":["a",1]}'), ''],
    ['/c/x', post('{"n":6}'), 'body must have property list when property n is present'],
    ['/c/x', post('{"n":5,"list":[]}'), 'body /n must be > 5'],
    ['/c/x', post('{"n":10,"list":[]}'), 'body /n must be <= 9'],
    ['/c/x', post('{"list":["b"]}'), 'body /list/0 must be one of "a"'],
    ['/c/open', post('{"a":"x","b":1}'), ''],
    ['/c/open', post('{"a":"x","c":1}'), 'body must NOT have unevaluated properties'],
    ['/c/tree', post(tree(5)), ''],
    ['/c/tree', post(tree(99)), 'body is too much to be checked'],
    ['/c/loop', post('1'), 'body is too much to be checked']
  ])
})

t.test('of paths that differ in the names of parameters alone, the strictest that fits decides', async t => {
  const up = await upstream(t, tell)
  const path = (name: string, schema: object, more: object[] = []) => ({
    get: { operationId: name, parameters: [{ name, in: 'path', required: true, schema }, ...more] }
  })
  const paths = {
    '/u/{a}': path('a', { type: 'string', pattern: '^[a-z]+$' }),
    '/u/{b}': path('b', { type: 'integer' }, [query('q', { type: 'integer' }, { required: true })])
  }
  const document = checked('d', up.url, paths)
  document['x-svc-api-gateway'].middleware.operations.b.validateRequest.errorResponseCode = 400
  const gw = await gateway(t, { apis: [document] })
  const cases: [path: string, status: number, detail: string][] = [
    ['/d/u/abc', 200, ''],
    ['/d/u/5?q=1', 200, ''],
    ['/d/u/5', 400, 'parameter "q" in query is required'],
    ['/d/u/A-5', 400, "path parameter doesn't match any endpoint"]
  ]
  for (const [path, status, detail] of cases) {
    const answer = await ask(gw, path)
    t.same(
      [answer.status, answer.json.error],
      [status, detail === '' ? undefined : `request validation error: ${detail}`],
      path
    )
  }
})

t.test('a document that cannot be checked is refused with the place of the fault', async t => {
  const gw = await gateway(t)
  const body = (schema: object) => ({ '/x': { post: { operationId: 'x', requestBody: json(schema) } } })
  const parameter = (given: object) => ({ '/x/{p}': { get: { operationId: 'x', parameters: [given] } } })
  const schema = '/paths/~1x/post/requestBody/content/application~1json/schema'
  const first = '/paths/~1x~1{p}/get/parameters/0'
  const cases: [paths: Record<string, object>, at: string][] = [
    [body({ $ref: '#/components/schemas/none' }), `${schema}/$ref refers to nothing`],
    [body({ $ref: 'other.json#/x' }), `${schema}/$ref refers outside of the document`],
    [body({ items: { $ref: 7 } }), `${schema}/items/$ref must be a text`],
    [
      body({ $ref: '#/paths/~1x/post/requestBody/content/application~1json/schema' }),
      `${schema}/$ref refers to itself`
    ],
    [body({ type: 'text' }), `${schema}/type must be a type of JSON Schema`],
    [body({ properties: { a: { pattern: '(?=a)' } } }), `${schema}/properties/a/pattern does not compile`],
    [body({ minLength: -1 }), `${schema}/minLength must be a whole number from 0 on`],
    [body({ allOf: [] }), `${schema}/allOf must be a list of schemas`],
    [body({ required: true }), `${schema}/required must be a list of texts`],
    [parameter({ $ref: '#/components/parameters/none' }), `${first}/$ref refers to nothing`],
    [parameter({ name: 'a', in: 'place' }), `${first}/in must be path, query, header or cookie`],
    [parameter({ name: 'q', in: 'path', schema: {} }), `${first}/name is not in the path /x/{p}`],
    [parameter({ name: 'p', in: 'path', style: 'form' }), `${first}/style must be one of simple, label`]
  ]
  for (const [paths, expected] of cases) {
    const { status, body: told } = await gw.svc('POST', '/svc/apis/oas', checked('x', 'http://localhost', paths))
    t.equal(status, 400, expected)
    t.ok(JSON.stringify(told).includes(expected), `${expected} in ${JSON.stringify(told)}`)
  }
})

t.test('expressions, long lists and wide documents hold up nobody', async t => {
  const up = await upstream(t, tell)
  const schemas: Record<string, object> = {}
  for (let i = 0; i < 3000; i++)
    schemas[`s${i}`] = {
      type: 'object',
      properties: { next: { $ref: `#/components/schemas/s${(i + 1) % 3000}` }, n: { type: 'integer' } }
    }
  const gw = await gateway(t, {
    apis: [
      checked(
        'e',
        up.url,
        {
          '/re': { post: { operationId: 're', requestBody: json({ type: 'string', pattern: '^(a+)+$' }) } },
          '/set': {
            post: {
              operationId: 'set',
              requestBody: json({ type: 'array', uniqueItems: true, items: { type: 'object' } })
            }
          },
          '/wide': { post: { operationId: 'wide', requestBody: json({ $ref: '#/components/schemas/s0' }) } }
        },
        { components: { schemas } }
      )
    ]
  })
  const objects = (count: number) => JSON.stringify(Array.from({ length: count }, (_, i) => ({ a: { b: i }, c: 1 })))
  await walk(t, gw, [
    ['/e/re', post(JSON.stringify(`${'a'.repeat(50_000)}b`)), 'body must match pattern "^(a+)+$"'],
    ['/e/set', post(objects(50_000)), ''],
    ['/e/set', post(objects(50_000).replace('"b":49999', '"b":0')), 'body must hold no item twice'],
    [
      '/e/wide',
      post(`${'{"next":'.repeat(50)}{"n":"x"}${'}'.repeat(50)}`),
      `body ${'/next'.repeat(50).slice(0, 115)}… must be integer`
    ]
  ])
})

t.test('bodies are asked for late, kept within bounds, and given up with their client', async t => {
  const up = await upstream(t, tell)
  const paths = {
    '/x': {
      post: { operationId: 'x', parameters: [query('q', { type: 'integer' })], requestBody: json({ type: 'array' }) }
    }
  }
  const gw = await gateway(t, {
    settings: { gateway: { http_server_options: { max_request_body_size: 1000 } } },
    apis: [checked('f', up.url, paths), checked('g', 'svc://echo', paths)]
  })
  const big = JSON.stringify(['x'.repeat(1000)])
  t.equal((await ask(gw, '/f/x', post(big))).status, 413)
  const chunked = { 'Content-Type': 'application/json', 'Transfer-Encoding': 'chunked' }
  t.equal((await ask(gw, '/f/x', { ...post(big), headers: chunked })).status, 413)
  t.equal(up.requests.length, 0)
  t.equal((await ask(gw, '/g/x', post('[1]'))).json.body, '[1]')

  const { port } = new URL(gw.url)
  const talk = (sent: readonly string[]): Promise<string> =>
    new Promise((resolve, reject) => {
      const socket = connect(Number(port), '127.0.0.1')
      let got = ''
      let next = 0
      socket.on('error', reject)
      socket.on('close', () => resolve(got))
      socket.on('data', chunk => {
        got += chunk
        if (next < sent.length) socket.write(sent[next++]!)
      })
      socket.write(sent[next++]!)
    })
  const head = (path: string, more: string) =>
    `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n${more}\r\n`
  const expects = 'Content-Length: 3\r\nExpect: 100-continue\r\n'
  const early = await talk([head('/f/x?q=x', expects)])
  t.match(early, /^HTTP\/1\.1 422 /, 'a parameter that does not fit ends it before the body was asked for')
  const asked = await talk([head('/f/x', expects), '[1]'])
  t.match(asked, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /)

  const seen = new Promise<unknown>(resolve => {
    up.server.removeAllListeners('request')
    up.server.once('request', (req, res) => {
      req.resume()
      req.on('end', () => {
        resolve([req.headers['transfer-encoding'], req.trailers])
        res.end()
      })
    })
  })
  await talk([
    `${head('/f/x', 'Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\nTE: trailers\r\n')}3\r\n[1]\r\n0\r\nX-Sum: 7\r\n\r\n`
  ])
  t.same(await seen, ['chunked', { 'x-sum': '7' }])

  let came = 0
  up.server.on('request', (req, res) => {
    came++
    tell(req, res)
  })
  const left = connect(Number(port), '127.0.0.1')
  await new Promise<void>(resolve => left.write(`${head('/f/x', 'Content-Length: 10\r\n')}[1`, () => resolve()))
  left.destroy()
  t.equal((await ask(gw, '/f/x', post('[2]'))).json.body, '[2]')
  t.equal(came, 1, 'half a body reaches nobody')
})

t.test('a thousand documents of twenty checked operations each are read at once', async t => {
  const paths: Record<string, object> = {}
  for (let i = 0; i < 20; i++)
    paths[`/things${i}/{id}`] = {
      put: {
        operationId: `put${i}`,
        parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'integer' } }],
        requestBody: json({ $ref: `#/components/schemas/thing${i}` })
      }
    }
  const schemas = Object.fromEntries(
    Object.keys(paths).map((_, i) => [
      `thing${i}`,
      {
        type: 'object',
        required: ['name'],
        properties: { name: { type: 'string', pattern: '^\\w+$' }, n: { type: 'integer' } }
      }
    ])
  )
  const text = JSON.stringify(checked('many', 'http://localhost', paths, { components: { schemas } }))
  const documents = Array.from({ length: 1000 }, () => JSON.parse(text))
  const began = performance.now()
  const read = documents.map(document => readApi(document, { source: 'store', matching: 'exact' }))
  t.comment(`${Math.round(performance.now() - began)} ms`)
  const { requestCheck } = read[999]!.operation('PUT', '/things7/5')!
  t.equal(requestCheck!.head({ path: '/things7/x', query: '', pairs: [], bodyLength: 0 })?.place, 'path')
})
