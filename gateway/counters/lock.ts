import { empty, HOLDS, LOCK, ROBBED, type SharedCounters } from './memory.ts'

/** Beside the owner: somebody waits and wants to be woken. */
const AWAITED = 1
/** Looks at a lock that is held for a microsecond, before the thread sleeps. */
const looks = 100
/** Milliseconds. A thread that was woken and ended before it took the lock would leave the others asleep. */
const longestSleep = 10
/** Sleeps during one hold after which its owner must have ended: 2 s, not counting time that the whole process stood still. */
const sleeps = 200

/** Of the main thread, which hears of the end of all others, but not while it waits for what one of them held. */
const MAIN = 0
/** Of `repair`; no thread's number. */
export const REPAIRER = 2 ** 23

/**
 * One lock over all counters, for threads that hold it for a microsecond or so: 0 while it is free, else
 * (owner + 1) × 2, and `AWAITED`. Who waits never gives up: where the owner has ended, `repair` sets it going again.
 * The main thread cannot wait for a repair of its own: after 2 s it lets go of all counters and takes the lock.
 */
export class Lock {
  readonly #shared: SharedCounters
  readonly #state: Int32Array<SharedArrayBuffer>
  readonly #mine: number
  readonly #robs: boolean

  /** @param owner whole, from 0 (the main thread) to 2^23 - 1, another one for each thread */
  constructor(shared: SharedCounters, owner: number) {
    this.#shared = shared
    this.#state = new Int32Array(shared.state)
    this.#mine = (owner + 1) * 2
    this.#robs = owner === MAIN || owner === REPAIRER
  }

  /** Not twice by one thread: it would wait for itself. */
  enter(): void {
    if (Atomics.compareExchange(this.#state, LOCK, 0, this.#mine) !== 0) this.#wait()
    this.#state[HOLDS]!++
  }

  leave(): void {
    const held = Atomics.compareExchange(this.#state, LOCK, this.#mine, 0)
    if (held !== this.#mine) this.#leaveAwaited(held)
  }

  /** Takes the lock over from a thread that ended, and empties what it guards; false: it did not hold it. */
  takeFrom(owner: number): boolean {
    for (;;) {
      const held = Atomics.load(this.#state, LOCK)
      if (held >>> 1 !== owner + 1) return false
      if (this.#rob(held)) return true
    }
  }

  #leaveAwaited(held: number): void {
    if (held === (this.#mine | AWAITED)) {
      Atomics.store(this.#state, LOCK, 0)
      Atomics.notify(this.#state, LOCK, 1)
      return
    }
    // It was taken for dead (a debugger held it, say), and has perhaps written into what others count.
    this.enter()
    empty(this.#shared)
    this.leave()
  }

  #rob(held: number): boolean {
    if (Atomics.compareExchange(this.#state, LOCK, held, this.#mine | AWAITED) !== held) return false
    empty(this.#shared)
    return true
  }

  #wait(): void {
    for (let looked = 0; looked < looks; looked++) {
      if (Atomics.load(this.#state, LOCK) === 0 && Atomics.compareExchange(this.#state, LOCK, 0, this.#mine) === 0)
        return
      Atomics.pause()
    }
    let hold = -1
    for (let slept = 0; ; ) {
      const held = Atomics.load(this.#state, LOCK)
      if (held === 0) {
        // Perhaps others sleep as well.
        if (Atomics.compareExchange(this.#state, LOCK, 0, this.#mine | AWAITED) === 0) return
        continue
      }
      const holds = Atomics.load(this.#state, HOLDS)
      slept = holds === hold ? slept + 1 : 0
      hold = holds
      if (this.#robs && slept > sleeps && this.#rob(held)) {
        this.#state[ROBBED] = 1
        return
      }
      if ((held & AWAITED) !== 0 || Atomics.compareExchange(this.#state, LOCK, held, held | AWAITED) === held)
        Atomics.wait(this.#state, LOCK, held | AWAITED, longestSleep)
    }
  }
}
