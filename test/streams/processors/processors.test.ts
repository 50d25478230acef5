import t from 'tap'
import type { ProcessorKind } from '../../../streams/connector.ts'
import { filter } from '../../../streams/processors/filter.ts'
import { jsonSchema } from '../../../streams/processors/jsonSchema.ts'
import { map } from '../../../streams/processors/map.ts'
import { faultsOf, message, reasonOf, textOf } from './message.ts'

const tombstone = message(null)
const checked = (kind: ProcessorKind, options: unknown) => faultsOf(fault => kind.check(options, fault))

t.test('a filter keeps the messages for which it is true', async t => {
  for (const options of ['value.id > 4', { check: 'value.id > 4' }]) {
    t.same(checked(filter, options), {})
    const keep = filter.make(options)
    const five = message({ id: 5 })
    t.equal(keep(five), five)
    t.equal(keep(message({ id: 4 })), null)
    for (const wrong of [message({}), message('text'), tombstone])
      t.equal(
        reasonOf(() => keep(wrong)),
        'invalid'
      )
  }
  t.equal(filter.make('value == null')(tombstone), tombstone)
  t.equal(
    reasonOf(() => filter.make('value.id')(message({ id: 1 }))),
    'invalid',
    'neither true nor false'
  )
})

t.test('a map makes an object of its fields, beside what it keeps', async t => {
  for (const [options, result] of [
    [{ fields: { id: 'value.id', 'to.name': 'value.name', 'to.n': '1 + 1' } }, '{"id":5,"to":{"name":"x","n":2}}'],
    [
      { fields: { 'a.c': 'true', id: 'null' }, keep: true },
      '{"id":null,"name":"x","a":{"b":1,"c":true},"big":1234567890123456789}'
    ],
    [{ fields: { 'name.x': '"y"' }, keep: true }, '{"id":5,"name":{"x":"y"},"a":{"b":1},"big":1234567890123456789}'],
    [
      { fields: { b: 'value.big', l: '[value.a, {"t": timestamp(0)}]' } },
      '{"b":1234567890123456789,"l":[{"b":1},{"t":"1970-01-01T00:00:00.000Z"}]}'
    ],
    [{ fields: { '__proto__.x': '1', constructor: '2' } }, '{"__proto__":{"x":1},"constructor":2}'],
    [{ fields: {} }, '{}'],
    [{ key: 'value.name' }, '{"id":5,"name":"x","a":{"b":1},"big":1234567890123456789}']
  ] as const) {
    t.same(checked(map, options), {})
    const given = message('{"id":5,"name":"x","a":{"b":1},"big":1234567890123456789}')
    t.equal(textOf(map.make(options)(given)!), result)
  }
  t.equal(({} as { x?: number }).x, undefined)
})

t.test('a map makes keys and headers, and null takes them away', async t => {
  const made = map.make({ key: 'string(value.id)', headers: { trace: 'value.name', Other: 'null', 'new': '[1]' } })
  const { key, headers } = made(message({ id: 5, name: 'x' }))!
  t.equal(String(key), '5')
  t.same(
    headers.map(([name, value]) => [name, String(value)]),
    [
      ['trace', 'x'],
      ['new', '[1]']
    ]
  )
  t.equal(map.make({ key: 'null' })(message({}))!.key, null)
})

t.test('a tombstone stays one, and what is no object cannot be kept', async t => {
  const made = map.make({ fields: { a: '1' }, keep: true, key: '"other"' })
  const { key, value } = made(tombstone)!
  t.same([String(key), value], ['other', null])
  for (const wrong of ['text', '5', '[1]', 'null'])
    t.equal(
      reasonOf(() => made(message(wrong))),
      'invalid',
      wrong
    )
})

t.test('what a map makes has a bound, whatever it is made of', async t => {
  const text = 'x'.repeat(100_000)
  const list = Array.from({ length: 200 }, () => 'value.t').join(',')
  t.equal(
    reasonOf(() => map.make({ fields: { a: `[${list}]` } })(message({ t: text }))),
    'invalid'
  )
  const fields = Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`f${i}`, 'value.t']))
  t.equal(
    reasonOf(() => map.make({ fields })(message({ t: text }))),
    'invalid'
  )
})

