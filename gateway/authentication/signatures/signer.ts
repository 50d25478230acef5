import { timingSafeEqual } from 'node:crypto'
import type { Certificate, Certificates } from '../../certificates/certificates.ts'
import type { Session } from '../../keys/keys.ts'

/** Who may sign with what (semantics §6.5): a policy may switch either way on, the secrets are the key's own. */

/** A key whose name alone opens nothing may sign as well; one that was made of somebody else's token has nothing to sign with. */
export function maySign(session: Session | null, at: number): session is Session {
  return session !== null && session.proof !== 'identity' && at < session.goneMs
}

/** Null: the key may not use it, or has none. An empty one would let everybody sign. */
export function secretOf({ key }: Session): string | null {
  return key.hmac_enabled && key.hmac_string ? key.hmac_string : null
}

export function hasPublicKey({ key }: Session): boolean {
  return key.enable_http_signature_validation === true
}

/** The certificate or bare public key that a key names; null: there is none. @throws Unavailable (or rejects with it) */
export function certificateOf(
  { key, orgId }: Session,
  certificates: Pick<Certificates, 'get'>
): Certificate | null | Promise<Certificate | null> {
  return key.rsa_certificate_id ? certificates.get(key.rsa_certificate_id, orgId) : null
}

/** A certificate signs nothing before its begin and behind its end. */
export function isValidAt({ startsMs, expiresMs }: Certificate, at: number): boolean {
  return startsMs <= at && at <= expiresMs
}

/** Without telling by its time where they differ. */
export function isSame(expected: Buffer, given: Buffer): boolean {
  return expected.length === given.length && timingSafeEqual(expected, given)
}
