import { isObject, type Report } from '../../config/report.ts'
import type { Scheme, SchemeKind } from '../api.ts'

/** `security`: which methods belong together, and which stand for each other (semantics §6.10). */

/** The order in which methods of one group are tried. */
const ORDER: readonly SchemeKind[] = [
  'introspection',
  'basic',
  'hmac',
  'message-signature',
  'jwt',
  'certificate',
  'token'
]

/** Names under which `security` of the extension knows methods that OpenAPI has no scheme for. */
export const OWN_METHODS = ['hmac', 'messageSignatures', 'certificateAuth'] as const

/** The `security` at the top of a description: the names of each alternative; null: it has none. */
export function securityOf(document: Record<string, unknown>): readonly (readonly string[])[] | null {
  const { security } = document
  if (!Array.isArray(security) || security.length === 0) return null
  return security.filter(isObject).map(requirement => Object.keys(requirement))
}

export type Named = ReadonlyMap<string, Scheme>

/**
 * One group: the first alternative whose schemes are all enabled, else what is enabled of the first that names such, else all
 * enabled schemes; and all methods of our own.
 */
export function legacy(named: Named, own: Named, security: readonly (readonly string[])[] | null): Scheme[][] {
  const first = firstAlternative(security, name => named.has(name))
  const schemes = first === null ? merged([...named.values()]) : first.flatMap(name => named.get(name) ?? [])
  const group = inOrder([...schemes, ...own.values()])
  return group.length === 0 ? [] : [group]
}

/** The alternative that counts in mode legacy; null: none names an enabled scheme. */
export function firstAlternative(
  security: readonly (readonly string[])[] | null,
  isEnabled: (name: string) => boolean
): readonly string[] | null {
  return (
    security?.find(group => group.length > 0 && group.every(isEnabled)) ??
    security?.find(group => group.some(isEnabled)) ??
    null
  )
}

/** Where nothing says that they belong together, access tokens are read as one: header, query, cookie (semantics §6.3). */
function merged(schemes: readonly Scheme[]): Scheme[] {
  const tokens = schemes.filter(scheme => scheme.kind === 'token')
  if (tokens.length < 2) return [...schemes]
  const all = (['header', 'query', 'cookie'] as const).flatMap(place =>
    tokens.flatMap(each => each.locations.filter(location => location.in === place))
  )
  const locations = all.filter(
    ({ in: place, name }, i) => all.findIndex(other => other.in === place && other.name === name) === i
  )
  const signed = tokens.find(({ signature }) => signature !== null)
  return [
    ...schemes.filter(({ kind }) => kind !== 'token'),
    {
      kind: 'token',
      locations,
      takesCertificate: tokens.some(each => each.takesCertificate),
      signature: signed?.signature ?? null
    }
  ]
}

/** Every alternative of the description and of the extension; one without schemes, which lets everybody in, goes last. */
export function compliant(
  named: Named,
  own: Named,
  security: readonly (readonly string[])[] | null,
  more: readonly (readonly string[])[],
  fault: Report
): Scheme[][] {
  const groups: Scheme[][] = []
  const used = new Set<string>()
  let isOpen = false
  const take = (names: readonly string[], find: (name: string) => Scheme | undefined, path: string | null) => {
    const found = names.map(name => ({ name, scheme: find(name) }))
    const missing = found.filter(({ scheme }) => scheme === undefined).map(({ name }) => name)
    for (const name of names) used.add(name)
    if (missing.length > 0) {
      if (path !== null) fault(path, `names ${missing.join(', ')}, which is no enabled scheme`)
      return
    }
    if (found.length === 0) isOpen = true
    else groups.push(inOrder(found.map(({ scheme }) => scheme!)))
  }
  for (const names of security ?? []) take(names, name => named.get(name), null)
  for (const [i, names] of more.entries()) take(names, name => named.get(name) ?? own.get(name), `/security/${i}`)
  if (security === null && more.length === 0) for (const name of named.keys()) take([name], () => named.get(name), null)
  for (const name of OWN_METHODS) if (own.has(name) && !used.has(name)) take([name], () => own.get(name), null)
  return isOpen ? [...groups, []] : groups
}

function inOrder(schemes: readonly Scheme[]): Scheme[] {
  const place = (scheme: Scheme) =>
    ORDER.indexOf(scheme.kind === 'jwt' && scheme.external ? 'introspection' : scheme.kind)
  return [...new Set(schemes)].sort((a, b) => place(a) - place(b))
}
