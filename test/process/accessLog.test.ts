import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { api, withKey } from '../helpers/gateway.ts'
import { folder, launch, SECRET, settings } from '../helpers/process.ts'
import { rawUpstream, upstream } from '../helpers/upstream.ts'

t.setTimeout(120_000)

const memory = { storage: { documents: { type: 'memory' } } }
const rights = (id: string) => ({ [id]: { api_id: id, api_name: id, versions: ['Default'] } })

async function until(look: () => boolean): Promise<void> {
  while (!look()) await new Promise(resolve => setTimeout(resolve, 5))
}

function linesOf(file: string): any[] {
  if (!existsSync(file)) return []
  const lines = readFileSync(file, 'utf8').split('\n')
  return lines.slice(0, -1).map(line => JSON.parse(line))
}

/** Sends text on a connection of its own and waits for its end. */
function raw(url: string, text: string | Buffer): Promise<string> {
  return new Promise(resolve => {
    const { hostname, port } = new URL(url)
    let got = ''
    const socket = connect(Number(port), hostname, () => socket.write(text))
    socket.on('error', () => {})
    socket.on('data', chunk => {
      got += chunk.toString('latin1')
    })
    socket.on('close', () => resolve(got))
  })
}

const process = launch(t, { settings: settings({}, memory) })
const url = await process.ready

t.test('a request is one line with exactly these members', async t => {
  const up = await upstream(t, (_req, res) => res.end('hello'))
  await process.svc('POST', '/svc/apis/oas', api('a', up.url, { server: withKey }))
  const { body } = await process.svc('POST', '/svc/keys/create', { rate: 1, per: 60, access_rights: rights('a') })
  const headers = { Authorization: body.key }
  for (const given of [headers, headers, {}])
    await (await fetch(`${url}/a/x?token=in-the-query`, { headers: given })).text()
  await (await fetch(`${url}/no%22where/%F0%9F%94%91`)).text()
  await process.line(({ path }) => path === '/no%22where/%F0%9F%94%91')
  const [passed, limited, refused, nowhere, ...more] = process.lines().filter(({ msg }) => msg === 'access')
  t.same(more, [])
  const common = {
    level: 'info',
    time: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
    api_id: 'a',
    api_name: 'a',
    org_id: 'default',
    client: '127.0.0.1',
    method: 'GET',
    host: '127.0.0.1',
    path: '/a/x',
    total_ms: Number,
    gateway_ms: Number,
    upstream_ms: Number
  }
  t.match(passed, { ...common, key: body.key_hash, status: 200, bytes: 5, refusal: '' })
  t.match(limited, { ...common, key: body.key_hash, status: 429, refusal: 'rate_exceeded' })
  t.match(refused, { ...common, key: '', status: 401, refusal: 'auth_missing' })
  t.match(nowhere, { api_id: '', key: '', status: 404, refusal: 'no_route' })
  t.equal(Object.keys(passed).length, 17)
  t.notOk(process.stdout().includes('in-the-query'))
  t.notOk(process.stdout().includes(body.key))
})

