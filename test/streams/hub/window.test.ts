import fc from 'fast-check'
import t from 'tap'
import { Budget } from '../../../streams/budget.ts'
import { Backlog } from '../../../streams/hub/broadcast/backlog.ts'
import { Entry } from '../../../streams/hub/broadcast/entry.ts'
import { Parts } from '../../../streams/hub/broadcast/parts.ts'
import { Window } from '../../../streams/hub/broadcast/window.ts'
import { Cursors } from '../../../streams/hub/cursor.ts'

/** A window over so many partitions. Each message is of 64 bytes and its value. */
function made(partitions: number, messages: number, bytes = 1e6) {
  const parts = new Parts([{ source: 0, topic: 't' }])
  for (let partition = 0; partition < partitions; partition++) parts.add(0, { topic: 't', partition }, 0, 0)
  const budget = new Budget(1e9)
  const window = new Window(parts, { messages, bytes, ageMs: 1000 }, { messages: 10, bytes: 1000 }, budget)
  const cursors = new Cursors(Buffer.alloc(32), [], 1, false)
  const put = (partition: number, value = '', at = 0) => {
    const part = parts.list[partition]!
    const record = {
      topic: 't',
      partition,
      offset: part.next++,
      timestamp: at,
      key: null,
      value: Buffer.from(value),
      headers: []
    }
    const entry = new Entry(record, window.next, part, cursors, null)
    window.push(entry, at)
    return entry
  }
  const trim = (now = 0) => window.evict(window.surplus(now))
  return { parts, window, budget, put, trim }
}

t.test('a window keeps so many messages, bytes and milliseconds of a partition', async t => {
  const { window, put, trim, parts, budget } = made(2, 3, 300)
  for (let i = 0; i < 5; i++) put(0)
  trim()
  t.same([window.first, window.next, parts.list[0]!.floor], [2, 5, 2])
  put(1)
  put(0, 'x'.repeat(150))
  trim()
  t.same([window.first, parts.list[0]!.floor, parts.list[1]!.floor], [4, 4, 0], 'bytes of that partition')
  put(1, '', 500)
  trim(1200)
  t.same([window.first, window.next], [7, 8])
  trim(1500)
  t.same([window.first, window.next, budget.windows.used], [8, 8, 0])
})

t.test('a window gives way when windows have half of the budget of the process', async t => {
  const { window, put, trim, budget } = made(1, 100)
  for (let i = 0; i < 10; i++) put(0)
  budget.add(1e9)
  trim()
  t.equal(window.next, 10)
  t.equal(window.first, 0, 'not for what waits elsewhere')
  budget.windows.changed(1, 5e8 - 300)
  trim()
  t.equal(window.next - window.first, 4)
})

t.test('whoever goes on from a covered vector gets every newer message once', async () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat(3), { maxLength: 60 }),
      fc.array(fc.nat(12), { minLength: 4, maxLength: 4 }),
      fc.integer({ min: 1, max: 10 }),
      (order, vector, messages) => {
        const { window, parts, put, trim } = made(4, messages)
        for (const partition of order) put(partition)
        trim()
        for (const part of parts.list) if (vector[part.index]! > part.next) vector[part.index] = part.next
        if (!parts.covers(vector)) return
        const { from, until } = window.seek(vector)
        const got = parts.list.map(() => [] as number[])
        for (let seq = from; seq < window.next; seq++) {
          const { part, record } = window.at(seq)
          if (record.offset >= vector[part.index]!) got[part.index]!.push(record.offset)
          else if (seq >= until) throw new Error('not new, behind what was said to be')
        }
        for (const { index, next } of parts.list) {
          const expected = Array.from({ length: next - vector[index]! }, (_, i) => vector[index]! + i)
          if (JSON.stringify(got[index]) !== JSON.stringify(expected))
            throw new Error(`${got[index]} is not ${expected}`)
        }
        const again = window.seek(window.vectorAt(from))
        if (again.from < from) throw new Error('a position is behind itself')
      }
    )
  )
})

t.test('slices are shared by all at one place, bounded in messages and bytes, and end where others begin', async t => {
  const { window, put } = made(1, 1000)
  for (let i = 0; i < 100; i++) put(0)
  t.equal(window.slice(5), window.slice(5))
  t.equal(window.slice(5).items.length, 10)
  t.same([window.slice(60).items.length, window.slice(63).items.length], [4, 1])
  t.equal(window.slice(98).items.length, 2)
  put(0)
  t.equal(window.slice(98).items.length, 3)
  for (let i = 0; i < 5; i++) put(0, 'x'.repeat(600))
  t.equal(window.slice(102).items.length, 1)
})

t.test('what a backlog keeps beyond the window counts in the budget until the last one lets it go', async t => {
  const { window, put, budget, trim } = made(1, 2)
  const one = new Backlog(window, false)
  const other = new Backlog(window, false)
  for (let i = 0; i < 3; i++) {
    const entry = put(0)
    one.add(entry)
    other.add(entry)
  }
  trim(5000)
  t.same([budget.used, budget.windows.used], [3 * 64, 0])
  t.same([one.shift()!.seq, one.first, one.bytes], [0, 1, 128])
  one.clear()
  t.equal(budget.used, 3 * 64)
  other.clear()
  t.equal(budget.used, 0)
})
