import type { Settings } from '../config/settings.ts'
import type { Clock, Log, Random } from '../config/world.ts'
import type { Apis } from '../gateway/apis.ts'
import type { Certificates } from '../gateway/certificates/certificates.ts'
import type { Changes } from '../gateway/changes/changes.ts'
import type { Counters } from '../gateway/counters/counters.ts'
import type { Events } from '../gateway/events.ts'
import type { KeySets } from '../gateway/jwks/keySets.ts'
import type { Keys } from '../gateway/keys/keys.ts'
import type { Policies } from '../gateway/keys/policies.ts'
import type { Store } from '../gateway/store/store.ts'
import type { Vault } from '../gateway/vault.ts'
import type { Streams } from '../streams/streams.ts'
import type { AuditTrail } from './audit.ts'
import type { People } from './users.ts'

/** What handlers may use; each names in its signature what it takes. */
export interface ControlTools {
  readonly settings: Settings
  /** Where a handler commits, the call's audit record goes along. */
  readonly store: Store
  readonly counters: Counters
  readonly changes: Changes
  readonly keys: Keys
  readonly policies: Policies
  readonly apis: Apis
  readonly events: Events
  readonly people: People
  readonly vault: Vault
  readonly keySets: KeySets
  readonly certificates: Pick<Certificates, 'all'>
  readonly streams: Pick<Streams, 'status'>
  /** Null: no records are made. */
  readonly audit: AuditTrail | null
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  /** Base URL of the data plane as it is bound, e.g. `http://127.0.0.1:8080`. */
  gatewayUrl(): string
  /** Reads the folders again; the faults that keep the old state, or none. */
  reload(): Promise<readonly string[]>
}
