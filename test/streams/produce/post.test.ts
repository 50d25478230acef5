import { once } from 'node:events'
import { request } from 'node:http'
import { connect } from 'node:net'
import t from 'tap'
import { Budget } from '../../../streams/budget.ts'
import type { Message } from '../../../streams/message.ts'
import { type Reason, Undelivered } from '../../../streams/undelivered.ts'
import { front, type Said, until } from './front.ts'
import { made, type Wanted } from './sink.ts'

type Test = Parameters<typeof front>[0]

async function serving(t: Test, want: Wanted = {}, said: Said = {}) {
  const all = made(want)
  const server = await front(t, call => all.producer.post(call), { ...said, at: all.clock.now })
  const post = (body: string | Buffer, headers: Record<string, string> = {}) =>
    fetch(`${server.url}/post`, { method: 'POST', body, headers })
  return { ...all, server, post }
}

/** As it stands in a text of the options. */
const expression = (source: string) => `\${! ${source} }`

const header = (message: Message, name: string) =>
  message.headers.filter(([one]) => one === name).map(([, value]) => value.toString('latin1'))

t.test('a body becomes one message, and 200 without a body follows its delivery', async t => {
  const { post, sink, producer, clock, budget } = await serving(t)
  const bodies = [Buffer.from('{"a":1}'), Buffer.alloc(0), Buffer.alloc(900_000, 1), Buffer.from([0, 255, 13, 10])]
  for (const body of bodies) {
    const answer = await post(body, { 'Content-Type': 'application/json' })
    t.equal(answer.status, 200)
    t.equal(await answer.text(), '')
  }
  t.same(
    sink.messages.map(({ value }) => value),
    bodies
  )
  t.equal(sink.messages[0]!.key, null)
  t.equal(sink.deadlines[0], clock.now() + 5000)
  t.equal(producer.produced(), 4)
  t.equal(budget.used, 0)
})

t.test('headers on the list go along, credentials and those of the connection never', async t => {
  const allow = ['X-Mine', 'authorization', 'cookie', 'proxy-authorization', 'x-key', 'te', 'host', 'x-hop', 'X-Not']
  const { server, sink } = await serving(
    t,
    { options: { headers: { allow, deny: ['x-not'] } } },
    { secretHeaders: ['x-key'] }
  )
  const outgoing = request(`${server.url}/post`, {
    method: 'POST',
    headers: {
      'Content-Type': 'text/plain',
      'X-Mine': ['one', 'two'],
      Authorization: 'Bearer s',
      Cookie: 'a=b',
      'Proxy-Authorization': 'x',
      'X-Key': 'secret',
      TE: 'trailers',
      'X-Hop': 'h',
      'X-Not': 'n',
      'X-Other': 'o',
      'X-Request-Id': 'r1',
      traceparent: '00-a-b-01',
      Connection: 'close, X-Hop'
    }
  })
  outgoing.end('x')
  const [answer] = await once(outgoing, 'response')
  t.equal(answer.statusCode, 200)
  t.same(
    sink.messages[0]!.headers.map(([name, value]) => `${name}: ${value}`),
    ['content-type: text/plain', 'x-mine: one', 'x-mine: two', 'x-request-id: r1', 'traceparent: 00-a-b-01']
  )
})

t.test('each part of a multipart body and each line of NDJSON is a message of its own', async t => {
  const { server, post, sink } = await serving(t)
  const form = new FormData()
  form.set('a', 'text')
  form.set('b', new Blob(['{"x":1}'], { type: 'application/json' }), 'b.json')
  t.equal((await fetch(`${server.url}/post`, { method: 'POST', body: form })).status, 200)
  t.same(
    sink.messages.map(({ value }) => String(value)),
    ['text', '{"x":1}']
  )
  t.same(
    sink.messages.map(message => header(message, 'content-type')),
    [[], ['application/json']]
  )
  sink.messages.length = 0
  t.equal((await post('{"a":1}\n\n{"a":2}\r\n  \n{"a":3}', { 'Content-Type': 'application/x-ndjson' })).status, 200)
  t.same(
    sink.messages.map(({ value }) => String(value)),
    ['{"a":1}', '{"a":2}', '{"a":3}']
  )
  t.same(header(sink.messages[0]!, 'content-type'), ['application/json'])
  t.equal(sink.calls.length, 2, 'one request is one call')
})

