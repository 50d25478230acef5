import { addresses, within } from '../addresses.ts'
import { refusals } from '../refusals.ts'
import type { Step } from './step.ts'

/** `server.ipAccessControl`: an address on the block list, or off a list of allowed ones, is refused. */
export const ipAccess: Step = {
  name: 'ipAccess',
  make(api) {
    if (api.addresses === null) return null
    const allowed = addresses(api.addresses.allow)
    const blocked = addresses(api.addresses.block)
    const allowsAll = api.addresses.allow.length === 0
    return {
      run: x =>
        (allowsAll || within(allowed, x.client)) && !within(blocked, x.client) ? undefined : refusals.ipDisallowed
    }
  }
}
