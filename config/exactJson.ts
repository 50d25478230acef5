/**
 * JSON whose integers come back digit by digit. An integer that a double does not carry is kept as a raw JSON value
 * (`JSON.rawJSON`): a frozen object that `JSON.stringify` writes as it was given. Other copies lose that it is one.
 */

/** The part of ECMAScript's "JSON.parse source text access" that TypeScript does not know yet. */
interface SourceJson {
  parse(
    text: string,
    reviver: (name: string, value: unknown, context: { readonly source?: string }) => unknown
  ): unknown
  rawJSON(text: string): RawNumber
  isRawJSON(value: unknown): value is RawNumber
}

export interface RawNumber {
  readonly rawJSON: string
}

const json = JSON as unknown as SourceJson

// Doubles carry all integers of 15 digits; a reviver costs ten times as much as parsing. Inside of texts it may be
// found in vain.
const MAYBE_LARGE = /(?:^|[\s:,[])-?\d{16}/

/** As `JSON.parse`, with large integers as raw JSON values. @throws SyntaxError */
export function parseExact(text: string): unknown {
  if (!MAYBE_LARGE.test(text)) return JSON.parse(text)
  return json.parse(text, (_name, value, { source }) =>
    typeof value === 'number' && source !== undefined && isLarge(source) ? json.rawJSON(source) : value
  )
}

/** Whether the text of a number is an integer that a double would write otherwise. */
export function isLarge(source: string): boolean {
  return source.length >= 16 && /^-?\d+$/.test(source) && String(Number(source)) !== source
}

/** An integer as the value that `parseExact` gives for it. */
export function exactInteger(source: string): number | RawNumber {
  return isLarge(source) ? json.rawJSON(source) : Number(source)
}

export function isRaw(value: unknown): value is RawNumber {
  return json.isRawJSON(value)
}

/** What is told about such an integer where it may not stand. */
export const tooLarge = 'is an integer that a double cannot carry (beyond 2^53)'
