import type { Api } from '../api.ts'
import { schemesOf } from '../documents/readAuthentication.ts'
import type { Exchange } from '../exchange.ts'
import type { Tools } from '../steps/step.ts'
import { stripLocations } from './locations.ts'
import { method } from './methods.ts'

/** `stripAuthorizationData`: takes every credential out of a request to the upstream, whichever method has read it. */
export function strip(api: Api, tools: Tools): (x: Exchange, pairs: string[]) => void {
  const each = schemesOf(api.authentication).map(scheme => {
    const { strip: own } = method(scheme, api, tools)
    return own ?? ((x: Exchange, pairs: string[]) => stripLocations(scheme.locations, x, pairs))
  })
  return (x, pairs) => {
    for (const empty of each) empty(x, pairs)
  }
}
