import { exactInteger } from '../../config/exactJson.ts'
import { Undelivered } from '../undelivered.ts'
import { textOf } from './facts.ts'

/** What expressions make, as JSON and as text. */

/** Values and characters of one result, written out: what stands in it twice counts twice. */
const MOST = 8 * 1024 * 1024
const DEEPEST = 500

/** A copy that `JSON.stringify` writes: integers digit by digit, bytes as base64, times as ISO 8601. @throws Undelivered */
export function plain(value: unknown, room: Room = newRoom()): unknown {
  return copied(value, room, 0)
}

/** How much may still come together; several results may share one. */
export interface Room {
  left: number
}

export function newRoom(): Room {
  return { left: MOST }
}

function copied(value: unknown, room: Room, depth: number): unknown {
  room.left -= typeof value === 'string' ? value.length + 1 : 1
  if (room.left < 0 || depth > DEEPEST) throw new Undelivered('invalid', 'what an expression makes is too large')
  if (typeof value === 'bigint') return exactInteger(String(value))
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(each => copied(each, room, depth + 1))
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString()
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.length).toString('base64')
  // Durations, types and unsigned integers of the language say by their text what they are.
  const form: unknown = Object.getPrototypeOf(value)
  if (form !== Object.prototype && form !== null) return String(value)
  const made: Record<string, unknown> = {}
  for (const [name, each] of Object.entries(value)) {
    room.left -= name.length
    put(made, name, copied(each, room, depth + 1))
  }
  return made
}

/** Sets a member of whatever name: `__proto__` is one as well. */
export function put(object: Record<string, unknown>, name: string, value: unknown): void {
  if (name === '__proto__')
    Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true })
  else object[name] = value
}

/** Null becomes ''; lists and maps become JSON. @throws Undelivered */
export function asText(value: unknown): string {
  if (typeof value === 'string') return value
  if (value === null || value === undefined) return ''
  if (typeof value !== 'object') return String(value)
  if (value instanceof Uint8Array) return textOf(value)
  const made = plain(value)
  return typeof made === 'string' ? made : JSON.stringify(made)
}
