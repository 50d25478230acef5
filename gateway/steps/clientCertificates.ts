import { failed } from '../authentication/failure.ts'
import { allowed } from '../certificates/allowed.ts'
import { isForwarded, presented } from '../certificates/presented.ts'
import { certificateRefusals, outOfTime } from '../certificates/validity.ts'
import { refusal } from '../refusals.ts'
import type { Step } from './step.ts'

/**
 * Static mutual TLS (semantics §6.7): only clients with a listed certificate, or with one that a listed authority has
 * signed. A listed certificate is its own proof: neither its chain nor its usage is looked at, but its dates and the
 * strength of its key are. An empty list is shut (`outside.md` §5).
 */
export const clientCertificates: Step = {
  name: 'clientCertificates',
  make({ id: apiId, orgId, clientCertificates: listed }, { certificates, events, watch }) {
    if (listed === null) return null
    const admitted = allowed(certificates, listed, orgId)
    return {
      run(x) {
        const shown = presented(x)
        if (shown === null) {
          const { noTls, missing } = certificateRefusals
          return failed(x, events, x.peer.secure || isForwarded(x) ? missing : noTls)
        }
        const { leaf, fingerprint, expiresMs } = shown
        if (!admitted.has(shown, x.at))
          return failed(
            x,
            events,
            refusal('certificate_not_allowed', 403, `Certificate with SHA256 ${fingerprint} not allowed`)
          )
        watch.used({ id: orgId + fingerprint, leaf, role: 'client', apiId, org: orgId })
        const late = outOfTime(shown, x.at)
        if (late !== null) return failed(x, events, late)
        x.validUntil = Math.min(x.validUntil, expiresMs)
        return undefined
      }
    }
  }
}
