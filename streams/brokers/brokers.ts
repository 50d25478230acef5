import { createHash } from 'node:crypto'
import type { StreamingSettings } from '../../config/settings.ts'
import type { Clock, Log } from '../../config/world.ts'
import type { Broker } from '../broker.ts'
import type { BrokerOptions } from '../connector.ts'
import { Undelivered } from '../undelivered.ts'
import { addressFault, memoryName, servers } from './addresses.ts'
import { BrokerHandle } from './brokerHandle.ts'
import { MemoryBroker } from './brokerMemory.ts'
import type { DurableLog } from './durableLog.ts'

/** A broker has gone down or come up again. */
export interface BrokerChange {
  /** As `Broker.name`. */
  readonly broker: string
  readonly isUp: boolean
  /** Null: it is up. */
  readonly fault: string | null
}

export interface BrokersGiven {
  readonly clock: Clock
  readonly log: Log
  readonly memory: StreamingSettings['memory']
  /** Where embedded brokers keep their logs; null: nowhere. */
  readonly durable: DurableLog | null
  /** Opens a real cluster's broker. @param options addresses one by one */
  kafka(options: BrokerOptions): Broker
  /** Hears of every change; the state that a broker opens with is none. */
  status(change: BrokerChange): void
}

export interface Brokers {
  /**
   * One broker a cluster and credentials, whoever asks; `close` of the answer gives it back. An embedded broker lives until the
   * registry is closed, a real one for a minute after it was given back last.
   * @param org an embedded broker belongs to an organisation: no credential stands between it and others
   * @throws Undelivered when the addresses are none
   */
  get(options: BrokerOptions, org?: string): Broker
  /** An embedded broker for one stream alone; it ends a minute after it was given back last. */
  own(api: string, stream: string): Broker
  /** Ends all of them. */
  close(): Promise<void>
}

/** A broker that nobody uses stays connected so long, ms: who reloads an API comes back to it at once. */
const warmMs = 60_000

interface Shared {
  readonly broker: Broker
  users: number
  cancelEnd: () => void
  stopListening: () => void
}

export function brokers(given: BrokersGiven): Brokers {
  const { clock, log, memory, durable } = given
  const all = new Map<string, Shared>()
  const ending = new Set<Promise<void>>()
  let isClosed = false

  function embedded(name: string): Broker {
    return new MemoryBroker({ name, settings: memory, durable, clock, log })
  }

  function shared(broker: Broker): Shared {
    let { isUp } = broker.state()
    const stopListening = broker.onState(state => {
      if (state.isUp === isUp) return
      isUp = state.isUp
      given.status({ broker: broker.name, isUp, fault: state.fault })
    })
    return { broker, users: 0, cancelEnd: () => {}, stopListening }
  }

  /** @param isKept it lives until the registry is closed, used or not */
  function used(id: string, isKept: boolean, open: () => Broker): Broker {
    if (isClosed) throw new Undelivered('unavailable', 'the gateway stops')
    const one = all.get(id) ?? shared(open())
    all.set(id, one)
    one.cancelEnd()
    one.users++
    return new BrokerHandle(
      one.broker,
      () => {
        one.users--
        if (one.users > 0 || isKept || isClosed) return
        one.cancelEnd = clock.after(warmMs, () => end(id, one))
      },
      () => used(id, isKept, open)
    )
  }

  function end(id: string, { broker, stopListening }: Shared): void {
    all.delete(id)
    stopListening()
    const ended = broker
      .close()
      .catch((error: Error) => log.warn('a broker did not close', { broker: broker.name, fault: error.message }))
      .finally(() => ending.delete(ended))
    ending.add(ended)
  }

  return {
    get(options, org = 'default') {
      const fault = addressFault(options.addresses)
      if (fault !== null) throw new Undelivered('misconfigured', fault)
      const named = memoryName(options.addresses)
      if (named === null)
        return used(idOf(options), false, () => given.kafka({ ...options, addresses: servers(options.addresses) }))
      // No name of a document holds this sign.
      const name = org === 'default' ? named : `${named}~${digest([org])}`
      return used(`memory://${name}`, true, () => embedded(name))
    },
    own(api, stream) {
      const name = `~${digest([api, stream])}`
      return used(`memory://${name}`, false, () => embedded(name))
    },
    async close() {
      isClosed = true
      for (const [id, shared] of [...all]) {
        shared.cancelEnd()
        end(id, shared)
      }
      await Promise.all(ending)
    }
  }
}

function digest(names: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(names)).digest('hex').slice(0, 32)
}

/** Equal for what is the same cluster and credentials. */
function idOf({ addresses, client_id = '', tls = {}, sasl = {} }: BrokerOptions): string {
  return JSON.stringify([servers(addresses).toSorted(), client_id, sorted(tls), sorted(sasl)])
}

/** The same with members in order, so that equal ones have equal texts. */
function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(sorted)
  return Object.entries(value)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([member, inner]) => [member, sorted(inner)])
}
