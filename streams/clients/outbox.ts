import type { Duplex } from 'node:stream'
import type { DeliveryOptions } from '../options.ts'
import type { Wheel } from './wheel.ts'

/** Bytes that wait in a socket, at most; the kernel holds more. Node's own high-water mark. */
const MOST_PENDING = 65_536

/** Hears that messages are with the kernel. */
interface Owner {
  delivered(count: number): void
}

/**
 * What one client took: first until the flush, then until the kernel has it. One write and one callback a flush, so messages are
 * counted in the order in which they left.
 */
export class Outbox {
  /** It holds what it may; `regains` tells when that is over. */
  isFull = false
  /** Of all that went out. */
  messages = 0
  bytes = 0
  readonly #socket: Duplex
  readonly #owner: Owner
  readonly #wheel: Wheel
  /** Beyond this much it is full. */
  readonly most: { readonly messages: number; readonly bytes: number }
  #first: Buffer | null = null
  #more: Buffer[] | null = null
  #taken = 0
  #takenBytes = 0
  /** Messages of each flush that is not with the kernel yet, oldest first. */
  readonly #underWay: number[] = []
  #waiting = 0
  #progressAt: number
  #queued = 0

  constructor(socket: Duplex, queue: DeliveryOptions['queue'], wheel: Wheel, owner: Owner) {
    this.#socket = socket
    this.#owner = owner
    this.#wheel = wheel
    this.most = { messages: Math.max(1, queue.messages), bytes: Math.max(1, Math.min(MOST_PENDING, queue.bytes)) }
    this.#progressAt = wheel.now
  }

  add(bytes: Buffer, messages: number): void {
    this.#taken += messages
    this.#waiting += messages
    if (bytes.length > 0) {
      if (this.#first === null) this.#first = bytes
      else if (this.#more === null) this.#more = [bytes]
      else this.#more.push(bytes)
      this.#takenBytes += bytes.length
    }
    this.isFull =
      this.#socket.writableLength + this.#takenBytes >= this.most.bytes || this.#waiting >= this.most.messages
  }

  get isEmpty(): boolean {
    return this.#taken === 0 && this.#first === null
  }

  /** What was taken is not written: it counts as not delivered, and goes back when the client leaves. */
  drop(): void {
    this.#first = null
    this.#more = null
    this.#taken = 0
    this.#takenBytes = 0
  }

  send(): void {
    const first = this.#first
    const more = this.#more
    const count = this.#taken
    if (first === null) {
      this.drop()
      return this.#nothingToWrite(count)
    }
    if (this.#underWay.length === 0) this.#progressAt = this.#wheel.now
    this.#underWay.push(count)
    this.messages += count
    this.bytes += this.#takenBytes
    this.drop()
    const socket = this.#socket
    if (more === null) return void socket.write(first, this.#left)
    socket.cork()
    socket.write(first)
    for (let i = 0; i < more.length - 1; i++) socket.write(more[i]!)
    socket.write(more[more.length - 1]!, this.#left)
    socket.uncork()
  }

  /** Messages that have no bytes for this client count as delivered, behind those before them. */
  #nothingToWrite(count: number): void {
    const last = this.#underWay.length - 1
    if (last >= 0) {
      this.#underWay[last]! += count
      return
    }
    this.#underWay.push(count)
    process.nextTick(this.#left)
  }

  /** The oldest flush is with the kernel. */
  readonly #left = (fault?: Error | null): void => {
    const count = this.#underWay.shift()!
    if (fault !== null && fault !== undefined) return
    this.#waiting -= count
    this.#progressAt = this.#wheel.now
    this.#owner.delivered(count)
  }

  /** Room is back: at half of what fills it, so that a client does not come and go with each message. */
  regains(): boolean {
    const pending = this.#socket.writableLength + this.#takenBytes
    if (pending > this.most.bytes / 2 || this.#waiting >= this.most.messages) return false
    this.isFull = false
    return true
  }

  /** Bytes wait, and for so long the kernel has taken none of them (facts/streams R21). */
  isStalled(now: number, ms: number): boolean {
    const queued = this.#socket.writableLength === 0 ? 0 : queuedBytes(this.#socket)
    if (queued === 0 || queued < this.#queued) this.#progressAt = now
    this.#queued = queued
    return now - this.#progressAt >= ms
  }
}

/**
 * Bytes of the write under way that the kernel has not taken: falls while a long one goes on (libuv's own count, which
 * Node's socket timeouts go by too).
 */
function queuedBytes(socket: Duplex): number {
  const handle = (socket as unknown as { readonly _handle?: { readonly writeQueueSize?: number } | null })._handle
  return handle?.writeQueueSize ?? socket.writableLength
}
