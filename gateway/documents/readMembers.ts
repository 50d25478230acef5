import { isDomain, isPin } from '../../config/domain.ts'
import { durationMs } from '../../config/duration.ts'
import { type Report, tried } from '../../config/report.ts'
import { type Extension, type HeaderEditsExtension, type OperationExtension, TOKEN } from '../../config/shape/api.ts'
import { addresses } from '../addresses.ts'
import type {
  Addresses,
  Cors,
  ForDomain,
  HeaderEdits,
  Rate,
  Target,
  TlsVersion,
  Upstream,
  UpstreamTls
} from '../api.ts'
import { normalPath } from '../paths.ts'
import { cipher } from './ciphers.ts'

/** The members of the extension, one function each: from what was given to what requests use. */

export function readId(id: string | undefined, fault: Report): string {
  if (id === undefined) fault('/info/id', 'is required')
  else if (!/^[A-Za-z0-9._~-]+$/.test(id) || /^\.+$/.test(id) || id === '__proto__')
    fault('/info/id', 'must be of letters, digits, - . _ and ~')
  return id ?? ''
}

export function readExpiration(text: string, fault: Report): number {
  if (text === '') return Number.POSITIVE_INFINITY
  const iso = `${text.replace(' ', 'T')}:00.000Z`
  const time = Date.parse(iso)
  // Some engines make March of the 30th of February.
  if (Number.isNaN(time) || new Date(time).toISOString() !== iso) fault('/info/expiration', 'is no date')
  return time
}

/** Paths that the gateway answers itself. */
const PROBES = ['/hello', '/ready']

export function readListenPath(value: string, fault: Report): { listenPath: string; segments: (string | null)[] } {
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

export function readDomain(custom: Extension['server']['customDomain'], fault: Report): string {
  if (custom === undefined) return ''
  const name = custom.name.toLowerCase()
  if (custom.enabled && !HOST_NAME.test(name)) fault('/server/customDomain/name', 'must be a host name without port')
  return custom.enabled ? name.replace(/\.$/, '') : ''
}

const token = new RegExp(TOKEN)

export function readAddresses(given: Extension['server']['ipAccessControl'], fault: Report): Addresses | null {
  if (given === undefined) return null
  for (const list of ['allow', 'block'] as const)
    for (const [i, cidr] of given[list].entries())
      tried(
        () => addresses([cidr]),
        message => fault(`/server/ipAccessControl/${list}/${i}`, message)
      )
  return given.enabled ? { allow: given.allow, block: given.block } : null
}

export function readUpstream(given: Extension['upstream'], fault: Report): Upstream {
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
    timeoutMs: readTimeout(enforceTimeout, message => fault('/upstream/enforceTimeout', message)),
    tls: readUpstreamTls(given, fault)
  }
}

const VERSIONS: Record<string, TlsVersion> = { '1.0': 'TLSv1', '1.1': 'TLSv1.1', '1.2': 'TLSv1.2', '1.3': 'TLSv1.3' }

function readUpstreamTls(given: Extension['upstream'], fault: Report): UpstreamTls {
  const { mutualTLS, certificatePinning, tlsTransport, http2 } = given
  const certificates = (mutualTLS?.domainToCertificateMapping ?? []).map(({ domain, certificate }, i) =>
    forDomain(domain, certificate, message =>
      fault(`/upstream/mutualTLS/domainToCertificateMapping/${i}/domain`, message)
    )
  )
  const pins = (certificatePinning?.domainToPublicKeysMapping ?? []).map(({ domain, publicKeys }, i) => {
    const path = `/upstream/certificatePinning/domainToPublicKeysMapping/${i}`
    for (const [n, key] of publicKeys.entries())
      if (!isPin(key)) fault(`${path}/publicKeys/${n}`, 'must be an id or sha256/ and 44 characters of base64')
    return forDomain(domain, publicKeys, message => fault(`${path}/domain`, message))
  })
  const { minVersion, maxVersion } = tlsTransport ?? {}
  if (minVersion !== undefined && maxVersion !== undefined && minVersion > maxVersion)
    fault('/upstream/tlsTransport/minVersion', 'must not be above maxVersion')
  const ciphers = readCiphers(tlsTransport, fault)
  return {
    http2: http2 === undefined ? null : http2.enabled,
    certificates: mutualTLS?.enabled ? certificates : [],
    pins: certificatePinning?.enabled ? pins : [],
    insecure: tlsTransport?.insecureSkipVerify ?? false,
    ciphers,
    minVersion: minVersion === undefined ? null : VERSIONS[minVersion]!,
    maxVersion: maxVersion === undefined ? null : VERSIONS[maxVersion]!,
    checksCommonName: tlsTransport?.forceCommonNameCheck ?? false
  }
}

/** Those of TLS 1.3 limit TLS 1.3, and the others what is older; a list of the former alone means TLS 1.3 alone. */
function readCiphers(given: Extension['upstream']['tlsTransport'], fault: Report): string {
  const { ciphers = [], maxVersion } = given ?? {}
  const read = ciphers.map((name, i) => {
    const known = cipher(name)
    if (known === null) fault(`/upstream/tlsTransport/ciphers/${i}`, 'is no cipher that is known here')
    return known
  })
  if (read.length === 0 || read.includes(null)) return ''
  if (maxVersion !== undefined && maxVersion !== '1.3' && read.every(each => each!.newest))
    fault('/upstream/tlsTransport/ciphers', 'must hold one older than TLS 1.3: maxVersion asks for it')
  return read.map(each => each!.name).join(':')
}

function forDomain<T>(given: string, value: T, fault: (message: string) => void): ForDomain<T> {
  const domain = given.toLowerCase()
  if (!isDomain(domain)) fault('must be a host, a host with port, *.domain or *')
  return { domain, value }
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

export function readRate(given: OperationExtension['rateLimit'], fault: (message: string) => void): Rate | null {
  if (!given?.enabled) return null
  const perMs = durationMs(given.per) ?? 0
  if (given.rate <= 0 || perMs <= 0) fault('must have a rate and a per above 0')
  return { rate: given.rate, perMs }
}

// As the gateway's own time-outs; a timer of Node ends at 2^31 ms.
const MAX_TIMEOUT = 2_000_000_000

export function readTimeout(
  given: OperationExtension['enforceTimeout'],
  fault: (message: string) => void
): number | null {
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
export const UNKNOWN_VARIABLE =
  /\$svc_(?!meta\.[\w-]|context\.(?:path\b|remote_addr\b|headers_\w|jwt_claims_[\w-]|token(?![\w-])))[\w.-]*/

export function readEdits(
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

export function readCors(given: Extension['middleware']['global']['cors'], fault: Report): Cors | null {
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
