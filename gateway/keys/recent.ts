interface Slot<V> {
  readonly value: V
  used: boolean
}

/**
 * A bounded memory of what was used lately (CLOCK, "second chance"): a hit is one look into a Map and sets a mark; who
 * must make room takes the next one without a mark and wipes the marks that it passes. One leaves at a time.
 */
export class Recent<V> {
  readonly #size: number
  readonly #onLeave: (value: V) => void
  readonly #slots = new Map<string, Slot<V>>()
  // One iterator for the whole round: it goes on where it stood, also past what was added or deleted meanwhile.
  #hand = this.#slots.entries()

  /** @param onLeave told of each value that made room, was replaced or deleted */
  constructor(size: number, onLeave: (value: V) => void = () => {}) {
    this.#size = size
    this.#onLeave = onLeave
  }

  get size(): number {
    return this.#slots.size
  }

  get(name: string): V | undefined {
    const slot = this.#slots.get(name)
    if (slot === undefined) return undefined
    slot.used = true
    return slot.value
  }

  set(name: string, value: V): V {
    this.delete(name)
    while (this.#slots.size >= this.#size) this.#makeRoom()
    this.#slots.set(name, { value, used: false })
    return value
  }

  delete(name: string): void {
    const slot = this.#slots.get(name)
    if (slot === undefined) return
    this.#slots.delete(name)
    this.#onLeave(slot.value)
  }

  clear(): void {
    for (const name of [...this.#slots.keys()]) this.delete(name)
  }

  #makeRoom(): void {
    for (;;) {
      const next = this.#hand.next()
      if (next.done) {
        this.#hand = this.#slots.entries()
        continue
      }
      const [name, slot] = next.value
      if (!slot.used) {
        this.delete(name)
        return
      }
      slot.used = false
    }
  }
}
