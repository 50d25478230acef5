import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { isDomain, isPin } from './domain.ts'
import { CHECK_COOLDOWN, EVENT_COOLDOWN, Settings } from './settings.ts'
import { compile, type Fault, Invalid, pointer } from './validate.ts'
import { parseJson } from './yaml.ts'

const check = compile(Settings)
const PREFIX = /^SVC_(GATEWAY|MANAGEMENT|STORAGE)__/

/** What the process is given: `file` is the text of the settings file, null without one. */
export interface Given {
  readonly file: string | null
  readonly env: Readonly<Record<string, string | undefined>>
  /** What is already known to be wrong: reported with the rest. */
  readonly faults?: readonly Fault[]
}

/**
 * File and environment → settings, complete and frozen.
 * @throws Invalid with every fault that was found: unreadable JSON, unknown names, wrong types, rules across members
 */
export function load({ file, env, faults: known = [] }: Given): Settings {
  const faults: Fault[] = [...known]
  const input = file === null ? {} : parse(file, faults)
  const fromFile = file !== null && faults.length === 0
  // A variable that is not read is reported beside the others: the rest of the settings is still checked.
  const variables = new Map<string, string>()
  for (const [name, value] of Object.entries(env).sort())
    if (PREFIX.test(name) && value !== undefined) override(input, name, value, variables, faults)
  const settings = checked(input, faults)
  if (settings !== null) {
    const { gateway, management } = settings
    if (gateway.listen_address === '' && file === null) gateway.listen_address = '127.0.0.1'
    for (const listener of [gateway, management])
      listener.listen_address = listener.listen_address.replace(/^\[(.*)\]$/, '$1')
    const { certificate_expiry_monitor: monitor } = gateway.security
    // Semantics §7.8.
    if (monitor.check_cooldown_seconds === 0) monitor.check_cooldown_seconds = CHECK_COOLDOWN
    if (monitor.event_cooldown_seconds === 0) monitor.event_cooldown_seconds = EVENT_COOLDOWN
    faults.push(...rules(settings, fromFile).filter(({ path }) => faults.every(fault => fault.path !== path)))
  }
  if (faults.length > 0 || settings === null)
    throw new Invalid(faults.map(({ path, message }) => ({ path, message: message + origin(path, variables) })))
  return freeze(settings)
}

function origin(path: string, variables: ReadonlyMap<string, string>): string {
  for (const [place, name] of variables) if (path === place || path.startsWith(`${place}/`)) return ` (${name})`
  return ''
}

/** The settings as far as they can be read: members with faults are reported and have their defaults. Null: not at all. */
function checked(input: Record<string, unknown>, faults: Fault[]): Settings | null {
  try {
    return check(input)
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    faults.push(...cause.faults)
    for (const { path } of cause.faults) remove(input, path)
  }
  try {
    return check(input)
  } catch {
    return null
  }
}

function remove(input: Record<string, unknown>, path: string): void {
  const parts = path.split('/').slice(1)
  let place: Record<string, unknown> = input
  for (const part of parts.slice(0, -1)) {
    const inner = place[part.replaceAll('~1', '/').replaceAll('~0', '~')]
    // A list loses all its members: taking one out would move the others.
    if (Array.isArray(inner)) return void delete place[part]
    if (typeof inner !== 'object' || inner === null) return
    place = inner as Record<string, unknown>
  }
  delete place[parts.at(-1)!.replaceAll('~1', '/').replaceAll('~0', '~')]
}

/** @throws Invalid */
export function readFile(path: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path))
  } catch (cause) {
    throw new Invalid([{ path: '', message: `${path} cannot be read: ${(cause as Error).message}` }])
  }
}

function parse(file: string, faults: Fault[]): Record<string, unknown> {
  let input: unknown
  try {
    input = parseJson(file)
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    faults.push(
      ...cause.faults.map(({ path, message }) => ({
        path,
        message: path === '' ? `the settings file ${message}` : message
      }))
    )
    return {}
  }
  if (typeof input === 'object' && input !== null && !Array.isArray(input)) return input as Record<string, unknown>
  faults.push({ path: '', message: 'the settings file must hold a JSON object' })
  return {}
}

