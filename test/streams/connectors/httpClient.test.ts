import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { type AddressInfo, createServer as createTcp } from 'node:net'
import type { TLSSocket } from 'node:tls'
import t from 'tap'
import type { Call } from '../../../streams/call.ts'
import { httpClientInput } from '../../../streams/connectors/httpClientInput.ts'
import { httpClientOutput } from '../../../streams/connectors/httpClientOutput.ts'
import { Lines } from '../../../streams/connectors/lines.ts'
import { isLinkLocal, safeLookup } from '../../../streams/connectors/outgoing.ts'
import type { Message } from '../../../streams/message.ts'
import { Undelivered } from '../../../streams/undelivered.ts'
import { CN, certificate, hosts, isCa } from '../../helpers/certificates.ts'
import { until } from '../produce/front.ts'
import { connector, faultsOf, message, world } from './world.ts'

type Test = { teardown(run: () => unknown): unknown }

interface Got {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

async function server(t: Test, answer: (res: ServerResponse, got: Got, index: number) => void) {
  const got: Got[] = []
  const made = createServer((req, res) => {
    const chunks: Buffer[] = []
    req.on('data', chunk => chunks.push(chunk))
    req.on('end', () => {
      const one = { method: req.method!, url: req.url!, headers: req.headers, body: Buffer.concat(chunks).toString() }
      got.push(one)
      answer(res, one, got.length - 1)
    })
  })
  await new Promise<void>(resolve => made.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    made.closeAllConnections()
    return new Promise(resolve => made.close(resolve))
  })
  return { url: `http://127.0.0.1:${(made.address() as AddressInfo).port}`, got }
}

function webhook(t: Test, options: Record<string, unknown>) {
  const output = httpClientOutput.open(connector('http_client', { retry_period: '1ms', ...options }), world())
  t.teardown(() => output.close())
  return output
}

const soon = (ms = 3000) => Date.now() + ms
const reason = (sent: Promise<unknown>) =>
  sent.then(
    () => 'sent',
    (cause: unknown) => (cause instanceof Undelivered ? cause.reason : String(cause))
  )
const caller = (variables: Record<string, string>) => ({ variable: (name: string) => variables[name] ?? '' }) as Call

t.test('a webhook gets each message as one request, with its media type and the headers of the options', async t => {
  const { url, got } = await server(t, res => res.writeHead(204).end())
  const headers = { 'X-Who': '$svc_context.who', 'X-Line': '$svc_context.line' }
  const output = webhook(t, { url: `${url}/a/$svc_context.who?b=$svc_context.line`, headers, verb: 'PUT' })
  const call = caller({ 'svc_context.who': 'm/e', 'svc_context.line': 'a\r\nb&c=d' })
  const messages = [message('one', { 'content-type': 'text/x', traceparent: 't', 'x-other': 'o' }), message(null)]
  t.same(await output.send(messages, call, soon()), [null, null])
  const [one, two] = got.sort((a, b) => b.body.length - a.body.length)
  t.match(one, { method: 'PUT', url: '/a/m%2Fe?b=a%0D%0Ab%26c%3Dd', body: 'one' })
  t.match(one!.headers, { 'content-type': 'text/x', traceparent: 't', 'x-who': 'm/e', 'x-line': 'a  b&c=d' })
  t.equal(one!.headers['x-other'], undefined)
  t.equal(two!.body, '')
  t.equal(output.fault(), null)
  t.equal(await reason(output.send([message('x')], caller({ 'svc_context.who': '..' }), soon())), 'invalid')
})

t.test('a header of the options wins over the message’s own', async t => {
  const { url, got } = await server(t, res => res.end())
  await webhook(t, { url, headers: { 'Content-Type': 'a/b' } }).send(
    [message('x', { 'content-type': 'c/d' })],
    null,
    soon()
  )
  t.equal(got[0]!.headers['content-type'], 'a/b')
})

