import t from 'tap'
import { lines, multipart, type Part } from '../../../streams/produce/parts.ts'
import type { No } from '../../../streams/refusals.ts'

const TYPE = 'multipart/mixed; boundary=b'
const told = (parts: Part[] | No) =>
  'code' in parts ? parts.status : parts.map(({ value, type }) => [value.toString('latin1'), type])
const body = (...rows: string[]) => rows.join('\r\n')

t.test('a multipart body is parted by its marks alone', async t => {
  const cases: [name: string, text: string, parts: unknown][] = [
    ['one', body('--b', '', 'x', '--b--'), [['x', null]]],
    [
      'two',
      body('--b', 'Content-Type: text/a', '', 'x', '--b', '', 'y', '--b--', ''),
      [
        ['x', 'text/a'],
        ['y', null]
      ]
    ],
    ['preamble and epilogue', body('hello', '--b', '', 'x', '--b--', 'bye', '--b', '', 'z'), [['x', null]]],
    ['spaces behind a mark', body('--b \t', '', 'x', '--b--'), [['x', null]]],
    ['an empty part', body('--b', '', '', '--b--'), [['', null]]],
    ['a head alone', body('--b', 'A: b', '', '', '--b--'), [['', null]]],
    ['a head and nothing', body('--b', 'Content-Type: c/d', '', '--b--'), [['', 'c/d']]],
    ['line ends within', body('--b', '', '', 'x', '', '--b--'), [['\r\nx\r\n', null]]],
    [
      'what only begins like a mark',
      body('--b', '', 'x', '--bc', '--', '-b', 'y--b', '--b--'),
      [['x\r\n--bc\r\n--\r\n-b\r\ny--b', null]]
    ],
    ['a first line that only begins like one', body('--bc', '--b', '', 'x', '--b--'), [['x', null]]],
    ['a folded head', body('--b', 'Content-Type: a/b;', ' c=d', '', 'x', '--b--'), [['x', 'a/b; c=d']]],
    ['binary', body('--b', 'Content-Transfer-Encoding: binary', '', '\0\xff\n', '--b--'), [['\0\xff\n', null]]],
    ['a type that no header can hold', body('--b', 'Content-Type: a\0b', '', 'x', '--b--'), [['x', null]]],
    ['no last mark', body('--b', '', 'x'), 400],
    ['no mark', 'x', 400],
    ['nothing', '', 400],
    ['the last mark alone', '--b--', 400],
    ['a head without an end', body('--b', 'A: b', '--b--'), 400],
    ['a head that is none', body('--b', 'nonsense', '', 'x', '--b--'), 400],
    ['a long head', body('--b', `A: ${'b'.repeat(20_000)}`, '', 'x', '--b--'), 400],
    ['base64', body('--b', 'Content-Transfer-Encoding: base64', '', 'eA==', '--b--'), 415],
    ['too many', `${'--b\r\n\r\nx\r\n'.repeat(10_001)}--b--`, 413]
  ]
  for (const [name, text, parts] of cases) t.same(told(multipart(Buffer.from(text, 'latin1'), TYPE)), parts, name)
})

t.test('the boundary is read as the parameter that it is', async t => {
  const cases: [type: string, boundary: string | null][] = [
    ['multipart/form-data; boundary=----x', '----x'],
    ['multipart/form-data; charset=utf-8; Boundary="a b;c"', 'a b;c'],
    ['multipart/mixed; x="; boundary=no"; boundary=yes', 'yes'],
    ['multipart/mixed;boundary="a\\"b"', 'a"b'],
    ['multipart/mixed;; boundary=b', 'b'],
    [`multipart/mixed; boundary=${'b'.repeat(70)}`, 'b'.repeat(70)],
    [`multipart/mixed; boundary=${'b'.repeat(71)}`, null],
    ['multipart/mixed; boundary=', null],
    ['multipart/mixed; boundary=""', null],
    ['multipart/mixed; notboundary=b', null],
    ['multipart/mixed', null]
  ]
  for (const [type, boundary] of cases) {
    const parts = multipart(Buffer.from(body(`--${boundary ?? 'b'}`, '', 'x', `--${boundary ?? 'b'}--`)), type)
    t.same(told(parts), boundary === null ? 400 : [['x', null]], type)
  }
})

t.test('any bytes come through between marks', async t => {
  let seed = 7
  const random = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
    return Math.floor((seed / 2_147_483_648) * below)
  }
  const bytes = '\r\n-bx:'
  for (let round = 0; round < 300; round++) {
    const values = Array.from({ length: 1 + random(4) }, () =>
      Array.from({ length: random(30) }, () => bytes[random(bytes.length)]).join('')
    ).map(value => value.replaceAll('--b', '-_b'))
    const text = `--b${values.map(value => `\r\n\r\n${value}\r\n--b`).join('')}--`
    t.same(
      told(multipart(Buffer.from(text), TYPE)),
      values.map(value => [value, null]),
      JSON.stringify(values)
    )
  }
})

t.test('lines that hold nothing are no messages, and the end of a line is not part of it', async t => {
  const cases: [text: string, parts: unknown][] = [
    ['a', ['a']],
    ['a\n', ['a']],
    ['a\r\nb\n\n \t\nc', ['a', 'b', 'c']],
    [' a \n', [' a ']],
    ['a\rb', ['a\rb']],
    ['', 400],
    ['\r\n \n', 400],
    ['x\n'.repeat(10_000), Array.from({ length: 10_000 }, () => 'x')],
    ['x\n'.repeat(10_001), 413]
  ]
  for (const [text, parts] of cases) {
    const got = lines(Buffer.from(text))
    t.same('code' in got ? got.status : got.map(({ value }) => String(value)), parts, JSON.stringify(text.slice(0, 20)))
  }
})
