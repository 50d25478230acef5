import type { FaultCode } from '../upstream.ts'

/** How far a connection has come. */
export type Phase = 'connecting' | 'securing' | 'ready'

/** What a socket's error means. Of several addresses tried, the first one's error counts. */
export function faultCode(error: Error & { code?: string; syscall?: string }, phase: Phase): FaultCode {
  if (error instanceof AggregateError && error.errors.length > 0) return faultCode(error.errors[0], phase)
  if (phase === 'securing') return 'tls'
  const code = error.code ?? ''
  if (phase === 'ready') return code === 'EPROTO' || code.startsWith('ERR_SSL') ? 'tls' : 'reset'
  if (error.syscall === 'getaddrinfo' || code === 'ENOTFOUND' || code === 'EAI_AGAIN') return 'lookup'
  return code === 'ETIMEDOUT' ? 'connect_timeout' : 'connect'
}
