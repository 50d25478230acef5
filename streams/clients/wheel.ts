import type { Clock } from '../../config/world.ts'

/** One that wants to be looked at from time to time. */
export interface Watched {
  /** The wheel's own. */
  slot: number
  look(now: number): void
}

const SLOTS = 5
const TICK_MS = 100

/**
 * The one timer of all long-lived clients: everybody is looked at every half second, a fifth of them at a time, so that
 * heartbeats of many do not fall on one turn of the event loop and a client costs no timer of its own. It stands while
 * nobody is watched.
 */
export class Wheel {
  /** Milliseconds since the epoch, as of the last tick: asking costs nothing. */
  now: number
  readonly #clock: Clock
  readonly #slots: Set<Watched>[] = Array.from({ length: SLOTS }, () => new Set<Watched>())
  #next = 0
  #entered = 0
  #count = 0
  #cancel: (() => void) | null = null

  constructor(clock: Clock) {
    this.#clock = clock
    this.now = clock.now()
  }

  add(one: Watched): void {
    one.slot = this.#entered++ % SLOTS
    this.#slots[one.slot]!.add(one)
    this.#count++
    if (this.#cancel !== null) return
    this.now = this.#clock.now()
    this.#cancel = this.#clock.after(TICK_MS, this.#tick)
  }

  delete(one: Watched): void {
    if (!this.#slots[one.slot]!.delete(one)) return
    this.#count--
    if (this.#count === 0) this.close()
  }

  /** The clock's own time, for what is measured. */
  time(): number {
    return this.#clock.now()
  }

  close(): void {
    this.#cancel?.()
    this.#cancel = null
  }

  readonly #tick = (): void => {
    this.now = this.#clock.now()
    this.#cancel = this.#clock.after(TICK_MS, this.#tick)
    this.#next = (this.#next + 1) % SLOTS
    for (const one of this.#slots[this.#next]!) one.look(this.now)
  }
}
