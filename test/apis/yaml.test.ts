import fc from 'fast-check'
import t from 'tap'
import { durationMs } from '../../config/duration.ts'
import { Invalid } from '../../config/validate.ts'
import { isQuickYaml, parseJson, parseLinedYaml, parseYaml, placed, toYaml } from '../../config/yaml.ts'

function faultsOf(run: () => unknown): string[] {
  try {
    run()
  } catch (cause) {
    if (cause instanceof Invalid) return cause.faults.map(({ path, message }) => `${path} ${message}`)
    throw cause
  }
  return []
}

t.test('any JSON value comes back from YAML as it was', async () => {
  const value = fc.jsonValue({ maxDepth: 5 }).filter(value => !JSON.stringify(value).includes('"__proto__"'))
  fc.assert(
    fc.property(value, value => JSON.stringify(parseYaml(toYaml(value))) === JSON.stringify(value)),
    { numRuns: 500 }
  )
})

t.test('texts that YAML could take for something else come back as texts', async t => {
  const texts = [
    'yes',
    'no',
    '~',
    'null',
    '1',
    '0x10',
    '1e3',
    '.inf',
    '2020-01-01',
    '- a',
    'a: b',
    '#',
    '*a',
    '&a',
    '!a',
    '|',
    '',
    ' ',
    'a\nb',
    'a\n',
    '\t',
    '\u0000',
    '\u2028',
    '\ufeff',
    '<<',
    '---',
    '%'
  ]
  // Their number names them: TAP would read some of them as its own.
  for (const [i, text] of texts.entries())
    for (const value of [{ x: text }, { [text]: 1 }, [text], text]) t.same(parseYaml(toYaml(value)), value, `text ${i}`)
})

t.test('YAML values are those of the core schema', async t => {
  t.same(parseYaml('a: yes\nb: 0x10\nc: ~\nd: 2020-01-01\ne: 1.5\nf: true\n200: x'), {
    a: 'yes',
    b: 16,
    c: null,
    d: '2020-01-01',
    e: 1.5,
    f: true,
    200: 'x'
  })
  t.same(parseYaml('%YAML 1.1\n---\na: yes'), { a: 'yes' })
  t.same(parseYaml('- &a [1]\n- *a'), [[1], [1]])
  t.same(parseYaml('{"a": [1, null]}'), { a: [1, null] })
})

t.test('ambiguous and hostile documents are refused with the place of the fault', async t => {
  const yaml: [text: string, fault: RegExp][] = [
    ['a: 1\na: 2', /^\/a stands there twice/],
    ['x:\n  200: a\n  "200": b', /^\/x\/200 stands there twice/],
    ['__proto__: 1', /^\/__proto__ is a name/],
    ['a: {"\\u005f_proto__": 1}', /^\/a\/__proto__ is a name/],
    ['a: !!js/function x', /is not YAML/],
    ['a: !!binary aGk=', /^\/a has the tag/],
    ['a: !!set {b}', /^\/a has the tag/],
    ['a: .inf', /^\/a is no finite number/],
    ['? [1]\n: 2', /is not YAML/],
    ['a: *b', /^\/a refers to nothing/],
    ['a: &x\n  b: *x', /nested deeper|multiply/],
    ['---\na: 1\n---\nb: 2', /is not YAML/],
    ['a: b: c', /is not YAML/],
    ['[1', /is not YAML/],
    [
      `a: &a [x,x,x,x,x,x,x,x,x,x]\n${[...'bcdefgh'].map((name, i) => `${name}: &${name} [${Array(10).fill(`*${'abcdefg'[i]}`)}]`).join('\n')}`,
      /aliases that multiply/
    ],
    [`a: &a ${'x'.repeat(100_000)}\nb: [${Array(30).fill('*a')}]`, /aliases that multiply/],
    [`a: ${'x'.repeat(11_000_000)}`, /is longer than/]
  ]
  for (const [text, fault] of yaml) t.match(faultsOf(() => parseYaml(text))[0], fault, text.slice(0, 40))
  const json: [text: string, fault: RegExp][] = [
    ['{"a":1,"a":2}', /^\/a stands there twice/],
    ['{"a":[0,{"b":1,"\\u0062":2}]}', /^\/a\/1\/b stands there twice/],
    ['{"x":{"__proto__":1}}', /^\/x\/__proto__ is a name/],
    ['{"a":[1,1e999]}', /^\/a\/1 is no finite number/],
    ['{"a":', /is not JSON/],
    ['', /is not JSON/],
    [`"${'x'.repeat(11_000_000)}"`, /is longer than/]
  ]
  for (const [text, fault] of json) t.match(faultsOf(() => parseJson(text))[0], fault, text.slice(0, 40))
})

t.test('100 levels are read, 101 are refused, 20,000 harm nothing', async t => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
  for (const parse of [parseJson, parseYaml]) {
    t.equal(JSON.stringify(parse(nested(100))), nested(100))
    for (const depth of [101, 1000, 20_000])
      t.match(faultsOf(() => parse(nested(depth)))[0], /nested deeper than 100 levels/)
  }
})

t.test('long texts and many members are read', async t => {
  const long = 'x'.repeat(1_000_000)
  t.same(parseJson(JSON.stringify({ long })), { long })
  t.same(parseYaml(JSON.stringify({ long })), { long })
  const many = Array.from({ length: 20_000 }, (_, i) => `k${i}: 1`).join('\n')
  t.equal(Object.keys(parseYaml(many) as object).length, 20_000)
})

