import { createHash, type X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import {
  type ConnectionOptions,
  checkServerIdentity,
  connect,
  createSecureContext,
  DEFAULT_CIPHERS,
  type SecureContext,
  type TLSSocket
} from 'node:tls'
import type { TlsVersion } from '../../api.ts'
import type { Certificate } from '../../certificates/certificates.ts'
import { commonNameFault } from './commonName.ts'

/** How the https target of a profile is spoken to, as it holds until some certificate changes. */
export interface WayGiven {
  readonly origin: string
  /** Without brackets. */
  readonly host: string
  /** What the gateway shows; null: nothing. */
  readonly certificate: Certificate | null
  /** `sha256/…` of the public keys of which the target must have one; null: any will do. */
  readonly pins: ReadonlySet<string> | null
  /** Ids of pinned keys that are not there. */
  readonly pinsMissing: readonly string[]
  /** The certificate of the target is not verified. */
  readonly insecure: boolean
  /** OpenSSL names; '': the usual ones. */
  readonly ciphers: string
  readonly minVersion: TlsVersion | null
  readonly maxVersion: TlsVersion | null
  /** The common name must be the host's, beside the usual check, and with `insecure` without it. */
  readonly checksCommonName: boolean
  /** Why no connection may be made; null: none. */
  readonly fault: TlsRefused | null
  /** Hears of the target's certificate, once a connection. */
  readonly used: (leaf: X509Certificate | undefined) => void
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

/** The gateway itself would not go on with a connection. */
export class TlsRefused extends Error {}

export class TlsWay {
  /** Ways with the same key may share connections, others never do. */
  readonly key: string
  /** Why nobody can connect; null: nothing. */
  readonly fault: TlsRefused | null
  private readonly given: WayGiven
  private context: SecureContext | null = null
  /** Makes the next handshake cheaper: the last one's, after it was found good. */
  private session: Buffer | undefined = undefined
  /** When the certificate ends that the session was begun with, milliseconds since the epoch. */
  private sessionEnds = Number.POSITIVE_INFINITY

  constructor(given: WayGiven) {
    this.given = given
    this.key = keyOf(given)
    this.fault = given.fault ?? this.prepare()
  }

  /** What may be wrong with the options is found before anybody connects. */
  private prepare(): TlsRefused | null {
    const { certificate, ciphers, minVersion, maxVersion } = this.given
    if (certificate === null && ciphers === '' && minVersion === null && maxVersion === null) return null
    try {
      this.context = contextOf(this.given)
      return null
    } catch (error) {
      const named = certificate === null ? '' : `with the client certificate ${certificate.id}: `
      return new TlsRefused(`TLS cannot be set up: ${named}${(error as Error).message}`)
    }
  }

  /** Only without a fault. The socket tells `secureConnect`, and then `check` must be asked before anything is written. */
  connect(options: ConnectionOptions, protocols: string[]): TLSSocket {
    const { host, insecure, checksCommonName, now } = this.given
    if (!insecure && now() >= this.sessionEnds) this.session = undefined
    this.context ??= contextOf(this.given)
    return connect({
      ...options,
      // RFC 6066 §3: no address stands in the server's name.
      servername: isIP(host) === 0 ? host : '',
      session: this.session,
      ALPNProtocols: protocols,
      secureContext: this.context,
      rejectUnauthorized: !insecure,
      ...(checksCommonName
        ? { checkServerIdentity: (name, shown) => checkServerIdentity(name, shown) ?? commonNameFault(name, shown) }
        : {})
    })
  }

  /** Looks at a connection whose handshake is done; null: it is as it should be. */
  check(socket: TLSSocket): TlsRefused | null {
    const { host, pins, pinsMissing, insecure, checksCommonName, used } = this.given
    // Nothing is shown again, and its session was begun in this very way.
    if (socket.isSessionReused()) return this.keep(socket)
    const leaf = socket.getPeerX509Certificate()
    if (pins !== null) {
      const pin = leaf === undefined ? 'none' : pinOf(leaf)
      const missing = pinsMissing.length === 0 ? '' : `; pinned keys that are not there: ${pinsMissing.join(', ')}`
      if (!pins.has(pin)) return new TlsRefused(`the public key of ${host} is not pinned: ${pin}${missing}`)
    }
    if (insecure && checksCommonName) {
      const misfit =
        leaf === undefined ? new Error('no certificate') : commonNameFault(host, socket.getPeerCertificate())
      if (misfit !== undefined) return new TlsRefused(misfit.message)
    }
    used(leaf)
    this.sessionEnds = leaf?.validToDate.getTime() ?? Number.POSITIVE_INFINITY
    return this.keep(socket)
  }

  private keep(socket: TLSSocket): null {
    // Of TLS 1.3 they come later, with the first bytes.
    if (socket.getProtocol() !== 'TLSv1.3') this.session = socket.getSession()
    socket.on('session', session => {
      this.session = session
    })
    return null
  }
}

/** As `pins` name it. */
export function pinOf({ publicKey }: Pick<X509Certificate, 'publicKey'>): string {
  const spki = publicKey.export({ format: 'der', type: 'spki' })
  return `sha256/${createHash('sha256').update(spki).digest('base64')}`
}

/** TLS before 1.2 needs hashes that OpenSSL 3 takes at its lowest level of security alone. */
const OLD = new Set<TlsVersion | null>(['TLSv1', 'TLSv1.1'])

function contextOf({ certificate, ciphers, minVersion, maxVersion }: WayGiven): SecureContext {
  const old = OLD.has(minVersion) || OLD.has(maxVersion)
  // Who names nothing but a newest version below the usual oldest one means just that one.
  const min = minVersion ?? (OLD.has(maxVersion) ? maxVersion : null)
  const list = `${ciphers === '' && old ? DEFAULT_CIPHERS : ciphers}${old ? ':@SECLEVEL=0' : ''}`
  return createSecureContext({
    ...(list === '' ? {} : { ciphers: list }),
    ...(min === null ? {} : { minVersion: min }),
    ...(maxVersion === null ? {} : { maxVersion }),
    ...(certificate === null ? {} : { cert: certificate.pem, key: certificate.privateKey! })
  })
}

function keyOf(given: WayGiven): string {
  const { origin, certificate, pins, insecure, ciphers, minVersion, maxVersion, checksCommonName, fault } = given
  const parts = [
    certificate === null ? null : [certificate.pem, certificate.privateKey],
    pins === null ? null : [...pins].sort(),
    insecure,
    ciphers,
    minVersion,
    maxVersion,
    checksCommonName,
    fault?.message ?? null
  ]
  return `${origin} ${createHash('sha256').update(JSON.stringify(parts)).digest('base64')}`
}
