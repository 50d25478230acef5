/** What settings and documents write alike about the hosts of upstreams (semantics §3.4, §8.3). */

/** Begins a pin that is no id: the hash of a public key. */
export const HASH = 'sha256/'

const DOMAIN = /^(?:\*|(?:\*\.)?[a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/
/** A hash of a public key is 32 bytes. */
const HASHED = /^sha256\/[A-Za-z0-9+/]{43}=$/

/** A host, a host with port, `*.domain` or `*`; lower case. */
export function isDomain(text: string): boolean {
  return DOMAIN.test(text)
}

/** The id of a stored key or certificate, a file, or the hash of a public key. */
export function isPin(text: string): boolean {
  return !text.startsWith(HASH) || HASHED.test(text)
}