t.test('what cannot be taken is refused with the status that says why, and nothing is sent', async t => {
  const cases: [want: Wanted, body: string, headers: Record<string, string>, status: number, code: string][] = [
    [{ options: { max_body: 10 } }, 'x'.repeat(11), {}, 413, 'body_too_large'],
    [{ options: { content_types: ['application/json'] } }, 'x', { 'Content-Type': 'text/xml' }, 415, 'media_type'],
    [{ options: { content_types: ['application/json'] } }, 'x', { 'Content-Type': '' }, 415, 'media_type'],
    [{}, 'x', { 'Content-Encoding': 'gzip' }, 415, 'media_type'],
    [{}, 'x', { 'Content-Type': 'multipart/mixed' }, 400, 'bad_request'],
    [{}, 'x', { 'Content-Type': 'multipart/mixed; boundary=b' }, 400, 'bad_request'],
    [{}, '\n\n', { 'Content-Type': 'application/x-ndjson' }, 400, 'bad_request'],
    [{}, 'x\n'.repeat(10_001), { 'Content-Type': 'application/x-ndjson' }, 413, 'body_too_large'],
    [{ options: { key: expression('value.id') } }, 'no json', {}, 422, 'message_invalid'],
    [{}, 'x', { 'Idempotency-Key': 'k'.repeat(257) }, 400, 'idempotency_key'],
    [{}, 'x', { 'Idempotency-Key': '' }, 400, 'idempotency_key'],
    [{ budget: new Budget(0) }, 'x', {}, 503, 'stream_budget']
  ]
  for (const [want, body, headers, status, code] of cases) {
    const { post, sink, server } = await serving(t, want)
    const answer = await post(body, { 'Content-Type': 'text/plain', ...headers })
    t.equal(answer.status, status, JSON.stringify([want, headers]))
    t.same(server.refused, [code])
    t.equal(sink.messages.length, 0)
  }
})

t.test('parameters and upper case do not keep a type from the list', async t => {
  const { post } = await serving(t, { options: { content_types: ['Application/JSON'] } })
  t.equal((await post('{}', { 'Content-Type': 'application/json; charset=utf-8' })).status, 200)
  t.equal((await post('{}', { 'Content-Type': 'APPLICATION/JSON' })).status, 200)
})

t.test('a body of unknown length that grows too long is refused before its end', async t => {
  const { server, sink, budget } = await serving(t, { options: { max_body: 1000 } })
  const outgoing = request(`${server.url}/post`, { method: 'POST' })
  outgoing.on('error', () => {})
  outgoing.write(Buffer.alloc(600))
  outgoing.write(Buffer.alloc(600))
  const [answer] = await once(outgoing, 'response')
  t.equal(answer.statusCode, 413)
  outgoing.destroy()
  t.equal(sink.messages.length, 0)
  t.equal(budget.used, 0)
})

t.test('a body that comes in many pieces is whole', async t => {
  const { server, sink, budget } = await serving(t, { options: { max_body: 100_000 } })
  for (const headers of [{}, { 'Content-Length': '60000' }]) {
    const outgoing = request(`${server.url}/post`, { method: 'POST', headers })
    for (let i = 0; i < 60; i++) outgoing.write(Buffer.alloc(1000, i))
    outgoing.end()
    const [answer] = await once(outgoing, 'response')
    t.equal(answer.statusCode, 200)
    const { value } = sink.messages.at(-1)!
    t.same(value, Buffer.concat(Array.from({ length: 60 }, (_, i) => Buffer.alloc(1000, i))))
  }
  t.equal(budget.used, 0)
})

