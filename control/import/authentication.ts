import { isObject } from '../../config/report.ts'
import { pointer as escaped } from '../../config/validate.ts'
import { schemeKind } from '../../gateway/documents/readScheme.ts'
import { Refused } from '../endpoint.ts'
import { type Members, member } from './members.ts'
import { followed } from './operations.ts'
import type { Mode } from './options.ts'
import { type Place, type Report, refuse } from './report.ts'
import type { Source } from './source.ts'

type Kind = NonNullable<ReturnType<typeof schemeKind>>

/** What of the authentication an import asks for; null leaves things as they are. */
export interface Asked {
  readonly on: boolean | null
  readonly mode: Mode | null
}

/** One entry of `security`, and where it stands. */
interface Alternative {
  readonly names: readonly string[]
  readonly place: Place
}

/**
 * Switches on the schemes that the top-level `security` names: in mode legacy those of its first alternative, in mode
 * compliant those of all. An alternative with a scheme that cannot be switched on is left out as a whole, so that nobody
 * gets in with less than the description asks for. Answers the schemes that stay off.
 * @throws Refused 400 where nobody would be asked for a credential after all
 */
export function switchAuthentication(
  source: Source,
  extension: Members,
  { on, mode }: Asked,
  told: Report
): ReadonlySet<string> {
  const server = member(extension, 'server')
  if (on === false && isObject(server.authentication)) server.authentication.enabled = false
  if (mode !== null && (on === true || isObject(server.authentication)))
    member(server, 'authentication').securityProcessingMode = mode
  const alternatives = alternativesOf(source)
  const off = on === true ? switchOn(source, member(server, 'authentication'), alternatives, told) : NONE
  const { authentication } = server
  if (isObject(authentication) && authentication.enabled === true && isCompliant(authentication))
    for (const { names, place } of alternatives)
      if (names.length === 0) told.at(place, 'security', 'warned', 'lets everybody in without any credential')
  return off
}

const NONE: ReadonlySet<string> = new Set()

function alternativesOf({ document, root }: Source): Alternative[] {
  const { security } = document
  return (Array.isArray(security) ? security : []).flatMap((requirement, i) =>
    isObject(requirement) ? [{ names: Object.keys(requirement), place: { file: root, pointer: `/security/${i}` } }] : []
  )
}

function isCompliant(authentication: Members): boolean {
  return authentication.securityProcessingMode === 'compliant'
}

function switchOn(
  source: Source,
  authentication: Members,
  alternatives: readonly Alternative[],
  told: Report
): ReadonlySet<string> {
  const schemes = member(authentication, 'securitySchemes')
  const off = new Set<string>()
  const able = ableOf(source, schemes, alternatives, told, off)
  const wanted = isCompliant(authentication) ? ofAll(alternatives, able, told) : ofTheFirst(alternatives, able, told)
  if (wanted.size === 0) throw refusal(alternatives, able)
  for (const [name, { kind, described }] of able) {
    const place = placeOf(source, name)
    if (!wanted.has(name)) {
      told.at(place, 'securitySchemes', 'ignored', 'no alternative that counts names it')
      off.add(name)
      continue
    }
    const scheme = member(schemes, name)
    scheme.enabled = true
    if (kind === 'jwt' && !hasKeys(scheme)) told.at(place, 'securitySchemes', 'warned', keyless(described))
  }
  authentication.enabled = true
  if (wanted.size > 1 && !authentication.baseIdentityProvider)
    authentication.baseIdentityProvider = baseOf([...wanted].map(name => able.get(name)!.kind))
  return off
}

interface Able {
  readonly kind: Kind
  readonly described: Members
}

