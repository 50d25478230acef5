import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { Settings } from './settings.ts'
import { compile, type Fault, Invalid } from './validate.ts'

const check = compile(Settings)
const PREFIX = /^SVC_(GATEWAY|MANAGEMENT|STORAGE)__/

/** What the process is given: `file` is the text of the settings file, null without one. */
export interface Given {
  readonly file: string | null
  readonly env: Readonly<Record<string, string | undefined>>
}

/**
 * File and environment → settings, complete and frozen.
 * @throws Invalid with every fault that was found: unreadable JSON, unknown names, wrong types, rules across members
 */
export function load({ file, env }: Given): Settings {
  const faults: Fault[] = []
  const input = file === null ? {} : parse(file, faults)
  // A variable that is not read is reported beside the others: the rest of the settings is still checked.
  for (const [name, value] of Object.entries(env).sort())
    if (PREFIX.test(name) && value !== undefined) override(input, name, value, faults)
  let settings: Settings | null = null
  try {
    settings = check(input)
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    faults.push(...cause.faults)
  }
  if (settings !== null) {
    if (settings.gateway.listen_address === '')
      settings.gateway.listen_address = file === null ? '127.0.0.1' : '0.0.0.0'
    faults.push(...rules(settings, file !== null))
  }
  if (faults.length > 0) throw new Invalid(faults)
  return freeze(settings!)
}

export function readFile(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (cause) {
    throw new Invalid([{ path: '', message: `${path} cannot be read: ${(cause as Error).message}` }])
  }
}

function parse(file: string, faults: Fault[]): Record<string, unknown> {
  try {
    const input: unknown = JSON.parse(file)
    if (typeof input === 'object' && input !== null && !Array.isArray(input)) return input as Record<string, unknown>
    faults.push({ path: '', message: 'the settings file must hold a JSON object' })
  } catch (cause) {
    faults.push({ path: '', message: `the settings file is not JSON: ${(cause as Error).message}` })
  }
  return {}
}

interface Node {
  readonly type?: string
  readonly properties?: Record<string, Node>
}

/** `SVC_GATEWAY__ACCESS_LOGS__PATH=x` sets `gateway.access_logs.path`; what is not text in the schema is JSON. */
function override(input: Record<string, unknown>, name: string, value: string, faults: Fault[]): void {
  const path = name.slice('SVC_'.length).toLowerCase().split('__')
  let node = Settings as unknown as Node
  let place = input
  for (const [depth, part] of path.entries()) {
    const next =
      node.properties !== undefined && Object.hasOwn(node.properties, part) ? node.properties[part] : undefined
    if (next === undefined) return void faults.push({ path: name, message: 'is not known here (environment)' })
    node = next
    if (depth === path.length - 1) {
      place[part] = read(node, value)
      return
    }
    const inner = place[part]
    if (typeof inner !== 'object' || inner === null) place[part] = {}
    place = place[part] as Record<string, unknown>
  }
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
function rules({ gateway, management }: Settings, fromFile: boolean): Fault[] {
  const faults: Fault[] = []
  if (fromFile && gateway.secret === '')
    faults.push({ path: '/gateway/secret', message: 'is required with a settings file' })
  const exposed = !isLoopback(gateway.listen_address)
  if (exposed && gateway.secret !== '' && gateway.secret.length < 16)
    faults.push({
      path: '/gateway/secret',
      message: 'must have at least 16 characters where the listener is not bound to loopback'
    })
  if (!isLoopback(management.listen_address) && management.admin_secret !== '' && management.admin_secret.length < 16)
    faults.push({
      path: '/management/admin_secret',
      message: 'must have at least 16 characters where the listener is not bound to loopback'
    })
  if (/[^\x20-\x7e]|^ | $/.test(gateway.secret))
    faults.push({ path: '/gateway/secret', message: 'must be visible ASCII: it travels in a header' })
  gateway.trusted_proxies.forEach((cidr, i) => {
    if (!isCidr(cidr)) faults.push({ path: `/gateway/trusted_proxies/${i}`, message: 'must be an address or a CIDR' })
  })
  if (gateway.control_api_port !== 0 && gateway.control_api_port === gateway.listen_port)
    faults.push({ path: '/gateway/control_api_port', message: 'must differ from listen_port' })
  return faults
}

function isCidr(text: string): boolean {
  const [address, bits, rest] = text.split('/')
  const family = isIP(address!)
  if (family === 0 || rest !== undefined) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 6 ? 128 : 32))
}

export function isLoopback(address: string): boolean {
  return address === 'localhost' || address === '::1' || (isIP(address) === 4 && address.startsWith('127.'))
}

function freeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) {
    Object.values(value).forEach(freeze)
    Object.freeze(value)
  }
  return value
}
