import { type Refusal, refusal } from '../../refusals.ts'

/** User name and password in a header (RFC 7617 §2, semantics §6.4). */

export interface UserAndPassword {
  readonly user: string
  readonly password: string
}

const malformed = (code: string, text: string) => refusal(code, 400, `Attempted access with malformed header, ${text}`)
const notBasic = malformed('basic_header', 'header not in basic auth format')
const notEncoded = malformed('basic_encoding', 'auth data not encoded correctly')
const notValues = malformed('basic_values', 'values not in basic auth format')

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * The scheme's word may be any, and one space stands behind it. Base64 must be as its bytes are encoded, which must be
 * UTF-8: what can be read in two ways is not read.
 */
export function readHeader(value: string): UserAndPassword | Refusal {
  const space = value.indexOf(' ')
  if (space < 1 || space === value.length - 1 || value.includes(' ', space + 1)) return notBasic
  const encoded = value.slice(space + 1)
  const bytes = Buffer.from(encoded, 'base64')
  if (bytes.toString('base64') !== encoded) return notEncoded
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch {
    return notEncoded
  }
  // The first colon ends the name; a password may have more of them.
  const colon = text.indexOf(':')
  return colon < 0 ? notValues : { user: text.slice(0, colon), password: text.slice(colon + 1) }
}