t.test('faults of filters and maps are told where they stand', async t => {
  for (const [kind, options, places] of [
    [filter, 5, ['']],
    [filter, {}, ['/check']],
    [filter, { check: 'value.', other: 1 }, ['/other', '/check']],
    [filter, '"text"', ['']],
    [filter, '1 + 1', ['']],
    [map, 'x', ['']],
    [
      map,
      { fields: { a: 'value.', 'b/c': 1 }, others: 1, keep: 'yes' },
      ['/others', '/keep', '/fields/a', '/fields/b~1c']
    ],
    [map, { fields: { a: '1', 'a.b': '2', 'c..d': '3', '': '4' } }, ['/fields/a.b', '/fields/c..d', '/fields/']],
    [map, { keep: true }, ['/keep']],
    [map, {}, ['']],
    [map, { keep: false, headers: {} }, ['']],
    [map, { fields: {} }, []],
    [map, { key: 5, headers: [] }, ['/key', '/headers']]
  ] as const)
    t.same(Object.keys(checked(kind, options)), places, JSON.stringify(options))
})

const schema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['id'],
  properties: { id: { type: 'integer' }, child: { $ref: '#' }, code: { $ref: '#/$defs/code' } },
  $defs: { code: { type: 'string', pattern: '^[A-Z]+$' } },
  additionalProperties: false
}

t.test('messages that do not fit a schema are refused with the place', async t => {
  for (const given of [schema, JSON.stringify(schema)]) {
    t.same(checked(jsonSchema, { schema: given }), {})
    const check = jsonSchema.make({ schema: given })
    for (const value of ['{"id":1}', '{"id":12345678901234567890}', '{"id":1,"child":{"id":2,"code":"AB"}}'])
      t.equal(textOf(check(message(value))!), value)
    for (const [value, told] of [
      ['{"id":"1"}', /\/id must be integer/],
      ['{}', /\/id is required/],
      ['{"id":1,"child":{"id":2,"code":"ab"}}', /\/child\/code must match/],
      ['{"id":1,"more":1}', /\/more is not known/],
      ['text', /no JSON/],
      ['null', /must be object/]
    ] as const)
      t.throws(() => check(message(value)), { message: told }, value)
    t.equal(
      reasonOf(() => check(message('{}'))),
      'invalid'
    )
    t.equal(check(tombstone), tombstone)
  }
})

t.test('a schema cannot be made to take long', async t => {
  const $defs: Record<string, object> = { a30: { type: 'string' } }
  for (let i = 0; i < 30; i++)
    $defs[`a${i}`] = { anyOf: [{ $ref: `#/$defs/a${i + 1}` }, { $ref: `#/$defs/a${i + 1}` }] }
  const branching = { $ref: '#/$defs/a0', $defs }
  t.same(checked(jsonSchema, { schema: branching }), {})
  t.equal(
    reasonOf(() => jsonSchema.make({ schema: branching })(message('5'))),
    'invalid'
  )
  t.equal(
    reasonOf(() => jsonSchema.make({ schema: { $ref: '#' } })(message('5'))),
    'invalid'
  )
})

t.test('faults of schemas are told where they stand', async t => {
  for (const [options, places] of [
    [5, ['']],
    [{}, ['/schema']],
    [{ schema: '{' }, ['/schema']],
    [{ schema: [], x: 1 }, ['/x', '/schema']],
    [{ schema: { type: 'text' } }, ['/schema/type']],
    [
      { schema: { properties: { 'a/b': { minimum: '1', patern: 'x' } } } },
      ['/schema/properties/a~1b/minimum', '/schema/properties/a~1b/patern']
    ],
    [{ schema: { pattern: '(' } }, ['/schema/pattern']],
    [{ schema: { patternProperties: { '(?=a)': {} } } }, ['/schema/patternProperties/(?=a)']],
    [{ schema: { $ref: 'https://example.com/x' } }, ['/schema/$ref']],
    [{ schema: { $ref: '#/$defs/none' } }, ['/schema/$ref']],
    [{ schema: { $defs: { a: { type: 'x' } }, $ref: '#/$defs/a' } }, ['/schema/$defs/a/type']],
    [{ schema: { items: [{}] } }, ['/schema/items']],
    [
      { schema: { 'svc-later': 1, $dynamicRef: '#x', $async: true } },
      ['/schema/svc-later', '/schema/$dynamicRef', '/schema/$async']
    ],
    [
      { schema: { allOf: [{ $ref: '#/$defs/a' }], unevaluatedProperties: false, $defs: { a: {} } } },
      ['/schema/allOf/0/$ref']
    ]
  ] as const)
    t.same(Object.keys(checked(jsonSchema, options)), places, JSON.stringify(options))
})