t.test('what only looks like a double or deep in JSON is read', async t => {
  for (const text of [
    '{"a":{"x":1},"b":{"x":1}}',
    '{"a":"b:c","d":",}"}',
    '{"a\\"":"\\\\","b":"\\""}',
    '["{","[","1e999"]',
    '{"constructor":{"prototype":1}}',
    '[-1.5e-7, 0]'
  ])
    t.same(parseJson(text), JSON.parse(text), text)
})

t.test('durations are read in every form and refused in any other', async t => {
  const table: [text: string, ms: number | null][] = [
    ['', 0],
    ['0s', 0],
    ['10s', 10_000],
    ['5m', 300_000],
    ['2h', 7_200_000],
    ['1h30m10s', 5_410_000],
    ['1.5s', 1500],
    ['0.5m', 30_000],
    ['250ms', 250],
    ['1m1.5s20ms', 61_520],
    ['0.25ms', 0.25],
    ['10', null],
    ['s', null],
    ['1s1m', null],
    ['-1s', null],
    ['1d', null],
    ['1 s', null],
    ['1.s', null],
    ['1.5h', null],
    ['1s\n', null]
  ]
  for (const [text, ms] of table) t.equal(durationMs(text), ms, JSON.stringify(text))
})

const LARGE = ['9223372036854775807', '-9223372036854775808', '9007199254740993', '1000000000000000000000000']

t.test('integers that no double carries are kept digit by digit, or refused with their place', async t => {
  for (const large of LARGE) {
    const json = `{"a":[1,{"maximum":${large}}],"n":9007199254740991}`
    t.equal(JSON.stringify(parseJson(json, 'exact')), json)
    t.equal(JSON.stringify(parseYaml(json, 'exact')), json)
    const yaml = toYaml(parseJson(json, 'exact'))
    t.match(yaml, `maximum: ${large}\n`)
    t.equal(JSON.stringify(parseYaml(yaml, 'exact')), json)
    for (const parse of [parseJson, parseYaml])
      t.match(faultsOf(() => parse(json))[0], /^\/a\/1\/maximum is an integer that a double cannot carry/)
  }
  t.equal(JSON.stringify(parseYaml('a: 0xffffffffffffffff', 'exact')), '{"a":18446744073709551615}')
  t.same(parseJson('["9223372036854775807",1234567890123456,0.12345678901234566,1e20]'), [
    '9223372036854775807',
    1234567890123456,
    0.12345678901234566,
    1e20
  ])
})

t.test('YAML that is long, or of very many values, is not quick', async t => {
  for (const line of ['- a\n', '- - - - - -\n', '? a\n', '{},', '- &a 1\n', '- !!str a\n'])
    t.notOk(isQuickYaml(line.repeat(6_000)), line)
  t.notOk(isQuickYaml('x'.repeat(60_000)))
  t.ok(isQuickYaml('name: value\n'.repeat(2_000)))
})

t.test('merge keys take over what the map does not say itself', async t => {
  const table: [text: string, value: unknown][] = [
    ['a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}', { x: 1, y: 3 }],
    ['a: &a {x: 1, y: 2}\nb: {y: 3, <<: *a}', { y: 3, x: 1 }],
    ['a: &a {x: 1}\nc: &c {x: 2, z: 4}\nb: {<<: [*a, *c]}', { x: 1, z: 4 }],
    ['a: &a {x: 1}\nc: &c {<<: *a, z: 4}\nb: {<<: *c}', { x: 1, z: 4 }],
    ['b: {<<: {x: &x [1], y: *x}}', { x: [1], y: [1] }],
    ['b: {"<<": {x: 1}}', { '<<': { x: 1 } }],
    ['b: {<<: []}', {}]
  ]
  for (const [text, value] of table)
    t.equal(JSON.stringify((parseYaml(text) as { b: unknown }).b), JSON.stringify(value), text)
  const faults: [text: string, fault: RegExp][] = [
    ['b: {<<: 1}', /^\/b\/<< merges what is no map/],
    ['b: {<<: [1]}', /^\/b\/<< merges what is no map/],
    ['b: {<<: *c}', /^\/b\/<< refers to nothing/],
    ['a: &a {x: 1}\nb: {<<: *a, y: 1, y: 2}', /^\/b\/y stands there twice/],
    ['a: &a\n  <<: *a', /nested deeper|multiply/],
    [
      `a: &a {${Array.from({ length: 500 }, (_, i) => `k${i}: 1`)}}\nb:\n${'  - {<<: *a}\n'.repeat(100)}`,
      /aliases that multiply/
    ]
  ]
  for (const [text, fault] of faults) t.match(faultsOf(() => parseYaml(text))[0], fault, text.slice(0, 40))
  for (const value of [{ '<<': { a: 1 } }, [{ '<<': '<<' }]]) t.same(parseYaml(toYaml(value)), value)
})

t.test('every value is found in its line, also after the value was changed', async t => {
  const text = 'z: 1\n200:\n  a/b: [x,\n   y]\nanchor: &a\n  deep:\n    er: 1\nalias: *a\nmerged:\n  <<: *a\n  own: 2\n'
  const { value, lineOf } = placed(parseLinedYaml(text))
  ;(value as { z: unknown }).z = { more: 1 }
  const lines: [path: string, line: number | null][] = [
    ['', 1],
    ['/z', 1],
    ['/z/more', null],
    ['/200', 2],
    ['/200/a~1b', 3],
    ['/200/a~1b/0', 3],
    ['/200/a~1b/1', 4],
    ['/200/a~1b/2', null],
    ['/anchor/deep/er', 7],
    ['/alias', 8],
    ['/alias/deep/er', 8],
    ['/merged/own', 11],
    ['/merged/deep/er', 9],
    ['/nothing', null]
  ]
  for (const [path, line] of lines) t.equal(lineOf(path), line, path)
})
