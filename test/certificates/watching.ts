import { randomBytes } from 'node:crypto'
import type { Test } from 'tap'
import { load } from '../../config/load.ts'
import { details } from '../../control/certificates/details.ts'
import type { Certificate } from '../../gateway/certificates/certificates.ts'
import { Notices } from '../../gateway/certificates/notices.ts'
import { openWatch } from '../../gateway/certificates/openWatch.ts'
import { sweeping } from '../../gateway/certificates/sweep.ts'
import { eventBus, type GatewayEvent } from '../../gateway/events.ts'
import type { Store } from '../../gateway/store/store.ts'
import type { Made } from '../helpers/certificates.ts'
import type { HandClock } from '../helpers/clock.ts'
import { collectedLog, SECRET } from '../helpers/gateway.ts'

export const DAY = 86_400_000
export const HOUR = 3_600_000

/** Turns of the event loop until a memory store has answered whatever was asked of it. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 30; turn++) await new Promise<void>(resolve => setImmediate(resolve))
}

/** Date of so many milliseconds, as certificates are made with. */
export const iso = (ms: number) => new Date(ms).toISOString()

/** One process of an installation: what it tells, as `event name: message`. */
export function process(
  given: { store: Store; clock: HandClock; files?: readonly Certificate[] },
  monitor: Record<string, number> = {}
) {
  const { gateway: settings } = load({
    file: JSON.stringify({ gateway: { secret: SECRET, security: { certificate_expiry_monitor: monitor } } }),
    env: {}
  })
  const log = collectedLog()
  const events = eventBus(given.clock, log)
  const emitted: GatewayEvent[] = []
  events.listen(event => void emitted.push(event))
  const tools = { ...given, events, settings, random: { bytes: randomBytes }, log }
  return {
    log,
    events,
    emitted,
    notices: new Notices(tools),
    /** What was told since it was last asked. */
    told: () => emitted.splice(0).map(({ name, message }) => `${name}: ${message}`),
    watch: (t: Test) => {
      const watch = openWatch(tools)
      t.teardown(() => watch.close())
      return watch
    },
    sweep: (t: Test) => {
      const stop = sweeping({ ...tools, certificates: { all: () => given.files ?? [] } })
      t.teardown(stop)
      return stop
    }
  }
}

/** Keeps it as an upload does; answers its id. */
export async function keep(store: Store, { certificate, pem }: Made, org = 'default', sealedKey = ''): Promise<string> {
  const id = org + certificate.fingerprint256.replaceAll(':', '').toLowerCase()
  const body = { details: details(certificate, id, sealedKey !== ''), pem, sealedKey }
  await store.commit([{ kind: 'certificate', id, org, body }])
  return id
}

/** A store that a test sends away. */
export function fragile(store: Store, away: (what: 'get' | 'commit') => Error | null): Store {
  return {
    ...store,
    get(kind, id) {
      const fault = away('get')
      if (fault !== null) throw fault
      return store.get(kind, id)
    },
    async commit(writes) {
      const fault = away('commit')
      if (fault !== null) throw fault
      return store.commit(writes)
    }
  }
}
