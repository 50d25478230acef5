import { parseExact } from '../../config/exactJson.ts'
import { isObject } from '../../config/report.ts'
import { pointer as escaped } from '../../config/validate.ts'
import { EXTENSION } from '../../gateway/api.ts'
import { uncheckable } from '../../gateway/documents/openapi/uncheckable.ts'
import { Refused } from '../endpoint.ts'
import { switchAuthentication } from './authentication.ts'
import { examine } from './examine.ts'
import { type Members, member } from './members.ts'
import { answering, hasExamples } from './mock.ts'
import type { Described } from './operations.ts'
import { type Options, options } from './options.ts'
import { origin } from './refusals.ts'
import { type Entry, type Report, refuse, report } from './report.ts'
import type { Source, Template } from './source.ts'
import { serverUrl } from './upstream.ts'

/** An API made of a description: not checked as an API yet, and without what saving adds (ids, organisation). */
export interface Configured {
  readonly document: Members
  readonly report: Entry[]
}

type Query = Readonly<Record<string, string | undefined>>

interface New {
  /** As `readSource` was given it. */
  readonly template: Template
  /** '': saving makes one. */
  readonly dbId: string
}

/**
 * A new API: the description with an extension, beginning from the one of the template.
 * @throws Refused 400 for what it cannot be made without
 */
export function configure(source: Source, query: Query, { template, dbId }: New): Configured {
  const told = report()
  const asked = options(query, told)
  const extension = copy(template?.[EXTENSION])
  const info = member(extension, 'info')
  for (const name of ['id', 'dbId', 'orgId']) delete info[name]
  if (asked.apiID !== null) info.id = asked.apiID
  if (dbId !== '') info.dbId = dbId
  info.name = titleOf(source)
  const state = member(info, 'state')
  const isStateGiven = state.active !== undefined && state.internal !== undefined
  info.state = { active: true, internal: false, ...state }
  const listenPath = member(member(extension, 'server'), 'listenPath')
  const isStripGiven = listenPath.strip !== undefined
  listenPath.strip ??= true
  const made = (pointer: string, message: string) =>
    told.made(`/${EXTENSION}${pointer}`, pointer.slice(pointer.lastIndexOf('/') + 1), 'defaulted', message)
  if (asked.apiID === null) made('/info/id', 'is made by the gateway')
  made('/info/name', 'is the title')
  if (!isStateGiven) made('/info/state', 'active, not internal')
  if (!isStripGiven) made('/server/listenPath/strip', 'true')
  for (const name of ['contextVariables', 'trafficLogs'])
    told.made(`/${EXTENSION}/middleware/global/${name}`, name, 'ignored', 'is not there yet, so it is not switched on')
  return finished(source, source.document, extension, asked, told)
}

/**
 * A stored API with another description: its extension stays, but for what the options ask and for operations that are
 * gone. Its servers stay where the description has none.
 * @throws Refused 400 for what it cannot be made without
 */
export function merge(stored: Readonly<Members>, source: Source, query: Query): Configured {
  const told = report()
  const asked = options(query, told)
  const kept = Object.entries(stored).filter(
    ([name]) => name.startsWith('x-svc-') || (name === 'servers' && source.document.servers === undefined)
  )
  const extension = copy(stored[EXTENSION])
  if (asked.apiID !== null) member(extension, 'info').id = asked.apiID
  return finished(source, { ...source.document, ...Object.fromEntries(kept) }, extension, asked, told)
}

function finished(source: Source, document: Members, extension: Members, asked: Options, told: Report): Configured {
  const listenPath = member(member(extension, 'server'), 'listenPath')
  if (asked.listenPath !== null) listenPath.value = asked.listenPath
  else if (!listenPath.value) {
    listenPath.value = '/'
    told.made(`/${EXTENSION}/server/listenPath/value`, 'listenPath', 'defaulted', '/')
  }
  if (asked.customDomain !== null)
    member(extension, 'server').customDomain = { enabled: true, name: asked.customDomain }
  const servers = setUpstream(source, extension, asked, told)
  const unsupported = switchAuthentication(source, extension, { on: asked.authentication, mode: asked.mode }, told)
  for (const { isNamedHere, place } of source.operations)
    if (isNamedHere) told.at(place, 'operationId', 'defaulted', 'was missing; it is made of path and method')
  setOperations(extension, source, asked, told)
  const acting = { ...actingIn(extension, unsupported), servers }
  examine(source, acting, told)
  return { document: { ...document, [EXTENSION]: extension }, report: told.list() }
}

