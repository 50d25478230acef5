import { mkdtempSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { api, gateway } from '../helpers/gateway.ts'
import { upstream } from '../helpers/upstream.ts'

t.test('a client that leaves in the middle of its body is 499 in the access log, not a malformed request', async t => {
  const path = join(mkdtempSync(join(tmpdir(), 'svc-left-')), 'access.log')
  const up = await upstream(t, req => void req.resume())
  const gw = await gateway(t, {
    settings: { gateway: { access_logs: { enabled: true, path } } },
    apis: [api('a', up.url)]
  })
  const client = connect(Number(new URL(gw.url).port), '127.0.0.1')
  client.write('POST /a/ HTTP/1.1\r\nHost: a\r\nContent-Length: 70000\r\n\r\nabc')
  while (up.requests.length === 0) await new Promise<void>(resolve => setImmediate(resolve))
  client.end()
  let line: { status: number; refusal: string } | undefined
  while (line === undefined) {
    await new Promise<void>(resolve => setImmediate(resolve))
    const text = readFileSync(path, 'utf8').trim()
    if (text !== '') line = JSON.parse(text.split('\n').at(-1)!)
  }
  t.match(line, { status: 499, refusal: '' })
})
