/** Longest realm that is sent, in characters. */
const LONGEST = 256

/**
 * Value of `WWW-Authenticate` (RFC 7617 §2): the realm as a quoted string (RFC 9110 §5.6.4), its UTF-8 as header values
 * carry bytes, without controls.
 */
export function challenge(realm: string): string {
  const text = [...realm.replace(/[\0-\x1f\x7f]/g, '')].slice(0, LONGEST).join('')
  return `Basic realm="${Buffer.from(text.replace(/["\\]/g, '\\$&')).toString('latin1')}"`
}
