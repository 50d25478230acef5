import { randomBytes } from 'node:crypto'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type IHeaders, Kafka, logLevel } from 'kafkajs'
import t from 'tap'
import { gateway, rights, withKey } from '../helpers/gateway.ts'
import { kafka } from '../helpers/kafka.ts'
import { post, sse, statusOf, streamApi, streamsOn, until, webSocket } from '../helpers/streamClients.ts'

/*
 * What streams must do, seen from outside, through the whole gateway. The list, and where each point is held against it:
 *
 *  1 a POST is a record                 here: a POST is answered 200 and empty, and is a record without credentials
 *  2 the broker is away                 faults.slow: a broker that is away from the start …; … is killed under produce and consume …; … that hangs …
 *  3 server-sent events                 here: an event source opens at once and gets any payload as it went in
 *  4 in turn                            here: messages of a group go round idle clients …; faults.slow: a client that stops reading …
 *  5 two gateways of one group          gateways.slow: partitions go to the gateway that has clients, and come back
 *  6 nobody listens                     here: while nobody listens nothing is committed, and the first client gets the next message
 *  7 going on in a broadcast            here: a client of a broadcast gets whatever …; a broadcast goes on in the window, out of Kafka, and with a gap …; gateways.slow: … over a restart …
 *  8 slow readers                       here: a client that reads nothing meets the policy, and memory stays bounded
 *  9 drain                              gateways.slow: a gateway that stops under load commits and leaves …; … 1,000 clients are sent away in turn …
 * 10 reload                             here: a reload ends the connections of changed and disabled streams alone
 * 11 records and logs that are wrong    faults.slow: poison …; history that is gone …; a partition that is added …; … is killed … (leader, coordinator)
 * 12 paths                              here: paths that are not declared are not there, and placeholders are; streams: paths that no stream has …
 * 13 variables                          here: what a request says is data wherever it gets to
 * 14 keys, rates, quotas                here: a key that expires …; a connection counts once …; a quota of messages …; streams: keys, rates and quotas …
 * 15 WebSockets                         here: WebSockets are closed with the code that says why
 */

t.setTimeout(90_000)
const server = await kafka(t)
const brokers = { addresses: server.brokers }
const memory = { addresses: ['memory://acceptance'] }

/** An expression as options write it. */
const cel = (expression: string) => `\${! ${expression} }`

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

interface Record {
  readonly partition: number
  readonly key: string | undefined
  readonly value: string
  readonly headers: IHeaders
}

const kafkajs = new Kafka({ brokers: [...server.brokers], logLevel: logLevel.NOTHING })

/** So many records of a topic, as a client that is not ours reads them. */
async function records(topic: string, count: number): Promise<Record[]> {
  const consumer = kafkajs.consumer({ groupId: randomBytes(8).toString('hex'), maxWaitTimeInMs: 100 })
  const found: Record[] = []
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    eachMessage: async ({ partition, message: { key, value, headers = {} } }) =>
      void found.push({ partition, key: key?.toString(), value: String(value), headers })
  })
  await until(() => found.length >= count, `${count} records of ${topic}`)
  await consumer.disconnect()
  return found
}

/** A topic behind `/ID/in` and `/ID/poll`, `/ID/sse`, `/ID/ws`. */
function feed(
  id: string,
  given: { via?: object; topic?: string; input?: object; to?: object; from?: object; output?: object; server?: object }
) {
  const { via = memory, topic = id, input, to, from, output, server } = given
  return streamApi(
    id,
    {
      in: {
        input: { http_server: { path: '/in', ws_path: '/in/ws', ...input } },
        output: { kafka: { ...via, topic, ...to } }
      },
      out: {
        input: { kafka: { ...via, topics: [topic], consumer_group: id, commit_period: '100ms', ...from } },
        output: { http_server: { path: '/poll', stream_path: '/sse', ws_path: '/ws', ...output } }
      }
    },
    server === undefined ? {} : { server }
  )
}

