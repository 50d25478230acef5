import { isDeepStrictEqual } from 'node:util'
import { isObject } from '../config/report.ts'
import { pointer } from '../config/validate.ts'

/** One operation of JSON Patch (RFC 6902). */
export type Operation =
  | { readonly op: 'remove'; readonly path: string }
  | { readonly op: 'add' | 'replace'; readonly path: string; readonly value: unknown }

/**
 * What makes one JSON value of another, in time linear in both: lists are compared from their ends, not as texts are, so
 * that two of a thousand members each hold nobody up.
 * @returns null when the operations' paths have more than `most` characters
 */
export function difference(from: unknown, to: unknown, most: number): readonly Operation[] | null {
  const operations: Operation[] = []
  let left = most
  const add = (operation: Operation) => {
    left -= operation.path.length
    if (left >= 0) operations.push(operation)
  }
  const compare = (from: unknown, to: unknown, path: string): void => {
    if (left < 0 || from === to) return
    if (Array.isArray(from) && Array.isArray(to)) lists(from, to, path)
    else if (isObject(from) && isObject(to)) members(from, to, path)
    else if (!isDeepStrictEqual(from, to)) add({ op: 'replace', path, value: to })
  }
  const members = (from: Record<string, unknown>, to: Record<string, unknown>, path: string) => {
    for (const name of Object.keys(from))
      if (!Object.hasOwn(to, name)) add({ op: 'remove', path: `${path}/${pointer(name)}` })
    for (const [name, value] of Object.entries(to)) {
      if (Object.hasOwn(from, name)) compare(from[name], value, `${path}/${pointer(name)}`)
      else add({ op: 'add', path: `${path}/${pointer(name)}`, value })
    }
  }
  /** What comes between an equal beginning and an equal end: pairs are compared, the rest comes or goes. */
  const lists = (from: readonly unknown[], to: readonly unknown[], path: string) => {
    const shorter = Math.min(from.length, to.length)
    let start = 0
    while (start < shorter && isDeepStrictEqual(from[start], to[start])) start++
    let same = 0
    while (same < shorter - start && isDeepStrictEqual(from.at(-1 - same), to.at(-1 - same))) same++
    const [before, after] = [from.length - same, to.length - same]
    for (let i = start; i < Math.min(before, after); i++) compare(from[i], to[i], `${path}/${i}`)
    // Backwards: those that are left keep their places.
    for (let i = before - 1; i >= after; i--) add({ op: 'remove', path: `${path}/${i}` })
    for (let i = before; i < after; i++) add({ op: 'add', path: `${path}/${i}`, value: to[i] })
  }
  compare(from, to, '')
  return left < 0 ? null : operations
}