t.test('what clients send, odd bytes and all, leaves the lines whole', async t => {
  const before = process.lines().filter(({ msg }) => msg === 'access').length
  const paths = ['/a"b', '/a\\b', '/%00%0a', '/\x7f', '/\xff\xfe', '/a{}|^`', '/end']
  for (const host of ['a"b\\c', 'a'])
    for (const path of paths)
      await raw(url, Buffer.from(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`, 'latin1'))
  await process.line(({ path }) => path === '/end')
  t.ok(process.lines().filter(({ msg }) => msg === 'access').length - before >= 7)
})

t.test('a client that left is 499, an upgrade 101', async t => {
  const up = await upstream(t, () => {})
  const switching = await rawUpstream(t, socket => {
    socket.on('data', () =>
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n')
    )
  })
  await process.svc('POST', '/svc/apis/oas', api('slow', up.url))
  await process.svc('POST', '/svc/apis/oas', api('ws', switching.url))
  const gone = new AbortController()
  const asked = fetch(`${url}/slow/`, { signal: gone.signal })
  await until(() => up.requests.length === 1)
  gone.abort()
  await t.rejects(asked)
  t.match(await process.line(({ api_id }) => api_id === 'slow'), { status: 499 })
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname, () =>
    socket.write('GET /ws/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n')
  )
  await new Promise(resolve => socket.once('data', resolve))
  socket.destroy()
  t.match(await process.line(({ api_id }) => api_id === 'ws'), { status: 101 })
})

t.test('with short times', async t => {
  const short = { http_server_options: { read_timeout: 1 }, proxy_default_timeout: 1 }
  const process = launch(t, { settings: settings(short, memory) })
  const url = await process.ready

  t.test('what was no request, or no clear one, has its line too', async t => {
    const wrong: [string, number, string, string][] = [
      ['GET /two HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n', 400, 'ambiguous_request', ''],
      [
        'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
        400,
        'ambiguous_request',
        ''
      ],
      ['GET / HTTP/1.1\r\nHost : a\r\n\r\n', 400, 'ambiguous_request', ''],
      [`GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431, 'header_overflow', ''],
      ['NONSENSE / HTTP/1.1\r\nHost: a\r\n\r\n', 501, 'method_not_implemented', ''],
      ['GET / HTTP/1.1\r\nHo', 408, 'head_timeout', ''],
      ['GET /two/hosts?query HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n', 400, 'ambiguous_request', '/two/hosts'],
      ['GET /frag#query HTTP/1.1\r\nHost: a\r\n\r\n', 400, 'ambiguous_request', '/frag']
    ]
    for (const [index, [text, status, refusal, path]] of wrong.entries()) {
      await raw(url, text)
      await until(() => process.lines().filter(({ msg }) => msg === 'access').length > index)
      const line = process.lines().filter(({ msg }) => msg === 'access')[index]
      t.match(
        line,
        { status, refusal, path, client: '127.0.0.1', api_id: '', host: '' },
        JSON.stringify(text.slice(0, 60))
      )
      t.equal(Object.keys(line).length, 17)
    }
    t.equal(process.lines().filter(({ msg }) => msg === 'access').length, wrong.length)
  })

  t.test('an upstream that never answers has the time it was given, not the gateway', async t => {
    const up = await upstream(t, () => {})
    await process.svc('POST', '/svc/apis/oas', api('slow', up.url))
    t.equal((await fetch(`${url}/slow/`)).status, 504)
    const { upstream_ms, gateway_ms, total_ms } = await process.line(
      ({ msg, api_id }) => msg === 'access' && api_id === 'slow'
    )
    t.ok(upstream_ms > 0, `${upstream_ms} of ${total_ms} ms`)
    t.equal(upstream_ms + gateway_ms, total_ms)
  })
})

t.test('SIGHUP opens the file anew; one that cannot be opened leaves the old one', async t => {
  const cwd = folder(t)
  mkdirSync(join(cwd, 'logs'))
  const file = join(cwd, 'logs/access.log')
  const process = launch(t, { cwd, settings: settings({ access_logs: { path: file } }, memory) })
  const url = await process.ready
  await fetch(`${url}/first`)
  await until(() => linesOf(file).length === 1)
  renameSync(file, `${file}.1`)
  process.child.kill('SIGHUP')
  await process.line(({ msg }) => msg === 'reloaded')
  await fetch(`${url}/second`)
  await until(() => linesOf(file).length === 1)
  t.equal(linesOf(`${file}.1`)[0].path, '/first')
  t.equal(linesOf(file)[0].path, '/second')
  renameSync(join(cwd, 'logs'), join(cwd, 'moved'))
  process.child.kill('SIGHUP')
  t.match(await process.line(({ msg }) => msg === 'the access log was not opened anew: the old file stays'), {
    level: 'error',
    cause: /access\.log/
  })
  await until(() => process.lines().filter(({ msg }) => msg === 'reloaded').length === 2)
  await fetch(`${url}/third`)
  await until(() => linesOf(join(cwd, 'moved/access.log')).length === 2)
  t.equal(process.stdout().includes('"msg":"access"'), false)
})

