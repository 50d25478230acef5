/** JSON objects in tokens, read so that nobody else can read them differently. */

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
/** Of objects and lists within each other. */
const MOST_DEPTH = 64

/**
 * Null where it is no JSON object, no valid UTF-8, nested too deep, or where a name comes twice in an object, nested ones
 * included: RFC 7519 §4 lets a reader choose between refusing that and taking the last one; two readers that choose
 * differently would see two tokens.
 */
export function strictObject(bytes: Uint8Array): Record<string, unknown> | null {
  let text: string
  let parsed: unknown
  try {
    text = utf8.decode(bytes)
    parsed = JSON.parse(text)
  } catch {
    return null
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return null
  const written = names(text)
  return written >= 0 && written === members(parsed) ? (parsed as Record<string, unknown>) : null
}

/** How many members a valid JSON text writes: each has one colon outside of strings. -1: nested too deep. */
function names(text: string): number {
  let count = 0
  let depth = 0
  for (let i = 0; i < text.length; i++) {
    switch (text.charCodeAt(i)) {
      case 0x22: // "
        i = endOfString(text, i + 1)
        break
      case 0x3a: // :
        count++
        break
      case 0x7b: // {
      case 0x5b: // [
        if (++depth > MOST_DEPTH) return -1
        break
      case 0x7d: // }
      case 0x5d: // ]
        depth--
    }
  }
  return count
}

function endOfString(text: string, from: number): number {
  let end = text.indexOf('"', from)
  while (isEscaped(text, end)) end = text.indexOf('"', end + 1)
  return end
}

function isEscaped(text: string, at: number): boolean {
  let before = at - 1
  while (text.charCodeAt(before) === 0x5c) before--
  return (at - before) % 2 === 0
}

/** How many members are left of them: where a name comes twice, the earlier one is gone. */
function members(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  let count = 0
  if (Array.isArray(value)) for (const each of value) count += members(each)
  else for (const name of Object.keys(value)) count += 1 + members((value as Record<string, unknown>)[name])
  return count
}
