import type { WebSocket } from 'ws'
import { connectorKinds } from '../../config/shape/stream.ts'
import type { Connector, ConnectorTools, Deliver, Input, InputKind, InputStatus } from '../connector.ts'
import type { Message } from '../message.ts'
import { Handover } from './handover.ts'
import { checkSocket, OutgoingSocket, type SocketOptions, type SocketUser } from './outgoingSocket.ts'

/** What waits to be handed on; above either the other end is not read. */
const MOST_WAITING = 500
const MOST_BYTES = 1_048_576

/** Each frame of a server elsewhere is a message, in its order. What it sends while the connection is broken is lost. */
export const websocketInput: InputKind = {
  name: 'websocket',
  shape: connectorKinds.input.websocket!,
  check: checkSocket,
  open: (connector, deliver, tools) => new FrameReader(connector, deliver, tools)
}

class FrameReader implements Input, SocketUser {
  readonly #connection: OutgoingSocket
  readonly #handover: Handover
  #socket: WebSocket | null = null
  #waiting: Message[] = []
  #bytes = 0
  /** Null: nothing is being handed on. */
  #running: Promise<void> | null = null

  constructor({ options }: Connector, deliver: Deliver, tools: ConnectorTools) {
    this.#handover = new Handover(deliver, tools)
    this.#connection = new OutgoingSocket(options as SocketOptions, tools, this)
    this.#connection.open()
  }

  opened(socket: WebSocket): void {
    this.#socket = socket
    this.#throttle()
  }

  received(value: Buffer): void {
    this.#waiting.push({ key: null, value, headers: [] })
    this.#bytes += value.length
    this.#throttle()
    this.#running ??= this.#run()
  }

  closed(): void {
    this.#socket = null
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0 && !this.#handover.isClosed) {
      const messages = this.#waiting
      this.#waiting = []
      await this.#handover.give(messages)
      for (const { value } of messages) this.#bytes -= value!.length
      this.#throttle()
    }
    this.#running = null
  }

  #throttle(): void {
    const isFull = this.#waiting.length >= MOST_WAITING || this.#bytes >= MOST_BYTES
    if (isFull && this.#socket?.isPaused === false) this.#socket.pause()
    else if (!isFull && this.#socket?.isPaused === true) this.#socket.resume()
  }

  status(): InputStatus {
    const { dropped, redelivered } = this.#handover.tally
    return { dropped, redelivered, lag: 0, partitions: 0 }
  }

  fault(): string | null {
    return this.#connection.fault ?? this.#handover.fault
  }

  async close(): Promise<void> {
    await this.#connection.close()
    await this.#handover.close(this.#running ?? Promise.resolve())
  }
}