t.test('Expect: 100-continue is answered before the body, and a body that is too long is not asked for', async t => {
  const { server, sink } = await serving(t, { options: { max_body: 10 } })
  const outgoing = request(`${server.url}/post`, {
    method: 'POST',
    headers: { Expect: '100-continue', 'Content-Length': 5 }
  })
  outgoing.flushHeaders()
  await once(outgoing, 'continue')
  outgoing.end('hello')
  const [answer] = await once(outgoing, 'response')
  t.equal(answer.statusCode, 200)
  t.equal(sink.messages.length, 1)
  const refused = request(`${server.url}/post`, {
    method: 'POST',
    headers: { Expect: '100-continue', 'Content-Length': 50 }
  })
  refused.on('continue', () => t.fail('it was asked for'))
  refused.on('error', () => {})
  refused.flushHeaders()
  const [no] = await once(refused, 'response')
  t.equal(no.statusCode, 413)
  refused.destroy()
})

t.test('a client that leaves before its body is whole sends nothing; one that leaves after it does', async t => {
  const { server, sink, producer, budget } = await serving(t)
  const socket = connect(server.port, '127.0.0.1')
  socket.write('POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345')
  await until(() => budget.used > 0)
  socket.destroy()
  await until(() => server.closed === 1 && budget.used === 0)
  t.equal(sink.messages.length, 0)

  let deliver = (_: readonly null[]) => {}
  sink.behave = () => new Promise<readonly null[]>(resolve => (deliver = resolve))
  const hasty = connect(server.port, '127.0.0.1')
  hasty.write('POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345')
  await until(() => sink.messages.length === 1)
  hasty.destroy()
  await until(() => server.closed === 2)
  deliver([null])
  await until(() => producer.produced() === 1)
})

t.test('a body that takes too long is refused', async t => {
  const { server, clock } = await serving(t)
  const socket = connect(server.port, '127.0.0.1')
  let got = ''
  socket.on('data', chunk => (got += chunk))
  socket.write('POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345')
  await until(() => server.calls.length === 1)
  await clock.move(30_000)
  t.equal(got, '')
  await clock.move(5_000)
  await until(() => got.startsWith('HTTP/1.1 408'))
  socket.destroy()
})

t.test('why a message did not arrive decides the status; only what the sender can mend is told in words', async t => {
  const cases = [
    ['unavailable', 503, 'broker_unavailable', '1'],
    ['unknown', 504, 'delivery_unknown', null],
    ['busy', 503, 'stream_busy', '1'],
    ['too_large', 413, 'body_too_large', null],
    ['invalid', 422, 'message_invalid', null],
    ['misconfigured', 502, 'broker_refused', null],
    ['failed', 502, 'broker_failed', null]
  ] as const
  for (const [reason, status, code, retry] of cases) {
    const { post, sink, server, log, producer } = await serving(t)
    sink.behave = () => {
      throw new Undelivered(reason, 'kafka-1:9092 said secret')
    }
    const answer = await post('x')
    t.equal(answer.status, status, reason)
    t.same(server.refused, [code])
    t.equal(answer.headers.get('retry-after'), retry)
    t.equal(answer.headers.get('svc-delivery'), reason === 'unknown' ? 'unknown' : null)
    t.equal((await answer.text()).includes('secret'), reason === 'invalid')
    t.equal(log.length, reason === 'invalid' ? 0 : 1)
    t.equal(producer.produced(), 0)
  }
})

t.test('failures are logged once a second, and those in between are counted', async t => {
  const { post, sink, log, clock } = await serving(t)
  sink.behave = () => {
    throw new Undelivered('failed', 'no')
  }
  for (let i = 0; i < 5; i++) await post('x')
  t.equal(log.length, 1)
  await clock.move(1000)
  await post('x')
  t.same(
    log.map(({ fields }) => fields.unsaid),
    [0, 4]
  )
})

