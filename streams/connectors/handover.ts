import { backoffMs } from '../backoff.ts'
import type { ConnectorTools, Deliver } from '../connector.ts'
import type { Message } from '../message.ts'
import { Undelivered } from '../undelivered.ts'
import { within } from '../within.ts'
import { messageOf } from './outgoing.ts'

/** The same trouble is told at most so often. */
const TELL_MS = 10_000
/** How long `close` waits for what is under way. */
export const CLOSE_MS = 5_000
/** Wait for a bound of our own, which passes soon. */
const BUSY_MS = 50

/** Counts of one input, whatever the number of its handovers. */
export class Tally {
  /** Messages given up. */
  dropped = 0
  /** Messages offered once more. */
  redelivered = 0
  #droppedToldAt = Number.NEGATIVE_INFINITY
  #triedToldAt = Number.NEGATIVE_INFINITY

  /** Whether it is time to tell of a drop. */
  drop(now: number): boolean {
    this.dropped++
    if (now - this.#droppedToldAt < TELL_MS) return false
    this.#droppedToldAt = now
    return true
  }

  /** Whether it is time to tell of a failure. */
  fail(now: number): boolean {
    if (now - this.#triedToldAt < TELL_MS) return false
    this.#triedToldAt = now
    return true
  }
}

export interface Handing {
  readonly tally?: Tally
  /** False: what the other side did not take is dropped. */
  readonly replays?: boolean
  /** For the log: where a message comes from. */
  readonly where?: (message: Message) => object
}

/** What is still to go of messages of which one has failed. */
interface Left {
  readonly messages: readonly Message[]
  /** Of those still to go, in order. */
  indexes: number[]
  /** By index: it was offered before and failed. */
  readonly tried: boolean[]
  /** Nobody tells delivered ones from others: from here on each goes alone, so that none is repeated twice. */
  isOneByOne: boolean
  /** Of the next part; narrows the search for a message that can never be delivered. */
  size: number
  /** Of the first one, one after another. */
  failures: number
}

/**
 * Hands an input's messages on, in order, and tries again until they are delivered. Once one of several has failed, what is
 * delivered is not offered again: the one that fails holds up those behind it. What can never be delivered (it does not
 * fit, it is too large, the other side ended it) is dropped and told in the log; without replays all that the other side
 * did not take is, but never what no more than a bound or a broken connection kept from it.
 */
export class Handover {
  readonly #deliver: Deliver
  readonly #tools: ConnectorTools
  readonly #replays: boolean
  readonly #where: (message: Message) => object
  readonly tally: Tally
  #fault: string | null = null
  #isClosed = false
  /** Ends a wait before the next try. */
  #wake: (() => void) | null = null

  constructor(deliver: Deliver, tools: ConnectorTools, { tally, replays, where }: Handing = {}) {
    this.#deliver = deliver
    this.#tools = tools
    this.#replays = replays ?? true
    this.#where = where ?? (() => ({}))
    this.tally = tally ?? new Tally()
  }

  get fault(): string | null {
    return this.#fault
  }

  /**
   * Resolves when the messages are done with, or it is closed; one call at a time.
   * @param through called with how many of the first ones are done with, as often as that grows
   */
  async give(messages: readonly Message[], through: (count: number) => void = () => {}): Promise<void> {
    if (this.#isClosed) return
    try {
      await this.#deliver(messages)
      this.#fault = null
      through(messages.length)
    } catch (cause) {
      await this.#again(messages, cause, through)
    }
  }

  async #again(messages: readonly Message[], first: unknown, through: (count: number) => void): Promise<void> {
    const left: Left = {
      messages,
      indexes: messages.map((_, i) => i),
      tried: messages.map(() => false),
      isOneByOne: false,
      size: messages.length,
      failures: 0
    }
    let wait = this.#failed(left, left.indexes, first)
    for (;;) {
      const head = left.indexes[0]
      through(head ?? messages.length)
      if (head === undefined) break
      if (wait > 0) await this.pause(wait)
      if (this.#isClosed) return
      const part = left.indexes.slice(0, left.isOneByOne || left.tried[head] ? 1 : left.size)
      for (const i of part) if (left.tried[i]) this.tally.redelivered++
      try {
        await this.#deliver(part.map(i => messages[i]!))
        left.indexes = left.indexes.slice(part.length)
        left.size = messages.length
        left.failures = 0
        this.#fault = null
        wait = 0
      } catch (cause) {
        wait = this.#failed(left, part, cause)
      }
    }
    this.#fault = null
  }

  /** Sorts out what a failed call leaves. Answers the wait before the next one, in milliseconds. */
  #failed(left: Left, part: readonly number[], cause: unknown): number {
    const head = part[0]!
    const reason = cause instanceof Undelivered ? cause.reason : null
    const each = cause instanceof Undelivered && cause.each !== null ? cause.each : part.length === 1 ? [cause] : null
    const before = left.indexes.length
    if (each === null) {
      if (reason === 'invalid' || reason === 'too_large') {
        left.size = part.length >> 1
        return 0
      }
      if (reason === 'busy') return this.#later(left, head, cause)
      // It may have been written, and nothing shall come twice.
      if (!this.#replays && (reason === 'unknown' || reason === null)) {
        for (const i of part) this.#drop(left.messages[i]!, cause)
        left.indexes = left.indexes.slice(part.length)
        return 0
      }
      left.isOneByOne = true
      for (const i of part) left.tried[i] = true
      return this.#later(left, head, cause)
    }
    left.size = left.messages.length
    const refused = part[each.findIndex(fate => fate instanceof Undelivered && fate.reason !== 'busy')] ?? head
    const gone = new Set<number>()
    for (const [at, fate] of each.entries()) {
      const i = part[at]!
      if (fate === undefined) continue
      if (fate === null || this.#isOver(fate)) gone.add(i)
      if (fate === null) continue
      if (gone.has(i)) this.#drop(left.messages[i]!, fate)
      else if (!(fate instanceof Undelivered && fate.reason === 'busy')) left.tried[i] = true
    }
    left.indexes = left.indexes.filter(i => !gone.has(i))
    if (left.indexes.length === 0) return 0
    const isSame = left.indexes[0] === head
    if (!isSame) left.failures = 0
    // What comes next may fail at once too: only what has failed, or stands still, waits.
    if (left.tried[left.indexes[0]!] || left.indexes.length === before)
      return this.#later(left, gone.has(refused) ? left.indexes[0]! : refused, cause)
    return 0
  }

  /** Whether this ends the message. */
  #isOver(fate: unknown): boolean {
    if (!(fate instanceof Undelivered)) return !this.#replays
    const { reason } = fate
    if (reason === 'invalid' || reason === 'too_large' || reason === 'rejected') return true
    return !this.#replays && (reason === 'failed' || reason === 'unknown')
  }

  #later(left: Left, head: number, cause: unknown): number {
    if (cause instanceof Undelivered && cause.reason === 'busy') return BUSY_MS
    this.#fault = `messages are not delivered: ${messageOf(cause)}`
    if (this.tally.fail(this.#tools.clock.now()))
      this.#log('messages are not delivered and are tried again', left.messages[head]!, { cause: messageOf(cause) })
    return backoffMs(left.failures++)
  }

  #drop(message: Message, cause: unknown): void {
    if (this.tally.drop(this.#tools.clock.now()))
      this.#log('messages are dropped', message, { dropped: this.tally.dropped, cause: messageOf(cause) })
  }

  /** Waits so long, or until it is closed. */
  pause(ms: number): Promise<void> {
    if (this.#isClosed) return Promise.resolve()
    return new Promise(resolve => {
      const cancel = this.#tools.clock.after(ms, () => this.#wake?.())
      this.#wake = () => {
        this.#wake = null
        cancel()
        resolve()
      }
    })
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Gives up what waits; what is under way is not taken back. */
  stop(): void {
    this.#isClosed = true
    this.#wake?.()
  }

  /** Gives up what waits, and waits a while for what is under way. */
  async close(underWay: Promise<unknown>): Promise<void> {
    this.stop()
    await within(underWay, CLOSE_MS, this.#tools.clock)
  }

  #log(what: string, message: Message, fields: object): void {
    const { api, stream, log } = this.#tools
    log.warn(what, { api_id: api, stream, ...this.#where(message), ...fields })
  }
}
