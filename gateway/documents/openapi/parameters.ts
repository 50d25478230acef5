import { isObject, type Report } from '../../../config/report.ts'
import { foreignFault, type Later, pointer } from '../../../config/validate.ts'
import type { CheckedHead, Misfit } from '../../api.ts'
import type { SchemaChecker } from './checkSchema.ts'
import type { Definitions, Members, Place } from './definitions.ts'
import { misfit } from './misfit.ts'
import { namesIn } from './pathValues.ts'
import type { Schemas } from './schemas.ts'
import { type Style, stylesOf, Unreadable, valueIn, valueOfAll, valueOfBrackets, valueOfMembers } from './styles.ts'
import { Reading } from './texts.ts'

/** One parameter of an operation, checked and ready to read. */
export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header' | 'cookie'
  readonly required: boolean
  readonly allowsEmpty: boolean
  readonly style: Style
  readonly explode: boolean
  /** A text of JSON (`content`). */
  readonly json: boolean
  /** Undefined: anything fits. */
  readonly schema: unknown
}

/** The texts of one request; names of headers in lower case. */
export interface Texts {
  readonly path: ReadonlyMap<string, readonly string[]>
  readonly query: ReadonlyMap<string, readonly string[]>
  readonly header: ReadonlyMap<string, readonly string[]>
  readonly cookie: ReadonlyMap<string, readonly string[]>
}

/** OpenAPI says that parameters of these names are passed over: the body and the security schemes describe them. */
export const PASSED_OVER: ReadonlySet<string> = new Set(['accept', 'content-type', 'authorization'])
/** What one parameter may take to be checked: some 10 ms. */
const STEPS = 100_000

/** The parameters of an operation: those of its path, and its own, which win. */
export function readParameters(
  lists: readonly Place[],
  template: string,
  definitions: Definitions,
  checker: Pick<SchemaChecker, 'check'>,
  fault: Report
): Parameter[] {
  const found = new Map<string, Parameter>()
  for (const { value, path } of lists) {
    if (value === undefined) continue
    if (!Array.isArray(value)) {
      fault(path, 'must be a list')
      continue
    }
    for (const [i, each] of value.entries()) {
      const place = definitions.follow({ value: each, path: `${path}/${i}` }, fault)
      if (place === null) continue
      const parameter = readParameter(place, definitions, checker, fault)
      if (parameter === null) continue
      const { name } = parameter
      if (parameter.in === 'path' && !template.includes(`{${name}}`) && !namesIn(template).includes(name))
        fault(`${place.path}/name`, `is not in the path ${template}`)
      found.set(`${parameter.in} ${parameter.name}`, parameter)
    }
  }
  return [...found.values()].filter(each => each.in !== 'header' || !PASSED_OVER.has(each.name.toLowerCase()))
}

/**
 * Where an operation's path parameters of style `matrix` (`/;id=5`) stand. In the normal form of paths, which rules match,
 * nothing is left of such a segment, as upstreams may read it either way: so no rule can be held against these paths.
 */
export function matrixPlaces(
  { method, path }: { readonly method: string; readonly path: string },
  definitions: Definitions
): string[] {
  const item = definitions.followed((definitions.document.paths as Members)[path])
  const operation = isObject(item) ? item[method.toLowerCase()] : null
  if (!isObject(item) || !isObject(operation)) return []
  const at = `/paths/${pointer(path)}`
  const lists = [
    { list: item.parameters, place: `${at}/parameters` },
    { list: operation.parameters, place: `${at}/${method.toLowerCase()}/parameters` }
  ]
  return lists.flatMap(({ list, place }) =>
    (Array.isArray(list) ? list : []).flatMap((given, i) => {
      const parameter = definitions.followed(given)
      return isObject(parameter) && parameter.in === 'path' && parameter.style === 'matrix' ? [`${place}/${i}`] : []
    })
  )
}

export const MATRIX = 'is of style matrix, which no rule and no check can read'

function readParameter(
  { value, path }: Place,
  definitions: Definitions,
  checker: Pick<SchemaChecker, 'check'>,
  fault: Report
): Parameter | null {
  if (!isObject(value)) {
    fault(path, 'must be an object')
    return null
  }
  const { name, in: place } = value
  const styles = typeof place === 'string' && Object.hasOwn(stylesOf, place) ? stylesOf[place]! : null
  if (styles === null) fault(`${path}/in`, 'must be path, query, header or cookie')
  if (typeof name !== 'string' || name === '') fault(`${path}/name`, 'must be a text')
  for (const flag of ['required', 'allowEmptyValue', 'explode'])
    if (value[flag] !== undefined && typeof value[flag] !== 'boolean') fault(`${path}/${flag}`, 'must be true or false')
  const style = (value.style ?? styles?.[0]) as Style
  if (styles !== null && !styles.includes(style)) fault(`${path}/style`, `must be one of ${styles.join(', ')}`)
  if (styles === null || typeof name !== 'string') return null
  const content = contentOf(value, path, definitions, fault)
  const schema = content === null ? { value: value.schema, path: `${path}/schema` } : content.schema
  if (schema.value !== undefined) checker.check(schema.value, schema.path)
  return {
    name,
    in: place as Parameter['in'],
    required: value.required === true || place === 'path',
    allowsEmpty: value.allowEmptyValue === true,
    style,
    explode: typeof value.explode === 'boolean' ? value.explode : style === 'form' || style === 'deepObject',
    json: content?.json ?? false,
    schema: schema.value
  }
}

