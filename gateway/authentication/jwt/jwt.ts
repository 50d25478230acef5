import type { JwtScheme } from '../../api.ts'
import type { Exchange, Outcome } from '../../exchange.ts'
import type { Session } from '../../keys/keys.ts'
import type { Refusal } from '../../refusals.ts'
import { failed } from '../failure.ts'
import { credentialAt, withoutBearer } from '../locations.ts'
import type { MakeMethod } from '../method.ts'
import { LONGEST } from './compact.ts'
import { clientPolicies, policiesOf } from './policies.ts'
import { jwtRefusals } from './refusals.ts'
import { secretOf } from './sources.ts'
import { digest, tokensOf, type Verified } from './verified.ts'
import { verifying } from './verify.ts'

/** Verifications of one scheme at once; one takes some 40 µs, unless it waits for keys. */
const MOST_UNDER_WAY = 4_000
/** A session that was answered for a token is asked for again after so long, milliseconds. */
const AGAIN_MS = 5_000

/**
 * JSON Web Tokens (RFC 7519; semantics §6.6): who has a token of the identity provider gets the session of the subject
 * that it names. A token that was verified lately is not verified again; then nothing here waits.
 */
export const jwt: MakeMethod<JwtScheme> = (scheme, api, tools) => {
  const { keys, keySets, identities, events, clock } = tools
  const { orgId } = api
  const { locations } = scheme
  const refuse = jwtRefusals(api, scheme)
  const verify = verifying(scheme, api, refuse, tools)
  const tokens = tokensOf(keySets)
  const prefix = tokens.scheme()
  const underWay = new Map<string, Promise<Verified | Refusal>>()
  const ofClient = clientPolicies(keys, orgId, clock)
  const lifetime = api.authentication?.lifetime ?? null

  /** Several requests with one token wait for one verification. */
  function verified(name: string, token: string, at: number): Verified | Refusal | Promise<Verified | Refusal> {
    // What began before key sets were forgotten serves nobody who comes after that.
    const job = `${keySets.epoch} ${name}`
    const running = underWay.get(job)
    if (running !== undefined) return running
    if (underWay.size >= MOST_UNDER_WAY) return refuse.busy
    const outcome = verify(token, at)
    if (!(outcome instanceof Promise)) return outcome
    const ending = outcome
      .then(late => {
        if ('claims' in late && late.epoch === keySets.epoch) tokens.keep(name, token, late)
        return late
      })
      .finally(() => underWay.delete(job))
    underWay.set(job, ending)
    return ending
  }

  function refused(x: Exchange, refusal: Refusal): Refusal {
    // That we cannot look says nothing of the credential.
    return refusal === refuse.noKeys || refusal === refuse.busy ? refusal : failed(x, events, refusal)
  }

  function judged(x: Exchange, token: string, outcome: Verified | Refusal): Outcome | Promise<Outcome> {
    return 'claims' in outcome ? admit(x, token, outcome) : refused(x, outcome)
  }

  function admit(x: Exchange, token: string, found: Verified): Outcome | Promise<Outcome> {
    const { session: last } = found
    if (last !== null && found.version === identities.version && x.at < found.againAt)
      return known(x, token, found, last)
    if (found.owner !== null) {
      const session = keys.find(orgId, found.owner.name)
      return session instanceof Promise
        ? session.then(late => owned(x, token, found, late))
        : owned(x, token, found, session)
    }
    // An access token of somebody else's server says nothing of policies: a key that is kept for its caller does.
    const policies = scheme.external
      ? scheme.defaultPolicies
      : (found.policies ?? policiesOf(found.claims, scheme, policyTools(found.name)))
    return policies instanceof Promise
      ? policies.then(late => withPolicies(x, token, found, late))
      : withPolicies(x, token, found, policies)
  }

  const policyTools = (name: string) => ({ isKept: () => identities.isKept(orgId, name), clientPolicies: ofClient })

  function withPolicies(
    x: Exchange,
    token: string,
    found: Verified,
    policies: readonly string[] | Refusal
  ): Outcome | Promise<Outcome> {
    if ('code' in policies) return refused(x, policies)
    // Those of a client change with its key.
    if (scheme.client === null) found.policies = policies
    const { version } = identities
    const session = identities.session({
      ...{ org: orgId, name: found.name, policies, until: found.end, lifetime },
      areDefaults: scheme.external
    })
    return session instanceof Promise
      ? session.then(late => asked(x, token, found, late, version))
      : asked(x, token, found, session, version)
  }

  function asked(x: Exchange, token: string, found: Verified, session: Session | Refusal, version: number): Outcome {
    if (!('code' in session)) {
      found.session = session
      found.version = version
      found.againAt = Math.min(x.at + AGAIN_MS, session.goneMs)
    }
    return known(x, token, found, session)
  }

  /** The key may have got another secret since, or have gone. */
  function owned(x: Exchange, token: string, found: Verified, session: Session | null): Outcome {
    if (session === null || secretOf(session) !== found.owner!.secret || x.at >= session.goneMs)
      return refused(x, refuse.invalid)
    return known(x, token, found, session)
  }

  function known(x: Exchange, token: string, found: Verified, session: Session | Refusal): Outcome {
    if ('code' in session) return refused(x, session)
    x.key = session
    x.credential = token
    x.claims = found.claims
    x.validUntil = Math.min(x.validUntil, found.end)
    return undefined
  }

  return {
    kind: 'jwt',
    run(x) {
      const token = withoutBearer(credentialAt(x, locations))
      // Without a token behind it, the blank behind the scheme is lost on the way.
      if (token === '' || (token.length === 6 && token.toLowerCase() === 'bearer')) return refuse.missing
      if (token.length > LONGEST) return refused(x, refuse.invalid)
      const name = prefix + digest(token)
      const recent = tokens.get(name)
      if (recent !== undefined && recent.epoch === keySets.epoch && x.at < recent.until) return admit(x, token, recent)
      const outcome = verified(name, token, x.at)
      return outcome instanceof Promise ? outcome.then(late => judged(x, token, late)) : judged(x, token, outcome)
    }
  }
}
