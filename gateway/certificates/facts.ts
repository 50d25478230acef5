import type { X509Certificate } from 'node:crypto'
import {
  BITS,
  BOOLEAN,
  contentOf,
  type Element,
  elements,
  INTEGER,
  inside,
  integerOf,
  isTrue,
  members,
  NotDer,
  OCTETS,
  oidOf,
  SEQUENCE,
  tagged
} from './der.ts'
import { type Constraints, constraintsOf, type Name, namesOf, rdnsOf } from './generalNames.ts'

/** What validation asks of a certificate beyond what Node tells (RFC 5280 §4.2). */
export interface Facts {
  /** May sign certificates: `basicConstraints` says so, and `keyUsage` where it is there. */
  readonly isAuthority: boolean
  /** Intermediates that may stand between it and a leaf; Infinity: any number. */
  readonly pathLength: number
  /** May sign what a TLS handshake asks a client to sign, by `keyUsage`. */
  readonly maySignHandshakes: boolean
  /** `extKeyUsage` is absent, or has client authentication in it. */
  readonly isForClients: boolean
  readonly isSelfIssued: boolean
  /** Its signature is of an algorithm that still counts. */
  readonly isSoundlySigned: boolean
  /** Subject and alternative names. */
  readonly names: readonly Name[]
  readonly constraints: Constraints | null
}

const KEY_USAGE = '2.5.29.15'
const ALTERNATIVE_NAMES = '2.5.29.17'
const BASIC_CONSTRAINTS = '2.5.29.19'
const NAME_CONSTRAINTS = '2.5.29.30'
const EXTENDED_KEY_USAGE = '2.5.29.37'
/**
 * Certificate policies, their mappings, `inhibitAnyPolicy`: where no policy is asked for they keep nothing out
 * (RFC 5280 §6.1.5), so they may be critical. `policyConstraints` may ask for one: where critical, it is refused.
 */
const HARMLESS = new Set(['2.5.29.32', '2.5.29.33', '2.5.29.54'])
const CLIENT_AUTHENTICATION = '1.3.6.1.5.5.7.3.2'
const ANY_USAGE = '2.5.29.37.0'

// Bits of keyUsage, in its first octet.
const DIGITAL_SIGNATURE = 0x80
const KEY_AGREEMENT = 0x08
const KEY_CERT_SIGN = 0x04

/** RSA and ECDSA with SHA-256 and more, Ed25519, Ed448: no MD5, no SHA-1. */
const SOUND = new Set([
  '1.2.840.113549.1.1.11',
  '1.2.840.113549.1.1.12',
  '1.2.840.113549.1.1.13',
  '1.2.840.10045.4.3.2',
  '1.2.840.10045.4.3.3',
  '1.2.840.10045.4.3.4',
  '1.3.101.112',
  '1.3.101.113'
])
const PSS = '1.2.840.113549.1.1.10'
const SOUND_HASHES = new Set(['2.16.840.1.101.3.4.2.1', '2.16.840.1.101.3.4.2.2', '2.16.840.1.101.3.4.2.3'])

/** Null: it cannot be read, or has a critical extension that nobody here understands: no path leads through it. */
export function factsOf({ raw }: X509Certificate): Facts | null {
  try {
    return read(raw)
  } catch (cause) {
    if (cause instanceof NotDer) return null
    throw cause
  }
}

function read(raw: Uint8Array): Facts | null {
  const [signed, algorithm] = members(raw)
  const all = inside(signed)
  // The version, [0], may be left out (X.509 version 1); then serial number, signature, issuer, validity, subject, key.
  const [, , issuer, , subject] = all[0]?.tag === tagged(0) ? all.slice(1) : all
  const extensions = extensionsOf(all.find(({ tag }) => tag === tagged(3)))
  if (extensions === null) return null
  const usage = extensions.get(KEY_USAGE)
  const bits = usage === undefined ? null : usageOf(usage)
  const basic = extensions.get(BASIC_CONSTRAINTS)
  const { isAuthority, pathLength } = basic === undefined ? NO_AUTHORITY : basicOf(basic)
  const purposes = extensions.get(EXTENDED_KEY_USAGE)
  const given = purposes === undefined ? null : members(purposes).map(oidOf)
  const alternatives = extensions.get(ALTERNATIVE_NAMES)
  const constraints = extensions.get(NAME_CONSTRAINTS)
  const rdns = rdnsOf(contentOf(subject, SEQUENCE))
  return {
    isAuthority: isAuthority && (bits === null || (bits & KEY_CERT_SIGN) !== 0),
    pathLength,
    maySignHandshakes: bits === null || (bits & (DIGITAL_SIGNATURE | KEY_AGREEMENT)) !== 0,
    isForClients: given === null || given.includes(CLIENT_AUTHENTICATION) || given.includes(ANY_USAGE),
    isSelfIssued: rdns.join('\0') === rdnsOf(contentOf(issuer, SEQUENCE)).join('\0'),
    isSoundlySigned: isSound(inside(algorithm)),
    names: namesOf(rdns, alternatives),
    constraints: constraints === undefined ? null : constraintsOf(constraints)
  }
}

const UNDERSTOOD = new Set([KEY_USAGE, ALTERNATIVE_NAMES, BASIC_CONSTRAINTS, NAME_CONSTRAINTS, EXTENDED_KEY_USAGE])

/** Values by type. Null: something in it must be understood and is not, or stands there twice (RFC 5280 §4.2). */
function extensionsOf(found: Element | undefined): Map<string, Uint8Array> | null {
  const extensions = new Map<string, Uint8Array>()
  if (found === undefined) return extensions
  for (const extension of members(found.content)) {
    const [type, second, third] = inside(extension)
    const name = oidOf(type)
    const critical = second?.tag === BOOLEAN && isTrue(second.content)
    if (extensions.has(name) || (critical && !UNDERSTOOD.has(name) && !HARMLESS.has(name))) return null
    extensions.set(name, contentOf(second?.tag === BOOLEAN ? third : second, OCTETS))
  }
  return extensions
}

const NO_AUTHORITY = { isAuthority: false, pathLength: Number.POSITIVE_INFINITY }

function basicOf(value: Uint8Array): typeof NO_AUTHORITY {
  const [first, second] = members(value)
  const isAuthority = first?.tag === BOOLEAN && isTrue(first.content)
  const length = first?.tag === BOOLEAN ? second : first
  return {
    isAuthority,
    pathLength: length === undefined ? Number.POSITIVE_INFINITY : integerOf(contentOf(length, INTEGER))
  }
}

/** The first octet of bits; before it stands how many of the last are unused. */
function usageOf(value: Uint8Array): number {
  const [bits, ...rest] = elements(value)
  if (rest.length > 0) throw new NotDer()
  return contentOf(bits, BITS)[1] ?? 0
}

function isSound([type, parameters]: readonly Element[]): boolean {
  const algorithm = oidOf(type)
  if (algorithm !== PSS) return SOUND.has(algorithm)
  // RFC 4055 §3.1: without a hash there it is SHA-1.
  const hash = inside(parameters).find(({ tag }) => tag === tagged(0))
  return hash !== undefined && SOUND_HASHES.has(oidOf(members(hash.content)[0]))
}
