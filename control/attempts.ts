import type { Clock } from '../config/world.ts'
import { network } from '../gateway/addresses.ts'

/** Addresses remembered at most; beyond, those whose minute began first leave. */
const REMEMBERED = 50_000
const MINUTE_MS = 60_000

/** Counts wrong credentials by client address, a minute at a time. */
export class Attempts {
  readonly #most: number
  readonly #clock: Pick<Clock, 'now'>
  readonly #byAddress = new Map<string, { readonly since: number; count: number }>()

  /** @param most wrong credentials in a minute; 0: no bound */
  constructor(most: number, clock: Pick<Clock, 'now'>) {
    this.#most = most
    this.#clock = clock
  }

  /** Counts a wrong credential; answers for how many seconds the address has to wait, or 0: it was within bounds. */
  wrong(address: string): number {
    if (this.#most === 0) return 0
    const now = this.#clock.now()
    const from = network(address)
    let known = this.#byAddress.get(from)
    if (known === undefined || now - known.since >= MINUTE_MS || now < known.since) {
      this.#byAddress.delete(from)
      if (this.#byAddress.size >= REMEMBERED) this.#byAddress.delete(this.#byAddress.keys().next().value!)
      known = { since: now, count: 0 }
      this.#byAddress.set(from, known)
    }
    known.count++
    return known.count > this.#most ? Math.ceil((known.since + MINUTE_MS - now) / 1000) : 0
  }
}
