import t from 'tap'
import { template, templateFault } from '../../../streams/processors/template.ts'
import { callWith, message, reasonOf } from './message.ts'

/** An expression's mark, which would be one of JavaScript's in a template string. */
const E = '$' + '{!'
const order = message({ id: 5, name: 'x}"y', list: [1, 'a'] })

t.test('variables and expressions are filled in, all else stays as it is', async t => {
  const call = callWith({ 'svc_meta.user': 'ann', 'svc_context.headers_X-Id': '7', 'svc_meta.team.name': 'red' })
  for (const [text, result] of [
    ['', ''],
    ['plain $5 and $[x] {y} and $', 'plain $5 and $[x] {y} and $'],
    ['$svc_meta.user', 'ann'],
    ['<$svc_meta.user.>$svc_context.headers_X-Id!', '<ann.>7!'],
    ['$svc_meta.team.name/$svc_meta.none', 'red/'],
    [`${E} json("id") }-${E}meta("trace")}`, '5-2'],
    [`${E} {"a": value.id}["a"] }`, '5'],
    [`${E} "}" + value.name + '}' }`, '}x}"y}'],
    [`${E} value.list }|${E} value.id > 4 }|${E} null }|${E} 3 }`, '[1,"a"]|true||3'],
    [`${E} content() }`, String(order.value)]
  ] as const)
    t.equal(template(text)(order, call), result, text)
})

t.test('without a call variables are empty, and without a message expressions', async t => {
  const text = template(`a$svc_meta.user${E} value.id }b`)
  t.equal(text(order, null), 'a5b')
  t.equal(text(null, callWith({ 'svc_meta.user': 'ann' })), 'aannb')
})

t.test('what is filled in is never read again', async t => {
  const sly = `$svc_meta.other ${E} json("secret") } ","topic":"other`
  const call = callWith({ 'svc_meta.user': sly, 'svc_meta.other': 'no' })
  t.equal(template('$svc_meta.user')(null, call), sly)
  t.same(call.asked, ['svc_meta.user'])
  t.equal(template(`${E} value.id }`)(message({ id: sly, secret: 'no' }), call), sly)
})

t.test('a template tells what it needs', async t => {
  const needs = (text: string) => {
    const { needsMessage, needsCall } = template(text)
    return [needsMessage, needsCall]
  }
  t.same(needs('a'), [false, false])
  t.same(needs('$svc_meta.a'), [false, true])
  t.same(needs(`${E} key }`), [true, false])
})

t.test('faults are told', async t => {
  for (const [text, fault] of [
    ['$secret_env.PASSWORD', /\$secret_/],
    ['a $secret_vault.x', /\$secret_/],
    ['$svc_meta.', /without a name/],
    ['$svc_context', /without a name/],
    ['$svc_context.nothing', /\$svc_context\.nothing, which does not exist/],
    ['$svc_context.path.more', /does not exist/],
    ['$svc_context.request_id', /does not exist/],
    ['a $svc_user.id', /\$svc_user, which does not exist/],
    [`${E} value.id`, /not closed/],
    [`${E} value. }`, /cannot be used/],
    [`${E} nobody }`, /Unknown variable/]
  ] as const)
    t.match(templateFault(text), fault, text)
  for (const text of ['$svc_meta.a $ svc', '$svc_context.path/$svc_context.headers_X-Id', '$svc_context.cookies_a'])
    t.equal(templateFault(text), null, text)
  t.equal(templateFault('$svc_context.request_id', ['svc_context.request_id']), null)
})

t.test('a result is at most 8 KiB', async t => {
  const text = template('$svc_meta.a')
  const of = (value: string) => reasonOf(() => text(null, callWith({ 'svc_meta.a': value })))
  t.equal(of('x'.repeat(8192)), '')
  t.equal(of('x'.repeat(8193)), 'invalid')
  t.equal(of('€'.repeat(2731)), 'invalid', 'bytes count')
})
