import { Recent } from '../keys/recent.ts'
import type { Certificate, Certificates } from './certificates.ts'
import { type Authority, authority, type Path, pathTo } from './chain.ts'
import { fingerprintOf, type Presented } from './presented.ts'

/** The clients that a list of certificates admits: those that stand in it, and those that an authority in it has signed. */
export interface Allowed {
  /** Dates of the certificate itself are not looked at. A verdict that is remembered costs two looks into Maps. */
  has(presented: Presented, at: number): boolean
}

/** Verdicts remembered for one list. */
const REMEMBERED = 10_000
/** What was refused may be admitted once a date has come. */
const REFUSED_MS = 60_000

/** Between these times the verdict stands. */
interface Verdict extends Path {
  readonly isAllowed: boolean
}

/** @param ids that are held */
export function allowed(certificates: Certificates, ids: readonly string[], org: string): Allowed {
  const epoch = epochOf(certificates)
  const verdicts = new Recent<Verdict>(REMEMBERED)
  let known = -1
  let listed = new Set<string>()
  let authorities: readonly Authority[] = []

  function readAgain(): void {
    known = epoch.count
    verdicts.clear()
    const leaves = ids.map(id => certificates.held(id, org)).flatMap(found => leafOf(found) ?? [])
    listed = new Set(leaves.map(fingerprintOf))
    authorities = leaves.map(authority).filter(found => found !== null)
  }

  return {
    has(presented, at) {
      if (known !== epoch.count) readAgain()
      if (listed.has(presented.fingerprint)) return !presented.isWeak
      if (authorities.length === 0) return false
      const before = verdicts.get(presented.chainId)
      if (before !== undefined && before.startsMs <= at && at < before.expiresMs) return before.isAllowed
      const path = pathTo(authorities, presented, at)
      const verdict =
        path === null
          ? { isAllowed: false, startsMs: at, expiresMs: at + REFUSED_MS }
          : { isAllowed: true, startsMs: path.startsMs, expiresMs: path.expiresMs }
      verdicts.set(presented.chainId, verdict)
      return verdict.isAllowed
    }
  }
}

function leafOf(certificate: Certificate | null) {
  return certificate?.chain[0]
}

/** How often held certificates have changed: one listener for all lists, since routes end without a word. */
const epochs = new WeakMap<Certificates, { count: number }>()

function epochOf(certificates: Certificates): { readonly count: number } {
  const known = epochs.get(certificates)
  if (known !== undefined) return known
  const epoch = { count: 0 }
  epochs.set(certificates, epoch)
  certificates.onChange(() => {
    epoch.count++
  })
  return epoch
}
