import type { StreamingSettings } from '../config/settings.ts'
import type { Call } from './call.ts'
import type { Ending } from './hub/hub.ts'
import { type No, nos } from './refusals.ts'

/** A connection that lives longer than an answer. */
interface Connection {
  readonly call: Call
  readonly close: (why: Ending) => void
}

/** Every long-lived connection of this process, under the bounds of the settings. */
export class Connections {
  readonly #bounds: Pick<StreamingSettings, 'max_clients' | 'max_clients_per_key' | 'max_clients_per_address'>
  readonly #all = new Set<Connection>()
  readonly #byKey = new Map<string, number>()
  readonly #byAddress = new Map<string, number>()
  #isDraining = false

  constructor(bounds: Pick<StreamingSettings, 'max_clients' | 'max_clients_per_key' | 'max_clients_per_address'>) {
    this.#bounds = bounds
  }

  get count(): number {
    return this.#all.size
  }

  /**
   * Lets one in: the answer takes it out again. A refusal when it would be one too many.
   * @param close ends it from our side; called once at most
   */
  enter(call: Call, close: (why: Ending) => void): (() => void) | No {
    const { max_clients, max_clients_per_key, max_clients_per_address } = this.#bounds
    if (this.#isDraining) return nos.draining
    if (this.#all.size >= max_clients) return nos.tooManyClients
    if (max_clients_per_key > 0 && call.key !== '' && (this.#byKey.get(call.key) ?? 0) >= max_clients_per_key)
      return nos.tooManyOfKey
    if (max_clients_per_address > 0 && (this.#byAddress.get(call.client) ?? 0) >= max_clients_per_address)
      return nos.tooManyOfKey
    const connection = { call, close }
    this.#all.add(connection)
    counted(this.#byKey, call.key, 1)
    counted(this.#byAddress, call.client, 1)
    return () => {
      if (!this.#all.delete(connection)) return
      counted(this.#byKey, call.key, -1)
      counted(this.#byAddress, call.client, -1)
    }
  }

  *calls(): Iterable<Call> {
    for (const { call } of this.#all) yield call
  }

  /** Ends those for which this is true. */
  end(is: (call: Call) => boolean, why: Ending): void {
    for (const { call, close } of [...this.#all]) if (is(call)) close(why)
  }

  /** Nobody is let in any more. */
  drain(): void {
    this.#isDraining = true
  }
}

function counted(counts: Map<string, number>, name: string, more: number): void {
  const count = (counts.get(name) ?? 0) + more
  if (count === 0) counts.delete(name)
  else counts.set(name, count)
}
