import { randomBytes } from 'node:crypto'
import type { Clock, Random } from '../../config/world.ts'

/**
 * The buffers that counters in memory lie in. All of it is shared memory of full size from the start: what was never
 * touched takes no memory (only address space), nothing is ever moved, and what one thread adds the others see.
 */

export interface MemoryOptions {
  readonly clock: Pick<Clock, 'now'>
  readonly random?: Random
  /** At most so many counters (75 to 110 bytes each); then the least used leave, ended ones first, quotas last. */
  readonly maxEntries?: number
  /** At most so many bytes of sliding-log entries; then the logs of the least used begin anew. */
  readonly maxLogBytes?: number
}

/** Counters as a value that can be posted to a worker: buffers and numbers alone. */
export interface SharedCounters {
  readonly maxEntries: number
  /** Chunks of logs, at most. */
  readonly maxChunks: number
  /** Parts of the index. */
  readonly parts: number
  /** What the times in logs count from, milliseconds since the Unix epoch. */
  readonly epoch: number
  /** Of the hash. Secret: whoever chooses ids cannot choose where they lie, hence not make them collide. */
  readonly factors: readonly [number, number, number, number]
  readonly state: SharedArrayBuffer
  readonly records: SharedArrayBuffer
  readonly index: SharedArrayBuffer
  readonly logs: SharedArrayBuffer
}

// `state` as whole numbers of 32 bits. The lock has a cache line of its own, so that waiting for it disturbs nobody.
export const LOCK = 0
/** How often the lock was taken; 1: it was taken from a thread that held it far too long (`lock.ts`). */
export const HOLDS = 16
export const ROBBED = 17
/** Records in use. */
export const USED = 32
/** All records ever used have a lower number. */
export const REACHED = 33
/** The last record that was given back; each leads to the one before. 0: none. */
export const FREE = 34
/** Where the hand of `leaving.ts` stands, and what it drew last. */
export const HAND = 35
export const DRAWN = 36
/** Slots of the index that were ever taken. */
export const TAKEN = 37
/** Chunks of logs that were given back, chained (0: none), and how many were ever taken. */
export const LOG_FREE = 38
export const LOG_TAKEN = 39
/** As a real number of 64 bits: the newest time that anybody counted at. */
export const LATEST = 24
/** One number for each power of two: the last block of so many slots that was given back, + 1. */
export const BLOCKS = 64
/** Four numbers for each part of the index: where it begins, how many slots it has - 1, how many records, nothing. */
export const PARTS = 96
export const BEGIN = 0
export const MASK = 1
export const HELD = 2

const firstSlots = 16

/** Empty counters for several threads: each gives this, posted to it, to its own `countersMemory`. */
export function sharedCounters(options: MemoryOptions): SharedCounters {
  const { clock, random = { bytes: randomBytes }, maxEntries = 4_000_000, maxLogBytes = 256 * 1024 * 1024 } = options
  let parts = 1
  while (parts * 64 < maxEntries && (parts < 256 || parts * 16_384 < maxEntries)) parts *= 2
  const megabytes = Math.max(1, Math.min(Math.floor(maxLogBytes / 1048576), 4096))
  const bytes = random.bytes(16)
  const shared: SharedCounters = {
    maxEntries,
    maxChunks: megabytes * 16_384,
    parts,
    epoch: Math.floor(clock.now()),
    factors: [0, 4, 8, 12].map(at => bytes.readInt32LE(at) | 1) as [number, number, number, number],
    state: new SharedArrayBuffer((PARTS + parts * 4) * 4),
    records: new SharedArrayBuffer((maxEntries + 1) * 64),
    // A part has at most 4 slots a record, and the blocks that it left are smaller together than the one it has.
    index: new SharedArrayBuffer((maxEntries * 8 + parts * firstSlots * 2) * 4),
    logs: new SharedArrayBuffer(megabytes * 1048576)
  }
  empty(shared)
  return shared
}

/** Lets go of everything that is counted, whatever state it is in. With threads: under the lock. */
export function empty({ parts, state, index }: SharedCounters): void {
  const whole = new Int32Array(state)
  whole.fill(0, USED)
  new Float64Array(state)[LATEST] = -Infinity
  whole[REACHED] = 1
  whole[DRAWN] = 1
  whole[LOG_TAKEN] = 1
  for (let part = 0; part < parts; part++) {
    whole[PARTS + part * 4 + BEGIN] = part * firstSlots
    whole[PARTS + part * 4 + MASK] = firstSlots - 1
  }
  whole[TAKEN] = parts * firstSlots
  new Int32Array(index, 0, parts * firstSlots).fill(0)
}
