import type { Dictionary } from 'structured-headers'
import type { Exchange } from '../../exchange.ts'
import { dictionaryOf } from './structured.ts'
import { fieldOf, pathAndQuery } from './target.ts'

/** A request as signatures see it. What must be parsed is parsed once, however many components name a part of it. */
export class Message {
  readonly x: Exchange
  readonly #dictionaries = new Map<string, Dictionary | null>()
  #params: ReadonlyMap<string, string | null> | null = null

  constructor(x: Exchange) {
    this.x = x
  }

  /** A field by its lower-case name; null: it is not there, or no dictionary. */
  dictionary(name: string): Dictionary | null {
    const known = this.#dictionaries.get(name)
    if (known !== undefined) return known
    const field = fieldOf(this.x, name)
    const made = field === null ? null : dictionaryOf(field)
    this.#dictionaries.set(name, made)
    return made
  }

  /** From the question mark on; the mark alone where there is no query. */
  get query(): string {
    const target = pathAndQuery(this.x)
    const mark = target.indexOf('?')
    return mark < 0 ? '?' : target.slice(mark)
  }

  /** The value of a query parameter, both written as RFC 9421 §2.2.8 says; null: it does not stand there just once. */
  param(name: string): string | null {
    this.#params ??= paramsOf(this.query.slice(1))
    return this.#params.get(name) ?? null
  }
}

function paramsOf(query: string): Map<string, string | null> {
  const params = new Map<string, string | null>()
  for (const pair of query.split('&')) {
    const equals = pair.indexOf('=')
    const name = encodedAnew(equals < 0 ? pair : pair.slice(0, equals))
    if (name !== null) params.set(name, params.has(name) ? null : equals < 0 ? '' : encodedAnew(pair.slice(equals + 1)))
  }
  return params
}

/** Decoded as forms are, then percent-encoded but for letters, digits and `*-._`; null: no UTF-8, which has no one reading. */
function encodedAnew(text: string): string | null {
  try {
    const decoded = decodeURIComponent(text.replaceAll('+', ' '))
    return encodeURIComponent(decoded).replace(/[!'()~]/g, char => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
  } catch (cause) {
    if (cause instanceof URIError) return null
    throw cause
  }
}
