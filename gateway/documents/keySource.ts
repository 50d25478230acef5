import { createPublicKey, type KeyObject } from 'node:crypto'
import type { Report } from '../../config/report.ts'
import { isLinkLocal } from '../../streams/linkLocal.ts'
import type { Family, KeySource } from '../api.ts'

/** Where the keys of signatures come from, as a scheme names it; weak keys, and such as everybody knows, are faults. */

const HTTP = /^https?:\/\//i

export function checkAddress(url: string, fault: (message: string) => void): void {
  const parsed = HTTP.test(url) ? URL.parse(url) : null
  if (parsed === null) fault('must be an http or https address')
  else if (parsed.username !== '' || parsed.password !== '') fault('may not hold a user or password')
  else if (isLinkLocal(parsed.hostname)) fault('is a link-local address')
}

/** RFC 4648 §4: padded. */
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/
const PEM = '-----BEGIN '
/** As secrets of the gateway itself (outside.md §2); RFC 7518 §3.2 asks for as many bytes as the hash has. */
const LEAST_SECRET_BYTES = 16

/** What `source` and `jwksURIs` stand for: addresses, a PEM, a secret, each also in base64 (semantics §6.6). */
export function readKeys(
  source: string,
  addresses: readonly { url: string; cacheTimeout: number }[],
  family: Family,
  fault: Report
): KeySource {
  const inSource = (message: string) => fault('/source', message)
  if (addresses.length > 0) {
    for (const [i, { url }] of addresses.entries()) checkAddress(url, message => fault(`/jwksURIs/${i}/url`, message))
    if (family === 'hmac') fault('/jwksURIs', 'are for public keys: hmac needs a secret in source')
    return { is: 'sets', sets: addresses.map(({ url, cacheTimeout }) => ({ url, cacheMs: cacheTimeout * 1000 })) }
  }
  if (source === '') return { is: 'key' }
  const trimmed = source.trim()
  const isBase64 = BASE64.test(trimmed.replace(/[\r\n]+/g, ''))
  const bytes = isBase64 ? Buffer.from(trimmed, 'base64') : Buffer.from(source)
  const text = isBase64 ? bytes.toString().trim() : trimmed
  if (HTTP.test(text)) {
    checkAddress(text, inSource)
    if (family === 'hmac') inSource('is the address of public keys: hmac needs a secret')
    return { is: 'sets', sets: [{ url: text, cacheMs: 0 }] }
  }
  if (text.includes(PEM)) {
    checkPem(text, family, inSource)
    return { is: 'pem', pem: text }
  }
  if (family !== 'hmac') inSource('must be the address of a JWKS or a public key in PEM, plain or in base64')
  else if (bytes.length < LEAST_SECRET_BYTES)
    inSource(`is ${isBase64 ? 'base64 of ' : ''}a secret of less than ${LEAST_SECRET_BYTES} bytes`)
  return { is: 'secret', secret: bytes }
}

const KEY_TYPES: Record<Family, readonly string[]> = {
  hmac: [],
  rsa: ['rsa'],
  ecdsa: ['ec'],
  eddsa: ['ed25519']
}
const CURVES = ['prime256v1', 'secp384r1', 'secp521r1']

function checkPem(pem: string, family: Family, fault: (message: string) => void): void {
  // A public key as an HMAC secret is known to everybody.
  if (family === 'hmac') return fault('is a public key or certificate: hmac needs a secret')
  if (pem.includes('PRIVATE KEY')) return fault('is a private key: give the public one')
  let key: KeyObject
  try {
    key = createPublicKey(pem)
  } catch {
    return fault('is a PEM that cannot be read')
  }
  const { asymmetricKeyType: type = '', asymmetricKeyDetails: details = {} } = key
  if (!KEY_TYPES[family].includes(type)) fault(`is a key of type ${type}, which does not sign with ${family}`)
  else if (type === 'rsa') checkRsa(details.modulusLength ?? 0, details.publicExponent ?? 0n, fault)
  else if (type === 'ec' && !CURVES.includes(details.namedCurve ?? ''))
    fault('must be of the curve P-256, P-384 or P-521')
}

/** The bounds of verification (`authentication/jwt/keys.ts`): a key beyond them would refuse every token. */
function checkRsa(bits: number, exponent: bigint, fault: (message: string) => void): void {
  if (bits < 2048) fault('is an RSA key of less than 2048 bits')
  else if (bits > 8192) fault('is an RSA key of more than 8192 bits')
  else if (exponent < 3n || exponent % 2n === 0n) fault('is an RSA key whose exponent is not odd and above 1')
}
