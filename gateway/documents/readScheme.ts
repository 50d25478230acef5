import { at, isObject, type Report } from '../../config/report.ts'
import { type Extension, TOKEN } from '../../config/shape/api.ts'
import {
  BasicScheme as BasicShape,
  CertificateScheme as CertificateShape,
  ExternalOAuthScheme as ExternalShape,
  JwtScheme as JwtShape,
  TokenScheme as TokenShape
} from '../../config/shape/authentication.ts'
import { compile, Invalid } from '../../config/validate.ts'
import type { Claim, Scheme, Skews, TokenLocation, TokenScheme, TokenSignature } from '../api.ts'
import { checkAddress, readKeys } from './keySource.ts'
import { Definitions } from './openapi/definitions.ts'
import { safeExpression } from './safeExpression.ts'

/** One scheme of the extension, and the methods that OpenAPI has no scheme for: where its credential stands, how it is checked. */

type Given = NonNullable<Extension['server']['authentication']>
type Sources = Pick<TokenShape, 'header' | 'query' | 'cookie'>

const PLACES = ['header', 'query', 'cookie'] as const
const token = new RegExp(TOKEN)

const shapes = {
  token: compile(TokenShape),
  basic: compile(BasicShape),
  jwt: compile(JwtShape),
  external: compile(ExternalShape),
  certificate: compile(CertificateShape)
}

export const NO_PLACE = 'has no place that is read: header, query and cookie are all off'

/** Somewhere in a request its credential can stand. */
export function hasPlace(scheme: Scheme): boolean {
  if (scheme.kind === 'certificate' || scheme.kind === 'message-signature') return true
  if (scheme.kind === 'token' && scheme.takesCertificate) return true
  return scheme.locations.length > 0 || (scheme.kind === 'basic' && scheme.body !== null)
}

/** What the description says of a scheme; null: it has none of this name. */
export function describedScheme(document: Record<string, unknown>, name: string): Record<string, unknown> | null {
  const components = isObject(document.components) ? document.components.securitySchemes : undefined
  const own = isObject(components) && Object.hasOwn(components, name) ? components[name] : undefined
  const found = new Definitions(document).followed(own)
  return isObject(found) ? found : null
}

/** The kind of scheme that an OpenAPI scheme stands for; null: none that the gateway reads. */
export function schemeKind(described: Record<string, unknown>): keyof typeof shapes | null {
  const { type } = described
  const scheme = typeof described.scheme === 'string' ? described.scheme.toLowerCase() : ''
  if (type === 'apiKey') return 'token'
  if (type === 'http') return scheme === 'basic' ? 'basic' : scheme === 'bearer' ? 'jwt' : null
  if (type === 'openIdConnect') return 'jwt'
  if (type === 'oauth2') return 'external'
  return type === 'mutualTLS' ? 'certificate' : null
}

export function readScheme(
  given: { enabled: boolean },
  described: Record<string, unknown> | null,
  fault: Report
): Scheme | null {
  if (described === null) {
    fault('', 'is not in components.securitySchemes')
    return null
  }
  const kind = schemeKind(described)
  if (kind === null) {
    fault(
      '',
      'must be of type apiKey, http (basic or bearer), openIdConnect, oauth2 or mutualTLS in components.securitySchemes'
    )
    return null
  }
  switch (kind) {
    case 'token':
      return shaped(shapes.token, given, fault, scheme => readToken(scheme, described, fault))
    case 'basic':
      return shaped(shapes.basic, given, fault, scheme => readBasic(scheme, fault))
    case 'jwt':
      return shaped(shapes.jwt, given, fault, scheme => readJwt(scheme, fault))
    case 'external':
      return shaped(shapes.external, given, fault, scheme => readExternal(scheme, fault))
    case 'certificate':
      return shaped(shapes.certificate, given, fault, () => ({ kind: 'certificate', locations: [] }))
  }
}

function shaped<T>(
  shape: (given: unknown) => T,
  given: unknown,
  fault: Report,
  read: (shaped: T) => Scheme
): Scheme | null {
  try {
    return read(shape(given))
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    for (const { path, message } of cause.faults) fault(path, message)
    return null
  }
}

