import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Clock, systemClock } from '../../config/world.ts'
import type { CountersSettings } from '../../gateway/redis/address.ts'
import { causeOf } from '../../gateway/redis/faults.ts'
import { openRedis } from '../../gateway/redis/openRedis.ts'
import type { RedisLink } from '../../gateway/redis/redis.ts'
import { handClock } from '../helpers/clock.ts'
import { oldRedis, redisServer } from '../helpers/redis.ts'
import { linkSettings, quietLog, redisLink, until } from '../helpers/redisLink.ts'

const PASSWORD = 'p@ss word/of:the tests'
const server = await redisServer(t, { user: { name: 'gate', password: PASSWORD } })
const encrypted = await redisServer(t, { tls: true, password: PASSWORD })

/** The one line with which opening fails. */
async function refusal(t: Test, given: Partial<CountersSettings>, clock: Clock = systemClock): Promise<string> {
  const opened = openRedis(linkSettings(given), { clock, log: quietLog })
  const error = await opened.then(
    () => t.fail('it opened'),
    (error: Error) => error
  )
  const { message } = error as Error
  t.notMatch(message, /\n/)
  for (const secret of [PASSWORD, encodeURIComponent(PASSWORD), 'hush']) t.notOk(message.includes(secret), message)
  return message
}

t.test('what cannot work is refused at once, in one line without the password', async t => {
  const plain = `127.0.0.1:${server.port}`
  const limited = await redisServer(t, {
    user: { name: 'few', password: PASSWORD, rules: ['~other:*', '&*', '+@all'] }
  })
  const cases: readonly [Partial<CountersSettings>, RegExp][] = [
    [{ url: `redis://gate:hush@${plain}` }, /WRONGPASS/],
    [{ url: `redis://:hush@${plain}` }, /WRONGPASS/],
    [{ url: `redis://${plain}` }, /NOAUTH/],
    [{ nodes: [`redis://gate:hush@${plain}`] }, /WRONGPASS/],
    [{ nodes: [server.url] }, /cluster support disabled/],
    [{ url: `${server.url}/77` }, /DB index is out of range/],
    [{ url: limited.url }, /permission|NOPERM/i],
    [{ url: encrypted.url }, /self-signed certificate/],
    [{ url: server.url, ca_file: encrypted.caFile }, /ca_file is for addresses with rediss/],
    [{ url: encrypted.url, ca_file: '/none/hush' }, /ca_file cannot be read: ENOENT/],
    [{ url: '' }, /url is missing/],
    [{ url: 'http://gate:hush@127.0.0.1' }, /url is not an address/],
    [{ url: 'redis://gate:hush@127.0.0.1:1/x' }, /url is not an address/],
    [{ url: 'redis://gate:hush@127.0.0.1:1/0?a=b' }, /url is not an address/],
    [{ url: 'redis://gate:hu%ZZsh@127.0.0.1:1' }, /url is not an address/],
    [{ url: 'hush' }, /url is not an address/],
    [{ nodes: [server.url, 'redis://gate:hush@127.0.0.1'] }, /the same scheme, user and password/],
    [{ nodes: [`${server.url}/1`] }, /no database but 0/]
  ]
  for (const [given, reason] of cases) t.match(await refusal(t, given), reason)
})

t.test('an unreachable server is tried for thirty seconds', async t => {
  const clock = handClock()
  const closed = createServer().listen(0, '127.0.0.1')
  await once(closed, 'listening')
  const { port } = closed.address() as { port: number }
  closed.close()
  for (const given of [{ url: `redis://:hush@127.0.0.1:${port}` }, { nodes: [`redis://:hush@127.0.0.1:${port}`] }]) {
    const refused = refusal(t, given, clock)
    await clock.waiting(30_000)
    // Some tries have failed by then.
    await new Promise(resolve => setTimeout(resolve, 200))
    await clock.move(30_000)
    t.match(await refused, /ECONNREFUSED.*, for 30 seconds/)
  }
})

