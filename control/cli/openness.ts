import { isObject } from '../../config/report.ts'
import { type Api, EXTENSION } from '../../gateway/api.ts'
import { firstAlternative, securityOf } from '../../gateway/documents/securityGroups.ts'
import { METHODS } from '../import/grammar.ts'
import type { Json } from './documents.ts'

/** One operation of `paths`. */
interface Described {
  /** `GET /items` */
  readonly name: string
  /** Its own `security`; undefined: it has none. */
  readonly security: unknown
}

/**
 * Which operations of an API are reached without a credential, and where its description asks for others than the gateway does.
 * Lines of text; where all is open, one.
 */
export function openness(api: Api): string[] {
  const { authentication, operations, allowList, clientCertificates, cors, document } = api
  const all =
    clientCertificates === null ? 'open to everyone' : 'open to everyone with a client certificate of the allow-list'
  if (authentication === null) return [`${all}: authentication is off`]
  const described = operationsOf(document)
  const warnings = otherCredentials(document, described)
  if (authentication.groups.some(group => group.length === 0)) {
    const isDescribed = securityOf(document)?.some(group => group.length === 0)
    const place = isDescribed ? ['security', '{}'] : ['authentication.security of the extension', '[]']
    return [`${all}: ${place[0]} has an alternative without credentials (${place[1]})`, ...warnings]
  }
  const reached = operations.filter(({ block, allow }) => !block && (allow || !allowList))
  const open = new Set(reached.filter(each => each.ignoreAuthentication).map(nameOf))
  const lines = described.flatMap(({ name, security }) => {
    if (open.has(name)) return [`${all}: ${name}: ignoreAuthentication`]
    return isOpened(security) ? [`not open: ${name}: ${NOT_OPEN}`] : []
  })
  // Before everything else, client certificates included.
  if (cors?.optionsPassthrough) lines.unshift('open to everyone: OPTIONS of every path: cors.optionsPassthrough')
  return [...lines, ...warnings]
}

const NOT_OPEN = 'its own security asks for no credential, but only that of the whole description is read'

const nameOf = ({ method, path }: { method: string; path: string }) => `${method} ${path}`

function operationsOf({ paths }: Json): Described[] {
  return Object.entries(isObject(paths) ? paths : {}).flatMap(([path, item]) =>
    METHODS.flatMap(method => {
      const operation = isObject(item) ? item[method] : null
      if (!isObject(operation)) return []
      return [{ name: nameOf({ method: method.toUpperCase(), path }), security: operation.security }]
    })
  )
}

/** `security: []`, or an alternative of it without credentials. */
function isOpened(security: unknown): boolean {
  return Array.isArray(security) && (security.length === 0 || security.some(each => isObject(each) && isEmpty(each)))
}

const isEmpty = (value: object) => Object.keys(value).length === 0

/** The gateway reads the `security` of the whole description, and as much of it as its mode says. */
function otherCredentials(document: Json, described: readonly Described[]): string[] {
  const lines: string[] = []
  const whole = securityOf(document)
  for (const { name, security } of described) {
    const own = securityOf({ security })
    if (own === null || isSame(own, whole ?? [])) continue
    const names = told(own.filter(group => group.length > 0))
    if (names !== '')
      lines.push(
        `warning: ${name}: its own security (${names}) does not count: only that of the whole description is read`
      )
  }
  const { securityProcessingMode: mode, securitySchemes: schemes } = document[EXTENSION].server.authentication
  const isEnabled = (name: string) => Object.hasOwn(schemes ?? {}, name) && schemes[name].enabled === true
  const first = mode === 'compliant' ? null : firstAlternative(whole, isEnabled)
  for (const group of whole ?? []) {
    if (group.length === 0 && mode !== 'compliant')
      lines.push('not open: the alternative without credentials ({}) does not count: securityProcessingMode is legacy')
    const missing = group.filter(name => !isEnabled(name))
    if (first === null) {
      if (mode === 'compliant' && missing.length > 0)
        lines.push(`warning: the alternative ${told([group])} does not count: ${missing.join(', ')} is not enabled`)
    } else if (group !== first) {
      if (group.length > 0 && !isSame([group], [first]))
        lines.push(
          `warning: the alternative ${told([group])} does not count: securityProcessingMode is legacy, which takes ${told([first])} alone`
        )
    } else if (missing.length > 0)
      lines.push(
        `warning: security asks for ${told([group])}, but ${missing.join(', ')} is not enabled: the others are enough`
      )
  }
  if (mode !== 'compliant' && whole !== null && first === null)
    lines.push('warning: security names no enabled scheme; the enabled ones are asked for instead')
  return lines
}

function isSame(one: readonly (readonly string[])[], other: readonly (readonly string[])[]): boolean {
  const key = (groups: readonly (readonly string[])[]) => JSON.stringify(groups.map(group => group.toSorted()))
  return key(one) === key(other)
}

/** `a and b or c` */
function told(groups: readonly (readonly string[])[]): string {
  return groups.map(group => group.join(' and ')).join(' or ')
}
