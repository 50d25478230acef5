import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import type { Static, TSchema } from 'typebox'

/** One fault of an input: where it is (JSON pointer, '' for the whole) and what was expected there. */
export interface Fault {
  readonly path: string
  readonly message: string
}

/** An input that does not fit its shape, with every fault that was found. */
export class Invalid extends Error {
  readonly faults: readonly Fault[]
  constructor(faults: readonly Fault[]) {
    super(faults.map(({ path, message }) => (path === '' ? message : `${path} ${message}`)).join('; '))
    this.faults = faults
  }
}

// multipleOf: 0.01 refuses honest values such as 4.18 without a precision; int64 travels as a JSON number and is
// bounded in the shapes; strictTypes stays on so that a shape that cannot mean what it says fails at load.
const options = { useDefaults: true, multipleOfPrecision: 6, strict: true, allowUnionTypes: true }
const atOnce = prepared(new Ajv2020(options))
const thorough = prepared(new Ajv2020({ ...options, allErrors: true }))

/** An input of more values is told its first fault alone: a list of millions of faults would hold up everyone. */
const MOST_VALUES = 20_000

function prepared(ajv: Ajv2020): Ajv2020 {
  // Keywords that carry meaning for people alone.
  ajv.addVocabulary(['unit', 'secret', 'example'])
  ajv.addFormat('date-time', true)
  return ajv
}

/**
 * Compiles a shape once. The function that comes back fills in defaults **in the input itself** and returns it,
 * or throws `Invalid` with all faults (with the first, where the input is huge).
 */
export function compile<S extends TSchema>(schema: S): (input: unknown) => Static<S> {
  const check = atOnce.compile(schema)
  let checkAll: ValidateFunction | null = null
  return input => {
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

/** How many values lie in it, itself included; counted no further than just above `most`. */
function valuesOf(value: unknown, most: number): number {
  if (typeof value !== 'object' || value === null) return 1
  const inner: readonly unknown[] = Array.isArray(value) ? value : Object.values(value)
  let count = 1
  for (let i = 0; i < inner.length && count <= most; i++) count += valuesOf(inner[i], most - count)
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

/** Escapes one member name for a JSON pointer (RFC 6901). */
export function pointer(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1')
}
