import { request } from 'node:http'
import { connect } from 'node:net'
import t from 'tap'
import { gateway, SECRET, type TestGateway } from '../helpers/gateway.ts'

/** Everything that comes back on a connection that sends `parts`, one after another, each once there is an answer to wait for. */
function raw(url: string, text: string): Promise<string> {
  return new Promise(resolve => {
    const { hostname, port } = new URL(url)
    let got = ''
    const socket = connect(Number(port), hostname, () => socket.write(text))
    socket.on('data', chunk => {
      got += chunk
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve(got))
  })
}

const door = `X-Svc-Authorization: ${SECRET}\r\n`

t.test('a path without an endpoint is 404, a known path with another method 405 with Allow', async t => {
  const gw = await gateway(t)
  for (const path of ['/svc', '/svc/', '/svc/nothing', '/svc/keys/a/b', '/svc//keys', '/svc/%6beys/x/y']) {
    const { status, body } = await gw.svc('GET', path)
    t.equal(status, 404, path)
    t.same(body, { status: 'error', message: 'Not Found' })
  }
  const { status, body, headers } = await gw.svc('PATCH', '/svc/keys/abc', {})
  t.equal(status, 405)
  t.same(body, { status: 'error', message: 'Method not supported' })
  t.equal(headers.get('allow'), 'POST, PUT, GET, HEAD, DELETE')
})

t.test('a trailing slash is ignored, and an id is percent-decoded', async t => {
  const gw = await gateway(t)
  const key = { access_rights: { a: { api_id: 'a', api_name: 'a', versions: ['Default'] } } }
  t.equal((await gw.svc('POST', '/svc/keys/one%20two/', key)).body.key, 'one two')
  t.same((await gw.svc('GET', '/svc/keys/')).body, { keys: ['one two'] })
  t.equal((await gw.svc('GET', '/svc/keys/one%20two')).status, 200)
  t.equal((await gw.svc('GET', '/svc/keys/one%zztwo')).status, 400)
})

t.test('HEAD answers as GET does, without the body', async t => {
  const gw = await gateway(t)
  const answer = await fetch(`${gw.url}/svc/policies`, { method: 'HEAD', headers: { 'X-Svc-Authorization': SECRET } })
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('content-length'), '2')
  t.equal(await answer.text(), '')
})

t.test('a body above the limit is 413, told or found out while it comes', async t => {
  const gw = await gateway(t, { settings: { management: { max_body_size: 2048 } } })
  const told = await gw.svc('POST', '/svc/keys/create', 'x'.repeat(3000))
  t.equal(told.status, 413)
  t.same(told.body, { status: 'error', message: 'Request Entity Too Large' })
  const chunks = `${(1500).toString(16)}\r\n${'x'.repeat(1500)}\r\n`.repeat(2)
  const found = await raw(
    gw.url,
    `POST /svc/keys/create HTTP/1.1\r\nHost: a\r\n${door}Transfer-Encoding: chunked\r\n\r\n${chunks}`
  )
  t.match(found, /^HTTP\/1\.1 413 /)
  t.equal((await gw.get('/hello')).status, 200)
})

t.test('a body that breaks off harms nobody', async t => {
  const gw = await gateway(t)
  const { hostname, port } = new URL(gw.url)
  await new Promise<void>(resolve => {
    const socket = connect(Number(port), hostname, () => {
      socket.write(`POST /svc/keys/create HTTP/1.1\r\nHost: a\r\n${door}Content-Length: 100\r\n\r\n{"rate"`, () =>
        socket.destroy()
      )
    })
    socket.on('close', () => resolve())
  })
  t.same((await gw.svc('GET', '/svc/keys')).body, { keys: [] })
})

t.test('a body that does not come in time is 408', async t => {
  const gw = await gateway(t, { settings: { gateway: { http_server_options: { read_timeout: 0.2 } } } })
  const head = `POST /svc/keys/create HTTP/1.1\r\nHost: a\r\n${door}Content-Length: 100\r\n\r\n{`
  const answer = await raw(gw.url, head)
  t.match(answer, /^HTTP\/1\.1 408 /)
  t.match(answer, /\{"status":"error","message":"Request body was not received in time"\}$/)
})

t.test('a client that waits for 100 Continue gets it behind the door, and a refusal before it', async t => {
  const gw = await gateway(t)
  t.equal(await expecting(gw, { 'X-Svc-Authorization': SECRET }), '100 400')
  t.equal(await expecting(gw, {}), '403')
})

function expecting(gw: TestGateway, headers: Record<string, string>): Promise<string> {
  return new Promise((resolve, reject) => {
    let seen = ''
    const req = request(
      `${gw.url}/svc/keys/create`,
      { method: 'POST', agent: false, headers: { ...headers, Expect: '100-continue', 'Content-Length': '2' } },
      res => {
        res.resume()
        resolve(seen + res.statusCode)
        req.destroy()
      }
    )
    req.on('continue', () => {
      seen = '100 '
      req.end('{}')
    })
    req.on('error', reject)
    req.flushHeaders()
  })
}

t.test('with a control port /svc answers only there, on a server as hard as the other', async t => {
  const gw = await gateway(t, { settings: { gateway: { control_api_port: await freePort() } } })
  t.not(gw.controlUrl, gw.url)
  const headers = { 'X-Svc-Authorization': SECRET }
  const there = await fetch(`${gw.controlUrl}/svc/keys`, { headers })
  t.same(await there.json(), { keys: [] })
  const here = await fetch(`${gw.url}/svc/keys`, { headers })
  t.equal(here.status, 404)
  t.same(await here.json(), { error: 'Not Found' })
  for (const path of ['/hello', '/', '/echo/'])
    t.equal((await fetch(gw.controlUrl + path, { headers })).status, 404, path)
  const malformed = [
    `GET /svc/keys HTTP/1.1\r\nHost: a\r\nHost: b\r\n${door}Connection: close\r\n\r\n`,
    `POST /svc/keys HTTP/1.1\r\nHost: a\r\n${door}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    'nonsense\r\n\r\n'
  ]
  for (const text of malformed) {
    const answer = await raw(gw.controlUrl, text)
    t.match(answer, /^HTTP\/1\.1 (?:400|501) /)
    t.match(answer, /Content-Type: application\/json/)
  }
})

t.test('a slow head is cut off on the control port as well', async t => {
  const gw = await gateway(t, {
    settings: { gateway: { control_api_port: await freePort(), http_server_options: { read_timeout: 0.2 } } }
  })
  for (const url of [gw.url, gw.controlUrl]) t.match(await raw(url, 'GET /svc/keys HTTP/1.1\r\nHo'), /^HTTP\/1\.1 408 /)
})

async function freePort(): Promise<number> {
  const { createServer } = await import('node:net')
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise(resolve => server.close(resolve))
  return port
}
