import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'

/** The other end of an inner connection. */
export interface InnerEnd {
  /** Takes more of the request. */
  more(): void
  /** Bytes of answers; `done` once they have left. */
  answer(pieces: readonly Buffer[], done: () => void): void
  /** No more of them come. */
  ended(): void
  gone(): void
}

/**
 * What Node's HTTP/1.1 server takes for a client's socket: requests of HTTP/2 come out of it, answers go into it. `socket`:
 * the connection that carries them.
 */
export class Inner extends Duplex {
  readonly encrypted = true
  readonly #end: InnerEnd
  readonly #socket: Socket

  constructor(end: InnerEnd, socket: Socket) {
    super()
    this.#end = end
    this.#socket = socket
  }

  get remoteAddress(): string | undefined {
    return this.#socket.remoteAddress
  }

  get remotePort(): number | undefined {
    return this.#socket.remotePort
  }

  override _read(): void {
    this.#end.more()
  }

  override _write(bytes: Buffer, _encoding: string, done: () => void): void {
    this.#end.answer([bytes], done)
  }

  override _writev(pieces: { chunk: Buffer }[], done: () => void): void {
    this.#end.answer(
      pieces.map(({ chunk }) => chunk),
      done
    )
  }

  override _final(done: () => void): void {
    this.#end.ended()
    done()
  }

  override _destroy(cause: Error | null, done: (cause: Error | null) => void): void {
    this.#end.gone()
    done(cause)
  }

  /** As a socket's. */
  destroySoon(): void {
    this.end()
    if (this.writableFinished) this.destroy()
    else this.once('finish', this.destroy)
  }

  resetAndDestroy(): this {
    this.destroy()
    return this
  }

  /** Of the connection that carries this: dead clients are found by probes. */
  setKeepAlive(enable?: boolean, delayMs?: number): this {
    this.#socket.setKeepAlive(enable, delayMs)
    return this
  }

  /** Idle ones end with the connection that carries them. */
  setTimeout(): this {
    return this
  }

  setNoDelay(): this {
    return this
  }
}
