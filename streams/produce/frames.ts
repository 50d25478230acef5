import type { WebSocket } from 'ws'
import type { Call } from '../call.ts'
import type { Ending } from '../hub/hub.ts'
import type { MessageHeaders } from '../message.ts'
import { type No, nos } from '../refusals.ts'
import { isSafeToRetry, type Result, refusalOf, told } from './answers.ts'
import { type Production, prepared } from './production.ts'

/** The subprotocol in which every frame is answered. */
export const ENVELOPE = 'svc.stream.v1'

/** Frames of one connection that are under way at most; above either the client is not read. */
const MOST_FRAMES = 64
const MOST_BYTES = 1_048_576
/** Signs of life that may be missing, one after the other. */
const MOST_MISSED = 2

const CODES: Readonly<Record<Ending, number>> = {
  left: 1000,
  key: 1008,
  quota: 4429,
  disabled: 1001,
  changed: 1012,
  stopping: 1012,
  age: 1012,
  slow: 1013,
  protocol: 1002,
  fault: 1011
}
/** What is under way is still answered before these. */
const PATIENT: readonly Ending[] = ['changed', 'stopping', 'age']

/** A frame's answer, which waits for those before it. */
interface Slot {
  readonly bytes: number
  answer: string | null
}

/** One WebSocket connection of a producer: each frame becomes a message, in order. */
export class Frames {
  readonly #production: Production
  readonly #call: Call
  readonly #socket: WebSocket
  readonly #over: (frames: Frames) => void
  /** Of every message. */
  readonly #headers: MessageHeaders
  readonly #isAnswered: boolean
  /** Frames that came while too much was under way: the rest of one read. */
  #waiting: Buffer[] = []
  /** Frames whose answer has not gone, in order. */
  readonly #slots: Slot[] = []
  #bytes = 0
  /** Answers that are on their way out. */
  #writing = 0
  #sending = 0
  #missed = 0
  #ending: Ending | null = null
  #isClosed = false
  #isGoingOn = false
  #isOver = false
  /** What came so far. */
  messages = 0
  bytes = 0

  /** @param over called once, when the connection has closed and nothing of it is under way */
  constructor(production: Production, call: Call, socket: WebSocket, over: (frames: Frames) => void) {
    this.#production = production
    this.#call = call
    this.#socket = socket
    this.#over = over
    this.#headers = production.carried(call).filter(([name]) => name !== 'content-type')
    this.#isAnswered = socket.protocol === ENVELOPE
    socket.on('message', data => this.#take(data as Buffer))
    socket.on('pong', () => {
      this.#missed = 0
    })
    // A close follows from it.
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code?.startsWith('WS_ERR') === true) this.#ending ??= 'protocol'
    })
    socket.on('close', () => {
      this.#isClosed = true
      this.#rest()
    })
  }

  /** Why it ended; 'left': the client did it. */
  get reason(): Ending {
    return this.#ending ?? 'left'
  }

  greet(welcome: string): void {
    if (welcome !== '') this.#socket.send(welcome)
  }

  /** Called now and then: a connection that shows no sign of life ends. */
  ping(): void {
    if (this.#sending > 0) this.#missed = 0
    if (this.#missed++ >= MOST_MISSED) this.#socket.terminate()
    else if (this.#socket.readyState === this.#socket.OPEN) this.#socket.ping()
  }

  close(why: Ending): void {
    if (this.#ending !== null) return
    this.#ending = why
    for (const { length } of this.#waiting) this.#hold(-length)
    this.#waiting = []
    if (!PATIENT.includes(why) || this.#slots.length === 0) this.#shut()
  }

  #shut(): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return
    // A paused socket would not see the client's answer.
    this.#socket.resume()
    this.#socket.close(CODES[this.#ending!], this.#ending!)
  }

  /** Too much is under way for one more. */
  get #hasEnough(): boolean {
    return this.#slots.length + this.#writing >= MOST_FRAMES
  }

  /** Too much is here for reading on. */
  get #isFull(): boolean {
    return this.#hasEnough || this.#bytes >= MOST_BYTES
  }

  #hold(bytes: number): void {
    this.#bytes += bytes
    this.#production.budget.add(bytes)
  }

  #take(data: Buffer): void {
    this.#missed = 0
    if (this.#ending !== null) return
    this.messages++
    this.bytes += data.length
    const mustWait = this.#hasEnough || this.#waiting.length > 0
    this.#hold(data.length)
    if (mustWait) this.#waiting.push(data)
    else this.#produce(data)
    if (this.#isFull && !this.#socket.isPaused) this.#socket.pause()
  }

  #produce(value: Buffer): void {
    const { output, clock, options, budget } = this.#production
    const slot: Slot = { bytes: value.length, answer: null }
    this.#slots.push(slot)
    this.#sending++
    if (budget.isFull) return this.#refused(slot, nos.budget)
    try {
      const message = prepared(this.#production, { key: null, value, headers: this.#headers }, this.#call)
      if (message === null) return this.#done(slot, 'filtered')
      output.send([message], this.#call, clock.now() + options.timeoutMs).then(
        ([place]) => {
          this.#production.counted(1)
          this.#done(slot, place ?? 'delivered')
        },
        fault => this.#failed(slot, fault)
      )
    } catch (fault) {
      this.#failed(slot, fault)
    }
  }

  #failed(slot: Slot, fault: unknown): void {
    this.#production.failures.add(fault)
    this.#refused(slot, refusalOf(fault))
  }

  #refused(slot: Slot, refusal: No): void {
    const { code, message } = refusal
    this.#answered(slot, JSON.stringify({ type: 'error', code, message, retry: isSafeToRetry(refusal) }))
  }

  /** Without the subprotocol a client hears of failures alone. */
  #done(slot: Slot, result: Result): void {
    this.#answered(slot, this.#isAnswered ? JSON.stringify({ type: 'ok', ...told(result) }) : '')
  }

  #answered(slot: Slot, answer: string): void {
    this.#sending--
    slot.answer = answer
    while (this.#slots.length > 0 && this.#slots[0]!.answer !== null) {
      const first = this.#slots.shift()!
      this.#hold(-first.bytes)
      if (first.answer !== '') this.#write(first.answer!)
    }
    this.#goOn()
  }

  /** Counts as under way until it has left: who does not read its answers is not read either. */
  #write(answer: string): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return
    this.#writing++
    this.#socket.send(answer, this.#written)
  }

  readonly #written = (): void => {
    this.#writing--
    this.#goOn()
  }

  #goOn(): void {
    // What is filtered out is done before `#produce` returns, and comes by here once more.
    if (this.#isGoingOn) return
    this.#isGoingOn = true
    while (this.#waiting.length > 0 && !this.#hasEnough) this.#produce(this.#waiting.shift()!)
    this.#isGoingOn = false
    this.#rest()
  }

  #rest(): void {
    if (this.#slots.length > 0 || this.#waiting.length > 0) return
    if (this.#isClosed) this.#finish()
    else if (this.#ending !== null) this.#shut()
    else if (this.#socket.isPaused && !this.#isFull) this.#socket.resume()
  }

  #finish(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#over(this)
  }
}
