import { isObject } from '../../config/report.ts'
import { pointer as escaped } from '../../config/validate.ts'
import { type Place, refuse, type SourceFile } from './report.ts'

/** What a reference leads to. */
export interface Target extends Place {
  readonly value: unknown
}

/** The files of one import, and how references lead from one to the other. */
export interface Pieces {
  /** Whether a path, as a file writes it, names another file. */
  has(path: string, from: SourceFile): boolean
  /**
   * Null: a name that JSON Schema gives (`#Pet`), left as it is.
   * @throws Refused 400 for what was not sent, and for anything that would have to be fetched
   */
  resolve(reference: string, at: Place): Target | null
  /** What stands at a pointer, references on the way and at its end followed; null: nothing. */
  find(file: SourceFile, pointer: string): Target | null
}

/** References that lead to one target, one after the other. */
const MOST_HOPS = 100

/** Names of what was sent. `flat`: without their folders, as forms send them. */
export interface Names {
  readonly names: { has(name: string): boolean }
  readonly flat: boolean
}

/** The name of the file that a path means, as another file writes it; null: none that was sent. */
export function nameOf(path: string, from: string, { names, flat }: Names): string | null {
  const plain = decoded(path)
  if (!plain) return null
  const name = joined(from, plain)
  if (name !== null && names.has(name)) return name
  const bare = plain.slice(plain.lastIndexOf('/') + 1)
  return flat && names.has(bare) ? bare : null
}

/** `files` by their names, the root among them. */
export function pieces(files: ReadonlyMap<string, SourceFile>, { flat }: { flat: boolean }): Pieces {
  function fileOf(path: string, from: SourceFile): SourceFile | null {
    const name = nameOf(path, from.name, { names: files, flat })
    return name === null ? null : files.get(name)!
  }

  let hops = 0
  // Many references lead to the same places, and through the same chains.
  const found = new Map<SourceFile, Map<string, Target | null>>([...files.values()].map(file => [file, new Map()]))
  const ends = new Map<object, Target>()

  function look(file: SourceFile, pointer: string): Target | null {
    const known = found.get(file)!
    const before = known.get(pointer)
    if (before !== undefined) return before
    const target = walk(file, pointer)
    known.set(pointer, target)
    return target
  }

  function walk(file: SourceFile, pointer: string): Target | null {
    let target: Target = { file, pointer: '', value: file.value }
    for (const segment of pointer.split('/').slice(1)) {
      const name = segment.replaceAll('~1', '/').replaceAll('~0', '~')
      if (inside(target.value, name) === undefined) target = follow(target)
      const value = inside(target.value, name)
      if (value === undefined) return null
      target = { file: target.file, pointer: `${target.pointer}/${escaped(name)}`, value }
    }
    return target
  }

  function follow(target: Target): Target {
    const { value } = target
    if (!isObject(value) || typeof value.$ref !== 'string') return target
    const known = ends.get(value)
    if (known !== undefined) return known
    const next = resolve(value.$ref, target)
    const end = next === null ? target : follow(next)
    ends.set(value, end)
    return end
  }

  function resolve(reference: string, at: Place): Target | null {
    const no = (message: string) => refuse({ file: at.file, pointer: `${at.pointer}/$ref` }, '$ref', message)
    if (++hops > MOST_HOPS) throw no('refers to itself in a circle')
    const told = () => JSON.stringify(reference.length > 200 ? `${reference.slice(0, 200)}…` : reference)
    const path = pathOf(reference)
    if (/^[a-z][a-z0-9+.-]*:|^[/\\]/i.test(path))
      throw no(`refers to ${told()}: only files of the import itself are read`)
    const file = path === '' ? at.file : fileOf(path, at.file)
    if (file === null) throw no(`refers to ${told()}, which was not sent`)
    const fragment = decoded(reference.slice(path.length + 1))
    if (fragment !== null && fragment !== '' && !fragment.startsWith('/') && path === '') return null
    const target = fragment === null || !/^(?:\/|$)/.test(fragment) ? null : look(file, fragment)
    if (target === null) throw no(`refers to ${told()}: there is no such part`)
    return target
  }

  return {
    has: (path, from) => path !== '' && fileOf(path, from) !== null,
    resolve(reference, at) {
      hops = 0
      return resolve(reference, at)
    },
    find(file, pointer) {
      hops = 0
      const target = look(file, pointer)
      return target === null ? null : follow(target)
    }
  }
}

/** The part of a reference that names a file. */
export function pathOf(reference: string): string {
  const hash = reference.indexOf('#')
  return hash < 0 ? reference : reference.slice(0, hash)
}

/** A path in normal form, from the folder of another; null when it leads out of what was sent. */
export function joined(from: string, path: string): string | null {
  const segments = from.split('/').slice(0, -1)
  for (const segment of path.split('/')) {
    if (segment === '' || segment === '.') continue
    if (segment !== '..') segments.push(segment)
    else if (segments.pop() === undefined) return null
  }
  return segments.join('/')
}

/** A file name without folders and extension. */
export function cut(name: string): string {
  return name.slice(name.lastIndexOf('/') + 1).replace(/\.[^.]*$/, '')
}

function inside(value: unknown, name: string): unknown {
  if (Array.isArray(value)) return /^(?:0|[1-9]\d{0,9})$/.test(name) ? value[Number(name)] : undefined
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text)
  } catch {
    return null
  }
}
