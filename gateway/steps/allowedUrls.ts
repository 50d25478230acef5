import { refusals } from '../refusals.ts'
import { isLimitsPage } from './limitsPage.ts'
import type { Step } from './step.ts'

/** `allowed_urls` of the key's access right; they are about the API, so its own page of limits is open to every key. */
export const allowedUrls: Step = {
  name: 'allowedUrls',
  make(api) {
    if (api.authentication === null) return null
    return {
      run: x =>
        x.grant === null || x.grant.allows(x.method, x.rest) || isLimitsPage(x)
          ? undefined
          : refusals.resourceDisallowed
    }
  }
}
