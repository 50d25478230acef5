const SMALLEST = 8
/** A queue that grew beyond this gives its memory back once it is empty. */
const LARGE = 1024

/** First in, first out, in a ring that doubles as it must: no cost for what stays behind, as `shift()` of an array has. */
export class Fifo<T> {
  #items: (T | undefined)[] = []
  #head = 0
  length = 0

  push(item: T): void {
    if (this.length === this.#items.length) this.#grow()
    this.#items[(this.#head + this.length++) & (this.#items.length - 1)] = item
  }

  /** The oldest; undefined: there is none. */
  peek(): T | undefined {
    return this.#items[this.#head]
  }

  /** The `index`-th from the oldest on. */
  at(index: number): T | undefined {
    return this.#items[(this.#head + index) & (this.#items.length - 1)]
  }

  shift(): T | undefined {
    if (this.length === 0) return undefined
    const item = this.#items[this.#head]
    this.#items[this.#head] = undefined
    this.#head = (this.#head + 1) & (this.#items.length - 1)
    if (--this.length === 0 && this.#items.length > LARGE) this.#items = []
    if (this.#items.length === 0) this.#head = 0
    return item
  }

  #grow(): void {
    const old = this.#items
    const size = Math.max(SMALLEST, old.length * 2)
    const items = new Array<T | undefined>(size).fill(undefined)
    for (let i = 0; i < this.length; i++) items[i] = old[(this.#head + i) & (old.length - 1)]
    this.#items = items
    this.#head = 0
  }
}
