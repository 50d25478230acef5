import t from 'tap'
import { api } from '../helpers/gateway.ts'
import { upstream } from '../helpers/upstream.ts'
import { block, END_HEADERS, END_STREAM, frame, frames, HEADERS } from '../tls/frames.ts'
import { files, issued, pemOf, secure } from '../tls/secure.ts'

/** What HTTP/1.1 says of it stands in the corpus. */
t.test('several Authorization fields over HTTP/2 are refused, and nothing reaches the upstream', async t => {
  const { a } = files(t, { a: pemOf(issued('a.example')) })
  const up = await upstream(t, (_req, res) => void res.end('ok'))
  const gw = await secure(t, [a!], { apis: [api('x', up.url)] })
  const usual = [
    [':method', 'GET'],
    [':scheme', 'https'],
    [':path', '/x/'],
    [':authority', 'a.example']
  ] as const
  const one = ['authorization', 'x'] as const
  const status = async (...more: (readonly [string, string])[]) => {
    const client = await frames(t, gw.port)
    client.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, block([...usual, ...more])))
    return client.outcome(1)
  }
  t.equal(await status(one), 'status:200')
  for (const second of ['x', 'y', '']) t.equal(await status(one, ['authorization', second]), 'status:400', second)
  t.equal(up.requests.length, 1)
})
