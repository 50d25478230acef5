import type { Duplex } from 'node:stream'
import type { Log, Random } from '../../config/world.ts'
import type { Call } from '../call.ts'
import { type Batch, type Client, type Ending, encoded, type Format, type Item, type Seat } from '../hub/hub.ts'
import type { DeliveryOptions } from '../options.ts'
import { closingMs, jittered } from './endings.ts'
import { type Frame, Metered } from './metered.ts'
import { Outbox } from './outbox.ts'
import type { Watched, Wheel } from './wheel.ts'

/** What all clients of this process share. */
export interface ClientTools {
  readonly log: Log
  readonly random: Random
  readonly wheel: Wheel
}

/** Names a stream in logs. */
export interface About {
  readonly api: string
  readonly stream: string
}

export type Wants = ((item: Item) => boolean) | null

/**
 * A client whose connection stays open: what its transports share. Bytes are made once a message and written straight to the
 * socket, one write and one callback a flush. A client that takes nothing has no room, so nothing grows; after
 * `write_wait` it is cut off.
 */
export abstract class PushClient implements Client, Watched {
  readonly transport: 'sse' | 'websocket'
  readonly format: Format
  readonly wants: Wants
  slot = 0
  protected readonly call: Call
  protected readonly options: DeliveryOptions
  protected readonly tools: ClientTools
  protected readonly socket: Duplex
  protected state: 'waiting' | 'open' | 'closing' | 'ended' = 'waiting'
  /** By the wheel's time. */
  protected sentAt: number
  protected seat: Seat | null = null
  readonly #about: About
  protected readonly out: Outbox
  #leave: (() => void) | null = null
  #ended: (() => void) | null = null
  #why: Ending | 'silent' = 'left'
  /** Gone for good and not told yet; -1: nobody knows how many. */
  #missed = 0
  /** Where it goes on behind them; '': nobody knows. Null: nothing is to be told. */
  #gapCursor: string | null = null
  /** With `ack: client`: the last message that it saw and has not acknowledged, and one behind it that it never sees. */
  #shown: string | null = null
  #unseen: string | null = null
  /** Null: the quota counts connections alone. */
  readonly #metered: Metered | null
  /** The head of the answer. */
  #isOut = false
  #endsAt: number
  #closeBy = Number.POSITIVE_INFINITY

  constructor(
    transport: 'sse' | 'websocket',
    format: Format,
    wants: Wants,
    call: Call,
    options: DeliveryOptions,
    about: About,
    tools: ClientTools
  ) {
    this.transport = transport
    this.format = format
    this.wants = wants
    this.call = call
    this.options = options
    this.tools = tools
    this.socket = call.upgrade?.socket ?? call.req.socket
    this.#about = about
    this.out = new Outbox(this.socket, options.queue, tools.wheel, this)
    this.#metered = options.count === 'connection' ? null : new Metered(call, options.count, this.out.most, this)
    const { now } = tools.wheel
    this.sentAt = now
    this.#endsAt = options.maxAgeMs > 0 ? now + jittered(options.maxAgeMs, tools.random) : Number.POSITIVE_INFINITY
  }

  /** Says a gap in the transport's words; null: it has none. */
  protected abstract gapBytes(missed: number | null, cursor: string | null): Buffer | null
  /** Says the ending and ends the connection; the head of the answer is out. */
  protected abstract finish(why: Ending): void
  /** A sign of life when it is due. */
  protected abstract beat(now: number): void
  /** The transport takes frames. */
  protected isWritable(): boolean {
    return true
  }

  /** @param leave gives back the place among the connections of this process */
  admitted(seat: Seat, leave: () => void): void {
    this.seat = seat
    this.#leave = leave
    this.tools.wheel.add(this)
  }

