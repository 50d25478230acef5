import type { Authentication, Scheme, TokenLocation } from '../api.ts'
import { schemesOf } from '../documents/readAuthentication.ts'
import type { Exchange } from '../exchange.ts'
import { stripLocations } from './locations.ts'

const SIGNATURE_FIELDS: readonly TokenLocation[] = [
  { in: 'header', name: 'signature' },
  { in: 'header', name: 'signature-input' }
]

/** `stripAuthorizationData`: takes every credential out of a request to the upstream, whichever method has read it. */
export function strip(authentication: Authentication): (x: Exchange, pairs: string[]) => void {
  const places = schemesOf(authentication).flatMap(placesOf)
  return (x, pairs) => stripLocations(places, x, pairs)
}

function placesOf(scheme: Scheme): readonly TokenLocation[] {
  switch (scheme.kind) {
    case 'basic':
      // A body goes up as it came.
      return scheme.body === null ? scheme.locations : []
    case 'token':
      return [...scheme.locations, ...(scheme.signature?.locations ?? [])]
    case 'message-signature':
      return SIGNATURE_FIELDS
    default:
      return scheme.locations
  }
}
