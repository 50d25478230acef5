import type { Random } from '../../config/world.ts'
import type { Words } from './counters.ts'
import { Pages } from './pages.ts'

/**
 * Counters as records of 64 bytes, one cache line, that lie one behind the other in pages and never move. An index of
 * whole numbers, by open addressing with linear probing, leads from the 128-bit id to the record's number. It has up to
 * 256 parts that grow each by itself, so that no growth lets a request wait for more than some thousand records.
 */

/** What a record counts; 0: it is free. */
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

export class Records {
  /** Records in use; all records ever used have a lower number than `reached`. */
  used = 0
  reached = 0
  readonly pages: Pages
  readonly most: number
  /** 0: free; else the record's number + 1 in the lower bits, and above them as many of the hash's bits as have room. */
  readonly #parts: Int32Array[]
  /** Records in each part. */
  readonly #held: Int32Array
  readonly #tag: number
  /** The last record that was given back; each leads to the one before. -1: none. */
  #free = -1
  readonly #factors: Int32Array

  constructor(most: number, random: Random) {
    this.most = most
    this.pages = new Pages()
    let parts = 1
    while (parts < 256 && parts * 64 < most) parts *= 2
    this.#parts = Array.from({ length: parts }, () => new Int32Array(16))
    this.#held = new Int32Array(parts)
    this.#tag = -(2 ** (32 - Math.clz32(most)))
    // Secret factors: whoever chooses ids cannot choose where they lie, hence not make them collide.
    this.#factors = new Int32Array(4)
    const bytes = random.bytes(16)
    for (let i = 0; i < 4; i++) this.#factors[i] = bytes.readInt32LE(i * 4) | 1
  }

  get bytes(): number {
    return this.#parts.reduce((bytes, part) => bytes + part.length * 4, this.pages.bytes)
  }

  /** The number of this id's record, or -1. */
  find(words: Words): number {
    const tag = this.#tag
    const hash = this.#hash(words.w0, words.w1, words.w2, words.w3)
    const index = this.#parts[this.#partOf(hash)]!
    const mask = index.length - 1
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const entry = index[slot]!
      if (entry === 0) return -1
      if (((entry ^ hash) & tag) !== 0) continue
      const number = (entry & ~tag) - 1
      const { whole } = this.pages.of(number)
      const w = this.pages.at(number) * 2
      if (whole[w] === words.w0 && whole[w + 1] === words.w1 && whole[w + 2] === words.w2 && whole[w + 3] === words.w3)
        return number
    }
  }

  /** A new, empty record for an id that has none; the caller has seen to `used` being below `most`. */
  add(words: Words, kind: number): number {
    let number = this.#free
    if (number < 0) {
      number = this.reached++
      this.pages.reach(number)
    } else this.#free = this.pages.of(number).whole[this.pages.at(number) * 2 + ASIDE]!
    const { whole } = this.pages.of(number)
    const w = this.pages.at(number) * 2
    whole[w] = words.w0
    whole[w + 1] = words.w1
    whole[w + 2] = words.w2
    whole[w + 3] = words.w3
    this.used++
    const part = this.#partOf(this.#hashOf(number))
    if (++this.#held[part]! * 2 > this.#parts[part]!.length) this.#grow(part)
    this.#enter(number, this.#parts[part]!)
    this.clear(number, kind)
    return number
  }

  /** Makes a record say nothing. */
  clear(number: number, kind: number): void {
    const { whole, real } = this.pages.of(number)
    const r = this.pages.at(number)
    whole[r * 2 + KIND] = kind
    whole[r * 2 + ASIDE] = 0
    real[r + SEEN] = -Infinity
    real[r + COUNT] = 0
    real[r + END] = -Infinity
    real[r + CURRENT] = 0
    real[r + NEXT_AT] = 0
  }

  remove(number: number): void {
    const hash = this.#hashOf(number)
    const part = this.#partOf(hash)
    const index = this.#parts[part]!
    const mask = index.length - 1
    this.#held[part]!--
    let gap = hash & mask
    while ((index[gap]! & ~this.#tag) - 1 !== number) gap = (gap + 1) & mask
    // The entries behind it move up, so that no look-up meets a gap, unless their home lies behind the gap.
    for (let slot = (gap + 1) & mask; index[slot] !== 0; slot = (slot + 1) & mask) {
      const home = this.#hashOf((index[slot]! & ~this.#tag) - 1) & mask
      if (((slot - home) & mask) < ((slot - gap) & mask)) continue
      index[gap] = index[slot]!
      gap = slot
    }
    index[gap] = 0
    this.clear(number, 0)
    this.pages.of(number).whole[this.pages.at(number) * 2 + ASIDE] = this.#free
    this.#free = number
    this.used--
  }

  #enter(number: number, index: Int32Array): void {
    const mask = index.length - 1
    const hash = this.#hashOf(number)
    let slot = hash & mask
    while (index[slot] !== 0) slot = (slot + 1) & mask
    index[slot] = (hash & this.#tag) | (number + 1)
  }

  #grow(part: number): void {
    const old = this.#parts[part]!
    const index = new Int32Array(old.length * 2)
    for (const entry of old) if (entry !== 0) this.#enter((entry & ~this.#tag) - 1, index)
    this.#parts[part] = index
  }

  /** The slot in a part takes the lower bits of the hash, the tag the upper ones. */
  #partOf(hash: number): number {
    return (hash >>> 15) & (this.#parts.length - 1)
  }

  #hashOf(number: number): number {
    const { whole } = this.pages.of(number)
    const w = this.pages.at(number) * 2
    return this.#hash(whole[w]!, whole[w + 1]!, whole[w + 2]!, whole[w + 3]!)
  }

  #hash(w0: number, w1: number, w2: number, w3: number): number {
    const f = this.#factors
    let h = (Math.imul(w0, f[0]!) + Math.imul(w1, f[1]!)) | 0
    h = (h + Math.imul(w2, f[2]!) + Math.imul(w3, f[3]!)) | 0
    h = Math.imul(h ^ (h >>> 16), 0x2c1b3c6d)
    return h ^ (h >>> 15)
  }
}
