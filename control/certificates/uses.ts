import { isObject } from '../../config/report.ts'
import { EXTENSION } from '../../gateway/api.ts'
import type { KeyRecord } from '../../gateway/keys/keys.ts'
import type { Store } from '../../gateway/store/store.ts'

/** What an API does with a certificate or a public key (semantics §1.13); a pin of an upstream counts as `upstream`. */
export type Usage = 'client' | 'upstream' | 'server'

/** What an API does with a certificate, from its document as it is kept; empty: nothing. */
export function usageOf(certificateId: string, document: unknown): Usage[] {
  const holds = (value: unknown) => Array.isArray(value) && value.includes(certificateId)
  const usages: Usage[] = []
  if (holds(member(document, 'server', 'clientCertificates', 'allowlist'))) usages.push('client')
  const some = (mapping: unknown, fits: (entry: object & Record<string, unknown>) => boolean) =>
    Array.isArray(mapping) && mapping.some(entry => isObject(entry) && fits(entry))
  const shown = member(document, 'upstream', 'mutualTLS', 'domainToCertificateMapping')
  const pinned = member(document, 'upstream', 'certificatePinning', 'domainToPublicKeysMapping')
  if (
    some(shown, ({ certificate }) => certificate === certificateId) ||
    some(pinned, ({ publicKeys }) => holds(publicKeys))
  )
    usages.push('upstream')
  if (holds(member(document, 'server', 'customDomain', 'certificates'))) usages.push('server')
  return usages
}

/** A key is bound to it, known by it, or signs with it. */
export async function someKeyHas(certificateId: string, org: string, store: Pick<Store, 'each'>): Promise<boolean> {
  for await (const documents of store.each<KeyRecord>('key', { org }))
    for (const { body } of documents) {
      const { certificate, rsa_certificate_id, mtls_static_certificate_bindings } = body.key
      const named = [certificate, rsa_certificate_id, ...(mtls_static_certificate_bindings ?? [])]
      if (named.includes(certificateId)) return true
    }
  return false
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
