import t from 'tap'
import { cipher } from '../../../gateway/documents/ciphers.ts'
import { commonNameFault } from '../../../gateway/proxy/tls/commonName.ts'
import { closest } from '../../../gateway/proxy/tls/domains.ts'

t.test('what is said for a host: host and port, the host, the closest domain, everything', t => {
  const all = [
    '*',
    '*:9',
    '*.test',
    '*.b.test',
    '*.b.test:9',
    'a.b.test',
    'a.b.test:9',
    '[::1]',
    '127.0.0.1',
    '*.0.0.1'
  ]
  for (const [host, port, said] of [
    ['a.b.test', 9, 'a.b.test:9'],
    ['a.b.test', 443, 'a.b.test'],
    ['a.b.test.', 443, 'a.b.test'],
    ['c.b.test', 9, '*.b.test:9'],
    ['c.b.test', 443, '*.b.test'],
    ['d.c.b.test', 443, '*.b.test'],
    ['b.test', 443, '*.test'],
    ['test', 443, '*'],
    ['other', 9, '*:9'],
    ['[::1]', 443, '[::1]'],
    ['[::2]', 443, '*'],
    ['127.0.0.1', 443, '127.0.0.1'],
    ['126.0.0.1', 443, '*']
  ] as const)
    t.equal(
      closest(
        all.map(domain => ({ domain, value: domain })),
        host,
        port
      ),
      said,
      `${host}:${port}`
    )
  t.equal(closest([{ domain: '*.test', value: 1 }], 'test', 443), null)
  t.equal(closest([], 'test', 443), null)
  t.end()
})

t.test('ciphers by their names at IANA and OpenSSL', t => {
  for (const [given, name] of [
    ['TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256', 'ECDHE-RSA-AES128-GCM-SHA256'],
    ['TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256', 'ECDHE-ECDSA-CHACHA20-POLY1305'],
    ['TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305', 'ECDHE-RSA-CHACHA20-POLY1305'],
    ['TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA', 'ECDHE-ECDSA-AES256-SHA'],
    ['TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256', 'ECDHE-RSA-AES128-SHA256'],
    ['TLS_RSA_WITH_AES_128_CBC_SHA', 'AES128-SHA'],
    ['TLS_RSA_WITH_AES_256_GCM_SHA384', 'AES256-GCM-SHA384'],
    ['TLS_DHE_RSA_WITH_AES_256_GCM_SHA384', 'DHE-RSA-AES256-GCM-SHA384'],
    ['tls_aes_128_gcm_sha256', 'TLS_AES_128_GCM_SHA256'],
    ['ECDHE-RSA-AES128-GCM-SHA256', 'ECDHE-RSA-AES128-GCM-SHA256'],
    ['TLS_RSA_WITH_RC4_128_SHA', null],
    ['TLS_PSK_WITH_AES_128_CBC_SHA', null],
    ['PSK-AES128-CBC-SHA', null],
    ['HIGH', null],
    ['', null]
  ] as const)
    t.equal(cipher(given)?.name ?? null, name, given)
  t.end()
})

t.test('a common name is the host, or a wildcard of one label', t => {
  for (const [host, CN, fits] of [
    ['a.example.com', 'a.example.com', true],
    ['A.example.com.', 'a.EXAMPLE.com', true],
    ['a.example.com', '*.example.com', true],
    ['b.a.example.com', '*.example.com', false],
    ['example.com', '*.example.com', false],
    ['a.com', '*.com', false],
    ['a.example.com', '*', false],
    ['a.example.com', 'a*.example.com', false],
    ['a.example.com', '*.*.com', false],
    ['a.example.com', 'a.*.com', false],
    ['a.example.com', '', false],
    ['a.example.com', undefined, false],
    ['a.example.com', ['other', 'a.example.com'], true],
    ['127.0.0.1', '127.0.0.1', true],
    ['127.0.0.1', '*.0.0.1', false],
    ['::1', '::1', true]
  ] as const)
    t.equal(commonNameFault(host, { subject: { CN } } as never) === undefined, fits, `${host} ${CN}`)
  t.end()
})
