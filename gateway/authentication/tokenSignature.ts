import { hash, timingSafeEqual } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { TokenSignature } from '../api.ts'
import type { Events } from '../events.ts'
import type { Exchange, Outcome } from '../exchange.ts'
import { refusal } from '../refusals.ts'
import { queryOf } from '../values.ts'
import { text } from '../variables.ts'
import { failed } from './failure.ts'

/** Digests in one turn of the event loop: half a millisecond. */
const AT_ONCE = 1_000

/**
 * Signatures beside tokens (semantics §6.3): `hash(token + secret + Unix seconds)` in hexadecimal, of any second within the
 * skew. The header counts, else the query parameter. `x.key` is the token's, whose `meta_data` the secret may name; a
 * secret that is empty there signs nothing.
 */
export function tokenSignature(signature: TokenSignature): {
  check(x: Exchange, token: string, events: Events): Outcome | Promise<Outcome>
} {
  const { hash: algorithm, locations, skewS, status, message } = signature
  const refused = refusal('signature_invalid', status, message)
  const secretOf = text(signature.secret)
  const bytes = algorithm === 'md5' ? 16 : 32
  const skew = Math.floor(skewS)

  /** Of seconds from `from` to below `to`, which count from now in turns: 0, -1, 1, -2, 2 … */
  function fits(given: Buffer, signed: string, now: number, from: number, to: number): boolean {
    for (let i = from; i < to; i++) {
      const second = now + (i % 2 === 0 ? i / 2 : -(i + 1) / 2)
      if (timingSafeEqual(hash(algorithm, signed + second, 'buffer'), given)) return true
    }
    return false
  }

  async function slowly(x: Exchange, events: Events, given: Buffer, signed: string, now: number): Promise<Outcome> {
    for (let from = AT_ONCE; from <= 2 * skew; from += AT_ONCE) {
      await nextTurn()
      if (x.gone) return refused
      if (fits(given, signed, now, from, Math.min(from + AT_ONCE, 2 * skew + 1))) return undefined
    }
    return failed(x, events, refused)
  }

  return {
    check(x, token, events) {
      const given = signatureAt(x, locations, bytes)
      const secret = secretOf(x)
      if (given === null || secret === '') return failed(x, events, refused)
      const now = Math.floor(x.at / 1000)
      const signed = token + secret
      if (fits(given, signed, now, 0, Math.min(AT_ONCE, 2 * skew + 1))) return undefined
      return 2 * skew < AT_ONCE ? failed(x, events, refused) : slowly(x, events, given, signed, now)
    }
  }
}

/** The first that is there; null: none, or not hexadecimal of so many bytes. */
function signatureAt(x: Exchange, locations: TokenSignature['locations'], bytes: number): Buffer | null {
  for (const { in: place, name } of locations) {
    const value = place === 'header' ? x.header(name) : x.query === '' ? null : queryOf(x.query, name)
    if (value === null || value === '') continue
    return value.length === 2 * bytes && /^[0-9a-f]+$/i.test(value) ? Buffer.from(value, 'hex') : null
  }
  return null
}