interface Node {
  readonly type?: string
  readonly properties?: Record<string, Node>
}

/** `SVC_GATEWAY__ACCESS_LOGS__PATH=x` sets `gateway.access_logs.path`; what is not text in the schema is JSON. */
function override(
  input: Record<string, unknown>,
  name: string,
  value: string,
  variables: Map<string, string>,
  faults: Fault[]
): void {
  const path = name === name.toUpperCase() ? name.slice('SVC_'.length).toLowerCase().split('__') : ['']
  let node = Settings as unknown as Node
  for (const part of path) {
    const next =
      node.properties !== undefined && Object.hasOwn(node.properties, part) ? node.properties[part] : undefined
    if (next === undefined) return void faults.push({ path: name, message: 'is not known here (environment)' })
    node = next
  }
  let place = input
  for (const part of path.slice(0, -1)) {
    const inner = place[part]
    if (typeof inner !== 'object' || inner === null) place[part] = {}
    place = place[part] as Record<string, unknown>
  }
  place[path.at(-1)!] = read(node, value)
  variables.set(`/${path.join('/')}`, name)
}

function read(node: Node, value: string): unknown {
  if (node.type === 'string' || (node.type === undefined && node.properties === undefined)) return value
  try {
    return JSON.parse(value)
  } catch {
    // The check tells what was expected instead.
    return value
  }
}

