import type { Message, Placed } from '../message.ts'
import { type Fate, type Reason, Undelivered } from '../undelivered.ts'

/** The messages of one call of which some may be delivered already: what is left of them goes to another try. */
export class Remainder {
  readonly #fates: Fate[]
  readonly #placed: (Placed | null)[]
  #indexes: readonly number[]
  #messages: readonly Message[]
  /** A try failed without telling which messages were delivered: only all of them can be told of from then on. */
  #isVague = false

  constructor(messages: readonly Message[]) {
    this.#messages = messages
    this.#indexes = messages.map((_, i) => i)
    this.#fates = messages.map(() => undefined)
    this.#placed = messages.map(() => null)
  }

  /** Still to go. */
  get messages(): readonly Message[] {
    return this.#messages
  }

  /** All of them went. Answers where the whole call's messages are. */
  sent(placed: readonly (Placed | null)[]): readonly (Placed | null)[] {
    for (const [k, i] of this.#indexes.entries()) this.#placed[i] = placed[k] ?? null
    return this.#placed
  }

  failed(cause: unknown): void {
    if (!(cause instanceof Undelivered)) return
    const each = cause.each ?? (this.#indexes.length === 1 ? [cause] : null)
    if (each === null) {
      this.#isVague = true
      return
    }
    for (const [k, i] of this.#indexes.entries()) this.#fates[i] = each[k]
    const kept = this.#indexes.map((_, k) => k).filter(k => each[k] !== null)
    this.#indexes = kept.map(k => this.#indexes[k]!)
    this.#messages = kept.map(k => this.#messages[k]!)
  }

  /** The last failure, told of the whole call. */
  fault(cause: Undelivered, reason: Reason): Undelivered {
    const each = this.#isVague || this.#fates.length === 1 ? null : this.#fates
    if (each === null && cause.reason === reason && cause.each === null) return cause
    return new Undelivered(reason, cause.message, { cause, each, isForeign: cause.isForeign })
  }
}