  /** The head of the answer is out: from here on messages come. */
  protected opened(): void {
    this.#isOut = true
    if (this.state === 'closing') return this.finish(this.#why as Ending)
    this.state = 'open'
    this.#goOn()
  }

  hasRoom(): boolean {
    return this.state === 'open' && !this.out.isFull && this.#metered?.hasRoom !== false && this.isWritable()
  }

  take(item: Item): void {
    const bytes = encoded(item, this.format)
    if (this.#metered === null) this.#put(item.cursor, bytes)
    // Nothing behind what the quota does not cover: it goes back when the client leaves.
    else if (this.#metered.passes(bytes, 1, item.cursor)) this.#put(item.cursor, bytes)
  }

  #put(cursor: string | null, bytes: Buffer): void {
    if (this.options.ack === 'client') this.#expect(cursor, bytes.length > 0)
    this.out.add(bytes, 1)
  }

  /** Something was taken and waits for the quota. */
  protected get isHolding(): boolean {
    return this.#metered?.isEmpty === false
  }

  covered({ bytes, messages, cursor }: Frame): void {
    if (messages > 0) this.#put(cursor, bytes)
    else this.out.add(bytes, 0)
  }

  settled(): void {
    this.flush()
    this.#goOn()
  }

  #expect(cursor: string | null, isShown: boolean): void {
    if (isShown) this.#shown = cursor
    this.#unseen = isShown ? null : cursor
  }

  get key(): string {
    return this.call.key
  }

  /**
   * The client has everything up to this id; false: it is not under way, as when it comes late or twice. What the client
   * never saw behind that it cannot acknowledge itself.
   */
  acknowledge(id: string): boolean {
    if (this.state === 'ended' || !this.seat!.acknowledge(id)) return false
    if (id === this.#shown) {
      this.#shown = null
      this.#passUnseen()
    }
    return true
  }

  /** Called once, when the connection has ended. */
  onEnd(listener: () => void): void {
    this.#ended = listener
  }

  #passUnseen(): void {
    if (this.#unseen === null || this.#shown !== null) return
    this.seat!.acknowledge(this.#unseen)
    this.#unseen = null
  }

  takeAll(batch: Batch): void {
    const { items } = batch
    if (this.#metered === null) this.out.add(batch.joined(this.format), items.length)
    else for (let i = 0; i < items.length; i++) this.take(items[i]!)
  }

  flush(): void {
    const { out } = this
    if (!out.isEmpty) {
      if (this.state !== 'open' || !this.isWritable()) return out.drop()
      this.sentAt = this.tools.wheel.now
      out.send()
    }
    const why = this.#metered?.ending ?? null
    if (why !== null) this.close(why)
  }

  delivered(count: number): void {
    if (this.state === 'ended') return
    if (count > 0) this.seat!.written(count)
    this.#passUnseen()
    this.#regain()
  }

  #regain(): void {
    if (this.out.isFull && this.out.regains()) this.#goOn()
  }

  /** There may be room again. */
  #goOn(): void {
    if (!this.hasRoom()) return
    if (this.#gapCursor !== null) this.#tellGap()
    if (this.hasRoom()) this.seat!.ready()
  }

  gap(items: number, cursor: string): void {
    this.#missed = items < 0 || this.#missed < 0 ? -1 : this.#missed + items
    this.#gapCursor = cursor
    // Of a client that takes nothing, gaps grow together into one.
    if (this.hasRoom()) this.#tellGap()
  }

  #tellGap(): void {
    const bytes = this.gapBytes(this.#missed < 0 ? null : this.#missed, this.#gapCursor || null)
    this.#missed = 0
    this.#gapCursor = null
    if (bytes === null) return
    // Behind the messages that came before it.
    if (this.#metered?.passes(bytes, 0, null) === false) return
    this.out.add(bytes, 0)
    this.flush()
  }

  /** Writes what is no message. */
  protected say(bytes: Buffer): void {
    this.out.bytes += bytes.length
    this.sentAt = this.tools.wheel.now
    this.socket.write(bytes)
  }

  close(why: Ending): void {
    if (!this.startClosing(why)) return
    this.finish(why)
  }

  /** From now on it is closing; false: it was before, or its head is not out yet. */
  protected startClosing(why: Ending): boolean {
    if (this.state === 'closing' || this.state === 'ended') return false
    this.state = 'closing'
    this.#why = why
    this.#metered?.end('left')
    this.#closeBy = this.tools.wheel.now + closingMs(why, this.options.writeWaitMs)
    return this.#isOut
  }

  /** The connection has closed. */
  ended(): void {
    if (this.state === 'ended') return
    this.state = 'ended'
    this.#metered?.end('left')
    this.tools.wheel.delete(this)
    this.#leave!()
    this.#ended?.()
    this.seat!.leave()
    const { call } = this
    // Its handshake was refused, or it left before its answer began.
    if (!this.#isOut) return
    call.sent(this.out.bytes)
    this.tools.log.info('stream connection ended', {
      api_id: this.#about.api,
      stream: this.#about.stream,
      transport: this.transport,
      client: call.client,
      duration_ms: this.tools.wheel.time() - call.at,
      messages: this.out.messages,
      bytes: this.out.bytes,
      reason: this.#why
    })
  }

  protected cut(why: Ending | 'silent'): void {
    if (this.state !== 'closing') this.#why = why
    this.state = 'closing'
    this.#metered?.end('left')
    this.socket.destroy()
  }

  look(now: number): void {
    const { writeWaitMs } = this.options
    if (writeWaitMs > 0 && this.out.isStalled(now, writeWaitMs)) return this.cut('slow')
    if (this.state === 'closing' && now >= this.#closeBy) return this.cut('left')
    if (this.state !== 'open') return
    if (now >= this.#endsAt) return this.close('age')
    this.#regain()
    this.beat(now)
  }
}
