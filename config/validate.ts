import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import type { DataValidationCxt } from 'ajv/dist/types/index.js'
import type { Static, TSchema } from 'typebox'
import { lifetimeSeconds } from './duration.ts'
import { spend, TooMuchEffort, withEffort } from './effort.ts'
import { expression } from './expressions.ts'
import { numberFormats, textFormats } from './formats.ts'
import { Values } from './unique.ts'

/** One fault of an input: where it is (JSON pointer, '' for the whole) and what was expected there. */
export interface Fault {
  readonly path: string
  readonly message: string
}

/** An input that does not fit its shape, with every fault that was found. */
export class Invalid extends Error {
  readonly faults: readonly Fault[]
  constructor(faults: readonly Fault[]) {
    super(messageOf(faults))
    this.faults = faults
  }
}

/** Characters. A name may be as long as a body is, and every fault below it repeats it. */
const LONGEST_MESSAGE = 100_000

function messageOf(faults: readonly Fault[]): string {
  let text = ''
  for (const { path, message } of faults) {
    text += `${text === '' ? '' : '; '}${path === '' ? message : `${path} ${message}`}`
    if (text.length > LONGEST_MESSAGE) return `${text.slice(0, LONGEST_MESSAGE)}…`
  }
  return text
}

// multipleOf: 0.01 refuses honest values such as 4.18 without a precision; int64 travels as a JSON number and is
// bounded in the shapes; strictTypes stays on so that a shape that cannot mean what it says fails at load.
const options = { useDefaults: true, multipleOfPrecision: 6, strict: true, allowUnionTypes: true }
const atOnce = prepared(new Ajv2020(options))
const thorough = prepared(new Ajv2020({ ...options, allErrors: true }))

/** An input of more values is told its first fault alone: a list of millions of faults would hold up everyone. */
const MOST_VALUES = 20_000
/** So is one with longer names: each fault below one repeats it. */
const LONGEST_NAME = 1000

function prepared(ajv: Ajv2020): Ajv2020 {
  // Keywords that carry meaning for people alone.
  ajv.addVocabulary(['unit', 'secret', 'example'])
  ajv.addFormat('date-time', true)
  const error = { message: 'must be seconds or a lifetime such as 5h,34m,30s (M, w, d, h, m, s, each once)' }
  ajv.addKeyword({ keyword: 'lifetime', type: 'string', modifying: true, validate: lifetime, error })
  return ajv
}

/** `lifetime: 'seconds'` turns the text into seconds where it stands, as defaults are filled in; `'text'` leaves it. */
function lifetime(form: 'seconds' | 'text', text: string, _shape?: unknown, at?: DataValidationCxt): boolean {
  const seconds = lifetimeSeconds(text)
  if (seconds !== null && form === 'seconds') at!.parentData[at!.parentDataProperty] = seconds
  return seconds !== null
}

/**
 * Compiles a shape once, when it is first used: all of them would be a third of the start of a process, and of each
 * thread. The function that comes back fills in defaults **in the input itself** and returns it,
 * or throws `Invalid` with all faults (with the first, where the input is huge).
 */
export function compile<S extends TSchema>(schema: S): (input: unknown) => Static<S> {
  let check: ValidateFunction | null = null
  let checkAll: ValidateFunction | null = null
  return input => {
    check ??= atOnce.compile(schema)
    if (check(input)) return input as Static<S>
    if (valuesOf(input, MOST_VALUES) > MOST_VALUES) throw new Invalid(check.errors!.slice(0, 1).map(fault))
    checkAll ??= thorough.compile(schema)
    checkAll(input)
    throw new Invalid(telling(checkAll.errors ?? check.errors!).map(fault))
  }
}

/**
 * The faults of a member that may be null as well, without the words about null: whoever gave something else meant
 * something else.
 */
function telling(errors: readonly ErrorObject[]): readonly ErrorObject[] {
  const unions = new Set(errors.filter(({ keyword }) => keyword === 'anyOf').map(({ instancePath }) => instancePath))
  const isNoise = ({ keyword, instancePath, params }: ErrorObject) =>
    unions.has(instancePath) && (keyword === 'anyOf' || (keyword === 'type' && params.type === 'null'))
  const told = new Set<string>()
  for (const error of errors) {
    if (isNoise(error)) continue
    let path = error.instancePath
    for (; !told.has(path); path = path.slice(0, path.lastIndexOf('/'))) {
      told.add(path)
      if (path === '') break
    }
  }
  return errors.filter(error => !isNoise(error) || !told.has(error.instancePath))
}

/** How many values lie in it, itself included; counted no further than just above `most`. Behind a long name are too many. */
function valuesOf(value: unknown, most: number): number {
  if (typeof value !== 'object' || value === null) return 1
  let count = 1
  if (Array.isArray(value))
    for (let i = 0; i < value.length && count <= most; i++) count += valuesOf(value[i], most - count)
  else
    for (const [name, inner] of Object.entries(value)) {
      count += name.length > LONGEST_NAME ? most : valuesOf(inner, most - count)
      if (count > most) break
    }
  return count
}

