import { pointer } from '../../config/validate.ts'
import type { ProcessorKind } from '../connector.ts'
import type { Message, MessageHeaders } from '../message.ts'
import { Undelivered } from '../undelivered.ts'
import { compileExpression, type Expression } from './expression.ts'
import { factsOf } from './facts.ts'
import { asText, newRoom, plain, put, type Room } from './json.ts'

/** A member of an object that is made: a value, or members of its own. */
interface Branch {
  readonly name: string
  readonly expression: Expression | null
  readonly branches: readonly Branch[]
}

interface MapOptions {
  readonly fields?: Readonly<Record<string, string>>
  readonly keep?: boolean
  readonly key?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Characters of the longest JSON. */
const LONGEST = 8 * 1024 * 1024
const MOST_FIELDS = 500

/**
 * Makes messages anew: `fields` by the path of each (`a.b`) an expression (CEL), `keep` to begin with the members of the
 * value that came, `key` and `headers` by expressions. What is absent stays as it came; a key that becomes null is
 * none, and so is a header. A tombstone stays one: its fields are not made.
 */
export const map: ProcessorKind = {
  name: 'map',

  check(options, fault) {
    if (!isObject(options)) return fault('', 'must be an object')
    const { fields, keep, key, headers, ...others } = options
    for (const name of Object.keys(others)) fault(`/${pointer(name)}`, 'is not known here')
    if (keep !== undefined && typeof keep !== 'boolean') fault('/keep', 'must be true or false')
    if (key !== undefined) expressionAt('/key', key)
    for (const [place, given] of Object.entries({ fields, headers })) {
      if (given === undefined) continue
      if (!isObject(given)) fault(`/${place}`, 'must be an object')
      else if (Object.keys(given).length > MOST_FIELDS) fault(`/${place}`, `has more than ${MOST_FIELDS} members`)
      else for (const [name, text] of Object.entries(given)) expressionAt(`/${place}/${pointer(name)}`, text)
    }
    if (isObject(fields))
      for (const [path, message] of pathFaults(Object.keys(fields))) fault(`/fields/${path}`, message)
    if (isObject(headers))
      for (const name of Object.keys(headers)) if (name === '') fault('/headers/', 'is no name of a header')
    if (fields === undefined && key === undefined && keep !== true && isNothing(headers))
      fault('', 'says nothing: name fields, key or headers')
    if (keep === true && fields === undefined) fault('/keep', 'says nothing without fields')

    function expressionAt(place: string, text: unknown): void {
      if (typeof text !== 'string') return fault(place, 'must be an expression')
      try {
        compileExpression(text)
      } catch (cause) {
        if (!(cause instanceof RangeError)) throw cause
        fault(place, cause.message)
      }
    }
  },

  make(options) {
    const given = options as MapOptions
    const branches = given.fields === undefined ? null : branchesOf(Object.entries(given.fields))
    const keep = given.keep ?? false
    const key = given.key === undefined ? null : compileExpression(given.key)
    const headers = Object.entries(given.headers ?? {}).map(([name, text]) => ({
      name,
      lower: name.toLowerCase(),
      expression: compileExpression(text)
    }))
    return message => {
      const made = {
        key: key === null ? message.key : bytesOf(key.run(message)),
        value: branches === null || message.value === null ? message.value : madeOf(branches, keep, message),
        headers: headers.length === 0 ? message.headers : changed(headers, message)
      }
      // A record that came from a broker keeps its place.
      return { ...message, ...made }
    }
  }
}

function madeOf(branches: readonly Branch[], keep: boolean, message: Message): Buffer {
  const value = keep ? factsOf(message).value : {}
  if (!isObject(value)) throw new Undelivered('invalid', 'the value is no JSON object that could be kept')
  const room = newRoom()
  const made = filled(keep ? (plain(value, room) as Record<string, unknown>) : {}, branches, message, room)
  try {
    const text = JSON.stringify(made)
    if (text.length <= LONGEST) return Buffer.from(text)
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause
  }
  throw new Undelivered('invalid', 'the value that is made is too large')
}

function filled(
  object: Record<string, unknown>,
  branches: readonly Branch[],
  message: Message,
  room: Room
): Record<string, unknown> {
  for (const { name, expression, branches: inner } of branches)
    if (expression !== null) put(object, name, plain(expression.run(message), room))
    else {
      const there = Object.hasOwn(object, name) ? object[name] : undefined
      put(object, name, filled(isObject(there) ? there : {}, inner, message, room))
    }
  return object
}

function changed(
  made: readonly { readonly name: string; readonly lower: string; readonly expression: Expression }[],
  message: Message
): MessageHeaders {
  const kept = message.headers.filter(([name]) => made.every(({ lower }) => lower !== name.toLowerCase()))
  for (const { name, expression } of made) {
    const value = bytesOf(expression.run(message))
    if (value !== null) kept.push([name, value])
  }
  return kept
}

function bytesOf(result: unknown): Buffer | null {
  if (result === null || result === undefined) return null
  return result instanceof Uint8Array ? Buffer.from(result) : Buffer.from(asText(result))
}

/** Paths that cannot be together in one object. */
function* pathFaults(paths: readonly string[]): Iterable<readonly [path: string, message: string]> {
  const all = new Set(paths)
  for (const path of paths) {
    const parts = path.split('.')
    if (parts.includes('')) yield [pointer(path), 'has a part without a name']
    if (parts.length > 50) yield [pointer(path), 'has more than 50 parts']
    for (let i = 1; i < Math.min(parts.length, 50); i++) {
      const above = parts.slice(0, i).join('.')
      if (all.has(above)) yield [pointer(path), `lies within the field ${above}`]
    }
  }
}

function branchesOf(fields: readonly (readonly [path: string, text: string])[]): Branch[] {
  const groups = new Map<string, (readonly [path: string, text: string])[]>()
  for (const [path, text] of fields) {
    const dot = path.indexOf('.')
    const name = dot < 0 ? path : path.slice(0, dot)
    const group = groups.get(name) ?? []
    group.push([dot < 0 ? '' : path.slice(dot + 1), text])
    groups.set(name, group)
  }
  return [...groups].map(([name, group]) => {
    const own = group.find(([rest]) => rest === '')
    return own === undefined
      ? { name, expression: null, branches: branchesOf(group) }
      : { name, expression: compileExpression(own[1]), branches: [] }
  })
}

/** Headers that change none. */
function isNothing(headers: unknown): boolean {
  return headers === undefined || (isObject(headers) && Object.keys(headers).length === 0)
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
