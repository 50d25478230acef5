import t from 'tap'
import { compileExpression } from '../../../streams/processors/expression.ts'
import { message, reasonOf } from './message.ts'

const order = message({
  id: 5,
  big: '@',
  amount: 10.5,
  name: 'ab',
  tags: ['a', 'b'],
  list: [1, 2, 3],
  inner: { 'x.y': [1, { z: 'q' }] },
  nothing: null,
  yes: true
})
const large = message('{"id":1234567890123456789}')

t.test('expressions see the message, and numbers of JSON compare and count like any others', async t => {
  const cases: readonly (readonly [text: string, result: unknown, of?: ReturnType<typeof message>])[] = [
    ['value.id == 5 && value.id == 5.0 && value.id != 6', true],
    ['value.amount > 10 && 11 > value.amount && value.amount >= value.id', true],
    ['value.id + 1', 6],
    ['2 * value.id - 0.5', 9.5],
    ['value.id % 2 == 1', true],
    ['value.id in [1, 2, 5]', true],
    ['3 in value.list', true],
    ['value.list == [1, 2, 3]', true],
    ['value.list.exists(x, x > 2) && !value.list.all(x, x > 2)', true],
    ['value.list.map(x, x * 2)[1]', 4],
    ['value.tags.join("-") + string(value.id)', 'a-b5'],
    ['has(value.name) && !has(value.surname)', true],
    ['value.nothing == null', true],
    ['value.name.matches("^a.$") && !value.name.matches("c")', true],
    ['value.tags.exists(tag, tag.matches("^[b]$"))', true],
    ['json("inner.x~1y.1.z") + json("none.at.all") + meta("TRACE") + meta("none")', 'q2'],
    ['json("list.0") == 1', true],
    ['key == "k" && headers["trace"] == "2" && "trace" in headers', true],
    ['topic + string(partition) + string(offset) + string(timestamp)', '-1-1-1'],
    ['topic + string(partition) + string(offset) + string(timestamp)', 'orders3171000', arrived()],
    ['value.id == 1234567890123456789', true, large],
    ['value.id', 1234567890123456789n, large],
    ['value == null && key == null && content() == "" && json("a") == ""', true, message(null, null)],
    ['value', 'no json', message('no json')],
    ['value', '{"cut', message('{"cut')],
    ['value + 1', 6, message('5')],
    ['value', '//4=', message(Buffer.from([0xff, 0xfe]))],
    ['content()', '{"a": 1}', message('{"a": 1}')]
  ]
  for (const [text, result, of = order] of cases) t.same(compileExpression(text).run(of), result, text)
})

t.test('an expression that cannot be used is told why', async t => {
  for (const [text, reason] of [
    ['', /Unexpected/],
    ['value.', /Expected/],
    ['unknown == 1', /Unknown variable/],
    ['caller("svc_meta.x") == ""', /overload/],
    ['"a" + 1', /overload/],
    ['value.name.matches("(")', /does not compile/],
    ['value.name.matches("(?=a)")', /does not compile/],
    [`value.a == "${'x'.repeat(5000)}"`, /longer than/],
    [`${'('.repeat(100)}1${')'.repeat(100)}`, /maxDepth/],
    [Array.from({ length: 400 }, () => '1').join('+'), /maxAstNodes/],
    ['[1].all(a, [1].all(b, [1].all(c, [1].all(d, true))))', /levels/],
    ['[1].map(x, [x,x]).map(x, [x,x]).map(x, [x,x]).map(x, [x,x])', /levels/],
    ['cel.bind(a, [1], cel.bind(b, [a, a], cel.bind(c, [b, b], cel.bind(d, [c, c], d == d))))', /levels/]
  ] as const)
    t.throws(() => compileExpression(text), { name: 'RangeError', message: reason }, text)
})

t.test('what cannot be worked out makes the message invalid, in one line', async t => {
  for (const [text, of] of [
    ['value.surname == 1', order],
    ['value.name > 5', order],
    ['value.list[7] == 1', order],
    ['value.name.matches(value.tags[0] + "(")', order],
    ['value.a', message('text')],
    ['1 / 0 == 1', order]
  ] as const) {
    const run = () => compileExpression(text).run(of)
    t.equal(reasonOf(run), 'invalid', text)
    t.throws(run, { message: /^[^\n]{10,300}$/ }, text)
  }
})

t.test('a message cannot make an expression take long or much memory', async t => {
  const many = message(JSON.stringify({ list: Array.from({ length: 100_000 }, (_, i) => i), text: 'a'.repeat(1e6) }))
  for (const text of [
    'value.list.all(x, value.list.all(y, x + y >= 0))',
    'value.list.map(x, value.text).join()',
    'value.list.map(x, value.text + value.text + value.text + value.text).join() == ""',
    '(value.text + value.text + value.text + value.text + value.text + value.text + value.text + value.text + value.text).size() > 0',
    'bytes(bytes(bytes(bytes(value.text).hex()).hex()).hex()).hex() == ""'
  ])
    t.equal(
      reasonOf(() => compileExpression(text).run(many)),
      'invalid',
      text
    )
  // Exponential in an engine that goes back; here it is linear.
  const evil = message(JSON.stringify({ text: `${'a'.repeat(5000)}!`, pattern: '^(a+)+$' }))
  t.equal(compileExpression('value.text.matches("^(a+)+$") || value.text.matches(value.pattern)').run(evil), false)
  t.equal(
    reasonOf(() => compileExpression('value == ""').run(message('x'.repeat(5_000_000)))),
    'invalid'
  )
  t.equal(compileExpression('key == "k"').run(message('x'.repeat(5_000_000))), true, 'which is not looked at')
  const deep = message(`${'['.repeat(1e5)}${']'.repeat(1e5)}`)
  t.equal(
    reasonOf(() => compileExpression('value == [] || value.a').run(deep)),
    'invalid'
  )
})

t.test('forms of messages that never came before leave nothing behind', async t => {
  const { run } = compileExpression('value.a == value.b')
  const nested = (depth: number, seed: number) => {
    let form: unknown = 1
    for (let i = 0; i < depth; i++) form = (seed >> i) & 1 ? [form] : { x: form }
    return form
  }
  const names = new Set<string>()
  for (let seed = 0; seed < 50; seed++) {
    const form = nested(20, seed * 7919)
    names.add(JSON.stringify(form))
    t.equal(run(message({ a: form, b: form })), true)
  }
  // The names of types that the library has made are seen in its texts of errors.
  const fault = compileExpression('value.a + 1')
  t.throws(() => fault.run(message({ a: nested(20, 7919) })), {
    message: /no such overload: dyn<map<dyn, dyn>> \+ int|list/
  })
  t.throws(() => fault.run(message({ a: [[[1]]] })), { message: /dyn<list<dyn>> \+ int/ })
})

function arrived() {
  return { ...message('x'), topic: 'orders', partition: 3, offset: 17, timestamp: 1000 }
}
