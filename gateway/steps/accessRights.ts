import { refusals } from '../refusals.ts'
import type { Step } from './step.ts'

/** Whether the key opens this API at all; finds the limits that it grants there. */
export const accessRights: Step = {
  name: 'accessRights',
  make(api) {
    if (api.authentication === null) return null
    return {
      run(x) {
        if (x.key === null) return undefined
        x.grant = x.key.grant(api.id)
        return x.grant === null ? refusals.apiDisallowed : undefined
      }
    }
  }
}
