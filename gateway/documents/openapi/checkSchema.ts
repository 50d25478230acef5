import { isRaw } from '../../../config/exactJson.ts'
import { expressionFault } from '../../../config/expressions.ts'
import { isObject, type Report } from '../../../config/report.ts'
import { pointer } from '../../../config/validate.ts'
import type { Definitions, Members, Place } from './definitions.ts'
import { type KeywordKind, keywords, types } from './keywords.ts'

/** Text of all expressions of one document: compiling a character takes some microseconds. */
const MOST_EXPRESSIONS = 100_000

/** Schemas in one list, or in one object other than `properties`: each is a branch within the last. */
const MOST_BRANCHES = 300

/** What is heard of schemas on the way, beside faults. */
export interface Listener {
  /** A schema that is no error, but beyond what the gateway checks. `path`: where it says so. */
  uncheckable(schema: object, path: string, message: string): void
  /** One schema has another in it, or refers to it. */
  leads(from: object, to: unknown): void
}

/**
 * Looks through the schemas that requests are held to, whatever they refer to included, each once a document: what is
 * reported here would fail only at the first request. Compiles nothing but expressions.
 */
export class SchemaChecker {
  readonly #definitions: Definitions
  readonly #fault: Report
  readonly #looksAt: 'everything' | 'references'
  readonly #listener: Listener | null
  readonly #seen = new Set<unknown>()
  #expressions = 0

  /**
   * @param looksAt `references`: for schemas that nothing is held to, only samples are made of
   * @param listener takes what cannot be checked; null: that is a fault
   */
  constructor(
    definitions: Definitions,
    looksAt: 'everything' | 'references',
    fault: Report,
    listener: Listener | null = null
  ) {
    this.#definitions = definitions
    this.#looksAt = looksAt
    this.#fault = fault
    this.#listener = listener
  }

  check(schema: unknown, path: string): void {
    // A list and no recursion: references may lead through thousands of schemas.
    const waiting: Place[] = [{ value: schema, path }]
    for (let place = waiting.pop(); place !== undefined; place = waiting.pop()) this.#one(place, waiting)
  }

  #one({ value: schema, path }: Place, waiting: Place[]): void {
    if (typeof schema === 'boolean' || this.#seen.has(schema)) return
    if (!isObject(schema)) return this.#fault(path, 'must be a schema')
    this.#seen.add(schema)
    if (schema.$ref !== undefined) {
      const target = this.#definitions.follow({ value: schema, path }, this.#fault)
      if (target !== null) this.#wait(schema, target, waiting)
      // Beside it nothing counts in OpenAPI 3.0; in 3.1 it does.
      if (this.#definitions.is30) return
    }
    for (const name of Object.keys(schema)) {
      const kind = keywords.get(name)
      if (kind !== undefined && (this.#looksAt === 'everything' || kind.startsWith('schema')))
        this.#keyword(schema, kind, schema[name], `${path}/${pointer(name)}`, waiting)
    }
  }

  #wait(from: object, place: Place, waiting: Place[]): void {
    this.#listener?.leads(from, place.value)
    waiting.push(place)
  }

  #uncheckable(schema: object, path: string, message: string): void {
    if (this.#listener === null) this.#fault(path, message)
    else this.#listener.uncheckable(schema, path, message)
  }

  #keyword(schema: Members, kind: KeywordKind, value: unknown, path: string, waiting: Place[]): void {
    const must = (holds: boolean, be: string) => void (holds || this.#fault(path, `must be ${be}`))
    const fewer = (count: number, of: string) => {
      if (this.#looksAt === 'everything' && count > MOST_BRANCHES)
        this.#uncheckable(schema, path, `must be ${of} of at most ${MOST_BRANCHES}`)
    }
    switch (kind) {
      case 'number':
        return must(isNumber(value) && (!path.endsWith('/multipleOf') || Number(value) > 0 || isRaw(value)), 'a number')
      case 'limit':
        return must(isNumber(value) || typeof value === 'boolean', 'a number')
      case 'count':
        return must(isCount(value), 'a whole number from 0 on')
      case 'flag':
        return must(typeof value === 'boolean', 'true or false')
      case 'type': {
        const list: unknown[] = Array.isArray(value) ? value : [value]
        return must(list.length > 0 && list.every(type => types.has(type)), 'a type of JSON Schema')
      }
      case 'values':
        return must(Array.isArray(value) && value.length > 0, 'a list that is not empty')
      case 'expression':
        if (typeof value !== 'string') return this.#fault(path, 'must be a text')
        return this.#expression(schema, value, path)
      case 'text':
        return must(typeof value === 'string', 'a text')
      case 'texts':
        return must(isTexts(value), 'a list of texts')
      case 'textsMap':
        if (!isObject(value) || !Object.values(value).every(isTexts))
          return this.#fault(path, 'must be an object of lists of texts')
        return fewer(Object.keys(value).length, 'an object')
      case 'schema':
        return this.#wait(schema, { value, path }, waiting)
      case 'schemas':
        if (!Array.isArray(value) || value.length === 0) return this.#fault(path, 'must be a list of schemas')
        fewer(value.length, 'a list')
        for (const [i, each] of value.entries()) this.#wait(schema, { value: each, path: `${path}/${i}` }, waiting)
        return
      case 'schemaMap':
        if (!isObject(value)) return this.#fault(path, 'must be an object of schemas')
        if (!path.endsWith('/properties')) fewer(Object.keys(value).length, 'an object')
        for (const [name, each] of Object.entries(value)) {
          if (path.endsWith('/patternProperties') && this.#looksAt === 'everything')
            this.#expression(schema, name, `${path}/${pointer(name)}`)
          this.#wait(schema, { value: each, path: `${path}/${pointer(name)}` }, waiting)
        }
        return
      case 'unsupported':
        return this.#uncheckable(schema, path, 'is not supported')
    }
  }

  #expression(schema: object, source: string, path: string): void {
    const isTold = this.#expressions > MOST_EXPRESSIONS && this.#listener === null
    if (isTold) return
    this.#expressions += source.length
    if (this.#expressions > MOST_EXPRESSIONS) return this.#uncheckable(schema, path, 'is one expression too many')
    const message = expressionFault(source)
    if (message === null) return
    if (isExpression(source)) this.#uncheckable(schema, path, message)
    else this.#fault(path, message)
  }
}

/** Whether it is one for others: then it says something that RE2 cannot do. */
function isExpression(source: string): boolean {
  try {
    new RegExp(source)
    return true
  } catch {
    return false
  }
}

/** What no double carries is no less a count. */
function isCount(value: unknown): boolean {
  return isRaw(value) ? !value.rawJSON.startsWith('-') : Number.isSafeInteger(value) && Number(value) >= 0
}

function isNumber(value: unknown): boolean {
  return typeof value === 'number' || isRaw(value)
}

function isTexts(value: unknown): boolean {
  return Array.isArray(value) && value.every(each => typeof each === 'string')
}
