import { Recent } from '../keys/recent.ts'

/** So many wrong passwords … */
const MANY = 5
/** … within so many ms, and an address is one of those that guess. */
const WITHIN_MS = 10_000
/** Addresses that are kept in mind. */
const MOST_KEPT = 10_000

/** From where wrong passwords came lately. A right one takes nothing back: who guesses may have an account as well. */
export class Failures {
  /** When the last of them came, milliseconds since the epoch, the oldest first. */
  readonly #times = new Recent<number[]>(MOST_KEPT)

  add(address: string, at: number): void {
    const times = this.#times.get(address) ?? this.#times.set(address, [])
    if (times.length === MANY) times.shift()
    times.push(at)
  }

  areMany(address: string, at: number): boolean {
    const times = this.#times.get(address)
    return times !== undefined && times.length === MANY && Math.abs(at - times[0]!) < WITHIN_MS
  }
}
