/** What may wait in this process, in bytes (`streaming.budget`). Counting never fails; who asks may be told that it is too much. */
export class Budget {
  readonly #most: number
  #used = 0

  constructor(most: number) {
    this.#most = most
  }

  /** @param bytes below 0: they are gone */
  add(bytes: number): void {
    this.#used += bytes
  }

  get isFull(): boolean {
    return this.#used >= this.#most
  }

  get used(): number {
    return this.#used
  }
}
