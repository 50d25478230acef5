import type { Claim } from './api.ts'
import type { Exchange } from './exchange.ts'
import { type Claims, claimAt, claimNamed, claimText } from './keys/claims.ts'
import { cookieOf, queryOf } from './values.ts'

/** A text with variables, read once and filled in per request. */
export type Text = (x: Exchange) => string

// A result may land in a header: no line ends, no controls, and not without a bound.
const UNFIT = /[^\t\x20-\x7e\x80-\xff]/g
const LONGEST = 8192

/** Names of claims go on behind dots, at whose other side a name stands; those of others end there. */
const VARIABLE = /(\$svc_(?:meta\.[\w-]+|context\.(?:jwt_claims_[\w-]+(?:\.[\w-]+)*|[\w-]+)))/

/** Controls, and blanks at the ends, which get lost on the way. */
const NO_CLAIM = /[\0-\x08\x0a-\x1f\x7f]|^[\t ]|[\t ]$/

/**
 * Reads a text that may hold `$svc_meta.NAME` and `$svc_context.NAME` (see `variable`). What is absent becomes empty, and so
 * does a claim that a header cannot hold as it is: whoever trusts the header must not take one caller for another.
 */
export function text(template: string): Text {
  const parts = template.split(VARIABLE)
  if (parts.length === 1) return () => template
  const hasClaims = parts.some((part, i) => i % 2 === 1 && part.startsWith(`$${CONTEXT}${CLAIM}`))
  const readers = parts.map((part, i): Text => (i % 2 === 0 ? () => part : inHeader(part.slice(1))))
  return x => {
    const filled = readers
      .map(read => read(x))
      .join('')
      .replace(UNFIT, '')
    if (filled.length <= LONGEST) return filled
    return hasClaims ? '' : filled.slice(0, LONGEST)
  }
}

function inHeader(name: string): Text {
  if (!name.startsWith(CONTEXT + CLAIM)) return variable(name)
  const claim = claimNamed(name.slice(CONTEXT.length + CLAIM.length))
  return x => (x.claims === null ? '' : claimInHeader(x.claims, claim))
}

/** In UTF-8, each byte one character: so it is written to the wire. '' where two claims could become the same. */
function claimInHeader(claims: Claims, claim: Claim): string {
  const value = claimAt(claims, claim)
  // Beyond the safe ones numbers have lost digits.
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) return ''
  const said = claimText(claims, claim)
  if (said.length > LONGEST || NO_CLAIM.test(said) || !said.isWellFormed()) return ''
  const bytes = Buffer.from(said)
  return bytes.length > LONGEST ? '' : bytes.toString('latin1')
}

/**
 * One variable by its name without the dollar sign: `svc_meta.NAME` (the key's `meta_data`) or `svc_context.NAME`, which is
 * `path`, `remote_addr`, `headers_Name` (`_` for `-`), `cookies_NAME`, `request_data_NAME` (a query parameter),
 * `jwt_claims_NAME` (a claim of a verified token; dots lead into nested ones, objects are JSON) or `token` (what the caller
 * has shown, which belongs into no log). Others are empty.
 */
export function variable(name: string): Text {
  if (name.startsWith('svc_meta.')) {
    const member = name.slice('svc_meta.'.length)
    return x => {
      const meta = x.key?.key.meta_data
      if (typeof meta !== 'object' || meta === null || !Object.hasOwn(meta, member)) return ''
      const value: unknown = (meta as Record<string, unknown>)[member]
      return typeof value === 'object' ? JSON.stringify(value) : String(value)
    }
  }
  const of = name.slice(CONTEXT.length)
  if (of === 'path') return x => x.path
  if (of === 'remote_addr') return x => x.client
  if (of.startsWith('headers_')) {
    const header = of.slice('headers_'.length).replaceAll('_', '-').toLowerCase()
    return x => x.header(header) ?? ''
  }
  if (of.startsWith('cookies_')) {
    const cookie = of.slice('cookies_'.length)
    return x => cookieOf(x.header('cookie') ?? '', cookie) ?? ''
  }
  if (of.startsWith('request_data_')) {
    const parameter = of.slice('request_data_'.length)
    return x => (x.query === '' ? '' : (queryOf(x.query, parameter) ?? ''))
  }
  if (of.startsWith(CLAIM)) {
    const claim = claimNamed(of.slice(CLAIM.length))
    return x => claimText(x.claims, claim)
  }
  if (of === 'token') return x => x.credential ?? ''
  return () => ''
}

const CONTEXT = 'svc_context.'
const CLAIM = 'jwt_claims_'