/** Whether it was taken from `servers`. */
function setUpstream(source: Source, extension: Members, { upstreamURL }: Options, told: Report): boolean {
  const upstream = member(extension, 'upstream')
  const balancing = isObject(upstream.loadBalancing) && upstream.loadBalancing.enabled === true
  if (upstreamURL !== null) {
    if (!/^(?:https?|svc):\/\/[^/]/i.test(upstreamURL) || URL.parse(upstreamURL) === null)
      throw new Refused(400, 'upstreamURL must be an absolute http or https address')
    if (balancing) told.made('', 'upstreamURL', 'ignored', 'targets are balanced: upstream.loadBalancing')
    upstream.url = upstreamURL
    return false
  }
  if (balancing || upstream.url) return false
  upstream.url = serverUrl(source)
  told.made(`/${EXTENSION}/upstream/url`, 'url', 'defaulted', 'is the first server')
  return true
}

function setOperations(extension: Members, source: Source, asked: Options, told: Report): void {
  const described = source.operations
  const middleware = member(extension, 'middleware')
  const before = new Map(Object.entries(member(middleware, 'operations')))
  const ids = new Set(described.map(({ id }) => id))
  for (const id of before.keys())
    if (!ids.has(id)) {
      const message = 'is dropped: no operation has this operationId'
      told.made(`/${EXTENSION}/middleware/operations/${escaped(id)}`, id, 'ignored', message)
      before.delete(id)
    }
  const unchecked = asked.validateRequest === true ? uncheckedOf(source, told) : NONE
  for (const operation of described) {
    const own = before.get(operation.id)
    const settings: Members = isObject(own) ? own : {}
    setOperation(settings, operation, unchecked.has(operation) ? { ...asked, validateRequest: false } : asked)
    if (Object.keys(settings).length > 0) before.set(operation.id, settings)
  }
  if (before.size > 0) middleware.operations = Object.fromEntries(before)
  else delete middleware.operations
  if (Object.keys(middleware).length === 0) delete extension.middleware
}

const NONE: ReadonlySet<Described> = new Set()
/** Characters: an expression may be part of it. */
const LONGEST_REASON = 1000

/** The operations whose requests cannot be checked, which is told at each of them and where the reason stands. */
function uncheckedOf(source: Source, told: Report): ReadonlySet<Described> {
  const found = uncheckable(
    source.document,
    source.operations.filter(({ hasRequest }) => hasRequest)
  )
  const reasons = new Map<string, string>()
  for (const [{ place }, why] of found) {
    const { path, message } = why[0]!
    const reason = `requests to this operation are not checked: ${path} ${message}`
    told.at(place, 'validateRequest', 'ignored', reason.slice(0, LONGEST_REASON))
    for (const { path, message } of why) reasons.set(path, message)
  }
  for (const [path, message] of reasons) {
    const keyword = path.slice(path.lastIndexOf('/') + 1)
    const reason = `requests that this describes are not checked: it ${message}`
    told.at(origin(path, source), keyword, 'ignored', reason.slice(0, LONGEST_REASON))
  }
  return new Set(found.keys())
}

/** An option that is false turns off what is there and adds nothing. */
function setOperation(settings: Members, { hasRequest, examples }: Described, asked: Options): void {
  const has = (name: string) => isObject(settings[name])
  if (asked.allowList !== null && (asked.allowList || has('allow'))) member(settings, 'allow').enabled = asked.allowList
  if (asked.allowList === true && has('block')) member(settings, 'block').enabled = false
  const checks = asked.validateRequest
  if (checks === true && hasRequest)
    settings.validateRequest = { ...member(settings, 'validateRequest'), enabled: true, errorResponseCode: 422 }
  else if (checks === false && has('validateRequest')) member(settings, 'validateRequest').enabled = false
  if (asked.mockResponse === true && hasExamples(examples)) {
    const mock = member(settings, 'mockResponse')
    mock.enabled = true
    mock.fromOASExamples = { ...answering(examples, member(mock, 'fromOASExamples')), enabled: true }
  } else if (asked.mockResponse === false && has('mockResponse')) member(settings, 'mockResponse').enabled = false
}

function actingIn(extension: Members, unsupported: ReadonlySet<string>) {
  const { authentication } = member(extension, 'server')
  const schemes = isObject(authentication) && isObject(authentication.securitySchemes) ? authentication : null
  const on = Object.entries(member(schemes ?? {}, 'securitySchemes')).filter(
    ([, scheme]) => isObject(scheme) && scheme.enabled === true
  )
  const operations = isObject(extension.middleware) ? Object.values(member(extension.middleware, 'operations')) : []
  const some = (name: string) =>
    operations.some(settings => {
      const block = isObject(settings) ? settings[name] : null
      return isObject(block) && block.enabled === true
    })
  return {
    authentication: isObject(authentication) && authentication.enabled === true,
    schemes: new Set([...on.map(([name]) => name), ...unsupported]),
    requests: some('validateRequest'),
    responses: some('mockResponse')
  }
}

function titleOf({ document, root }: Source): string {
  const title = isObject(document.info) ? document.info.title : undefined
  if (typeof title === 'string' && /\S/.test(title)) return title
  throw refuse({ file: root, pointer: '/info/title' }, 'title', 'must be a text that is not blank')
}

function copy(extension: unknown): Members {
  return isObject(extension) ? (parseExact(JSON.stringify(extension)) as Members) : {}
}
