import type { X509Certificate } from 'node:crypto'
import { type AsnType, BaseStringBlock, Constructed, fromBER, ObjectIdentifier } from 'asn1js'
import type { Certificate, Name } from '../../config/shape/certificate.ts'

/** What is told of a certificate (specification, Certificate object), read once when it comes. */

/** Of a time that never was: public keys have none. */
export const NEVER = '0001-01-01T00:00:00Z'
/** asn1js reads everything before anything is asked for; this much takes some milliseconds, and no honest certificate is larger. */
const limits = { maxNodes: 1000, maxDepth: 16, parseEmbedded: false }

/** Class of the tags `[0]`, `[1]`, … as asn1js counts. */
const CONTEXT = 3

/** Names or times that cannot be told. */
export class Unreadable extends Error {}

/** Attributes with a member of their own (X.520 §6, RFC 5280 appendix A). */
const lists = {
  '2.5.4.6': 'Country',
  '2.5.4.7': 'Locality',
  '2.5.4.8': 'Province',
  '2.5.4.9': 'StreetAddress',
  '2.5.4.10': 'Organization',
  '2.5.4.11': 'OrganizationalUnit',
  '2.5.4.17': 'PostalCode'
} as const satisfies Record<string, keyof Name>
const texts = { '2.5.4.3': 'CommonName', '2.5.4.5': 'SerialNumber' } as const satisfies Record<string, keyof Name>

/**
 * @param id organisation and fingerprint
 * @throws Unreadable where names or times are none
 */
export function details(certificate: X509Certificate, id: string, hasPrivate: boolean): Certificate {
  const members = parts(parts(parsed(certificate.raw))[0])
  // The version, [0], may be left out (X.509 version 1); then serial number, signature, issuer, validity, subject.
  const [, , issuer, , subject] = members[0]?.idBlock.tagClass === CONTEXT ? members.slice(1) : members
  return {
    id,
    fingerprint: fingerprint(certificate),
    dns_names: dnsNames(certificate),
    has_private: hasPrivate,
    is_ca: certificate.ca,
    not_before: time(certificate.validFromDate),
    not_after: time(certificate.validToDate),
    issuer: name(issuer),
    subject: name(subject)
  }
}

/** A bare public key in the same form (semantics §8.3). */
export function publicKeyDetails(id: string, fingerprint: string): Certificate {
  const nobody = emptyName()
  return {
    id,
    fingerprint,
    dns_names: [],
    has_private: false,
    is_ca: false,
    not_before: NEVER,
    not_after: NEVER,
    issuer: nobody,
    subject: { ...nobody, CommonName: `Public Key: ${fingerprint}` }
  }
}

/** Hexadecimal SHA-256 of the DER, lower case. */
export function fingerprint({ fingerprint256 }: X509Certificate): string {
  return fingerprint256.replaceAll(':', '').toLowerCase()
}

function time(at: Date): string {
  if (Number.isNaN(at.getTime())) throw new Unreadable('no time')
  return at.toISOString().replace('.000Z', 'Z')
}

function emptyName() {
  return {
    CommonName: '',
    Country: [] as string[],
    ExtraNames: [],
    Locality: [] as string[],
    Names: [] as Name['Names'],
    Organization: [] as string[],
    OrganizationalUnit: [] as string[],
    PostalCode: [] as string[],
    Province: [] as string[],
    SerialNumber: '',
    StreetAddress: [] as string[]
  }
}

/** All attributes in their order; of several common names the last counts. */
function name(found: AsnType | undefined): Name {
  const out = emptyName()
  for (const attribute of parts(found).flatMap(parts)) {
    const [type, value] = parts(attribute)
    if (!(type instanceof ObjectIdentifier) || value === undefined) throw new Unreadable('no attribute')
    const key = type.getValue()
    const numbers = key.split('.').map(Number)
    if (!numbers.every(Number.isFinite)) throw new Unreadable('no object identifier')
    const text = textOf(value)
    out.Names.push({ Type: numbers, Value: text })
    if (Object.hasOwn(lists, key)) out[lists[key as keyof typeof lists]].push(text)
    if (Object.hasOwn(texts, key)) out[texts[key as keyof typeof texts]] = text
  }
  return out
}

/** asn1js answers some faults and throws others. */
function parsed(der: Uint8Array): AsnType | undefined {
  try {
    const { offset, result } = fromBER(new Uint8Array(der), limits)
    return offset === -1 ? undefined : result
  } catch {
    return undefined
  }
}

function parts(found: AsnType | undefined): AsnType[] {
  if (!(found instanceof Constructed)) throw new Unreadable('an element is missing')
  return found.valueBlock.value as AsnType[]
}

/** What is no text stands in hexadecimal, as RFC 4514 §2.4 writes it. */
function textOf(value: AsnType): string {
  if (value instanceof BaseStringBlock) return String(value.getValue()).toWellFormed()
  return `#${Buffer.from(value.valueBeforeDecodeView).toString('hex')}`
}

/** Node writes commas within a name as an escape, in a name between quotation marks. */
function dnsNames({ subjectAltName = '' }: X509Certificate): string[] {
  return subjectAltName
    .split(', ')
    .filter(text => text.startsWith('DNS:'))
    .map(text => text.slice('DNS:'.length))
    .map(host => (host.startsWith('"') ? JSON.parse(host) : host))
}
