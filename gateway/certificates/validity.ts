import { type Refusal, refusal } from '../refusals.ts'
import type { Presented } from './presented.ts'

/** What is said of clients' certificates, whoever asks for them (semantics §6.2, §6.7). */
export const certificateRefusals = {
  noTls: refusal('tls_required', 403, 'TLS not enabled'),
  missing: refusal('certificate_missing', 403, 'Client TLS certificate is required'),
  expired: refusal('certificate_expired', 403, 'Certificate has expired'),
  notYet: refusal('certificate_not_yet_valid', 403, 'Certificate is not valid yet'),
  required: refusal('certificate_required', 401, 'Client certificate required', ['WWW-Authenticate', 'Bearer']),
  mismatch: refusal('certificate_mismatch', 401, 'Access to this API has been disallowed', [
    'WWW-Authenticate',
    'Bearer error="invalid_token"'
  ])
} satisfies Record<string, Refusal>

/** Null: it is valid at this time, milliseconds since the epoch. */
export function outOfTime({ startsMs, expiresMs }: Presented, at: number): Refusal | null {
  if (at >= expiresMs) return certificateRefusals.expired
  return at < startsMs ? certificateRefusals.notYet : null
}
