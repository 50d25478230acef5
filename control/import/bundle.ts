import { isRaw } from '../../config/exactJson.ts'
import { isObject } from '../../config/report.ts'
import { pointer as escaped } from '../../config/validate.ts'
import { Refused } from '../endpoint.ts'
import { hasExtensions, type Kind, type Member, memberOf, sections } from './grammar.ts'
import { type Names, namesOf, unused } from './names.ts'
import { cut, type Pieces, pathOf, type Target } from './references.ts'
import { type Place, refuse, type SourceFile } from './report.ts'

/** One description made of several files, with only internal references left. */
export interface Bundle {
  readonly document: Record<string, unknown>
  /** Where an object of it stood, when that is not where its parent stood. */
  readonly origins: WeakMap<object, Place>
}

/** As deep as documents may be (`config/yaml.ts`). */
const MAX_DEPTH = 100
/** What a member weighs beside its name and its text, in characters: a copy of it takes memory too. */
const MEMBER_WEIGHT = 16

const DOCUMENT: Member = { kind: 'document', form: 'one' }

/**
 * What other files hold and `components` has a section for goes there, once, so that circles stay references; what it
 * has none for (path items, whole sections) is taken in where it is referred to. Only `pieces` are looked at: no file
 * system, no network.
 * @param most characters, roughly, that this may add to the root: references to parts of parts multiply
 * @throws Refused 400 with the place of a reference that cannot be followed
 */
