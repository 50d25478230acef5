import { createPrivateKey } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import type { Api } from '../api.ts'
import type { Certificate, Certificates } from '../certificates/certificates.ts'
import { namesOf, wildcardOf } from './names.ts'

/** Certificates that a handshake without a known name can be answered with: of each kind of key the first. Never empty. */
export type Shown = readonly Certificate[]

/** Which certificates are shown to whom. */
export interface Choice {
  /** For clients that ask for no name, or for one that none fits; null: there is none at all. */
  readonly first: Shown | null
  /** One a name: Node's SNI takes from a context the certificate of one kind of key alone. */
  of(name: string): Certificate | null
  /** Named, and not usable: why, by id. */
  readonly faults: ReadonlyMap<string, string>
  /** Organisations by the domain that is theirs. */
  readonly owners: ReadonlyMap<string, string>
}

export interface Named {
  /** `ssl_certificates` */
  readonly ids: readonly string[]
  /** Those that came first, first. */
  readonly apis: readonly Pick<Api, 'active' | 'domain' | 'certificates' | 'orgId'>[]
  readonly certificates: Pick<Certificates, 'held'>
  /** Of the choice before: who has a domain keeps it while an API of theirs has it. */
  readonly owners?: Choice['owners']
}

/**
 * By the name asked for (SNI): a certificate of the settings that bears it, then those of the API with this domain, then a
 * wildcard of the settings, of one label. What other names the certificates of APIs bear does not count: whoever may write
 * an API could take names away from others.
 */
export function choiceOf({ ids, apis, certificates, owners: before = new Map() }: Named): Choice {
  const faults = new Map<string, string>()
  const names = new Map<string, Certificate>()
  const domains = new Map<string, Certificate>()
  const first: Certificate[] = []
  const usable = (id: string, org: string | null): Certificate | null => {
    const certificate = certificates.held(id, org)
    const fault = unusable(certificate)
    if (fault !== null) faults.set(id, fault)
    return fault === null ? certificate : null
  }
  for (const id of ids) {
    const certificate = usable(id, null)
    if (certificate === null) continue
    // Beside the first only those that bear the same names in another kind of key.
    if (first.length === 0 || sameNames(first[0]!, certificate)) addTo(first, certificate)
    for (const name of namesOf(certificate.chain[0]!)) if (!names.has(name)) names.set(name, certificate)
  }
  const having = apis.filter(({ active, domain }) => active && domain !== '')
  const owners = new Map<string, string>()
  for (const { domain, orgId } of having) if (before.get(domain) === orgId) owners.set(domain, orgId)
  for (const { domain, orgId } of having) if (!owners.has(domain)) owners.set(domain, orgId)
  for (const { domain, orgId, certificates: own } of having) {
    if (owners.get(domain) !== orgId) continue
    for (const id of own) {
      const certificate = usable(id, orgId)
      if (certificate !== null && !domains.has(domain)) domains.set(domain, certificate)
    }
  }
  return {
    first: first.length === 0 ? null : first,
    of: name => names.get(name) ?? domains.get(name) ?? names.get(wildcardOf(name)) ?? null,
    faults,
    owners
  }
}

const NO_KEY = 'it has no private key'

/** Null: it can be shown. */
function unusable(certificate: Certificate | null): string | null {
  if (certificate === null) return 'it is missing, or cannot be read'
  if (certificate.chain.length === 0) return 'it is a bare public key'
  if (certificate.privateKey === null) return NO_KEY
  let fault = refusals.get(certificate)
  if (fault === undefined) {
    fault = refusalOf(certificate)
    refusals.set(certificate, fault)
  }
  return fault
}

const refusals = new WeakMap<Certificate, string | null>()

/** What OpenSSL says against it. */
function refusalOf({ chain, privateKey, pem }: Certificate): string | null {
  try {
    if (!chain[0]!.checkPrivateKey(createPrivateKey(privateKey!)))
      return 'its private key belongs to another certificate'
    createSecureContext({ cert: pem, key: privateKey!, ca: [] })
    return null
  } catch (cause) {
    const { reason, message } = cause as Error & { reason?: string }
    return `it cannot be used: ${reason ?? message}`
  }
}

/** Why there is no first one, in words; '' where there is. */
export function faultOf({ first, faults }: Choice): string {
  if (first !== null) return ''
  const others = [...faults].filter(([, fault]) => fault !== NO_KEY)
  if (others.length === 0) return 'no certificate has a private key'
  return others.map(([id, fault]) => `the certificate ${id} is of no use: ${fault}`).join('; ')
}

function addTo(listed: Certificate[], certificate: Certificate): void {
  const type = certificate.publicKey.asymmetricKeyType
  if (listed.every(({ publicKey }) => publicKey.asymmetricKeyType !== type)) listed.push(certificate)
}

function sameNames(one: Certificate, other: Certificate): boolean {
  const sorted = ({ chain }: Certificate) => namesOf(chain[0]!).sort().join()
  return sorted(one) === sorted(other)
}
