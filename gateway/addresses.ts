import { BlockList, isIP } from 'node:net'

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
