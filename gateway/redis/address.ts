import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import { checkServerIdentity } from 'node:tls'
import type { Settings } from '../../config/settings.ts'

export type CountersSettings = Settings['storage']['counters']

/** Where Redis is, and how to log in there. */
export interface Places {
  /** One, or some nodes of a cluster. */
  readonly hosts: readonly { readonly host: string; readonly port: number }[]
  readonly isCluster: boolean
  readonly username: string | undefined
  readonly password: string | undefined
  readonly db: number
  readonly tls: ConnectionOptions | undefined
}

/**
 * What `storage.counters` says.
 * @throws Error in one line that holds nothing of the addresses, as they hold the password
 */
export function placesOf({ url, nodes, ca_file }: CountersSettings): Places {
  const isCluster = nodes.length > 0
  if (!isCluster && url === '') throw new Error('storage.counters.url is missing')
  const addresses = isCluster
    ? nodes.map((node, i) => addressOf(node, `storage.counters.nodes[${i}]`))
    : [addressOf(url, 'storage.counters.url')]
  const [first] = addresses
  const { username, password, db, isTls } = first!
  for (const other of addresses)
    if (other.username !== username || other.password !== password || other.isTls !== isTls)
      throw new Error('storage.counters.nodes: all nodes have the same scheme, user and password')
  if (isCluster && db !== 0) throw new Error('storage.counters.nodes: a cluster has no database but 0')
  if (!isTls && ca_file !== '') throw new Error('storage.counters.ca_file is for addresses with rediss:// alone')
  const hosts = addresses.map(({ host, port }) => ({ host, port }))
  return { hosts, isCluster, username, password, db, tls: isTls ? tlsOf(ca_file, hosts) : undefined }
}

function addressOf(text: string, where: string) {
  const wrong = new Error(`${where} is not an address like redis://user:password@host:port/database`)
  if (!URL.canParse(text)) throw wrong
  const { protocol, hostname, port, username, password, pathname, search, hash } = new URL(text)
  const database = /^\/?(\d{0,5})$/.exec(pathname)
  if (!/^rediss?:$/.test(protocol) || hostname === '' || database === null || search !== '' || hash !== '') throw wrong
  try {
    return {
      host: decodeURIComponent(hostname.replace(/^\[(.*)\]$/, '$1')),
      port: port === '' ? 6379 : Number(port),
      username: username === '' ? undefined : decodeURIComponent(username),
      password: password === '' ? undefined : decodeURIComponent(password),
      db: Number(database[1]),
      isTls: protocol === 'rediss:'
    }
  } catch {
    throw wrong
  }
}

function tlsOf(caFile: string, hosts: Places['hosts']): ConnectionOptions {
  const tls: ConnectionOptions = {
    // A cluster names its nodes by IP address, while certificates often name the host that the settings name.
    checkServerIdentity(host, certificate) {
      const fault = checkServerIdentity(host, certificate)
      if (fault === undefined) return undefined
      return hosts.some(({ host }) => checkServerIdentity(host, certificate) === undefined) ? undefined : fault
    }
  }
  if (caFile === '') return tls
  const ca = read(caFile)
  if (!isCertificate(ca)) throw new Error('storage.counters.ca_file holds no certificate (PEM)')
  return { ...tls, ca }
}

function isCertificate(text: string): boolean {
  if (!/-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----/.test(text)) return false
  try {
    return new X509Certificate(text).raw.length > 0
  } catch {
    return false
  }
}

function read(caFile: string): string {
  try {
    return readFileSync(caFile, 'utf8')
  } catch (cause) {
    throw new Error(`storage.counters.ca_file cannot be read: ${(cause as NodeJS.ErrnoException).code ?? 'no file'}`)
  }
}