t.test('status and headers of the answer are those of the options, and no variable can break them', async t => {
  const { post } = await serving(
    t,
    { options: { sync_response: { status: '201', headers: { 'X-Who': 'it was $svc_context.who', 'X-B': 'b' } } } },
    { variables: { 'svc_context.who': 'me\r\nSet-Cookie: a=b\u0000c' } }
  )
  const answer = await post('x')
  t.equal(answer.status, 201)
  t.equal(answer.headers.get('x-who'), 'it was me  Set-Cookie: a=b c')
  t.equal(answer.headers.get('x-b'), 'b')
  t.equal(answer.headers.get('set-cookie'), null)
})

t.test('the key is made of the message and the request', async t => {
  const options = { key: `$svc_context.user/${expression('value.id')}` }
  const { post, sink } = await serving(t, { options }, { variables: { 'svc_context.user': 'u","x' } })
  t.equal((await post('{"id":5}')).status, 200)
  t.equal(String(sink.messages[0]!.key), 'u","x/5')
  const none = await serving(t, { options: { key: '$svc_context.absent' } })
  t.equal((await none.post('x')).status, 200)
  t.equal(none.sink.messages[0]!.key, null, 'an empty text is no key')
})

t.test('processors change, filter out and reject messages before they are sent', async t => {
  const process = [
    (message: Message) => (String(message.value) === 'drop' ? null : message),
    (message: Message) => {
      if (String(message.value) === 'bad') throw new Undelivered('invalid', 'does not fit: /a')
      return { ...message, value: Buffer.from(`<${message.value}>`) }
    }
  ]
  const { post, sink, server } = await serving(t, { process })
  t.equal((await post('drop')).status, 200)
  t.equal(sink.messages.length, 0)
  t.equal((await post('a')).status, 200)
  const bad = await post('bad')
  t.equal(bad.status, 422)
  t.match(await bad.text(), 'does not fit: /a')
  t.equal((await post('a\nbad\n', { 'Content-Type': 'application/x-ndjson' })).status, 422, 'all or none')
  t.same(
    sink.messages.map(({ value }) => String(value)),
    ['<a>']
  )
  t.same(server.refused, ['message_invalid', 'message_invalid'])
})

t.test('a client that wants records is told where its messages went', async t => {
  const process = [
    (message: Message) => {
      if (String(message.value) === 'bad') throw new Undelivered('invalid', 'does not fit')
      return String(message.value) === 'drop' ? null : message
    }
  ]
  const { post, sink } = await serving(t, {
    options: { return: 'record', sync_response: { headers: { 'content-type': 'text/plain', 'x-a': 'b' } } },
    process
  })
  const ndjson = { 'Content-Type': 'application/x-ndjson' }
  const place = { topic: 't', partition: 1, offset: 7, timestamp: 1000 }
  sink.behave = ([message]) => {
    if (String(message!.value) === 'big') throw new Undelivered('too_large', 'no')
    if (String(message!.value) === 'lost') throw new Undelivered('unknown', 'no')
    return [place]
  }
  const cases: [body: string, headers: Record<string, string>, status: number, told: unknown][] = [
    ['x', {}, 200, place],
    ['drop', {}, 200, { filtered: true }],
    ['a\nb', ndjson, 200, [place, place]],
    ['a', ndjson, 200, [place]],
    ['a\ndrop', ndjson, 200, [place, { filtered: true }]],
    ['bad\na', ndjson, 422, [{ error: { code: 'message_invalid', message: 'does not fit' } }, place]],
    [
      'a\nbig\nbad',
      ndjson,
      413,
      [place, { error: { code: 'body_too_large' } }, { error: { code: 'message_invalid' } }]
    ],
    ['lost\nbig', ndjson, 504, [{ error: { code: 'delivery_unknown' } }, { error: { code: 'body_too_large' } }]]
  ]
  for (const [body, headers, status, told] of cases) {
    const answer = await post(body, headers)
    t.equal(answer.status, status, body)
    t.equal(answer.headers.get('content-type'), 'application/json')
    t.equal(answer.headers.get('x-a'), 'b')
    t.equal(answer.headers.get('svc-delivery'), status === 504 ? 'unknown' : null)
    t.match(await answer.json(), told, body)
  }
})

