import { isRaw } from '../../../config/exactJson.ts'
import { numberFormats, textFormats } from '../../../config/formats.ts'
import { isObject } from '../../../config/report.ts'
import { type ForeignCheck, ForeignSchemas, LATER, type Later, MEMBERS } from '../../../config/validate.ts'
import { chosen } from './chosen.ts'
import type { Definitions, Members } from './definitions.ts'
import { type Discriminator, discriminatorOf } from './discriminator.ts'
import { inPlace, keywords } from './keywords.ts'

/** Schemas that one compiled function may hold; further ones are compiled when a value comes to them. */
const MOST_IN_ONE = 100
/** Members that one function checks itself; more are looked up. */
const MOST_MEMBERS = 50
/** How far names of read-only members are looked for, and references written out. */
const DEEPEST = 20

type Schema = Members | boolean

/** What is carried along while one schema is translated. */
interface Unit {
  /** Schemas so far in what will be one compiled function. */
  readonly size: { count: number }
  /** Members that a request need not have, whoever requires them. */
  readonly readOnly: ReadonlySet<string>
  /** The schemas that are written out around this one, where `unevaluated…` has to see through references; else null. */
  readonly around: readonly unknown[] | null
}

const NONE: ReadonlySet<string> = new Set()

/**
 * The schemas of one document as checks of requests. Each is compiled when the first value comes to it: of a document
 * with thousands of schemas a request meets few.
 */
export class Schemas {
  readonly #definitions: Definitions
  readonly #compiled = new Map<unknown, Later>()
  #foreign: ForeignSchemas | null = null

  constructor(definitions: Definitions) {
    this.#definitions = definitions
  }

  /** A schema that was found without fault. */
  later(schema: unknown): Later {
    let known = this.#compiled.get(schema)
    if (known === undefined) {
      let check: ForeignCheck | null = null
      known = () => {
        this.#foreign ??= new ForeignSchemas()
        check ??= this.#foreign.compile(this.#schema(schema, { size: { count: 0 }, readOnly: NONE, around: null }))
        return check
      }
      this.#compiled.set(schema, known)
    }
    return known
  }

  #schema(given: unknown, unit: Unit): Schema {
    if (typeof given === 'boolean') return given
    const schema = given as Members
    const { size, readOnly, around } = unit
    // The first of a function has its place whatever it holds.
    if (size.count > 0 && size.count + width(schema) > MOST_IN_ONE && around === null && readOnly.size === 0)
      return { [LATER]: this.later(schema) }
    size.count += width(schema)
    if (schema.$ref === undefined) return this.#keywords(schema, unit)
    const target = this.#definitions.followed(schema)
    const alone = this.#definitions.is30 || !Object.keys(schema).some(name => keywords.has(name))
    const written =
      unit.around === null || unit.around.includes(target) || unit.around.length > DEEPEST
        ? { [LATER]: this.later(target) }
        : this.#schema(target, { ...unit, around: [...unit.around, target] })
    if (alone) return written
    const { $ref: _, ...beside } = schema
    return { allOf: [written, this.#keywords(beside, unit)] }
  }

  #keywords(schema: Members, unit: Unit): Schema {
    const { is30 } = this.#definitions
    const seesThrough = schema.unevaluatedProperties !== undefined || schema.unevaluatedItems !== undefined
    const readOnly =
      schema.required === undefined && schema.allOf === undefined
        ? unit.readOnly
        : unit.readOnly.union(this.#readOnly(schema, 0))
    const around = unit.around ?? (seesThrough ? [schema] : null)
    const { size } = unit
    const inner = (name: string) => (each: unknown) =>
      this.#schema(each, {
        size,
        readOnly: name === 'allOf' ? readOnly : NONE,
        around: inPlace.has(name) ? around : null
      })
    const out: [string, unknown][] = []
    const discriminator = discriminatorOf(schema, this.#definitions)
    if (discriminator !== null) out.push([LATER, this.#chosen(schema, discriminator)])
    for (const [name, value] of Object.entries(schema)) {
      // What the chosen one says of members must be seen where `unevaluated…` looks.
      if (name === discriminator?.keyword && around === null) continue
      switch (keywords.get(name)) {
        case 'schema':
          out.push([name, inner(name)(value)])
          break
        case 'schemas':
          out.push([name, (value as unknown[]).map(inner(name))])
          break
        case 'schemaMap': {
          const of = inner(name)
          const entries = Object.entries(value as Members)
          if (name === 'properties' && entries.length > MOST_MEMBERS) {
            out.push([name, Object.fromEntries(entries.map(([key]) => [key, true]))])
            out.push([MEMBERS, new Map(entries.map(([key, each]) => [key, this.later(each)]))])
            break
          }
          out.push([name, Object.fromEntries(entries.map(([key, each]) => [key, of(each)]))])
          break
        }
        case 'limit':
          this.#limit(schema, name, value, out)
          break
        case 'number':
          if (!belongsToLimit(schema, name)) out.push([name, plain(value)])
          break
        case 'texts':
          out.push([name, (value as string[]).filter(member => !readOnly.has(member))])
          break
        case 'text':
          if (Object.hasOwn(textFormats, value as string) || Object.hasOwn(numberFormats, value as string))
            out.push([name, value])
          break
        case 'values':
        case 'value':
        case 'count':
          out.push([name, plain(value)])
          break
        case 'flag':
        case 'type':
        case 'expression':
        case 'textsMap':
          if (name !== 'nullable' && name !== 'readOnly' && name !== 'writeOnly') out.push([name, value])
      }
    }
    const made = Object.fromEntries(out)
    return is30 && schema.nullable === true ? orNull(made) : made
  }

  #chosen(schema: Members, { keyword, property, choices }: Discriminator): Later {
    const laters = new Map([...choices].map(([name, each]) => [name, this.later(each)]))
    const check = chosen(property, laters, this.later({ [keyword]: schema[keyword] }))
    return () => check
  }

  /** `exclusiveMinimum: true` belongs to `minimum` (OpenAPI 3.0). */
  #limit(schema: Members, name: string, value: unknown, out: [string, unknown][]): void {
    if (typeof value !== 'boolean') out.push([name, plain(value)])
    else if (value) {
      const bound = schema[boundOf(name)]
      if (bound !== undefined) out.push([name, plain(bound)])
    }
  }