t.test('who mixed up redis:// and rediss:// is asked about it', async t => {
  const clock = handClock()
  const mixed = [encrypted.url.replace('rediss:', 'redis:'), `rediss://:hush@127.0.0.1:${server.port}`]
  const refused = mixed.flatMap(url => [refusal(t, { url }, clock), refusal(t, { nodes: [url] }, clock)])
  await until(() => clock.waiters(30_000) === 4)
  // The one that listens without TLS says nothing to a greeting with it, for a second.
  await new Promise(resolve => setTimeout(resolve, 1_300))
  await clock.move(30_000)
  for (const message of await Promise.all(refused)) t.match(message, /, for 30 seconds \(does it speak TLS\?\)$/)
  const shouting = createServer(socket => {
    socket.on('error', () => {})
    socket.end('-ERR this is no TLS\r\n')
  }).listen(0, '127.0.0.1')
  await once(shouting, 'listening')
  t.teardown(() => shouting.close())
  const url = `rediss://:hush@127.0.0.1:${(shouting.address() as { port: number }).port}`
  t.match(await refusal(t, { url }), /\(does it speak TLS\?\)$/)
})

t.test('a login that is not needed is told once, in the log alone', async t => {
  const written: unknown[] = []
  const { warn } = console
  console.warn = (...line) => void written.push(line)
  t.teardown(() => {
    console.warn = warn
  })
  for (const binary of ['redis-server', oldRedis]) {
    const its = await redisServer(t, { binary })
    const lines: string[] = []
    const log = { ...quietLog, warn: (text: string) => void lines.push(text) }
    const link = await redisLink(t, { url: `redis://:${encodeURIComponent(PASSWORD)}@127.0.0.1:${its.port}` }, log)
    const heard: (string | null)[] = []
    link.subscribe('one', message => heard.push(message))
    await until(() => heard.length === 1)
    await its.restart()
    await until(() => link.isConnected && heard.length === 2)
    t.same(lines, ['Redis has no use for the user or password in storage.counters'])
  }
  t.same(written, [])
})

t.test('a server that comes up in time is taken', async t => {
  const late = await redisServer(t)
  await late.stop()
  const opening = redisLink(t, { url: late.url })
  await late.start()
  t.ok((await opening).isConnected)
})

for (const [info, refused] of [
  ['redis_version:4.0.14', true],
  ['redis_version:5.0.14', false],
  ['redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.0', false],
  ['nothing:here', true]
] as const)
  t.test(`${refused ? 'refuses' : 'takes'} a server that says ${JSON.stringify(info)}`, async t => {
    const fake = createServer(socket => answering(socket, info)).listen(0, '127.0.0.1')
    await once(fake, 'listening')
    t.teardown(() => fake.close())
    const url = `redis://127.0.0.1:${(fake.address() as { port: number }).port}`
    if (refused) t.match(await refusal(t, { url }), /is too old, 5 or later is needed/)
    else t.ok((await redisLink(t, { url })).isConnected)
  })

/** As much of Redis as opening asks. */
function answering(socket: Socket, info: string): void {
  socket.on('error', () => {})
  socket.on('data', data => {
    for (const [, command] of String(data).matchAll(/\*\d+\r\n\$\d+\r\n(\w+)\r\n/g))
      socket.write(command!.toLowerCase() === 'info' ? `$${info.length}\r\n${info}\r\n` : ':0\r\n')
  })
}