t.test('async answers 202 before the delivery, unless it fails at once', async t => {
  const { post, sink, log, producer } = await serving(t, { options: { async: true, return: 'record' } })
  let fail = (_: Error) => {}
  sink.behave = () => new Promise((_, reject) => (fail = reject))
  const answer = await post('x')
  t.equal(answer.status, 202)
  t.equal(await answer.text(), '')
  fail(new Undelivered('unknown', 'late'))
  await until(() => log.length === 1)
  sink.behave = () => {
    throw new Undelivered('busy', 'full')
  }
  t.equal((await post('x')).status, 503)
  t.equal(producer.produced(), 0)
})

t.test('a repeat with the same idempotency key gets the first answer and sends nothing', async t => {
  const { post, sink, clock } = await serving(t, { options: { return: 'record' } }, { key: 'k1' })
  const once = await post('x', { 'Idempotency-Key': 'a' })
  const first = await once.text()
  t.equal(once.headers.get('svc-idempotent-replay'), null)
  const again = await post('x', { 'Idempotency-Key': 'a' })
  t.equal(again.status, 200)
  t.equal(again.headers.get('svc-idempotent-replay'), 'true')
  t.equal(await again.text(), first)
  t.equal(sink.messages.length, 1)
  t.same(header(sink.messages[0]!, 'idempotency-key'), ['a'])
  t.equal((await post('y', { 'Idempotency-Key': 'a' })).status, 422, 'another body')
  t.equal((await post('x', { 'Idempotency-Key': 'b' })).status, 200)
  t.equal(sink.messages.length, 2)
  await clock.move(600_000)
  t.equal((await post('y', { 'Idempotency-Key': 'a' })).status, 200, 'forgotten')
})

t.test('repeats that come while the first is under way wait for it', async t => {
  const { post, sink, server } = await serving(t)
  const waiting: { resolve: (to: null[]) => void; reject: (error: Error) => void }[] = []
  sink.behave = () => new Promise((resolve, reject) => waiting.push({ resolve, reject }))
  const three = [1, 2, 3].map(() => post('x', { 'Idempotency-Key': 'a' }))
  await until(() => server.calls.length === 3 && waiting.length === 1)
  waiting[0]!.resolve([null])
  const answers = await Promise.all(three)
  t.same(
    answers.map(({ status }) => status),
    [200, 200, 200]
  )
  t.equal(answers.filter(({ headers }) => headers.has('svc-idempotent-replay')).length, 2)
  t.equal(sink.messages.length, 1)

  const two = [1, 2].map(() => post('y', { 'Idempotency-Key': 'b' }))
  await until(() => server.calls.length === 5 && waiting.length === 2)
  waiting[1]!.reject(new Undelivered('unavailable', 'down'))
  await until(() => waiting.length === 3)
  waiting[2]!.resolve([null])
  t.same((await Promise.all(two)).map(({ status }) => status).sort(), [200, 503], 'what is not final is tried again')
})

t.test('what would be the same again is remembered, what may pass is not', async t => {
  const cases = [
    ['unavailable', false],
    ['unknown', false],
    ['busy', false],
    ['failed', false],
    ['too_large', true],
    ['invalid', true]
  ] as const
  for (const [reason, isRemembered] of cases) {
    const { post, sink } = await serving(t)
    sink.behave = () => {
      throw new Undelivered(reason, 'no')
    }
    await post('x', { 'Idempotency-Key': 'a' })
    const again = await post('x', { 'Idempotency-Key': 'a' })
    t.equal(again.headers.has('svc-idempotent-replay'), isRemembered, reason)
    t.equal(sink.messages.length, isRemembered ? 1 : 2)
  }
})

t.test('each message of a repeated request has an idempotency key of its own', async t => {
  const { post, sink } = await serving(t)
  await post('a\nb', { 'Content-Type': 'application/x-ndjson', 'Idempotency-Key': 'k' })
  t.same(
    sink.messages.map(message => header(message, 'idempotency-key')),
    [['k#0'], ['k#1']]
  )
})

