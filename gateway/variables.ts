import type { Exchange } from './exchange.ts'
import { claimNamed, claimText } from './keys/claims.ts'
import { cookieOf, queryOf } from './values.ts'

/** A text with variables, read once and filled in per request. */
export type Text = (x: Exchange) => string

// A result may land in a header: no line ends, no controls, and not without a bound.
const UNFIT = /[^\t\x20-\x7e\x80-\xff]/g
const LONGEST = 8192

/** Names of claims go on behind dots, at whose other side a name stands; those of others end there. */
const VARIABLE = /(\$svc_(?:meta\.[\w-]+|context\.(?:jwt_claims_[\w-]+(?:\.[\w-]+)*|[\w-]+)))/

/**
 * Reads a text that may hold `$svc_meta.NAME` and `$svc_context.NAME` (see `variable`). What is absent becomes empty.
 */
export function text(template: string): Text {
  const parts = template.split(VARIABLE)
  if (parts.length === 1) return () => template
  const readers = parts.map((part, i): Text => (i % 2 === 0 ? () => part : variable(part.slice(1))))
  return x =>
    readers
      .map(read => read(x))
      .join('')
      .replace(UNFIT, '')
      .slice(0, LONGEST)
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
  const of = name.slice('svc_context.'.length)
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

const CLAIM = 'jwt_claims_'