t.test('the status decides whether a message is delivered, tried again or given up', async t => {
  const cases: [options: object, statuses: number[], reason: string, tries: number][] = [
    [{}, [200], 'sent', 1],
    [{}, [503, 500, 200], 'sent', 3],
    [{}, [429, 200], 'sent', 2],
    [{}, [400], 'failed', 1],
    [{}, [302], 'failed', 1],
    [{}, [503], 'unavailable', 4],
    [{}, [500], 'unknown', 4],
    [{}, [500, 503], 'unknown', 4],
    [{ retries: 0 }, [503], 'unavailable', 1],
    [{ retries: 1 }, [429], 'unavailable', 2],
    [{ drop_on: [503] }, [503], 'rejected', 1],
    [{ backoff_on: [404] }, [404, 200], 'sent', 2],
    [{ backoff_on: [404] }, [429], 'failed', 1],
    [{ successful_on: [404] }, [404], 'sent', 1],
    [{ drop_on: [202] }, [202], 'rejected', 1]
  ]
  for (const [options, statuses, wanted, tries] of cases) {
    const { url, got } = await server(t, (res, _, i) =>
      res.writeHead(statuses[Math.min(i, statuses.length - 1)]!, { Location: '/other' }).end('body')
    )
    const output = webhook(t, { url, ...options })
    t.equal(await reason(output.send([message('x')], null, soon())), wanted, JSON.stringify([options, statuses]))
    t.equal(got.length, tries, JSON.stringify([options, statuses]))
    t.equal(output.fault() === null, wanted === 'sent')
  }
})

t.test('of several messages a failure tells which were delivered, and what is dropped holds nothing up', async t => {
  const { url, got } = await server(t, (res, { body }) => res.writeHead(Number(body)).end())
  const output = webhook(t, { url, max_in_flight: 1, drop_on: [410] })
  const send = (...statuses: number[]) =>
    output.send(
      statuses.map(status => message(String(status))),
      null,
      soon()
    )
  const cases: [statuses: number[], fates: (string | null | undefined)[]][] = [
    [
      [200, 201, 400, 202],
      [null, null, 'failed', undefined]
    ],
    [
      [200, 410, 202],
      [null, 'rejected', null]
    ]
  ]
  for (const [statuses, fates] of cases)
    await send(...statuses).then(
      () => t.fail('it is told'),
      ({ each, reason }: Undelivered) => {
        t.same(
          each!.map(fate => (fate === null ? null : fate?.reason)),
          fates
        )
        t.equal(
          reason,
          fates.find(fate => fate)
        )
      }
    )
  t.equal(got.length, 6)
})

t.test('what was surely not sent may be sent again; what got no answer may have arrived', async t => {
  const gone = createTcp().listen(0, '127.0.0.1')
  await new Promise(resolve => gone.once('listening', resolve))
  const { port } = gone.address() as AddressInfo
  await new Promise(resolve => gone.close(resolve))
  t.equal(
    await reason(webhook(t, { url: `http://127.0.0.1:${port}` }).send([message('x')], null, soon())),
    'unavailable'
  )
  const patient = webhook(t, { url: `http://127.0.0.1:${port}`, retry_period: '1h' })
  const hurried = reason(patient.send([message('x')], caller({}), soon(7_200_000)))
  t.equal(await hurried, 'unavailable', 'a caller does not wait for a dead webhook')
  const name = webhook(t, { url: 'http://nobody.invalid', retries: 0 })
  t.equal(await reason(name.send([message('x')], null, soon())), 'unavailable')

  const reset = await server(t, res => res.socket!.destroy())
  t.equal(await reason(webhook(t, { url: reset.url }).send([message('x')], null, soon())), 'unknown')
  t.equal(reset.got.length, 4)
  const silent = await server(t, () => {})
  const slow = webhook(t, { url: silent.url, timeout: '30ms', retries: 1 })
  t.equal(await reason(slow.send([message('x')], null, soon())), 'unknown')
  t.equal(silent.got.length, 2)
  t.equal(await reason(webhook(t, { url: silent.url }).send([message('x')], null, soon(30))), 'unknown')
  t.equal(silent.got.length, 3, 'behind the deadline nothing is tried')
})

t.test('requests under way are bounded, and a bound of one keeps the order', async t => {
  const waiting: ServerResponse[] = []
  const { url } = await server(t, res => waiting.push(res))
  const output = webhook(t, { url, max_in_flight: 2 })
  const first = output.send([message('a'), message('b'), message('c')], null, soon())
  await until(() => waiting.length === 2)
  t.equal(await reason(output.send([message('d')], caller({}), soon())), 'busy')
  t.equal(await reason(output.send([message('e')], null, soon(10))), 'busy', 'until the deadline')
  const second = output.send([message('f')], null, soon())
  waiting[0]!.end()
  waiting[1]!.end()
  await until(() => waiting.length === 4)
  for (const res of waiting) res.end()
  t.same(await first, [null, null, null])
  t.same(await second, [null], 'a source waits for its turn')

  const ordered = await server(t, res => setImmediate(() => res.end()))
  const all = Array.from({ length: 20 }, (_, i) => String(i))
  await webhook(t, { url: ordered.url, max_in_flight: 1 }).send(
    all.map(text => message(text)),
    null,
    soon()
  )
  t.same(
    ordered.got.map(({ body }) => body),
    all
  )
})

