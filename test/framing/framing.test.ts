import t, { type Test } from 'tap'
import { api, gateway } from '../helpers/gateway.ts'
import { type Case, corpus, type Passes } from './corpus.ts'
import { eventually, type Message, recorder, values, type Wire, wire } from './wire.ts'

const BEHIND = 'GET /behind HTTP/1.1\r\nHost: a.test\r\n\r\n'

t.test(
  'every request of the corpus is refused whole or forwarded once, with the same request behind it each time',
  async t => {
    const up = await recorder(t)
    const gw = await gateway(t, {
      apis: [api('all', up.url, { server: { listenPath: { value: '/', strip: false } } })]
    })
    t.equal(new Set(corpus.map(each => each.name)).size, corpus.length, 'no name twice')

    const refusal = (t: Test, answer: Message | undefined, status: number) => {
      t.match(answer?.line, new RegExp(`^HTTP/1\\.1 ${status} `))
      t.same(values(answer?.pairs ?? [], 'content-type'), ['application/json'])
      t.equal(values(answer?.pairs ?? [], 'x-svc-error').length, 1)
      t.same(Object.keys(JSON.parse(answer?.body || '{}')), ['error'])
    }

    const pass = async (t: Test, client: Wire, expected: Passes) => {
      const whole = expected.closes || expected.swallows || expected.behind !== undefined ? 1 : 2
      const ends = expected.closes || expected.behind !== undefined
      await client.until(() => (ends ? client.closed() : client.answers.length === whole), 'the answers')
      t.match(client.answers[0]?.line, /^HTTP\/1\.1 200 /)
      t.equal(up.requests.length, whole, 'nothing else reached the upstream')
      const first = up.requests[0]
      if (first === undefined) return
      if (expected.framing !== 'empty') t.equal(first.framing, expected.framing)
      t.equal(first.body, expected.body ?? '')
      if (expected.line !== undefined) t.equal(first.line, expected.line)
      for (const name of expected.lacks ?? [])
        t.same(
          name.startsWith('trailer:') ? values(first.trailers, name.slice(8)) : values(first.pairs, name),
          [],
          name
        )
      for (const name of expected.has ?? []) t.not(values(first.pairs, name).length, 0, name)
      if (whole === 2) t.match(up.requests[1]?.line, /^GET \/behind /)
      if (expected.behind !== undefined) refusal(t, client.answers[1], expected.behind)
      t.equal(client.answers.length, expected.behind === undefined ? whole : 2)
    }

    /** `cut`: where the bytes are parted into two packets; those behind come when those before were read. */
    const run = async (t: Test, { bytes, refused, answered, passes }: Case, cut = 0) => {
      up.requests.length = 0
      const method = bytes.startsWith('HEAD') ? 'HEAD' : 'GET'
      const client = wire(t, gw.url, [method])
      if (cut > 0) {
        client.send(bytes.slice(0, cut))
        // Behind another exchange with the same process, the first packet has been read.
        await gw.get('/svc/nothing')
      }
      client.send(bytes.slice(cut) + BEHIND)
      if (passes !== undefined) await pass(t, client, passes)
      else if (answered !== undefined) {
        await client.until(() => client.answers.length === 2, 'two answers')
        refusal(t, client.answers[0], answered)
        t.match(client.answers[1]?.line, / 200 /)
        t.equal(up.requests.length, 1, 'only the request behind it reached the upstream')
      } else {
        await client.until(client.closed, 'the end of the connection')
        refusal(t, client.answers[0], refused!)
        t.same(values(client.answers[0]?.pairs ?? [], 'connection'), ['close'])
        t.equal(client.answers.length, 1)
        t.equal(up.requests.length, 0, 'nothing reached the upstream')
      }
      const odd = up.odd()
      // Of chunks that turn into nonsense later on, the beginning has gone up, but never an end.
      if (cut < bytes.indexOf('\r\n\r\n') + 4 || !/^transfer-encoding/im.test(bytes))
        t.same(odd, [], 'no part of a request reached the upstream')
    }

    for (const each of corpus) await t.test(`${each.name} (${each.why})`, t => run(t, each))
    for (const each of corpus) {
      const { bytes } = each
      for (const cut of [1, bytes.indexOf('\r\n\r\n') + 2, bytes.indexOf('\r\n\r\n') + 4, bytes.length - 3])
        if (cut > 0 && cut < bytes.length) await t.test(`${each.name}, parted at ${cut}`, t => run(t, each, cut))
    }
    const passed = corpus.filter(each => each.passes !== undefined).length
    t.comment(`${corpus.length} cases: ${passed} forwarded, ${corpus.length - passed} refused or answered`)
  }
)

t.test('the process still serves after all that', async t => {
  const up = await recorder(t)
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  const clients = corpus.map(({ bytes }) => {
    const client = wire(t, gw.url)
    client.send(bytes)
    client.socket.resetAndDestroy()
    return client
  })
  await eventually(() => clients.every(client => client.closed()), 'all are closed')
  t.equal((await gw.get('/all/x')).status, 200)
})