t.test('a POST is answered 200 and empty, and is a record without credentials', async t => {
  const topic = await server.topic('posted', 5)
  const api = feed('posted', {
    via: brokers,
    topic,
    input: { key: cel('value.customer'), headers: { allow: ['x-tenant'] } },
    to: { partitioner: 'murmur2_hash' },
    server: withKey
  })
  const gw = await gateway(t, { settings: streamsOn(), apis: [api] })
  const key = await gw.key(rights('posted'))
  const producer = kafkajs.producer()
  await producer.connect()
  const customers = ['ann', 'bob', 'cem', 'dag']
  for (const customer of customers) {
    const answer = await post(gw, '/posted/in', JSON.stringify({ customer }), {
      Authorization: key,
      Cookie: 'session=hidden',
      'Content-Type': 'application/json',
      'X-Tenant': 'north',
      'X-Other': 'stays here'
    })
    t.equal(answer.status, 200)
    t.equal(await answer.text(), '')
    await producer.send({ topic, messages: [{ key: customer, value: 'theirs' }] })
  }
  await producer.disconnect()
  const all = await records(topic, 2 * customers.length)
  t.equal(all.length, 2 * customers.length)
  for (const customer of customers) {
    const [ours, theirs] = all.filter(({ key }) => key === customer)
    t.equal(ours!.value, JSON.stringify({ customer }))
    t.equal(ours!.partition, theirs!.partition, 'where a client of Kafka puts this key')
    t.same(Object.keys(ours!.headers).sort(), ['content-type', 'x-tenant'])
    t.equal(String(ours!.headers['x-tenant']), 'north')
  }
})

t.test('an event source opens at once and gets any payload as it went in', async t => {
  const api = feed('any', {
    input: { max_body: '2MiB' },
    to: { max_msg_bytes: '2MiB' },
    output: { mode: 'broadcast' }
  })
  const gw = await gateway(t, { settings: streamsOn(), apis: [api] })
  const client = await sse(t, gw, '/any/sse')
  await until(() => client.retry !== null, 'the head and the first hint, without any message')
  const payloads = [
    'plain',
    'two\nlines',
    'carriage\rreturn',
    'both\r\nof them\r\n',
    '',
    ' with spaces ',
    'x\n\nid: 7\nevent: forged\ndata: y\n\n',
    'nul \0 and ümläut €',
    randomBytes(512 * 1024).toString('hex')
  ]
  for (const payload of payloads) t.equal((await post(gw, '/any/in', payload)).status, 200)
  const binary = Buffer.of(0xff, 0xfe, 0)
  t.equal((await post(gw, '/any/in', new Uint8Array(binary))).status, 200)
  await until(() => client.events.length > payloads.length, 'all events')
  for (const [i, payload] of payloads.entries()) {
    t.ok(client.events[i]!.data === payload.replace(/\r\n?/g, '\n'), JSON.stringify(payload.slice(0, 40)))
    t.equal(client.events[i]!.event, undefined)
  }
  t.match(client.events.at(-1), { event: 'binary', data: binary.toString('base64') })
  t.equal(new Set(client.events.map(({ id }) => id)).size, payloads.length + 1, 'ids are our own, one each')
})

t.test('messages of a group go round idle clients, each once, in the order of their partitions', async t => {
  const topic = await server.topic('round', 2)
  const api = feed('round', { via: brokers, topic, to: { partitioner: 'round_robin' }, output: { envelope: true } })
  const gw = await gateway(t, { settings: streamsOn(), apis: [api] })
  const clients = await Promise.all(Array.from({ length: 6 }, () => sse(t, gw, '/round/sse')))
  const got = () => clients.map(({ events }) => events.map(({ data }) => JSON.parse(data)))
  const sent: string[] = []
  // One by one, so that all are idle at each, and then many at once.
  for (const [from, to] of [
    [0, 1],
    [1, 2],
    [2, 3],
    [3, 63]
  ] as const) {
    const values = Array.from({ length: to - from }, (_, i) => `m${from + i}`)
    sent.push(...values)
    for (const { status } of await Promise.all(values.map(value => post(gw, '/round/in', value)))) t.equal(status, 200)
    await until(() => got().flat().length >= sent.length, `${sent.length} messages`)
    const counts = got().map(({ length }) => length)
    t.ok(Math.max(...counts) - Math.min(...counts) <= 1, `${counts}`)
  }
  t.same(
    got()
      .flat()
      .map(({ value }) => value)
      .sort(),
    sent.toSorted()
  )
  for (const each of got())
    for (const partition of [0, 1]) {
      const offsets: number[] = each.filter(one => one.partition === partition).map(({ offset }) => offset)
      t.same(
        offsets,
        offsets.toSorted((a, b) => a - b)
      )
    }
})

