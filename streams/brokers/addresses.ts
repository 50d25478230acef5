import { isLinkLocal } from '../linkLocal.ts'

const MEMORY = 'memory://'
const NAME = /^[A-Za-z0-9._-]{1,100}$/
/** A name, an IPv4 address or an IPv6 address in brackets; then a port. */
const SERVER = /^(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,253}[A-Za-z0-9])?\.?|\[[0-9A-Fa-f:.]{2,45}\]):(\d{1,5})$/
/** So many servers are named at most. */
const most = 100

/** Each server once, in their order; an item of a list may hold several with commas. */
export function servers(addresses: readonly string[]): readonly string[] {
  const all = addresses.flatMap(item => item.split(',')).map(item => item.trim())
  return [...new Set(all.filter(item => item !== ''))]
}

/** NAME of `memory://NAME`; null: these are servers. */
export function memoryName(addresses: readonly string[]): string | null {
  const [first] = servers(addresses)
  return first?.startsWith(MEMORY) ? first.slice(MEMORY.length) : null
}

/** What is wrong with the `addresses` of a connector; null: nothing. Variables in them must have their values. */
export function addressFault(addresses: readonly string[]): string | null {
  const all = servers(addresses)
  if (all.length === 0) return 'names no server'
  if (all.length > most) return `names more than ${most} servers`
  const embedded = all.filter(item => item.startsWith(MEMORY))
  if (embedded.length > 0 && all.length > 1)
    return `names ${embedded[0]} beside others: an embedded broker stands alone`
  for (const item of all) {
    const fault = item.startsWith(MEMORY) ? memoryFault(item.slice(MEMORY.length)) : serverFault(item)
    if (fault !== null) return `${JSON.stringify(item.slice(0, 300))}: ${fault}`
  }
  return null
}

function memoryFault(name: string): string | null {
  return NAME.test(name)
    ? null
    : 'the name of an embedded broker is 1 to 100 letters, digits, dots, dashes or underscores'
}

function serverFault(server: string): string | null {
  const port = SERVER.exec(server)?.[1]
  if (port === undefined) return 'host:port or memory://NAME was expected'
  if (Number(port) < 1 || Number(port) > 65_535) return 'the port is not in 1 to 65535'
  return isLinkLocal(server.slice(0, -port.length - 1)) ? 'is a link-local address' : null
}
