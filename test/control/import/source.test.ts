import t, { type Test } from 'tap'
import { Invalid } from '../../../config/validate.ts'
import { Refused } from '../../../control/endpoint.ts'
import { type Input, readSource } from '../../../control/import/source.ts'
import { bounds, description, forgedZip, form, input, JSON_TYPE, YAML_TYPE, zipped } from './given.ts'

const read = (given: Input, mostBytes?: number) =>
  readSource(given, bounds(mostBytes === undefined ? {} : { mostBytes }))

/** Status and message of the refusal. */
async function refusal(given: Input, mostBytes?: number): Promise<[number, string]> {
  try {
    await read(given, mostBytes)
  } catch (cause) {
    if (cause instanceof Refused) return [cause.status, cause.message]
    if (cause instanceof Invalid) return [400, cause.message]
    throw cause
  }
  return [200, '']
}

async function refuses(t: Test, given: Input, status: number, message: RegExp, mostBytes?: number): Promise<void> {
  const [was, told] = await refusal(given, mostBytes)
  t.equal(was, status, told)
  t.match(told, message)
}

const YAML = `openapi: 3.0.3
info: {title: pets, version: '1'}
servers:
  - url: http://pets.example/v1
paths:
  /pets:
    get:
      operationId: listPets
      responses: {'200': {description: all}}
`

t.test('JSON and YAML are told apart by content type, and by looks where that is missing or wrong', async t => {
  const json = JSON.stringify(description())
  for (const [text, type] of [
    [json, JSON_TYPE],
    [json, `${JSON_TYPE}; charset=utf-8`],
    [json, ''],
    [json, YAML_TYPE],
    [json, 'application/vnd.oai.openapi+json'],
    [`\ufeff  ${json}`, 'text/plain'],
    [YAML, YAML_TYPE],
    [YAML, 'application/x-yaml'],
    [YAML, 'text/yaml'],
    [YAML, 'application/vnd.oai.openapi+yaml'],
    [YAML, ''],
    [YAML, 'application/x-www-form-urlencoded'],
    [YAML, JSON_TYPE],
    ['{openapi: 3.0.3, info: {title: pets}, paths: {}}', '']
  ] as const) {
    const { document } = await read(input(text, type))
    t.equal((document.info as { title: string }).title, 'pets', type)
  }
})

t.test('what is no description of OpenAPI 3.0 or 3.1 is refused with the reason', async t => {
  for (const [body, type, message] of [
    ['', JSON_TYPE, /empty/],
    [' \n', YAML_TYPE, /empty/],
    ['{"openapi":"3.0.3",}', JSON_TYPE, /not JSON/],
    ['{"a":1,"a":2}', JSON_TYPE, /twice/],
    ['a: 1\na: 2', YAML_TYPE, /twice/],
    ['a: [', YAML_TYPE, /not YAML/],
    ['"text"', JSON_TYPE, /must be an object/],
    ['null', '', /must be an object/],
    ['[]', JSON_TYPE, /must be an object/],
    ['hello', '', /must be an object/],
    ['{}', JSON_TYPE, /must have openapi/],
    ['swagger: "2.0"', YAML_TYPE, /^\/swagger is not supported: convert/],
    ['{"openapi":"3.2.0"}', JSON_TYPE, /^\/openapi must be 3\.0\.x or 3\.1\.x/],
    ['{"openapi":"2.0"}', JSON_TYPE, /^\/openapi/],
    ['openapi: 3.1', YAML_TYPE, /^\/openapi .*text/],
    [
      { ...description(), 'x-svc-api-gateway': {} },
      JSON_TYPE,
      /^the import payload should not contain x-svc-api-gateway$/
    ],
    [Buffer.from([0x7b, 0xff, 0xfe]), JSON_TYPE, /UTF-8/],
    [`${'{"a":'.repeat(101)}1${'}'.repeat(101)}`, JSON_TYPE, /100 levels/],
    [
      'a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d]',
      YAML_TYPE,
      /multiply/
    ],
    [{ url: 7 }, JSON_TYPE, /url must be a text/],
    [{ url: 'http://x', more: 1 }, JSON_TYPE, /must have openapi/]
  ] as const)
    await refuses(t, input(body, type), 400, message)
})

