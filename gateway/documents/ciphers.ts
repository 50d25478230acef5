import { getCiphers } from 'node:tls'

/** Those with keys or passwords shared beforehand have nothing to work with here. */
const known = new Set(
  getCiphers()
    .map(name => name.toUpperCase())
    .filter(name => !/PSK|SRP/.test(name))
)

export interface Cipher {
  /** As OpenSSL calls it. */
  readonly name: string
  /** Of TLS 1.3. */
  readonly newest: boolean
}

/** A cipher by its name at OpenSSL or at IANA (RFC 5246 and its kin; Go's names are these). Null: unknown. */
export function cipher(given: string): Cipher | null {
  const upper = given.toUpperCase()
  if (known.has(upper)) return { name: upper, newest: upper.startsWith('TLS_') }
  const parts = /^TLS_(.+)_WITH_(.+)$/.exec(upper)
  if (parts === null) return null
  const [, exchange = '', suite = ''] = parts
  // Plain RSA and the mode CBC have no name at OpenSSL.
  const before = exchange === 'RSA' ? '' : `${exchange}_`
  const behind = suite
    .replace(/^CHACHA20_POLY1305(?:_SHA256)?$/, 'CHACHA20_POLY1305')
    .replace(/^AES_(\d+)/, 'AES$1')
    .replace('_CBC_', '_')
  const name = (before + behind).replaceAll('_', '-')
  return known.has(name) ? { name, newest: false } : null
}
