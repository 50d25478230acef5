import { Agent, type RequestOptions } from 'node:https'
import type { Duplex } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import { UpstreamFault } from '../upstream.ts'
import { handshake } from './handshake.ts'
import type { TlsWay } from './way.ts'

/** Makes the one connection of an upgrade, and gives it away when it was found good; else an `UpstreamFault`. */
export class CarrierAgent extends Agent {
  private readonly way: TlsWay
  private socket: TLSSocket | null = null

  constructor(way: TlsWay) {
    super({ keepAlive: false })
    this.way = way
  }

  override createConnection(
    { host, port }: RequestOptions,
    done?: (error: Error | null, socket: Duplex) => void
  ): undefined {
    // Behind an error Node wants no socket.
    const tell = done as (error: Error | null, socket?: Duplex) => void
    const { way } = this
    if (way.fault !== null) process.nextTick(tell, new UpstreamFault('tls', 'unsent', way.fault))
    else
      this.socket = handshake(way, { host: host!, port: Number(port) }, ['http/1.1'], (fault, socket) =>
        fault === null ? tell(null, socket) : tell(fault)
      )
    return undefined
  }

  /** Nobody waits for it any more. */
  abandon(): void {
    this.socket?.destroy()
  }
}