t.test('a webhook that closes ends what is under way', async t => {
  const { url, got } = await server(t, () => {})
  const output = webhook(t, { url })
  const sent = reason(output.send([message('x')], null, soon(60_000)))
  await until(() => got.length === 1)
  await output.close()
  t.equal(await sent, 'unknown')
  t.equal(await reason(output.send([message('y')], null, soon())), 'unavailable')
})

t.test('link-local addresses are refused in every spelling, and when a name stands for one', async t => {
  const refused = [
    '169.254.169.254',
    '169.254.0.1',
    'fe80::1',
    'febf::1',
    '[fe80::1]',
    'fe80::1%eth0',
    '::ffff:169.254.169.254',
    '::ffff:a9fe:a9fe',
    '::169.254.1.1',
    '64:ff9b::a9fe:a9fe',
    '2002:a9fe:a9fe::1'
  ]
  for (const address of refused) t.ok(isLinkLocal(address), address)
  for (const address of [
    '127.0.0.1',
    '10.0.0.1',
    '169.253.1.1',
    '::1',
    'fec0::1',
    '::ffff:127.0.0.1',
    'localhost',
    'fe80.example'
  ])
    t.notOk(isLinkLocal(address), address)
  const urls = [
    'http://169.254.169.254/x',
    'http://0xa9fea9fe',
    'http://2852039166',
    'http://[::ffff:169.254.1.1]/',
    'http://[fe80::1]/'
  ]
  for (const url of urls) t.same(faultsOf(httpClientOutput, { url }), ['/url'], url)
  for (const all of [true, false])
    await new Promise<void>(resolve =>
      safeLookup('169.254.169.254', { all }, error => {
        t.match(error, { reason: 'misconfigured' })
        resolve()
      })
    )
})

t.test('what cannot work is refused when it is saved', async t => {
  const good = { url: 'https://a.example/$svc_context.path', headers: { 'X-A': '$svc_meta.b' }, verb: 'PATCH' }
  t.same(faultsOf(httpClientOutput, good), [])
  t.same(faultsOf(httpClientInput, { url: 'http://a.example', payload: 'x', verb: 'POST' }), [])
  const cases: [kind: typeof httpClientOutput | typeof httpClientInput, options: object, pointers: string[]][] = [
    [httpClientOutput, { url: 'ftp://a.example' }, ['/url']],
    [httpClientOutput, { url: 'file:///etc/passwd' }, ['/url']],
    [httpClientOutput, { url: '/path' }, ['/url']],
    [httpClientOutput, { url: 'http://$svc_context.host/' }, ['/url']],
    [httpClientOutput, { url: 'http://a.example$svc_context.x/' }, ['/url']],
    [httpClientOutput, { url: '$svc_context.url' }, ['/url']],
    [httpClientOutput, { url: 'http://user:secret@a.example' }, ['/url']],
    [httpClientOutput, { url: `http://a.example/${'$'}{! key }` }, ['/url']],
    [httpClientOutput, { url: 'http://a.example', verb: 'GET' }, ['/verb']],
    [httpClientOutput, { url: 'http://a.example', verb: 'CONNECT' }, ['/verb']],
    [httpClientOutput, { url: 'http://a.example', verb: 'P OST' }, ['/verb']],
    [httpClientOutput, { url: 'http://a.example', headers: { 'a b': 'c' } }, ['/headers/a b']],
    [httpClientOutput, { url: 'http://a.example', headers: { 'Content-Length': '1' } }, ['/headers/Content-Length']],
    [httpClientOutput, { url: 'http://a.example', timeout: '0s' }, ['/timeout']],
    [httpClientOutput, { url: 'http://a.example', tls: { enabled: true } }, ['/tls/enabled']],
    [
      httpClientOutput,
      { url: 'https://a.example', tls: { enabled: true, client_certs: [{ cert: 'x' }] } },
      ['/tls/client_certs/0']
    ],
    [httpClientOutput, { url: 'https://a.example', tls: { skip_cert_verify: true } }, ['/tls']],
    [httpClientInput, { url: 'http://a.example', payload: 'x' }, ['/payload']],
    [httpClientInput, { url: 'http://a.example/$svc_context.x' }, ['/url']],
    [httpClientInput, { url: 'http://a.example', headers: { a: '$svc_meta.x' } }, ['/headers/a']],
    [httpClientInput, { url: 'http://a.example', stream: { max_buffer: 0 } }, ['/stream/max_buffer']]
  ]
  for (const [kind, options, pointers] of cases) t.same(faultsOf(kind, options), pointers, JSON.stringify(options))
})

