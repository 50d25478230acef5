import { durationMs } from '../config/duration.ts'
import { Extension, type HeaderEditsExtension, type OperationExtension, TOKEN } from '../config/shape/api.ts'
import { compile, type Fault, Invalid, pointer } from '../config/validate.ts'
import { addresses } from './addresses.ts'
import { comparePaths, literalPath, type Matching, normalPath, type PathRule, pathRule } from './paths.ts'

export const EXTENSION = 'x-svc-api-gateway'

/** The compiled reading of one API document: plain values, never changed, nothing to check again. */
export interface Api {
  readonly id: string
  readonly orgId: string
  readonly name: string
  readonly dbId: string
  readonly slug: string
  /** False: kept, not routed. */
  readonly active: boolean
  /** True: no route from outside. */
  readonly internal: boolean
  /** Milliseconds since the epoch from which on it is expired; Infinity: never. */
  readonly expires: number
  /** Lower case, without port; '' for any host. */
  readonly domain: string
  /** In normal form, without the slash at its end; '' for the root. Takes this path itself and all below it. */
  readonly listenPath: string
  /** Its segments; null stands for a placeholder, which takes any one segment. */
  readonly listenSegments: readonly (string | null)[]
  readonly strip: boolean
  /** Null: keyless. */
  readonly authentication: Authentication | null
  /** Null: no look at addresses. */
  readonly addresses: Addresses | null
  readonly upstream: Upstream
  /** Limit over all keys. */
  readonly rate: Rate | null
  readonly cors: Cors | null
  /** Longest request body in bytes that a head may state. */
  readonly sizeLimit: number | null
  readonly skipRateLimit: boolean
  readonly skipQuota: boolean
  readonly skipQuotaReset: boolean
  readonly requestHeaders: HeaderEdits | null
  readonly responseHeaders: HeaderEdits | null
  /** Paths match in any case: those of operations and those in the rights of keys. */
  readonly ignoreCase: boolean
  /** Some operation is allowed, so the others are not. */
  readonly allowList: boolean
  /** All operations of the document in order of precedence; empty when the extension says nothing about any. */
  readonly operations: readonly Operation[]
  /**
   * The operation that a request is: the first whose method and path match, or null. `path`: behind the listen path, in
   * normal form (`normalPath`), beginning with `/`; null at once when there are no operations.
   */
  readonly operation: (method: string, path: string) => Operation | null
  /** As it was given, for readers of documents; frozen by agreement. */
  readonly document: ApiDocument
  /** `store`, or the file that it was read from. */
  readonly source: string
}

export type ApiDocument = Readonly<Record<string, unknown>>

export interface Authentication {
  /** Where a token may stand, in reading order; a later one that is not empty wins (semantics §6.3). Never empty. */
  readonly locations: readonly TokenLocation[]
  /** The upstream does not get the credential: every location is taken out of the request. */
  readonly strip: boolean
}

export interface TokenLocation {
  readonly in: 'header' | 'query' | 'cookie'
  /** Of a header: lower case. */
  readonly name: string
}

/** Addresses and CIDRs as written, each checked. */
export interface Addresses {
  /** Empty: every address that is not blocked. */
  readonly allow: readonly string[]
  readonly block: readonly string[]
}

export interface Target {
  readonly url: string
  /** `svc:` is the built-in upstream `svc://echo`. */
  readonly protocol: 'http:' | 'https:' | 'svc:'
  /** As it stands in a Host header. */
  readonly host: string
  readonly hostname: string
  readonly port: number
  /** Begins with `/` or is empty; never ends with `/`. */
  readonly path: string
  /** Shares in the round; at least 1. */
  readonly weight: number
}

export interface Upstream {
  /** At least one. Several, or one with `balanced`: load balancing. */
  readonly targets: readonly Target[]
  readonly balanced: boolean
  readonly skipUnavailable: boolean
  readonly preserveHost: boolean
  readonly preserveTrailingSlash: boolean
  /** Longest wait for the head of an answer; null: the gateway's own. */
  readonly timeoutMs: number | null
}

export interface Rate {
  /** Requests a window; above 0, may be a fraction. */
  readonly rate: number
  readonly perMs: number
}

export interface HeaderEdits {
  /** Lower case. */
  readonly remove: readonly string[]
  /** In the order given; names as written. Each replaces what is there under its name. */
  readonly add: readonly { readonly name: string; readonly value: string }[]
}

