import { createHash } from 'node:crypto'
import { request } from 'node:https'
import t from 'tap'
import { gateway } from '../../helpers/gateway.ts'
import { streamApi, streamsOn } from '../../helpers/streamClients.ts'
import { ask as askHttp } from '../../steps/ask.ts'
import { ask, files, http2, issued, pemOf, secure } from '../../tls/secure.ts'
import { byHmac, draft, keyNamed, message, SECRET, said, signedApi } from './signing.ts'

const mac = { hmac_enabled: true, hmac_string: SECRET }
const sha256 = byHmac('sha256', SECRET)
const now = () => `;created=${Math.floor(Date.now() / 1000)};keyid="ada"`
const any = { messageSignatures: { enabled: true, requiredComponents: [] } }

t.test('over HTTPS and HTTP/2 the same is signed, with the scheme of the connection', async t => {
  const { server } = files(t, { server: pemOf(issued('api.example')) })
  const gw = await secure(t, [server!], {
    apis: [signedApi(any), signedApi({ hmac: { enabled: true } }, 'svc://echo', 'draft')]
  })
  await keyNamed(gw, 'ada', { ...mac, access_rights: { a: { api_id: 'a' }, draft: { api_id: 'draft' } } })
  const lines = (scheme: string, authority = 'api.example'): [string, string][] => [
    ['"@method"', 'GET'],
    ['"@scheme"', scheme],
    ['"@authority"', authority],
    ['"@target-uri"', `${scheme}://${authority}/a/x?b=1`],
    ['"@request-target"', '/a/x?b=1'],
    ['"cookie"', 'a=1; b=2']
  ]
  const text = '(request-target): get /draft/x?b=1\nhost: api.example\nx-a: 1'
  const Authorization = draft({ keyId: 'ada', headers: '(request-target) host x-a' }, text, byHmac('sha1', SECRET))
  const overHttp1 = (path: string, headers: Record<string, string>) =>
    new Promise<number>((resolve, reject) => {
      const given = { host: '127.0.0.1', port: gw.port, path, headers, rejectUnauthorized: false }
      request(given, res => resolve(res.resume().statusCode!))
        .on('error', reject)
        .end()
    })
  const session = http2(t, gw.port)
  const overHttp2 = async (path: string, { Host, ...rest }: Record<string, string>) =>
    (await ask(session, { ':method': 'GET', ':path': path, ':authority': Host!, ...rest })).status
  for (const asked of [overHttp1, overHttp2]) {
    const fields = { Cookie: 'a=1; b=2' }
    const signed = (scheme: string, authority?: string) => message(lines(scheme, authority), now(), sha256)
    t.equal(await asked('/a/x?b=1', { Host: 'api.example', ...fields, ...signed('https') }), 200)
    t.equal(await asked('/a/x?b=1', { Host: 'API.example:443', ...fields, ...signed('https') }), 200)
    t.equal(await asked('/a/x?b=1', { Host: 'api.example:80', ...fields, ...signed('https', 'api.example:80') }), 200)
    t.equal(await asked('/a/x?b=1', { Host: 'api.example:80', ...fields, ...signed('https') }), 401)
    t.equal(await asked('/a/x?b=1', { Host: 'api.example', ...fields, ...signed('http') }), 401)
    t.equal(await asked('/draft/x?b=1', { Host: 'api.example', 'X-A': '1', Authorization }), 200)
    t.equal(await asked('/draft/x?b=2', { Host: 'api.example', 'X-A': '1', Authorization }), 400)
  }
})

t.test('streams take signatures, but none over a body, which flows', async t => {
  const document = streamApi(
    'a',
    {
      in: {
        input: { http_server: { path: '/in' } },
        output: { kafka: { addresses: ['memory://signatures'], topic: 'signatures' } }
      }
    },
    { server: { authentication: { enabled: true, ...any } } }
  )
  const gw = await gateway(t, { settings: streamsOn(), apis: [document] })
  await keyNamed(gw, 'ada', mac)
  const body = '{"a":1}'
  const digest = `sha-256=:${createHash('sha256').update(body).digest('base64')}:`
  const post = async (lines: [string, string][]) => {
    const headers = { Host: 'api.example', 'Content-Digest': digest, ...message(lines, now(), sha256) }
    return said(await askHttp(gw, '/a/in', { method: 'POST', headers, body }))
  }
  t.same(await post([['"@method"', 'POST']]), [200, ''])
  t.same(await post([['"content-digest"', digest]]), [401, '{"error":"Request signature verification failed"}'])
})
