import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { api } from '../helpers/gateway.ts'
import { folder, launch, runtime, SECRET, settings } from '../helpers/process.ts'
import { upstream } from '../helpers/upstream.ts'

t.setTimeout(180_000)

const memory = { storage: { documents: { type: 'memory' } } }

/** Resolves once the answer to `look` is true: asks again with each turn of the event loop. */
async function until(look: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await look())) await new Promise(resolve => setTimeout(resolve, 5))
}

const ready = async (url: string) => (await fetch(`${url}/ready`)).status

/** A connection that has sent the head of a request, and what has come back on it. */
function held(url: string, path: string): Promise<{ socket: Socket; got: () => string; closed: Promise<void> }> {
  const { hostname, port } = new URL(url)
  return new Promise(resolve => {
    let got = ''
    const socket = connect(Number(port), hostname, () => {
      socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`, () => resolve({ socket, got: () => got, closed }))
    })
    const closed = new Promise<void>(done => socket.on('close', () => done()))
    socket.on('error', () => {})
    socket.on('data', chunk => {
      got += chunk
    })
  })
}

/** Sends a request so many times on one connection; the answer is how many answers came until it ended. */
function answers(url: string, request: string, count: number): Promise<number> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    let got = ''
    const socket = connect(Number(port), hostname, () => socket.write(request.repeat(count)))
    socket.on('data', chunk => {
      got += chunk
      if (got.split('HTTP/1.1 404 ').length > count) socket.end()
    })
    socket.on('error', reject)
    socket.on('close', () => resolve(got.split('HTTP/1.1 404 ').length - 1))
  })
}

t.test('SIGTERM: not ready at once, still listening for a while, what is under way finishes, status 0', async t => {
  let finish: () => void = () => {}
  const up = await upstream(t, (_req, res) => {
    finish = () => res.end('finished')
  })
  const process = launch(t, { settings: settings({ graceful_shutdown_delay_seconds: 3 }, memory) })
  const url = await process.ready
  await process.svc('POST', '/svc/apis/oas', api('slow', up.url))
  const slow = await held(url, '/slow/')
  const idle = await held(url, '/hello')
  await until(() => up.requests.length === 1 && idle.got() !== '')
  process.child.kill('SIGTERM')
  await process.line(({ msg }) => msg === 'stopping')
  t.equal(await ready(url), 503)
  t.equal((await fetch(`${url}/hello`)).status, 200)
  await idle.closed
  t.equal(slow.got(), '')
  await t.rejects(fetch(`${url}/hello`))
  finish()
  await slow.closed
  t.match(slow.got(), /finished/)
  t.equal(await process.ended, 0)
  t.equal(process.lines().at(-1).msg, 'stopped')
})

t.test('what does not finish in time is cut off, and the status is still 0', async t => {
  const up = await upstream(t, () => {})
  const process = launch(t, { settings: settings({ graceful_shutdown_timeout_duration: 0.2 }, memory) })
  await process.ready
  await process.svc('POST', '/svc/apis/oas', api('slow', up.url))
  const slow = await held(await process.ready, '/slow/')
  await until(() => up.requests.length === 1)
  process.child.kill('SIGINT')
  await slow.closed
  t.equal(await process.ended, 0)
})

t.test('a signal that npm repeats is no second one; one half a second later ends at once', async t => {
  const process = launch(t, { settings: settings({ graceful_shutdown_delay_seconds: 600 }, memory) })
  await process.ready
  process.child.kill('SIGINT')
  process.child.kill('SIGINT')
  const { time } = await process.line(({ msg }) => msg === 'stopping')
  t.equal(await ready(await process.ready), 503)
  await until(() => Date.now() - Date.parse(time) > 510)
  t.equal(await ready(await process.ready), 503)
  process.child.kill('SIGINT')
  t.equal(await process.ended, 1)
})

t.test('while it serves', async t => {
  const up = await upstream(t)
  const cwd = folder(t)
  mkdirSync(join(cwd, 'apis'))
  const write = (name: string, text: unknown) =>
    writeFileSync(join(cwd, 'apis', name), typeof text === 'string' ? text : JSON.stringify(text))
  write('a.json', api('a', up.url))
  const process = launch(t, { cwd, node: ['--import', runtime], settings: settings({ app_path: 'apis' }, memory) })
  const url = await process.ready

  t.test('probes answer GET and HEAD, nothing else', async t => {
    for (const path of ['/hello', '/ready']) {
      const answer = await fetch(url + path)
      t.equal(answer.status, 200)
      t.match(await answer.json(), {
        status: 'pass',
        version: /^v\d/,
        description: 'svc gateway',
        details: { documents: { status: 'pass', componentType: 'datastore', time: /Z$/ } }
      })
      t.equal((await fetch(url + path, { method: 'HEAD' })).status, 200)
      const refused = await fetch(url + path, { method: 'POST', body: 'x' })
      t.equal(refused.status, 405)
      t.equal(refused.headers.get('allow'), 'GET, HEAD')
      t.same(await refused.json(), { status: 'error', message: 'Method Not Allowed' })
    }
  })

  t.test('SIGHUP reads the folders again; a fault in one keeps the old state', async t => {
    t.equal((await fetch(`${url}/a/`)).status, 200)
    write('b.json', api('b', up.url))
    process.child.kill('SIGHUP')
    await process.line(({ msg }) => msg === 'reloaded')
    t.equal((await fetch(`${url}/b/`)).status, 200)
    write('a.json', '{"openapi":')
    write('c.json', api('c', up.url))
    process.child.kill('SIGHUP')
    const { faults } = await process.line(({ msg }) => msg === 'not reloaded: the old state stays')
    t.match(faults.join(), /a\.json/)
    t.equal((await fetch(`${url}/a/`)).status, 200)
    t.equal((await fetch(`${url}/c/`)).status, 404)
    const { status, body } = await process.svc('GET', '/svc/reload')
    t.equal(status, 422)
    t.match(body.message, /a\.json/)
  })

  t.test('signals are its own: it has reloaded, and it stops in order', async t => {
    process.child.kill('SIGTERM')
    t.equal(await process.ended, 0)
    t.equal(process.lines().at(-1).msg, 'stopped')
  })
})

t.test('a reader of standard output that goes away or falls asleep harms nobody', async t => {
  const request = `GET /${'x'.repeat(2000)} HTTP/1.1\r\nHost: a\r\n\r\n`
  const cases = (['destroy', 'pause'] as const).map(async leave => {
    const process = launch(t, { settings: settings({}, memory) })
    const url = await process.ready
    process.child.stdout![leave]()
    const asked = Array.from({ length: 50 }, () => answers(url, request, 40))
    for (const got of await Promise.all(asked)) t.equal(got, 40, leave)
    t.equal(await ready(url), 200)
    process.child.kill('SIGTERM')
    const [status] = await new Promise<any[]>(resolve => process.child.on('exit', (...given) => resolve(given)))
    t.equal(status, 0, leave)
    process.child.stdout!.destroy()
  })
  await Promise.all(cases)
})

t.test('what nobody caught is told in one line and ends the process with status 1', async t => {
  const faults = ["throw new Error('unforeseen')", "Promise.reject(new Error('unforeseen'))"]
  const cases = faults.map(async fault => {
    const when = `data:text/javascript,process.on('SIGUSR2',()=>{${fault}})`
    const process = launch(t, { node: [`--import=${when}`], settings: settings({}, memory) })
    await process.ready
    process.child.kill('SIGUSR2')
    t.equal(await process.ended, 1)
    t.match(process.lines().at(-1), { level: 'error', msg: 'fault: the process ends', cause: 'Error: unforeseen' })
    t.equal(process.stderr(), '')
  })
  await Promise.all(cases)
})

t.test('a signal before anything of it is loaded ends it with status 0; SIGHUP does nothing there', async t => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    // Keeps the start where it is.
    const hold = `data:text/javascript,console.log('{"msg":"loading"}');await new Promise(()=>setInterval(()=>{},1e9))`
    const process = launch(t, { node: ['--import', runtime, `--import=${hold}`] })
    await process.line(({ msg }) => msg === 'loading')
    process.child.kill('SIGHUP')
    process.child.kill(signal)
    t.equal(await process.ended, 0, signal)
  }
})

t.test('heads that never come to their end do not hold up the stop', async t => {
  const process = launch(t, { settings: settings({ graceful_shutdown_timeout_duration: 600 }, memory) })
  const url = new URL(await process.ready)
  const half = 'GET /hello HTTP/1.1\r\nHo'
  // Half-open: the gateway's end of the connection is not answered by one of theirs.
  const open = (text: string) => {
    const socket = connect({ port: Number(url.port), host: url.hostname, allowHalfOpen: true })
    socket.on('error', () => {})
    t.teardown(() => void socket.destroy())
    socket.write(text)
    return socket
  }
  const second = open(`GET /hello HTTP/1.1\r\nHost: a\r\n\r\n${half}`)
  open(half)
  open('')
  await new Promise(resolve => second.once('data', resolve))
  process.child.kill('SIGTERM')
  t.equal(await process.ended, 0)
  t.notOk(process.lines().some(({ msg }) => msg === 'requests under way were cut off'))
})

t.test('a signal while it starts ends it with status 0', async t => {
  const cwd = folder(t)
  mkdirSync(join(cwd, 'apis'))
  for (let i = 0; i < 500; i++)
    writeFileSync(join(cwd, `apis/${i}.json`), JSON.stringify(api(`a${i}`, 'http://127.0.0.1:1')))
  const process = launch(t, { cwd, settings: settings({ app_path: 'apis' }) })
  await until(() => {
    try {
      return readFileSync(join(cwd, 'data/svc.db')).length > 0
    } catch {
      return false
    }
  })
  process.child.kill('SIGTERM')
  t.equal(await process.ended, 0)
})

t.test('quotas that were counted stand after a stop', async t => {
  const cwd = folder(t)
  const up = await upstream(t)
  const first = launch(t, { cwd })
  await first.ready
  const authentication = { enabled: true, securitySchemes: { key: { enabled: true } } }
  await first.svc('POST', '/svc/apis/oas', api('a', up.url, { server: { authentication } }))
  const rights = { a: { api_id: 'a', api_name: 'a', versions: ['Default'] } }
  const { body } = await first.svc('POST', '/svc/keys/create', {
    quota_max: 10,
    quota_renewal_rate: 3600,
    access_rights: rights
  })
  for (let i = 0; i < 4; i++) await fetch(`${await first.ready}/a/`, { headers: { Authorization: body.key } })
  first.child.kill('SIGTERM')
  t.equal(await first.ended, 0)
  const second = launch(t, { cwd })
  await second.ready
  t.equal((await second.svc('GET', `/svc/keys/${body.key}`)).body.quota_remaining, 6)
  t.notOk(first.stdout().includes(SECRET))
})
