import { Pages } from './pages.ts'

/**
 * The entries of sliding logs. A log is a chain of chunks of 64 bytes that all come from one bounded arena: it takes
 * another chunk when it needs one and gives it back when its entries have left, so nothing is ever moved.
 *
 * An entry is one real number: (milliseconds since `epoch`) × 4096 + how many requests came in that millisecond, at
 * most 4095 (more make another entry). This holds for 69 years around `epoch`.
 *
 * A chunk is a head and seven entries. The head is two whole numbers of 32 bits: the next chunk (0: none), and, in the
 * first chunk of a log, its last chunk × 64 + first entry × 8 + last entry (1 to 7).
 */

const unit = 4096
const pageBytes = 1024 * 1024

export class Logs {
  /** How many requests the last `drop` found to have left. */
  dropped = 0
  readonly #pages = new Pages()
  readonly #most: number
  readonly #epoch: number
  /** Chunks that were given back, chained; and how many were ever taken (number 0 stands for none). */
  #free = 0
  #taken = 1

  /** At most `maxBytes`, in pages of 1 MiB (one at least). */
  constructor(maxBytes: number, epoch: number) {
    this.#most = (Math.max(1, Math.min(Math.floor(maxBytes / pageBytes), 4096)) * pageBytes) / 64
    this.#epoch = epoch
  }

  get bytes(): number {
    return this.#pages.bytes
  }

  /** No chunk can be taken: `append` needs a log to be freed first. */
  get full(): boolean {
    return this.#free === 0 && this.#taken === this.#most
  }

  /** Adds a request to the log that begins at `first` (0: a new one) and gives its first chunk. Not while `full`. */
  append(first: number, now: number): number {
    const entry = (now - this.#epoch) * unit + 1
    if (first === 0) {
      const chunk = this.#take()
      this.#pages.of(chunk).real[this.#pages.at(chunk) + 1] = entry
      this.#pages.of(chunk).whole[this.#pages.at(chunk) * 2 + 1] = chunk * 64 + 9
      return chunk
    }
    const heads = this.#pages.of(first).whole
    const h = this.#pages.at(first) * 2 + 1
    const ends = heads[h]!
    const last = ends >>> 6
    const i = this.#pages.at(last) + (ends & 7)
    const newest = this.#pages.of(last).real[i]!
    if (newest - entry >= 0 && newest - entry < unit - 2) this.#pages.of(last).real[i] = newest + 1
    else if ((ends & 7) < 7) {
      this.#pages.of(last).real[i + 1] = entry
      heads[h] = ends + 1
    } else {
      const chunk = this.#take()
      this.#pages.of(chunk).real[this.#pages.at(chunk) + 1] = entry
      this.#pages.of(last).whole[this.#pages.at(last) * 2] = chunk
      heads[h] = chunk * 64 + (ends & 0x38) + 1
    }
    return first
  }

  /** Takes out what came at `bound` or before and gives the new first chunk (0: nothing is left); sets `dropped`. */
  drop(first: number, bound: number): number {
    this.dropped = 0
    const before = (bound - this.#epoch + 1) * unit
    while (first !== 0) {
      const oldest = this.#pages.of(first).real[this.#pages.at(first) + this.#firstEntry(first)]!
      if (oldest >= before) return first
      this.dropped += countOf(oldest)
      first = this.#shift(first)
    }
    return first
  }

  /** Takes out the oldest request alone. */
  dropOldest(first: number): number {
    const real = this.#pages.of(first).real
    const i = this.#pages.at(first) + this.#firstEntry(first)
    if (countOf(real[i]!) === 1) return this.#shift(first)
    real[i] = real[i]! - 1
    return first
  }

  /** How many requests came at `bound` or before. */
  countUntil(first: number, bound: number): number {
    const before = (bound - this.#epoch + 1) * unit
    let count = 0
    this.#walk(first, entry => {
      if (entry >= before) return false
      count += countOf(entry)
      return true
    })
    return count
  }

  /**
   * When the request with this index (0: the oldest) came. Where that lies far inside a long log (the rate was lowered,
   * or refused requests count under smoothing), the newest one's time instead of a search that the request would wait for.
   */
  timeAt(first: number, index: number): number {
    let left = index
    let entries = 0
    let time = 0
    this.#walk(first, entry => {
      left -= countOf(entry)
      time = Math.floor(entry / unit) + this.#epoch
      return left >= 0 && ++entries < 10_000
    })
    return left < 0 ? time : this.newest(first)
  }

  /** When the newest request came. */
  newest(first: number): number {
    const ends = this.#pages.of(first).whole[this.#pages.at(first) * 2 + 1]!
    return Math.floor(this.#pages.of(ends >>> 6).real[this.#pages.at(ends >>> 6) + (ends & 7)]! / unit) + this.#epoch
  }

  /** Gives all chunks of a log back. */
  free(first: number): void {
    if (first === 0) return
    const last = this.#pages.of(first).whole[this.#pages.at(first) * 2 + 1]! >>> 6
    this.#pages.of(last).whole[this.#pages.at(last) * 2] = this.#free
    this.#free = first
  }

  /** Takes the oldest entry out and gives the new first chunk. */
  #shift(first: number): number {
    const whole = this.#pages.of(first).whole
    const h = this.#pages.at(first) * 2
    const ends = whole[h + 1]!
    const entry = (ends >>> 3) & 7
    if (ends >>> 6 === first ? entry < (ends & 7) : entry < 7) {
      whole[h + 1] = ends + 8
      return first
    }
    const next = whole[h]!
    if (next !== 0) this.#pages.of(next).whole[this.#pages.at(next) * 2 + 1] = (ends & ~0x38) + 8
    whole[h] = this.#free
    this.#free = first
    return next
  }

  #walk(first: number, onto: (entry: number) => boolean): void {
    if (first === 0) return
    const ends = this.#pages.of(first).whole[this.#pages.at(first) * 2 + 1]!
    const last = ends >>> 6
    let i = (ends >>> 3) & 7
    for (let chunk = first; ; i = 1, chunk = this.#pages.of(chunk).whole[this.#pages.at(chunk) * 2]!) {
      const real = this.#pages.of(chunk).real
      for (const end = chunk === last ? ends & 7 : 7; i <= end; i++) if (!onto(real[this.#pages.at(chunk) + i]!)) return
      if (chunk === last) return
    }
  }

  #take(): number {
    let chunk = this.#free
    if (chunk === 0) {
      chunk = this.#taken++
      this.#pages.reach(chunk)
    } else this.#free = this.#pages.of(chunk).whole[this.#pages.at(chunk) * 2]!
    this.#pages.of(chunk).whole[this.#pages.at(chunk) * 2] = 0
    return chunk
  }

  #firstEntry(first: number): number {
    return (this.#pages.of(first).whole[this.#pages.at(first) * 2 + 1]! >>> 3) & 7
  }
}

function countOf(entry: number): number {
  return entry - Math.floor(entry / unit) * unit
}
