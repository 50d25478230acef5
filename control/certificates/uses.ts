import { isObject } from '../../config/report.ts'
import { EXTENSION } from '../../gateway/api.ts'

/** What an API does with a certificate (semantics §1.13). */
export type Usage = 'client' | 'upstream' | 'server'

/** What an API does with a certificate, from its document as it is kept; empty: nothing. */
export function usageOf(certificateId: string, document: unknown): Usage[] {
  const holds = (value: unknown) => Array.isArray(value) && value.includes(certificateId)
  const usages: Usage[] = []
  if (holds(member(document, 'server', 'clientCertificates', 'allowlist'))) usages.push('client')
  const mapping = member(document, 'upstream', 'mutualTLS', 'domainToCertificateMapping')
  if (Array.isArray(mapping) && mapping.some(entry => isObject(entry) && entry.certificate === certificateId))
    usages.push('upstream')
  if (holds(member(document, 'server', 'customDomain', 'certificates'))) usages.push('server')
  return usages
}

function member(document: unknown, ...names: string[]): unknown {
  let found = document
  for (const name of [EXTENSION, ...names]) {
    if (!isObject(found) || !Object.hasOwn(found, name)) return undefined
    found = found[name]
  }
  return found
}

/** How the interface calls the type of an API. */
export function typeOf(document: object): string {
  return Object.hasOwn(document, 'x-svc-streaming') ? 'Svc Streams' : 'Svc OAS'
}
