import type { Call } from '../call.ts'
import { Fifo } from '../hub/fifo.ts'
import type { Ending } from '../hub/hub.ts'

/**
 * Of what is left, one charge of several messages takes no more than this part: a charge that is refused is spent as well,
 * and others of the same key charge at the same time. So some 250 of them could meet before one is refused that would in
 * part have been covered.
 */
const PART = 256

/** One thing on its way to a client: a message, or what is none (`messages` 0) and costs nothing. */
export interface Frame {
  readonly bytes: Buffer
  readonly messages: 0 | 1
  /** Of a message; null: it carries none. */
  readonly cursor: string | null
}

interface Owner {
  /** It is covered; in the order in which they came. */
  covered(frame: Frame): void
  /** For now no more follows: what was covered may leave, or `ending` tells that nothing else will be. */
  settled(): void
}

/**
 * The quota of a client whose stream counts messages or bytes. Counters in memory answer at once, and nothing waits.
 * While others are asked, what comes is held here; then it is charged together. Nothing passes that is not covered.
 */
export class Metered {
  /** Nothing more is covered; 'left': the connection ends for another reason. */
  ending: Ending | null = null
  readonly #call: Call
  readonly #isByMessage: boolean
  readonly #mostMessages: number
  readonly #mostBytes: number
  readonly #owner: Owner
  readonly #held = new Fifo<Frame>()
  #heldBytes = 0

  constructor(call: Call, count: 'message' | 'byte', most: { messages: number; bytes: number }, owner: Owner) {
    this.#call = call
    this.#isByMessage = count === 'message'
    this.#mostMessages = most.messages
    this.#mostBytes = most.bytes
    this.#owner = owner
  }

  get hasRoom(): boolean {
    if (this.ending !== null) return false
    return this.#held.length < this.#mostMessages && this.#heldBytes < this.#mostBytes
  }

  /** Nothing is held. */
  get isEmpty(): boolean {
    return this.#held.length === 0
  }

  /** True: it is covered now. Else it is held, or, behind the end, forgotten. */
  passes(bytes: Buffer, messages: 0 | 1, cursor: string | null): boolean {
    if (this.ending !== null) return false
    if (this.isEmpty) {
      const units = this.#unitsOf(bytes, messages)
      if (units === 0) return true
      const left = this.#call.charge(units)
      if (typeof left === 'number') {
        if (left < 0) this.ending = 'quota'
        return left >= 0
      }
      this.#await(left, 1)
    }
    this.#held.push({ bytes, messages, cursor })
    this.#heldBytes += bytes.length
    return false
  }

  /** Forgets what is held: it goes back when the client leaves. */
  end(why: Ending): void {
    this.ending ??= why
    while (this.#held.shift() !== undefined);
    this.#heldBytes = 0
  }

  #unitsOf(bytes: Buffer, messages: number): number {
    if (messages === 0 || bytes.length === 0) return 0
    return this.#isByMessage ? 1 : bytes.length
  }

  #await(answer: Promise<number>, count: number): void {
    answer.then(
      left => this.#answered(left, count),
      () => this.#refused('fault')
    )
  }

  /** The first `count` were charged; goes on with those behind them. */
  #answered(left: number, count: number): void {
    let answer: number | Promise<number> = left
    let charged = count
    while (this.ending === null) {
      if (typeof answer !== 'number') {
        this.#await(answer, charged)
        break
      }
      if (answer < 0) return this.#refused('quota')
      this.#release(charged)
      if (this.isEmpty) break
      const most: number = answer / PART
      let units = 0
      for (charged = 0; charged < this.#held.length; charged++) {
        const { bytes, messages } = this.#held.at(charged)!
        const more = this.#unitsOf(bytes, messages)
        if (units > 0 && more > 0 && units + more > most) break
        units += more
      }
      if (units > 0) answer = this.#call.charge(units)
    }
    if (this.ending === null) this.#owner.settled()
  }

  #release(count: number): void {
    for (let i = 0; i < count; i++) {
      const frame = this.#held.shift()!
      this.#heldBytes -= frame.bytes.length
      this.#owner.covered(frame)
    }
  }

  #refused(why: Ending): void {
    if (this.ending !== null) return
    this.end(why)
    this.#owner.settled()
  }
}