t.test('a keyword that holds something of another kind than OpenAPI says is refused with its place', async t => {
  for (const [more, message] of [
    [{ info: 'pets' }, /^\/info must be an object/],
    [{ paths: [] }, /^\/paths must be an object/],
    [{ paths: { '/a': 7 } }, /^\/paths\/~1a must be an object/],
    [{ paths: { '/a': { get: [] } } }, /^\/paths\/~1a\/get must be an object/],
    [{ paths: { '/a': { get: { parameters: {} } } } }, /^\/paths\/~1a\/get\/parameters must be a list/],
    [{ servers: 'x' }, /^\/servers must be a list/],
    [{ servers: ['x'] }, /^\/servers\/0 must be an object/],
    [{ components: { schemas: { A: 'text' } } }, /^\/components\/schemas\/A must be an object/]
  ] as const)
    await refuses(t, input(description(more)), 400, message)
  await read(input(description({ components: { schemas: { A: true, B: { items: [{}] } } }, tags: null })))
})

const ROOT = `openapi: 3.0.3
info: {title: pets, version: '1'}
paths:
  /pets/{id}:
    $ref: paths/pet.yaml
components:
  schemas:
    Error: {$ref: './schemas/error.json'}
    Owner: {type: object}
`
const FILES = {
  'api/openapi.yaml': ROOT,
  'api/paths/pet.yaml': `parameters:
  - $ref: '../params.yaml#/id'
get:
  operationId: getPet
  responses:
    '200':
      content:
        application/json: {schema: {$ref: '../schemas/a%20pet.yaml#/Pet'}}
    default: {$ref: '#/failed'}
failed:
  description: failed
  content:
    application/json: {schema: {$ref: '../schemas/error.json'}}
`,
  'api/params.yaml': 'id: {name: id, in: path, required: true, schema: {type: string}}\n',
  'api/schemas/a pet.yaml': `Pet:
  type: object
  properties:
    parent: {$ref: '#/Pet'}
    owner: {$ref: '../openapi.yaml#/components/schemas/Owner'}
  discriminator: {propertyName: kind, mapping: {cat: 'a%20pet.yaml#/Cat', dog: Dog}}
Cat: {allOf: [{$ref: '#/Pet'}]}
`,
  'api/schemas/error.json': '{"type":"object","example":{"$ref":"not a reference"}}',
  'api/README.md': 'not read',
  'api/unused.yaml': 'a: [broken'
}

const bundled = {
  openapi: '3.0.3',
  info: { title: 'pets', version: '1' },
  paths: {
    '/pets/{id}': {
      parameters: [{ $ref: '#/components/parameters/id' }],
      get: {
        operationId: 'getPet',
        responses: {
          200: { content: { 'application/json': { schema: { $ref: '#/components/schemas/Pet' } } } },
          default: { $ref: '#/components/responses/failed' }
        }
      },
      failed: {
        description: 'failed',
        content: { 'application/json': { schema: { $ref: '../schemas/error.json' } } }
      }
    }
  },
  components: {
    schemas: {
      Error: { type: 'object', example: { $ref: 'not a reference' } },
      Owner: { type: 'object' },
      Pet: {
        type: 'object',
        properties: { parent: { $ref: '#/components/schemas/Pet' }, owner: { $ref: '#/components/schemas/Owner' } },
        discriminator: { propertyName: 'kind', mapping: { cat: '#/components/schemas/Cat', dog: 'Dog' } }
      },
      Cat: { allOf: [{ $ref: '#/components/schemas/Pet' }] }
    },
    parameters: { id: { name: 'id', in: 'path', required: true, schema: { type: 'string' } } },
    responses: {
      failed: {
        description: 'failed',
        content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } }
      }
    }
  }
}

t.test('files of a zip file become one description with internal references, circles included', async t => {
  const { document } = await read(input(await zipped(FILES), 'application/zip'))
  t.same(document, bundled)
  t.same((await read(input(await zipped(FILES), ''))).document, bundled, 'whatever the content type')
})