export interface Cors {
  readonly allowedOrigins: readonly string[]
  readonly allowedMethods: readonly string[]
  readonly allowedHeaders: readonly string[]
  readonly exposedHeaders: readonly string[]
  readonly allowCredentials: boolean
  /** Seconds; 0: unsaid. */
  readonly maxAge: number
  readonly optionsPassthrough: boolean
  readonly debug: boolean
}

/** What the extension says about one operation; null and false: nothing. */
export interface Operation {
  /** Its operationId; '' when it has none. */
  readonly id: string
  /** Upper case. */
  readonly method: string
  /** As the document writes it. */
  readonly path: string
  readonly matches: (path: string) => boolean
  readonly allow: boolean
  readonly block: boolean
  readonly ignoreAuthentication: boolean
  readonly sizeLimit: number | null
  /** Takes the place of the API's. */
  readonly rate: Rate | null
  /** Takes the place of the API's. */
  readonly timeoutMs: number | null
  /** After the API's. */
  readonly requestHeaders: HeaderEdits | null
  readonly responseHeaders: HeaderEdits | null
}

/** What the reading of a document needs beside it. */
export interface Reading {
  /** `store`, or the file that it was read from. */
  readonly source: string
  /** `gateway.endpoint_matching` */
  readonly matching: Matching['matching']
}

const readExtension = compile(Extension)

/**
 * Reads an API document: checks its OpenAPI part as far as the gateway relies on it, and its extension wholly.
 * @throws Invalid with all faults, as JSON pointers into the document
 */
export function readApi(document: unknown, { source, matching }: Reading): Api {
  if (!isObject(document)) throw new Invalid([{ path: '', message: 'must be an object' }])
  const faults: Fault[] = []
  const inDocument = (path: string, message: string) => void faults.push({ path, message })
  const endpoints = readEndpoints(document, inDocument)
  const extension = extensionOf(document, faults)
  if (extension === null) throw new Invalid(faults)

  const fault = at(`/${EXTENSION}`, inDocument)
  const { info, server, upstream, middleware } = extension
  const { global } = middleware
  const { listenPath, segments } = readListenPath(server.listenPath.value, fault)
  const ruled = readOperations(endpoints, extension, matching, fault, inDocument)
  const operations = ruled.map(({ operation }) => operation)
  const edits = (of: 'request' | 'response', member: 'transformRequestHeaders' | 'transformResponseHeaders') =>
    readEdits(global[member], of, at(`/middleware/global/${member}`, fault))
  const api: Api = {
    id: readId(info.id, fault),
    orgId: info.orgId,
    name: info.name,
    dbId: info.dbId,
    slug: server.slug,
    active: info.state.active,
    internal: info.state.internal,
    expires: readExpiration(info.expiration, fault),
    domain: readDomain(server.customDomain, fault),
    listenPath,
    listenSegments: segments,
    strip: server.listenPath.strip,
    authentication: readAuthentication(server.authentication, document, fault),
    addresses: readAddresses(server.ipAccessControl, fault),
    upstream: readUpstream(upstream, fault),
    rate: readRate(upstream.rateLimit, message => fault('/upstream/rateLimit', message)),
    cors: readCors(global.cors, fault),
    sizeLimit: global.requestSizeLimit?.enabled ? global.requestSizeLimit.value : null,
    skipRateLimit: global.skipRateLimit,
    skipQuota: global.skipQuota,
    skipQuotaReset: global.skipQuotaReset,
    requestHeaders: edits('request', 'transformRequestHeaders'),
    responseHeaders: edits('response', 'transformResponseHeaders'),
    ignoreCase: global.ignoreCase?.enabled ?? false,
    allowList: operations.some(({ allow }) => allow),
    operations,
    operation: finder(ruled, matching),
    document,
    source
  }
  if (faults.length > 0) throw new Invalid(faults)
  return api
}

/** The document with an id in its extension; as it is when it has one, or no place for it. */
export function withId(document: unknown, id: string): unknown {
  if (!isObject(document)) return document
  const extension = document[EXTENSION]
  if (!isObject(extension) || !isObject(extension.info) || Object.hasOwn(extension.info, 'id')) return document
  return { ...document, [EXTENSION]: { ...extension, info: { id, ...extension.info } } }
}

/** The id that a document names, before anything of it was checked; null when it names none. */
export function namedId(document: unknown): string | null {
  const extension = isObject(document) ? document[EXTENSION] : null
  const info = isObject(extension) ? extension.info : null
  return isObject(info) && typeof info.id === 'string' ? info.id : null
}

