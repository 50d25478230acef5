import { request } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { isForwarded, presented, presentedOf } from '../../../gateway/certificates/presented.ts'
import { certificate, hashOf } from '../../helpers/certificates.ts'
import { api, gateway } from '../../helpers/gateway.ts'
import { upstream } from '../../helpers/upstream.ts'
import { behindProxy, byteSequence, forwarded } from './made.ts'

const own = certificate()
const other = certificate()
const text = byteSequence(own.pem)
const der = own.certificate.raw

const asked = (rawHeaders: readonly string[], trusted = true) => ({
  peer: { trusted, presented: null },
  req: { rawHeaders }
})

t.test('what is read of Client-Cert and Client-Cert-Chain', async t => {
  const of = (...rawHeaders: string[]) => {
    const shown = presented(asked(rawHeaders))
    return shown === null
      ? null
      : [shown.fingerprint, ...shown.intermediates.map(({ fingerprint256 }) => fingerprint256)]
  }
  const [first, second] = [hashOf(own), other.certificate.fingerprint256]
  const rest = byteSequence(other.pem)
  const cases: [name: string, headers: string[], read: string[] | null][] = [
    ['nothing', [], null],
    ['a certificate', ['Client-Cert', text], [first]],
    ['in any case', ['cLIENT-cERT', text], [first]],
    ['with white space around it', ['Client-Cert', ` ${text}\t`], [first]],
    ['a chain', ['Client-Cert', text, 'Client-Cert-Chain', rest], [first, second]],
    [
      'a chain in several lines',
      ['Client-Cert-Chain', rest, 'Client-Cert', text, 'Client-Cert-Chain', rest],
      [first, second, second]
    ],
    ['an empty chain', ['Client-Cert', text, 'Client-Cert-Chain', ''], [first]],
    ['a chain alone', ['Client-Cert-Chain', rest], null],
    ['a certificate twice', ['Client-Cert', text, 'Client-Cert', text], null],
    ['two certificates', ['Client-Cert', `${text}, ${text}`], null],
    ['without colons', ['Client-Cert', text.slice(1, -1)], null],
    ['without the last colon', ['Client-Cert', text.slice(0, -1)], null],
    ['empty', ['Client-Cert', ''], null],
    ['no bytes', ['Client-Cert', '::'], null],
    ['a string', ['Client-Cert', '"abc"'], null],
    ['no base64', ['Client-Cert', ':!!!!:'], null],
    ['base64 for addresses', ['Client-Cert', `:${der.toString('base64url')}-_:`], null],
    ['PEM in it', ['Client-Cert', `:${Buffer.from(own.pem).toString('base64')}:`], null],
    ['PEM with escapes', ['Client-Cert', encodeURIComponent(own.pem)], null],
    ['cut off', ['Client-Cert', `:${der.subarray(0, -1).toString('base64')}:`], null],
    ['with something behind it', ['Client-Cert', `:${Buffer.concat([der, Buffer.of(0)]).toString('base64')}:`], null],
    ['no certificate', ['Client-Cert', ':AAAA:'], null],
    ['too long', ['Client-Cert', `:${Buffer.alloc(60_000, 0x30).toString('base64')}:`], null],
    ['a chain with garbage', ['Client-Cert', text, 'Client-Cert-Chain', `${rest}, :AAAA:`], null],
    ['a chain with an empty member', ['Client-Cert', text, 'Client-Cert-Chain', `${rest},,${rest}`], null],
    ['a chain that is too long', ['Client-Cert', text, 'Client-Cert-Chain', Array(11).fill(rest).join()], null]
  ]
  for (const [name, headers, read] of cases) {
    t.strictSame(of(...headers), read, name)
    t.strictSame(of(...headers), read, `${name}, remembered`)
  }
})

t.test('who is believed', async t => {
  t.equal(presented(asked(['Client-Cert', text], false)), null)
  t.equal(isForwarded(asked(['Client-Cert', text], false)), false)
  t.equal(isForwarded(asked(['Client-Cert', 'garbage'])), true)
  t.equal(isForwarded(asked([])), false)
  const connected = presentedOf(other.certificate, [])
  for (const [trusted, seen] of [
    [true, presented(asked(['Client-Cert', text]))],
    [false, connected]
  ] as const) {
    const both = { peer: { trusted, presented: connected }, req: { rawHeaders: ['Client-Cert', text] } }
    t.equal(presented(both)?.fingerprint, seen?.fingerprint, 'what a trusted proxy says goes before its own')
  }
  const unread = { peer: { trusted: true, presented: connected }, req: { rawHeaders: ['Client-Cert', 'garbage'] } }
  t.equal(presented(unread), null, 'its own does not stand in for what cannot be read')
})

t.test('what is told of a certificate', async t => {
  const shown = presentedOf(own.certificate, [other.certificate])
  t.match(shown, {
    fingerprint: hashOf(own),
    startsMs: Date.UTC(2020, 0, 1),
    expiresMs: Date.UTC(2120, 0, 2, 3, 4, 5),
    isWeak: false
  })
  t.not(shown.chainId, presentedOf(own.certificate, []).chainId)
  t.equal(presentedOf(own.certificate, Array(50).fill(other.certificate)).intermediates.length, 10)
})

t.test('the upstream learns of certificates from trusted proxies alone', async t => {
  const { url, requests, server } = await upstream(t)
  const apis = [api('a1', url)]
  const trusting = await behindProxy(t, { apis })
  const direct = await gateway(t, { apis })
  const headers = forwarded(own, other)
  await (await trusting.get('/a1/', headers)).text()
  t.match(requests.at(-1)!.headers, {
    'client-cert': headers['Client-Cert'],
    'client-cert-chain': headers['Client-Cert-Chain']
  })
  await (await direct.get('/a1/', headers)).text()
  const seen = requests.at(-1)!.headers
  t.equal(seen['client-cert'], undefined)
  t.equal(seen['client-cert-chain'], undefined)

  server.on('upgrade', (req, socket) => {
    requests.push(req)
    socket.end('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
  })
  t.ok((server.address() as AddressInfo).port)
  await new Promise<void>((resolve, reject) => {
    const upgrading = request(`${direct.url}/a1/`, {
      headers: { ...headers, Connection: 'Upgrade', Upgrade: 'websocket' }
    })
    upgrading.on('error', reject)
    upgrading.on('response', answer => {
      answer.resume()
      answer.on('end', resolve)
    })
    upgrading.end()
  })
  t.equal(requests.at(-1)!.headers.upgrade, 'websocket')
  t.equal(requests.at(-1)!.headers['client-cert'], undefined)
})
