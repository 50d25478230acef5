import { expressionFault } from '../../config/expressions.ts'
import { numberFormats, textFormats } from '../../config/formats.ts'
import { type ForeignCheck, ForeignSchemas, LATER, type Later, pointer } from '../../config/validate.ts'
import type { Fault } from '../connector.ts'
import { at } from './schemaPointer.ts'

/** Reads a JSON Schema (2020-12) that others wrote: all that it says counts, and nothing else is let through to ajv. */

type Schema = Readonly<Record<string, unknown>>
type Made = Record<string, unknown> | boolean

/** Schemas within one document, and how deep they lie. */
const MOST_SCHEMAS = 1000
const DEEPEST = 50
const TYPES = ['string', 'number', 'integer', 'boolean', 'array', 'object', 'null']

const number = (value: unknown) => (Number.isFinite(value) ? null : 'must be a number')
const above0 = (value: unknown) => (Number.isFinite(value) && (value as number) > 0 ? null : 'must be above 0')
const count = (value: unknown) =>
  Number.isSafeInteger(value) && (value as number) >= 0 ? null : 'must be an integer of 0 or more'
const text = (value: unknown) => (typeof value === 'string' ? null : 'must be a text')
const texts = (value: unknown) =>
  Array.isArray(value) && value.every(each => typeof each === 'string') ? null : 'must be a list of texts'
const expression = (value: unknown) => (typeof value === 'string' ? expressionFault(value) : 'must be a text')

/** Keywords with plain values: why a value cannot be; null: it can. */
const plainKeywords: Readonly<Record<string, (value: unknown) => string | null>> = {
  multipleOf: above0,
  maximum: number,
  minimum: number,
  exclusiveMaximum: number,
  exclusiveMinimum: number,
  maxLength: count,
  minLength: count,
  maxItems: count,
  minItems: count,
  maxContains: count,
  minContains: count,
  maxProperties: count,
  minProperties: count,
  uniqueItems: value => (typeof value === 'boolean' ? null : 'must be true or false'),
  type: value =>
    [value].flat().length > 0 && [value].flat().every(each => TYPES.includes(each as string))
      ? null
      : `must be one or several of ${TYPES.join(', ')}`,
  enum: value => (Array.isArray(value) && value.length > 0 ? null : 'must be a list that is not empty'),
  const: () => null,
  pattern: expression,
  format: text,
  required: texts,
  dependentRequired: value =>
    isObject(value) && Object.values(value).every(each => texts(each) === null) ? null : 'must hold lists of texts'
}
const one = ['not', 'if', 'then', 'else', 'items', 'contains', 'additionalProperties', 'propertyNames']
const unevaluated = ['unevaluatedItems', 'unevaluatedProperties']
const several = ['allOf', 'anyOf', 'oneOf', 'prefixItems']
const named = ['properties', 'patternProperties', 'dependentSchemas']
const definitions = ['$defs', 'definitions']
/** They look at the value itself, and `unevaluated…` looks through them. */
const inPlace = ['allOf', 'anyOf', 'oneOf', 'not', 'if', 'then', 'else', 'dependentSchemas']
/** They say nothing about what fits. */
const remarks = new Set(
  '$schema $id $comment title description default examples deprecated readOnly writeOnly contentMediaType contentEncoding'.split(
    ' '
  )
)

/** The check of a schema; only when no fault was told it may be used. */
export function readSchema(root: object, fault: Fault): Later {
  const told = new Set<string>()
  // What a reference leads to is read where it stands as well.
  const once: Fault = (place, message) => {
    if (!told.has(place)) fault(place, message)
    told.add(place)
  }
  const reading = new Reading(root as Schema, once)
  const check = reading.later(root, '')
  reading.walkAll()
  return check
}

class Reading {
  readonly #root: Schema
  readonly #fault: Fault
  readonly #foreign = new ForeignSchemas()
  readonly #laters = new Map<unknown, Later>()
  readonly #open: [schema: unknown, place: string, later: { made: Made }][] = []
  #count = 0

