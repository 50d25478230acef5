import type { GatewaySettings } from '../../config/settings.ts'
import type { Clock, Log } from '../../config/world.ts'
import type { Streams } from '../../streams/streams.ts'
import type { Api } from '../api.ts'
import type { Identities } from '../authentication/identities.ts'
import type { Certificates } from '../certificates/certificates.ts'
import type { CertificateWatch } from '../certificates/watch.ts'
import type { Counters } from '../counters/counters.ts'
import type { Events } from '../events.ts'
import type { After, Head, Run } from '../exchange.ts'
import type { KeySets } from '../jwks/keySets.ts'
import type { Keys } from '../keys/keys.ts'
import type { Forwarder } from '../proxy/proxy.ts'

/** What steps may use; each names in its signature what it takes. */
export interface Tools {
  readonly settings: GatewaySettings
  readonly clock: Clock
  readonly log: Log
  readonly keys: Keys
  readonly identities: Identities
  readonly keySets: KeySets
  readonly certificates: Certificates
  readonly watch: CertificateWatch
  readonly counters: Counters
  readonly events: Events
  readonly proxy: Forwarder
  readonly streams: Streams
}

export interface Step {
  readonly name: string
  /** Null when this API has no use for the step; then it costs nothing per request. */
  make(api: Api, tools: Tools): { run?: Run; head?: Head; after?: After } | null
}