t.test('while nobody listens nothing is committed, and the first client gets the next message', async t => {
  const topic = await server.topic('alone')
  const gw = await gateway(t, { settings: streamsOn(), apis: [feed('alone', { via: brokers, topic })] })
  const committed = async () => {
    const [found] = await (await server.admin()).fetchOffsets({ groupId: 'alone', topics: [topic] })
    return Number(found!.partitions[0]!.offset)
  }
  const first = await sse(t, gw, '/alone/sse')
  for (const value of ['a', 'b']) await post(gw, '/alone/in', value)
  t.same(await first.until(2), ['a', 'b'])
  first.stop()
  await until(async () => (await statusOf(gw, 'out')).state === 'idle', 'the group is left')
  t.equal(await committed(), 2)
  const { groups } = await (await server.admin()).describeGroups(['alone'])
  t.match(groups, [{ state: 'Empty', members: [] }])
  for (const value of ['c', 'd', 'e']) await post(gw, '/alone/in', value)
  t.equal(await committed(), 2)
  const next = await sse(t, gw, '/alone/sse')
  t.same(await next.until(3), ['c', 'd', 'e'])
  await until(async () => (await committed()) === 5, 'they are committed')
})

t.test('a client of a broadcast gets whatever is acknowledged once it is connected, the first one too', async t => {
  const names = await Promise.all(Array.from({ length: 10 }, (_, i) => server.topic(`begin${i}`)))
  const apis = names.map(name => feed(name, { via: brokers, output: { mode: 'broadcast' } }))
  const gw = await gateway(t, { settings: streamsOn(), apis })
  for (const name of names) {
    t.equal((await post(gw, `/${name}/in`, 'before')).status, 200)
    const client = await sse(t, gw, `/${name}/sse`)
    for (const value of ['first', 'second', 'third']) await post(gw, `/${name}/in`, value)
    await until(() => client.texts().includes('third'), 'the newest')
    t.same(client.texts(), ['first', 'second', 'third'], name)
  }
})

t.test('a broadcast goes on in the window, out of Kafka, and with a gap where history is gone', async t => {
  const topic = await server.topic('again')
  const api = feed('again', {
    via: brokers,
    topic,
    output: { mode: 'broadcast', replay_window: { messages: 5 }, client_queue: { messages: 5 } }
  })
  const gw = await gateway(t, { settings: streamsOn(), apis: [api] })
  let sent = 0
  const send = async (count: number) => {
    const values = Array.from({ length: count }, () => `m${sent++}`)
    t.equal((await post(gw, '/again/in', values.join('\n'), { 'Content-Type': 'application/x-ndjson' })).status, 200)
    return values
  }
  const watcher = await sse(t, gw, '/again/sse')
  await until(async () => (await statusOf(gw, 'out')).state === 'active', 'it is read')
  const back = async (from: { readonly lastId: string }) => {
    await watcher.until(sent)
    return sse(t, gw, '/again/sse', { 'Last-Event-ID': from.lastId })
  }
  let client = await sse(t, gw, '/again/sse')
  t.same(await client.until(0), [])
  const first = await send(3)
  t.same(await client.until(3), first)
  for (const [count, where] of [
    [4, 'in the window'],
    [50, 'out of Kafka']
  ] as const) {
    client.stop()
    const missed = await send(count)
    client = await back(client)
    t.same(await client.until(count), missed, where)
    const live = await send(1)
    t.same(await client.until(count + 1), [...missed, ...live], `${where}, and then what comes`)
  }
  client.stop()
  const missed = await send(30)
  await server.truncate(topic, 0, sent - 2)
  client = await back(client)
  await until(() => client.texts().includes(missed.at(-1)!), 'the last message')
  const rest = client.texts()
  t.same(rest, missed.slice(-rest.length))
  t.match(client.events[0], { event: 'svc-gap' })
  t.same(JSON.parse(client.events[0]!.data), { missed: missed.length - rest.length })
  t.equal(client.events.length, rest.length + 1)
})

