import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { Garbage } from '../../gateway/proxy/direct/head.ts'
import { AnswerParser, MOST_HEAD_BYTES } from '../../gateway/proxy/direct/parser.ts'
import { badAnswers, goodAnswers } from '../contract/upstreamAnswers.ts'

type Event = [string, ...unknown[]]

/** Feeds the pieces and tells all that the listener heard; data that follow each other are one. */
function read(pieces: readonly Buffer[], method: string, closes: boolean): Event[] {
  const parser = new AnswerParser()
  const events: Event[] = []
  parser.begin(
    {
      information: (status, pairs) => void events.push(['information', status, pairs]),
      head: (status, reason, pairs) => void events.push(['head', status, reason, pairs]),
      pause() {},
      data(chunk) {
        const last = events.at(-1)!
        if (last[0] === 'data') last[1] += chunk.toString('latin1')
        else events.push(['data', chunk.toString('latin1')])
        return true
      },
      end() {},
      fault() {}
    },
    method
  )
  let total = 0
  try {
    for (const piece of pieces) {
      total += parser.read(piece)
      if (parser.done) break
    }
    if (!parser.done && closes) parser.finish()
    events.push([parser.done ? 'done' : 'open', parser.trailers, total, parser.answer.persistent])
  } catch (error) {
    if (!(error instanceof Garbage)) throw error
    events.push(['garbage'])
  }
  return events
}

/** Cuts where the sorted numbers say. */
function cut(bytes: Buffer, at: readonly number[]): Buffer[] {
  const places = [...new Set(at.map(each => each % (bytes.length + 1)))].sort((a, b) => a - b)
  return [0, ...places].map((from, i) => bytes.subarray(from, places[i] ?? bytes.length))
}

const cuts = fc.array(fc.nat(100_000), { maxLength: 12 })
const token = fc.stringMatching(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,20}$/)
const value = fc.stringMatching(/^(?:[!-~\xa1-\xff](?:[\t -~\xa1-\xff]{0,30}[!-~\xa1-\xff])?)?$/)
const fields = fc.array(
  fc.tuple(
    token.filter(name => !/^(?:content-length|transfer-encoding|connection|keep-alive)$/i.test(name)),
    value
  ),
  { maxLength: 6 }
)
const lines = (pairs: readonly (readonly [string, string])[]) =>
  pairs.map(([name, each]) => `${name}: ${each}\r\n`).join('')
const body = fc.array(fc.string({ unit: 'binary-ascii', minLength: 1, maxLength: 300 }), { maxLength: 5 })
const status = fc.integer({ min: 200, max: 999 }).filter(each => each !== 204 && each !== 304)

/** An answer as bytes, with what must be heard of it. */
const answer = fc
  .record({
    informations: fc.array(fc.tuple(fc.integer({ min: 102, max: 199 }), fields), { maxLength: 2 }),
    status,
    reason: value,
    fields,
    body,
    framing: fc.constantFrom('length', 'chunked', 'close'),
    extension: fc.constantFrom('', ';a', ';a="b c";d=e'),
    trailers: fields
  })
  .map(({ informations, status, reason, fields, body, framing, extension, trailers }) => {
    const whole = body.join('')
    const events: Event[] = informations.map(([each, pairs]) => ['information', each, pairs.flat()])
    let text = informations.map(([each, pairs]) => `HTTP/1.1 ${each} \r\n${lines(pairs)}\r\n`).join('')
    const framed: [string, string][] =
      framing === 'length'
        ? [['Content-Length', `${whole.length}`]]
        : framing === 'chunked'
          ? [['Transfer-Encoding', 'chunked']]
          : []
    text += `HTTP/1.1 ${status} ${reason}\r\n${lines(fields)}${lines(framed)}\r\n`
    events.push(['head', status, reason, [...fields, ...framed].flat()])
    if (whole !== '') events.push(['data', whole])
    if (framing === 'chunked') {
      for (const chunk of body) text += `${chunk.length.toString(16)}${extension}\r\n${chunk}\r\n`
      text += `0${extension}\r\n${lines(trailers)}\r\n`
    } else text += whole
    const heard = framing === 'chunked' && trailers.length > 0 ? trailers.flat() : null
    events.push(['done', heard, text.length, framing !== 'close'])
    return { bytes: Buffer.from(text, 'latin1'), events, closes: framing === 'close' }
  })

t.test('an answer is heard as it was made, however it is cut', async () => {
  fc.assert(
    fc.property(answer, cuts, ({ bytes, events, closes }, at) => {
      assert.deepStrictEqual(read(cut(bytes, at), 'GET', closes), events)
    }),
    { numRuns: 300 }
  )
})

t.test('bytes behind an answer are left where they are, however it is cut', async () => {
  fc.assert(
    fc.property(
      answer.filter(({ closes }) => !closes),
      fc.string({ minLength: 1 }),
      cuts,
      ({ bytes, events }, more, at) => {
        assert.deepStrictEqual(read(cut(Buffer.concat([bytes, Buffer.from(more)]), at), 'GET', false), events)
      }
    ),
    { numRuns: 200 }
  )
})

t.test('an answer with any bytes changed is read the same way, however it is cut, and never crashes', async () => {
  const change = fc.tuple(fc.nat(100_000), fc.oneof(fc.constantFrom(0, 9, 10, 13, 32, 48, 58, 59), fc.nat(255)))
  fc.assert(
    fc.property(answer, fc.array(change, { minLength: 1, maxLength: 3 }), cuts, ({ bytes, closes }, changes, at) => {
      const changed = Buffer.from(bytes)
      for (const [place, code] of changes) changed[place % changed.length] = code
      assert.deepStrictEqual(read(cut(changed, at), 'GET', closes), read([changed], 'GET', closes))
    }),
    { numRuns: 1_000 }
  )
})

t.test('good and bad answers are told apart in whole and byte by byte', async t => {
  const bytewise = (bytes: Buffer) => Array.from(bytes, (_, i) => bytes.subarray(i, i + 1))
  for (const [name, text, { method = 'GET', closes = false }] of goodAnswers) {
    const bytes = Buffer.from(text, 'latin1')
    const events = read([bytes], method, closes)
    t.equal(events.at(-1)![0], 'done', name)
    t.strictSame(read(bytewise(bytes), method, closes), events, name)
  }
  for (const [name, text] of badAnswers) {
    const bytes = Buffer.from(text, 'latin1')
    t.equal(read([bytes], 'GET', false).at(-1)![0], 'garbage', name)
    t.equal(read(bytewise(bytes), 'GET', false).at(-1)![0], 'garbage', name)
  }
})

t.test('a head may have as many bytes as the bound says and none more, however it is cut', async t => {
  const start = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: '
  for (const over of [0, 1]) {
    const bytes = Buffer.from(`${start}${'a'.repeat(MOST_HEAD_BYTES - start.length - 2 + over)}\r\n\r\n`)
    for (const back of [0, 1, 2, 3, 4, 5, 1_000]) {
      const events = read([bytes.subarray(0, bytes.length - back), bytes.subarray(bytes.length - back)], 'GET', false)
      t.equal(events.at(-1)![0], over === 0 ? 'done' : 'garbage', `${over} over, cut ${back} before the end`)
    }
  }
})
