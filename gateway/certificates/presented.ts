import { hash, X509Certificate } from 'node:crypto'
import { Recent } from '../keys/recent.ts'

/** The certificate that a client has shown: its TLS connection's, or the one that a trusted proxy forwards (RFC 9440). */
export interface Presented {
  readonly leaf: X509Certificate
  /** What came with it, in its order. */
  readonly intermediates: readonly X509Certificate[]
  /** SHA-256 of the leaf's DER, hexadecimal. */
  readonly fingerprint: string
  /** Tells apart what the same leaf came with. */
  readonly chainId: string
  /** Milliseconds since the epoch. */
  readonly startsMs: number
  readonly expiresMs: number
  /** Its key is one that others may have found out: having it proves nothing. */
  readonly isWeak: boolean
}

/** What is looked at of a request. */
export interface Request {
  readonly peer: { readonly trusted: boolean; readonly presented: Presented | null }
  readonly req: { readonly rawHeaders: readonly string[] }
}

/** Certificates that may come beside the leaf. */
export const MOST_INTERMEDIATES = 10
/** Longest certificate, bytes of its DER: reading it takes a millisecond. */
const LARGEST_CERTIFICATE = 16_384
/** Longest text of both headers together. */
const LONGEST_TEXT = 65_536
/** Texts remembered at most: some proxies and their clients. */
const REMEMBERED = 256

/** By the text of the headers; null: it cannot be read. */
const remembered = new Recent<{ readonly presented: Presented | null }>(REMEMBERED)

/**
 * Null: none was shown, or none that can be read. From anyone but a trusted proxy the headers say nothing; what such a proxy
 * says of its client goes before the certificate that the proxy itself shows.
 */
export function presented(request: Request): Presented | null {
  return isForwarded(request) ? forwarded(request.req.rawHeaders) : request.peer.presented
}

/** A trusted proxy says something of a certificate, readable or not. */
export function isForwarded({ peer, req }: Request): boolean {
  return peer.trusted && textOf(req.rawHeaders, 'client-cert') !== null
}

/** What a handshake or a proxy has brought. */
export function presentedOf(leaf: X509Certificate, intermediates: readonly X509Certificate[]): Presented {
  const fingerprint = fingerprintOf(leaf)
  const kept = intermediates.slice(0, MOST_INTERMEDIATES)
  return {
    leaf,
    intermediates: kept,
    fingerprint,
    chainId: kept.length === 0 ? fingerprint : hash('sha256', [fingerprint, ...kept.map(fingerprintOf)].join()),
    startsMs: timeOf(leaf.validFromDate, Number.POSITIVE_INFINITY),
    expiresMs: timeOf(leaf.validToDate, Number.NEGATIVE_INFINITY),
    isWeak: isWeak(leaf)
  }
}

/** SHA-256 of its DER, hexadecimal, lower case. */
export function fingerprintOf({ fingerprint256 }: X509Certificate): string {
  return fingerprint256.replaceAll(':', '').toLowerCase()
}

/** @param broken stands for a time that is none, so that it is never valid */
function timeOf(date: Date, broken: number): number {
  const ms = date.getTime()
  return Number.isNaN(ms) ? broken : ms
}

const LEAST_RSA_BITS = 2048
const CURVES = new Set(['prime256v1', 'secp384r1', 'secp521r1'])

/** Its key is none of: RSA of 2048 bits and more; ECDSA on P-256, P-384, P-521; Ed25519; Ed448. */
export function isWeak(certificate: X509Certificate): boolean {
  try {
    const { asymmetricKeyType: type, asymmetricKeyDetails: details = {} } = certificate.publicKey
    if (type === 'rsa' || type === 'rsa-pss') return (details.modulusLength ?? 0) < LEAST_RSA_BITS
    if (type === 'ec') return !CURVES.has(details.namedCurve ?? '')
    return type !== 'ed25519' && type !== 'ed448'
  } catch {
    return true
  }
}

function forwarded(raw: readonly string[]): Presented | null {
  const leaf = textOf(raw, 'client-cert')
  if (leaf === null) return null
  const chain = textOf(raw, 'client-cert-chain') ?? ''
  if (leaf.length + chain.length > LONGEST_TEXT) return null
  const text = `${leaf}\n${chain}`
  const known = remembered.get(text)
  if (known !== undefined) return known.presented
  const presented = parsed(leaf, chain)
  // A copy of its own: a part of a request's head would keep the whole head in memory.
  remembered.set(Buffer.from(text, 'latin1').toString('latin1'), { presented })
  return presented
}

/** All lines of a header as one (RFC 9110 §5.3), by its lower-case name; null: it is not there. */
function textOf(raw: readonly string[], name: string): string | null {
  let text: string | null = null
  for (let i = 0; i < raw.length; i += 2) {
    const given = raw[i]!
    if (given.length === name.length && (given === name || given.toLowerCase() === name))
      text = text === null ? raw[i + 1]! : `${text}, ${raw[i + 1]!}`
  }
  return text
}

/** RFC 9440 §2.2, §2.3: a Byte Sequence, and a List of them (RFC 8941). What is broken in a part is broken as a whole. */
function parsed(leaf: string, chain: string): Presented | null {
  const first = certificateOf(leaf)
  if (first === null) return null
  const members = chain.trim() === '' ? [] : chain.split(',', MOST_INTERMEDIATES + 1)
  if (members.length > MOST_INTERMEDIATES) return null
  const rest = members.map(certificateOf)
  return rest.includes(null) ? null : presentedOf(first, rest as X509Certificate[])
}

const BYTE_SEQUENCE = /^[ \t]*:([A-Za-z0-9+/]+={0,2}):[ \t]*$/

function certificateOf(text: string): X509Certificate | null {
  const base64 = BYTE_SEQUENCE.exec(text)?.[1]
  if (base64 === undefined) return null
  const der = Buffer.from(base64, 'base64')
  // Node would take PEM as well.
  if (der.length > LARGEST_CERTIFICATE || der[0] !== 0x30) return null
  try {
    const certificate = new X509Certificate(der)
    return certificate.raw.length === der.length ? certificate : null
  } catch {
    return null
  }
}
