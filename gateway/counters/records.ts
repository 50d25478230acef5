import type { Random } from '../../config/world.ts'

/**
 * Counters as records of 64 bytes, one cache line, found by their 128-bit id through open addressing with linear
 * probing. The records lie in segments that grow each by itself, so that growing never moves more than some thousands.
 * A segment is one buffer: as a SharedArrayBuffer it would serve threads.
 */

/** What a record counts; 0: the place is free. */
export const BUCKET = 1
export const FIXED = 2
export const LOG = 3
export const QUOTA = 4
/** Beside the kind: this quota changed since the last dump. */
export const CHANGED = 8
/** Mask that leaves the kind alone. */
export const kindOf = 7

// A record is seen as 16 whole numbers of 32 bits; the first four are its id …
export const KIND = 4
/** Log: its first chunk (`logs.ts`), 0 if none. Others: seconds for which smoothing outlives the last request. */
export const ASIDE = 5
// … and as 8 real numbers, of which the last five are its own.
/** When it was last charged, milliseconds since the epoch. */
export const SEEN = 3
export const COUNT = 4
/** End of the window or period. Log: when nothing of it counts any more. -Infinity: none. */
export const END = 5
/** Smoothing: the allowance (0: none) and the time after which it may move. */
export const CURRENT = 6
export const NEXT_AT = 7

const fill = 0.75

export class Segment {
  /** Places taken, and how many may be before there must be room made. */
  used = 0
  room = 0
  /** Where making room goes on looking. */
  hand = 0
  capacity = 0
  whole: Uint32Array
  real: Float64Array
  readonly #most: number
  readonly #hash: (words: Uint32Array, from: number) => number

  constructor(most: number, hash: (words: Uint32Array, from: number) => number) {
    this.#most = most
    this.#hash = hash
    this.whole = new Uint32Array(0)
    this.real = new Float64Array(0)
    this.rebuild(8, () => true)
  }

  /** As many records as it may ever hold. */
  get full(): boolean {
    return this.used >= this.#most
  }

  /** Where the record of this id lies, or -1. */
  find(hash: number, words: Uint32Array): number {
    const { whole, capacity } = this
    for (let at = this.#home(hash); ; at = at + 1 === capacity ? 0 : at + 1) {
      const w = at * 16
      if (whole[w + KIND] === 0) return -1
      if (whole[w] === words[0] && whole[w + 1] === words[1] && whole[w + 2] === words[2] && whole[w + 3] === words[3])
        return at
    }
  }

  /** A new, empty record for an id that has none; the caller has made room. */
  add(hash: number, words: Uint32Array, kind: number): number {
    const { whole, capacity } = this
    let at = this.#home(hash)
    while (whole[at * 16 + KIND] !== 0) at = at + 1 === capacity ? 0 : at + 1
    whole.set(words, at * 16)
    this.used++
    this.clear(at, kind)
    return at
  }

  /** Makes a record say nothing. */
  clear(at: number, kind: number): void {
    const { whole, real } = this
    whole[at * 16 + KIND] = kind
    whole[at * 16 + ASIDE] = 0
    real[at * 8 + SEEN] = -Infinity
    real[at * 8 + COUNT] = 0
    real[at * 8 + END] = -Infinity
    real[at * 8 + CURRENT] = 0
    real[at * 8 + NEXT_AT] = 0
  }

  /** Frees a place; the records behind it move up, so that no look-up meets a gap. */
  remove(at: number): void {
    const { whole, capacity } = this
    this.used--
    let gap = at
    for (let next = gap; ; ) {
      next = next + 1 === capacity ? 0 : next + 1
      const w = next * 16
      if (whole[w + KIND] === 0) break
      // A record may fill the gap unless its home lies behind the gap, on the way to where it is.
      const home = this.#home(this.#hash(whole, w))
      const stays = gap < next ? gap < home && home <= next : gap < home || home <= next
      if (stays) continue
      whole.copyWithin(gap * 16, w, w + 16)
      gap = next
    }
    whole[gap * 16 + KIND] = 0
  }

  /** Moves what `keeps` approves of into a new buffer of about this many places. */
  rebuild(capacity: number, keeps: (segment: Segment, at: number) => boolean): void {
    const { whole: old, capacity: before } = this
    const kept: number[] = []
    for (let at = 0; at < before; at++) if (old[at * 16 + KIND] !== 0 && keeps(this, at)) kept.push(at)
    this.capacity = Math.min(Math.ceil(capacity), Math.ceil(this.#most / fill) + 1)
    this.room = Math.min(this.#most, Math.floor(this.capacity * fill))
    const buffer = new ArrayBuffer(this.capacity * 64)
    this.whole = new Uint32Array(buffer)
    this.real = new Float64Array(buffer)
    this.used = kept.length
    this.hand = 0
    for (const from of kept) {
      const w = from * 16
      let at = this.#home(this.#hash(old, w))
      while (this.whole[at * 16 + KIND] !== 0) at = at + 1 === this.capacity ? 0 : at + 1
      for (let i = 0; i < 16; i++) this.whole[at * 16 + i] = old[w + i]!
    }
  }

  #home(hash: number): number {
    return Math.floor((hash / 4294967296) * this.capacity)
  }
}

export class Records {
  readonly segments: readonly Segment[]
  readonly #factors: Uint32Array

  /** At most `most` records; a segment that is full before the others loses some from then on. */
  constructor(most: number, random: Random) {
    // Secret factors: whoever chooses ids cannot choose where they lie, hence not make them collide.
    this.#factors = new Uint32Array(4)
    const bytes = random.bytes(16)
    for (let i = 0; i < 4; i++) this.#factors[i] = bytes.readUInt32LE(i * 4) | 1
    const hash = (words: Uint32Array, from: number) => this.hash(words, from)
    let count = 1
    while (count < 1024 && most / count > 4096) count *= 2
    this.segments = Array.from({ length: count }, () => new Segment(Math.max(1, Math.floor(most / count)), hash))
  }

  /** 32 bits of the id that begins at `from`. */
  hash(words: Uint32Array, from = 0): number {
    const f = this.#factors
    let h = Math.imul(words[from]!, f[0]!) + Math.imul(words[from + 1]!, f[1]!)
    h = (h + Math.imul(words[from + 2]!, f[2]!) + Math.imul(words[from + 3]!, f[3]!)) | 0
    h = Math.imul(h ^ (h >>> 16), 0x2c1b3c6d)
    return (h ^ (h >>> 15)) >>> 0
  }

  /** The segment that a record of this hash lies in. */
  segment(hash: number): Segment {
    return this.segments[hash & (this.segments.length - 1)]!
  }
}
