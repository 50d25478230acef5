import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { applyPatch } from 'rfc6902'
import t from 'tap'
import { parseExact } from '../../config/exactJson.ts'
import { difference } from '../../control/difference.ts'
import { isLonger } from '../../control/size.ts'

t.test('the difference makes one value of the other', async () => {
  const scalar = fc.oneof(fc.constant(null), fc.boolean(), fc.integer({ min: 0, max: 3 }), fc.constantFrom('a', '/~'))
  const { value } = fc.letrec<{ value: unknown }>(tie => ({
    value: fc.oneof(
      { maxDepth: 4 },
      scalar,
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(fc.constantFrom('a', 'b/c', '~d', ''), tie('value'), { noNullPrototype: true })
    )
  }))
  fc.assert(
    fc.property(value, value, (from, to) => {
      const holder = structuredClone({ from })
      const operations = difference(from, to, 100_000)!.map(each => ({ ...each, path: `/from${each.path}` }))
      return (
        applyPatch(holder, structuredClone(operations) as Parameters<typeof applyPatch>[1]).every(e => e === null) &&
        isDeepStrictEqual(holder.from, to) &&
        (operations.length === 0) === isDeepStrictEqual(from, to)
      )
    }),
    { numRuns: 2_000 }
  )
})

t.test('what came between is told as little as it is', async t => {
  const table: [from: string, to: string, operations: unknown][] = [
    ['[1,2,3]', '[1,3]', [{ op: 'remove', path: '/1' }]],
    ['[1,3]', '[1,2,3]', [{ op: 'add', path: '/1', value: 2 }]],
    ['[{"a":1,"b":2}]', '[{"a":1,"b":3}]', [{ op: 'replace', path: '/0/b', value: 3 }]],
    ['{"a":{"b/c":1}}', '{"a":{}}', [{ op: 'remove', path: '/a/b~1c' }]],
    ['{"a":12345678901234567890}', '{"a":12345678901234567890}', []]
  ]
  for (const [from, to, operations] of table)
    t.same(difference(parseExact(from), parseExact(to), 1_000), operations, `${from} → ${to}`)
  const [replaced] = difference(parseExact('{"a":12345678901234567890}'), parseExact('{"a":12345678901234567891}'), 9)!
  t.equal(JSON.stringify(replaced), '{"op":"replace","path":"/a","value":12345678901234567891}')
})

t.test('long lists and long names hold nobody up', async t => {
  const list = (start: number) => Array.from({ length: 50_000 }, (_, i) => start + i)
  t.equal(difference(list(0), list(1_000_000), 1_000_000)!.length, 50_000)
  t.same(difference(list(0), list(0), 1_000), [])
  const long = (value: number) => ({ ['n'.repeat(90_000)]: Object.fromEntries(list(0).map(i => [i, value])) })
  t.equal(difference(long(1), long(2), 200_000), null)
})

t.test('whether a value is longer is told without looking at all of it', async t => {
  for (const value of [
    { a: ['x'.repeat(90), { b: 'y' }] },
    'x'.repeat(100),
    Array(40).fill(1),
    { ['x'.repeat(100)]: 1 }
  ])
    t.same([isLonger(value, 50), isLonger(value, 300)], [true, false], JSON.stringify(value))
  const never = Object.defineProperty({}, 'b', { enumerable: true, get: () => t.fail('was looked at') })
  t.ok(isLonger(['x'.repeat(100), never], 50))
})
