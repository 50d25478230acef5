import { LONG } from './bodies.ts'

/** Documents with one member made wrong, as JSON texts. */

/** A schema's members, seen as the table's shapes are. */
interface Shape {
  readonly properties?: Record<string, Shape>
  readonly patternProperties?: Record<string, Shape>
  readonly additionalProperties?: Shape | boolean
  readonly items?: Shape
  readonly anyOf?: readonly Shape[]
}

type Path = readonly string[]

/** Values as JSON texts; each stands once in the place of every member. */
export const wrongValues: readonly string[] = [
  'null',
  'true',
  '-1',
  '1.5',
  '1e300',
  '9223372036854775808',
  '1e999',
  '""',
  '"\\u0000"',
  '"\\ud800"',
  '"__proto__/../b%00%2F"',
  '"1h1h"',
  '"[("',
  JSON.stringify(LONG),
  '[]',
  '[null]',
  '["a","a"]',
  '{}',
  '{"no such member":1}',
  '{"":{}}',
  '{"constructor":{"prototype":{}}}',
  `{"toString":${'{"a":'.repeat(90)}1${'}'.repeat(90)}}`
]

/** Where a shape has members, those within members too. */
export function pathsOf(shape: Shape, depth = 5): readonly Path[] {
  if (depth === 0) return []
  const own = Object.entries(shape.properties ?? {})
  const named = Object.values(shape.patternProperties ?? {}).map(inner => ['a', inner] as const)
  const other = typeof shape.additionalProperties === 'object' ? [['a', shape.additionalProperties] as const] : []
  const item = shape.items === undefined ? [] : [['0', shape.items] as const]
  const paths = [...own, ...named, ...other, ...item].flatMap(([name, inner]) => [
    [name],
    ...pathsOf(inner, depth - 1).map(path => [name, ...path])
  ])
  return [...paths, ...(shape.anyOf ?? []).flatMap(inner => pathsOf(inner, depth))]
}

/** Where a document has members. */
export function pathsIn(value: unknown): readonly Path[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, inner]) => [[name], ...pathsIn(inner).map(path => [name, ...path])])
}

export function unique(paths: readonly Path[]): readonly Path[] {
  return [...new Map(paths.map(path => [path.join('/'), path])).values()]
}

const PLACE = 'here it is replaced'

/** @param text the JSON that stands at the path afterwards */
export function replaced(document: unknown, path: Path, text: string): string {
  return JSON.stringify(put(document, path)).replace(JSON.stringify(PLACE), () => text)
}

function put(value: unknown, [name, ...rest]: Path): unknown {
  if (name === undefined) return PLACE
  const isList = Array.isArray(value) || (name === '0' && (typeof value !== 'object' || value === null))
  const copy: any = isList ? [...(Array.isArray(value) ? value : [])] : { ...(typeof value === 'object' ? value : {}) }
  copy[isList ? Number(name) : name] = put(copy[name], rest)
  return copy
}
