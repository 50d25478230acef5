/**
 * Why a message did not arrive. `unavailable`: nothing was written, so trying again is safe; `unknown`: it was sent and no
 * answer came, it may have been written; `busy`: a bound of our own, nothing was written; `too_large`; `invalid`: the
 * message itself (a key or partition that cannot be worked out, a schema that it does not fit); `rejected`: the other side
 * gave an answer that ends this message (`drop_on`); `misconfigured`: what only an operator can mend (unknown topic,
 * credentials); `failed`: whatever else the other side said.
 */
export type Reason =
  | 'unavailable'
  | 'unknown'
  | 'busy'
  | 'too_large'
  | 'invalid'
  | 'rejected'
  | 'misconfigured'
  | 'failed'

/** What became of one message of a call: null: delivered (or filtered out); undefined: not tried. */
export type Fate = Undelivered | null | undefined

export interface UndeliveredOptions extends ErrorOptions {
  /** Of a call with several messages that told them apart: one for each, in order. */
  readonly each?: readonly Fate[] | null
  /** The text is another side's: it is for the log alone. */
  readonly isForeign?: boolean
}

/** A message was not delivered. The text is for the log; that of `invalid` alone is told to whoever sent it, if it is ours. */
export class Undelivered extends Error {
  readonly reason: Reason
  /** Null: nobody knows which of the call's messages were delivered. */
  readonly each: readonly Fate[] | null
  readonly isForeign: boolean

  constructor(reason: Reason, message: string, options?: UndeliveredOptions) {
    super(message, options)
    this.reason = reason
    this.each = options?.each ?? null
    this.isForeign = options?.isForeign ?? false
  }
}
