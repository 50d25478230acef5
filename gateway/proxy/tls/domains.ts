import { isIP } from 'node:net'
import type { ForDomain } from '../../api.ts'

/**
 * What is said for a host (lower case, IPv6 in brackets): for `host:port`, else for the host, else for the closest
 * `*.domain`, else for `*`; each with the port before without. Null: nothing.
 */
export function closest<T>(given: readonly ForDomain<T>[], hostname: string, port: number): T | null {
  if (given.length === 0) return null
  const host = hostname.replace(/\.$/, '')
  const names = [host]
  if (isIP(host) === 0 && !host.startsWith('['))
    for (let dot = host.indexOf('.'); dot >= 0; dot = host.indexOf('.', dot + 1)) names.push(`*${host.slice(dot)}`)
  names.push('*')
  for (const name of names) {
    const found =
      given.find(({ domain }) => domain === `${name}:${port}`) ?? given.find(({ domain }) => domain === name)
    if (found !== undefined) return found.value
  }
  return null
}