t.test('a client that reads nothing meets the policy, and memory stays bounded', async t => {
  const apis = (['disconnect', 'drop_oldest', 'latest_by_key'] as const).map(policy =>
    feed(policy, {
      input: { key: cel('value.key') },
      output: { mode: 'broadcast', replay_window: { messages: 10 }, client_queue: { messages: 10, policy } }
    })
  )
  const gw = await gateway(t, { settings: streamsOn({ memory: { retention_bytes: 1_000_000 } }), apis })
  const padding = 'x'.repeat(200_000)
  /** Listeners, the second of which reads nothing until 40 MB have gone by. */
  async function flood(policy: string) {
    const reader = await sse(t, gw, `/${policy}/sse`)
    const slow = await sse(t, gw, `/${policy}/sse`)
    slow.pause()
    collect()
    const before = process.memoryUsage().arrayBuffers
    for (let i = 0; i < 200; i++) {
      const body = JSON.stringify({ key: `k${i % 4}`, i, padding })
      t.equal((await post(gw, `/${policy}/in`, body)).status, 200)
      // It shall keep up: a few are less than its queue.
      if (i % 5 === 4) await reader.until(i + 1)
    }
    const held = () => {
      collect()
      return process.memoryUsage().arrayBuffers - before
    }
    // Node lets go of buffers a little later than of what held them.
    await until(() => held() < 15_000_000, `of 40 MB little is held: ${held()} bytes`)
    const numbers = () => slow.texts().map(data => JSON.parse(data).i as number)
    return { slow, numbers }
  }
  const ends = await flood('disconnect')
  const isCut = () => gw.log.lines.some(({ api_id, reason }) => api_id === 'disconnect' && reason === 'slow')
  // A burst alone makes nobody slow: it is who takes nothing for a second while more comes.
  await until(async () => {
    await post(gw, '/disconnect/in', JSON.stringify({ key: 'k', i: 200 }))
    return isCut()
  }, 'slow')
  ends.slow.resume()
  await ends.slow.ended
  t.ok(ends.numbers().length < 200)

  const drops = await flood('drop_oldest')
  drops.slow.resume()
  await until(() => drops.numbers().at(-1) === 199, 'the newest')
  const gaps = drops.slow.events.filter(({ event }) => event === 'svc-gap').map(({ data }) => JSON.parse(data).missed)
  t.equal(gaps.reduce((sum, count) => sum + count, 0) + drops.numbers().length, 200, 'all that is missing is told')
  t.ok(gaps.length > 0)

  const latest = await flood('latest_by_key')
  latest.slow.resume()
  await until(() => latest.numbers().at(-1) === 199, 'the newest')
  t.same(latest.numbers().slice(-4), [196, 197, 198, 199], 'of each key the latest')
  t.ok(latest.numbers().length < 200)
  for (const { numbers } of [ends, drops, latest])
    t.same(
      numbers(),
      numbers().toSorted((a, b) => a - b)
    )
})

t.test('a reload ends the connections of changed and disabled streams alone', async t => {
  const gw = await gateway(t, { settings: streamsOn(), apis: [feed('kept', {}), feed('other', {})] })
  const kept = await Promise.all([0, 1, 2].map(() => sse(t, gw, '/kept/sse')))
  const others = await Promise.all([0, 1, 2].map(() => sse(t, gw, '/other/sse')))
  const socket = await webSocket(t, gw, '/other/ws')
  const put = async (api: unknown) => t.equal((await gw.svc('PUT', '/svc/apis/oas/other', api)).status, 200)
  await put(feed('other', { output: { heartbeat: '30s' } }))
  await Promise.all(others.map(({ ended }) => ended))
  for (const { retry, isComplete, events } of others) {
    t.ok(isComplete)
    t.same(events, [])
    t.ok(retry! >= 500 && retry! <= 5_000, `${retry}`)
  }
  t.equal(new Set(others.map(({ retry }) => retry)).size, 3, 'not all at the same time')
  await until(() => socket.closed !== null, 'the WebSocket is closed')
  t.match(socket.closed, { code: 1012 })
  const again = await sse(t, gw, '/other/sse')
  const unseen = await sse(t, gw, '/other/sse')
  const off = feed('other', { output: { heartbeat: '30s' } })
  off['x-svc-api-gateway'].info.state.active = false
  await put(off)
  for (const client of [again, unseen]) {
    await client.ended
    t.match(client.events, [{ event: 'svc-error', data: /"disabled"/ }])
  }
  t.equal((await gw.svc('DELETE', '/svc/apis/oas/other')).status, 200)
  for (const value of ['a', 'b', 'c']) await post(gw, '/kept/in', value)
  await Promise.all(kept.map(client => client.until(1)))
  t.ok(kept.every(({ isComplete }) => !isComplete))
})

