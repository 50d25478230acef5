/** What may wait in this process, in bytes (`streaming.budget`). Counting never fails; who asks may be told that it is too much. */
export class Budget {
  /** Of messages that are kept for who comes again: nobody waits for those, so they refuse nobody and give way themselves. */
  readonly windows: Windows
  readonly #most: number
  #used = 0

  constructor(most: number) {
    this.#most = most
    this.windows = new Windows(most / 2)
  }

  /** @param bytes below 0: they are gone */
  add(bytes: number): void {
    this.#used += bytes
  }

  get isFull(): boolean {
    return this.#used >= this.#most - this.windows.used
  }

  /** What could be read again later takes no more: the rest is for what clients send. */
  get isHalfFull(): boolean {
    return this.#used >= (this.#most - this.windows.used) / 2
  }

  get used(): number {
    return this.#used
  }
}

/** The part of all bytes that no window may have beyond its share, so that a new one finds room beside older ones. */
const SHARED = 0.75

/** What the replay windows of this process have together. */
export class Windows {
  readonly #most: number
  #used = 0
  #count = 0

  constructor(most: number) {
    this.#most = most
  }

  /**
   * A window has become larger or smaller.
   * @param before its bytes until now
   * @param now its bytes from now on
   */
  changed(before: number, now: number): void {
    this.#used += now - before
    if (before === 0 && now > 0) this.#count++
    if (before > 0 && now === 0) this.#count--
  }

  /** A window of so many bytes is to let go of its oldest. */
  isTooMuch(bytes: number): boolean {
    if (this.#used >= this.#most) return true
    return this.#used >= this.#most * SHARED && bytes > (this.#most * (1 - SHARED)) / this.#count
  }

  get used(): number {
    return this.#used
  }
}
