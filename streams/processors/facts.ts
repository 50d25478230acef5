import { isUtf8 } from 'node:buffer'
import { isLarge } from '../../config/exactJson.ts'
import type { Arrived, Message } from '../message.ts'
import { Undelivered } from '../undelivered.ts'

/** Bytes of the longest value that is looked into. */
const MOST_BYTES = 4 * 1024 * 1024
/** Messages whose facts are remembered, so that the filters of many clients parse one message once. */
const REMEMBERED = 128
const REMEMBERED_BYTES = 1024 * 1024

/** What expressions know of a message by name; each is worked out when it is first asked for. */
export class Facts {
  readonly #message: Message & Partial<Arrived>
  #text: string | null = null
  #value: unknown
  #isParsed = false
  #isJson = false
  #headers: Record<string, string> | null = null

  constructor(message: Message & Partial<Arrived>) {
    this.#message = message
  }

  /** The value as text, in base64 when it is no UTF-8; '' of a tombstone. */
  get text(): string {
    const { value } = this.#message
    if (value === null) return ''
    if (value.length > MOST_BYTES) throw new Undelivered('invalid', `the value is longer than ${MOST_BYTES} bytes`)
    this.#text ??= textOf(value)
    return this.#text
  }

  /** The value when it is JSON, else its text; null of a tombstone. Integers that a double does not carry are bigints. */
  get value(): unknown {
    if (!this.#isParsed) {
      this.#value = this.#parsed()
      this.#isParsed = true
    }
    return this.#value
  }

  /** False of a tombstone. */
  get isJson(): boolean {
    return this.value !== undefined && this.#isJson
  }

  #parsed(): unknown {
    const { value } = this.#message
    if (value === null) return null
    const { text } = this
    if (!MAYBE_JSON.test(text) || !isUtf8(value)) return text
    try {
      const parsed = parseJson(text)
      this.#isJson = true
      return parsed
    } catch {
      return text
    }
  }

  get key(): string | null {
    const { key } = this.#message
    return key === null ? null : textOf(key)
  }

  /** By lower-case name; of several with one name the last. */
  get headers(): Record<string, string> {
    if (this.#headers === null) {
      const all: Record<string, string> = Object.create(null)
      for (const [name, value] of this.#message.headers) all[name.toLowerCase()] = textOf(value)
      this.#headers = all
    }
    return this.#headers
  }

  /** '', and -1 of the three others, before a broker has the message. */
  get topic(): string {
    return this.#message.topic ?? ''
  }

  get partition(): bigint {
    return BigInt(this.#message.partition ?? -1)
  }

  get offset(): bigint {
    return BigInt(this.#message.offset ?? -1)
  }

  /** Milliseconds since the epoch. */
  get timestamp(): bigint {
    return BigInt(this.#message.timestamp ?? -1)
  }
}

let last: { readonly message: Message; readonly facts: Facts } | null = null
const remembered = new Map<Message, Facts>()
let rememberedBytes = 0

export function factsOf(message: Message): Facts {
  if (last !== null && last.message === message) return last.facts
  let facts = remembered.get(message)
  if (facts === undefined) {
    facts = new Facts(message)
    rememberedBytes += message.value === null ? 0 : message.value.length
    if (remembered.size >= REMEMBERED || rememberedBytes > REMEMBERED_BYTES) {
      remembered.clear()
      rememberedBytes = 0
    } else remembered.set(message, facts)
  }
  last = { message, facts }
  return facts
}

export function textOf(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  return isUtf8(buffer) ? buffer.toString('utf8') : buffer.toString('base64')
}

/** Where JSON may begin: most texts that are none are told by their first character, without an exception. */
const MAYBE_JSON = /^[\s{["\-\dtfn]/

/** The part of ECMAScript's "JSON.parse source text access" that TypeScript does not know yet. */
const { parse } = JSON as unknown as {
  parse(
    text: string,
    reviver: (name: string, value: unknown, context: { readonly source?: string }) => unknown
  ): unknown
}

/** Digits of the longest integer that is kept whole: making one takes the square of its length. */
const MOST_DIGITS = 40

/** As `JSON.parse`; integers that a double does not carry become bigints. @throws SyntaxError, RangeError (too deep) */
export function parseJson(text: string): unknown {
  if (!/\d{16}/.test(text)) return JSON.parse(text)
  return parse(text, (_name, value, { source }) =>
    typeof value === 'number' && source !== undefined && source.length <= MOST_DIGITS && isLarge(source)
      ? BigInt(source)
      : value
  )
}

/** What stands at `a.b.0` in a value; undefined: nothing. A dot within a name is written `~1`, a tilde `~0`. */
export function at(value: unknown, path: string): unknown {
  if (path === '') return value
  let place = value
  for (const part of path.split('.')) {
    if (typeof place !== 'object' || place === null) return undefined
    const name = part.includes('~') ? part.replaceAll('~1', '.').replaceAll('~0', '~') : part
    if (Array.isArray(place) ? !/^\d{1,9}$/.test(name) : !Object.hasOwn(place, name)) return undefined
    place = (place as Record<string, unknown>)[name]
  }
  return place
}
