import type { Certificate } from '../../../gateway/certificates/certificates.ts'
import { TlsWay, type WayGiven } from '../../../gateway/proxy/tls/way.ts'
import type { Target, TlsProfile } from '../../../gateway/proxy/upstream.ts'

export interface TestProfile extends TlsProfile {
  /** Another certificate from now on. */
  change(certificate: Certificate | null): void
}

/** A target on localhost that is spoken to as said; its certificate is not verified unless `given` says so. */
export function secureTarget(
  port: number,
  http2: boolean,
  given: Partial<WayGiven> = {}
): Target & { readonly tls: TestProfile } {
  const origin = `https://localhost:${port}`
  const way = (certificate: Certificate | null) =>
    new TlsWay({
      origin,
      host: 'localhost',
      certificate,
      pins: null,
      pinsMissing: [],
      insecure: true,
      ciphers: '',
      minVersion: null,
      maxVersion: null,
      checksCommonName: false,
      fault: null,
      used() {},
      now: Date.now,
      ...given
    })
  const listeners = new Set<() => void>()
  let current = way(given.certificate ?? null)
  const tls: TestProfile = {
    http2,
    get way() {
      return current
    },
    onChange(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    change(certificate) {
      current = new TlsWay({ ...(current as unknown as { given: WayGiven }).given, certificate })
      for (const listener of [...listeners]) listener()
    }
  }
  return { tls, hostname: 'localhost', port, origin, authority: `localhost:${port}`, base: '' }
}
