import { isDeepStrictEqual } from 'node:util'
import { isObject } from '../../config/report.ts'
import { pointer } from '../../config/validate.ts'
import { EXTENSION } from '../../gateway/api.ts'
import { describedScheme, schemeKind } from '../../gateway/documents/readScheme.ts'
import { firstAlternative, OWN_METHODS, securityOf } from '../../gateway/documents/securityGroups.ts'
import { masked } from '../mask.ts'
import type { DocumentKind, Json } from './documents.ts'

/** Differences told by what they mean: routes, rights, limits; the rest by place. Lines of text. */

const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace']
const MOST_LINES = 100

/** @param before null: it is new */
export function meaning(kind: DocumentKind, before: Json | null, after: Json): string[] {
  const lines = kind === 'api' ? apiLines(before, after) : kind === 'asset' ? [] : limitLines(before ?? {}, after)
  const told = kind === 'api' ? apiTold(before, after) : limitTold
  if (before !== null)
    lines.push(
      ...places(before, after)
        .filter(line => !told(line.path))
        .map(({ text }) => text)
    )
  if (lines.length <= MOST_LINES) return lines
  return [...lines.slice(0, MOST_LINES), `… and ${lines.length - MOST_LINES} more`]
}

function apiLines(before: Json | null, after: Json): string[] {
  const lines: string[] = []
  const parts: readonly (readonly [string, (document: Json) => string])[] = [
    ['listens at', listens],
    ['goes to', goesTo],
    ['credential', credential],
    ['state', state],
    ['rate limit', rateLimit]
  ]
  for (const [name, of] of parts) {
    const [was, is] = [before === null ? null : of(before), of(after)]
    if (was === null) {
      if (is !== 'none') lines.push(`${name}: ${is}`)
    } else if (was !== is) lines.push(`${name}: ${was} → ${is}`)
  }
  const [old, now] = [routes(before), routes(after)]
  for (const route of now.keys()) if (!old.has(route)) lines.push(`route + ${route}`)
  for (const route of old.keys()) if (!now.has(route)) lines.push(`route - ${route}`)
  for (const [route, rules] of now) {
    const was = old.get(route)
    if (was !== undefined && !isDeepStrictEqual(was, rules))
      lines.push(`route ~ ${route}${ruleChanges(was.rule, rules.rule)}`)
  }
  return lines
}

const extensionOf = (document: Json): Json => document?.[EXTENSION] ?? {}

function listens(document: Json): string {
  const { server = {} } = extensionOf(document)
  const domain = server.customDomain?.enabled ? server.customDomain.name : ''
  return `${domain}${server.listenPath?.value ?? '/'}${server.listenPath?.strip ? '' : ' (not stripped)'}`
}

function goesTo(document: Json): string {
  const { upstream = {} } = extensionOf(document)
  if (!upstream.loadBalancing?.enabled) return upstream.url || 'none'
  return upstream.loadBalancing.targets.map(({ url, weight }: Json) => `${url} × ${weight}`).join(', ')
}

/** `a client certificate of the allow-list and jwt (JWT)`, `users (basic) and keys or robots (certificate)` */
function credential(document: Json): string {
  const server = extensionOf(document).server
  const { authentication, clientCertificates } = server ?? {}
  const before = clientCertificates?.enabled ? ['a client certificate of the allow-list'] : []
  if (!authentication?.enabled) return before[0] ?? 'none: open to everyone'
  return [...before, methods(document, authentication)].filter(words => words !== '').join(' and ') || 'none'
}

