import type { Clock, Log } from '../../config/world.ts'
import type { Call } from '../call.ts'
import { type Batch, type Client, type Ending, encoded, type Format, type Item, type Seat } from '../hub/hub.ts'
import type { DeliveryOptions } from '../options.ts'
import { type No, no, nos } from '../refusals.ts'
import { formatsOf } from './formats.ts'
import { type Asked, messagePairs } from './pollWords.ts'
import type { About, Wants } from './pushClient.ts'

const keyEnded = no('stream_key', 403, 'The key is no longer valid')
const quotaUsed = no('stream_quota', 429, 'The quota is used up')

/** What a poll is answered whose waiting ends from our side. */
const endings: Readonly<Record<Ending, No>> = {
  left: nos.broken,
  key: keyEnded,
  quota: quotaUsed,
  disabled: nos.broken,
  changed: nos.draining,
  stopping: nos.draining,
  age: nos.draining,
  slow: nos.busy,
  protocol: nos.badRequest,
  fault: nos.broken
}

/**
 * One request that waits for messages: the first ends the waiting, and those that are there at that moment come along up
 * to `limit`. They count as delivered, and as acknowledged, once the whole answer is with the kernel.
 */
export class Poll implements Client {
  readonly transport = 'poll'
  readonly format: Format
  readonly wants: Wants
  readonly #call: Call
  readonly #options: DeliveryOptions
  readonly #about: About
  readonly #asked: Asked
  readonly #clock: Clock
  readonly #log: Log
  #seat: Seat | null = null
  #leave: (() => void) | null = null
  #cancel: (() => void) | null = null
  readonly #items: Item[] = []
  /** All that was taken, those without bytes included. */
  #taken = 0
  /** Cursor of the last of them. */
  #last: string | null = null
  #bytes = 0
  #missed = 0
  #gapCursor: string | null = null
  #isSettling = false
  #isAnswered = false
  #hasEnded = false
  #sent = 0
  #why: Ending | 'answered' | 'empty' = 'left'

  constructor(
    call: Call,
    options: DeliveryOptions,
    about: About,
    asked: Asked,
    tools: { clock: Clock; log: Log },
    wants: Wants
  ) {
    this.format = formatsOf(options).members
    this.wants = wants
    this.#call = call
    this.#options = options
    this.#about = about
    this.#asked = asked
    this.#clock = tools.clock
    this.#log = tools.log
  }

  admitted(seat: Seat, leave: () => void): void {
    this.#seat = seat
    this.#leave = leave
  }

  begin(): void {
    this.#cancel = this.#clock.after(this.#asked.waitMs, () => this.#empty())
    this.#seat!.ready()
  }

  hasRoom(): boolean {
    if (this.#seat === null || this.#isAnswered || this.#hasEnded) return false
    return this.#items.length < Math.max(1, this.#asked.limit) && this.#bytes < Math.max(1, this.#options.queue.bytes)
  }

  take(item: Item): void {
    this.#taken++
    this.#last = item.cursor
    // A tombstone has no bytes to answer with, nor has what the stream drops from envelopes.
    const hasBytes = this.#asked.limit === 0 ? item.record.value !== null : encoded(item, this.format).length > 0
    if (!hasBytes) return
    this.#items.push(item)
    this.#bytes += item.size
  }

  /** Those that do not fit any more come again: the next poll goes on behind the last one that is answered. */
  takeAll({ items }: Batch): void {
    for (let i = 0; i < items.length && this.hasRoom(); i++) this.take(items[i]!)
  }

  flush(): void {
    if (this.#isSettling || this.#isAnswered || this.#taken === 0) return
    this.#isSettling = true
    // More may come in this turn.
    setImmediate(() => this.#settle())
  }

  #settle(): void {
    this.#isSettling = false
    if (this.#isAnswered || this.#hasEnded) return
    if (this.#items.length > 0) return this.#charge()
    this.#delivered()
    this.#taken = 0
  }

  #charge(): void {
    this.#stopWaiting()
    const { count } = this.#options
    const answer = count === 'connection' ? 0 : this.#call.charge(this.#amount())
    if (typeof answer === 'number') return this.#charged(answer)
    answer.then(
      left => this.#charged(left),
      () => this.#hasEnded || this.#refuse('fault')
    )
  }

  #amount(): number {
    if (this.#options.count === 'message') return this.#items.length
    let bytes = 0
    for (const item of this.#items)
      bytes += this.#asked.limit === 0 ? item.record.value!.length : encoded(item, this.format).length
    return bytes
  }

  #charged(left: number): void {
    if (this.#hasEnded) return
    if (left < 0) return this.#refuse('quota')
    this.#why = 'answered'
    if (this.#asked.limit === 0) this.#one(this.#items[0]!)
    else this.#list()
  }

  #one(item: Item): void {
    this.#answer(200, messagePairs(item), item.record.value!)
  }

  #list(): void {
    const parts: Buffer[] = [Buffer.from('[')]
    for (const item of this.#items) {
      if (parts.length > 1) parts.push(COMMA)
      parts.push(encoded(item, this.format))
    }
    parts.push(Buffer.from(']'))
    this.#answer(200, ['Content-Type', 'application/json'], Buffer.concat(parts))
  }

  #empty(): void {
    // What has come in this very turn is answered instead.
    if (this.#isAnswered || this.#items.length > 0) return
    this.#why = 'empty'
    this.#answer(204, [], null)
  }

  #answer(status: number, pairs: string[], body: Buffer | null): void {
    this.#stopWaiting()
    const cursor = this.#cursor()
    if (cursor !== null) pairs.push('svc-cursor', cursor)
    if (this.#gapCursor !== null) pairs.push('svc-gap', this.#missed < 0 ? 'unknown' : String(this.#missed))
    pairs.push('Cache-Control', 'no-store')
    this.#sent = body?.length ?? 0
    this.#call.answer(status, pairs, body)
  }

  /** Behind the last message that is answered, so that the next poll goes on there. */
  #cursor(): string | null {
    for (let i = this.#items.length - 1; i >= 0; i--) if (this.#items[i]!.cursor !== null) return this.#items[i]!.cursor
    return this.#seat!.cursor() ?? (this.#gapCursor || null)
  }

  #stopWaiting(): void {
    this.#isAnswered = true
    this.#cancel?.()
    this.#cancel = null
  }

  gap(items: number, cursor: string): void {
    this.#missed = items < 0 || this.#missed < 0 ? -1 : this.#missed + items
    this.#gapCursor = cursor
  }

  close(why: Ending): void {
    if (!this.#isAnswered) this.#refuse(why)
  }

  #refuse(why: Ending): void {
    this.#stopWaiting()
    this.#why = why
    this.#call.refuse(endings[why])
  }

  #delivered(): void {
    this.#seat!.written(this.#taken)
    if (this.#options.ack === 'client' && this.#last !== null) this.#seat!.acknowledge(this.#last)
  }

  /** The answer or the connection has closed. */
  ended(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#stopWaiting()
    const seat = this.#seat!
    const messages = this.#why === 'answered' && this.#call.res.writableFinished ? this.#items.length : 0
    if (messages > 0) this.#delivered()
    this.#leave!()
    seat.leave()
    this.#log.info('stream connection ended', {
      api_id: this.#about.api,
      stream: this.#about.stream,
      transport: this.transport,
      client: this.#call.client,
      duration_ms: this.#clock.now() - this.#call.at,
      messages,
      bytes: this.#sent,
      reason: this.#why
    })
  }
}

const COMMA = Buffer.from(',')
