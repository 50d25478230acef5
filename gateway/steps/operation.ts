import { refusals } from '../refusals.ts'
import { isLimitsPage } from './limitsPage.ts'
import type { Step } from './step.ts'

/** Which operation of the document a request is; expired APIs, blocked operations and those not on an allow list end here. */
export const operation: Step = {
  name: 'operation',
  make(api) {
    const { expires, allowList } = api
    const authenticated = api.authentication !== null
    const some = api.operations.length > 0
    if (!some && expires === Number.POSITIVE_INFINITY) return null
    return {
      run(x) {
        if (x.at >= expires) return refusals.apiExpired
        if (!some) return undefined
        const found = api.operation(x.method, x.rest)
        x.operation = found
        if (found !== null) return found.block || (allowList && !found.allow) ? refusals.endpointForbidden : undefined
        // With a key, the page of its limits is the gateway's own: the step `limits` answers it.
        return allowList && !(authenticated && isLimitsPage(x)) ? refusals.endpointForbidden : undefined
      }
    }
  }
}
