/** A call counts as bulk from either on. */
const bulkMessages = 100
const bulkBytes = 256 << 10

interface Load {
  readonly count: number
  readonly size: number
}

const isBulk = ({ count, size }: Load) => count >= bulkMessages || size >= bulkBytes

/** How much may wait or be under way. Bulk gets half of it, so that a small call finds room beside it. */
export class Room {
  readonly #most: Load
  #few = { count: 0, size: 0 }
  #many = { count: 0, size: 0 }

  /** @param size as `sizeOf` counts */
  constructor(count: number, size: number) {
    this.#most = { count, size }
  }

  holds(load: Load): boolean {
    const { count, size } = this.#most
    const many = this.#many
    const halfCount = count / 2
    const halfSize = size / 2
    if (isBulk(load)) {
      // One alone may be larger than its half: it is bounded where it came in.
      if (many.count === 0) return true
      return many.count + load.count <= halfCount && many.size + load.size <= halfSize
    }
    const few = this.#few
    return (
      few.count + load.count <= count - Math.min(many.count, halfCount) &&
      few.size + load.size <= size - Math.min(many.size, halfSize)
    )
  }

  /** @param sign 1: it comes; -1: it has gone */
  add(load: Load, sign: 1 | -1): void {
    const held = isBulk(load) ? this.#many : this.#few
    held.count += sign * load.count
    held.size += sign * load.size
  }
}