function fault(error: ErrorObject): Fault {
  if (error.keyword === 'additionalProperties')
    return { path: `${error.instancePath}/${pointer(error.params.additionalProperty)}`, message: 'is not known here' }
  if (error.keyword === 'required')
    return { path: `${error.instancePath}/${pointer(error.params.missingProperty)}`, message: 'is required' }
  if (error.keyword === 'enum' || error.keyword === 'const')
    return {
      path: error.instancePath,
      message: `must be one of ${[error.params.allowedValues ?? error.params.allowedValue]
        .flat()
        .map(v => JSON.stringify(v))
        .join(', ')}`
    }
  return { path: error.instancePath, message: error.message ?? 'is not valid' }
}

/** Keyword of our own: the schema that stands here is compiled when the first value comes to it. */
export const LATER = 'svc-later'
/** Keyword of our own: what `properties` says, by name, where it says too much for one compiled function. */
export const MEMBERS = 'svc-members'
/** Value of the first; the second has one for each name. */
export type Later = () => ForeignCheck
export type ForeignCheck = ValidateFunction

/**
 * Schemas that others wrote (JSON Schema 2020-12), as they stand in one document: nothing is filled in or converted in
 * what they check. They are taken as they are, so whoever hands them over has looked at their keywords.
 */
export class ForeignSchemas {
  readonly #ajv: Ajv2020

  constructor() {
    const ajv = new Ajv2020({
      strict: false,
      validateSchema: false,
      meta: false,
      logger: false,
      addUsedSchema: false,
      ownProperties: true,
      multipleOfPrecision: 6,
      code: { regExp: expression, optimize: false }
    })
    for (const [name, validate] of Object.entries(textFormats)) ajv.addFormat(name, { type: 'string', validate })
    for (const [name, validate] of Object.entries(numberFormats)) ajv.addFormat(name, { type: 'number', validate })
    ajv.removeKeyword('uniqueItems')
    ajv.addKeyword({
      keyword: 'uniqueItems',
      type: 'array',
      compile: unique,
      error: { message: 'must hold no item twice' }
    })
    ajv.addKeyword({ keyword: LATER, compile: later, errors: 'full' })
    ajv.addKeyword({ keyword: MEMBERS, type: 'object', compile: members, errors: 'full' })
    this.#ajv = ajv
  }

  compile(schema: object | boolean): ForeignCheck {
    return this.#ajv.compile(schema)
  }
}

function unique(wanted: boolean) {
  const values = new WeakMap<object, Values>()
  return (items: unknown[], at?: DataValidationCxt): boolean => {
    if (!wanted || items.length < 2) return true
    const root = at?.rootData ?? items
    let known = values.get(root)
    if (known === undefined) {
      known = new Values()
      values.set(root, known)
    }
    return known.duplicate(items) < 0
  }
}

function later(schema: Later) {
  const check = (value: unknown, at?: DataValidationCxt): boolean => {
    spend(1)
    const inner = schema()
    if (inner(value, at)) return true
    ;(check as ForeignCheck).errors = inner.errors!
    return false
  }
  return check
}

function members(schemas: ReadonlyMap<string, Later>) {
  const check = (value: Record<string, unknown>, at?: DataValidationCxt): boolean => {
    for (const name of Object.keys(value)) {
      const inner = schemas.get(name)
      if (inner === undefined) continue
      spend(1)
      const validate = inner()
      const instancePath = `${at?.instancePath ?? ''}/${pointer(name)}`
      const place = { instancePath, parentData: value, parentDataProperty: name, rootData: at?.rootData ?? value }
      if (validate(value[name], { ...place, dynamicAnchors: {} })) continue
      ;(check as unknown as ForeignCheck).errors = validate.errors!
      return false
    }
    return true
  }
  return check
}

/**
 * The fault that tells most about a value that does not fit a foreign schema; null: it fits.
 * @param steps how much work it may take; beyond that it counts as a fault
 */
export function foreignFault(schema: Later, value: unknown, steps: number): Fault | null {
  let errors: readonly ErrorObject[]
  try {
    const check = schema()
    if (withEffort(steps, () => check(value))) return null
    errors = check.errors!
  } catch (cause) {
    // A schema that leads to itself, without a value in between, ends with the stack.
    if (!(cause instanceof TooMuchEffort) && !(cause instanceof RangeError)) throw cause
    return { path: '', message: 'is too much to be checked' }
  }
  const isUnion = ({ keyword }: ErrorObject) => keyword === 'anyOf' || keyword === 'oneOf'
  const union = errors.some(isUnion)
  // Within unions, words about null are left out: whoever gave something else meant something else.
  const real = errors.filter(
    error => !isUnion(error) && !(union && error.keyword === 'type' && error.params.type === 'null')
  )
  const last = errors.at(-1)!
  let deepest = real[0] ?? last
  for (const error of real) if (error.instancePath.length > deepest.instancePath.length) deepest = error
  const told = real.length === 1 || deepest.instancePath.length > last.instancePath.length ? deepest : last
  const { path, message } = fault(told)
  return { path, message: told.keyword === 'type' ? message.replaceAll(',', ' or ') : message }
}

/** Escapes one member name for a JSON pointer (RFC 6901). */
export function pointer(name: string): string {
  return /[~/]/.test(name) ? name.replaceAll('~', '~0').replaceAll('/', '~1') : name
}
