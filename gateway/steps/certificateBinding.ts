import { failed } from '../authentication/failure.ts'
import { type Presented, presented } from '../certificates/presented.ts'
import { certificateRefusals, outOfTime } from '../certificates/validity.ts'
import type { Exchange } from '../exchange.ts'
import type { Refusal } from '../refusals.ts'
import type { Step } from './step.ts'

/**
 * Keys and tokens that are bound to certificates count only where the client shows one of these: a key's
 * `mtls_static_certificate_bindings`, whatever method has found it, and the `cnf` of a token (RFC 8705 §3.1, §3.2).
 */
export const certificateBinding: Step = {
  name: 'certificateBinding',
  make({ id: apiId, orgId, authentication }, { settings, events, watch }) {
    if (!settings.enable_token_certificate_binding || authentication === null) return null
    return {
      run(x) {
        const bindings = x.key?.key.mtls_static_certificate_bindings ?? []
        const confirmed = confirmation(x)
        if (bindings.length === 0 && confirmed === undefined) return undefined
        const shown = presented(x)
        if (shown === null) return failed(x, events, certificateRefusals.required)
        const { leaf, fingerprint, expiresMs, isWeak } = shown
        const refused: Refusal | null =
          outOfTime(shown, x.at) ??
          (isWeak || !isBound(shown, bindings, orgId) || !isConfirmed(shown, confirmed)
            ? certificateRefusals.mismatch
            : null)
        if (refused !== null) return failed(x, events, refused)
        watch.used({ id: orgId + fingerprint, leaf, role: 'client', apiId, org: orgId })
        x.validUntil = Math.min(x.validUntil, expiresMs)
        return undefined
      }
    }
  }
}

/** What the token says of its certificate; undefined: nothing. */
function confirmation({ claims }: Exchange): unknown {
  const { cnf } = claims ?? {}
  return typeof cnf === 'object' && cnf !== null && Object.hasOwn(cnf, THUMBPRINT)
    ? (cnf as Record<string, unknown>)[THUMBPRINT]
    : undefined
}

const THUMBPRINT = 'x5t#S256'

function isBound({ fingerprint }: Presented, bindings: readonly string[], org: string): boolean {
  return bindings.length === 0 || bindings.includes(org + fingerprint) || bindings.includes(fingerprint)
}

/** Both are public: nobody learns from how long the comparison takes. */
function isConfirmed({ fingerprint }: Presented, thumbprint: unknown): boolean {
  return thumbprint === undefined || thumbprint === Buffer.from(fingerprint, 'hex').toString('base64url')
}