/** What no single member's schema can tell. */
function rules({ gateway, management, storage }: Settings, fromFile: boolean): Fault[] {
  const faults: Fault[] = []
  if (fromFile && gateway.secret === '')
    faults.push({ path: '/gateway/secret', message: 'is required with a settings file' })
  if (gateway.secret !== '') faults.push(...secretFaults('/gateway/secret', gateway.secret, gateway.listen_address))
  const own = management.admin_secret !== ''
  // Without one of its own the management interface is opened by the gateway's.
  const admin = own ? management.admin_secret : gateway.secret
  if (management.enabled && admin !== '') {
    const found = secretFaults(own ? '/management/admin_secret' : '/gateway/secret', admin, management.listen_address)
    faults.push(...found.filter(({ path, message }) => !faults.some(f => f.path === path && f.message === message)))
  }
  faults.push(...securityFaults(gateway, management))
  gateway.trusted_proxies.forEach((cidr, i) => {
    if (!isCidr(cidr)) faults.push({ path: `/gateway/trusted_proxies/${i}`, message: 'must be an address or a CIDR' })
  })
  management.import_private_networks.forEach((cidr, i) => {
    if (!isCidr(cidr))
      faults.push({ path: `/management/import_private_networks/${i}`, message: 'must be an address or a CIDR' })
  })
  if (management.audit.enabled && management.audit.store_type === 'file' && management.audit.path === '')
    faults.push({ path: '/management/audit/path', message: 'is required with store_type file' })
  const { type, url } = storage.documents
  if (type === 'postgres' && !/^postgres(ql)?:\/\//.test(url))
    faults.push({ path: '/storage/documents/url', message: 'must be postgres://user:password@host:port/database' })
  if (gateway.streaming.memory.durable && type !== 'sqlite')
    faults.push({
      path: '/gateway/streaming/memory/durable',
      message: 'needs storage.documents.type sqlite: topics of memory:// belong to one process'
    })
  faults.push(...redisFaults(storage))
  if (management.enabled && management.listen_port !== 0)
    for (const [name, port] of [
      ['gateway.listen_port', gateway.listen_port],
      ['gateway.control_api_port', gateway.control_api_port]
    ] as const)
      if (port === management.listen_port)
        faults.push({ path: '/management/listen_port', message: `must differ from ${name}` })
  const { use_ssl, ssl_certificates } = gateway.http_server_options
  if (use_ssl && ssl_certificates.length === 0)
    faults.push({ path: '/gateway/http_server_options/ssl_certificates', message: 'is required with use_ssl' })
  if (gateway.control_api_port !== 0 && gateway.control_api_port === gateway.listen_port)
    faults.push({ path: '/gateway/control_api_port', message: 'must differ from listen_port' })
  return faults
}

function redisFaults({ counters, keys }: Settings['storage']): Fault[] {
  const { type, url, nodes, ca_file } = counters
  const at = '/storage/counters'
  const form = 'must be redis://user:password@host:port/database, or rediss:// for TLS'
  if (type !== 'redis')
    return keys === 'redis' ? [{ path: '/storage/keys', message: 'redis needs storage.counters.type redis' }] : []
  const isPlain = (nodes.length === 0 ? [url] : nodes).every(address => address.startsWith('redis://'))
  const ofFile = ca_file !== '' && isPlain ? [{ path: `${at}/ca_file`, message: 'is for rediss:// alone' }] : []
  if (nodes.length === 0) return isRedis(url) ? ofFile : [{ path: `${at}/url`, message: form }, ...ofFile]
  if (url !== '') return [{ path: `${at}/url`, message: 'is not needed beside nodes' }]
  const faults = nodes.flatMap((node, i) => (isRedis(node) ? [] : [{ path: `${at}/nodes/${i}`, message: form }]))
  // One login and one TLS for all: a cluster names further nodes by address alone.
  const [first, ...others] = nodes.map(node => node.replace(/[^@/]*$/, ''))
  if (faults.length === 0 && others.some(each => each !== first))
    faults.push({ path: `${at}/nodes`, message: 'must agree in scheme, user and password' })
  return [...faults, ...ofFile]
}

function isRedis(text: string): boolean {
  if (!/^rediss?:\/\//.test(text) || !URL.canParse(text)) return false
  const { hostname, pathname, search, hash } = new URL(text)
  return hostname !== '' && /^\/?\d{0,4}$/.test(pathname) && search === '' && hash === ''
}

const LEAST_SECRET = 16
const tooShort = `must have at least ${LEAST_SECRET} characters where the listener is not bound to loopback`

function secretFaults(path: string, secret: string, address: string): Fault[] {
  if (/[^\x20-\x7e]|^ | $/.test(secret)) return [{ path, message: 'must be visible ASCII: it travels in a header' }]
  if (secret.length < LEAST_SECRET && !isLoopback(address)) return [{ path, message: tooShort }]
  return []
}

function securityFaults(
  { security, listen_address }: Settings['gateway'],
  management: Settings['management']
): Fault[] {
  const faults: Fault[] = []
  const at = '/gateway/security'
  const isReached = !isLoopback(listen_address) || (management.enabled && !isLoopback(management.listen_address))
  const secret = (path: string, value: string) => {
    if (value.length < LEAST_SECRET && isReached) faults.push({ path: `${at}/${path}`, message: tooShort })
  }
  const own = security.private_certificate_encoding_secret
  if (own !== '') secret('private_certificate_encoding_secret', own)
  security.previous_private_certificate_encoding_secrets.forEach((value, i) => {
    const path = `previous_private_certificate_encoding_secrets/${i}`
    if (value === '') faults.push({ path: `${at}/${path}`, message: 'may not be empty' })
    else secret(path, value)
  })
  for (const [member, given] of [
    ['certificates/upstream', security.certificates.upstream],
    ['pinned_public_keys', security.pinned_public_keys]
  ] as const)
    for (const domain of Object.keys(given))
      if (!isDomain(domain.toLowerCase()))
        faults.push({
          path: `${at}/${member}/${pointer(domain)}`,
          message: 'must be for a host, a host with port, *.domain or *'
        })
  for (const [domain, pins] of Object.entries(security.pinned_public_keys))
    if (!pins.split(',').every(pin => pin.trim() !== '' && isPin(pin.trim())))
      faults.push({
        path: `${at}/pinned_public_keys/${pointer(domain)}`,
        message: 'must be ids or sha256/ and 44 characters of base64, parted by commas'
      })
  return faults
}

function isCidr(text: string): boolean {
  const [address, bits, rest] = text.split('/')
  const family = isIP(address!)
  if (family === 0 || rest !== undefined) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 6 ? 128 : 32))
}

export function isLoopback(address: string): boolean {
  return (
    address.toLowerCase() === 'localhost' || address === '::1' || (isIP(address) === 4 && address.startsWith('127.'))
  )
}

function freeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) {
    Object.values(value).forEach(freeze)
    Object.freeze(value)
  }
  return value
}