/** The schemes that can be switched on, of those that `security` names; the others are told, and go to `off`. */
function ableOf(
  source: Source,
  schemes: Members,
  alternatives: readonly Alternative[],
  told: Report,
  off: Set<string>
): ReadonlyMap<string, Able> {
  const { document } = source
  const names = new Set(alternatives.flatMap(alternative => alternative.names))
  if (names.size === 0) throw new Refused(400, 'authentication needs security at the top of the description')
  const all = isObject(document.components) ? document.components.securitySchemes : null
  const able = new Map<string, Able>()
  for (const name of names) {
    const described = followed(document, isObject(all) && Object.hasOwn(all, name) ? all[name] : null)
    if (described === null)
      throw new Refused(400, `security names ${name.slice(0, 200)}, which components.securitySchemes does not have`)
    const kind = schemeKind(described)
    const why = kind === null ? notRead(described) : unable(kind, schemes, name)
    if (why === null) able.set(name, { kind: kind!, described })
    else {
      told.at(placeOf(source, name), 'securitySchemes', 'ignored', why)
      off.add(name)
    }
  }
  return able
}

function placeOf({ root }: Source, name: string): Place {
  return { file: root, pointer: `/components/securitySchemes/${escaped(name)}` }
}

/** Mode compliant. */
function ofAll(
  alternatives: readonly Alternative[],
  able: ReadonlyMap<string, Able>,
  told: Report
): ReadonlySet<string> {
  const wanted = new Set<string>()
  for (const { names, place } of alternatives)
    if (names.every(name => able.has(name))) for (const name of names) wanted.add(name)
    else told.at(place, 'security', 'ignored', together(names, able))
  return wanted
}

const FIRST_ALONE =
  'does not count: mode legacy takes the first alternative alone, securityProcessingMode=compliant all'

/** Mode legacy. */
function ofTheFirst(
  alternatives: readonly Alternative[],
  able: ReadonlyMap<string, Able>,
  told: Report
): ReadonlySet<string> {
  let wanted = NONE
  for (const { names, place } of alternatives) {
    const ignored = (message: string) => told.at(place, 'security', 'ignored', message)
    if (names.length === 0) ignored('requests without a credential are refused: mode legacy lets nobody in without one')
    else if (!names.every(name => able.has(name))) ignored(together(names, able))
    else if (wanted.size === 0) wanted = new Set(names)
    else if (names.length !== wanted.size || names.some(name => !wanted.has(name))) ignored(FIRST_ALONE)
  }
  return wanted
}

function notRead(described: Members): string {
  const kind = [described.type, described.scheme].filter(word => typeof word === 'string').join(' ')
  return `schemes of type ${kind.slice(0, 100)} are not read`
}

/** An authorization server says nothing of itself in a description: where it is asked stands in the extension alone. */
function unable(kind: Kind, schemes: Members, name: string): string | null {
  if (kind !== 'external') return null
  const own = Object.hasOwn(schemes, name) ? schemes[name] : null
  const isSet = isObject(own) && Array.isArray(own.providers) && own.providers.length > 0
  return isSet ? null : 'needs a provider (jwt or introspection) in the extension, so it is not switched on'
}

function hasKeys({ source, jwksURIs }: Members): boolean {
  return Boolean(source) || (Array.isArray(jwksURIs) && jwksURIs.length > 0)
}

/** An import asks nobody but the addresses that it is told: not the one of the discovery. */
function keyless({ type }: Members): string {
  const discovery = type === 'openIdConnect' ? 'openIdConnectUrl is not fetched, so it ' : ''
  return `${discovery}has no keys of its own: set source, or jwksURIs and signingMethod. Until then tokens are held against the secret of the key that they name`
}

/** Semantics §3.9. */
function baseOf(kinds: readonly Kind[]): string {
  if (kinds.includes('token')) return 'auth_token'
  return kinds.includes('jwt') ? 'jwt_claim' : 'oauth_key'
}

function refusal(alternatives: readonly Alternative[], able: ReadonlyMap<string, Able>): Refused {
  const first = alternatives.find(({ names }) => names.length > 1)
  if (first !== undefined) return refuse(first.place, 'security', together(first.names, able))
  return new Refused(400, 'authentication was asked for, but no scheme that security names can be switched on')
}

/** Why the schemes that one alternative names cannot be asked for. */
function together(names: readonly string[], able: ReadonlyMap<string, Able>): string {
  const why = `${names.filter(name => !able.has(name)).join(', ')} cannot be switched on`
  return (names.length === 1 ? why : `asks for ${names.join(' and ')} together, but ${why}`).slice(0, 1000)
}