/** As the gateway reads them (`readAuthentication`), of documents that it may not have read. */
function methods(document: Json, authentication: Json): string {
  const schemes: Json = isObject(authentication.securitySchemes) ? authentication.securitySchemes : {}
  const isEnabled = (name: string) => Object.hasOwn(schemes, name) && schemes[name]?.enabled === true
  const named = Object.keys(schemes).filter(isEnabled)
  const own = OWN_METHODS.filter(name => authentication[name]?.enabled === true)
  const security = securityOf(document)
  const together = (names: readonly string[]) =>
    names.map(name => (isEnabled(name) ? withKind(document, name) : name)).join(' and ') || 'nothing ({})'
  if (authentication.securityProcessingMode !== 'compliant') {
    const first = firstAlternative(security, isEnabled)?.filter(isEnabled)
    if (first !== undefined) return together([...first, ...own])
    const tokens = named.filter(name => kindOf(document, name) === 'token')
    const others = [...named.filter(name => !tokens.includes(name)), ...own].map(name => together([name]))
    return [...others, tokens.join(' or ')].filter(words => words !== '').join(' and ')
  }
  const more: string[][] = Array.isArray(authentication.security) ? authentication.security.filter(Array.isArray) : []
  const known = new Set<string>([...named, ...own])
  const groups = [...(security ?? []), ...more].filter(group => group.every(name => known.has(name)))
  const bare = security === null && more.length === 0 ? named : []
  const alone = own.filter(name => !more.flat().includes(name))
  const all = [...groups, ...[...bare, ...alone].map(name => [name])]
  const ordered = [...all.filter(group => group.length > 0), ...all.filter(group => group.length === 0)]
  return [...new Set(ordered.map(together))].join(' or ')
}

/** `name (kind)`; the kind of access tokens goes without saying. */
function withKind(document: Json, name: string): string {
  const kind = kindOf(document, name)
  return kind === null || kind === 'token' ? name : `${name} (${KINDS[kind]})`
}

function kindOf(document: Json, name: string): ReturnType<typeof schemeKind> {
  const described = describedScheme(document, name)
  return described === null ? null : schemeKind(described)
}

const KINDS = { basic: 'basic', jwt: 'JWT', external: 'external OAuth', certificate: 'certificate' } as const

function state(document: Json): string {
  const { active, internal } = extensionOf(document).info?.state ?? {}
  return `${active ? 'active' : 'not active'}${internal ? ', internal' : ''}`
}

function rateLimit(document: Json): string {
  const limit = extensionOf(document).upstream?.rateLimit
  return limit?.enabled ? `${limit.rate} per ${limit.per}` : 'none'
}

/** `GET /items` → what the document says about it. */
function routes(document: Json | null): Map<string, Json> {
  const found = new Map<string, Json>()
  if (document === null || !isObject(document.paths)) return found
  const rules = extensionOf(document).middleware?.operations ?? {}
  for (const [path, item] of Object.entries(document.paths))
    for (const method of METHODS) {
      const operation = isObject(item) ? (item[method] as Json) : undefined
      if (operation === undefined) continue
      const id = operation?.operationId
      const rule = typeof id === 'string' && isObject(rules) && Object.hasOwn(rules, id) ? rules[id] : null
      const shared = Object.entries(item as Json).filter(([name]) => !METHODS.includes(name))
      found.set(`${method.toUpperCase()} ${path}`, { operation, rule, shared: Object.fromEntries(shared) })
    }
  return found
}

/** `: allow on → off, rateLimit changes` */
function ruleChanges(before: Json, after: Json): string {
  const told: string[] = []
  for (const name of new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])) {
    const [was, is] = [before?.[name], after?.[name]]
    if (isDeepStrictEqual(was, is)) continue
    const [on, now] = [was?.enabled === true, is?.enabled === true]
    told.push(on === now ? `${name} changes` : `${name} ${on ? 'on → off' : 'off → on'}`)
  }
  return told.length === 0 ? '' : `: ${told.join(', ')}`
}

const apiTold = (before: Json | null, after: Json) => (path: string) =>
  before === null ||
  path.startsWith('/paths/~1') ||
  path.startsWith(`/${EXTENSION}/middleware/operations`) ||
  path.startsWith(`/${EXTENSION}/server/listenPath`) ||
  path.startsWith(`/${EXTENSION}/server/customDomain/`) ||
  path.startsWith(`/${EXTENSION}/upstream/rateLimit`) ||
  path === `/${EXTENSION}/upstream/url` ||
  path.startsWith(`/${EXTENSION}/info/state`) ||
  (isOfCredential(path) && credential(before) !== credential(after))