t.test('a disk that is full is told once, and requests go on', async t => {
  const process = launch(t, { settings: settings({ access_logs: { path: '/dev/full' } }, memory) })
  const url = await process.ready
  await fetch(`${url}/a`)
  t.match(await process.line(({ msg }) => msg === 'access log'), { path: '/dev/full', cause: /ENOSPC/ })
  t.equal((await fetch(`${url}/hello`)).status, 200)
  process.child.kill('SIGTERM')
  t.equal(await process.ended, 0)
  t.equal(process.lines().filter(({ msg }) => msg === 'access log').length, 1)
})

t.test('no secret stands in any line, whatever fails', async t => {
  const secrets = {
    admin: 'admin-secret-never-shown',
    password: 'p4ssword-never-shown',
    cookie: 'cookie-never-shown',
    query: 'query-never-shown',
    custom: 'custom-key-never-shown',
    header: 'header-never-shown',
    body: 'body-never-shown'
  }
  const dead = await rawUpstream(t, socket => socket.destroy())
  const garbage = await rawUpstream(t, socket => socket.end(`${secrets.body}\r\n\r\n`))
  const cwd = folder(t)
  const process = launch(t, { cwd, settings: settings({}, { management: { admin_secret: secrets.admin } }) })
  const url = await process.ready
  const upstreams = { dead: dead.url, garbage: garbage.url, away: 'http://127.0.0.1:1' }
  for (const [id, to] of Object.entries(upstreams)) {
    const withPassword = to.replace('http://', `http://user:${secrets.password}@`)
    const made = await process.svc('POST', '/svc/apis/oas', api(id, withPassword, { server: withKey }))
    if (made.status !== 200) await process.svc('POST', '/svc/apis/oas', api(id, to, { server: withKey }))
  }
  const made = await process.svc('POST', '/svc/keys/create', {
    rate: 1000,
    per: 1,
    quota_max: 20,
    quota_renewal_rate: 60,
    hmac_string: secrets.body,
    access_rights: { ...rights('dead'), ...rights('garbage'), ...rights('away') }
  })
  const { key } = made.body
  await process.svc('POST', `/svc/keys/${secrets.custom}`, { rate: 1, per: 60, access_rights: rights('dead') })
  for (const id of ['dead', 'garbage', 'away', 'nowhere'])
    for (const Authorization of [key, secrets.custom, `${key}x`, `Bearer ${secrets.header}`])
      for (let i = 0; i < 3; i++)
        await fetch(`${url}/${id}/?token=${secrets.query}&auth=${secrets.query}`, {
          method: 'POST',
          headers: { Authorization, Cookie: `session=${secrets.cookie}`, 'X-Secret': secrets.header },
          body: secrets.body
        })
  for (const path of [
    '/svc/keys',
    '/svc/keys/create',
    `/svc/keys/${secrets.custom}`,
    '/svc/nothing',
    '/svc/apis/oas'
  ]) {
    for (const given of [SECRET, secrets.admin, `${SECRET}x`])
      await fetch(url + path, {
        method: 'PUT',
        headers: { 'X-Svc-Authorization': given },
        body: `{"x": ${secrets.body}`
      })
  }
  await raw(url, `GET /?${secrets.query} HTTP/1.1\r\nHost: a\r\nHost: b\r\nCookie: ${secrets.cookie}\r\n\r\n`)
  await raw(url, `${secrets.body} ${secrets.query}\r\n\r\n`)
  process.child.kill('SIGHUP')
  await process.line(({ msg }) => msg === 'reloaded')
  process.child.kill('SIGTERM')
  t.equal(await process.ended, 0)
  const all = process.stdout() + process.stderr()
  t.match(all, /upstream failed/)
  t.match(all, /"msg":"event"/)
  for (const [name, secret] of Object.entries({ ...secrets, gateway: SECRET, key })) t.notOk(all.includes(secret), name)
})
