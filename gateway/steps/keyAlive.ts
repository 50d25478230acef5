import { refusals } from '../refusals.ts'
import type { Step } from './step.ts'

/** Inactive and expired keys (semantics §4.4). */
export const keyAlive: Step = {
  name: 'keyAlive',
  make(api, { events }) {
    if (api.authentication === null) return null
    return {
      run(x) {
        const key = x.key
        if (key === null || (!key.inactive && x.at < key.expiresMs)) return undefined
        const refusal = key.inactive ? refusals.keyInactive : refusals.keyExpired
        events.emit('KeyExpired', refusal.message, { apiId: api.id, path: x.path, origin: x.client, key: key.hash })
        return refusal
      }
    }
  }
}