/** What of the authentication `credential` puts into words, when it is there or on. */
function isOfCredential(path: string): boolean {
  const prefix = `/${EXTENSION}/server/authentication`
  return (
    path.startsWith(prefix) &&
    /^(?:|\/(?:enabled|securityProcessingMode|security(?:\/.*)?|securitySchemes(?:\/[^/]+(?:\/enabled)?)?|[^/]+\/enabled))$/.test(
      path.slice(prefix.length)
    )
  )
}

function limitLines(before: Json, after: Json): string[] {
  const lines = limitsOf(before, after, '')
  const [old, now] = [before.access_rights ?? {}, after.access_rights ?? {}]
  for (const id of Object.keys(now)) {
    if (!Object.hasOwn(old, id)) {
      lines.push(`may call + ${id}`, ...limitsOf({}, now[id]?.limit ?? {}, ` on ${id}`))
      const count = now[id]?.endpoints?.length ?? 0
      if (count > 0) lines.push(`limits of ${count} endpoints on ${id}`)
      if (now[id]?.allowed_urls?.length > 0) lines.push(`only ${now[id].allowed_urls.length} URLs on ${id}`)
    } else {
      lines.push(...limitsOf(old[id]?.limit ?? {}, now[id]?.limit ?? {}, ` on ${id}`))
      if (!isDeepStrictEqual(old[id]?.allowed_urls ?? [], now[id]?.allowed_urls ?? []))
        lines.push(`allowed URLs on ${id} change`)
    }
  }
  for (const id of Object.keys(old)) if (!Object.hasOwn(now, id)) lines.push(`may call - ${id}`)
  return lines
}

function limitsOf(before: Json, after: Json, where: string): string[] {
  const rate = ({ rate = 0, per = 0 }: Json) => (rate > 0 ? `${rate} per ${per} s` : 'none')
  const quota = ({ quota_max = 0, quota_renewal_rate = 0 }: Json) =>
    quota_max > 0 ? `${quota_max} per ${quota_renewal_rate} s` : 'none'
  const throttle = ({ throttle_interval = 0, throttle_retry_limit = 0 }: Json) =>
    throttle_interval > 0 ? `${throttle_retry_limit} times, every ${throttle_interval} s` : 'none'
  return [
    ['rate', rate],
    ['quota', quota],
    ['throttle', throttle]
  ].flatMap(([name, of]) => {
    const [was, is] = [(of as typeof rate)(before), (of as typeof rate)(after)]
    return was === is ? [] : [`${name}${where}: ${was} → ${is}`]
  })
}

const limitTold = (path: string) =>
  /^\/(access_rights\/[^/]+\/limit\/)?(rate|per|quota_max|quota_renewal_rate|throttle_interval|throttle_retry_limit)$/.test(
    path
  ) || /^\/access_rights(\/[^/]+(\/limit|\/allowed_urls.*)?)?$/.test(path)

/** Where two documents differ, by JSON pointer; secrets are compared and not told. */
function places(before: Json, after: Json): { path: string; text: string }[] {
  return differences(before, after, masked(before), masked(after), '')
}

/** @param old what of `before` may be told, @param now of `after` */
function differences(before: Json, after: Json, old: Json, now: Json, path: string): { path: string; text: string }[] {
  if (isDeepStrictEqual(before, after)) return []
  if (isObject(before) && isObject(after) && isObject(old) && isObject(now)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)])
    return [...names].flatMap(name => {
      const at = `${path}/${pointer(name)}`
      if (!Object.hasOwn(before, name)) return [{ path: at, text: `${at} + ${short(now[name])}` }]
      if (!Object.hasOwn(after, name)) return [{ path: at, text: `${at} - ${short(old[name])}` }]
      return differences(before[name], after[name], old[name], now[name], at)
    })
  }
  return [{ path, text: `${path}: ${short(old)} → ${short(now)}` }]
}

function short(value: Json): string {
  const text = JSON.stringify(value) ?? ''
  return text.length <= 60 ? text : `${text.slice(0, 57)}…`
}