function readToken(given: TokenShape, described: Record<string, unknown>, fault: Report): TokenScheme {
  const { in: place, name } = described
  const known = isPlace(place) && typeof name === 'string'
  if (!known) fault('', 'must have in and name in components.securitySchemes')
  return {
    kind: 'token',
    locations: known ? locationsOf(given, { in: place, name }, fault) : [],
    takesCertificate: given.enableClientCertificate,
    signature: readTokenSignature(given.signatureValidation, at('/signatureValidation', fault))
  }
}

function isPlace(value: unknown): value is TokenLocation['in'] {
  return (PLACES as readonly unknown[]).includes(value)
}

function readTokenSignature(given: TokenShape['signatureValidation'], fault: Report): TokenSignature | null {
  if (!given?.enabled) return null
  const locations: TokenLocation[] = []
  if (given.header !== '') locations.push({ in: 'header', name: headerName(given.header, at('/header', fault)) })
  if (given.query?.enabled) {
    const name = given.query.name || given.header
    if (name === '') fault('/query/name', 'is required where header is empty')
    locations.push({ in: 'query', name })
  }
  if (locations.length === 0) fault('', 'must have a header or a query parameter')
  if (given.secret === '') fault('/secret', 'is required')
  return {
    hash: given.algorithm === 'MasheryMD5' ? 'md5' : 'sha256',
    locations,
    secret: given.secret,
    skewS: given.allowedClockSkew,
    status: given.errorCode,
    message: given.errorMessage || 'Request signature verification failed'
  }
}

function headerName(name: string, fault: Report): string {
  if (!token.test(name)) fault('', 'is no possible name there')
  return name.toLowerCase()
}

/** Of schemes for which OpenAPI names no place: a header with another name takes its place. */
function placesOf(scheme: Sources, fault: Report): TokenLocation[] {
  const name = (scheme.header?.enabled && scheme.header.name) || 'Authorization'
  return locationsOf(scheme, { in: 'header', name }, fault)
}

function readBasic(given: BasicShape, fault: Report): Scheme {
  const { extractCredentialsFromBody: body } = given
  const below = at('/extractCredentialsFromBody', fault)
  return {
    kind: 'basic',
    locations: placesOf(given, fault),
    rememberMs: given.disableCaching ? 0 : given.cacheTTL * 1000,
    body: body?.enabled
      ? {
          user: safeExpression(body.userRegexp, message => below('/userRegexp', message)),
          password: safeExpression(body.passwordRegexp, message => below('/passwordRegexp', message))
        }
      : null
  }
}

function readJwt(given: JwtShape, fault: Report): Scheme {
  const { scopes } = given
  const mapping = scopes?.scopeToPolicyMapping ?? []
  return {
    kind: 'jwt',
    external: false,
    locations: placesOf(given, fault),
    family: given.signingMethod,
    keys: readKeys(given.source, given.jwksURIs, given.signingMethod, fault),
    skews: skewsOf(given),
    skipKid: given.skipKid,
    subject: claims(given.subjectClaims, given.identityBaseField),
    policy: claims(given.basePolicyClaims, given.policyFieldName),
    client: given.clientBaseField === '' || given.idpClientIdMappingDisabled ? null : claim(given.clientBaseField),
    defaultPolicies: given.defaultPolicies,
    scopeClaims: claims(scopes?.claims ?? [], scopes?.claimName || ((scopes?.claims.length ?? 0) > 0 ? '' : 'scope')),
    scopePolicies: new Map(
      [...Map.groupBy(mapping, ({ scope }) => scope)].map(([scope, all]) => [scope, all.map(each => each.policyId)])
    ),
    issuers: given.allowedIssuers,
    audiences: given.allowedAudiences,
    subjects: given.allowedSubjects,
    needsJti: given.jtiValidation?.enabled ?? false,
    custom: Object.entries(given.customClaimValidation).map(([name, rule]) => ({
      claim: claim(name),
      type: rule.type,
      allowed: rule.allowedValues,
      nonBlocking: rule.nonBlocking
    }))
  }
}

