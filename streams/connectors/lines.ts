const LF = 0x0a
const CR = 0x0d

/** Parts an endless stream of bytes at its line ends; what is longer than a bound is left out, to its end. */
export class Lines {
  readonly #most: number
  /** A line whose end has not come: `#length` bytes of it count. */
  #rest: Buffer = Buffer.alloc(0)
  #length = 0
  /** Within a line that is too long. */
  #isSkipping = false
  /** Lines that were too long. */
  skipped = 0

  /** @param most bytes of a line */
  constructor(most: number) {
    this.#most = most
  }

  /** The lines that end in this chunk, without their ends and without empty ones. */
  take(chunk: Buffer): Buffer[] {
    const lines: Buffer[] = []
    let from = 0
    for (let at = chunk.indexOf(LF); at >= 0; at = chunk.indexOf(LF, from)) {
      this.#add(chunk.subarray(from, at))
      const line = this.end()
      if (line !== null) lines.push(line)
      from = at + 1
    }
    this.#add(chunk.subarray(from))
    return lines
  }

  /** What is left: a line whose end has not come. Null: nothing. */
  end(): Buffer | null {
    const line = Buffer.from(this.#rest.subarray(0, this.#length))
    this.#length = 0
    if (this.#isSkipping) {
      this.#isSkipping = false
      this.skipped++
      return null
    }
    const plain = line.at(-1) === CR ? line.subarray(0, -1) : line
    return plain.length === 0 ? null : plain
  }

  #add(bytes: Buffer): void {
    const length = this.#length + bytes.length
    if (this.#isSkipping) return
    // One for the carriage return, which does not count.
    if (length > this.#most + 1) {
      this.#isSkipping = true
      this.#rest = Buffer.alloc(0)
      this.#length = 0
      return
    }
    if (length > this.#rest.length) {
      const room = Buffer.allocUnsafeSlow(Math.min(this.#most + 1, Math.max(length, 2 * this.#rest.length)))
      this.#rest.copy(room, 0, 0, this.#length)
      this.#rest = room
    }
    bytes.copy(this.#rest, this.#length)
    this.#length = length
  }
}
