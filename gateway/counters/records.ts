import type { Words } from './counters.ts'
import { BEGIN, BLOCKS, FREE, HELD, MASK, PARTS, REACHED, type SharedCounters, TAKEN, USED } from './memory.ts'

/**
 * Counters as records of 64 bytes, one cache line, that lie one behind the other and never move. An index of whole
 * numbers, by open addressing with linear probing, leads from the 128-bit id to the record's number. It has up to 256
 * parts that grow each by itself, so that no growth lets a request wait for more than some thousand records.
 *
 * Record 0 belongs to nobody and says nothing, so that an unknown counter reads as an empty one.
 */

/** What a record counts; 0: it is free. */
export const BUCKET = 1
export const FIXED = 2
export const LOG = 3
export const QUOTA = 4
/** Beside the kind: this quota changed since the last dump. The bits above say which thread lists it. */
export const CHANGED = 8
/** Mask that leaves the kind alone. */
export const kindOf = 7

/** The kind of a quota that this thread is to dump. */
export function changedBy(owner: number): number {
  return QUOTA | CHANGED | (owner << 8)
}

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
  readonly whole: Int32Array<SharedArrayBuffer>
  readonly real: Float64Array<SharedArrayBuffer>
  readonly most: number
  readonly #state: Int32Array<SharedArrayBuffer>
  /** 0: free; else the record's number in the lower bits, and above them as many of the hash's bits as have room. */
  readonly #index: Int32Array<SharedArrayBuffer>
  readonly #partMask: number
  readonly #tag: number
  readonly #f0: number
  readonly #f1: number
  readonly #f2: number
  readonly #f3: number

  constructor({ maxEntries, parts, factors, state, records, index }: SharedCounters) {
    this.most = maxEntries
    this.whole = new Int32Array(records)
    this.real = new Float64Array(records)
    this.#state = new Int32Array(state)
    this.#index = new Int32Array(index)
    this.#partMask = parts - 1
    this.#tag = -(2 ** (32 - Math.clz32(maxEntries)))
    this.#f0 = factors[0]
    this.#f1 = factors[1]
    this.#f2 = factors[2]
    this.#f3 = factors[3]
    this.clear(0, 0)
  }

  /** Records in use. */
  get used(): number {
    return this.#state[USED]!
  }

  /** All records ever used have a lower number. */
  get reached(): number {
    return this.#state[REACHED]!
  }

  get bytes(): number {
    return this.#state.byteLength + this.#state[TAKEN]! * 4 + this.reached * 64
  }

  /** The number of this id's record; 0: none. */
  find(words: Words): number {
    const { w0, w1, w2, w3 } = words
    const hash = this.#hash(w0, w1, w2, w3)
    const part = this.#partOf(hash)
    const index = this.#index
    const { whole } = this
    const tag = this.#tag
    const begin = this.#state[part + BEGIN]!
    const mask = this.#state[part + MASK]!
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const entry = index[begin + slot]!
      if (entry === 0) return 0
      if (((entry ^ hash) & tag) !== 0) continue
      const number = entry & ~tag
      const w = number * 16
      if (whole[w] === w0 && whole[w + 1] === w1 && whole[w + 2] === w2 && whole[w + 3] === w3) return number
    }
  }

  /**
   * A new, empty record for an id that has none; the caller has seen to `used` being below `most`.
   * @throws RangeError, before anything changed: a part of the index is full. Hashes do not come so unevenly.
   */
  add(words: Words, kind: number): number {
    const state = this.#state
    const { whole } = this
    const part = this.#partOf(this.#hash(words.w0, words.w1, words.w2, words.w3))
    if (state[part + HELD]! * 2 > state[part + MASK]!) this.#grow(part)
    if (state[part + HELD]! >= state[part + MASK]!) throw new RangeError('the index of counters is full')
    let number = state[FREE]!
    if (number === 0) number = state[REACHED]!++
    else state[FREE] = whole[number * 16 + ASIDE]!
    const w = number * 16
    whole[w] = words.w0
    whole[w + 1] = words.w1
    whole[w + 2] = words.w2
    whole[w + 3] = words.w3
    state[USED]!++
    state[part + HELD]!++
    this.#enter(number, part)
    this.clear(number, kind)
    return number
  }

  /** Makes a record say nothing. */
  clear(number: number, kind: number): void {
    const { whole, real } = this
    const r = number * 8
    whole[r * 2 + KIND] = kind
    whole[r * 2 + ASIDE] = 0
    real[r + SEEN] = -Infinity
    real[r + COUNT] = 0
    real[r + END] = -Infinity
    real[r + CURRENT] = 0
    real[r + NEXT_AT] = 0
  }

  remove(number: number): void {
    const index = this.#index
    const state = this.#state
    const hash = this.#hashOf(number)
    const part = this.#partOf(hash)
    const begin = state[part + BEGIN]!
    const mask = state[part + MASK]!
    state[part + HELD]!--
    let gap = hash & mask
    while ((index[begin + gap]! & ~this.#tag) !== number) gap = (gap + 1) & mask
    // The entries behind it move up, so that no look-up meets a gap, unless their home lies behind the gap.
    for (let slot = (gap + 1) & mask; index[begin + slot] !== 0; slot = (slot + 1) & mask) {
      const home = this.#hashOf(index[begin + slot]! & ~this.#tag) & mask
      if (((slot - home) & mask) < ((slot - gap) & mask)) continue
      index[begin + gap] = index[begin + slot]!
      gap = slot
    }
    index[begin + gap] = 0
    this.clear(number, 0)
    this.whole[number * 16 + ASIDE] = state[FREE]!
    state[FREE] = number
    state[USED]!--
  }

  #enter(number: number, part: number): void {
    const index = this.#index
    const begin = this.#state[part + BEGIN]!
    const mask = this.#state[part + MASK]!
    const hash = this.#hashOf(number)
    let slot = hash & mask
    while (index[begin + slot] !== 0) slot = (slot + 1) & mask
    index[begin + slot] = (hash & this.#tag) | number
  }

  /** Doubles a part. Without a block for it the part stays as it is, and is searched longer. */
  #grow(part: number): void {
    const index = this.#index
    const state = this.#state
    const old = state[part + BEGIN]!
    const slots = state[part + MASK]! + 1
    const block = this.#block(slots * 2)
    if (block < 0) return
    index.fill(0, block, block + slots * 2)
    state[part + BEGIN] = block
    state[part + MASK] = slots * 2 - 1
    for (let slot = old; slot < old + slots; slot++) if (index[slot] !== 0) this.#enter(index[slot]! & ~this.#tag, part)
    const given = BLOCKS + Math.clz32(slots)
    index[old] = state[given]!
    state[given] = old + 1
  }

  /** Where a block of so many slots (a power of two) begins: one that was given back, or a new one. -1: none. */
  #block(slots: number): number {
    const state = this.#state
    const given = BLOCKS + Math.clz32(slots)
    const block = state[given]! - 1
    if (block >= 0) {
      state[given] = this.#index[block]!
      return block
    }
    const begin = state[TAKEN]!
    if (begin + slots > this.#index.length) return -1
    state[TAKEN] = begin + slots
    return begin
  }

  /** Where `state` holds the part. The slot in a part takes the lower bits of the hash, the tag the upper ones. */
  #partOf(hash: number): number {
    return PARTS + ((hash >>> 15) & this.#partMask) * 4
  }

  #hashOf(number: number): number {
    const { whole } = this
    const w = number * 16
    return this.#hash(whole[w]!, whole[w + 1]!, whole[w + 2]!, whole[w + 3]!)
  }

  #hash(w0: number, w1: number, w2: number, w3: number): number {
    let h = (Math.imul(w0, this.#f0) + Math.imul(w1, this.#f1)) | 0
    h = (h + Math.imul(w2, this.#f2) + Math.imul(w3, this.#f3)) | 0
    h = Math.imul(h ^ (h >>> 16), 0x2c1b3c6d)
    return h ^ (h >>> 15)
  }
}
