import type { IncomingMessage } from 'node:http'
import type { Budget } from '../budget.ts'
import type { Call } from '../call.ts'
import { type No, no, nos } from '../refusals.ts'

/** Who waits for a body. One of these is called, once. */
export interface Recipient {
  received(body: Buffer): void
  /** It will not be read to its end. */
  refused(what: No): void
  /** The client left before its end. */
  left(): void
}

/** The listeners are module functions: what they belong to hangs on the request. */
type Incoming = IncomingMessage & { intake?: Intake | null }

const EMPTY = Buffer.alloc(0)
const SMALLEST_ROOM = 16_384
/** A body may take this long, and a second more for each KiB of it. */
const BODY_MS = 30_000

const tooSlow = no('body_timeout', 408, 'Request body was not received in time')

/** Reads one request's body into memory, within bounds of size, time and the process's budget. */
export class Intake {
  readonly #call: Call
  readonly #most: number
  readonly #budget: Budget
  readonly #recipient: Recipient
  readonly #started: number
  /** `#used` bytes of it count. */
  #body: Buffer = EMPTY
  #used = 0
  /** Bytes that the budget counts for it. */
  #held = 0
  #isOver = false

  /**
   * @param most bytes
   * @param now milliseconds since the epoch
   */
  constructor(call: Call, most: number, budget: Budget, recipient: Recipient, now: number) {
    this.#call = call
    this.#most = most
    this.#budget = budget
    this.#recipient = recipient
    this.#started = now
  }

  start(): void {
    const { isGone, bodyLength, res } = this.#call
    if (isGone) return this.gone()
    if (bodyLength > this.#most) return this.stop(nos.bodyTooLarge)
    if (this.#budget.isFull) return this.stop(nos.budget)
    if (bodyLength === 0) return this.end()
    const req: Incoming = this.#call.req
    req.intake = this
    req.on('data', onData)
    req.on('end', onEnd)
    req.on('error', onGone)
    req.on('close', onGone)
    if (this.#call.header('expect') !== null) res.writeContinue()
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** Ends it when it takes too long. */
  hurry(now: number): void {
    if (now - this.#started > BODY_MS + this.#used) this.stop(tooSlow)
  }

  stop(refusal: No): void {
    this.#finish()
    this.#recipient.refused(refusal)
  }

  data(chunk: Buffer): void {
    const used = this.#used + chunk.length
    if (used > this.#most) return this.stop(nos.bodyTooLarge)
    if (this.#used === 0) {
      this.#body = chunk
      this.#hold(chunk.length)
    } else {
      if (used > this.#body.length) this.#grow(used)
      chunk.copy(this.#body, this.#used)
    }
    this.#used = used
    if (this.#budget.isFull) this.stop(nos.budget)
  }

  /** Doubles, so that a client which sends its body byte by byte costs no more than twice its bytes. */
  #grow(least: number): void {
    const { bodyLength } = this.#call
    const most = bodyLength > 0 ? bodyLength : this.#most
    const room = Buffer.allocUnsafeSlow(Math.max(least, Math.min(most, Math.max(2 * least, SMALLEST_ROOM))))
    this.#body.copy(room, 0, 0, this.#used)
    this.#hold(room.length - this.#body.length)
    this.#body = room
  }

  #hold(bytes: number): void {
    this.#held += bytes
    this.#budget.add(bytes)
  }

  end(): void {
    this.#finish()
    this.#recipient.received(this.#used === this.#body.length ? this.#body : this.#body.subarray(0, this.#used))
  }

  gone(): void {
    this.#finish()
    this.#recipient.left()
  }

  #finish(): void {
    this.#isOver = true
    const req: Incoming = this.#call.req
    req.intake = null
  }

  /** The body is of no use any more. */
  release(): void {
    if (this.#held > 0) this.#hold(-this.#held)
    this.#body = EMPTY
  }
}

function onData(this: Incoming, chunk: Buffer): void {
  this.intake?.data(chunk)
}

function onEnd(this: Incoming): void {
  this.intake?.end()
}

function onGone(this: Incoming): void {
  this.intake?.gone()
}
