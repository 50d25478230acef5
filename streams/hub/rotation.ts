import type { GroupSeat } from './groupSeat.ts'
import { KeySlots } from './keySlots.ts'
import type { Entry } from './partitionQueue.ts'
import { Ring } from './ring.ts'

/** So many are looked at to find the place of one that has room again; with more, it comes a little early or late. */
const MOST_STEPS = 64

/** The clients of a group, and whose turn it is. */
export class Rotation {
  readonly seats = new Set<GroupSeat>()
  /** Those that have room, as far as is known. */
  readonly #ring = new Ring<GroupSeat>()
  /** Null: turns alone. */
  readonly #slots: KeySlots<GroupSeat> | null
  /** Clients that do not want everything. */
  #filtering = 0
  /** How often clients were asked whether they want something. */
  asked = 0
  /** Counts what was given in turn. */
  #turn = 0

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

  /** It comes behind those that were served longer ago. */
  back(seat: GroupSeat): void {
    const ring = this.#ring
    let next: GroupSeat | null = null
    let other = ring.current?.ringPrevious ?? null
    for (let i = Math.min(ring.size, MOST_STEPS); i > 0 && other!.servedAt > seat.servedAt; i--) {
      next = other
      other = other!.ringPrevious
    }
    if (next === null) ring.add(seat)
    else ring.insert(seat, next)
  }

  rest(seat: GroupSeat): void {
    this.#ring.remove(seat)
  }

  /**
   * Of those that have room and want it, the one that was served longest ago; null: nobody. Who does not want it keeps its
   * place, and so has the next one that it wants. Each client is asked once at most.
   */
  next(entry: Entry): GroupSeat | null {
    const ring = this.#ring
    let seat = ring.current
    for (let i = ring.size; i > 0; i--) {
      const following = seat!.ringNext!
      if (!seat!.hasRoom()) ring.remove(seat!)
      else if (this.#filtering === 0 || this.wants(seat!, entry)) {
        this.served(seat!)
        return seat
      }
      seat = following
    }
    return null
  }

  wants(seat: GroupSeat, entry: Entry): boolean {
    if (seat.client.wants === null) return true
    this.asked++
    return seat.client.wants(entry)
  }

  served(seat: GroupSeat): void {
    const ring = this.#ring
    seat.servedAt = ++this.#turn
    if (seat === ring.current) return ring.advance()
    if (!ring.has(seat)) return
    ring.remove(seat)
    ring.add(seat)
  }

  isByKey(entry: Entry): boolean {
    return this.#slots !== null && entry.record.key !== null
  }

  /** Whose the key is among those that want it, with or without room; null: nobody wants it. */
  ofKey(entry: Entry): GroupSeat | null {
    return this.#slots!.of(entry.record.key!, this.#filtering === 0 ? null : seat => this.wants(seat, entry))
  }

  /** Of one for which there is no `next`: whether somebody wants it that has no room. */
  isWanted(entry: Entry): boolean {
    if (this.#filtering < this.seats.size) return true
    for (const seat of this.seats) if (!this.has(seat) && this.wants(seat, entry)) return true
    return false
  }
}
