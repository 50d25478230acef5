import { once } from 'node:events'
import type { OutgoingHttpHeaders } from 'node:http'
import { request } from 'node:https'
import t from 'tap'
import { api } from '../helpers/gateway.ts'
import { upstream } from '../helpers/upstream.ts'
import { ask, files, http2, issued, pemOf, secure } from './secure.ts'

const { a } = files(t, { a: pemOf(issued('a.example')) })
const up = await upstream(t)
const gw = await secure(t, [a!], { apis: [api('x', up.url)] })

/** Over HTTP/1.1. */
async function status(headers: OutgoingHttpHeaders): Promise<number> {
  const call = request({ port: gw.port, path: '/x/', headers, rejectUnauthorized: false, agent: false }).end()
  const [answer] = await once(call, 'response')
  answer.resume()
  return answer.statusCode
}

t.test('heads have the same bounds in every version', async t => {
  const session = http2(t, gw.port)
  await once(session, 'remoteSettings')
  // Its bounds count once they are acknowledged.
  t.equal((await ask(session, { ':path': '/x/' })).status, 200)
  for (const [what, count, length, expected] of [
    ['many fields', 900, 3, 200],
    ['many large fields', 30, 500, 200],
    ['too many fields', 1_001, 1, 431],
    ['too large', 30, 600, 431],
    ['both', 1_003, 20, 431]
  ] as const) {
    const fields = Array.from({ length: count }, (_, i) => [`x-${i}`, 'b'.repeat(length)])
    const headers = Object.fromEntries(fields)
    t.equal(await status(headers), expected, `HTTP/1.1, ${what}`)
    t.equal((await ask(session, { ':path': '/x/', ...headers })).status, expected, `HTTP/2, ${what}`)
  }
})

const NAMES = ['Client-Cert', 'client_cert', 'CLIENT_CERT_CHAIN', 'Client-Cert_Chain', 'client_Cert-Chain']

t.test('what strangers say of their certificates reaches no upstream', async t => {
  const headers = Object.fromEntries(NAMES.map(name => [name, ':AAAA:']))
  const lower = Object.fromEntries(NAMES.map(name => [name.toLowerCase(), ':AAAA:']))
  const trusting = await secure(t, [a!], { settings: { trusted_proxies: ['127.0.0.1/32'] }, apis: [api('x', up.url)] })
  const come = () => Object.keys(up.requests.at(-1)!.headers).filter(name => /client.cert/.test(name))
  t.equal(await status(headers), 200)
  t.same(come(), [], 'HTTP/1.1')
  t.equal((await ask(http2(t, gw.port), { ':path': '/x/', ...lower })).status, 200)
  t.same(come(), [], 'HTTP/2')
  t.equal((await ask(http2(t, trusting.port), { ':path': '/x/', ...lower })).status, 200)
  t.same(come(), ['client-cert'], 'trusted proxies are believed, in the spelling of RFC 9440 alone')
})
