import { hash } from 'node:crypto'
import type { IntrospectionScheme } from '../api.ts'
import type { Exchange, Outcome } from '../exchange.ts'
import { NoAnswer } from '../jwks/asking.ts'
import { type Claims, claimedName } from '../keys/claims.ts'
import { Session } from '../keys/keys.ts'
import { Recent } from '../keys/recent.ts'
import { type Refusal, refusal } from '../refusals.ts'
import { ask } from './askIntrospection.ts'
import { failed } from './failure.ts'
import { credentialAt, withoutBearer } from './locations.ts'
import { challengeOf } from './metadata.ts'
import type { MakeMethod } from './method.ts'

/** Texts and statuses: semantics §6.2, External OAuth; `WWW-Authenticate` as RFC 9110 §15.5.2 asks for it. */
const invalid = refusal('oauth_token_invalid', 401, 'access token is not valid', [
  'WWW-Authenticate',
  'Bearer error="invalid_token"'
])
const unanswered = refusal('oauth_validation_failed', 500, 'error happened during the access token validation')

/** Answers remembered for one API. */
const MOST_REMEMBERED = 20_000
/** Questions under way for one API. */
const MOST_ASKED = 1_000
/** How long a token that is not good is not asked about again; never longer than the answers that count. */
const REFUSED_MS = 5_000
/** The same trouble stands in the log at most so often. */
const TOLD_MS = 10_000

interface Answer {
  /** Null: the token is not good. */
  readonly claims: Claims | null
  /** When the token ends, milliseconds since the epoch; Infinity: it did not say. */
  readonly ends: number
  /** Until when it is remembered. */
  readonly until: number
}

/** Access tokens that their authorization server is asked about (semantics §6.8, RFC 7662). */
export const introspection: MakeMethod<IntrospectionScheme> = (scheme, api, { identities, events, clock, log }) => {
  const { locations, cacheMs, subject } = scheme
  const policies = scheme.defaultPolicies.length === 0 ? null : scheme.defaultPolicies
  const lifetime = api.authentication!.lifetime
  const challenge = challengeOf(api)
  const missing = refusal(
    'oauth_token_missing',
    challenge.length > 0 ? 401 : 400,
    'authorization field missing',
    challenge
  )
  const remembered = new Recent<Answer>(MOST_REMEMBERED)
  const underWay = new Map<string, Promise<Answer>>()
  let told = Number.NEGATIVE_INFINITY

  function answerOf(token: string, now: number): Answer | Promise<Answer> {
    const name = hash('sha256', token, 'base64')
    const known = remembered.get(name)
    if (known !== undefined && now < known.until) return known
    const asked = underWay.get(name)
    if (asked !== undefined) return asked
    if (underWay.size >= MOST_ASKED) return Promise.reject(new NoAnswer('too many questions are under way'))
    const asking = ask(token, scheme, clock)
      .then(claims => {
        const answer = read(claims, clock.now(), cacheMs)
        if (answer.until > clock.now()) remembered.set(name, answer)
        return answer
      })
      .finally(() => underWay.delete(name))
    underWay.set(name, asking)
    return asking
  }

  function unable(x: Exchange, cause: unknown): Refusal {
    if (!(cause instanceof NoAnswer)) throw cause
    if (x.at >= told + TOLD_MS) {
      told = x.at
      const { host } = new URL(scheme.url)
      log.warn('access tokens cannot be validated', { api_id: api.id, host, reason: cause.message })
    }
    return unanswered
  }

  function identify(x: Exchange, { claims, ends }: Answer): Outcome | Promise<Outcome> {
    const name = claims === null ? null : claimedName(claims, subject)
    if (name === null) return failed(x, events, invalid)
    x.claims = claims
    x.validUntil = Math.min(x.validUntil, ends)
    const { orgId: org } = api
    const session = identities.session({ org, name, policies, areDefaults: true, until: ends, lifetime })
    return session instanceof Promise ? session.then(late => enter(x, late)) : enter(x, session)
  }

  function enter(x: Exchange, session: Session | Refusal): Outcome {
    if (!(session instanceof Session)) return failed(x, events, session)
    x.key = session
    return undefined
  }

  return {
    kind: 'introspection',
    run(x) {
      const token = withoutBearer(credentialAt(x, locations))
      if (token === '') return missing
      x.credential = token
      const answer = answerOf(token, x.at)
      if (!(answer instanceof Promise)) return identify(x, answer)
      return answer.then(
        late => identify(x, late),
        cause => unable(x, cause)
      )
    }
  }
}

/** @param cacheMs 0: nothing is remembered */
function read(claims: Claims, now: number, cacheMs: number): Answer {
  const ends = claims.exp === undefined ? Number.POSITIVE_INFINITY : timeOf(claims.exp)
  const begins = claims.nbf === undefined ? Number.NEGATIVE_INFINITY : timeOf(claims.nbf)
  // What is no number is NaN, and then neither comparison is true.
  if (claims.active === true && now < ends && now >= begins)
    return { claims, ends, until: Math.min(now + cacheMs, ends) }
  const until = now + Math.min(cacheMs, REFUSED_MS)
  return { claims: null, ends: now, until: begins > now ? Math.min(until, begins) : until }
}

/** Unix seconds as milliseconds; NaN: it is no time. */
function timeOf(value: unknown): number {
  return typeof value === 'number' ? value * 1000 : Number.NaN
}
