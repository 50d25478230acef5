import type { Flight, UpstreamFault, UpstreamListener, UpstreamRequest } from '../upstream.ts'

/** Who has a flight: the pool while it waits, then a connection. */
export interface Holder {
  /** The flight was aborted. */
  abandon(flight: DirectFlight): void
  resume(): void
}

/** One request and who hears its answer. */
export class DirectFlight implements Flight {
  readonly request: UpstreamRequest
  readonly listener: UpstreamListener
  /** The request's head, ready to be written. */
  readonly head: string
  /** null: it has landed. */
  holder: Holder | null = null
  /** Neighbours in the pool's queue. */
  next: DirectFlight | null = null
  previous: DirectFlight | null = null

  constructor(request: UpstreamRequest, listener: UpstreamListener, head: string) {
    this.request = request
    this.listener = listener
    this.head = head
  }

  abort(): void {
    const { holder } = this
    this.holder = null
    holder?.abandon(this)
  }

  resume(): void {
    this.holder?.resume()
  }

  /** Never takes off. Its listener hears of it after the caller of `send` has the flight in hand. */
  faultSoon(fault: UpstreamFault): void {
    this.holder = nobody
    process.nextTick(deliver, this, fault)
  }
}

const nobody: Holder = { abandon() {}, resume() {} }

function deliver(flight: DirectFlight, fault: UpstreamFault): void {
  if (flight.holder === null) return
  flight.holder = null
  flight.listener.fault(fault)
}
