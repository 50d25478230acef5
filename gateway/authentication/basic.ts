import type { BasicScheme } from '../api.ts'
import { ANSWERED, type Exchange, type Outcome } from '../exchange.ts'
import type { Session } from '../keys/keys.ts'
import { credentials, type Verdict } from '../passwords/credentials.ts'
import { passwords } from '../passwords/passwords.ts'
import { refusal } from '../refusals.ts'
import { readBody } from './basic/body.ts'
import { challenge } from './basic/challenge.ts'
import { readHeader, type UserAndPassword } from './basic/header.ts'
import { failed } from './failure.ts'
import { credentialAt } from './locations.ts'
import type { MakeMethod } from './method.ts'
import { wholeBody } from './wholeBody.ts'

const comeBack = ['Retry-After', '1']
const tooMany = refusal('too_many_attempts', 429, 'Too many authentication attempts', comeBack)
const full = refusal('passwords_full', 503, 'Service temporarily unavailable', comeBack)

/**
 * User names and passwords (RFC 7617, semantics §6.4): the key of this custom id, if it has this password. A remembered
 * password passes without a promise.
 */
export const basic: MakeMethod<BasicScheme> = (scheme, { name: realm, orgId }, tools) => {
  const { keys, events, settings, clock } = tools
  const { locations, rememberMs, body } = scheme
  const asks = ['WWW-Authenticate', challenge(realm)]
  const missing = refusal('auth_missing', 401, 'Authorization field missing', asks)
  const wrong = refusal('user_unauthorised', 401, 'User not authorised', asks)
  const whole = wholeBody(tools)

  function known(x: Exchange, given: UserAndPassword, session: Session | null): Outcome | Promise<Outcome> {
    const stored = passwordOf(session, x.at)
    const verdict = credentials.check({
      org: orgId,
      user: given.user,
      password: given.password,
      stored,
      address: x.client,
      at: x.at,
      rememberMs
    })
    if (!(verdict instanceof Promise)) return told(x, given.user, session, verdict)
    return verdict.then(late => (late === 'right' ? again(x, given.user, stored) : told(x, given.user, null, late)))
  }

  /** Hashing takes a while: the key may have changed, and its password as well. */
  async function again(x: Exchange, user: string, stored: string): Promise<Outcome> {
    const session = await keys.find(orgId, user)
    return told(x, user, session, passwordOf(session, x.at) === stored ? 'right' : 'wrong')
  }

  function told(x: Exchange, user: string, session: Session | null, verdict: Verdict): Outcome {
    switch (verdict) {
      case 'right':
        x.key = session
        x.credential = user
        return undefined
      case 'wrong':
        passwords.failed({ address: x.client, at: clock.now() })
        return failed(x, events, wrong)
      case 'too many':
        return tooMany
      case 'full':
        return full
    }
  }

  function identified(x: Exchange, given: UserAndPassword): Outcome | Promise<Outcome> {
    const found = given.user.length < settings.min_token_length ? null : keys.find(orgId, given.user)
    return found instanceof Promise ? found.then(session => known(x, given, session)) : known(x, given, found)
  }

  if (body !== null) {
    return {
      kind: 'basic',
      async run(x) {
        const given = await readBody(x, body, whole)
        return given === ANSWERED || 'status' in given ? given : identified(x, given)
      }
    }
  }
  return {
    kind: 'basic',
    run(x) {
      const value = credentialAt(x, locations)
      if (value === '') return missing
      const given = readHeader(value)
      return 'status' in given ? given : identified(x, given)
    }
  }
}

/** '': it has none that counts. */
function passwordOf(session: Session | null, at: number): string {
  return session !== null && session.proof === 'password' && at < session.goneMs
    ? session.key.basic_auth_data!.password!
    : ''
}
