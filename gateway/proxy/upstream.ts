import type { RequestBody } from './body.ts'
import type { TlsWay } from './tls/way.ts'

/** Where a request goes: one origin of an API's upstream. */
export interface Target {
  /** Null: http. */
  readonly tls: TlsProfile | null
  readonly hostname: string
  readonly port: number
  /** `https://host:port`, as a pool's name. */
  readonly origin: string
  /** As it stands in `Host`. */
  readonly authority: string
  /** Path of the upstream URL without a slash at its end; '' for the root. */
  readonly base: string
}

/** How one API speaks to one https target. */
export interface TlsProfile {
  /** Another one as soon as a certificate has changed that counts for it. */
  readonly way: TlsWay
  /** HTTP/2 where the target speaks it. */
  readonly http2: boolean
  /** Hears that `way` may be another one. The answer ends the listening. */
  onChange(listener: () => void): () => void
}

export interface UpstreamRequest {
  readonly target: Target
  readonly method: string
  /** Path and query. */
  readonly path: string
  /** Raw pairs: `Host` first, no framing, nothing hop-by-hop; bytes as latin1. */
  readonly pairs: string[]
  /** null: none; a Buffer: held whole, may be sent twice; RequestBody: flows. */
  readonly body: Buffer | RequestBody | null
  /** The client told that it takes trailers. */
  readonly trailers: boolean
  /** Another try after a reused connection closed: only a new one will do, others may be closing as well. */
  readonly fresh: boolean
}

/** Hears one answer. After `fault` or `end` nothing comes any more. */
export interface UpstreamListener {
  /** 1xx but 101. */
  information(status: number, pairs: string[]): void
  /** Raw pairs as they came, framing and hop-by-hop included. */
  head(status: number, reason: string, pairs: string[]): void
  /** false: full; nothing more until `Flight.resume`. */
  data(chunk: Buffer): boolean
  /** All that came so far was told, and the answer goes on: what is held back for a single write must leave now. */
  pause(): void
  end(trailers: string[] | null): void
  fault(fault: UpstreamFault): void
}

/** A request under way. */
export interface Flight {
  /** Ends it at once; the listener hears nothing more. */
  abort(): void
  resume(): void
}

/** The port to upstreams. `upstreamUndici` and `upstreamDirect` pass the same tests. */
export interface Upstream {
  send(request: UpstreamRequest, listener: UpstreamListener): Flight
  close(): Promise<void>
}

export type FaultCode = 'connect' | 'lookup' | 'tls' | 'connect_timeout' | 'reset' | 'garbage'

/** What went wrong on the upstream's side, who is to blame for it, and whether another try is safe. */
export class UpstreamFault extends Error {
  readonly code: FaultCode
  /** `unsent`: no byte left the gateway; `unanswered`: a reused connection closed before any byte of an answer; `no` otherwise. */
  readonly retry: 'unsent' | 'unanswered' | 'no'
  constructor(code: FaultCode, retry: 'unsent' | 'unanswered' | 'no', cause: unknown) {
    super(`upstream ${code}`, { cause })
    this.code = code
    this.retry = retry
  }
}