  constructor(root: Schema, fault: Fault) {
    this.#root = root
    this.#fault = fault
  }

  /** A schema that is compiled when the first value comes to it: references may lead round. */
  later(schema: unknown, place: string): Later {
    let known = this.#laters.get(schema)
    if (known !== undefined) return known
    const holder: { made: Made } = { made: true }
    let check: ForeignCheck | null = null
    known = () => {
      check ??= this.#foreign.compile(holder.made)
      return check
    }
    this.#laters.set(schema, known)
    this.#open.push([schema, place, holder])
    return known
  }

  walkAll(): void {
    for (let next = this.#open.pop(); next !== undefined; next = this.#open.pop())
      next[2].made = this.#read(next[0], next[1], 0, false)
  }

  #read(given: unknown, place: string, depth: number, isSeenThrough: boolean): Made {
    if (typeof given === 'boolean') return given
    if (!isObject(given)) return this.#wrong(place, 'must be a schema')
    if (depth > DEEPEST) return this.#wrong(place, `lies deeper than ${DEEPEST} schemas`)
    if (this.#count++ === MOST_SCHEMAS) this.#fault(place, `is one of more than ${MOST_SCHEMAS} schemas`)
    if (this.#count > MOST_SCHEMAS) return true
    const isLookedThrough = isSeenThrough || unevaluated.some(name => given[name] !== undefined)
    const made: Record<string, unknown> = {}
    for (const [name, value] of Object.entries(given)) {
      const here = `${place}/${pointer(name)}`
      const inner = (each: unknown, where: string) =>
        this.#read(each, where, depth + 1, isLookedThrough && inPlace.includes(name))
      if (name === '$ref') {
        if (isLookedThrough) this.#fault(here, 'cannot stand where unevaluatedItems or unevaluatedProperties look')
        made[LATER] = this.#reference(value, here)
      } else if (one.includes(name) || unevaluated.includes(name)) made[name] = inner(value, here)
      else if (several.includes(name)) {
        if (Array.isArray(value) && value.length > 0) made[name] = value.map((each, i) => inner(each, `${here}/${i}`))
        else this.#fault(here, 'must be a list of schemas that is not empty')
      } else if (named.includes(name) || definitions.includes(name)) {
        const schemas = this.#named(name, value, here, inner)
        if (named.includes(name)) made[name] = schemas
      } else if (Object.hasOwn(plainKeywords, name)) {
        const wrong = plainKeywords[name]!(value)
        if (wrong !== null) this.#fault(here, wrong)
        // A format that nobody knows is a remark.
        else if (name !== 'format' || Object.hasOwn(textFormats, value as string)) made[name] = value
        else if (Object.hasOwn(numberFormats, value as string)) made[name] = value
      } else if (!remarks.has(name) && !name.startsWith('x-')) this.#fault(here, 'is no keyword of JSON Schema 2020-12')
    }
    return made
  }

  #named(name: string, value: unknown, here: string, inner: (each: unknown, where: string) => Made): object {
    if (!isObject(value)) {
      this.#fault(here, 'must be an object of schemas')
      return {}
    }
    const entries = Object.entries(value).map(([key, each]) => {
      const where = `${here}/${pointer(key)}`
      const wrong = name === 'patternProperties' ? expressionFault(key) : null
      if (wrong !== null) this.#fault(where, wrong)
      return [key, inner(each, where)] as const
    })
    return Object.fromEntries(entries)
  }

  #reference(value: unknown, here: string): Later {
    const target = typeof value === 'string' ? at(this.#root, value) : undefined
    if (target !== undefined) return this.later(target, String(value).slice(1))
    this.#fault(here, 'must point into this schema: # or #/…')
    return () => this.#foreign.compile(true)
  }

  #wrong(place: string, message: string): Made {
    this.#fault(place, message)
    return true
  }
}

function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