function fetched(t: Test, options: Record<string, unknown>, deliver?: (messages: readonly Message[]) => Promise<void>) {
  const got: string[] = []
  const tools = world()
  const input = httpClientInput.open(
    connector('http_client', { retry_period: '1ms', ...options }),
    async messages => {
      await deliver?.(messages)
      got.push(...messages.map(({ value }) => String(value)))
    },
    tools
  )
  t.teardown(() => input.close())
  return { got, input, tools }
}

t.test('a source is asked again and again, and each answer that is not empty is a message', async t => {
  const bodies = ['one', '', 'two', 'three']
  const { url, got: asked } = await server(t, (res, _, i) => res.end(bodies[i] ?? ''))
  const { got, input } = fetched(t, { url, verb: 'POST', payload: 'next', headers: { 'X-A': 'b' } })
  await until(() => got.length === 3)
  t.same(got, ['one', 'two', 'three'])
  t.match(asked[0], { method: 'POST', body: 'next', headers: { 'x-a': 'b' } })
  t.equal(input.fault(), null)
  await input.close()
  const { length } = asked
  await new Promise(resolve => setImmediate(resolve))
  t.equal(asked.length, length)
})

t.test('empty answers are messages when the options say so, and failures are tried again', async t => {
  const statuses = [500, 404, 200]
  const { url } = await server(t, (res, _, i) => res.writeHead(statuses[i] ?? 200).end(i < 3 ? '' : 'x'))
  const { got, tools } = fetched(t, { url, drop_empty_bodies: false })
  await until(() => got.length >= 2)
  t.same(got.slice(0, 2), ['', 'x'])
  t.match(tools.told, [{ fields: { cause: 'answered 500' } }])
})

t.test('a message that is not delivered is offered again, one that can never be is dropped', async t => {
  const { url } = await server(t, (res, _, i) => res.end(`m${i}`))
  let fails = 1
  const { got, input, tools } = fetched(t, { url }, async ([one]) => {
    if (String(one!.value) === 'm0' && fails-- > 0) throw new Undelivered('unavailable', 'down')
    if (String(one!.value) === 'm1') throw new Undelivered('invalid', 'does not fit')
  })
  await until(() => input.fault() !== null)
  await until(() => got.length >= 2)
  t.same(got.slice(0, 2), ['m0', 'm2'])
  t.match(
    tools.told.map(({ msg }) => msg),
    ['messages are not delivered and are tried again', 'messages are dropped']
  )
})

t.test('an endless answer is read line by line, and asked for again when it ends', async t => {
  const { url, got: asked } = await server(t, (res, _, i) => {
    res.writeHead(200, { 'Content-Type': 'application/json' })
    if (i > 0) return void res.write('again\n')
    res.write('one\r\n\ntwo\nth')
    setImmediate(() => res.end(`ree\n${'x'.repeat(50)}\nlast`))
  })
  const { got, tools } = fetched(t, { url, timeout: '1s', stream: { enabled: true, max_buffer: 20 } })
  await until(() => got.length === 5)
  t.same(got, ['one', 'two', 'three', 'last', 'again'])
  t.equal(asked.length, 2)
  t.match(tools.told, [{ msg: 'lines that are too long are left out', fields: { count: 1 } }])
})

t.test('an endless answer may be one message, and may be read only once', async t => {
  const { url, got: asked } = await server(t, res => {
    res.write('a\n')
    setImmediate(() => res.end('b\n'))
  })
  const { got, input } = fetched(t, { url, stream: { enabled: true, codec: 'all-bytes', reconnect: false } })
  await until(() => input.fault() === 'the answer has ended')
  t.same(got, ['a\nb\n'])
  t.equal(asked.length, 1)
})