t.test('paths that are not declared are not there, and placeholders are', async t => {
  const defaults = streamApi('defaults', {
    in: { input: { http_server: {} }, output: { kafka: { ...memory, topic: 'defaults' } } }
  })
  const held = streamApi('held', {
    in: {
      input: { http_server: { path: '/orders/{id}/events', key: '$svc_context.path_params_id' } },
      output: { kafka: { ...memory, topic: 'held' } }
    },
    out: {
      input: { kafka: { ...memory, topics: ['held'] } },
      output: { http_server: { stream_path: '/orders/{id}', envelope: true } }
    }
  })
  const gw = await gateway(t, { settings: streamsOn(), apis: [defaults, held] })
  for (const [method, path, status, allow] of [
    ['POST', '/defaults/post', 200],
    ['GET', '/defaults/post', 405, 'POST'],
    ['GET', '/defaults/post/ws', 426],
    ['GET', '/defaults/get', 404],
    ['GET', '/defaults/get/stream', 404],
    ['GET', '/held/get/stream', 404],
    ['POST', '/held/post', 404],
    ['POST', '/held/orders/events', 405, 'GET'],
    ['POST', '/held/orders/7/8/events', 404],
    ['POST', '/held/orders/7/events/', 404]
  ] as const) {
    const answer = await fetch(gw.url + path, { method, ...(method === 'POST' ? { body: 'x' } : {}) })
    t.equal(answer.status, status, `${method} ${path}`)
    if (allow !== undefined) t.match(answer.headers.get('allow'), allow)
    if (status === 404) t.same(await answer.json(), { error: 'not found' })
  }
  t.equal((await post(gw, '/held/orders/a-7/events', 'x')).status, 200)
  const client = await sse(t, gw, '/held/orders/any')
  await client.until(1)
  t.match(JSON.parse(client.texts()[0]!), { value: 'x', key: 'a-7' })
})

t.test('what a request says is data wherever it gets to', async t => {
  const api = feed('words', {
    input: { key: '$svc_context.headers_X_Word' },
    to: { static_headers: { word: '$svc_context.headers_X_Word', from: '($svc_context.headers_X_Word)' } },
    from: { consumer_group: 'team-$svc_context.headers_X_Team' },
    output: { envelope: true, headers: ['word', 'from', 'more'] }
  })
  const gw = await gateway(t, { settings: streamsOn(), apis: [api] })
  const words = [
    'a","topic":"elsewhere","x":"',
    'http://127.0.0.1:1/',
    'https://evil.example/?a={}',
    cel('content()'),
    '$svc_context.path',
    '$svc_meta.secret',
    "'); more: 1",
    `env $HOME \${HOME} \${SVC_SECRET}`
  ]
  const client = await sse(t, gw, '/words/sse', { 'X-Team': 'a' })
  for (const word of words) t.equal((await post(gw, '/words/in', 'body', { 'X-Word': word })).status, 200)
  await client.until(words.length)
  for (const [i, word] of words.entries())
    t.match(JSON.parse(client.texts()[i]!), {
      topic: 'words',
      key: word,
      headers: { word, from: `(${word})` },
      value: 'body'
    })
  const other = await sse(t, gw, '/words/sse', { 'X-Team': 'b' })
  t.equal((await other.until(words.length)).length, words.length, 'another team has its own place')
  for (const team of ['a","b', 'a\tb', 'x'.repeat(300)]) {
    const answer = await gw.get('/words/sse', { 'X-Team': team })
    t.equal(answer.status, 400, team.slice(0, 10))
    await answer.text()
  }
})

t.test('a key that expires ends its connections and no others', async t => {
  const gw = await gateway(t, { settings: streamsOn(), apis: [feed('expiry', { server: withKey })] })
  const [short, long] = await Promise.all([
    gw.key({ ...rights('expiry'), expires: Math.floor(Date.now() / 1000) + 2 }),
    gw.key(rights('expiry'))
  ])
  const stays = await sse(t, gw, '/expiry/sse', { Authorization: long })
  const client = await sse(t, gw, '/expiry/sse', { Authorization: short })
  const socket = await webSocket(t, gw, '/expiry/ws', { headers: { Authorization: short } })
  t.same([stays.status, client.status, socket.refused], [200, 200, null])
  await client.ended
  t.match(client.events, [{ event: 'svc-error', data: /"key"/ }])
  await until(() => socket.closed !== null, 'the WebSocket is closed')
  t.match(socket.closed, { code: 1008 })
  t.equal((await sse(t, gw, '/expiry/sse', { Authorization: short })).status >= 400, true)
  await post(gw, '/expiry/in', 'x', { Authorization: long })
  t.same(await stays.until(1), ['x'])
})

