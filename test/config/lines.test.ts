import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { linesTo, type Pour, toFile } from '../../config/lines.ts'

/** A sink that takes a batch when it is told to. */
function byHand(): { pour: Pour; taken: string[]; done: (error: Error | null, written?: number) => void } {
  const taken: string[] = []
  let waiting: Parameters<Pour>[1] | null = null
  return {
    taken,
    pour(bytes, done) {
      taken.push(bytes.toString())
      waiting = done
    },
    done(error, written = 0) {
      const done = waiting!
      waiting = null
      done(error, written)
    }
  }
}

t.test('lines leave in order, one batch at a time', async t => {
  const sink = byHand()
  const lines = linesTo(sink.pour, () => t.fail())
  lines.write('a\n')
  lines.flush()
  lines.write('b\n')
  lines.flush()
  lines.write('c\n')
  t.same(sink.taken, ['a\n'])
  sink.done(null)
  lines.flush()
  t.same(sink.taken, ['a\n', 'b\nc\n'])
})

t.test('a sink that takes nothing makes nothing grow without bound', async t => {
  const sink = byHand()
  const troubles: string[] = []
  const lines = linesTo(sink.pour, text => troubles.push(text))
  lines.write('first\n')
  lines.flush()
  const line = `${'x'.repeat(1023)}\n`
  for (let i = 0; i < 20_000; i++) lines.write(line)
  t.ok(lines.waiting < 17 * 1024 * 1024)
  sink.done(null)
  lines.flush()
  sink.done(null)
  t.match(troubles.at(-1), /^3\d\d\d lines were lost$/)
})

t.test('of failures in a row the first is told, and a line that broke off swallows none', async t => {
  const sink = byHand()
  const troubles: string[] = []
  const lines = linesTo(sink.pour, text => troubles.push(text))
  for (const written of [3, 0]) {
    lines.write('half a line\n')
    lines.flush()
    sink.done(new Error('disk full'), written)
  }
  lines.write('whole\n')
  lines.flush()
  t.equal(sink.taken.at(-1), '\nwhole\n')
  sink.done(null)
  t.same(troubles, ['disk full', '2 lines were lost'])
})

t.test('settled waits for what was taken before, not for what comes later', async t => {
  const sink = byHand()
  const lines = linesTo(sink.pour, () => t.fail())
  lines.write('a\n')
  lines.flush()
  lines.write('b\n')
  const settled = lines.settled()
  sink.done(null)
  t.same(sink.taken, ['a\n', 'b\n'])
  lines.write('c\n')
  sink.done(null)
  await settled
  await lines.settled(1)
})

t.test('a file gets every byte', async t => {
  const path = join(t.testdir(), 'lines')
  const file = openSync(path, 'w')
  const lines = linesTo(
    toFile(() => file),
    () => t.fail()
  )
  for (let i = 0; i < 50_000; i++) lines.write(`${i}\n`)
  await lines.settled()
  closeSync(file)
  t.equal(readFileSync(path, 'utf8').split('\n').length, 50_001)
})
