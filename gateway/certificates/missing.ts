import type { GatewaySettings } from '../../config/settings.ts'
import type { Clock, Log } from '../../config/world.ts'
import type { Api } from '../api.ts'
import { type Certificates, isFile } from './certificates.ts'
import { certificatesOf, certificatesOfSettings } from './named.ts'

/** APIs as they are now, and whoever hears of their changes. */
interface KnownApis {
  all(): readonly Api[]
  onChange(listener: () => void): () => void
}

/** So long after a change: who saves an API and then its certificate is told nothing. */
const AFTER_MS = 1_000

/**
 * Says in the log which certificates active APIs and the settings name that are not there, each once until it has come. An API
 * may be saved before its certificates, as imports do: what needs them refuses until then. The answer ends it.
 */
export function tellMissing(given: {
  readonly apis: KnownApis
  readonly certificates: Pick<Certificates, 'held' | 'onChange'>
  readonly settings: GatewaySettings
  readonly clock: Clock
  readonly log: Log
}): () => void {
  const { apis, certificates, settings, clock, log } = given
  // A file that cannot be read is told by whoever reads it.
  const settled = certificatesOfSettings(settings).filter(id => !isFile(id))
  let told = new Set<string>()
  let cancel: (() => void) | null = null

  function look(): void {
    cancel = null
    const missing = new Set<string>()
    for (const api of apis.all())
      for (const certificate of api.active ? certificatesOf(api) : []) {
        if (certificates.held(certificate, api.orgId) !== null) continue
        const name = JSON.stringify([api.id, certificate])
        missing.add(name)
        if (!told.has(name)) log.warn('an API names a certificate that is not there', { api_id: api.id, certificate })
      }
    for (const certificate of settled) {
      if (certificates.held(certificate, null) !== null || missing.has(certificate)) continue
      missing.add(certificate)
      if (!told.has(certificate)) log.warn('the settings name a certificate that is not there', { certificate })
    }
    told = missing
  }

  function lookSoon(): void {
    cancel ??= clock.after(AFTER_MS, look)
  }

  const stops = [apis.onChange(lookSoon), certificates.onChange(lookSoon)]
  lookSoon()
  return () => {
    for (const stop of stops) stop()
    cancel?.()
  }
}
