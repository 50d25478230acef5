/** So many slots keys fall into: a thousand clients have sixteen each, and coming or going costs one pass over them (50 µs). */
const SLOTS = 16_384

/** Tells one owner from another for good: the n-th that ever came. */
export interface Numbered {
  readonly number: number
}

/**
 * Who gets the messages of a key: each slot belongs to the owner with the highest weight there (rendezvous hashing), so one
 * that comes takes slots only for itself, and those of one that goes are all that move.
 */
export class KeySlots<T extends Numbered> {
  readonly #owners: (T | null)[] = new Array<T | null>(SLOTS).fill(null)
  /** Theirs, of each slot. */
  readonly #weights = new Uint32Array(SLOTS)
  readonly #all = new Set<T>()

  add(owner: T): void {
    this.#all.add(owner)
    for (let slot = 0; slot < SLOTS; slot++) {
      const mine = weight(slot, owner)
      if (this.#owners[slot] !== null && mine <= this.#weights[slot]!) continue
      this.#owners[slot] = owner
      this.#weights[slot] = mine
    }
  }

  remove(owner: T): void {
    if (!this.#all.delete(owner)) return
    for (let slot = 0; slot < SLOTS; slot++)
      if (this.#owners[slot] === owner) this.#owners[slot] = this.#best(slot, null)
  }

  /** Whose the key is. Null: there is nobody, or nobody of those for whom `may` is true. */
  of(key: Buffer, may: ((owner: T) => boolean) | null): T | null {
    const slot = hash(key) % SLOTS
    const owner = this.#owners[slot]!
    return owner === null || may === null || may(owner) ? owner : this.#best(slot, may)
  }

  #best(slot: number, may: ((owner: T) => boolean) | null): T | null {
    let best: T | null = null
    let most = -1
    for (const owner of this.#all) {
      const mine = weight(slot, owner)
      if (mine <= most || (may !== null && !may(owner))) continue
      best = owner
      most = mine
    }
    return best
  }
}

function weight(slot: number, { number }: Numbered): number {
  return mixed(Math.imul(slot + 1, 0x9e3779b1) ^ mixed(number + 1))
}

/** FNV-1a, mixed once more: its low bits alone spread short keys badly. */
function hash(key: Buffer): number {
  let h = 0x811c9dc5
  for (let i = 0; i < key.length; i++) h = Math.imul(h ^ key[i]!, 0x01000193)
  return mixed(h)
}

/** The last steps of MurmurHash3: each bit of the input changes half of the output's. */
function mixed(h: number): number {
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}
