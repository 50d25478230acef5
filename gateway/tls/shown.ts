import type { X509Certificate } from 'node:crypto'
import type { TLSSocket } from 'node:tls'
import { fingerprintOf, MOST_INTERMEDIATES, type Presented, presentedOf } from '../certificates/presented.ts'
import type { Peer } from '../exchange.ts'
import { Recent } from '../keys/recent.ts'

/** Longest leaf, bytes of its DER: a longer one counts for none. */
const LARGEST_LEAF = 16_384
/** Clients whose chains are remembered at most. */
const REMEMBERED = 10_000

/**
 * What came beside a leaf when it was last shown whole, by its fingerprint: sessions that go on bring the leaf alone. Their
 * tickets are this thread's own (`ListenerTls`).
 */
const chains = new Recent<readonly X509Certificate[]>(REMEMBERED)

/** The other end of a TLS connection; its certificate is read when it is first asked for. */
export class SecurePeer implements Peer {
  readonly address: string
  readonly trusted: boolean
  readonly secure = true
  #socket: TLSSocket | null
  #presented: Presented | null = null

  constructor(address: string, trusted: boolean, socket: TLSSocket) {
    this.address = address
    this.trusted = trusted
    this.#socket = socket
    // A chain is there only now: the next connection of this session would miss it.
    if (!socket.isSessionReused() && socket.getPeerX509Certificate()?.issuerCertificate !== undefined)
      void this.presented
  }

  get presented(): Presented | null {
    const socket = this.#socket
    if (socket === null) return this.#presented
    this.#socket = null
    const leaf = socket.getPeerX509Certificate()
    if (leaf !== undefined && leaf.raw.length <= LARGEST_LEAF)
      this.#presented = presentedOf(leaf, chainOf(leaf, socket))
    return this.#presented
  }
}

function chainOf(leaf: X509Certificate, socket: TLSSocket): readonly X509Certificate[] {
  if (socket.isSessionReused()) return chains.get(fingerprintOf(leaf)) ?? []
  const chain: X509Certificate[] = []
  for (let next = leaf.issuerCertificate; next !== undefined; next = next.issuerCertificate) {
    if (chain.length === MOST_INTERMEDIATES) break
    chain.push(next)
  }
  if (chain.length > 0) chains.set(fingerprintOf(leaf), chain)
  return chain
}