t.test('files of a form do the same, with folders in their names, without them, and as a zip file', async t => {
  t.same((await read(await form(FILES, { root: 'api/openapi.yaml' }))).document, bundled)
  const flat = Object.fromEntries(
    Object.entries(FILES).map(([name, text]) => [name.slice(name.lastIndexOf('/') + 1), text])
  )
  t.same((await read(await form(flat, { main: 'openapi.yaml' }))).document, bundled)
  t.same((await read(await form(flat))).document, bundled)
  t.same((await read(await form({ 'all.zip': await zipped(FILES) }))).document, bundled)
  t.equal((await read(await form({ 'one.yaml': YAML }))).document.openapi, '3.0.3')
  t.equal((await read(await form({}, { file: YAML }))).document.openapi, '3.0.3', 'a field without file name')
})

t.test('a description with many files is refused where it is not clear which one it is', async t => {
  await refuses(t, await form({ 'a.yaml': YAML, 'b.yaml': YAML }), 400, /several files have openapi.*a\.yaml, b\.yaml/)
  t.ok(await read(await form({ 'a.yaml': YAML, 'b.yaml': YAML }, { root: 'b.yaml' })))
  t.ok(await read(input(await zipped({ 'x/a.yaml': YAML, 'b.yaml': YAML }))), 'the one least deep')
  await refuses(t, await form({ 'a.yaml': YAML }, { root: 'c.yaml' }), 400, /"c\.yaml" was not sent/)
  await refuses(t, await form({ 'a.yaml': 'a: 1', 'b.yaml': 'b: 1' }), 400, /no file has openapi at its top/)
  await refuses(t, await form({ 'a.json': '{"x":{"swagger":1}}', 'b.json': '{"swagger":"2.0"}' }), 400, /convert/)
  await refuses(t, await form({}), 400, /no file|not readable/)
  await refuses(t, input(await zipped({})), 400, /no file/)
  await refuses(t, input(await zipped({ 'x.zip': await zipped(FILES) })), 400, /no file/)
  await refuses(t, input('nothing', 'multipart/form-data; boundary=x'), 400, /not readable|no file/)
  await refuses(t, input('nothing', 'multipart/form-data'), 400, /not readable/)
  await refuses(t, await form({ '../../etc/a.yaml': YAML }), 400, /a file is called/)
  await refuses(t, await form({ 'a.yaml': YAML, './a.yaml': YAML }), 400, /two files are called/)
  const whole = await form({ 'a.yaml': YAML })
  await refuses(t, { ...whole, body: whole.body.subarray(0, -30) }, 400, /not readable/)
})

t.test('no reference leads out of what was sent', async t => {
  for (const [reference, message] of [
    ['/etc/passwd', /only files of the import/],
    ['file:///etc/passwd', /only files of the import/],
    ['http://127.0.0.1/pet.yaml', /only files of the import/],
    ['//example.com/pet.yaml', /only files of the import/],
    ['C:\\pet.yaml', /only files of the import/],
    ['\\\\host\\pet.yaml', /only files of the import/],
    ['../../../../etc/passwd', /was not sent/],
    ['..%2f..%2fetc%2fpasswd', /was not sent/],
    ['pet.yaml', /was not sent/],
    ['%zz', /was not sent/],
    ['#/components/schemas/None', /no such part/],
    ['#/constructor/prototype', /no such part/],
    ['#/%zz', /no such part/]
  ] as const) {
    const body = description({ components: { schemas: { A: { properties: { b: { $ref: reference } } } } } })
    for (const given of [input(body), input(await zipped({ 'a/b.json': JSON.stringify(body) }))]) {
      const [status, told] = await refusal(given)
      t.equal(status, 400)
      t.match(told, message)
      t.match(told, '/components/schemas/A/properties/b/$ref refers to ')
    }
  }
})

