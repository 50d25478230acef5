import { createPrivateKey } from 'node:crypto'
import type { Api } from '../api.ts'
import type { Certificate, Certificates } from '../certificates/certificates.ts'
import { namesOf, wildcardOf } from './names.ts'

/** Certificates that one handshake can be answered with: of each kind of key the first. Never empty. */
export type Shown = readonly Certificate[]

/** Which certificates are shown to whom. */
export interface Choice {
  /** For clients that ask for no name, or for one that none fits; null: there is none at all. */
  readonly first: Shown | null
  of(name: string): Shown | null
  /** Named, and not usable: why, by id. */
  readonly faults: ReadonlyMap<string, string>
}

export interface Named {
  /** `ssl_certificates` */
  readonly ids: readonly string[]
  readonly apis: readonly Pick<Api, 'active' | 'domain' | 'certificates' | 'orgId'>[]
  readonly certificates: Pick<Certificates, 'held'>
}

/**
 * By the name asked for (SNI): the domain of an API that has certificates, then a name that a certificate bears, then a
 * wildcard of one label; certificates of the settings go before those of APIs.
 */
export function choiceOf({ ids, apis, certificates }: Named): Choice {
  const faults = new Map<string, string>()
  const domains = new Map<string, Certificate[]>()
  const names = new Map<string, Certificate[]>()
  const first: Certificate[] = []
  const usable = (id: string, org: string | null): Certificate | null => {
    const certificate = certificates.held(id, org)
    const fault = unusable(certificate)
    if (fault !== null) faults.set(id, fault)
    return fault === null ? certificate : null
  }
  const take = (certificate: Certificate) => {
    for (const name of namesOf(certificate.chain[0]!)) add(names, name, certificate)
  }
  for (const id of ids) {
    const certificate = usable(id, null)
    if (certificate === null) continue
    // Beside the first only those that bear the same names in another kind of key.
    if (first.length === 0 || sameNames(first[0]!, certificate)) addTo(first, certificate)
    take(certificate)
  }
  for (const { active, domain, certificates: own, orgId } of apis) {
    if (!active || own.length === 0) continue
    for (const id of own) {
      const certificate = usable(id, orgId)
      if (certificate === null) continue
      if (domain !== '') add(domains, domain, certificate)
      take(certificate)
    }
  }
  return {
    first: first.length === 0 ? null : first,
    of: name => domains.get(name) ?? names.get(name) ?? names.get(wildcardOf(name)) ?? null,
    faults
  }
}

/** Null: it can be shown. */
function unusable(certificate: Certificate | null): string | null {
  if (certificate === null) return 'it is missing, or cannot be read'
  if (certificate.chain.length === 0) return 'it is a bare public key'
  return certificate.privateKey === null ? 'it has no private key' : null
}

function add(to: Map<string, Certificate[]>, name: string, certificate: Certificate): void {
  const listed = to.get(name)
  if (listed === undefined) to.set(name, [certificate])
  else addTo(listed, certificate)
}

function addTo(listed: Certificate[], certificate: Certificate): void {
  const type = certificate.publicKey.asymmetricKeyType
  if (listed.every(({ publicKey }) => publicKey.asymmetricKeyType !== type)) listed.push(certificate)
}

function sameNames(one: Certificate, other: Certificate): boolean {
  const sorted = ({ chain }: Certificate) => namesOf(chain[0]!).sort().join()
  return sorted(one) === sorted(other)
}

/** @throws Error when the key does not belong to the certificate, or is none */
export function checkKeys(shown: Shown): void {
  for (const { id, chain, privateKey } of shown)
    if (!chain[0]!.checkPrivateKey(createPrivateKey(privateKey!)))
      throw new Error(`the private key of ${id} belongs to another certificate`)
}
