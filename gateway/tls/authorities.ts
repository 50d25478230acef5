import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'

/**
 * Trusts the authorities of a PEM file beside the usual ones, in all outgoing TLS of this thread; '': none.
 * @throws Error in one line
 */
export function trustAuthorities(file: string): void {
  if (file === '') return
  try {
    const text = readFileSync(file, 'latin1')
    const blocks = text.match(/-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g)
    if (blocks === null) throw new Error('it holds no certificate')
    for (const block of blocks) new X509Certificate(block)
    setDefaultCACertificates([...getCACertificates('default'), ...blocks])
  } catch (cause) {
    throw new Error(`${file} cannot be read: ${(cause as Error).message} (gateway.ca_file)`, { cause })
  }
}
