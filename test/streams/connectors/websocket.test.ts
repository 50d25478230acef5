import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { type WebSocket, WebSocketServer } from 'ws'
import { websocketInput } from '../../../streams/connectors/websocketInput.ts'
import { websocketOutput } from '../../../streams/connectors/websocketOutput.ts'
import type { Message } from '../../../streams/message.ts'
import { Undelivered } from '../../../streams/undelivered.ts'
import { handClock } from '../../helpers/clock.ts'
import { until } from '../produce/front.ts'
import { connector, faultsOf, message, world } from './world.ts'

type Test = { teardown(run: () => unknown): unknown }

async function server(t: Test, port = 0) {
  const made = new WebSocketServer({ port, host: '127.0.0.1' })
  await once(made, 'listening')
  const all: { socket: WebSocket; req: IncomingMessage; got: string[]; closes: number[] }[] = []
  made.on('connection', (socket, req) => {
    const one = { socket, req, got: [] as string[], closes: [] as number[] }
    socket.on('message', (data, isBinary) => one.got.push(`${isBinary ? 'binary' : 'text'} ${data}`))
    socket.on('error', () => {})
    socket.on('close', code => one.closes.push(code))
    all.push(one)
  })
  const stop = () => {
    for (const { socket } of all) socket.terminate()
    return new Promise<void>(resolve => made.close(() => resolve()))
  }
  t.teardown(stop)
  const { port: own } = made.address() as AddressInfo
  return { url: `ws://127.0.0.1:${own}/x`, port: own, all, stop }
}

const soon = () => Date.now() + 3000
const reason = (sent: Promise<unknown>) =>
  sent.then(
    () => 'sent',
    (cause: unknown) => (cause instanceof Undelivered ? cause.reason : String(cause))
  )

t.test('messages go out as frames, text where they are UTF-8, behind the opening one', async t => {
  const { url, all } = await server(t)
  const headers = { 'X-A': 'b', 'Sec-WebSocket-Protocol': 'one, two' }
  const options = { url, open_message: 'hello', open_message_type: 'text', headers }
  const output = websocketOutput.open(connector('websocket', options), world())
  t.teardown(() => output.close())
  const messages = [message('one'), message(Buffer.from([255])), message(null)]
  t.same(await output.send(messages, null, soon()), [null, null, null], 'the first one waits for the connection')
  await until(() => all[0]!.got.length === 4)
  t.same(all[0]!.got, ['text hello', 'text one', `binary ${Buffer.from([255])}`, 'text '])
  t.equal(all[0]!.req.headers['x-a'], 'b')
  t.equal(all[0]!.socket.protocol, 'one')
  t.equal(output.fault(), null)
  await output.close()
  await until(() => all[0]!.closes.length === 1)
  t.same(all[0]!.closes, [1001])
  t.equal(await reason(output.send([message('x')], null, soon())), 'unavailable')
})

t.test('a connection that breaks comes again after a wait, and nothing is accepted in between', async t => {
  const clock = handClock()
  const first = await server(t)
  const output = websocketOutput.open(connector('websocket', { url: first.url }), world({}, clock))
  t.teardown(() => output.close())
  await output.send([message('a')], null, clock.now() + 1000)
  await first.stop()
  await until(() => output.fault() !== null)
  t.equal(await reason(output.send([message('b')], null, clock.now() + 1000)), 'unavailable')
  await clock.move(1000)
  await clock.waiting(2000)
  const second = await server(t, first.port)
  await clock.move(2000)
  await until(() => output.fault() === null)
  t.equal(await reason(output.send([message('c')], null, clock.now() + 1000)), 'sent')
  await until(() => second.all[0]!.got.length === 1)
  t.same(second.all[0]!.got, ['text c'])
  second.all[0]!.socket.terminate()
  await until(() => output.fault() !== null)
})

t.test('what the other end does not take is unknown at the deadline, and too much of it is busy', async t => {
  const { url, all } = await server(t)
  const output = websocketOutput.open(connector('websocket', { url }), world())
  await output.send([message('a')], null, soon())
  all[0]!.socket.pause()
  const large = message('x'.repeat(4_000_000))
  const sent = Array.from({ length: 6 }, () => reason(output.send([large], null, Date.now() + 300)))
  const reasons = await Promise.all(sent)
  t.ok(reasons.includes('busy'))
  t.ok(reasons.includes('unknown'))
  all[0]!.socket.terminate()
  await output.close()
})

