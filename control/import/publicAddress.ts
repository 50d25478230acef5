import { type BlockList, isIP } from 'node:net'
import { addresses, within } from '../../gateway/addresses.ts'

/** Which addresses the gateway fetches from when somebody else names them (IANA's special-purpose registries). */

/** Never, whatever the settings say: machines of clouds tell their secrets there. */
const linkLocal = addresses(['169.254.0.0/16', 'fe80::/10'])

const special4 = addresses([
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4'
])

/** All that is routed at all, and what of it is not plain hosts: protocols, documentation, 6to4. */
const global6 = addresses(['2000::/3'])
const special6 = addresses(['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'])

/** Forms of IPv6 that stand for an IPv4 address, and the hextet where it begins. */
const embedding: readonly (readonly [BlockList, number])[] = [
  [addresses(['::/96', '::ffff:0:0/96', '::ffff:0:0:0/96', '64:ff9b::/96', '64:ff9b:1::/48']), 6],
  [addresses(['2002::/16']), 1]
]

/** Whether an address may be fetched from. `networks`: CIDRs that are open beside the public ones. */
export function fetchable(address: string, networks: BlockList): boolean {
  const plain = address.split('%', 1)[0]!
  if (isIP(plain) === 0) return false
  const inner = embedded(plain)
  if (within(linkLocal, plain) || (inner !== null && within(linkLocal, inner))) return false
  if (within(networks, plain)) return true
  return isIP(plain) === 4 ? !within(special4, plain) : within(global6, plain) && !within(special6, plain)
}

function embedded(address: string): string | null {
  if (isIP(address) !== 6) return null
  for (const [forms, from] of embedding) {
    if (!within(forms, address)) continue
    const [high, low] = hextets(address).slice(from, from + 2) as [number, number]
    return [high >> 8, high & 255, low >> 8, low & 255].join('.')
  }
  return null
}

/** The eight numbers of a valid address. */
function hextets(address: string): number[] {
  const dotted = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(address)
  const plain =
    dotted === null
      ? address
      : dotted[1] + [2, 4].map(i => (Number(dotted[i]) * 256 + Number(dotted[i + 1])).toString(16)).join(':')
  const [before, after] = plain.split('::') as [string, string?]
  const numbers = (part: string | undefined) => (part ? part.split(':').map(text => Number.parseInt(text, 16)) : [])
  const [left, right] = [numbers(before), numbers(after)]
  return [...left, ...Array<number>(8 - left.length - right.length).fill(0), ...right]
}
