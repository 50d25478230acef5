/**
 * Reads BER and DER (ITU-T X.690) as far as certificates and PKCS#12 need it. Nothing is copied or read before it is
 * asked for, so that a small file cannot cost much memory.
 */

/** What is no BER, or more of it than anybody means honestly. */
export class Unreadable extends Error {}

/** One element. `tag`: its first byte; `content`: of an indefinite length, without the end mark. */
export interface Element {
  readonly tag: number
  readonly content: Buffer
  /** With tag and length. */
  readonly whole: Buffer
}

export const SEQUENCE = 0x30
export const SET = 0x31
export const INTEGER = 0x02
export const BIT_STRING = 0x03
export const OCTET_STRING = 0x04
export const OID = 0x06

const CONSTRUCTED = 0x20
const DEEPEST = 16
const MOST_CHILDREN = 20_000

/** The one element that these bytes are. @throws Unreadable */
export function element(bytes: Buffer): Element {
  const found = at(bytes, 0, 0)
  if (found.whole.length !== bytes.length) throw new Unreadable('more than one element')
  return found
}

/** The elements that stand one after another in a constructed one. @throws Unreadable */
export function children(parent: Element): Element[] {
  const found: Element[] = []
  for (let start = 0; start < parent.content.length; ) {
    if (found.length === MOST_CHILDREN) throw new Unreadable('too many elements')
    const next = at(parent.content, start, 0)
    found.push(next)
    start += next.whole.length
  }
  return found
}

/** The children of an element that has this tag. @throws Unreadable */
export function childrenOf(parent: Element | undefined, tag: number): Element[] {
  return children(tagged(parent, tag))
}

/** @throws Unreadable when it is not there or has another tag */
export function tagged(found: Element | undefined, tag: number): Element {
  if (found?.tag !== tag) throw new Unreadable('an element is missing')
  return found
}

/** Context tag of a constructed element, e.g. `[0]`. */
export const explicit = (number: number) => 0xa0 | number

/** An OCTET STRING's bytes, which BER may cut into pieces. `tag`: where it is tagged implicitly. @throws Unreadable */
export function octets(found: Element | undefined, tag = OCTET_STRING): Buffer {
  if (found?.tag === tag) return found.content
  const pieces = children(tagged(found, tag | CONSTRUCTED))
  return Buffer.concat(pieces.map(piece => tagged(piece, OCTET_STRING).content))
}

/** A count, such as iterations. @throws Unreadable above 2^47 or below 0 */
export function count(found: Element | undefined): number {
  const { content } = tagged(found, INTEGER)
  if (content.length === 0 || content.length > 6 || content[0]! > 0x7f) throw new Unreadable('a number is out of range')
  return content.readUIntBE(0, content.length)
}

/** Numbers of an object identifier; beyond safe integers they lose their last digits. @throws Unreadable */
export function oid(found: Element | undefined): number[] {
  const { content } = tagged(found, OID)
  if (content.length === 0 || content.length > 64 || content.at(-1)! > 0x7f)
    throw new Unreadable('no object identifier')
  const numbers: number[] = []
  let number = 0
  for (const byte of content) {
    number = number * 128 + (byte & 0x7f)
    if (byte > 0x7f) continue
    // The first two share a byte (X.690 §8.19.4).
    if (numbers.length === 0) {
      const first = Math.min(2, Math.floor(number / 40))
      numbers.push(first, number - first * 40)
    } else numbers.push(number)
    number = 0
  }
  return numbers
}

export function oidText(found: Element | undefined): string {
  return oid(found).join('.')
}

function at(bytes: Buffer, start: number, depth: number): Element {
  if (depth > DEEPEST) throw new Unreadable('nested too deeply')
  const tag = bytes[start]
  const first = bytes[start + 1]
  if (tag === undefined || first === undefined || (tag & 0x1f) === 0x1f) throw new Unreadable('no element')
  if (first === 0x80) return indefinite(bytes, start, depth)
  let from = start + 2
  let length = first
  if (first > 0x80) {
    const size = first & 0x7f
    if (size > 4 || from + size > bytes.length) throw new Unreadable('no length')
    length = bytes.readUIntBE(from, size)
    from += size
  }
  if (from + length > bytes.length) throw new Unreadable('it breaks off')
  return { tag, content: bytes.subarray(from, from + length), whole: bytes.subarray(start, from + length) }
}

/** Ends with two zero bytes in the place of an element (X.690 §8.1.5). */
function indefinite(bytes: Buffer, start: number, depth: number): Element {
  const tag = bytes[start]!
  if ((tag & CONSTRUCTED) === 0) throw new Unreadable('no length')
  let end = start + 2
  while (bytes[end] !== 0 || bytes[end + 1] !== 0) end += at(bytes, end, depth + 1).whole.length
  return { tag, content: bytes.subarray(start + 2, end), whole: bytes.subarray(start, end + 2) }
}
