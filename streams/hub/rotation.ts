import type { GroupSeat } from './groupSeat.ts'
import { KeySlots } from './keySlots.ts'
import type { Entry } from './partitionQueue.ts'
import { Ring } from './ring.ts'

/** The clients of a group, and whose turn it is. */
export class Rotation {
  readonly seats = new Set<GroupSeat>()
  /** Those that have room, as far as is known. */
  readonly #ring = new Ring<GroupSeat>()
  /** Null: turns alone. */
  readonly #slots: KeySlots<GroupSeat> | null
  /** Clients that do not want everything. */
  #filtering = 0

  constructor(mode: 'turns' | 'keys') {
    this.#slots = mode === 'keys' ? new KeySlots() : null
  }

  /** Somebody does not want everything. */
  get isFiltering(): boolean {
    return this.#filtering > 0
  }

  /** A message can go somewhere, as far as is known: to a client, or aside, or into the queue of its own one. */
  get isOpen(): boolean {
    if (this.#ring.current !== null) return true
    return this.seats.size > 0 && (this.#filtering > 0 || this.#slots !== null)
  }

  /** It has no turn until it is `back`. */
  add(seat: GroupSeat): void {
    this.seats.add(seat)
    this.#slots?.add(seat)
    if (seat.client.wants !== null) this.#filtering++
  }

  remove(seat: GroupSeat): void {
    this.rest(seat)
    this.#slots?.remove(seat)
    if (this.seats.delete(seat) && seat.client.wants !== null) this.#filtering--
  }

  has(seat: GroupSeat): boolean {
    return this.#ring.has(seat)
  }

  back(seat: GroupSeat): void {
    this.#ring.add(seat)
  }

  rest(seat: GroupSeat): void {
    this.#ring.remove(seat)
  }

  /** The next in turn that has room and wants it; null: nobody. */
  next(entry: Entry): GroupSeat | null {
    const ring = this.#ring
    for (let i = ring.size; i > 0; i--) {
      const seat = ring.current!
      if (!seat.hasRoom()) {
        ring.remove(seat)
        continue
      }
      ring.advance()
      if (this.#filtering === 0 || seat.wants(entry)) return seat
    }
    return null
  }

  isByKey(entry: Entry): boolean {
    return this.#slots !== null && entry.record.key !== null
  }

  /** Whose the key is among those that want it, with or without room; null: nobody wants it. */
  ofKey(entry: Entry): GroupSeat | null {
    return this.#slots!.of(entry.record.key!, this.#filtering === 0 ? null : seat => seat.wants(entry))
  }

  isWanted(entry: Entry): boolean {
    if (this.#filtering < this.seats.size) return true
    for (const seat of this.seats) if (seat.wants(entry)) return true
    return false
  }
}
