import { isUtf8 } from 'node:buffer'
import { isObject, type Report } from '../../../config/report.ts'
import { foreignFault, type Later, pointer } from '../../../config/validate.ts'
import type { BodyCheck, CheckedHead, Misfit } from '../../api.ts'
import type { SchemaChecker } from './checkSchema.ts'
import type { Definitions, Place } from './definitions.ts'
import { misfit } from './misfit.ts'
import { isJson } from './parameters.ts'
import type { Schemas } from './schemas.ts'

/** What an operation says about bodies; `types` as written, with the schema of each. */
export interface RequestBody {
  readonly required: boolean
  readonly types: readonly { readonly type: string; readonly schema: unknown }[]
}

const MAX_DEPTH = 100
/** Work that any body may take, and what each of its bytes adds. */
const STEPS = 200_000

export function readRequestBody(
  given: Place,
  definitions: Definitions,
  checker: Pick<SchemaChecker, 'check'>,
  fault: Report
): RequestBody | null {
  if (given.value === undefined) return null
  const place = definitions.follow(given, fault)
  if (place === null) return null
  if (!isObject(place.value) || !isObject(place.value.content)) {
    fault(place.path, 'must be an object with content')
    return null
  }
  const types: { type: string; schema: unknown }[] = []
  for (const [type, value] of Object.entries(place.value.content)) {
    const media = definitions.follow({ value, path: `${place.path}/content/${pointer(type)}` }, fault)
    if (media === null) continue
    if (!isObject(media.value)) {
      fault(media.path, 'must be an object')
      continue
    }
    const { schema } = media.value
    if (schema !== undefined && mayBeJson(type)) checker.check(schema, `${media.path}/schema`)
    types.push({ type: bare(type), schema: mayBeJson(type) ? schema : undefined })
  }
  return { required: place.value.required === true, types }
}

/** Without parameters, lower case. */
function bare(type: string): string {
  return type.split(';', 1)[0]!.trim().toLowerCase()
}

/** A range may be of JSON as well. */
export function mayBeJson(type: string): boolean {
  return type.includes('*') || isJson(type)
}

/** Looks at the head of a body: what is wrong with it already, what its content is held to, or null: nothing to look at. */
export function bodyChecker(body: RequestBody, schemas: Schemas): (head: CheckedHead) => Misfit | BodyCheck | null {
  const types = body.types.map(({ type, schema }) => ({
    type,
    check: schema === undefined ? null : schemas.later(schema)
  }))
  return head => {
    if (head.bodyLength === 0) return body.required ? wrong('is required') : null
    const given = valuesOf(head.pairs, 'content-type')
    if (given.length > 1) return wrong('has several content types')
    const type = bare(given[0] ?? '')
    const found = [type, type.replace(/\/.*/, '/*'), '*/*']
      .map(name => types.find(each => each.type === name))
      .find(each => each !== undefined)
    if (found === undefined)
      return wrong(type === '' ? 'must have a content type' : `has a content type that is not expected: ${type}`)
    if (!isJson(given[0] ?? '')) return null
    const charset = /;\s*charset\s*=\s*"?([^";\s]*)/i.exec(given[0]!)?.[1] ?? 'utf-8'
    if (!/^(?:utf-?8|us-ascii)$/i.test(charset)) return wrong('must be UTF-8')
    const coding = valuesOf(head.pairs, 'content-encoding').join()
    if (coding !== '' && coding.toLowerCase() !== 'identity') return wrong('must have no content encoding')
    const { check } = found
    return {
      misfit: bytes => (bytes.length === 0 ? (body.required ? wrong('is required') : null) : look(bytes, check))
    }
  }
}

function look(bytes: Buffer, check: Later | null): Misfit | null {
  if (!isUtf8(bytes)) return wrong('must be UTF-8')
  if (isDeeper(bytes)) return wrong(`is nested deeper than ${MAX_DEPTH} levels`)
  let value: unknown
  try {
    value = JSON.parse(bytes.toString())
  } catch {
    return wrong('must be JSON')
  }
  if (check === null) return null
  const fault = foreignFault(check, value, STEPS + bytes.length)
  return fault === null ? null : misfit('body', 'body', fault.path, fault.message)
}

function wrong(message: string): Misfit {
  return misfit('body', 'body', '', message)
}

/** Before it is parsed: whoever walks the value must not run out of stack. */
function isDeeper(bytes: Buffer): boolean {
  let depth = 0
  for (let i = 0; i < bytes.length; i++) {
    const code = bytes[i]!
    if (code === 0x22) {
      i = bytes.indexOf(0x22, i + 1)
      while (isEscaped(bytes, i)) i = bytes.indexOf(0x22, i + 1)
      if (i < 0) return false
    } else if (code === 0x7b || code === 0x5b) {
      if (++depth > MAX_DEPTH) return true
    } else if (code === 0x7d || code === 0x5d) depth--
  }
  return false
}

function isEscaped(bytes: Buffer, at: number): boolean {
  let backslashes = 0
  while (bytes[at - 1 - backslashes] === 0x5c) backslashes++
  return backslashes % 2 === 1
}

function valuesOf(pairs: readonly string[], name: string): string[] {
  return pairs.filter((_, i) => i % 2 === 1 && pairs[i - 1]!.toLowerCase() === name)
}
