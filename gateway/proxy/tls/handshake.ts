import type { TLSSocket } from 'node:tls'
import { faultCode, type Phase } from '../direct/faultCode.ts'
import { UpstreamFault } from '../upstream.ts'
import type { TlsWay } from './way.ts'

/** Before middle boxes forget a silent connection: event streams may be silent for hours. */
const PROBE_MS = 60_000

/**
 * Connects, and looks at what it is connected to before anybody can write. `done` is called once: with null when the
 * connection is ready, else with why it is not; then it is closed.
 */
export function handshake(
  way: TlsWay,
  to: { readonly host: string; readonly port: number },
  protocols: string[],
  done: (fault: UpstreamFault | null, socket: TLSSocket) => void
): TLSSocket {
  const socket = way.connect({ ...to }, protocols)
  socket.setNoDelay(true)
  socket.setKeepAlive(true, PROBE_MS)
  let phase: Phase = 'connecting'
  let told = false
  const tell = (fault: UpstreamFault | null) => {
    if (told) return
    told = true
    if (fault !== null) socket.destroy()
    done(fault, socket)
  }
  socket.on('connect', () => {
    phase = 'securing'
  })
  // They stay: an error that nobody hears would end the process.
  socket.on('error', error => tell(new UpstreamFault(faultCode(error, phase), 'unsent', error)))
  socket.on('close', () =>
    tell(new UpstreamFault(phase === 'securing' ? 'tls' : 'connect', 'unsent', new Error('connection closed')))
  )
  socket.on('secureConnect', () => {
    phase = 'ready'
    const misfit = way.check(socket)
    tell(misfit === null ? null : new UpstreamFault('tls', 'unsent', misfit))
  })
  return socket
}