function readExternal(given: ExternalShape, fault: Report): Scheme {
  const [provider] = given.providers
  const below = at('/providers/0', fault)
  const locations = placesOf(given, fault)
  const { jwt, introspection } = provider!
  if (Boolean(jwt?.enabled) === Boolean(introspection?.enabled) && given.enabled)
    below('', 'must have either jwt or introspection enabled')
  if (jwt?.enabled) {
    return {
      kind: 'jwt',
      external: true,
      locations,
      family: jwt.signingMethod,
      keys: readKeys(jwt.source, [], jwt.signingMethod, at('/jwt', below)),
      skews: skewsOf(jwt),
      skipKid: true,
      subject: claims([], jwt.identityBaseField || 'sub'),
      policy: [],
      client: null,
      defaultPolicies: given.defaultPolicies,
      scopeClaims: [],
      scopePolicies: new Map(),
      issuers: [],
      audiences: [],
      subjects: [],
      needsJti: false,
      custom: []
    }
  }
  const url = introspection?.url ?? ''
  if (introspection !== undefined) checkAddress(url, message => below('/introspection/url', message))
  return {
    kind: 'introspection',
    locations,
    url,
    clientId: introspection?.clientId ?? '',
    clientSecret: introspection?.clientSecret ?? '',
    subject: claim(introspection?.identityBaseField || 'sub'),
    cacheMs: introspection?.cache?.enabled ? introspection.cache.timeout * 1000 : 0,
    defaultPolicies: given.defaultPolicies
  }
}

const skewsOf = (given: {
  issuedAtValidationSkew: number
  notBeforeValidationSkew: number
  expiresAtValidationSkew: number
}): Skews => ({
  issuedAt: given.issuedAtValidationSkew,
  notBefore: given.notBeforeValidationSkew,
  expires: given.expiresAtValidationSkew
})

function claims(names: readonly string[], last: string): Claim[] {
  return [...names, ...(last === '' ? [] : [last])].map(claim)
}

function claim(name: string): Claim {
  return { name, path: name.split('.') }
}

/** The place that OpenAPI names, unless the extension turns it off, and those that the extension adds. */
function locationsOf(scheme: Sources, described: TokenLocation, fault: Report): TokenLocation[] {
  const header = scheme.header?.name || (described.in === 'header' ? described.name : 'Authorization')
  const locations: TokenLocation[] = []
  for (const place of PLACES) {
    const given = scheme[place]
    const own = described.in === place && given?.enabled !== false ? [described.name] : []
    const added = given?.enabled ? [given.name || (described.in === place ? described.name : header)] : []
    for (const name of new Set([...own, ...added].map(name => (place === 'header' ? name.toLowerCase() : name)))) {
      if (place === 'query' ? name === '' : !token.test(name)) fault(`/${place}/name`, 'is no possible name there')
      locations.push({ in: place, name })
    }
  }
  return locations
}

export function ownMethods(given: Given, fault: Report): Map<string, Scheme> {
  const own = new Map<string, Scheme>()
  const { hmac, messageSignatures, certificateAuth } = given
  if (hmac?.enabled) {
    const scheme: Scheme = {
      kind: 'hmac',
      locations: placesOf(hmac, at('/hmac', fault)),
      algorithms: hmac.allowedAlgorithms,
      skewMs: Math.max(0, hmac.allowedClockSkew)
    }
    if (!hasPlace(scheme)) fault('/hmac', NO_PLACE)
    own.set('hmac', scheme)
  }
  if (messageSignatures?.enabled)
    own.set('messageSignatures', {
      kind: 'message-signature',
      locations: [],
      algorithms: messageSignatures.allowedAlgorithms,
      required: messageSignatures.requiredComponents,
      skewS: messageSignatures.allowedClockSkew,
      maxAgeS: messageSignatures.maxAge
    })
  if (certificateAuth?.enabled) own.set('certificateAuth', { kind: 'certificate', locations: [] })
  return own
}
