import type { TokenScheme } from '../api.ts'
import type { Exchange, Outcome } from '../exchange.ts'
import type { Session } from '../keys/keys.ts'
import { refusals } from '../refusals.ts'
import { certificateSession } from './certificate.ts'
import { failed } from './failure.ts'
import { credentialAt, withoutBearer } from './locations.ts'
import type { MakeMethod } from './method.ts'
import { tokenSignature } from './tokenSignature.ts'

/** Access tokens (semantics §6.3): the key that has the token, or this custom id. */
export const token: MakeMethod<TokenScheme> = (scheme, { orgId }, tools) => {
  const { keys, events, settings } = tools
  const { locations } = scheme
  const least = settings.min_token_length
  const signature = scheme.signature === null ? null : tokenSignature(scheme.signature)
  const certificate = scheme.takesCertificate ? certificateSession(tools) : null

  function known(x: Exchange, session: Session | null): Outcome | Promise<Outcome> {
    if (session === null || session.proof !== 'token' || x.at >= session.goneMs)
      return failed(x, events, refusals.keyUnknown)
    x.key = session
    return signed(x, undefined)
  }

  /** @param outcome what is said of the token; without one there is nothing to be signed */
  function signed(x: Exchange, outcome: Outcome): Outcome | Promise<Outcome> {
    if (outcome !== undefined || signature === null) return outcome
    return signature.check(x, x.credential!, events)
  }

  function byToken(x: Exchange, credential: string): Outcome | Promise<Outcome> {
    if (credential === '') return refusals.keyMissing
    if (credential.length < least) return failed(x, events, refusals.keyUnknown)
    x.credential = credential
    const found = keys.find(orgId, credential)
    return found instanceof Promise ? found.then(session => known(x, session)) : known(x, found)
  }

  return {
    kind: 'token',
    run(x) {
      const credential = withoutBearer(credentialAt(x, locations))
      if (certificate !== null) {
        const outcome = certificate.ask(x, orgId, credential)
        const then = (late: Outcome | 'go on') =>
          late === 'go on' ? byToken(x, credential) : credential === '' ? late : signed(x, late)
        return outcome instanceof Promise ? outcome.then(then) : then(outcome)
      }
      return byToken(x, credential)
    }
  }
}