function reading(
  t: Test,
  options: object,
  deliver: (messages: readonly Message[]) => Promise<void>,
  clock = world().clock
) {
  const tools = world({}, clock)
  const input = websocketInput.open(connector('websocket', options), deliver, tools)
  t.teardown(() => input.close())
  return { input, tools }
}

t.test('frames of a server come in as messages, in order, again after it was away', async t => {
  const clock = handClock()
  const first = await server(t)
  const got: string[] = []
  const { input } = reading(
    t,
    { url: first.url, open_message: 'subscribe' },
    async messages => {
      got.push(...messages.map(({ value }) => String(value)))
    },
    clock
  )
  await until(() => first.all[0]?.got.length === 1)
  t.same(first.all[0]!.got, ['binary subscribe'])
  for (const text of ['a', 'b', '']) first.all[0]!.socket.send(text)
  await until(() => got.length === 3)
  await first.stop()
  await until(() => input.fault() !== null)
  const second = await server(t, first.port)
  await clock.move(1000)
  await until(() => second.all[0]?.got.length === 1)
  second.all[0]!.socket.send('c')
  await until(() => got.length === 4)
  t.same(got, ['a', 'b', '', 'c'])
  t.equal(input.fault(), null)
})

t.test('a server that sends more than is taken is not read, and nothing is lost', async t => {
  const { url, all } = await server(t)
  const got: number[] = []
  let release: () => void = () => {}
  let isSlow = true
  reading(t, { url }, async messages => {
    if (isSlow) await new Promise<void>(resolve => (release = resolve))
    got.push(...messages.map(({ value }) => value!.readUInt32BE()))
  })
  await until(() => all.length === 1)
  const count = 30_000
  for (let i = 0; i < count; i++) {
    const frame = Buffer.alloc(1000)
    frame.writeUInt32BE(i)
    all[0]!.socket.send(frame)
  }
  const seen: number[] = []
  await until(() => seen.push(all[0]!.socket.bufferedAmount) > 20 && seen.at(-1) === seen.at(-20))
  t.ok(seen.at(-1)! > 1_000_000, 'it waits at the other end')
  isSlow = false
  release()
  await until(() => got.length === count)
  t.same(
    got,
    Array.from({ length: count }, (_, i) => i)
  )
})

t.test('what can never be delivered is dropped alone, and what is too long breaks the connection', async t => {
  const { url, all } = await server(t)
  const got: string[] = []
  const { input, tools } = reading(t, { url, max_message_size: 10 }, async messages => {
    if (messages.some(({ value }) => String(value) === 'bad')) throw new Undelivered('invalid', 'does not fit')
    got.push(...messages.map(({ value }) => String(value)))
  })
  await until(() => all.length === 1)
  for (const text of ['a', 'bad', 'b']) all[0]!.socket.send(text)
  await until(() => got.length === 2)
  t.same(got, ['a', 'b'])
  t.match(tools.told, [{ msg: 'messages are dropped' }])
  all[0]!.socket.send('x'.repeat(11))
  await until(() => all[0]!.closes.length === 1)
  t.same(all[0]!.closes, [1009])
  await until(() => input.fault() !== null)
})

t.test('what cannot work is refused when it is saved', async t => {
  t.same(faultsOf(websocketOutput, { url: 'wss://a.example/x?y=z', open_message: '' }), [])
  const cases: [options: object, pointers: string[]][] = [
    [{ url: 'http://a.example' }, ['/url']],
    [{ url: 'ws://169.254.169.254' }, ['/url']],
    [{ url: 'ws://a.example/$svc_context.x' }, ['/url']],
    [{ url: 'ws://a.example/#x' }, ['/url']],
    [{ url: 'ws://a.example', headers: { Upgrade: 'x' } }, ['/headers/Upgrade']],
    [{ url: 'ws://a.example', headers: { 'Sec-WebSocket-Key': 'x' } }, ['/headers/Sec-WebSocket-Key']],
    [{ url: 'ws://a.example', headers: { 'Sec-WebSocket-Protocol': 'a, a' } }, ['/headers']],
    [{ url: 'ws://a.example', open_message_type: 'text' }, ['/open_message_type']],
    [{ url: 'ws://a.example', tls: { enabled: true } }, ['/tls/enabled']],
    [
      {
        url: 'wss://a.example',
        tls: { enabled: true, root_cas: '-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----' }
      },
      ['/tls/root_cas']
    ]
  ]
  for (const kind of [websocketInput, websocketOutput])
    for (const [options, pointers] of cases) t.same(faultsOf(kind, options), pointers, JSON.stringify(options))
})
