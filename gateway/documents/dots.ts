import { isObject } from '../../config/report.ts'
import { Invalid, pointer } from '../../config/validate.ts'

/**
 * `management.escape_dots_in_oas_paths` (semantics §8.4): in the store, every dot in a key of `paths` is six characters.
 * Nobody outside sees them: what is read is turned back whatever the setting says, and so is what a client sends.
 */

const ESCAPED = /\\u002e/gi

/** The document as it lies in the store with the setting on; as it is when it has nothing to escape. */
export function escapeDots(document: unknown): unknown {
  return withPaths(document, path => path.replaceAll('.', '\\u002e'))
}

/**
 * The document as people know it; as it is when nothing is escaped.
 * @throws Invalid when two of its paths are the same one
 */
export function unescapeDots(document: unknown): unknown {
  return withPaths(document, path => path.replaceAll(ESCAPED, '.'))
}

function withPaths(document: unknown, change: (path: string) => string): unknown {
  if (!isObject(document) || !isObject(document.paths)) return document
  const given = Object.entries(document.paths)
  if (given.every(([path]) => change(path) === path)) return document
  const paths: Record<string, unknown> = {}
  for (const [path, item] of given) {
    const name = change(path)
    if (Object.hasOwn(paths, name))
      throw new Invalid([{ path: `/paths/${pointer(path)}`, message: 'stands there twice' }])
    paths[name] = item
  }
  return { ...document, paths }
}
