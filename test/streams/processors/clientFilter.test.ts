import t from 'tap'
import type { Arrived } from '../../../streams/message.ts'
import { clientFilter, filterFault } from '../../../streams/processors/clientFilter.ts'
import { callWith, message } from './message.ts'

const filter = (given: { key?: string; headers?: Record<string, string>; check?: string }) => ({
  key: '',
  headers: {},
  check: '',
  ...given
})
const record = (value: unknown, key: string | null = 'k'): Arrived => ({
  ...message(value, key),
  topic: 'orders',
  partition: 0,
  offset: 1,
  timestamp: 1
})
const ann = callWith({ 'svc_meta.user': 'ann' })

t.test('a client gets what its filter lets through', async t => {
  for (const [given, records] of [
    [
      { key: '$svc_meta.user' },
      [
        [record(1, 'ann'), true],
        [record(1, 'Ann'), false],
        [record(1, null), false]
      ]
    ],
    [{ headers: { TRACE: '2' } }, [[record(1), true]]],
    [{ headers: { trace: '1' } }, [[record(1), false]]],
    [{ headers: { trace: '2', none: '' } }, [[record(1), false]]],
    [
      { check: 'value.user == caller("svc_meta.user")' },
      [
        [record({ user: 'ann' }), true],
        [record({ user: 'bob' }), false],
        [record({}), false],
        [record('text'), false]
      ]
    ],
    [
      { check: 'value.flag' },
      [
        [record({ flag: true }), true],
        [record({ flag: 1 }), false]
      ]
    ],
    [
      { key: 'k', check: 'offset == 1 && topic == "orders"' },
      [
        [record(1), true],
        [record(1, 'x'), false]
      ]
    ]
  ] as const) {
    const gets = clientFilter(filter(given as { key?: string }), ann)!
    for (const [one, expected] of records) t.equal(gets(one as Arrived), expected, JSON.stringify(given))
  }
  t.equal(clientFilter(null, ann), null)
  t.equal(clientFilter(filter({}), ann), null)
})

t.test('each client has its own variables, asked for once where they are compared', async t => {
  const given = filter({ key: '$svc_meta.user' })
  const [one, other] = [callWith({ 'svc_meta.user': 'one' }), callWith({ 'svc_meta.user': 'other' })]
  const [first, second] = [clientFilter(given, one)!, clientFilter(given, other)!]
  for (let i = 0; i < 3; i++) t.same([first(record(1, 'one')), second(record(1, 'one'))], [true, false])
  t.same(one.asked, ['svc_meta.user'])
})

t.test('what a variable holds is a value and no expression', async t => {
  const sly = callWith({ 'svc_meta.user': '" || true || "' })
  const gets = clientFilter(filter({ check: 'value.user == caller("svc_meta.user")' }), sly)!
  t.equal(gets(record({ user: 'ann' })), false)
  t.equal(gets(record({ user: '" || true || "' })), true)
})

t.test('faults are told where they stand', async t => {
  const places = (given: object) => filterFault(filter(given)).map(({ pointer }) => pointer)
  t.same(places({ key: 'a', headers: { a: '$svc_meta.x' }, check: 'value.a == caller("svc_context.path")' }), [])
  t.same(places({ key: '$secret_env.X', headers: { 'a/b': '$' + '{! value.a }' }, check: 'value.' }), [
    '/key',
    '/headers/a~1b',
    '/check'
  ])
  t.same(places({ check: '"text"' }), ['/check'])
  t.same(places({}), [''])
  t.same(places({ key: '$svc_context.nothing', check: 'key == caller("svc_context.nothing")' }), ['/key', '/check'])
  t.same(places({ check: "key == caller('user')" }), ['/check'])
})