t.test('TLS with an own authority, by name and by address', async t => {
  for (const host of ['127.0.0.1', 'localhost']) {
    const url = encrypted.url.replace('127.0.0.1', host)
    const link = await redisLink(t, { url, ca_file: encrypted.caFile })
    t.equal(await link.script('return ARGV[1]')([], ['here']), 'here')
  }
  const file = join(t.testdir(), 'ca.pem')
  writeFileSync(file, 'no certificate')
  for (const text of ['no certificate', '', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n']) {
    writeFileSync(file, text)
    t.match(await refusal(t, { url: encrypted.url, ca_file: file }), /ca_file holds no certificate/)
  }
})

t.test('tells at once that the connection is gone, fails what was asked, and comes back by itself', async t => {
  const its = await redisServer(t)
  const link = await redisLink(t, { url: its.url })
  const told: boolean[] = []
  const end = link.onConnected(isConnected => told.push(isConnected))
  const run = link.script('return redis.call("INCR", KEYS[1])')
  its.pause()
  const asked = run(['a'], []).then(
    () => 'answered',
    error => causeOf(error)
  )
  await its.kill()
  t.equal(await asked, 'not connected')
  await until(() => !link.isConnected)
  t.equal(await run(['a'], []).catch(causeOf), 'not connected')
  await its.start()
  await until(() => link.isConnected)
  t.same(told, [false, true])
  t.equal(await run(['a'], []), 1, 'what failed was not sent again')
  end()
})

t.test('a server that hangs is given up and found again, by who listens there too', async t => {
  const its = await redisServer(t)
  const clock = handClock()
  const link = await redisLink(t, { url: its.url }, quietLog, clock)
  const heard: (string | null)[] = []
  link.subscribe('one', message => heard.push(message))
  await until(() => heard.length === 1)
  await clock.waiting(1000)
  its.pause()
  // Whoever listens asks once a second whether the server is there; that question goes first.
  await clock.move(1000)
  t.equal(await link.script('return 1')([], []).catch(causeOf), 'not connected')
  t.notOk(link.isConnected)
  its.resume()
  await until(() => link.isConnected && heard.length === 2)
  t.same(heard, [null, null])
})

t.test('scripts run after a flush, on every version, as does what fails in them', async t => {
  for (const binary of ['redis-server', oldRedis]) {
    const its = await redisServer(t, { binary })
    const link = await redisLink(t, { url: its.url })
    const run = link.script('return {KEYS[1], ARGV[1], 5}')
    for (let i = 0; i < 2; i++) {
      const all = await Promise.all([run(['a'], [1]), run(['b'], ['x'])])
      t.same(all, [
        ['a', '1', 5],
        ['b', 'x', 5]
      ])
      await its.cli('SCRIPT', 'FLUSH')
    }
    await link.commands.set('text', 'x')
    const broken = link.script("return redis.call('LPUSH', KEYS[1], 'a')")
    t.match(await broken(['text'], []).catch(causeOf), /^WRONGTYPE Operation against a key/)
    await its.cli('CONFIG', 'SET', 'maxmemory', '1')
    t.match(await link.script("return redis.call('SET', KEYS[1], 'a')")(['b'], []).catch(causeOf), /^OOM /)
  }
})

t.test('a server that turned read-only is left for whoever has its address next', async t => {
  for (const binary of ['redis-server', oldRedis]) {
    const [its, primary] = [await redisServer(t, { binary }), await redisServer(t, { binary })]
    const link = await redisLink(t, { url: its.url })
    const told: boolean[] = []
    link.onConnected(isConnected => told.push(isConnected))
    await its.cli('REPLICAOF', '127.0.0.1', primary.port)
    const write = link.script("return redis.call('SET', KEYS[1], 'a')")
    t.match(await write(['b'], []).catch(causeOf), /^READONLY /)
    await until(() => told.length === 2)
    await its.cli('REPLICAOF', 'NO', 'ONE')
    t.equal(await write(['b'], []), 'OK')
  }
})

t.test('who listens to a channel hears what is said, and when something may have been missed', async t => {
  const link = await redisLink(t, { url: server.url })
  const heard: (string | null)[] = []
  const second: (string | null)[] = []
  const end = link.subscribe('one', message => heard.push(message))
  await until(() => heard.length === 1)
  await link.publish('one', 'a')
  await until(() => heard.length === 2)
  link.subscribe('one', message => second.push(message))
  await until(() => second.includes(null))
  await server.restart()
  await until(() => heard.filter(message => message === null).length >= 3)
  await until(() => link.isConnected)
  await link.publish('one', 'b')
  await until(() => heard.at(-1) === 'b' && second.at(-1) === 'b')
  t.same(heard.filter(Boolean), ['a', 'b'])
  end()
  await link.publish('one', 'c')
  await until(() => second.at(-1) === 'c')
  t.equal(heard.at(-1), 'b')
})

t.test('closing ends while the server is away, whatever state the connection is in', async t => {
  const its = await redisServer(t)
  const links = await Promise.all([1, 2, 3].map(() => redisLink(t, { url: its.url })))
  const [first, ...others] = links as [RedisLink, ...RedisLink[]]
  await its.kill()
  await first.close()
  await until(() => others.every(link => link.commands.status === 'reconnecting'))
  for (const link of others) await link.close()
  t.ok(links.every(link => !link.isConnected))
})
