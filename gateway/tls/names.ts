import type { X509Certificate } from 'node:crypto'

/** Lower-case DNS names in a certificate's subjectAltName; wildcards as `*.domain`, of one label (RFC 9525 §6.3). */
export function namesOf({ subjectAltName }: X509Certificate): string[] {
  return (subjectAltName ?? '')
    .split(', ')
    .filter(entry => entry.startsWith('DNS:'))
    .map(entry => entry.slice('DNS:'.length).toLowerCase())
    .filter(name => NAME.test(name))
}

// Others, quoted by Node, are no names that a client asks for.
const NAME = /^(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/

/** `a.b.example` → `*.b.example`; '' where no wildcard fits. */
export function wildcardOf(name: string): string {
  const dot = name.indexOf('.')
  return dot <= 0 ? '' : `*${name.slice(dot)}`
}
