import { refusals } from '../refusals.ts'
import type { Step } from './step.ts'

/** Which operation of the document a request is; expired APIs, blocked operations and those not on an allow list end here. */
export const operation: Step = {
  name: 'operation',
  make(api) {
    const { expires, allowList } = api
    const some = api.operations.length > 0
    if (!some && expires === Number.POSITIVE_INFINITY) return null
    return {
      run(x) {
        if (x.at >= expires) return refusals.apiExpired
        if (!some) return undefined
        const found = api.operation(x.method, x.rest)
        x.operation = found
        if (found === null ? allowList : found.block || (allowList && !found.allow)) return refusals.endpointForbidden
        return undefined
      }
    }
  }
}
