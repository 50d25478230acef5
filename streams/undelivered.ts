/**
 * Why a message did not arrive. `unavailable`: nothing was written, so trying again is safe; `unknown`: it was sent and no
 * answer came, it may have been written; `busy`: a bound of our own; `too_large`; `invalid`: the message itself (a key or
 * partition that cannot be worked out, a schema that it does not fit); `misconfigured`: what only an operator can mend
 * (unknown topic, credentials); `failed`: whatever else the other side said.
 */
export type Reason = 'unavailable' | 'unknown' | 'busy' | 'too_large' | 'invalid' | 'misconfigured' | 'failed'

/** A message was not delivered. The text is for the log; `invalid` alone is told to whoever sent it. */
export class Undelivered extends Error {
  readonly reason: Reason
  constructor(reason: Reason, message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}
