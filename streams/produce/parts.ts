import { type No, no, nos } from '../refusals.ts'

/** How a body becomes messages. */

/** One message's bytes. `type`: its own media type; null: it names none. */
export interface Part {
  readonly value: Buffer
  readonly type: string | null
}

export const MOST_MESSAGES = 10_000
const LONGEST_PART_HEAD = 16_384
/** RFC 2046 §5.1.1 */
const LONGEST_BOUNDARY = 70

const badBody = (what: string) => no(nos.badRequest.code, 400, `Bad request: ${what}`)
const noParts = badBody('the body holds no message')
const badBoundary = badBody('multipart without a boundary')
const badParts = badBody('broken multipart body')
const badPartHead = badBody('broken head of a part')
const encodedPart = no(nos.mediaType.code, 415, 'Parts with a Content-Transfer-Encoding are not taken')
const tooMany = no(nos.bodyTooLarge.code, 413, `More than ${MOST_MESSAGES} messages in one request`)

/** Each line that holds anything, without its end. */
export function lines(body: Buffer): Part[] | No {
  const parts: Part[] = []
  for (let from = 0; from < body.length; ) {
    const at = body.indexOf(0x0a, from)
    const next = at < 0 ? body.length : at
    const end = next > from && body[next - 1] === 0x0d ? next - 1 : next
    if (!isBlank(body, from, end)) {
      if (parts.length === MOST_MESSAGES) return tooMany
      parts.push({ value: body.subarray(from, end), type: 'application/json' })
    }
    from = next + 1
  }
  return parts.length === 0 ? noParts : parts
}

function isBlank(body: Buffer, from: number, end: number): boolean {
  for (let i = from; i < end; i++) if (body[i] !== 0x20 && body[i] !== 0x09) return false
  return true
}

/** Each part of a `multipart/…` body (RFC 2046 §5.1), whatever its subtype. What stands before and behind them is dropped. */
export function multipart(body: Buffer, contentType: string): Part[] | No {
  const boundary = boundaryOf(contentType)
  if (boundary === null) return badBoundary
  const mark = Buffer.from(`\r\n--${boundary}`, 'latin1')
  // The first one may stand at the very beginning, where no line end is before it.
  const isFirst = body.subarray(0, mark.length - 2).equals(mark.subarray(2))
  let at: number | undefined = isFirst ? afterMark(body, mark.length - 2) : BROKEN
  if (at === BROKEN) at = next(body, mark, 0)?.after
  if (at === undefined) return badParts
  const parts: Part[] = []
  while (at !== LAST) {
    if (parts.length === MOST_MESSAGES) return tooMany
    const end = next(body, mark, at)
    if (end === undefined) return badParts
    const part = partOf(body.subarray(at, end.at))
    if ('code' in part) return part
    parts.push(part)
    at = end.after
  }
  return parts.length === 0 ? noParts : parts
}

/** Behind the last mark. */
const LAST = -1
const BROKEN = -2

/** The next true mark from `from` on, and where its part begins. Text that only begins like it is content. */
function next(body: Buffer, mark: Buffer, from: number): { at: number; after: number } | undefined {
  for (let at = body.indexOf(mark, from); at >= 0; at = body.indexOf(mark, at + 1)) {
    const after = afterMark(body, at + mark.length)
    if (after !== BROKEN) return { at, after }
  }
  return undefined
}

/** Where the part behind a mark begins: spaces and tabs may stand before the line's end. */
function afterMark(body: Buffer, at: number): number {
  if (body[at] === 0x2d && body[at + 1] === 0x2d) return LAST
  let end = at
  while (body[end] === 0x20 || body[end] === 0x09) end++
  return body[end] === 0x0d && body[end + 1] === 0x0a ? end + 2 : BROKEN
}

function partOf(part: Buffer): Part | No {
  if (part.length === 0) return { value: part, type: null }
  if (part[0] === 0x0d && part[1] === 0x0a) return { value: part.subarray(2), type: null }
  const found = part.subarray(0, LONGEST_PART_HEAD).indexOf('\r\n\r\n')
  // The mark may follow the head at once: its line end is the blank line.
  const isHeadAlone = found < 0 && part.length <= LONGEST_PART_HEAD && part.at(-1) === 0x0a && part.at(-2) === 0x0d
  const end = isHeadAlone ? part.length - 2 : found
  if (end < 0) return badPartHead
  let type: string | null = null
  // A line that begins with a space goes on with the one before (RFC 5322 §2.2.3).
  const head = part.toString('latin1', 0, end).replace(/\r\n[ \t]+/g, ' ')
  for (const line of head.split('\r\n')) {
    const colon = line.indexOf(':')
    if (colon < 1) return badPartHead
    const name = line.slice(0, colon).trim().toLowerCase()
    const value = line.slice(colon + 1).trim()
    if (name === 'content-type') type = /^[\t\x20-\x7e\x80-\xff]+$/.test(value) ? value : null
    else if (name === 'content-transfer-encoding' && !/^(7bit|8bit|binary)$/i.test(value)) return encodedPart
  }
  return { value: part.subarray(end + 4), type }
}

const PARAMETER = /[ \t]*;[ \t]*(?:([\w!#$%&'*+.^`|~-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*)))?/y

function boundaryOf(contentType: string): string | null {
  const from = contentType.indexOf(';')
  if (from < 0) return null
  PARAMETER.lastIndex = from
  for (let found = PARAMETER.exec(contentType); found !== null; found = PARAMETER.exec(contentType)) {
    const [, name, quoted, plain] = found
    if (name?.toLowerCase() !== 'boundary') continue
    const boundary = quoted?.replace(/\\(.)/g, '$1') ?? plain ?? ''
    return boundary.length > 0 && boundary.length <= LONGEST_BOUNDARY && !boundary.endsWith(' ') ? boundary : null
  }
  return null
}
