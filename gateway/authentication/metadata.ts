// For methods: a 401 of theirs needs no address. `challengeOf(api)` gives the pairs (nothing where metadata is off), and
// the head of the step `resourceMetadata` writes `resource_metadata="…"` into them, whichever method refused.
import type { Api, ResourceMetadata, SchemeKind, TokenLocation } from '../api.ts'
import { schemesOf } from '../documents/readAuthentication.ts'
import { type Exchange, headerOf } from '../exchange.ts'
import { normalPath } from '../paths.ts'

/** Protected resource metadata (RFC 9728): where clients get tokens for an API. */

const BEARER: readonly string[] = Object.freeze(['WWW-Authenticate', 'Bearer'])

/**
 * Header pairs of a refusal with status 401 (RFC 9728 §5.1), complete once the step `resourceMetadata` has put the
 * address of the metadata there; [] where the API tells none.
 */
export function challengeOf({ authentication }: Pick<Api, 'authentication'>): readonly string[] {
  return authentication?.metadata ? BEARER : []
}

/** The path of the document behind the listen path, in normal form. */
export function wellKnownPath({ wellKnownPath }: ResourceMetadata): string {
  return normalPath(`/${wellKnownPath}`)
}

/** The document (RFC 9728 §2). @param address of the API, as it was asked */
export function metadataOf(api: Api, metadata: ResourceMetadata, address: string): Record<string, unknown> {
  const { resource, authorizationServers, scopes } = metadata
  const schemes = schemesOf(api.authentication).filter(({ kind }) => TAKE_BEARERS.includes(kind))
  const methods = bearerMethods(schemes.flatMap(({ locations }) => locations))
  return {
    resource: resource || address,
    ...(authorizationServers.length === 0 ? {} : { authorization_servers: authorizationServers }),
    ...(scopes.length === 0 ? {} : { scopes_supported: scopes }),
    ...(methods.length === 0 ? {} : { bearer_methods_supported: methods })
  }
}

const TAKE_BEARERS: readonly SchemeKind[] = ['jwt', 'introspection', 'token']

/** Of the three that there are (RFC 6750 §2); a cookie is none. */
function bearerMethods(locations: readonly TokenLocation[]): string[] {
  return (['header', 'query'] as const).filter(place => locations.some(each => each.in === place))
}

/** A host and port: nothing that could end a quoted text. */
const HOST = /^[A-Za-z0-9._~:[\]%-]{1,255}$/

/** What a quoted text cannot hold, or no header. */
const UNFIT = /[^\x21\x23-\x5b\x5d-\x7e]+/g

/** Scheme, host and listen path by which an API was asked; a trusted proxy's word included. Ends without a slash. */
export function addressOf(x: Exchange): string {
  const { peer, route } = x
  const raw = x.req.rawHeaders
  const told = (name: string) => (peer.trusted ? (headerOf(raw, name)?.split(',')[0]?.trim() ?? '') : '')
  const scheme = told('x-forwarded-proto').toLowerCase()
  const isSecure = scheme === 'https' || (scheme !== 'http' && peer.secure)
  const hosts = [told('x-forwarded-host'), x.header('host') ?? '', x.host]
  const host = hosts.find(each => HOST.test(each)) ?? route.api.domain
  const path = x.plain ? x.path : normalPath(x.path)
  // The listen path may hold placeholders: this is what stood in their places.
  const segments = path.split('/').slice(0, route.api.listenSegments.length + 1)
  return `${isSecure ? 'https' : 'http'}://${host}${segments.join('/').replace(UNFIT, encodeURIComponent)}`
}

/**
 * Adds the address of the metadata to what a 401 asks for (RFC 9728 §5.1): to each `Bearer` that names none, or as one
 * more way beside others. Edits raw pairs in place.
 */
export function tellMetadata(pairs: string[], address: string): void {
  const parameter = `resource_metadata="${address}"`
  for (let i = 0; i < pairs.length; i += 2) {
    if (pairs[i]!.toLowerCase() !== 'www-authenticate') continue
    const value = pairs[i + 1]!
    if (!/^bearer(?: |$)/i.test(value)) continue
    if (!value.includes('resource_metadata=')) pairs[i + 1] = `${value}${value.length > 6 ? ',' : ''} ${parameter}`
    return
  }
  pairs.push('WWW-Authenticate', `Bearer ${parameter}`)
}
