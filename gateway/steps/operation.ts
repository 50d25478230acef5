import type { Exchange } from '../exchange.ts'
import { type Refusal, refusals } from '../refusals.ts'
import { isLimitsPage } from './limitsPage.ts'
import type { Step } from './step.ts'

/**
 * A segment of parameters alone (`/;id=5`): to some upstreams it is none, to others one of its own. No rule could mean
 * both, so no such request passes where there are rules.
 */
const BARE = /(?:[/\\]|%2f|%5c)(?:;|%3b)/i

/**
 * Which operation of the document a request is; expired APIs, blocked operations and those not on an allow list end
 * here. Answers of an API that will expire carry `x-svc-api-expires` (semantics §8.2).
 */
export const operation: Step = {
  name: 'operation',
  make(api, { events }) {
    const { expires, allowList } = api
    const authenticated = api.authentication !== null
    const some = api.operations.length > 0
    const expiring = expires !== Number.POSITIVE_INFINITY
    if (!some && !expiring) return null
    const date = expiring ? new Date(expires).toUTCString() : ''

    function no(x: Exchange, refusal: Refusal): Refusal {
      events.emit('VersionFailure', refusal.message, { apiId: api.id, path: x.path, origin: x.client })
      return refusal
    }

    return {
      run(x) {
        if (x.at >= expires) return no(x, refusals.apiExpired)
        if (!some) return undefined
        if (!x.plain && BARE.test(x.path)) return no(x, refusals.endpointForbidden)
        const found = api.operation(x.method, x.rest)
        x.operation = found
        if (found !== null)
          return found.block || (allowList && !found.allow) ? no(x, refusals.endpointForbidden) : undefined
        // With a key, the page of its limits is the gateway's own: the step `limits` answers it.
        return allowList && !(authenticated && isLimitsPage(x)) ? no(x, refusals.endpointForbidden) : undefined
      },
      ...(expiring
        ? {
            head(x, _status, pairs) {
              if (x.at < expires) pairs.push('x-svc-api-expires', date)
            }
          }
        : {})
    }
  }
}