t.test('who takes its time slows the source down', async t => {
  let written = 0
  const { url } = await server(t, res => {
    const more = () => {
      while (!res.destroyed && res.write(`${'x'.repeat(999)}\n`)) written++
      res.once('drain', more)
    }
    more()
  })
  let release = () => {}
  const { got, input } = fetched(
    t,
    { url, stream: { enabled: true } },
    () => new Promise(resolve => (release = resolve))
  )
  await until(() => written > 100)
  const seen: number[] = []
  await until(() => seen.push(written) > 20 && seen.at(-1) === seen.at(-20))
  t.ok(written < 50_000, 'the source waits')
  release()
  await until(() => got.length > 0)
  const closed = input.close()
  release()
  await closed
})

t.test('lines come out alike, however the bytes are cut', async t => {
  const text = 'one\r\n\ntwo\n\r\nthree\rfour\n12345678\n1234567890123\nend'
  for (let size = 1; size <= text.length; size++) {
    const lines = new Lines(10)
    const got: string[] = []
    for (let at = 0; at < text.length; at += size)
      got.push(...lines.take(Buffer.from(text.slice(at, at + size))).map(String))
    const last = lines.end()
    t.same([...got, String(last)], ['one', 'two', 'three\rfour', '12345678', 'end'], `pieces of ${size}`)
    t.equal(lines.skipped, 1)
  }
})

t.test('TLS: an unknown authority is refused, a named one is believed, and a client certificate is shown', async t => {
  const authority = certificate({ subject: [[CN, 'authority']], extensions: [isCa] })
  const own = certificate({ subject: [[CN, 'localhost']], extensions: [hosts('localhost')], issuer: authority })
  const ours = certificate({ subject: [[CN, 'gateway']], issuer: authority })
  const shown: string[] = []
  const secure = createSecureServer(
    { key: own.keyPem, cert: own.pem, ca: authority.pem, requestCert: true, rejectUnauthorized: false },
    (req, res) => {
      const { subject } = (req.socket as TLSSocket).getPeerCertificate()
      shown.push(String(subject?.CN))
      res.end()
    }
  )
  await new Promise<void>(resolve => secure.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    secure.closeAllConnections()
    return new Promise(resolve => secure.close(resolve))
  })
  const url = `https://localhost:${(secure.address() as AddressInfo).port}`
  const cases: [tls: object, reason: string][] = [
    [{}, 'unavailable'],
    [{ enabled: true, root_cas: ours.pem }, 'unavailable'],
    [{ enabled: true, root_cas: authority.pem }, 'sent'],
    [{ enabled: true, skip_cert_verify: true }, 'sent'],
    [{ enabled: true, root_cas: authority.pem, client_certs: [{ cert: ours.pem, key: ours.keyPem }] }, 'sent']
  ]
  for (const [tls, wanted] of cases) {
    t.same(faultsOf(httpClientOutput, { url, tls }), [])
    const output = webhook(t, { url, tls, retries: 0 })
    t.equal(await reason(output.send([message('x')], null, soon())), wanted, JSON.stringify(Object.keys(tls)))
  }
  t.same(shown, ['undefined', 'undefined', 'gateway'])
})

t.test('the first refusal of a source’s message is told with its place; a caller’s is its own matter', async t => {
  const { url } = await server(t, (res, { body }) => res.writeHead(body === 'r5' ? 500 : 200).end())
  const lines: object[] = []
  const log = {
    debug() {},
    info() {},
    error() {},
    warn: (msg: string, fields?: object) => lines.push({ msg, ...fields })
  }
  const output = httpClientOutput.open(connector('http_client', { url, retry_period: '1ms', max_in_flight: 1 }), {
    ...world(),
    log
  })
  t.teardown(() => output.close())
  const records = [0, 1, 5, 6].map(offset => ({ ...message(`r${offset}`), topic: 'orders', partition: 3, offset }))
  await output.send(records, caller({}), soon()).catch(() => {})
  t.same(lines, [])
  for (let i = 0; i < 2; i++) t.equal(await reason(output.send(records, null, soon())), 'unknown')
  t.equal(lines.length, 1)
  t.match(lines, [{ topic: 'orders', partition: 3, offset: 5, reason: 'answered 500' }])
})
