import type { Call } from './call.ts'
import { endpointsOf } from './hosted.ts'
import { SharedHubs } from './hub/sharedHubs.ts'
import type { Endpoint } from './plan.ts'
import { nos } from './refusals.ts'
import { type Router, router } from './router.ts'
import { RunningStream, type RunningTools } from './running.ts'
import type { StreamingApi, StreamStatus, Streams } from './streams.ts'

/** A path, and the stream that runs behind it. */
interface Served extends Endpoint {
  /** Null: it could not start. */
  readonly running: RunningStream | null
}

interface LiveApi {
  readonly access: string
  readonly router: Router<Served>
  readonly running: ReadonlyMap<string, RunningStream>
}

export interface LiveGiven extends Omit<RunningTools, 'hubs'> {
  /** `streaming.enabled` of both sections. */
  readonly isEnabled: boolean
}

/** The streams of all APIs that are loaded now. */
export function liveStreams(given: LiveGiven): Streams {
  const { settings, log, connections, clients } = given
  const tools: RunningTools = { ...given, hubs: new SharedHubs() }
  const apis = new Map<string, LiveApi>()
  /** Those that are closing, until they are closed, by the id of their API. */
  const ending = new Map<Promise<void>, { readonly id: string; readonly stream: RunningStream }>()
  let isDraining = false

  function end(id: string, stream: RunningStream, why: 'changed' | 'disabled' | 'stopping', seconds: number): void {
    const closed = stream.close(why, seconds * 1000).finally(() => ending.delete(closed))
    ending.set(closed, { id, stream })
  }

  /** What an API has left, earlier versions that still drain included, ends at once. */
  function stop(id: string, left: Iterable<RunningStream>): void {
    const draining = [...ending.values()].filter(each => each.id === id).map(({ stream }) => stream)
    for (const stream of new Set([...left, ...draining])) end(id, stream, 'disabled', 0)
  }

  function start(api: StreamingApi, before: LiveApi | undefined): LiveApi {
    const running = new Map<string, RunningStream>()
    for (const plan of api.plans) {
      const old = before?.running.get(plan.name)
      if (old !== undefined && old.plan.hash === plan.hash) {
        running.set(plan.name, old)
        continue
      }
      try {
        running.set(plan.name, new RunningStream(plan, api, tools))
      } catch (cause) {
        log.error('a stream did not start', { api_id: api.id, stream: plan.name, cause: String(cause) })
      }
    }
    const served = api.plans.flatMap(plan =>
      endpointsOf(plan).map((endpoint): Served => ({ ...endpoint, running: running.get(plan.name) ?? null }))
    )
    return { access: api.access, router: router(served), running }
  }

  return {
    apply(changed, removed) {
      if (!given.isEnabled || isDraining) return
      for (const id of removed) {
        const old = apis.get(id)
        apis.delete(id)
        stop(id, old?.running.values() ?? [])
      }
      for (const api of changed) {
        const old = apis.get(api.id)
        const fresh = api.isActive && api.plans.length > 0 ? start(api, old) : null
        if (fresh === null) {
          apis.delete(api.id)
          stop(api.id, old?.running.values() ?? [])
          continue
        }
        apis.set(api.id, fresh)
        if (old !== undefined && old.access !== api.access) connections.end(call => call.api === api.id, 'changed')
        for (const [name, stream] of old?.running ?? []) {
          const now = fresh.running.get(name)
          if (now === undefined) end(api.id, stream, 'disabled', 0)
          else if (now !== stream) end(api.id, stream, 'changed', settings.reload_drain)
        }
      }
    },
    handle(apiId: string, call: Call) {
      if (!given.isEnabled) return call.refuse(nos.off)
      if (isDraining) return call.refuse(nos.draining)
      const api = apis.get(apiId)
      if (api === undefined) return call.refuse(nos.broken)
      const found = api.router.find(call.method, call.path, call.upgrade !== null)
      if ('code' in found) return call.refuse(found)
      const { endpoint, params } = found
      if (endpoint.running === null) return call.refuse(nos.broken)
      call.params = params
      endpoint.running.handle(endpoint, call)
    },
    calls: () => connections.calls(),
    end: (is, why) => connections.end(is, why),
    status() {
      const rows: StreamStatus[] = []
      for (const id of [...apis.keys()].sort())
        for (const stream of apis.get(id)!.running.values()) rows.push(stream.status())
      return rows
    },
    async drain() {
      if (isDraining) return
      isDraining = true
      connections.drain()
      for (const [id, { running }] of apis)
        for (const stream of running.values()) end(id, stream, 'stopping', settings.drain_timeout)
      while (ending.size > 0) await Promise.all(ending.keys())
      clients.close()
      await given.brokers.close()
    }
  }
}
