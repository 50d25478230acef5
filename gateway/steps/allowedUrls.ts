import { refusals } from '../refusals.ts'
import type { Step } from './step.ts'

/** `allowed_urls` of the key's access right. */
export const allowedUrls: Step = {
  name: 'allowedUrls',
  make(api) {
    if (api.authentication === null) return null
    return {
      run: x => (x.grant === null || x.grant.allows(x.method, x.rest) ? undefined : refusals.resourceDisallowed)
    }
  }
}
