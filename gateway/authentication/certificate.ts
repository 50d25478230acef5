import type { CertificateScheme } from '../api.ts'
import { type Presented, presented } from '../certificates/presented.ts'
import { certificateRefusals, outOfTime } from '../certificates/validity.ts'
import type { Exchange, Outcome } from '../exchange.ts'
import type { Session } from '../keys/keys.ts'
import { type Refusal, refusals } from '../refusals.ts'
import type { Tools } from '../steps/step.ts'
import { failed } from './failure.ts'
import type { MakeMethod } from './method.ts'

/**
 * Callers who are known by the certificate of their connection (semantics §6.7, dynamic). Which authority signed it does
 * not matter, and neither do its usages: the key was made from this very certificate, and the connection proves that the
 * caller has its private key. A weak key proves nothing.
 */
export const certificate: MakeMethod<CertificateScheme> = (_scheme, { orgId }, tools) => {
  const known = byCertificate(tools)
  return {
    kind: 'certificate',
    run(x) {
      const shown = presented(x)
      return shown === null ? certificateRefusals.required : known(x, orgId, shown)
    }
  }
}

/** What a certificate says beside, or instead of, an access token (`enableClientCertificate`). */
export interface CertificateSession {
  /** `go on`: the token decides. @param credential '': none was sent */
  ask(x: Exchange, orgId: string, credential: string): Answer | Promise<Answer>
}

type Answer = Outcome | 'go on'

export function certificateSession(tools: Tools): CertificateSession {
  const { events, keys, settings, watch } = tools
  const { allow_unsafe_dynamic_mtls_token: takesToken } = settings.security
  const known = byCertificate(tools)

  /** The token of a key with a certificate of its own opens with that certificate alone. */
  function beside(x: Exchange, shown: Presented, credential: string, session: Session | null): Answer {
    if (session?.proof !== 'certificate') return 'go on'
    const id = session.orgId + shown.fingerprint
    if (x.at >= session.goneMs) return failed(x, events, refusals.keyUnknown)
    if (session.key.certificate !== id) return failed(x, events, certificateRefusals.mismatch)
    x.key = session
    x.credential = credential
    used(x, id, shown, watch)
    return undefined
  }

  return {
    ask(x, orgId, credential) {
      const shown = presented(x)
      if (shown === null) return takesToken && credential !== '' ? 'go on' : certificateRefusals.required
      if (credential === '') return known(x, orgId, shown)
      const refused = unfit(shown, x.at)
      if (refused !== null) return failed(x, events, refused)
      x.validUntil = shown.expiresMs
      const found = keys.find(orgId, credential)
      return found instanceof Promise
        ? found.then(session => beside(x, shown, credential, session))
        : beside(x, shown, credential, found)
    }
  }
}

/** Null: it can prove who somebody is. */
function unfit(shown: Presented, at: number): Refusal | null {
  return outOfTime(shown, at) ?? (shown.isWeak ? refusals.keyUnknown : null)
}

/** Only once its owner is let in: strangers' certificates are nobody's to be told about. */
function used(x: Exchange, id: string, { leaf }: Presented, watch: Tools['watch']): void {
  const { id: apiId, orgId } = x.route.api
  watch.used({ id, leaf, role: 'client', apiId, org: orgId })
}

/** The key that was made from a certificate: it is stored under the certificate's id. */
function byCertificate({ events, keys, watch }: Tools) {
  function known(x: Exchange, id: string, shown: Presented, session: Session | null): Outcome {
    if (session === null || session.proof !== 'certificate' || session.key.certificate !== id || x.at >= session.goneMs)
      return failed(x, events, refusals.keyUnknown)
    x.key = session
    x.credential = id
    x.validUntil = shown.expiresMs
    used(x, id, shown, watch)
    return undefined
  }

  return (x: Exchange, orgId: string, shown: Presented): Outcome | Promise<Outcome> => {
    const id = orgId + shown.fingerprint
    const refused = unfit(shown, x.at)
    if (refused !== null) return failed(x, events, refused)
    const found = keys.find(orgId, id)
    return found instanceof Promise ? found.then(session => known(x, id, shown, session)) : known(x, id, shown, found)
  }
}
