import type { ConnectorTools, Deliver } from '../connector.ts'
import type { Message } from '../message.ts'
import { Undelivered } from '../undelivered.ts'
import { backoffMs } from './backoff.ts'
import { messageOf } from './outgoing.ts'

/** What is dropped is told at most so often. */
const TELL_MS = 10_000
/** How long `close` waits for what is under way. */
const CLOSE_MS = 5_000

/**
 * Hands an input's messages on, in order, and tries again until they are delivered. Only what can never be delivered
 * (it does not fit, it is too large) is dropped and told in the log.
 */
export class Handover {
  readonly #deliver: Deliver
  readonly #tools: ConnectorTools
  #fault: string | null = null
  #isClosed = false
  /** Ends a wait before the next try. */
  #wake: (() => void) | null = null
  #dropped = 0
  #toldAt = Number.NEGATIVE_INFINITY

  constructor(deliver: Deliver, tools: ConnectorTools) {
    this.#deliver = deliver
    this.#tools = tools
  }

  get fault(): string | null {
    return this.#fault
  }

  /** Resolves when the messages are done with; one call at a time. */
  async give(messages: readonly Message[]): Promise<void> {
    for (let failures = 0; !this.#isClosed; failures++) {
      try {
        await this.#deliver(messages)
        this.#fault = null
        return
      } catch (cause) {
        const isPoison = cause instanceof Undelivered && (cause.reason === 'invalid' || cause.reason === 'too_large')
        if (isPoison && messages.length === 1) return this.#drop(cause)
        if (isPoison) {
          for (const one of messages) await this.give([one])
          return
        }
        this.#fault = `messages are not delivered: ${messageOf(cause)}`
        if (failures === 0) this.#log('messages are not delivered and are tried again', { cause: messageOf(cause) })
        await this.pause(backoffMs(failures))
      }
    }
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

  /** Gives up what waits, and waits a while for what is under way. */
  async close(underWay: Promise<void>): Promise<void> {
    this.#isClosed = true
    this.#wake?.()
    await new Promise<void>(resolve => {
      const cancel = this.#tools.clock.after(CLOSE_MS, resolve)
      void underWay.finally(() => {
        cancel()
        resolve()
      })
    })
  }

  #drop(cause: unknown): void {
    this.#dropped++
    const now = this.#tools.clock.now()
    if (now - this.#toldAt < TELL_MS) return
    this.#toldAt = now
    this.#log('messages are dropped', { dropped: this.#dropped, cause: messageOf(cause) })
  }

  #log(what: string, fields: object): void {
    const { api, stream, log } = this.#tools
    log.warn(what, { api_id: api, stream, ...fields })
  }
}
