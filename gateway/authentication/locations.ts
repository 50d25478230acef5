import type { TokenLocation } from '../api.ts'
import type { Exchange } from '../exchange.ts'
import { cookieOf, queryOf, withoutCookie, withoutQuery } from '../values.ts'

/** Where credentials stand in a request (semantics §6.3). */

/** The credential of a request; '' where none is: header, then query, then cookie, and a later one that is not empty wins. */
export function credentialAt(x: Exchange, locations: readonly TokenLocation[]): string {
  let credential = ''
  for (let i = 0; i < locations.length; i++) {
    const value = valueAt(x, locations[i]!)
    if (value !== null && value !== '') credential = value
  }
  return credential
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
export function withoutBearer(value: string): string {
  return value.length >= 7 && value.charCodeAt(6) === 32 && value.slice(0, 7).toLowerCase() === 'bearer '
    ? value.slice(7).trim()
    : value
}

/** Empties every place where a credential may stand, in a request to the upstream. */
export function stripLocations(locations: readonly TokenLocation[], x: Exchange, pairs: string[]): void {
  for (const { in: place, name } of locations) {
    if (place === 'query') x.query = withoutQuery(x.query, name)
    else
      for (let i = pairs.length - 2; i >= 0; i -= 2) {
        const lower = pairs[i]!.toLowerCase()
        if (place === 'header' ? lower !== name : lower !== 'cookie') continue
        const kept = place === 'header' ? '' : withoutCookie(pairs[i + 1]!, name)
        if (kept === '') pairs.splice(i, 2)
        else pairs[i + 1] = kept
      }
  }
}
