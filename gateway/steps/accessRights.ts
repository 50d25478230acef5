import { refusals } from '../refusals.ts'
import type { Step } from './step.ts'

/** Whether the key opens this API at all; finds the limits that it grants there. */
export const accessRights: Step = {
  name: 'accessRights',
  make(api, { settings }) {
    if (api.authentication === null) return null
    // Made once: the session tells one way of matching from another by identity.
    const matching = api.ignoreCase ? { matching: settings.endpoint_matching, ignoreCase: true } : undefined
    return {
      run(x) {
        if (x.key === null) return undefined
        x.grant = x.key.grant(api.id, matching)
        return x.grant === null ? refusals.apiDisallowed : undefined
      }
    }
  }
}
