import { BlockList, isIP, isIPv6 } from 'node:net'

/** A set of addresses and CIDRs. @throws RangeError on what is neither */
export function addresses(cidrs: readonly string[]): BlockList {
  const list = new BlockList()
  for (const cidr of cidrs) {
    const [address, bits, rest] = cidr.split('/')
    const family = isIP(address!)
    if (family === 0 || rest !== undefined) throw new RangeError(`${cidr} is neither an address nor a CIDR`)
    const name = family === 6 ? 'ipv6' : 'ipv4'
    if (bits === undefined) list.addAddress(address!, name)
    else if (!/^\d{1,3}$/.test(bits) || Number(bits) > (family === 6 ? 128 : 32))
      throw new RangeError(`${cidr} is neither an address nor a CIDR`)
    else list.addSubnet(address!, Number(bits), name)
  }
  return list
}

export function within(list: BlockList, address: string): boolean {
  const family = isIP(address)
  return family !== 0 && list.check(address, family === 6 ? 'ipv6' : 'ipv4')
}

/** Who calls from an address: one host of IPv6 has a whole /64 to call from, however it is written. */
export function network(address: string): string {
  if (!isIPv6(address)) return address
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)
  if (mapped !== null) return mapped[1]!
  const [head = '', tail = ''] = address.split('::')
  const left = head === '' ? [] : head.split(':')
  // Four digits with dots stand for two groups.
  const right = tail === '' ? 0 : tail.split(':').length + (tail.includes('.') ? 1 : 0)
  const groups = address.includes('::')
    ? [...left, ...new Array(8 - left.length - right).fill('0'), ...tail.split(':')]
    : left
  const prefix = groups.slice(0, 4).map(group => Number.parseInt(group, 16).toString(16))
  return `${prefix.join(':')}::/64`
}
