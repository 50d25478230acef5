import { createHash } from 'node:crypto'
import type { Random } from '../../config/world.ts'

/** What the keys of session tickets are made of, until a time (milliseconds since the epoch). */
export interface TicketSeed {
  readonly secret: Uint8Array
  readonly untilMs: number
}

/** As OpenSSL wants them: name, cipher, HMAC. */
const KEY_BYTES = 48
/** A session counts for five minutes. */
const PERIOD_MS = 3_600_000

export function ticketSeed(random: Random, now: number): TicketSeed {
  return { secret: random.bytes(KEY_BYTES), untilMs: now + PERIOD_MS }
}

/**
 * Keys of TLS session tickets, which threads make alike, so that a session goes on whichever of them gets the next
 * connection. Each period's come out of those before, and not the other way round: who finds one out reads no earlier
 * sessions.
 */
export class Tickets {
  #secret: Uint8Array
  #untilMs: number

  constructor({ secret, untilMs }: TicketSeed) {
    this.#secret = secret
    this.#untilMs = untilMs
  }

  /** For a thread that starts now. */
  seed(now: number): TicketSeed {
    this.#advance(now)
    return { secret: this.#secret, untilMs: this.#untilMs }
  }

  /** @param use sessions of one are none of another's */
  keys(use: string, now: number): Buffer {
    this.#advance(now)
    return createHash('sha384').update(this.#secret).update(use).digest()
  }

  #advance(now: number): void {
    for (; now >= this.#untilMs; this.#untilMs += PERIOD_MS)
      this.#secret = createHash('sha384').update(this.#secret).update('next').digest()
  }
}
