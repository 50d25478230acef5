import { durationMs } from '../../config/duration.ts'
import { at, type Report } from '../../config/report.ts'
import type { Extension } from '../../config/shape/api.ts'
import { pointer } from '../../config/validate.ts'
import { STREAMING } from '../../streams/document/readStreaming.ts'
import type { Authentication, ResourceMetadata, Scheme, SchemeKind } from '../api.ts'
import { describedScheme, hasPlace, NO_PLACE, ownMethods, readScheme } from './readScheme.ts'
import { compliant, legacy, type Named, securityOf } from './securityGroups.ts'

/** `server.authentication` and the schemes of `components.securitySchemes`: what a request must bring (semantics §3.3, §6). */

type Given = NonNullable<Extension['server']['authentication']>

export function readAuthentication(
  given: Extension['server']['authentication'],
  document: Record<string, unknown>,
  fault: Report
): Authentication | null {
  if (given === undefined) return null
  const report = at('/server/authentication', fault)
  const named = new Map<string, Scheme>()
  for (const [name, scheme] of Object.entries(given.securitySchemes)) {
    const where = at(`/securitySchemes/${pointer(name)}`, report)
    const read = readScheme(scheme, describedScheme(document, name), where)
    if (read === null || !scheme.enabled) continue
    if (!hasPlace(read)) where('', NO_PLACE)
    named.set(name, read)
  }
  if (Object.hasOwn(document, STREAMING)) refuseBodies(named, report)
  const own = ownMethods(given, report)
  const metadata = readMetadata(given.protectedResourceMetadata, at('/protectedResourceMetadata', report))
  const groups =
    given.securityProcessingMode === 'compliant'
      ? compliant(named, own, securityOf(document), given.security, report)
      : legacy(named, own, securityOf(document))
  if (given.securityProcessingMode === 'legacy' && given.security.length > 0)
    report('/security', 'counts only where securityProcessingMode is compliant')
  const lifetime = readLifetime(given.customKeyLifetime, report)
  if (!given.enabled) return null
  if (!groups.some(group => group.length > 0))
    report('/securitySchemes', 'must have an enabled scheme that security does not leave out')
  return {
    groups,
    base: baseOf(given.baseIdentityProvider, groups),
    strip: given.stripAuthorizationData,
    lifetime,
    metadata
  }
}

const BASES: Record<Given['baseIdentityProvider'], SchemeKind | null> = {
  '': null,
  auth_token: 'token',
  hmac_key: 'hmac',
  basic_auth_user: 'basic',
  jwt_claim: 'jwt',
  oauth_key: 'introspection'
}

/** Tokens of an external server are JWTs as well, where nobody is asked about them. */
function baseOf(name: Given['baseIdentityProvider'], groups: readonly (readonly Scheme[])[]): SchemeKind | null {
  const isAsked = () => groups.flat().some(({ kind }) => kind === 'introspection')
  return name === 'oauth_key' && !isAsked() ? 'jwt' : BASES[name]
}

/** Streams read the bodies of their requests by themselves, as they come. */
function refuseBodies(named: Named, fault: Report): void {
  for (const [name, scheme] of named)
    if (scheme.kind === 'basic' && scheme.body !== null)
      fault(
        `/securitySchemes/${pointer(name)}/extractCredentialsFromBody`,
        'is not possible in a streaming API: its bodies are the messages'
      )
}

function readLifetime(given: Given['customKeyLifetime'], fault: Report): Authentication['lifetime'] {
  if (!given?.enabled) return null
  const ms = durationMs(given.value) ?? 0
  if (ms <= 0) fault('/customKeyLifetime/value', 'must be above 0')
  return { ms, respectsValidity: given.respectValidity }
}

function readMetadata(given: Given['protectedResourceMetadata'], fault: Report): ResourceMetadata | null {
  if (!given?.enabled) return null
  const wellKnownPath = given.wellKnownPath.replace(/^\/+/, '')
  // Such paths never come: requests are brought into normal form before.
  if (wellKnownPath === '' || /(?:^|\/)\.{1,2}(?:\/|$)/.test(wellKnownPath))
    fault('/wellKnownPath', 'is no possible path')
  return {
    wellKnownPath,
    resource: given.resource,
    authorizationServers: given.authorizationServers,
    scopes: given.scopesSupported
  }
}

/** The schemes of an API, each once. */
export function schemesOf(authentication: Authentication | null): readonly Scheme[] {
  return [...new Set(authentication?.groups.flat() ?? [])]
}
