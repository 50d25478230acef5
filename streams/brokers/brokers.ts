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
   * @throws Undelivered when the addresses are none
   */
  get(options: BrokerOptions): Broker
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

  function open(name: string | null, options: BrokerOptions): Shared {
    const broker =
      name === null
        ? given.kafka({ ...options, addresses: servers(options.addresses) })
        : new MemoryBroker({ name, settings: memory, durable, clock, log })
    let { isUp } = broker.state()
    const stopListening = broker.onState(state => {
      if (state.isUp === isUp) return
      isUp = state.isUp
      given.status({ broker: broker.name, isUp, fault: state.fault })
    })
    return { broker, users: 0, cancelEnd: () => {}, stopListening }
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
    get(options) {
      if (isClosed) throw new Undelivered('unavailable', 'the gateway stops')
      const fault = addressFault(options.addresses)
      if (fault !== null) throw new Undelivered('misconfigured', fault)
      const name = memoryName(options.addresses)
      const id = idOf(name, options)
      const shared = all.get(id) ?? open(name, options)
      all.set(id, shared)
      shared.cancelEnd()
      shared.users++
      return new BrokerHandle(shared.broker, () => {
        shared.users--
        if (shared.users > 0 || name !== null || isClosed) return
        shared.cancelEnd = clock.after(warmMs, () => end(id, shared))
      })
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

/** Equal for what is the same cluster and credentials; an embedded broker has its name alone. */
function idOf(name: string | null, { addresses, client_id = '', tls = {}, sasl = {} }: BrokerOptions): string {
  if (name !== null) return `memory://${name}`
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
