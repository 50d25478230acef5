import type { X509Certificate } from 'node:crypto'

/** Looks at the ends of certificates (semantics §7.8) and tells them in time. */
export interface CertificateWatch {
  /** A certificate is in use: cheap where it was looked at within the check cool-down. */
  used(certificate: {
    readonly id: string
    readonly leaf: X509Certificate
    readonly role: 'client' | 'upstream' | 'server'
    readonly apiId: string
    readonly org: string
  }): void
  close(): void | Promise<void>
}
