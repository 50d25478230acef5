import { Cluster, Redis, type RedisOptions } from 'ioredis'
import type { Clock, Log } from '../../config/world.ts'
import { type CountersSettings, type Places, placesOf } from './address.ts'
import { causeOf, isHopeless, noAnswer, notConnected, tlsHint } from './faults.ts'
import { logins } from './logins.ts'
import type { RedisLink } from './redis.ts'
import { scripts } from './scripts.ts'
import { subscriptions } from './subscriptions.ts'
import { checkVersion } from './version.ts'

export interface OpenRedisTools {
  readonly clock: Clock
  readonly log: Log
}

const START_MS = 30_000
const END_MS = 500

/**
 * Connects, and resolves once Redis answers and is one that the gateway can use. An unreachable Redis is tried for 30
 * seconds.
 * @throws Error in one line without the password: unreachable, wrong password, too few rights, another version
 */
export async function openRedis(settings: CountersSettings, { clock, log }: OpenRedisTools): Promise<RedisLink> {
  const places = placesOf(settings)
  const options = optionsOf(places, clock)
  const commands = places.isCluster ? clusterOf(places, options) : new Redis({ ...places.hosts[0]!, ...options })
  const quiet = logins(log)
  if (commands instanceof Redis) quiet(commands)
  else commands.on('+node', quiet)
  const listeners = new Set<(isConnected: boolean) => void>()
  let wasConnected = false
  const tell = () => {
    const isConnected = commands.status === 'ready'
    if (isConnected === wasConnected) return
    wasConnected = isConnected
    for (const listener of [...listeners]) listener(isConnected)
  }
  for (const event of ['ready', 'close', 'end', 'reconnecting']) commands.on(event, tell)
  try {
    await started(commands, clock, places.tls !== undefined)
    await checkVersion(commands, settings.key_prefix)
  } catch (cause) {
    commands.disconnect()
    throw new Error(`Redis (storage.counters): ${causeOf(cause)}`)
  }
  const { subscribe, close } = subscriptions({ places, options, commands, clock, log, quiet })

  return {
    commands,
    isCluster: places.isCluster,
    prefix: settings.key_prefix,
    get isConnected() {
      return commands.status === 'ready'
    },
    onConnected(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    script: scripts(commands),
    async publish(channel, message) {
      await commands.publish(channel, message)
    },
    subscribe,
    async close() {
      close()
      if (commands.status === 'end') return
      await new Promise<void>(resolve => {
        // One that waits for its next try ends without a word.
        const cancel = clock.after(END_MS, resolve)
        commands.once('end', () => {
          cancel()
          resolve()
        })
        commands.disconnect()
      })
    }
  }
}

function optionsOf({ username, password, db, tls }: Places, clock: Clock): RedisOptions {
  let reconnectedAt = Number.NEGATIVE_INFINITY
  return {
    // Redis 5 knows no other.
    protocol: 2,
    disableClientInfo: true,
    db,
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(tls !== undefined && { tls }),
    lazyConnect: true,
    connectTimeout: 1000,
    retryStrategy: backOff,
    maxLoadingRetryTime: 100,
    // Nothing waits for a connection, and nothing is sent twice: a charge that may have arrived is not repeated.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // A connection that owes answers and brings none for so long is given up.
    socketTimeout: 2000,
    // After a failover the old primary is read-only, and the same name leads to the new one.
    reconnectOnError(error) {
      if (!/\bREADONLY\b/.test(error.message) || clock.now() - reconnectedAt < 1000) return false
      reconnectedAt = clock.now()
      return true
    }
  }
}

/** Milliseconds before the next try: 25 at first, then doubling up to 500. */
function backOff(tries: number): number {
  return Math.min(25 * 2 ** Math.min(tries - 1, 5), 500)
}

function clusterOf({ hosts }: Places, options: RedisOptions): Cluster {
  const { retryStrategy: _, enableOfflineQueue: __, ...redisOptions } = options
  const cluster = new Cluster([...hosts], {
    redisOptions,
    lazyConnect: true,
    clusterRetryStrategy: backOff,
    // Names stay names, as certificates are for them.
    dnsLookup: (host, found) => found(null, host),
    slotsRefreshTimeout: 1000,
    // A node that is gone or a cluster that is down is a fault for the caller, at once. A slot that moves is followed.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnTryAgain: 10
  })
  // Otherwise each node's first request would wait for its connection.
  cluster.on('+node', (node: Redis) => {
    if (node.status === 'wait') node.connect().catch(() => {})
  })
  return cluster
}

function started(commands: Redis | Cluster, clock: Clock, isTls: boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    let last: unknown = new Error(noAnswer)
    const giveUp = clock.after(START_MS, () => {
      cancel()
      reject(new Error(`${causeOf(last)}, for 30 seconds${tlsHint(last, isTls)}`))
    })
    const failed = (error: unknown) => {
      // "Not connected" says less than why.
      if (causeOf(error) !== notConnected) last = error
      if (!isHopeless(error)) return
      cancel()
      reject(new Error(causeOf(error) + tlsHint(error, isTls)))
    }
    const ready = () => {
      cancel()
      resolve()
    }
    const cancel = () => {
      giveUp()
      commands.off('ready', ready)
      for (const event of events) {
        commands.off(event, failed)
        // Whoever listens for the connection hears of what follows; without a listener it would end the process.
        commands.on(event, () => {})
      }
    }
    const events = ['error', 'node error']
    for (const event of events) commands.on(event, failed)
    commands.once('ready', ready)
    // What it rejects with comes as an event too.
    commands.connect().catch(() => {})
  })
}
