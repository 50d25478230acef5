import type { Server, ServerOptions } from 'node:http'
import { createServer } from 'node:https'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import type { Clock, Log } from '../../config/world.ts'
import type { Peer } from '../exchange.ts'
import { Carriage } from './http2/carriage.ts'
import type { ListenerTls } from './listenerTls.ts'
import { SecurePeer } from './shown.ts'

export interface FrontGiven {
  readonly tls: ListenerTls
  /** Of an HTTP/1.1 server. */
  readonly options: ServerOptions
  /** As `write_timeout`. */
  readonly writeMs: number
  /** As `read_timeout`, of a head. */
  readonly headMs: number
  readonly clock: Clock
  readonly log: Log
  readonly who: (socket: Socket) => Pick<Peer, 'address' | 'trusted'>
  /** A connection of HTTP/1.1 is about to begin, a real one or one that carries requests of HTTP/2. */
  readonly admit: (socket: Duplex, peer: Peer) => void
  /** Nothing is left of what `size` counts. */
  readonly emptied: () => void
}

/** The TLS side of a server: handshakes, and connections of HTTP/2. */
export interface Front {
  /** Speaks HTTP/1.1 with everyone, HTTP/2 included. */
  readonly server: Server
  /** Handshakes under way, and connections of HTTP/2. */
  readonly size: number
  announceEnd(): void
  stopListening(): void
  destroy(): void
}

/** How often connections of HTTP/2 are looked at, at least, and for how long they may be without a request. */
const SWEEP_MS = 5_000
const IDLE_MS = 72_000

export function front(given: FrontGiven): Front {
  const { tls, clock, log } = given
  const sweepMs = Math.max(100, Math.min(SWEEP_MS, given.headMs / 4))
  /** By the other end's address and port. */
  const handshakes = new Map<string, Socket>()
  const carriages = new Set<Carriage>()
  let isEnding = false
  let isClosed = false
  let cancelSweep: (() => void) | null = null

  const secure = createServer({ ...given.options, ...tls.options })
  const server = secure as unknown as Server
  // Node's own HTTP/1.1: it takes any duplex stream.
  const [speak] = secure.listeners('secureConnection') as [(this: unknown, socket: Duplex) => void]
  secure.removeAllListeners('secureConnection')
  secure.removeAllListeners('tlsClientError')

  secure.on('listening', () => tls.refresh(secure))
  // Before Node makes a TLS connection of it, out of what the server has then.
  secure.prependListener('connection', (socket: Socket) => {
    tls.refresh(secure)
    const end = farEnd(socket)
    handshakes.set(end, socket)
    socket.on('close', () => {
      if (handshakes.get(end) === socket) secured(end)
    })
  })
  secure.on('tlsClientError', (cause: NodeJS.ErrnoException, socket: TLSSocket) => {
    log.debug('no TLS connection', { client: socket.remoteAddress ?? '', cause: cause.code ?? cause.message })
    socket.destroy()
  })
  secure.on('secureConnection', (socket: TLSSocket) => {
    if (socket.destroyed) return
    const { address, trusted } = given.who(socket)
    const peer = new SecurePeer(address, trusted, socket)
    if (socket.alpnProtocol === 'h2') carry(socket, peer)
    else given.admit(socket, peer)
    secured(farEnd(socket))
    if (socket.alpnProtocol !== 'h2') speak.call(server, socket)
  })

  function secured(end: string): void {
    if (handshakes.delete(end)) empty()
  }

  function empty(): void {
    if (handshakes.size === 0 && carriages.size === 0) given.emptied()
  }

  function carry(socket: TLSSocket, peer: Peer): void {
    const carriage = new Carriage({
      socket,
      peer,
      clock,
      writeMs: given.writeMs,
      open(inner) {
        given.admit(inner, peer)
        speak.call(server, inner)
      },
      closed() {
        carriages.delete(carriage)
        empty()
      }
    })
    carriages.add(carriage)
    if (isClosed) carriage.end()
    else if (isEnding) carriage.announceEnd()
    cancelSweep ??= clock.after(sweepMs, sweep)
  }

  function sweep(): void {
    const now = clock.now()
    for (const carriage of carriages) carriage.sweep(now, IDLE_MS, given.headMs)
    cancelSweep = carriages.size === 0 ? null : clock.after(sweepMs, sweep)
  }

  return {
    server,
    get size() {
      return handshakes.size + carriages.size
    },
    announceEnd() {
      isEnding = true
      for (const carriage of carriages) carriage.announceEnd()
    },
    stopListening() {
      isClosed = true
      // No request is under way where not even the handshake is over.
      for (const socket of handshakes.values()) socket.destroy()
      for (const carriage of carriages) carriage.end()
    },
    destroy() {
      cancelSweep?.()
      for (const socket of handshakes.values()) socket.destroy()
      for (const carriage of carriages) carriage.destroy()
    }
  }
}

function farEnd({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}
