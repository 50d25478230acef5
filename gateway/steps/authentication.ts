import type { Authentication, TokenLocation } from '../api.ts'
import type { Exchange, Outcome } from '../exchange.ts'
import type { Session } from '../keys/keys.ts'
import { refusals } from '../refusals.ts'
import { cookieOf, queryOf } from '../values.ts'
import type { Step } from './step.ts'

/** Finds the key of a request by its token (semantics §6.3). Operations with `ignoreAuthentication` pass without one. */
export const authentication: Step = {
  name: 'authentication',
  make(api, { keys, events, settings }) {
    const { authentication } = api
    if (authentication === null) return null
    const { orgId } = api
    const least = settings.min_token_length

    function known(x: Exchange, session: Session | null): Outcome {
      if (session === null || session.hasPassword || x.at >= session.goneMs) return unknown(x)
      x.key = session
      return undefined
    }

    function unknown(x: Exchange): Outcome {
      events.emit('AuthFailure', 'Attempted access with invalid credential', {
        apiId: api.id,
        path: x.path,
        origin: x.client
      })
      return refusals.keyUnknown
    }

    return {
      run(x) {
        if (x.operation?.ignoreAuthentication) return undefined
        const credential = credentialOf(x, authentication)
        if (credential === '') return refusals.keyMissing
        if (credential.length < least) return unknown(x)
        x.credential = credential
        const found = keys.find(orgId, credential)
        return found instanceof Promise ? found.then(session => known(x, session)) : known(x, found)
      }
    }
  }
}

/** The token of a request; '' where none is: header, then query, then cookie, and a later one that is not empty wins. */
function credentialOf(x: Exchange, { locations }: Authentication): string {
  let credential = ''
  for (let i = 0; i < locations.length; i++) {
    const value = valueAt(x, locations[i]!)
    if (value !== null && value !== '') credential = value
  }
  return withoutBearer(credential)
}

function valueAt(x: Exchange, location: TokenLocation): string | null {
  if (location.in === 'header') return x.header(location.name)
  if (location.in === 'query') return x.query === '' ? null : queryOf(x.query, location.name)
  // A client may send several Cookie lines (RFC 9113 §8.2.3 allows it, and HTTP/1.1 servers take them as one).
  const raw = x.req.rawHeaders
  for (let i = 0; i < raw.length; i += 2) {
    if (raw[i]!.length !== 6 || raw[i]!.toLowerCase() !== 'cookie') continue
    const value = cookieOf(raw[i + 1]!, location.name)
    if (value !== null) return value
  }
  return null
}

/** Without the scheme, in any case, wherever the value came from. */

function withoutBearer(value: string): string {
  return value.length >= 7 && value.charCodeAt(6) === 32 && value.slice(0, 7).toLowerCase() === 'bearer '
    ? value.slice(7).trim()
    : value
}
