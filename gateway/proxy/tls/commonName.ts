import { isIP } from 'node:net'
import type { PeerCertificate } from 'node:tls'

/** Undefined: the common name of the certificate is the host's; alternative names are not looked at. */
export function commonNameFault(host: string, { subject }: Pick<PeerCertificate, 'subject'>): Error | undefined {
  // An attribute that stands there several times is a list.
  const names = [subject?.CN ?? []].flat()
  if (names.some(name => isNameOf(name.toLowerCase(), host.toLowerCase().replace(/\.$/, '')))) return undefined
  return new Error(
    `the common name of the certificate of ${host} is another: ${names.join(', ').slice(0, 256) || 'none'}`
  )
}

/** The same, or a wildcard of one label over a domain of two or more (as Node has it). */
function isNameOf(name: string, host: string): boolean {
  if (name === host) return true
  const dot = host.indexOf('.')
  return isIP(host) === 0 && dot > 0 && /^\*\.[^.*]+\.[^*]+$/.test(name) && host.slice(dot) === name.slice(1)
}