t.test('a repeat of a request that arrived in part sends what is missing, and tells of all', async t => {
  const { post, sink, producer } = await serving(t, { options: { return: 'record' } })
  const headers = { 'Content-Type': 'application/x-ndjson', 'Idempotency-Key': 'k' }
  const bad = new Map<string, Reason>([
    ['b', 'unavailable'],
    ['c', 'too_large'],
    ['d', 'busy']
  ])
  let offset = 0
  sink.behave = ([one]) => {
    const reason = bad.get(String(one!.value))
    if (reason !== undefined) throw new Undelivered(reason, 'no')
    return [{ topic: 't', partition: 0, offset: offset++, timestamp: 1 }]
  }
  const sent = () => sink.messages.splice(0).map(({ value }) => String(value))
  t.equal((await post('a\nb\nc\nd\ne', headers)).status, 503)
  t.same(sent(), ['a', 'b', 'c', 'd', 'e'])
  t.equal((await post('a\nb', headers)).status, 422, 'another request')
  bad.delete('b')
  t.equal((await post('a\nb\nc\nd\ne', headers)).status, 503)
  t.same(sent(), ['b', 'd'])
  bad.delete('d')
  const last = await post('a\nb\nc\nd\ne', headers)
  t.same(sent(), ['d'])
  t.equal(last.status, 413)
  t.match(await last.json(), [
    { offset: 0 },
    { offset: 2 },
    { error: { code: 'body_too_large' } },
    { offset: 3 },
    { offset: 1 }
  ])
  t.equal(producer.produced(), 4)
  const again = await post('a\nb\nc\nd\ne', headers)
  t.equal(again.headers.get('svc-idempotent-replay'), 'true')
  t.same(sent(), [])
})

t.test('what another side says of a message stands in the log alone', async t => {
  const { post, sink, log } = await serving(t)
  sink.behave = () => {
    throw new Undelivered('invalid', 'kafka://secret: INVALID_RECORD', { isForeign: true })
  }
  const answer = await post('x')
  t.equal(answer.status, 422)
  t.same(await answer.json(), { error: 'the message was refused' })
  t.match(log, [{ fields: { cause: /INVALID_RECORD/ } }])
  sink.behave = () => {
    throw new Undelivered('rejected', 'answered 410')
  }
  t.equal((await post('x')).status, 502)
})

t.test('the name of that header is an option, and empty there is none', async t => {
  const own = await serving(t, { options: { idempotency_header: 'X-Once' } })
  await own.post('x', { 'X-Once': '1' })
  await own.post('x', { 'X-Once': '1', 'Idempotency-Key': '2' })
  t.equal(own.sink.messages.length, 1)
  const none = await serving(t, { options: { idempotency_header: '' } })
  await none.post('x', { 'Idempotency-Key': '1' })
  await none.post('x', { 'Idempotency-Key': '1' })
  t.equal(none.sink.messages.length, 2)
})

t.test('a producer that closes lets what is under way end, refuses new ones and gives late bodies up', async t => {
  const { post, sink, producer, server, clock } = await serving(t)
  let deliver = (_: readonly null[]) => {}
  sink.behave = () => new Promise<readonly null[]>(resolve => (deliver = resolve))
  const underWay = post('x')
  await until(() => sink.messages.length === 1)
  const late = request(`${server.url}/post`, { method: 'POST' })
  late.on('error', () => {})
  late.write('part')
  await until(() => server.calls.length === 2)
  let isClosed = false
  const closed = producer.close('stopping', 0).then(() => (isClosed = true))
  const refused = await post('y')
  t.equal(refused.status, 503)
  t.equal(refused.headers.get('retry-after'), '1')
  await clock.move(1000)
  t.equal((await once(late, 'response'))[0].statusCode, 503)
  t.notOk(isClosed)
  deliver([null])
  t.equal((await underWay).status, 200)
  await closed
  t.equal(sink.messages.length, 1)
  late.destroy()
})