t.test('a connection counts once, however much comes over it', async t => {
  const gw = await gateway(t, {
    settings: streamsOn(),
    apis: [feed('once', { server: withKey, output: { mode: 'broadcast' } })]
  })
  const sender = { Authorization: await gw.key(rights('once')) }
  const listener = { Authorization: await gw.key({ ...rights('once'), rate: 3, per: 1000, quota_max: 3 }) }
  const first = await sse(t, gw, '/once/sse', listener)
  const second = await webSocket(t, gw, '/once/ws', { headers: listener })
  for (let i = 0; i < 10; i++) t.equal((await post(gw, '/once/in', `${i}`, sender)).status, 200)
  await first.until(10)
  await until(() => second.frames.length === 10, 'ten frames')
  const third = await sse(t, gw, '/once/sse', listener)
  t.equal(third.status, 200)
  t.equal((await sse(t, gw, '/once/sse', listener)).status, 429)
  t.equal((await webSocket(t, gw, '/once/ws', { headers: listener })).refused, 429)
})

t.test('a quota of messages ends the connection that has used it up', async t => {
  const api = feed('metered', { server: withKey, output: { mode: 'broadcast', count: 'message' } })
  const gw = await gateway(t, { settings: streamsOn(), apis: [api] })
  const sender = { Authorization: await gw.key(rights('metered')) }
  const quota = { ...rights('metered'), quota_max: 6, quota_renewal_rate: 3600 }
  const client = await sse(t, gw, '/metered/sse', { Authorization: await gw.key(quota) })
  const socket = await webSocket(t, gw, '/metered/ws', { headers: { Authorization: await gw.key(quota) } })
  for (let i = 0; i < 12; i++) await post(gw, '/metered/in', `${i}`, sender)
  await client.ended
  await until(() => socket.closed !== null, 'the WebSocket is closed')
  t.match(client.events.at(-1), { event: 'svc-error', data: /"quota"/ })
  t.match(socket.closed, { code: 4429, reason: /"quota"/ })
  for (const texts of [client.texts(), socket.frames]) {
    t.ok(texts.length >= 5 && texts.length <= 6, `${texts.length} of 6, one of which the connection may have taken`)
    t.same(
      texts,
      texts.map((_, i) => `${i}`)
    )
  }
})

t.test('a WebSocket client that answers stays, however short its time is', async t => {
  const api = feed('brisk', { output: { pong_wait: '400ms', ping_period: '100ms', mode: 'broadcast' } })
  const gw = await gateway(t, { settings: streamsOn(), apis: [api] })
  const client = await webSocket(t, gw, '/brisk/ws')
  let pings = 0
  client.socket.on('ping', () => pings++)
  await until(() => pings >= 3 || client.closed !== null, 'three pings')
  t.equal(client.closed, null)
})

t.test('WebSockets are closed with the code that says why', async t => {
  const cookie = feed('cookie', { server: withKey })
  cookie.components.securitySchemes.key = { type: 'apiKey', in: 'cookie', name: 'session' }
  const api = feed('coded', {
    input: { max_body: 100 },
    output: { pong_wait: '1200ms', ping_period: '500ms', mode: 'broadcast' }
  })
  const gw = await gateway(t, { settings: streamsOn(), apis: [api, cookie] })
  const producer = await webSocket(t, gw, '/coded/in/ws')
  const listener = await webSocket(t, gw, '/coded/ws')
  const silent = await webSocket(t, gw, '/coded/ws', { autoPong: false })
  producer.socket.send('x'.repeat(100))
  await until(() => listener.frames.length === 1, 'what is not too long')
  producer.socket.send('x'.repeat(101))
  await until(() => producer.closed !== null, 'the producer is closed')
  t.match(producer.closed, { code: 1009 })
  await until(() => silent.closed !== null, 'the silent one is cut off')
  t.match(silent.closed, { code: 1006 })
  t.equal(listener.closed, null)

  const headers = { Cookie: `session=${await gw.key(rights('cookie'))}` }
  const foreign = { ...headers, Origin: 'https://evil.example' }
  t.equal((await webSocket(t, gw, '/cookie/ws', { headers: foreign })).refused, 403)
  t.equal((await webSocket(t, gw, '/cookie/in/ws', { headers: foreign })).refused, 403)
  const own = await webSocket(t, gw, '/cookie/ws', { headers: { ...headers, Origin: gw.url } })
  const plain = await webSocket(t, gw, '/cookie/ws', { headers })
  const sender = await webSocket(t, gw, '/cookie/in/ws', { headers })
  t.same([own.refused, plain.refused, sender.refused], [null, null, null])
  await gw.stop()
  for (const client of [listener, own, plain, sender]) {
    await until(() => client.closed !== null, 'closed on stop')
    t.match(client.closed, { code: 1012 })
  }
})
