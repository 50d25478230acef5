import { isObject } from '../../../config/report.ts'
import type { Definitions, Members } from './definitions.ts'

/** Which of several schemas a value is held to: the one that a member of it names. */
export interface Discriminator {
  /** The list that it chooses from. */
  readonly keyword: 'oneOf' | 'anyOf'
  readonly property: string
  /** Values of the property, with the reference in the list that each stands for. Never empty. */
  readonly choices: ReadonlyMap<string, Members>
}

/**
 * The `discriminator` of a schema; null: there is none, or it stands beside no list of references alone, where it has no
 * effect. A choice is called as `mapping` says or by the last name of its reference.
 */
export function discriminatorOf(schema: Members, definitions: Definitions): Discriminator | null {
  const { discriminator } = schema
  if (!isObject(discriminator) || typeof discriminator.propertyName !== 'string') return null
  const keyword = Array.isArray(schema.oneOf) ? 'oneOf' : 'anyOf'
  const list: unknown = schema[keyword]
  if (!Array.isArray(list) || list.length === 0) return null
  const choices = new Map<string, Members>()
  const byTarget = new Map<unknown, Members>()
  for (const each of list) {
    if (!isObject(each) || typeof each.$ref !== 'string') return null
    choices.set(lastName(each.$ref), each)
    byTarget.set(targetOf(each.$ref, definitions), each)
  }
  const mapping = isObject(discriminator.mapping) ? discriminator.mapping : {}
  for (const [value, ref] of Object.entries(mapping)) {
    const choice = typeof ref === 'string' ? byTarget.get(targetOf(ref, definitions)) : undefined
    if (choice !== undefined) choices.set(value, choice)
  }
  return { keyword, property: discriminator.propertyName, choices }
}

/** What a reference, or the name of a schema, leads to. */
function targetOf(ref: string, definitions: Definitions): unknown {
  const target = definitions.followed({ $ref: ref.startsWith('#') ? ref : `#/components/schemas/${ref}` })
  return target ?? ref
}

function lastName(ref: string): string {
  const name = ref.slice(ref.lastIndexOf('/') + 1)
  return name.replaceAll('~1', '/').replaceAll('~0', '~')
}
