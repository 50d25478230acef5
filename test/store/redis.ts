import { load } from '../../config/load.ts'
import type { CountersSettings } from '../../gateway/redis/address.ts'

/** `storage.counters` as the settings would give it. */
export function counters(given: { url?: string; nodes?: readonly string[]; key_prefix: string }): CountersSettings {
  const file = JSON.stringify({ storage: { counters: { type: 'redis', ...given } } })
  return load({ file, env: { SVC_GATEWAY__SECRET: 'a secret of the tests' } }).storage.counters
}
