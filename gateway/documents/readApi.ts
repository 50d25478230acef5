import { isRaw, parseExact, tooLarge } from '../../config/exactJson.ts'
import { at, isObject } from '../../config/report.ts'
import { Extension } from '../../config/shape/api.ts'
import { compile, type Fault, Invalid, pointer } from '../../config/validate.ts'
import { readStreaming, STREAMING } from '../../streams/document/readStreaming.ts'
import { type Api, EXTENSION } from '../api.ts'
import { isFile } from '../certificates/certificates.ts'
import { certificatesOf } from '../certificates/named.ts'
import type { Matching } from '../paths.ts'
import { readAuthentication } from './readAuthentication.ts'
import { readEndpoints } from './readEndpoints.ts'
import {
  readAddresses,
  readCors,
  readDomain,
  readEdits,
  readExpiration,
  readId,
  readListenPath,
  readRate,
  readUpstream
} from './readMembers.ts'
import { finder, readOperations } from './readOperations.ts'

export interface Reading {
  /** `store`, or the file that it was read from. */
  readonly source: string
  /** `gateway.endpoint_matching` */
  readonly matching: Matching['matching']
}

const readExtension = compile(Extension)

export const STORE = 'store'

/**
 * Reads an API document: checks its OpenAPI part as far as the gateway relies on it, and its extension wholly.
 * @throws Invalid with all faults, as JSON pointers into the document
 */
export function readApi(document: unknown, { source, matching }: Reading): Api {
  if (!isObject(document)) throw new Invalid([{ path: '', message: 'must be an object' }])
  const faults: Fault[] = []
  const inDocument = (path: string, message: string) => void faults.push({ path, message })
  const endpoints = readEndpoints(document, inDocument)
  const streams = Object.hasOwn(document, STREAMING)
    ? readStreaming(document[STREAMING], at(`/${STREAMING}`, inDocument))
    : null
  const extension = extensionOf(document, faults)
  if (extension === null) throw new Invalid(faults)

  const fault = at(`/${EXTENSION}`, inDocument)
  const { info, server, upstream, middleware } = extension
  const { global } = middleware
  const { listenPath, segments } = readListenPath(server.listenPath.value, fault)
  const ruled = readOperations(endpoints, extension, document, matching, fault, inDocument)
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
    certificates: server.customDomain?.enabled ? server.customDomain.certificates : [],
    clientCertificates: server.clientCertificates?.enabled ? server.clientCertificates.allowlist : null,
    authentication: readAuthentication(server.authentication, document, fault),
    addresses: readAddresses(server.ipAccessControl, fault),
    upstream: readUpstream(streams !== null ? withAnyTarget(upstream) : upstream, fault),
    rate: readRate(upstream.rateLimit, message => fault('/upstream/rateLimit', message)),
    cors: readCors(global.cors, fault),
    sizeLimit: global.requestSizeLimit?.enabled ? global.requestSizeLimit.value : null,
    skipRateLimit: global.skipRateLimit,
    skipQuota: global.skipQuota,
    skipQuotaReset: global.skipQuotaReset,
    rateLimitMode: global.rateLimitMode ?? null,
    countersFailure: global.countersFailure ?? null,
    requestHeaders: edits('request', 'transformRequestHeaders'),
    responseHeaders: edits('response', 'transformResponseHeaders'),
    ignoreCase: global.ignoreCase?.enabled ?? false,
    allowList: operations.some(({ allow }) => allow),
    operations,
    operation: finder(ruled, matching),
    streams,
    document,
    source
  }
  // Whoever may write APIs over the network must not choose files of this machine.
  if (source === STORE && certificatesOf(api).some(isFile))
    fault('', 'names a PEM file: those may stand in the settings and in documents of app_path alone')
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

/** Streaming APIs may have no upstream (semantics §1.16): nothing of theirs reaches it. */
function withAnyTarget(upstream: Extension['upstream']): Extension['upstream'] {
  return upstream.url || upstream.loadBalancing?.enabled ? upstream : { ...upstream, url: 'svc://echo' }
}

function extensionOf(document: Record<string, unknown>, faults: Fault[]): Extension | null {
  if (document[EXTENSION] === undefined) {
    faults.push({ path: `/${EXTENSION}`, message: 'is required' })
    return null
  }
  const extension = parseExact(JSON.stringify(document[EXTENSION]))
  const before = faults.length
  findRaw(extension, `/${EXTENSION}`, path => faults.push({ path, message: tooLarge }))
  if (faults.length > before) return null
  try {
    return readExtension(extension)
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    faults.push(...cause.faults.map(({ path, message }) => ({ path: `/${EXTENSION}${path}`, message })))
    return null
  }
}

/** Where integers lie that only raw JSON carries. */
function findRaw(value: unknown, path: string, found: (path: string) => void): void {
  if (typeof value !== 'object' || value === null) return
  if (isRaw(value)) return found(path)
  for (const [name, inner] of Object.entries(value))
    if (typeof inner === 'object') findRaw(inner, `${path}/${pointer(name)}`, found)
}