export function bundle(root: SourceFile, pieces: Pieces, most: number): Bundle {
  const origins = new WeakMap<object, Place>()
  /** References by what they lead to: where it is now. */
  const placed = new Map<string, string>()
  /** References that stand where a component would: what they lead to is taken in there. */
  const homes = new Set<object>()
  const waiting: { section: string; name: string; kind: Kind; target: Target }[] = []
  const names = new Map<string, Names>()
  const open = new Set<string>()
  // Above 0: what is copied stood elsewhere.
  let away = 0
  let added = 0
  const weights = new WeakMap<object, number>()

  for (const [kind, section] of Object.entries(sections)) {
    const given = membersAt(`/components/${section}`)
    names.set(section, namesOf(Object.keys(given.value)))
    for (const [name, value] of Object.entries(given.value)) {
      const place = below(given, name)
      const reference = `#/components/${section}/${escaped(name)}`
      placed.set(keyOf(kind, place), reference)
      if (!isObject(value) || typeof value.$ref !== 'string' || Object.keys(value).length > 1) continue
      const target = pieces.resolve(value.$ref, place)
      if (target === null || target.file === root || placed.has(keyOf(kind, target))) continue
      placed.set(keyOf(kind, target), reference)
      homes.add(value)
    }
  }

  const document = copy(root.value, DOCUMENT, { file: root, pointer: '' }, 1) as Record<string, unknown>
  // The list grows while it is walked.
  away = 1
  for (const { section, name, kind, target } of waiting) {
    const value = copy(target.value, { kind, form: 'one' }, target, 4)
    if (isObject(value)) origins.set(value, target)
    const components = own(document, 'components')
    own(components, section)[name] = value
  }
  return { document, origins }

  function membersAt(pointer: string): Target & { value: Record<string, unknown> } {
    const found = pieces.find(root, pointer)
    return found !== null && isObject(found.value)
      ? { ...found, value: found.value }
      : { file: root, pointer, value: {} }
  }

  function copy(value: unknown, member: Member, at: Place, depth: number): unknown {
    if (member.kind === null || value === null) return value
    if (typeof value !== 'object' || isRaw(value)) return unstructured(value, member, at)
    if (depth > MAX_DEPTH) throw new Refused(400, `the description is nested deeper than ${MAX_DEPTH} levels`)
    if (Array.isArray(value)) {
      if (member.form !== 'list' && member.kind !== 'schema') throw refuse(at, last(at), 'must be an object')
      const item: Member = { kind: member.kind, form: 'one' }
      return value.map((inner, i) => {
        weigh('', null)
        return copy(inner, item, below(at, String(i)), depth + 1)
      })
    }
    if (!isObject(value)) return value
    if (member.form === 'list' && typeof value.$ref !== 'string') throw refuse(at, last(at), 'must be a list')
    const reference = typeof value.$ref === 'string' ? pieces.resolve(value.$ref, at) : null
    if (reference === null) return copyMembers(value, member, at, depth)
    const { $ref: _, ...rest } = value
    const beside = copyMembers(rest, member, at, depth)
    const { kind } = member
    if (member.form === 'one' && sections[kind] !== undefined && !homes.has(value))
      return { ...beside, $ref: place(kind, reference, value.$ref as string, at) }
    return takenIn(reference, member, at, depth, beside)
  }

  /** A text or a number where an object belongs; schemas may be true or false. */
  function unstructured(value: unknown, { kind, form }: Member, at: Place): unknown {
    if (kind === 'schema' && form === 'one' && typeof value === 'boolean') return value
    throw refuse(at, last(at), form === 'list' ? 'must be a list' : 'must be an object')
  }

  function copyMembers(value: Record<string, unknown>, { kind, form }: Member, at: Place, depth: number) {
    const out: Record<string, unknown> = {}
    for (const [name, inner] of Object.entries(value)) {
      weigh(name, form !== 'map' && memberOf(kind!, name)?.kind == null ? inner : null)
      if (form === 'map') out[name] = copy(inner, { kind, form: 'one' }, below(at, name), depth + 1)
      else {
        const known = memberOf(kind!, name)
        out[name] = known === null ? inner : copyMember(inner, known, kind!, name, below(at, name), depth + 1)
      }
    }
    if (kind === 'schema' && form === 'one' && isObject(value.discriminator)) out.discriminator = mapped(value, at)
    return out
  }

  /** @param plain what comes along as it is */
  function weigh(name: string, plain: unknown): void {
    if (away === 0) return
    added += name.length + MEMBER_WEIGHT
    if (typeof plain === 'string') added += plain.length
    else if (typeof plain === 'object' && plain !== null) {
      const weight = weights.get(plain) ?? JSON.stringify(plain).length
      weights.set(plain, weight)
      added += weight
    }
    if (added > most) throw new Refused(400, 'the references multiply the description')
  }

  /** A map whose `x-` members are no entries keeps those as they are. */
  function copyMember(inner: unknown, known: Member, kind: Kind, name: string, at: Place, depth: number): unknown {
    if (!hasExtensions(kind, name) || !isObject(inner)) return copy(inner, known, at, depth)
    const extensions = Object.entries(inner).filter(([entry]) => entry.startsWith('x-'))
    const entries = Object.fromEntries(Object.entries(inner).filter(([entry]) => !entry.startsWith('x-')))
    const result = copy(entries, known, at, depth)
    if (!isObject(result) || extensions.length === 0) return result
    const all = { ...result, ...Object.fromEntries(extensions) }
    const origin = origins.get(result)
    if (origin !== undefined) origins.set(all, origin)
    return all
  }

  /** The names of a discriminator may be references too. */
  function mapped({ discriminator }: Record<string, unknown>, at: Place): unknown {
    const given = discriminator as Record<string, unknown>
    if (!isObject(given.mapping)) return discriminator
    const entries = Object.entries(given.mapping).map(([name, value]): [string, unknown] => {
      const isReference = typeof value === 'string' && (value.startsWith('#/') || pieces.has(pathOf(value), at.file))
      const target = isReference ? pieces.resolve(value, at) : null
      return [name, target === null ? value : place('schema', target, value as string, at)]
    })
    return { ...given, mapping: Object.fromEntries(entries) }
  }

  /** The reference to what stays or goes under `components`. */
  function place(kind: Kind, target: Target, written: string, at: Place): string {
    if (target.file === root && /^\/(?:components|paths|webhooks)(?:\/|$)/.test(target.pointer))
      return at.file === root ? written : `#${encodeURI(target.pointer).replaceAll('#', '%23')}`
    const key = keyOf(kind, target)
    const known = placed.get(key)
    if (known !== undefined) return known
    const section = sections[kind]!
    const name = freeName(names.get(section)!, target)
    const reference = `#/components/${section}/${name}`
    placed.set(key, reference)
    waiting.push({ section, name, kind, target })
    return reference
  }

  function takenIn(target: Target, member: Member, at: Place, depth: number, beside: Record<string, unknown>): unknown {
    const key = keyOf(`${member.kind} ${member.form}`, target)
    if (open.has(key)) throw refuse(at, '$ref', 'refers to itself in a circle that no document can hold')
    open.add(key)
    away++
    const value = copy(target.value, member, target, depth)
    away--
    open.delete(key)
    if (typeof value !== 'object' || value === null) return value
    const result = isObject(value) && Object.keys(beside).length > 0 ? { ...value, ...beside } : value
    origins.set(result, origins.get(value) ?? target)
    return result
  }
}

function keyOf(kind: string, { file, pointer }: Place): string {
  return `${kind} ${file.name}#${pointer}`
}

function below({ file, pointer }: Place, name: string): Place {
  return { file, pointer: `${pointer}/${escaped(name)}` }
}

function last({ pointer }: Place): string {
  return pointer.slice(pointer.lastIndexOf('/') + 1)
}

function own(value: Record<string, unknown>, name: string): Record<string, unknown> {
  if (!isObject(value[name])) value[name] = {}
  return value[name] as Record<string, unknown>
}

/** After what it is called where it stood, of the characters that names of components may have. */
function freeName(taken: Names, { file, pointer }: Target): string {
  const wished = pointer === '' ? cut(file.name) : (pointer.split('/').at(-1) ?? '')
  const name = wished.replace(/[^A-Za-z0-9._-]+/g, '_').slice(0, 100) || 'part'
  return unused(name === '__proto__' ? 'part' : name, taken)
}
