import { isObject } from '../../config/report.ts'
import { pointer as escaped } from '../../config/validate.ts'
import type { Bundle } from './bundle.ts'
import { METHODS } from './grammar.ts'
import type { Examples } from './mock.ts'
import { namesOf, unused } from './names.ts'
import { type Place, refuse, type SourceFile } from './report.ts'

type Members = Record<string, unknown>

/** One operation of a description in one piece. */
export interface Described {
  readonly id: string
  readonly method: (typeof METHODS)[number]
  /** As in `paths`. */
  readonly path: string
  /** Where it stands. */
  readonly place: Place
  /** The description gave it no id, so it got one here. */
  readonly isNamedHere: boolean
  /** Something of a request can be checked: parameters, its own or the path's, or a JSON body. */
  readonly hasRequest: boolean
  /** What its responses hold that an answer can be made of. */
  readonly examples: Examples
}

/** The operations of `paths`; those without an id get one, in the document itself. @throws Refused 400 */
export function describedOperations({ document, origins }: Bundle, root: SourceFile): Described[] {
  const found: { path: string; method: Described['method']; item: Members; operation: Members }[] = []
  for (const [path, item] of Object.entries(isObject(document.paths) ? document.paths : {})) {
    if (path.startsWith('x-') || !isObject(item)) continue
    for (const method of METHODS) {
      const operation = item[method]
      if (isObject(operation)) found.push({ path, method, item, operation })
    }
  }
  const names = namesOf(found.map(({ operation }) => operation.operationId).filter(id => typeof id === 'string'))
  return found.map(({ path, method, item, operation }) => {
    const at = origins.get(item) ?? { file: root, pointer: `/paths/${escaped(path)}` }
    const place = origins.get(operation) ?? { file: at.file, pointer: `${at.pointer}/${method}` }
    const given = operation.operationId
    const isNamedHere = given === undefined || given === null || given === ''
    if (isNamedHere) {
      operation.operationId = unused(`${path.replace(/^\//, '')}${method.toUpperCase()}`, names)
    }
    const id = operation.operationId
    if (typeof id !== 'string' || id === '__proto__')
      throw refuse({ file: place.file, pointer: `${place.pointer}/operationId` }, 'operationId', 'is not a name')
    return {
      id,
      method,
      path,
      place,
      isNamedHere,
      hasRequest: hasRequest(document, item, operation),
      examples: examplesOf(document, operation)
    }
  })
}

function hasRequest(document: Members, item: Members, operation: Members): boolean {
  if ([operation.parameters, item.parameters].some(list => Array.isArray(list) && list.length > 0)) return true
  const body = followed(document, operation.requestBody)
  return Object.keys(membersOf(body?.content)).some(type => type.split(';', 1)[0]!.trim().toLowerCase() === JSON_TYPE)
}

const JSON_TYPE = 'application/json'

function examplesOf(document: Members, operation: Members): Examples {
  return new Map(
    Object.entries(membersOf(operation.responses))
      .filter(([code]) => !code.startsWith('x-'))
      .map(([code, response]) => {
        const content = membersOf(followed(document, response)?.content)
        const types = Object.keys(content).filter(type => hasExample(document, content[type]))
        return [code.toUpperCase(), { isEmpty: Object.keys(content).length === 0, types }]
      })
  )
}

function hasExample(document: Members, given: unknown): boolean {
  const media = followed(document, given)
  if (media === null) return false
  if (Object.hasOwn(media, 'example') || isObject(media.schema) || typeof media.schema === 'boolean') return true
  return Object.values(membersOf(media.examples)).some(example => {
    const target = followed(document, example)
    return target !== null && Object.hasOwn(target, 'value')
  })
}

function membersOf(value: unknown): Members {
  return isObject(value) ? value : {}
}

const MOST_HOPS = 20

/** The object that stands there, or that a reference inside of the document leads to; null: neither. */
export function followed(document: Members, value: unknown): Members | null {
  let target = value
  for (let hops = 0; isObject(target) && typeof target.$ref === 'string'; hops++) {
    if (hops === MOST_HOPS || !target.$ref.startsWith('#/')) return null
    target = inside(document, target.$ref.slice(2).split('/').map(plain))
  }
  return isObject(target) ? target : null
}

function inside(document: Members, names: readonly string[]): unknown {
  let target: unknown = document
  for (const name of names) {
    if (Array.isArray(target)) target = target[Number(name)]
    else if (isObject(target) && Object.hasOwn(target, name)) target = target[name]
    else return null
  }
  return target
}

function plain(segment: string): string {
  try {
    return decodeURIComponent(segment).replaceAll('~1', '/').replaceAll('~0', '~')
  } catch {
    return segment
  }
}
