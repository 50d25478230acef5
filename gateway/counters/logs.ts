import { LOG_FREE, LOG_TAKEN, type SharedCounters } from './memory.ts'

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

export class Logs {
  /** How many requests the last `drop` found to have left. */
  dropped = 0
  readonly #whole: Int32Array<SharedArrayBuffer>
  readonly #real: Float64Array<SharedArrayBuffer>
  readonly #state: Int32Array<SharedArrayBuffer>
  readonly #most: number
  readonly #epoch: number

  constructor({ maxChunks, epoch, state, logs }: SharedCounters) {
    this.#whole = new Int32Array(logs)
    this.#real = new Float64Array(logs)
    this.#state = new Int32Array(state)
    this.#most = maxChunks
    this.#epoch = epoch
  }

  /** That were ever in use; number 0 stands for no chunk. */
  get bytes(): number {
    return this.#state[LOG_TAKEN]! === 1 ? 0 : this.#state[LOG_TAKEN]! * 64
  }

  /** No chunk can be taken: `append` needs a log to be freed first. */
  get full(): boolean {
    return this.#state[LOG_FREE] === 0 && this.#state[LOG_TAKEN] === this.#most
  }

  /** Adds a request to the log that begins at `first` (0: a new one) and gives its first chunk. Not while `full`. */
  append(first: number, now: number): number {
    const entry = (now - this.#epoch) * unit + 1
    if (first === 0) {
      const chunk = this.#take()
      this.#real[chunk * 8 + 1] = entry
      this.#whole[chunk * 16 + 1] = chunk * 64 + 9
      return chunk
    }
    const heads = this.#whole
    const real = this.#real
    const h = first * 16 + 1
    const ends = heads[h]!
    const last = ends >>> 6
    const i = last * 8 + (ends & 7)
    const newest = real[i]!
    if (newest - entry >= 0 && newest - entry < unit - 2) real[i] = newest + 1
    else if ((ends & 7) < 7) {
      real[i + 1] = entry
      heads[h] = ends + 1
    } else {
      const chunk = this.#take()
      this.#real[chunk * 8 + 1] = entry
      this.#whole[last * 16] = chunk
      heads[h] = chunk * 64 + (ends & 0x38) + 1
    }
    return first
  }

  /** Takes out what came at `bound` or before and gives the new first chunk (0: nothing is left); sets `dropped`. */
  drop(first: number, bound: number): number {
    this.dropped = 0
    const before = (bound - this.#epoch + 1) * unit
    while (first !== 0) {
      const oldest = this.#real[first * 8 + this.#firstEntry(first)]!
      if (oldest >= before) return first
      this.dropped += countOf(oldest)
      first = this.#shift(first)
    }
    return first
  }

  /** Takes out the oldest request alone. */
  dropOldest(first: number): number {
    const real = this.#real
    const i = first * 8 + this.#firstEntry(first)
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
    const ends = this.#whole[first * 16 + 1]!
    return Math.floor(this.#real[(ends >>> 6) * 8 + (ends & 7)]! / unit) + this.#epoch
  }

  /** Gives all chunks of a log back. */
  free(first: number): void {
    if (first === 0) return
    const last = this.#whole[first * 16 + 1]! >>> 6
    this.#whole[last * 16] = this.#state[LOG_FREE]!
    this.#state[LOG_FREE] = first
  }

  /** Takes the oldest entry out and gives the new first chunk. */
  #shift(first: number): number {
    const whole = this.#whole
    const h = first * 16
    const ends = whole[h + 1]!
    const entry = (ends >>> 3) & 7
    if (ends >>> 6 === first ? entry < (ends & 7) : entry < 7) {
      whole[h + 1] = ends + 8
      return first
    }
    const next = whole[h]!
    if (next !== 0) whole[next * 16 + 1] = (ends & ~0x38) + 8
    whole[h] = this.#state[LOG_FREE]!
    this.#state[LOG_FREE] = first
    return next
  }

  #walk(first: number, onto: (entry: number) => boolean): void {
    if (first === 0) return
    const ends = this.#whole[first * 16 + 1]!
    const last = ends >>> 6
    let i = (ends >>> 3) & 7
    for (let chunk = first; ; i = 1, chunk = this.#whole[chunk * 16]!) {
      for (const end = chunk === last ? ends & 7 : 7; i <= end; i++) if (!onto(this.#real[chunk * 8 + i]!)) return
      if (chunk === last) return
    }
  }

  #take(): number {
    const state = this.#state
    let chunk = state[LOG_FREE]!
    if (chunk === 0) chunk = state[LOG_TAKEN]!++
    else state[LOG_FREE] = this.#whole[chunk * 16]!
    this.#whole[chunk * 16] = 0
    return chunk
  }

  #firstEntry(first: number): number {
    return (this.#whole[first * 16 + 1]! >>> 3) & 7
  }
}

function countOf(entry: number): number {
  return entry - Math.floor(entry / unit) * unit
}
