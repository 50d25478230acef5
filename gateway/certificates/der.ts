/** Reads DER (X.690 §10) that OpenSSL has read before; elements are found where they stand, nothing is copied. */

export interface Element {
  /** The identifier's octet: class, form and number. */
  readonly tag: number
  readonly content: Uint8Array
}

export const SEQUENCE = 0x30
export const OID = 0x06
export const OCTETS = 0x04
export const BITS = 0x03
export const BOOLEAN = 0x01
export const INTEGER = 0x02
/** `[n]` with elements in it. */
export const tagged = (number: number) => 0xa0 | number

/** What cannot be read. */
export class NotDer extends Error {}

/** More in one is nothing that an honest certificate has. */
const MOST_ELEMENTS = 2_000

/** All elements of a text, one after the other. @throws NotDer */
export function elements(bytes: Uint8Array): Element[] {
  const found: Element[] = []
  let at = 0
  while (at < bytes.length) {
    if (found.length === MOST_ELEMENTS || at + 2 > bytes.length) throw new NotDer()
    const tag = bytes[at]!
    let length = bytes[at + 1]!
    at += 2
    // Numbers above 30 take more octets; no certificate has one.
    if ((tag & 0x1f) === 0x1f || length === 0x80) throw new NotDer()
    if (length > 0x80) {
      const octets = length & 0x7f
      if (octets > 3 || at + octets > bytes.length) throw new NotDer()
      length = 0
      for (let i = 0; i < octets; i++) length = length * 256 + bytes[at++]!
    }
    if (at + length > bytes.length) throw new NotDer()
    found.push({ tag, content: bytes.subarray(at, at + length) })
    at += length
  }
  return found
}

/** The members of the one element that the bytes are. @throws NotDer */
export function members(bytes: Uint8Array, tag = SEQUENCE): Element[] {
  const [only, ...rest] = elements(bytes)
  if (only === undefined || rest.length > 0) throw new NotDer()
  return inside(only, tag)
}

/** The members of an element of this tag. @throws NotDer */
export function inside(element: Element | undefined, tag = SEQUENCE): Element[] {
  return elements(contentOf(element, tag))
}

/** @throws NotDer where it is absent or of another tag */
export function contentOf(element: Element | undefined, tag: number): Uint8Array {
  if (element?.tag !== tag) throw new NotDer()
  return element.content
}

/** An object identifier with its dots. @throws NotDer */
export function oidOf(element: Element | undefined): string {
  const content = contentOf(element, OID)
  const numbers: number[] = []
  let number = 0
  for (const [i, octet] of content.entries()) {
    number = number * 128 + (octet & 0x7f)
    if (number > Number.MAX_SAFE_INTEGER / 128) throw new NotDer()
    if (octet >= 0x80) {
      if (i === content.length - 1) throw new NotDer()
      continue
    }
    if (numbers.length === 0) {
      const first = Math.min(2, Math.floor(number / 40))
      numbers.push(first, number - first * 40)
    } else numbers.push(number)
    number = 0
  }
  return numbers.join('.')
}

/** A number that is not below 0; what is too large for a number is Infinity. @throws NotDer */
export function integerOf(content: Uint8Array): number {
  if (content.length === 0 || content[0]! >= 0x80) throw new NotDer()
  const number = content.reduce((sum, octet) => sum * 256 + octet, 0)
  return number > Number.MAX_SAFE_INTEGER ? Number.POSITIVE_INFINITY : number
}

/** DER writes true as 0xff. */
export function isTrue(content: Uint8Array): boolean {
  return content.length === 1 && content[0] !== 0
}
