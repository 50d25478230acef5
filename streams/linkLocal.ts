import { lookup } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import { Undelivered } from './undelivered.ts'

/** Link-local addresses, where clouds keep their credentials (outside.md §5), in all their spellings. */
const linkLocal = new BlockList()
linkLocal.addSubnet('169.254.0.0', 16, 'ipv4')
linkLocal.addSubnet('fe80::', 10, 'ipv6')
// An IPv4 address within an IPv6 one: compatible, mapped, translated, NAT64.
for (const prefix of ['::', '::ffff:', '::ffff:0:', '64:ff9b::']) linkLocal.addSubnet(`${prefix}a9fe:0`, 112, 'ipv6')
// 6to4: the IPv4 address stands at the beginning.
linkLocal.addSubnet('2002:a9fe::', 32, 'ipv6')

/** @param host a name or an address, which may stand in brackets */
export function isLinkLocal(host: string): boolean {
  const plain = host.replace(/^\[|\]$/g, '').split('%')[0]!
  const family = isIP(plain)
  return family !== 0 && linkLocal.check(plain, family === 4 ? 'ipv4' : 'ipv6')
}

/** What is said of a host that must not be reached. */
export const linkLocalFault = (host: string): Undelivered =>
  new Undelivered('misconfigured', `${host} is a link-local address`)

/** DNS for sockets that must not reach link-local addresses, whatever a name stands for. Addresses themselves never come here. */
export const safeLookup: LookupFunction = (host, options, callback) => {
  lookup(host, options, (error, address: unknown, family) => {
    const all = Array.isArray(address) ? (address as { address: string }[]) : [{ address: String(address) }]
    if (error === null && all.some(one => isLinkLocal(one.address))) return callback(linkLocalFault(host), '', 4)
    callback(error, address as string, family)
  })
}
