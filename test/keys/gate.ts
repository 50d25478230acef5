import { randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Settings } from '../../config/settings.ts'
import type { Key } from '../../config/shape/key.ts'
import { compile, type Fault } from '../../config/validate.ts'
import type { Clock, Log } from '../../config/world.ts'
import { keys as keyRows } from '../../control/endpoints/keys.ts'
import { policies as policyRows } from '../../control/endpoints/policies.ts'
import { control } from '../../control/server.ts'
import type { ControlTools } from '../../control/tools.ts'
import type { Api } from '../../gateway/api.ts'
import { changesLocal } from '../../gateway/changes/changesLocal.ts'
import { countersMemory } from '../../gateway/counters/countersMemory.ts'
import { eventBus, type GatewayEvent } from '../../gateway/events.ts'
import { Keys } from '../../gateway/keys/keys.ts'
import { Policies } from '../../gateway/keys/policies.ts'
import type { Store } from '../../gateway/store/store.ts'
import { storeMemory } from '../../gateway/store/storeMemory.ts'

export const quiet: Log = { debug() {}, info() {}, warn() {}, error() {} }

/** A clock that stands until it is moved. */
export function handClock(start = Date.UTC(2030, 0, 1)) {
  let now = start
  let timers: { at: number; run: () => void }[] = []
  return {
    now: () => now,
    after(ms: number, run: () => void) {
      const timer = { at: now + ms, run }
      timers.push(timer)
      return () => {
        timers = timers.filter(one => one !== timer)
      }
    },
    move(ms: number) {
      now += ms
      const due = timers.filter(({ at }) => at <= now)
      timers = timers.filter(({ at }) => at > now)
      for (const { run } of due) run()
    }
  } satisfies Clock & { move(ms: number): void }
}

interface Given {
  readonly gateway?: Record<string, unknown>
  readonly store?: Store
  /** Known APIs: id to what differs from an API of `default` that resets quotas. */
  readonly apis?: Record<string, Partial<Pick<Api, 'orgId' | 'skipQuotaReset'>>>
}

interface Test {
  teardown(run: () => Promise<void> | void): void
}

/** Whatever an endpoint of keys and policies may answer. */
type Body = Key & {
  readonly key: string
  readonly key_hash: string
  readonly action: string
  readonly status: string
  readonly message: string
  readonly faults: readonly Fault[]
  readonly keys: readonly string[]
  readonly pages: number
}

/** Keys, policies and their endpoints over real HTTP; closes itself after the test. */
export async function gate(t: Test, { gateway = {}, store = storeMemory(), apis: given = {} }: Given = {}) {
  const settings = compile(Settings)({ gateway: { secret: 'secret', ...gateway } })
  const clock = handClock()
  const changes = changesLocal()
  const counters = countersMemory({ clock })
  const matching = { matching: settings.gateway.endpoint_matching, ignoreCase: false }
  const policies = new Policies({ store, changes, matching, path: settings.gateway.policies_path })
  const keys = new Keys({ store, policies, changes, clock, settings: settings.gateway })
  const events = eventBus(clock, quiet)
  const emitted: GatewayEvent[] = []
  events.listen(event => emitted.push(event))
  const apis = {
    get: (id: string) =>
      Object.hasOwn(given, id) ? ({ id, orgId: 'default', skipQuotaReset: false, ...given[id] } as Api) : null
  }
  const tools = {
    settings,
    store,
    audit: null,
    counters,
    changes,
    keys,
    policies,
    apis,
    events,
    clock,
    random: { bytes: randomBytes },
    log: quiet,
    reload: async () => []
  } as unknown as ControlTools
  const serve = control([...keyRows, ...policyRows], tools)
  const server = createServer((req, res) => {
    const [path = '', query = ''] = req.url!.split('?')
    serve(req, res, path, query, '127.0.0.1')
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(async () => {
    server.closeAllConnections()
    server.close()
    keys.close()
    policies.close()
    await store.close()
  })
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/svc`

  /** One call of the interface: its status and its parsed body. */
  async function ask(method: string, path: string, body?: unknown) {
    const answer = await fetch(base + path, {
      method,
      headers: { 'X-Svc-Authorization': 'secret' },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) })
    })
    return { status: answer.status, body: (await answer.json()) as Body }
  }

  /** Charges a key once on an API, as a request would; 'unknown', 'closed' or which limit refused. */
  async function call(token: string, apiId: string, org = 'default') {
    const session = await keys.find(org, token)
    if (session === null) return 'unknown'
    if (session.inactive) return 'inactive'
    const grant = session.grant(apiId)
    if (grant === null) return 'closed'
    const limits = [grant.rate, grant.quota].filter(each => each !== null)
    const { refused } = counters.charge(limits)
    return refused < 0 ? 'passed' : limits[refused]!.kind
  }

  return { ask, call, keys, policies, counters, clock, changes, store, emitted, settings }
}
