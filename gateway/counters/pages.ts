const perPage = 1 << 14

/** 1 MiB: 16,384 pieces of 64 bytes, seen as real numbers (8 a piece) and as whole ones of 32 bits (16 a piece). */
export class Page {
  readonly real: Float64Array
  readonly whole: Int32Array
  constructor() {
    const buffer = new ArrayBuffer(perPage * 64)
    this.real = new Float64Array(buffer)
    this.whole = new Int32Array(buffer)
  }
}

/**
 * Memory in numbered pieces of 64 bytes that grows without moving what is there. Each page is one buffer: as a
 * SharedArrayBuffer it would serve threads.
 */
export class Pages {
  readonly #pages: Page[] = []

  get bytes(): number {
    return this.#pages.length * perPage * 64
  }

  /** Makes sure that piece `number` is there; the one before it must be. */
  reach(number: number): void {
    if (number >>> 14 >= this.#pages.length) this.#pages.push(new Page())
  }

  of(number: number): Page {
    return this.#pages[number >>> 14]!
  }

  /** Where the piece begins in its page, in real numbers; in whole ones it is twice that. */
  at(number: number): number {
    return (number & (perPage - 1)) * 8
  }
}
