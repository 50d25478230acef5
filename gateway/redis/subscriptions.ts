import { type Cluster, Redis, type RedisOptions } from 'ioredis'
import type { Clock, Log } from '../../config/world.ts'
import type { Places } from './address.ts'
import { causeOf } from './faults.ts'
import type { RedisLink } from './redis.ts'

type Listener = (message: string | null) => void

export interface SubscriptionsGiven {
  readonly places: Places
  readonly options: RedisOptions
  readonly commands: Redis | Cluster
  readonly clock: Clock
  readonly log: Log
  /** For each connection that is made. */
  readonly quiet: (redis: Redis) => void
}

const RETRY_MS = 250
const PING_MS = 1000

/**
 * Channels of publish/subscribe on one connection of its own, which is made when the first is asked for. In a cluster any
 * node will do, as messages go to all; another one is taken each time.
 */
export function subscriptions({ places, options, commands, clock, log, quiet }: SubscriptionsGiven) {
  const channels = new Map<string, Set<Listener>>()
  let redis: Redis | null = null
  let isClosed = false
  let tries = 0
  let cancel = () => {}

  function connect(): void {
    cancel()
    if (isClosed || channels.size === 0) return
    const known = places.isCluster ? (commands as Cluster).nodes('master').map(({ options }) => options) : []
    const hosts = known.length > 0 && tries % 2 === 0 ? known : places.hosts
    const { host, port } = hosts[tries++ % hosts.length]!
    const fresh = new Redis({
      ...options,
      host: host!,
      port: port!,
      enableOfflineQueue: true,
      autoResubscribe: false,
      retryStrategy: () => null
    })
    quiet(fresh)
    redis = fresh
    fresh.on('error', () => {})
    fresh.on('ready', () => {
      ask(fresh, [...channels.keys()])
      keepAlive(fresh)
    })
    fresh.on('message', (channel: string, message: string) => {
      for (const listener of [...(channels.get(channel) ?? [])]) listener(message)
    })
    fresh.on('end', () => {
      if (redis !== fresh) return
      redis = null
      cancel()
      cancel = clock.after(tries < 2 ? 0 : RETRY_MS, connect)
    })
    fresh.connect().catch(() => {})
  }

  function ask(on: Redis, names: readonly string[]): void {
    on.subscribe(...names).then(
      () => {
        if (on !== redis) return
        for (const name of names) for (const listener of [...(channels.get(name) ?? [])]) listener(null)
      },
      error => {
        if (on !== redis) return
        if (on.status === 'ready') log.warn('Redis refuses a subscription', { cause: causeOf(error) })
        on.disconnect()
      }
    )
  }

  /** A connection that died without a word would be noticed by nobody: nothing else is asked there. */
  function keepAlive(on: Redis): void {
    cancel()
    cancel = clock.after(PING_MS, () => {
      if (on !== redis || on.status !== 'ready') return
      on.ping().then(
        () => {
          if (on === redis) keepAlive(on)
        },
        () => on.disconnect()
      )
    })
  }

  const subscribe: RedisLink['subscribe'] = (channel, listener) => {
    const known = channels.get(channel)
    // A function of its own for each listening, so that one listener may listen twice.
    const hear: Listener = message => listener(message)
    if (known !== undefined) {
      known.add(hear)
      if (redis?.status === 'ready') ask(redis, [channel])
    } else {
      channels.set(channel, new Set([hear]))
      if (redis === null) {
        tries = 0
        connect()
      } else if (redis.status === 'ready') ask(redis, [channel])
    }
    return () => {
      const left = channels.get(channel)
      if (left === undefined || !left.delete(hear) || left.size > 0) return
      channels.delete(channel)
      if (redis?.status === 'ready') redis.unsubscribe(channel).catch(() => {})
    }
  }

  return {
    subscribe,
    close() {
      isClosed = true
      cancel()
      channels.clear()
      redis?.disconnect()
    }
  }
}
