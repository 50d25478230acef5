import type { X509Certificate } from 'node:crypto'
import { type Facts, factsOf } from './facts.ts'
import { keepsTo } from './generalNames.ts'
import { isWeak, type Presented } from './presented.ts'

/**
 * Whether an authority admits a client's certificate (RFC 5280 §6), built and checked here: Node tells no more than
 * whether one certificate signed another. Signatures and the match of names are OpenSSL's work.
 *
 * A path leads from the leaf over what came with it to an authority that is trusted, which need not be a root. Checked of
 * each certificate: dates (of the leaf: by who asks, at each request), signature (no MD5, no SHA-1), key (`isWeak`),
 * `extKeyUsage` where it is there, critical extensions; of the leaf: `keyUsage`; of what signs: `basicConstraints`,
 * `keyUsage`, path length, constraints on names. Revocation is not looked at.
 */
export interface Path {
  /** Every certificate but the leaf is valid from … */
  readonly startsMs: number
  /** … until then; milliseconds since the epoch. */
  readonly expiresMs: number
}

/** A certificate that may sign others, as `authority` answers it. */
export interface Authority {
  readonly certificate: X509Certificate
  readonly facts: Facts
}

/** Signatures checked for one client: paths that meet again and again cost no more. */
const MOST_SIGNATURES = 20

/** Null: it is none, or a weak one. */
export function authority(certificate: X509Certificate): Authority | null {
  const facts = factsOf(certificate)
  return facts === null || !facts.isAuthority || !facts.isForClients || isWeak(certificate)
    ? null
    : { certificate, facts }
}

/**
 * A path that is valid at this time, milliseconds since the epoch; null: there is none.
 * It does not tell whether the client has the private key: its connection does.
 */
export function pathTo(
  trusted: readonly Authority[],
  { leaf, intermediates, isWeak }: Presented,
  at: number
): Path | null {
  const facts = factsOf(leaf)
  if (facts === null || isWeak || !facts.isForClients || !facts.maySignHandshakes || !facts.isSoundlySigned) return null
  const between = intermediates
    .map(authority)
    .filter(found => found !== null)
    .filter(({ facts: { isSoundlySigned } }) => isSoundlySigned)
  return new Search(trusted, between, at).from({ certificate: leaf, facts })
}

class Search {
  readonly #trusted: readonly Authority[]
  readonly #between: readonly Authority[]
  readonly #at: number
  #signatures = 0

  constructor(trusted: readonly Authority[], between: readonly Authority[], at: number) {
    this.#trusted = trusted
    this.#between = between
    this.#at = at
  }

  from(leaf: Authority): Path | null {
    return this.#on([leaf], { startsMs: Number.NEGATIVE_INFINITY, expiresMs: Number.POSITIVE_INFINITY })
  }

  /** @param path leaf first, each signed by the next */
  #on(path: readonly Authority[], lasting: Path): Path | null {
    for (const issuer of this.#trusted) {
      const found = this.#by(issuer, path, lasting)
      // Constraints come last: nobody makes us compare many names but with what an authority has signed.
      if (found !== null && keepsToConstraints([...path, issuer])) return found
    }
    for (const issuer of this.#between) {
      if (path.includes(issuer)) continue
      const next = this.#by(issuer, path, lasting)
      const found = next === null ? null : this.#on([...path, issuer], next)
      if (found !== null) return found
    }
    return null
  }

  /** How long the path lasts with its issuer; null: it has not issued the last one, or may not have. */
  #by({ certificate, facts }: Authority, path: readonly Authority[], { startsMs, expiresMs }: Path): Path | null {
    const last = path.at(-1)!.certificate
    if (!last.checkIssued(certificate)) return null
    const starts = certificate.validFromDate.getTime()
    const expires = certificate.validToDate.getTime()
    if (!(starts <= this.#at && this.#at < expires)) return null
    if (counted(path).length - 1 > facts.pathLength) return null
    if (++this.#signatures > MOST_SIGNATURES || !isSignedBy(last, certificate)) return null
    return { startsMs: Math.max(startsMs, starts), expiresMs: Math.min(expiresMs, expires) }
  }
}

/** Self-issued ones but for the leaf count for no length (RFC 5280 §4.2.1.9) and are not constrained (§4.2.1.10). */
function counted(path: readonly Authority[]): readonly Authority[] {
  return path.filter((one, i) => i === 0 || !one.facts.isSelfIssued)
}

function keepsToConstraints(path: readonly Authority[]): boolean {
  return path.every(
    ({ facts: { constraints } }, i) =>
      constraints === null || counted(path.slice(0, i)).every(({ facts }) => keepsTo(constraints, facts.names))
  )
}

function isSignedBy(certificate: X509Certificate, issuer: X509Certificate): boolean {
  try {
    return certificate.verify(issuer.publicKey)
  } catch {
    return false
  }
}