type Report = (path: string, message: string) => void

function at(path: string, fault: Report): Report {
  return (below, message) => fault(path + below, message)
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The extension with its defaults, read from a copy: the document stays as it was given. */
function extensionOf(document: Record<string, unknown>, faults: Fault[]): Extension | null {
  if (document[EXTENSION] === undefined) {
    faults.push({ path: `/${EXTENSION}`, message: 'is required' })
    return null
  }
  try {
    return readExtension(JSON.parse(JSON.stringify(document[EXTENSION])))
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    faults.push(...cause.faults.map(({ path, message }) => ({ path: `/${EXTENSION}${path}`, message })))
    return null
  }
}

// The OpenAPI part

interface Endpoint {
  readonly id: string
  readonly method: string
  readonly path: string
}

const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace']

function readEndpoints(document: Record<string, unknown>, fault: Report): Endpoint[] {
  const { openapi, info, paths } = document
  if (typeof openapi !== 'string' || !/^3\.[01]\.\d+$/.test(openapi)) fault('/openapi', 'must be 3.0.x or 3.1.x')
  if (!isObject(info)) fault('/info', 'must be an object')
  else
    for (const name of ['title', 'version'])
      if (typeof info[name] !== 'string') fault(`/info/${name}`, 'must be a text')
  // OpenAPI 3.1 allows documents of components or webhooks alone.
  if (paths === undefined && typeof openapi === 'string' && openapi.startsWith('3.1.')) return []
  if (!isObject(paths)) {
    fault('/paths', 'must be an object')
    return []
  }
  const endpoints: Endpoint[] = []
  const ids = new Map<string, string>()
  for (const [path, item] of Object.entries(paths)) {
    if (path.startsWith('x-')) continue
    const where = `/paths/${pointer(path)}`
    if (!path.startsWith('/')) fault(where, 'must begin with /')
    if (!isObject(item)) {
      fault(where, 'must be an object')
      continue
    }
    for (const method of METHODS) {
      const operation = item[method]
      if (operation === undefined) continue
      const id = isObject(operation) ? (operation.operationId ?? '') : null
      if (id === null) fault(`${where}/${method}`, 'must be an object')
      else if (typeof id !== 'string') fault(`${where}/${method}/operationId`, 'must be a text')
      else {
        const other = id === '' ? undefined : ids.get(id)
        if (other !== undefined) fault(`${where}/${method}/operationId`, `is taken by ${other}`)
        ids.set(id, `${where}/${method}`)
        endpoints.push({ id, method: method.toUpperCase(), path })
      }
    }
  }
  return endpoints
}

// Operations

/** An operation with what makes it quick to find. */
interface Ruled {
  readonly operation: Operation
  /** Its path in normal form when it is plain text. */
  readonly literal: string | null
  readonly ignoreCase: boolean
}

function readOperations(
  endpoints: readonly Endpoint[],
  { middleware }: Extension,
  matching: Matching['matching'],
  fault: Report,
  inDocument: Report
): readonly Ruled[] {
  const given = new Map(Object.entries(middleware.operations))
  const known = new Set(endpoints.map(({ id }) => id))
  for (const id of given.keys()) {
    if (id === '' || !known.has(id)) fault(`/middleware/operations/${pointer(id)}`, 'is no operationId of paths')
  }
  const acts = [...given.values()].some(operation => Object.values(operation).some(block => block.enabled))
  const everywhere = middleware.global.ignoreCase?.enabled ?? false
  const ruled = endpoints.map(endpoint => {
    const extension = given.get(endpoint.id) ?? {}
    const { allow, block, ignoreAuthentication } = extension
    const ignoreCase = everywhere || [allow, block, ignoreAuthentication].some(rule => rule?.enabled && rule.ignoreCase)
    const read = () => ({
      rule: pathRule(endpoint.path, { matching, ignoreCase }),
      literal: literalPath(endpoint.path)
    })
    const path = acts ? tried(read, message => inDocument(`/paths/${pointer(endpoint.path)}`, message)) : null
    const operation = readOperation(endpoint, path?.rule ?? never, extension, fault)
    return { operation, literal: path?.literal ?? null, ignoreCase }
  })
  return acts ? ruled.sort((a, b) => comparePaths(a.operation.path, b.operation.path)) : []
}

const never: PathRule = () => false

function readOperation(
  { id, method, path }: Endpoint,
  matches: PathRule,
  extension: OperationExtension,
  fault: Report
): Operation {
  const report = at(`/middleware/operations/${pointer(id)}`, fault)
  const { allow, block, ignoreAuthentication, requestSizeLimit, rateLimit, enforceTimeout } = extension
  const edits = (of: 'request' | 'response', member: 'transformRequestHeaders' | 'transformResponseHeaders') =>
    readEdits(extension[member], of, at(`/${member}`, report))
  return {
    id,
    method,
    path,
    matches,
    allow: allow?.enabled ?? false,
    block: block?.enabled ?? false,
    ignoreAuthentication: ignoreAuthentication?.enabled ?? false,
    sizeLimit: requestSizeLimit?.enabled ? requestSizeLimit.value : null,
    rate: readRate(rateLimit, message => report('/rateLimit', message)),
    timeoutMs: readTimeout(enforceTimeout, message => report('/enforceTimeout', message)),
    requestHeaders: edits('request', 'transformRequestHeaders'),
    responseHeaders: edits('response', 'transformResponseHeaders')
  }
}

/** The operations of one method: plain paths are looked up, the others tried in order. */
interface Shelf {
  readonly literal: Map<string, Operation>
  readonly anyCase: Map<string, Operation>
  readonly others: Operation[]
}

function finder(ruled: readonly Ruled[], matching: Matching['matching']): Api['operation'] {
  if (ruled.length === 0) return () => null
  const shelves = new Map<string, Shelf>()
  for (const { operation, literal, ignoreCase } of ruled) {
    const shelf: Shelf = shelves.get(operation.method) ?? { literal: new Map(), anyCase: new Map(), others: [] }
    shelves.set(operation.method, shelf)
    if (literal === null || matching !== 'exact') shelf.others.push(operation)
    else {
      const paths = ignoreCase ? shelf.anyCase : shelf.literal
      const path = ignoreCase ? literal.toLowerCase() : literal
      if (!paths.has(path)) paths.set(path, operation)
    }
  }
  return (method, path) => {
    const shelf = shelves.get(method)
    if (shelf === undefined) return null
    const { literal, anyCase, others } = shelf
    const found = literal.get(path) ?? (anyCase.size > 0 ? anyCase.get(path.toLowerCase()) : undefined)
    if (found !== undefined) return found
    for (let i = 0; i < others.length; i++) if (others[i]!.matches(path)) return others[i]!
    return null
  }
}

// Members of the extension

function readId(id: string | undefined, fault: Report): string {
  if (id === undefined) fault('/info/id', 'is required')
  else if (!/^[A-Za-z0-9._~-]+$/.test(id) || /^\.+$/.test(id) || id === '__proto__')
    fault('/info/id', 'must be of letters, digits, - . _ and ~')
  return id ?? ''
}

function readExpiration(text: string, fault: Report): number {
  if (text === '') return Number.POSITIVE_INFINITY
  const iso = `${text.replace(' ', 'T')}:00.000Z`
  const time = Date.parse(iso)
  // Some engines make March of the 30th of February.
  if (Number.isNaN(time) || new Date(time).toISOString() !== iso) fault('/info/expiration', 'is no date')
  return time
}

/** Paths that the gateway answers itself. */
const PROBES = ['/hello', '/ready']

function readListenPath(value: string, fault: Report): { listenPath: string; segments: (string | null)[] } {
  const report = (message: string) => fault('/server/listenPath/value', message)
  const path = value.endsWith('/') ? value.slice(0, -1) : value
  const segments = (path === '' ? [] : path.slice(1).split('/')).map(segment =>
    /^\{[^{}:]+\}$/.test(segment) ? null : segment
  )
  const plain = segments.map(segment => `/${segment ?? 'x'}`).join('') || '/'
  if (segments.some(segment => segment !== null && /[{}*]/.test(segment)))
    report('may hold {name} as a whole segment, and no other pattern')
  else if (plain !== normalPath(plain) || segments.includes(''))
    report('must have no dot segments, doubled slashes, parameters (;) or needless percent-escapes')
  if (segments[0] === 'svc') report('may not begin with /svc/: the gateway interface is there')
  if (PROBES.includes(path)) report(`may not be ${path}: a probe is there`)
  return { listenPath: path, segments }
}

const HOST_NAME = /^(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.?$/

function readDomain(custom: Extension['server']['customDomain'], fault: Report): string {
  if (custom === undefined) return ''
  const name = custom.name.toLowerCase()
  if (custom.enabled && !HOST_NAME.test(name)) fault('/server/customDomain/name', 'must be a host name without port')
  return custom.enabled ? name.replace(/\.$/, '') : ''
}

const PLACES = ['header', 'query', 'cookie'] as const
const token = new RegExp(TOKEN)

function isPlace(value: unknown): value is TokenLocation['in'] {
  return (PLACES as readonly unknown[]).includes(value)
}

function readAuthentication(
  given: Extension['server']['authentication'],
  document: Record<string, unknown>,
  fault: Report
): Authentication | null {
  if (given === undefined) return null
  const components = isObject(document.components) ? document.components.securitySchemes : undefined
  const described = new Map(Object.entries(isObject(components) ? components : {}))
  const locations: TokenLocation[] = []
  for (const [name, scheme] of Object.entries(given.securitySchemes)) {
    const where = `/server/authentication/securitySchemes/${pointer(name)}`
    const own = described.get(name)
    if (!isObject(own)) fault(where, 'is not in components.securitySchemes')
    else if (own.type !== 'apiKey') fault(where, 'must be of type apiKey in components.securitySchemes')
    else if (!isPlace(own.in) || typeof own.name !== 'string')
      fault(where, 'must have in and name in components.securitySchemes')
    else if (scheme.enabled) locations.push(...locationsOf(scheme, { in: own.in, name: own.name }, at(where, fault)))
  }
  if (!given.enabled) return null
  if (locations.length === 0)
    fault('/server/authentication/securitySchemes', 'must have an enabled scheme with a location')
  // The order of reading (semantics §6.3), whichever scheme names a place.
  const ordered = PLACES.flatMap(place => locations.filter(location => location.in === place))
  const unique = ordered.filter(
    ({ in: place, name }, i) => ordered.findIndex(other => other.in === place && other.name === name) === i
  )
  return { locations: unique, strip: given.stripAuthorizationData }
}

type TokenScheme = NonNullable<Extension['server']['authentication']>['securitySchemes'][string]

/** The place that OpenAPI names, unless the extension turns it off, and those that the extension adds. */
function locationsOf(scheme: TokenScheme, described: TokenLocation, fault: Report): TokenLocation[] {
  const header = scheme.header?.name || (described.in === 'header' ? described.name : 'Authorization')
  const locations: TokenLocation[] = []
  for (const place of PLACES) {
    const given = scheme[place]
    const own = described.in === place && given?.enabled !== false ? [described.name] : []
    const added = given?.enabled ? [given.name || (described.in === place ? described.name : header)] : []
    for (const name of [...own, ...added]) {
      if (place === 'query' ? name === '' : !token.test(name)) fault(`/${place}/name`, 'is no possible name there')
      locations.push({ in: place, name: place === 'header' ? name.toLowerCase() : name })
    }
  }
  return locations
}

function readAddresses(given: Extension['server']['ipAccessControl'], fault: Report): Addresses | null {
  if (given === undefined) return null
  for (const list of ['allow', 'block'] as const)
    for (const [i, cidr] of given[list].entries())
      tried(
        () => addresses([cidr]),
        message => fault(`/server/ipAccessControl/${list}/${i}`, message)
      )
  return given.enabled ? { allow: given.allow, block: given.block } : null
}

function readUpstream(given: Extension['upstream'], fault: Report): Upstream {
  const { url, loadBalancing, enforceTimeout } = given
  const balanced = loadBalancing?.enabled ?? false
  const single = url === undefined ? null : readTarget(url, 1, message => fault('/upstream/url', message))
  const several = (loadBalancing?.targets ?? []).map(({ url, weight }, i) => {
    const report = (message: string) => fault(`/upstream/loadBalancing/targets/${i}/url`, message)
    const target = readTarget(url, weight, report)
    if (target?.protocol === 'svc:') report('must be an http or https address')
    return target
  })
  if (balanced && !loadBalancing!.targets.some(({ weight }) => weight > 0))
    fault('/upstream/loadBalancing/targets', 'must hold a target with a weight')
  if (!balanced && url === undefined) fault('/upstream/url', 'is required without loadBalancing')
  return {
    targets: (balanced ? several : [single]).filter(target => target !== null && target.weight > 0) as Target[],
    balanced,
    skipUnavailable: loadBalancing?.skipUnavailableHosts ?? false,
    preserveHost: given.preserveHostHeader?.enabled ?? false,
    preserveTrailingSlash: given.preserveTrailingSlash?.enabled ?? false,
    timeoutMs: readTimeout(enforceTimeout, message => fault('/upstream/enforceTimeout', message))
  }
}

function readTarget(url: string, weight: number, fault: (message: string) => void): Target | null {
  if (url === 'svc://echo') return { url, protocol: 'svc:', host: 'echo', hostname: 'echo', port: 0, path: '', weight }
  // Without the two slashes the URL parser would guess.
  const parsed = /^https?:\/\//i.test(url) ? URL.parse(url) : null
  if (parsed === null) {
    fault('must be an http or https address')
    return null
  }
  if (parsed.username !== '' || parsed.password !== '') fault('may not hold a user or password')
  if (url.includes('?') || url.includes('#')) fault('may not have a query or fragment')
  const { host, hostname, port, pathname } = parsed
  const protocol = parsed.protocol as 'http:' | 'https:'
  const usual = protocol === 'https:' ? 443 : 80
  return {
    url,
    protocol,
    host,
    hostname,
    port: port === '' ? usual : Number(port),
    path: pathname.replace(/\/+$/, ''),
    weight
  }
}

function readRate(given: OperationExtension['rateLimit'], fault: (message: string) => void): Rate | null {
  if (!given?.enabled) return null
  const perMs = durationMs(given.per) ?? 0
  if (given.rate <= 0 || perMs <= 0) fault('must have a rate and a per above 0')
  return { rate: given.rate, perMs }
}

// As the gateway's own time-outs; a timer of Node ends at 2^31 ms.
const MAX_TIMEOUT = 2_000_000_000

function readTimeout(given: OperationExtension['enforceTimeout'], fault: (message: string) => void): number | null {
  if (!given?.enabled) return null
  const { value, duration } = given
  const ofValue = value === undefined ? null : value * 1000
  const ofDuration = duration === undefined ? null : durationMs(duration)
  if (ofValue !== null && ofDuration !== null && ofValue !== ofDuration)
    fault('says two things: give value or duration')
  const ms = ofDuration ?? ofValue ?? 0
  if (ms < 1 || ms > MAX_TIMEOUT) fault('must be 1 ms to 2000000 s')
  return ms
}

// The framing of a message and its connection are the gateway's own (RFC 9110 §7.6.1, RFC 9112 §6).
const OWN_HEADERS = new Set(
  'connection content-length expect keep-alive proxy-connection te trailer transfer-encoding upgrade'.split(' ')
)
const UNKNOWN_VARIABLE = /\$svc_(?!meta\.[\w-]|context\.(?:path\b|remote_addr\b|headers_\w))[\w.-]*/

function readEdits(
  given: HeaderEditsExtension | undefined,
  of: 'request' | 'response',
  fault: Report
): HeaderEdits | null {
  if (given === undefined) return null
  const check = (name: string, where: string) => {
    const lower = name.toLowerCase()
    if (OWN_HEADERS.has(lower)) fault(where, 'belongs to the connection and cannot be changed')
    if (of === 'request' && lower === 'host') fault(where, 'cannot be changed; see upstream.preserveHostHeader')
  }
  for (const [i, name] of given.remove.entries()) check(name, `/remove/${i}`)
  for (const [i, { name, value }] of given.add.entries()) {
    check(name, `/add/${i}/name`)
    const unknown = UNKNOWN_VARIABLE.exec(value)
    if (unknown !== null) fault(`/add/${i}/value`, `has a variable that does not exist: ${unknown[0]}`)
  }
  if (!given.enabled || given.remove.length + given.add.length === 0) return null
  return { remove: given.remove.map(name => name.toLowerCase()), add: given.add }
}

function readCors(given: Extension['middleware']['global']['cors'], fault: Report): Cors | null {
  if (given === undefined) return null
  for (const list of ['allowedMethods', 'allowedHeaders'] as const)
    for (const [i, name] of given[list].entries())
      if (!token.test(name)) fault(`/middleware/global/cors/${list}/${i}`, 'is no name')
  for (const [i, origin] of given.allowedOrigins.entries())
    if (!/^[\x21-\x7e]+$/.test(origin) || origin.split('*').length > 2)
      fault(`/middleware/global/cors/allowedOrigins/${i}`, 'is no origin')
  const { enabled, ...cors } = given
  return enabled ? cors : null
}

/** What `read` gives; null when it throws, which is reported. */
function tried<T>(read: () => T, fault: (message: string) => void): T | null {
  try {
    return read()
  } catch (cause) {
    if (cause instanceof Invalid) for (const { message } of cause.faults) fault(message)
    else if (cause instanceof RangeError) fault(cause.message)
    else throw cause
    return null
  }
}
