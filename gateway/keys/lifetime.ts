import type { Key } from '../../config/shape/key.ts'

/**
 * From when on a key counts as gone, as if it had been deleted (semantics §4.5); milliseconds since the epoch, Infinity:
 * never.
 * @param key with its policies applied
 * @param written `last_updated` of the key as it is stored: Unix seconds as a text
 */
export function goneAt(key: Key, written: string | undefined): number {
  const { expires = 0, post_expiry_action: action, post_expiry_grace_period: grace = 0, session_lifetime = 0 } = key
  if (expires > 0 && action === 'delete') return expires * 1000
  if (expires > 0 && action === 'retain' && grace !== 0) {
    return grace < 0 ? Number.POSITIVE_INFINITY : (expires + grace) * 1000
  }
  if (session_lifetime <= 0) return Number.POSITIVE_INFINITY
  return (Number(written ?? 0) + session_lifetime) * 1000
}