t.test('references in circles end, and those that multiply the description are refused', async t => {
  const of = (schemas: unknown, paths = {}) => input(description({ components: { schemas }, paths }))
  t.ok(
    await read(
      of({ A: { $ref: '#/components/schemas/B' }, B: { properties: { a: { $ref: '#/components/schemas/A' } } } })
    )
  )
  await refuses(t, of({ A: { $ref: '#/components/schemas/A/x' } }), 400, /circle|no such part/)
  await refuses(t, of({}, { '/a': { $ref: '#/paths/~1b' }, '/b': { $ref: '#/paths/~1a' } }), 400, /circle/)
  const long = { get: { description: 'x'.repeat(10_000), responses: {}, 'x-more': ['x'.repeat(10_000)] } }
  const same = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`/${i}`, { $ref: '#/x-long' }]))
  await refuses(t, input({ ...description({ paths: same }), 'x-long': long }), 400, /multiply/)
  const deep = Object.fromEntries(
    Array.from({ length: 40 }, (_, i) => {
      const next = { properties: { $ref: `f${i + 1}.json` } }
      return [`f${i}.json`, JSON.stringify({ a: next, b: next })]
    })
  )
  const files = {
    ...deep,
    'f40.json': '{}',
    'root.json': JSON.stringify(description({ components: { schemas: { $ref: 'f0.json' } } }))
  }
  await refuses(t, input(await zipped(files)), 400, /multiply/)
})

t.test(
  'many references through long chains, and texts that look like the beginning of something, hold nobody up',
  async t => {
    const chain = Object.fromEntries(
      Array.from({ length: 90 }, (_, i) => [`A${i}`, { $ref: `#/components/schemas/A${i + 1}` }])
    )
    const allOf = Array.from({ length: 15_000 }, (_, i) => ({ $ref: `#/components/schemas/A0/x/${i}` }))
    const schemas = { ...chain, A90: { x: allOf.map(() => ({})) }, All: { allOf } }
    t.ok(await readSource(input(description({ components: { schemas } })), bounds({ mostBytes: 10_000_000 })))
    const blank = { 'a.yaml': '\n'.repeat(900_000), 'b.yaml': YAML }
    t.ok(await read(input(await zipped(blank))))
  }
)

t.test('an integer that no double carries stays as it is', async t => {
  const text = JSON.stringify(description({ components: { schemas: { A: { maximum: 7 } } } })).replace(
    '7',
    '12345678901234567890'
  )
  const { document } = await read(input(text))
  t.match(JSON.stringify(document), '"maximum":12345678901234567890')
})

t.test('a zip file is held to its bounds while it is unpacked', async t => {
  const bomb = Buffer.alloc(5_000_000, ' ')
  await refuses(t, input(await zipped({ 'a.json': bomb })), 413, /Too Large/)
  await refuses(t, input(forgedZip({ name: 'a.json', bytes: bomb }, { size: 10 })), 400, /cannot be read/)
  await refuses(
    t,
    input(await zipped({ 'a.json': bomb.subarray(0, 600), 'b.json': bomb.subarray(0, 600) })),
    413,
    /./,
    1000
  )
  const many = Object.fromEntries(Array.from({ length: 1001 }, (_, i) => [`${i}.txt`, '']))
  await refuses(t, input(await zipped(many)), 400, /more than 1000 entries/)
  await refuses(t, await form(Object.fromEntries(Object.entries(many))), 400, /more than 1000 parts/)
  const file = { name: 'a.json', bytes: Buffer.from(JSON.stringify(description())) }
  t.ok(await read(input(forgedZip(file))))
  await refuses(t, input(forgedZip(file, { flags: 1 })), 400, /encrypted/)
  await refuses(t, input(forgedZip({ ...file, name: '../a.json' })), 400, /outside of it/)
  await refuses(t, input(forgedZip({ ...file, name: '/etc/a.json' })), 400, /outside of it/)
  const whole = await zipped(FILES)
  for (const size of [5, 100, whole.length - 5]) await refuses(t, input(whole.subarray(0, size)), 400, /zip file|YAML/)
  await refuses(
    t,
    input(await zipped({ 'a.yaml': `openapi: 3.0.3\npaths: {$ref: b.yaml}`, 'b.yaml': 'x: [' })),
    400,
    /^b\.yaml: .*not YAML/
  )
})
