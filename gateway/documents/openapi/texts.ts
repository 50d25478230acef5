import { isObject } from '../../../config/report.ts'
import type { Definitions, Members } from './definitions.ts'
import { plain } from './schemas.ts'

/** What parameters are made of: texts that mean numbers, flags, lists and objects, as their schema says. */

/** Schemas that together say about one value: its own, those that it refers to, and those of `allOf`, `anyOf`, `oneOf`. */
const MOST_PARTS = 100

/** What a schema says about how a text is to be read. */
export class Reading {
  readonly types: ReadonlySet<string>
  readonly #definitions: Definitions
  readonly #parts: readonly Members[]
  readonly #members = new Map<string, Reading>()
  #items: Reading | null = null

  constructor(schema: unknown, definitions: Definitions) {
    this.#definitions = definitions
    this.#parts = partsOf(schema, definitions)
    this.types = new Set(this.#parts.flatMap(part => typesOf(part, definitions.is30)))
  }

  get items(): Reading {
    if (this.#items === null) {
      const items = this.#parts.find(part => part.items !== undefined)?.items
      this.#items = new Reading(items ?? true, this.#definitions)
    }
    return this.#items
  }

  /** The members that the schema names. */
  get names(): string[] {
    return [...new Set(this.#parts.flatMap(part => (isObject(part.properties) ? Object.keys(part.properties) : [])))]
  }

  member(name: string): Reading {
    const known = this.#members.get(name)
    if (known !== undefined) return known
    const properties = this.#parts
      .map(part => part.properties)
      .find(each => isObject(each) && Object.hasOwn(each, name))
    if (properties === undefined) {
      const additional = this.#parts.find(part => isObject(part.additionalProperties))?.additionalProperties
      return new Reading(additional ?? true, this.#definitions)
    }
    const member = new Reading((properties as Members)[name], this.#definitions)
    this.#members.set(name, member)
    return member
  }

  /** The value that a text means; the text itself where it can mean nothing else. */
  value(text: string): unknown {
    const { types } = this
    if (types.has('integer') && /^-?\d+$/.test(text)) return this.#integer(text)
    if (types.has('number') && /^-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,4})?$/.test(text)) return Number(text)
    if (types.has('boolean') && (text === 'true' || text === 'false')) return text === 'true'
    if (types.has('null') && !types.has('string') && (text === '' || text === 'null')) return null
    return text
  }

  /**
   * What lies just beyond int64 would be rounded to its bound, so it becomes the next double beyond, where the format
   * is asked for.
   */
  #integer(text: string): number {
    const value = Number(text)
    if (Math.abs(value) !== 2 ** 63 || text.length < MOST_DIGITS) return value
    if (!this.#parts.some(part => part.format === 'int64')) return value
    return BigInt.asIntN(64, BigInt(text)) === BigInt(text) ? value : value * (1 + Number.EPSILON)
  }
}

/** Digits of the largest int64. */
const MOST_DIGITS = 19

function partsOf(schema: unknown, definitions: Definitions): Members[] {
  const parts = new Set<Members>()
  const waiting: unknown[] = [schema]
  for (let i = 0; i < waiting.length && parts.size < MOST_PARTS; i++) {
    const part = waiting[i]
    if (!isObject(part) || parts.has(part)) continue
    if (part.$ref !== undefined) {
      waiting.push(definitions.followed(part))
      if (definitions.is30) continue
    }
    parts.add(part)
    for (const list of [part.allOf, part.anyOf, part.oneOf]) if (Array.isArray(list)) waiting.push(...list)
  }
  return [...parts]
}

function typesOf(part: Members, is30: boolean): string[] {
  const nullable = is30 && part.nullable === true ? ['null'] : []
  if (part.type !== undefined) return [part.type, nullable].flat() as string[]
  const values = Array.isArray(part.enum) ? part.enum : part.const === undefined ? [] : [part.const]
  if (values.length > 0) return [...values.map(typeOf), ...nullable]
  if (part.properties !== undefined) return ['object']
  return part.items === undefined ? [] : ['array']
}

function typeOf(value: unknown): string {
  const of = plain(value)
  return of === null ? 'null' : Array.isArray(of) ? 'array' : typeof of
}
