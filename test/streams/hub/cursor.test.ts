import fc from 'fast-check'
import t from 'tap'
import { bodyOfTime, Cursors, fits, LONGEST_CURSOR } from '../../../streams/hub/cursor.ts'

const secret = Buffer.alloc(32, 1)
const signed = new Cursors(secret, ['api', 'stream', 'a', 'b'], 2, false)
const open = new Cursors(secret, ['api', 'stream', 'a', 'b'], 2, true)

/** By topic, then partition: what a cursor is read as. */
function offsetsOf(cursors: Cursors, text: string): unknown {
  const seen = cursors.read(text)
  if (seen === null) return null
  return seen.timestamp ?? seen.offsets.map(topic => Object.fromEntries(topic))
}

t.test('what was signed is read as it was written', async t => {
  const rows = [
    ['0-12345', [{ 0: 12345 }]],
    ['0-12345_1-99', [{ 0: 12345, 1: 99 }]],
    ['0-5~0-7_3-0', [{ 0: 5 }, { 0: 7, 3: 0 }]],
    ['~2-7', [{}, { 2: 7 }]],
    [`0-${Number.MAX_SAFE_INTEGER}`, [{ 0: Number.MAX_SAFE_INTEGER }]],
    [bodyOfTime(1_700_000_000_000.7), 1_700_000_000_000],
    [bodyOfTime(-5), 0]
  ] as const
  for (const [body, expected] of rows) {
    const text = signed.sign(body)
    t.match(text, /^1\.[\dt_~-]+\.[A-Za-z0-9_-]{16}$/)
    t.same(offsetsOf(signed, text), expected, body)
    t.same(offsetsOf(open, text), expected, body)
    t.equal(signed.read(`1.${body}`), null, 'without its signature it is none')
    t.same(offsetsOf(open, `1.${body}`), expected, 'but where seeking is allowed')
  }
})

t.test('what was not signed here for this stream is none', async t => {
  const good = signed.sign('0-12345_1-99')
  const signature = good.slice(good.lastIndexOf('.') + 1)
  const others = {
    'of another stream': new Cursors(secret, ['api', 'other', 'a', 'b'], 2, true).sign('0-12345_1-99'),
    'of another topic': new Cursors(secret, ['api', 'stream', 'a', 'c'], 2, true).sign('0-12345_1-99'),
    'of parted names': new Cursors(secret, ['api', 'stream', 'a\nb'], 2, true).sign('0-12345_1-99'),
    'of another secret': new Cursors(Buffer.alloc(32, 2), ['api', 'stream', 'a', 'b'], 2, true).sign('0-12345_1-99'),
    'another offset': `1.0-12344_1-99.${signature}`,
    'a partition less': `1.0-12345.${signature}`,
    'another version': `2.0-12345_1-99.${signature}`,
    'a shorter signature': good.slice(0, -1),
    'a longer signature': `${good}A`,
    'an empty signature': '1.0-12345_1-99.',
    'the signature alone': `.${signature}`,
    'the signature as a time': `1.t1700000000000.${signature}`,
    'letters beyond ASCII': `1.0-12345_1-99.${'ä'.repeat(16)}`
  }
  for (const [name, text] of Object.entries(others)) {
    t.equal(signed.read(text), null, name)
    t.equal(open.read(text), null, `${name}, where seeking is allowed`)
  }
  for (let i = 0; i < good.length; i++) {
    const changed = good.slice(0, i) + (good[i] === '1' ? '2' : '1') + good.slice(i + 1)
    t.equal(signed.read(changed), null, changed)
  }
})

t.test('garbage is none, also where seeking is allowed', async t => {
  const rows = [
    '',
    '1',
    '1.',
    '.',
    '1..',
    '1.0',
    '1.0-',
    '1.-5',
    '1.0--5',
    '1.a-5',
    '1.0-5_',
    '1._0-5',
    '1.0-5__1-5',
    '1.00-5',
    '1.0-05',
    '1.0-5_0-6',
    '1.0-1.5',
    '1.0-1e5',
    '1.0-9007199254740992',
    '1.0-99999999999999999999',
    '1.99999999999-1',
    '1.0-5~0-5~0-5',
    '1.0-5 ',
    ' 1.0-5',
    '1.0-5\n',
    '1.t',
    '1.t-5',
    '1.t1e3',
    '1.t9999999999999999',
    '1.t05',
    '0-5',
    't1700000000000',
    '{}',
    '%31.0-5',
    '1.0-5,1.0-6',
    `1.${Array.from({ length: 2000 }, (_, i) => `${i}-1`).join('_')}`
  ]
  for (const text of rows) t.equal(open.read(text), null, JSON.stringify(text.slice(0, 40)))
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^1\.[0-9t_~.-]*$/)), text => {
      const seen = open.read(text)
      if (seen !== null && seen.timestamp === null)
        for (const topic of seen.offsets)
          for (const [partition, offset] of topic)
            if (!Number.isSafeInteger(partition) || !Number.isSafeInteger(offset)) return false
      return signed.read(text) === null
    })
  )
})

t.test('what fits is read again, however long', async t => {
  const body = (length: number) => `0-1${'_1-1'.repeat(0)}`.padEnd(length, '0').slice(0, length)
  t.equal(fits(body(LONGEST_CURSOR)), false)
  const pairs = Array.from({ length: 400 }, (_, i) => `${i}-${1000 + i}`).join('_')
  t.equal(fits(pairs), true)
  t.ok(signed.sign(pairs).length <= LONGEST_CURSOR)
  t.not(signed.read(signed.sign(pairs)), null)
})
