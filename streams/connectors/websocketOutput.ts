import { isUtf8 } from 'node:buffer'
import type { WebSocket } from 'ws'
import { connectorKinds } from '../../config/shape/stream.ts'
import type { Call } from '../call.ts'
import type { Connector, ConnectorTools, Output, OutputKind } from '../connector.ts'
import type { Message, Placed } from '../message.ts'
import { Undelivered } from '../undelivered.ts'
import { checkSocket, OutgoingSocket, type SocketOptions, type SocketUser } from './outgoingSocket.ts'

/** Calls under way at most, and bytes that wait for the other end. */
const MOST_CALLS = 1000
const MOST_BYTES = 4_194_304

/** One call whose frames wait for the other end. */
interface Sending {
  readonly messages: readonly Message[]
  readonly resolve: (placed: readonly null[]) => void
  readonly reject: (cause: Undelivered) => void
  /** Ends the wait for its deadline. */
  cancel: () => void
  /** Handed to the socket: nobody knows any more whether it arrives. */
  isSent: boolean
  isDone: boolean
}

/** A frame a message, text where it is UTF-8: delivered once the socket has taken it. */
export const websocketOutput: OutputKind = {
  name: 'websocket',
  shape: connectorKinds.output.websocket!,
  check: checkSocket,
  open: (connector, tools) => new FrameWriter(connector, tools)
}

class FrameWriter implements Output, SocketUser {
  readonly #tools: ConnectorTools
  readonly #connection: OutgoingSocket
  readonly #sendings = new Set<Sending>()
  /** Null: not open. */
  #socket: WebSocket | null = null

  constructor({ options }: Connector, tools: ConnectorTools) {
    this.#tools = tools
    this.#connection = new OutgoingSocket(options as SocketOptions, tools, this)
    this.#connection.open()
  }

  send(messages: readonly Message[], _call: Call | null, deadline: number): Promise<readonly (Placed | null)[]> {
    if (this.#socket === null && !this.#connection.isFirst)
      return Promise.reject(new Undelivered('unavailable', this.#connection.fault ?? 'not connected'))
    if (this.#sendings.size >= MOST_CALLS || (this.#socket?.bufferedAmount ?? 0) > MOST_BYTES)
      return Promise.reject(new Undelivered('busy', 'the other end does not take more'))
    return new Promise((resolve, reject) => {
      const sending: Sending = { messages, resolve, reject, cancel: () => {}, isSent: false, isDone: false }
      sending.cancel = this.#tools.clock.after(Math.max(1, deadline - this.#tools.clock.now()), () =>
        this.#end(sending, 'not taken in time')
      )
      this.#sendings.add(sending)
      if (this.#socket !== null) this.#write(sending, this.#socket)
    })
  }

  #write(sending: Sending, socket: WebSocket): void {
    const { messages } = sending
    sending.isSent = true
    if (messages.length === 0) return this.#end(sending, null)
    for (let i = 0; i < messages.length; i++) {
      const value = messages[i]!.value ?? Buffer.alloc(0)
      const isLast = i === messages.length - 1
      socket.send(value, { binary: !isUtf8(value) }, cause => {
        if (cause) this.#end(sending, cause.message)
        else if (isLast) this.#end(sending, null)
      })
    }
  }

  /** @param fault null: all of it was written */
  #end(sending: Sending, fault: string | null): void {
    if (sending.isDone) return
    sending.isDone = true
    sending.cancel()
    this.#sendings.delete(sending)
    if (fault === null) sending.resolve(sending.messages.map(() => null))
    else sending.reject(new Undelivered(sending.isSent ? 'unknown' : 'unavailable', fault))
  }

  opened(socket: WebSocket): void {
    this.#socket = socket
    for (const sending of this.#sendings) this.#write(sending, socket)
  }

  /** Nobody asked for it. */
  received(): void {}

  closed(): void {
    this.#socket = null
    for (const sending of [...this.#sendings]) this.#end(sending, this.#connection.fault ?? 'the connection broke')
  }

  fault(): string | null {
    return this.#connection.fault
  }

  close(): Promise<void> {
    return this.#connection.close()
  }
}