/** Of a parameter with `content`: whether it is JSON, and then its schema. Other media types are not looked into. */
function contentOf(
  parameter: Members,
  path: string,
  definitions: Definitions,
  fault: Report
): { json: boolean; schema: Place } | null {
  if (parameter.content === undefined) return null
  const nothing = { json: false, schema: { value: undefined, path } }
  if (!isObject(parameter.content)) {
    fault(`${path}/content`, 'must be an object')
    return nothing
  }
  for (const [type, given] of Object.entries(parameter.content)) {
    if (!isJson(type)) continue
    const media = definitions.follow({ value: given, path: `${path}/content/${pointer(type)}` }, fault)
    if (media === null || !isObject(media.value)) continue
    return { json: true, schema: { value: media.value.schema, path: `${media.path}/schema` } }
  }
  return nothing
}

/** `application/json` and what ends in `+json`, whatever parameters it has. */
export function isJson(type: string): boolean {
  return /^(?:application|text)\/json\s*(?:;|$)|^[\w.!#$&^-]+\/[\w.!#$&^-]+\+json\s*(?:;|$)/i.test(type.trim())
}

/** What a request's parameters are held to. */
export class ParameterCheck {
  readonly parameter: Parameter
  readonly #label: string
  readonly #definitions: Definitions
  readonly #check: Later | null
  #read: Reading | null = null

  constructor(parameter: Parameter, definitions: Definitions, schemas: Schemas) {
    this.parameter = parameter
    this.#label = `parameter "${parameter.name}" in ${parameter.in}`
    this.#definitions = definitions
    this.#check = parameter.schema === undefined ? null : schemas.later(parameter.schema)
  }

  /** What does not fit; null: it fits. */
  misfit(texts: Texts): Misfit | null {
    const { in: place, required } = this.parameter
    try {
      const [value, text] = this.#value(texts)
      if (value === undefined) return required ? misfit(place, this.#label, '', 'is required') : null
      if (text === '' && place === 'query') {
        if (this.parameter.allowsEmpty) return null
        return misfit(place, this.#label, '', 'may not be empty')
      }
      return this.#fits(value, text)
    } catch (cause) {
      if (cause instanceof Unreadable) return misfit(place, this.#label, '', cause.message)
      throw cause
    }
  }

  #fits(value: unknown, text: string | null): Misfit | null {
    if (this.#check === null) return null
    const fault = foreignFault(this.#check, value, STEPS)
    if (fault === null) return null
    // `anyOf` a number and a text: what looks like a number may be the text.
    if (text !== null && value !== text && !this.parameter.json && this.#reading.types.has('string'))
      if (foreignFault(this.#check, text, STEPS) === null) return null
    return misfit(this.parameter.in, this.#label, fault.path, fault.message)
  }

  get #reading(): Reading {
    this.#read ??= new Reading(this.parameter.schema ?? true, this.#definitions)
    return this.#read
  }

  /** The value, undefined where there is none, and the only text that it was made of. @throws Unreadable */
  #value(texts: Texts): [value: unknown, text: string | null] {
    const { parameter } = this
    const { in: place, style, explode, name } = parameter
    const given = texts[place].get(place === 'header' ? name.toLowerCase() : name)
    if (parameter.json) {
      if (given === undefined) return [undefined, null]
      if (given.length > 1) throw new Unreadable('must stand there once')
      return [parsed(given[0]!), given[0]!]
    }
    if (place === 'query' && !this.#reading.types.has('array') && this.#reading.types.has('object')) {
      if (style === 'deepObject') return [valueOfBrackets(texts.query, name, this.#reading), null]
      if (explode && style === 'form') return [valueOfMembers(texts.query, this.#reading), null]
    }
    if (given === undefined) return [undefined, null]
    const text = given.length === 1 ? given[0]! : null
    if (place === 'query') return [valueOfAll(given, parameter, this.#reading), text]
    if (place === 'header') return [valueIn(given.join(', '), parameter, this.#reading), given.join(', ')]
    if (given.length > 1) throw new Unreadable('must stand there once')
    return [valueIn(given[0]!, parameter, this.#reading), text]
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Unreadable('must be JSON')
  }
}

export function textsOf(head: CheckedHead, path: ReadonlyMap<string, string> | null): Texts {
  const header = new Map<string, string[]>()
  for (let i = 0; i < head.pairs.length; i += 2) add(header, head.pairs[i]!.toLowerCase(), head.pairs[i + 1]!)
  const query = new Map<string, string[]>()
  if (head.query.length > 1)
    for (const part of head.query.slice(1).split('&')) {
      if (part === '') continue
      const equals = part.indexOf('=')
      add(
        query,
        decoded(equals < 0 ? part : part.slice(0, equals), 'form'),
        equals < 0 ? '' : decoded(part.slice(equals + 1), 'form')
      )
    }
  const cookie = new Map<string, string[]>()
  for (const line of header.get('cookie') ?? [])
    for (const part of line.split(';')) {
      const equals = part.indexOf('=')
      if (equals < 0) continue
      const value = part.slice(equals + 1).trim()
      const quoted = value.length > 1 && value.startsWith('"') && value.endsWith('"')
      add(cookie, part.slice(0, equals).trim(), decoded(quoted ? value.slice(1, -1) : value, 'plain'))
    }
  const paths = [...(path ?? [])].map(([name, value]) => [name, [decoded(value, 'plain')]] as const)
  return { path: new Map(paths), query, header, cookie }
}

function add(map: Map<string, string[]>, name: string, value: string): void {
  const known = map.get(name)
  if (known === undefined) map.set(name, [value])
  else known.push(value)
}

function decoded(text: string, how: 'form' | 'plain'): string {
  const spaced = how === 'form' ? text.replaceAll('+', ' ') : text
  if (!spaced.includes('%')) return spaced
  try {
    return decodeURIComponent(spaced)
  } catch {
    return spaced
  }
}
