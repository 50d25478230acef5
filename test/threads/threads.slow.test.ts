import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { Agent, type IncomingMessage, request } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import { api, rights, withKey } from '../helpers/gateway.ts'
import { folder, type Launched, launch, settings } from '../helpers/process.ts'
import { until } from '../helpers/streamClients.ts'

t.setTimeout(180_000)

/** Loaded into every thread before anything else: with each SIGUSR2 thread 1 ends in another way. */
const hook = `
import { isMainThread, workerData } from 'node:worker_threads'
const channel = new BroadcastChannel('crash')
channel.unref()
const ways = [
  () => { throw new Error('thrown by the test') },
  () => process.exit(3),
  () => { for (const all = []; ; ) all.push(new Array(100_000).fill(0.5 + all.length)) },
  () => { for (;;); }
]
let count = 0
if (isMainThread) process.on('SIGUSR2', () => channel.postMessage(count++ % ways.length))
else if (workerData?.number === 1) {
  channel.onmessage = ({ data }) => ways[data]()
  channel.unref()
}
`

/** One request; the agent decides on which connection. @throws when the connection ends before the answer does */
async function get(url: string, headers: Record<string, string>, agent: Agent | false): Promise<IncomingMessage> {
  const call = request(url, { agent, headers }).end()
  const [answer] = (await once(call, 'response')) as [IncomingMessage]
  answer.resume()
  await once(answer, 'end')
  return answer
}

async function withApi(process: Launched, key: object): Promise<{ url: string; headers: Record<string, string> }> {
  // There already, where the data is older than the process.
  await process.svc('POST', '/svc/apis/oas', api('a', 'svc://echo', { server: withKey }))
  const { body } = await process.svc('POST', '/svc/keys/create', { ...rights('a'), ...key })
  return { url: `${await process.ready}/a/`, headers: { Authorization: body.key } }
}

t.test('however a thread ends, the others serve on, and it is started again', async t => {
  const cwd = folder(t)
  const file = join(cwd, 'hook.mjs')
  writeFileSync(file, hook)
  const gateway = { workers: 2, graceful_shutdown_timeout_duration: 1 }
  const process = launch(t, { cwd, settings: settings(gateway), node: ['--max-old-space-size=64', '--import', file] })
  const { url, headers } = await withApi(process, {})
  const count = (text: string) => process.lines().filter(({ msg, thread }) => msg === text && thread === 1).length
  for (const [i, way] of ['an exception', 'an exit', 'a heap that is full', 'an endless loop'].entries()) {
    process.child.kill('SIGUSR2')
    await until(() => count('thread ended: it is started again') > i, `${way} has ended it`)
    for (let n = 0; n < 20; n++) t.equal((await get(url, headers, false)).statusCode, 200)
    await until(() => count('thread serves again') > i, `it serves again after ${way}`)
  }
  t.match(
    process
      .lines()
      .filter(({ msg }) => msg === 'fault: the thread ends')
      .map(({ cause }) => cause),
    [/thrown by the test/, /memory/]
  )
  process.child.kill('SIGUSR2')
  await until(() => count('thread ended: it is started again') > 4, 'it has ended once more')
  process.child.kill('SIGTERM')
  t.equal(await process.ended, 0)
})

/** The same data under one process after the other. */
const given = { cwd: folder(t), settings: settings({ workers: 2, graceful_shutdown_delay_seconds: 1 }) }
let running: Launched

t.test('after kill -9 quotas go on from what was counted by all threads', async test => {
  const process = launch(test, given)
  const { url, headers } = await withApi(process, { quota_max: 1000, quota_renewal_rate: 86_400 })
  await Promise.all(
    Array.from({ length: 20 }, async () => {
      for (let i = 0; i < 10; i++) test.equal((await get(url, headers, false)).statusCode, 200)
    })
  )
  const db = new DatabaseSync(join(given.cwd, 'data/svc.db'), { readOnly: true })
  const kept = () =>
    db.prepare(`SELECT body FROM documents WHERE kind = 'ledger'`).get() as { body: string } | undefined
  await until(() => JSON.parse(kept()?.body ?? '{}').count === 200, 'the ledger has it')
  db.close()
  process.child.kill('SIGKILL')
  await process.ended
  running = launch(t, given)
  const answer = await get(`${await running.ready}/a/`, headers, false)
  test.equal(answer.headers['x-ratelimit-remaining'], '799')
})

t.test('no request is lost while it stops under load, and quotas are kept to the last one', async test => {
  const process = running
  const { url, headers } = await withApi(process, { quota_max: 1_000_000, quota_renewal_rate: 86_400 })
  let answered = 0
  const lost: unknown[] = []
  const load = Array.from({ length: 32 }, async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    for (;;) {
      const answer = await get(url, headers, agent)
      answered++
      if (answer.statusCode !== 200) lost.push(answer.statusCode)
      if (answer.headers.connection === 'close') break
    }
    agent.destroy()
  })
  await until(() => answered > 500, 'the load runs')
  process.child.kill('SIGTERM')
  await Promise.all(load).catch(cause => lost.push(cause))
  test.same(lost, [])
  test.equal(await process.ended, 0)
  running = launch(t, given)
  const answer = await get(`${await running.ready}/a/`, headers, false)
  test.equal(answer.headers['x-ratelimit-remaining'], String(1_000_000 - answered - 1))
})

t.test('a port that is taken is one clear line and status 3', async t => {
  const memory = { storage: { documents: { type: 'memory' } } }
  const port = Number(new URL(await running.ready).port)
  const second = launch(t, { settings: settings({ workers: 2, listen_port: port }, memory) })
  t.equal(await second.ended, 3)
  t.match(second.stderr(), /^the gateway cannot start: .*EADDRINUSE.*\(gateway\.listen_port\)\n$/)
})

t.test('of two gateways that start in one moment, one has the port and the other says so', async t => {
  for (let i = 0; i < 3; i++) {
    const listen_port = await freePort()
    const given = { settings: settings({ workers: 2, listen_port }, { storage: { documents: { type: 'memory' } } }) }
    const both = [launch(t, given), launch(t, given)]
    const how = both.map(({ ready, ended }) => Promise.race([ready.then(() => 'ready').catch(() => 'none'), ended]))
    t.same((await Promise.all(how)).map(String).sort(), ['3', 'ready'].sort())
    for (const each of both) each.child.kill('SIGKILL')
    await Promise.all(both.map(({ ended }) => ended))
  }
})

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}
