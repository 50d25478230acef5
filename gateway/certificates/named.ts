import { HASH } from '../../config/domain.ts'
import type { GatewaySettings } from '../../config/settings.ts'
import type { Api } from '../api.ts'

/** Every certificate and key that an API names. */
export function certificatesOf({ certificates, clientCertificates, upstream: { tls } }: Api): string[] {
  return [
    ...certificates,
    ...(clientCertificates ?? []),
    ...tls.certificates.map(({ value }) => value),
    ...tls.pins.flatMap(({ value }) => value.filter(isId))
  ]
}

/** Every one that the settings name. */
export function certificatesOfSettings({ http_server_options, security }: GatewaySettings): string[] {
  return [
    ...(http_server_options.use_ssl ? http_server_options.ssl_certificates : []),
    ...Object.values(security.certificates.upstream),
    ...Object.values(security.pinned_public_keys).flatMap(listed).filter(isId)
  ]
}

/** Of `security.pinned_public_keys`. */
export function listed(keys: string): string[] {
  return keys
    .split(',')
    .map(key => key.trim())
    .filter(key => key !== '')
}

function isId(pin: string): boolean {
  return !pin.startsWith(HASH)
}