  /** Names of the members that a schema, with all that `allOf` adds to it, has for answers alone. */
  #readOnly(schema: unknown, depth: number): Set<string> {
    const names = new Set<string>()
    const target = this.#definitions.followed(schema)
    if (!isObject(target) || depth > DEEPEST) return names
    if (isObject(target.properties))
      for (const [name, each] of Object.entries(target.properties)) if (this.#isReadOnly(each)) names.add(name)
    if (Array.isArray(target.allOf))
      for (const each of target.allOf) for (const name of this.#readOnly(each, depth + 1)) names.add(name)
    return names
  }

  #isReadOnly(schema: unknown): boolean {
    if (!isObject(schema)) return false
    if (schema.readOnly === true && (schema.$ref === undefined || !this.#definitions.is30)) return true
    const target = this.#definitions.followed(schema)
    return isObject(target) && target.readOnly === true
  }
}

/** The schema itself and those that it holds. */
function width(schema: Members): number {
  let count = 1
  for (const [name, value] of Object.entries(schema)) {
    const kind = keywords.get(name)
    if (kind === 'schema') count++
    else if (kind === 'schemas') count += (value as unknown[]).length
    else if (kind === 'schemaMap') count += Math.min(Object.keys(value as Members).length, MOST_MEMBERS)
  }
  return count
}

function boundOf(name: string): string {
  return name === 'exclusiveMinimum' ? 'minimum' : 'maximum'
}

function belongsToLimit(schema: Members, name: string): boolean {
  return (
    (name === 'minimum' && schema.exclusiveMinimum === true) || (name === 'maximum' && schema.exclusiveMaximum === true)
  )
}

function orNull(schema: Members): Schema {
  const { type } = schema
  const simple = ['enum', 'const', 'allOf', 'anyOf', 'oneOf', 'not', 'if', LATER].every(name => !(name in schema))
  if (simple && type !== undefined) return { ...schema, type: [...new Set([type, 'null'].flat())] }
  return { anyOf: [{ type: 'null' }, schema] }
}

/** With numbers where the document has integers that only raw JSON carries. */
export function plain(value: unknown): unknown {
  if (isRaw(value)) return Number(value.rawJSON)
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, plain(each)]))
}
