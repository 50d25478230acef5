import { type Element, elements, inside, members, NotDer, OID, oidOf, tagged } from './der.ts'

/** Names in certificates, and the constraints that authorities lay on them (RFC 5280 §4.2.1.6, §4.2.1.10). */

const EMAIL = 1
const HOST = 2
const DIRECTORY = 4
const URI = 6
const ADDRESS = 7

/** By the number of its kind in GeneralName. */
export type Name =
  | { readonly kind: typeof DIRECTORY; readonly rdns: readonly string[] }
  | { readonly kind: number; readonly bytes: Uint8Array }

export interface Constraints {
  readonly permitted: readonly Name[]
  readonly excluded: readonly Name[]
}

const MAIL_ATTRIBUTE = '1.2.840.113549.1.9.1'

/** The subject and the alternative names of a certificate. @throws NotDer */
export function namesOf(subject: readonly string[], alternatives: Uint8Array | undefined): Name[] {
  const names = alternatives === undefined ? [] : members(alternatives).map(nameOf)
  if (subject.length > 0) names.push({ kind: DIRECTORY, rdns: subject })
  // Mail addresses of old certificates stand in the subject (§4.2.1.10).
  if (!names.some(({ kind }) => kind === EMAIL))
    for (const rdn of subject)
      for (const part of rdn.split('\x01'))
        if (part.startsWith(`${MAIL_ATTRIBUTE}=`))
          names.push({ kind: EMAIL, bytes: Buffer.from(part.slice(MAIL_ATTRIBUTE.length + 1)) })
  return names
}

/** @throws NotDer */
export function constraintsOf(value: Uint8Array): Constraints {
  const lists = members(value)
  const listed = (number: number) =>
    lists
      .filter(({ tag }) => tag === tagged(number))
      .flatMap(({ content }) =>
        elements(content).map(subtree => {
          const [base, ...bounds] = inside(subtree)
          // `minimum` is 0, which DER does not write, and `maximum` is absent (§4.2.1.10).
          if (base === undefined || bounds.length > 0) throw new NotDer()
          return nameOf(base)
        })
      )
  return { permitted: listed(0), excluded: listed(1) }
}

/** Every name keeps to the constraints: none is excluded, and where its kind has permitted ones, it is among them. */
export function keepsTo({ permitted, excluded }: Constraints, names: readonly Name[]): boolean {
  return names.every(name => {
    const within = permitted.filter(({ kind }) => kind === name.kind)
    const without = excluded.filter(({ kind }) => kind === name.kind)
    if (within.length === 0 && without.length === 0) return true
    const test = tests[name.kind]
    // A kind that nobody here can hold against a constraint is refused (§6.1.4 g).
    if (test === undefined) return false
    return (
      !without.some(base => test(name, base, 'overlaps')) &&
      (within.length === 0 || within.some(base => test(name, base, 'is within')))
    )
  })
}

function nameOf({ tag, content }: Element): Name {
  const kind = tag & 0x1f
  if ((tag & 0xc0) !== 0x80) throw new NotDer()
  return kind === DIRECTORY ? { kind, rdns: directoryOf(content) } : { kind, bytes: content }
}

function directoryOf(content: Uint8Array): string[] {
  return rdnsOf(elements(content).length === 1 ? elements(content)[0]!.content : new Uint8Array())
}

/** The parts of a distinguished name, each as a text that is the same for equal parts (RFC 5280 §7.1). @throws NotDer */
export function rdnsOf(sequence: Uint8Array): string[] {
  return elements(sequence).map(set =>
    inside(set, 0x31)
      .map(attribute => {
        const [type, value] = inside(attribute)
        if (type?.tag !== OID || value === undefined) throw new NotDer()
        return `${oidOf(type)}=${textOf(value)}`
      })
      .sort()
      .join('\x01')
  )
}

/** Texts of any encoding, in any case, with any white space; what is no text as its bytes. */
function textOf({ tag, content }: Element): string {
  const bytes = Buffer.from(content.buffer, content.byteOffset, content.length)
  const text =
    tag === 0x0c || tag === 0x13 || tag === 0x16
      ? bytes.toString('utf8')
      : tag === 0x14
        ? bytes.toString('latin1')
        : tag === 0x1e && bytes.length % 2 === 0
          ? Buffer.from(bytes).swap16().toString('utf16le')
          : null
  if (text === null) return `#${tag}:${bytes.toString('hex')}`
  // A control character would pass for one that parts names.
  return text
    .normalize('NFKC')
    .toLowerCase()
    .replace(/\s+/g, ' ')
    .trim()
    .replaceAll(/[\0-\x1f]/g, '\ufffd')
}

type Test = (name: Name, base: Name, how: 'is within' | 'overlaps') => boolean

const ascii = (name: Name) => ('bytes' in name ? Buffer.from(name.bytes).toString('latin1') : '')

/** `example.com`: itself and what is below; `.example.com`: what is below; '': everything. */
function isHostWithin(host: string, base: string): boolean {
  if (base === '' || host === base) return true
  return host.endsWith(base.startsWith('.') ? base : `.${base}`)
}

const tests: Record<number, Test | undefined> = {
  [EMAIL](name, base) {
    const address = ascii(name)
    const constraint = ascii(base)
    const at = address.lastIndexOf('@')
    const host = address.slice(at + 1).toLowerCase()
    if (at < 1) return false
    const inConstraint = constraint.lastIndexOf('@')
    if (inConstraint >= 0)
      return (
        // The part before the sign is anybody's own; those who distinguish cases there are not told apart.
        address.slice(0, at).toLowerCase() === constraint.slice(0, inConstraint).toLowerCase() &&
        host === constraint.slice(inConstraint + 1).toLowerCase()
      )
    const lower = constraint.toLowerCase()
    return lower === '' || (lower.startsWith('.') ? host.endsWith(lower) : host === lower)
  },
  [HOST](name, base, how) {
    const host = ascii(name).toLowerCase()
    const constraint = ascii(base).toLowerCase()
    if (isHostWithin(host, constraint)) return true
    // `*.example.com` may be `a.example.com`, which may be excluded.
    return how === 'overlaps' && host.startsWith('*.') && isHostWithin(constraint.replace(/^\./, ''), host.slice(2))
  },
  [DIRECTORY](name, base) {
    if (!('rdns' in name) || !('rdns' in base)) return false
    return base.rdns.length <= name.rdns.length && base.rdns.every((rdn, i) => rdn === name.rdns[i])
  },
  [URI](name, base, how) {
    const host = URL.parse(ascii(name))?.hostname.toLowerCase() ?? ''
    const constraint = ascii(base).toLowerCase()
    // Only hosts with a name can be held against a constraint; others keep to none (§4.2.1.10).
    if (host === '' || host.startsWith('[') || /^[\d.]+$/.test(host)) return how === 'overlaps'
    return constraint.startsWith('.') ? host.endsWith(constraint) : host === constraint
  },
  [ADDRESS](name, base) {
    if (!('bytes' in name) || !('bytes' in base) || base.bytes.length !== 2 * name.bytes.length) return false
    const { length } = name.bytes
    return name.bytes.every((octet, i) => {
      const mask = base.bytes[length + i]!
      return (octet & mask) === (base.bytes[i]! & mask)
    })
  }
}
