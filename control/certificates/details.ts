import type { X509Certificate } from 'node:crypto'
import type { Certificate, Name } from '../../config/shape/certificate.ts'
import {
  childrenOf,
  type Element,
  element,
  explicit,
  OID,
  octets,
  oid,
  oidText,
  SEQUENCE,
  SET,
  Unreadable
} from './der.ts'

/** What is told of a certificate (specification, Certificate object), read once when it comes. */

/** Of a time that never was: public keys have none. */
const NEVER = '0001-01-01T00:00:00Z'
const SUBJECT_ALT_NAME = '2.5.29.17'
const DNS_NAME = 0x82

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
  const [tbs] = childrenOf(element(certificate.raw), SEQUENCE)
  const members = childrenOf(tbs, SEQUENCE)
  // The version may be left out (X.509 version 1).
  const [, , issuer, , subject] = members[0]?.tag === explicit(0) ? members.slice(1) : members
  return {
    id,
    fingerprint: fingerprint(certificate),
    dns_names: dnsNames(members.find(({ tag }) => tag === explicit(3))),
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
function name(found: Element | undefined): Name {
  const out = emptyName()
  for (const set of childrenOf(found, SEQUENCE))
    for (const attribute of childrenOf(set, SET)) {
      const [type, value] = childrenOf(attribute, SEQUENCE)
      if (type === undefined || value === undefined) throw new Unreadable('a name without a value')
      const text = textOf(value)
      const key = oidText(type)
      out.Names.push({ Type: oid(type), Value: text })
      if (Object.hasOwn(lists, key)) out[lists[key as keyof typeof lists]].push(text)
      if (Object.hasOwn(texts, key)) out[texts[key as keyof typeof texts]] = text
    }
  return out
}

/** A value in its own alphabet (X.680 §41); what is no text stands in hexadecimal, as RFC 4514 §2.4 writes it. */
function textOf({ tag, content, whole }: Element): string {
  switch (tag) {
    case 0x0c: // UTF8String
      return content.toString('utf8')
    case 0x12: // NumericString
    case 0x13: // PrintableString
    case 0x16: // IA5String
    case 0x1a: // VisibleString
    case 0x14: // TeletexString: Latin-1, as everybody writes it
      return content.toString('latin1')
    case 0x1e: // BMPString: UTF-16, higher byte first
      if (content.length % 2 === 0) return Buffer.from(content).swap16().toString('utf16le').toWellFormed()
      break
    case 0x1c: // UniversalString: UTF-32
      if (content.length % 4 === 0) return utf32(content)
  }
  return `#${whole.toString('hex')}`
}

function utf32(content: Buffer): string {
  let text = ''
  for (let i = 0; i < content.length; i += 4) {
    const point = content.readUInt32BE(i)
    text += String.fromCodePoint(point > 0x10ffff ? 0xfffd : point)
  }
  return text.toWellFormed()
}

/** Names of hosts among the other names; none where the extension cannot be read. */
function dnsNames(extensions: Element | undefined): string[] {
  if (extensions === undefined) return []
  try {
    const found = childrenOf(childrenOf(extensions, explicit(3))[0], SEQUENCE)
      .map(extension => childrenOf(extension, SEQUENCE))
      .find(([type]) => type?.tag === OID && oidText(type) === SUBJECT_ALT_NAME)
    if (found === undefined) return []
    return childrenOf(element(octets(found.at(-1))), SEQUENCE)
      .filter(({ tag }) => tag === DNS_NAME)
      .map(({ content }) => content.toString('latin1'))
  } catch (cause) {
    if (cause instanceof Unreadable) return []
    throw cause
  }
}
