import {
  type Dictionary,
  ParseError,
  parseDictionary,
  parseItem,
  parseList,
  serializeDictionary,
  serializeItem,
  serializeList
} from 'structured-headers'

/** Structured fields (RFC 9651), where what cannot be read is an answer and no error. */

/** Null: no dictionary. */
export function dictionaryOf(field: string): Dictionary | null {
  return read(() => parseDictionary(field))
}

/** An item as it is written strictly; null: it is none. */
export function itemOf(field: string): string | null {
  return read(() => item(field))
}

const dictionary = (field: string) => serializeDictionary(parseDictionary(field))
const list = (field: string) => serializeList(parseList(field))
const item = (field: string) => serializeItem(parseItem(field))

/** The fields of requests whose type is known: without it nobody can tell how they are written strictly (RFC 9421 §2.1.1). */
const KNOWN = new Map<string, (field: string) => string>([
  ['accept-signature', dictionary],
  ['content-digest', dictionary],
  ['priority', dictionary],
  ['repr-digest', dictionary],
  ['signature', dictionary],
  ['signature-input', dictionary],
  ['want-content-digest', dictionary],
  ['want-repr-digest', dictionary],
  ['client-cert', item],
  ['client-cert-chain', list]
])

/** A field as it is written strictly; null: it is not there, cannot be read, or nobody knows its type. */
export function strictly(name: string, field: string | null): string | null {
  const write = KNOWN.get(name)
  return field === null || write === undefined ? null : read(() => write(field))
}

function read<T>(parse: () => T): T | null {
  try {
    return parse()
  } catch (cause) {
    if (cause instanceof ParseError) return null
    throw cause
  }
}
