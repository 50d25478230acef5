import { createPublicKey, type KeyObject } from 'node:crypto'
import { durationMs } from '../../config/duration.ts'
import { at, isObject, type Report } from '../../config/report.ts'
import { type Extension, TOKEN } from '../../config/shape/api.ts'
import {
  BasicScheme as BasicShape,
  CertificateScheme as CertificateShape,
  ExternalOAuthScheme as ExternalShape,
  JwtScheme as JwtShape,
  TokenScheme as TokenShape
} from '../../config/shape/authentication.ts'
import { compile, Invalid, pointer } from '../../config/validate.ts'
import { STREAMING } from '../../streams/document/readStreaming.ts'
import type {
  Authentication,
  Claim,
  Family,
  KeySource,
  ResourceMetadata,
  Scheme,
  SchemeKind,
  Skews,
  TokenLocation,
  TokenScheme,
  TokenSignature
} from '../api.ts'
import { Definitions } from './openapi/definitions.ts'
import { safeExpression } from './safeExpression.ts'

/** `server.authentication` and the schemes of `components.securitySchemes`: what a request must bring (semantics §3.3, §6). */

type Given = NonNullable<Extension['server']['authentication']>
type Sources = Pick<TokenShape, 'header' | 'query' | 'cookie'>

const PLACES = ['header', 'query', 'cookie'] as const
const token = new RegExp(TOKEN)

/** The order in which methods of one group are tried (semantics §6.10). */
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

const shapes = {
  token: compile(TokenShape),
  basic: compile(BasicShape),
  jwt: compile(JwtShape),
  external: compile(ExternalShape),
  certificate: compile(CertificateShape)
}

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

const NO_PLACE = 'has no place that is read: header, query and cookie are all off'

/** Somewhere in a request its credential can stand. */
function hasPlace(scheme: Scheme): boolean {
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

function readScheme(
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

const HTTP = /^https?:\/\//i

function checkAddress(url: string, fault: (message: string) => void): void {
  const parsed = HTTP.test(url) ? URL.parse(url) : null
  if (parsed === null) fault('must be an http or https address')
  else if (parsed.username !== '' || parsed.password !== '') fault('may not hold a user or password')
}

/** RFC 4648 §4: padded. */
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/
const PEM = '-----BEGIN '
/** As secrets of the gateway itself (outside.md §2); RFC 7518 §3.2 asks for as many bytes as the hash has. */
const LEAST_SECRET_BYTES = 16

/** What `source` and `jwksURIs` stand for: addresses, a PEM, a secret, each also in base64 (semantics §6.6). */
function readKeys(
  source: string,
  addresses: readonly { url: string; cacheTimeout: number }[],
  family: Family,
  fault: Report
): KeySource {
  const inSource = (message: string) => fault('/source', message)
  if (addresses.length > 0) {
    for (const [i, { url }] of addresses.entries()) checkAddress(url, message => fault(`/jwksURIs/${i}/url`, message))
    if (family === 'hmac') fault('/jwksURIs', 'are for public keys: hmac needs a secret in source')
    return { is: 'sets', sets: addresses.map(({ url, cacheTimeout }) => ({ url, cacheMs: cacheTimeout * 1000 })) }
  }
  if (source === '') return { is: 'key' }
  const trimmed = source.trim()
  const isBase64 = BASE64.test(trimmed.replace(/[\r\n]+/g, ''))
  const bytes = isBase64 ? Buffer.from(trimmed, 'base64') : Buffer.from(source)
  const text = isBase64 ? bytes.toString().trim() : trimmed
  if (HTTP.test(text)) {
    checkAddress(text, inSource)
    if (family === 'hmac') inSource('is the address of public keys: hmac needs a secret')
    return { is: 'sets', sets: [{ url: text, cacheMs: 0 }] }
  }
  if (text.includes(PEM)) {
    checkPem(text, family, inSource)
    return { is: 'pem', pem: text }
  }
  if (family !== 'hmac') inSource('must be the address of a JWKS or a public key in PEM, plain or in base64')
  else if (bytes.length < LEAST_SECRET_BYTES)
    inSource(`is ${isBase64 ? 'base64 of ' : ''}a secret of less than ${LEAST_SECRET_BYTES} bytes`)
  return { is: 'secret', secret: bytes }
}

const KEY_TYPES: Record<Family, readonly string[]> = {
  hmac: [],
  rsa: ['rsa', 'rsa-pss'],
  ecdsa: ['ec'],
  eddsa: ['ed25519']
}
const CURVES = ['prime256v1', 'secp384r1', 'secp521r1']

function checkPem(pem: string, family: Family, fault: (message: string) => void): void {
  // A public key as an HMAC secret is known to everybody.
  if (family === 'hmac') return fault('is a public key or certificate: hmac needs a secret')
  if (pem.includes('PRIVATE KEY')) return fault('is a private key: give the public one')
  let key: KeyObject
  try {
    key = createPublicKey(pem)
  } catch {
    return fault('is a PEM that cannot be read')
  }
  const { asymmetricKeyType: type = '', asymmetricKeyDetails: details = {} } = key
  if (!KEY_TYPES[family].includes(type)) fault(`is a key of type ${type}, which does not sign with ${family}`)
  else if (type.startsWith('rsa') && (details.modulusLength ?? 0) < 2048) fault('is an RSA key of less than 2048 bits')
  else if (type === 'ec' && !CURVES.includes(details.namedCurve ?? ''))
    fault('must be of the curve P-256, P-384 or P-521')
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

function ownMethods(given: Given, fault: Report): Map<string, Scheme> {
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

/** The `security` at the top of a description: the names of each alternative; null: it has none. */
export function securityOf(document: Record<string, unknown>): readonly (readonly string[])[] | null {
  const { security } = document
  if (!Array.isArray(security) || security.length === 0) return null
  return security.filter(isObject).map(requirement => Object.keys(requirement))
}

type Named = ReadonlyMap<string, Scheme>

/**
 * One group: the first alternative whose schemes are all enabled, else what is enabled of the first that names such, else all
 * enabled schemes; and all methods of our own.
 */
function legacy(named: Named, own: Named, security: readonly (readonly string[])[] | null): Scheme[][] {
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
  const all = PLACES.flatMap(place => tokens.flatMap(each => each.locations.filter(location => location.in === place)))
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
function compliant(
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
