import type { Exchange } from '../../exchange.ts'
import { fieldOf, pathAndQuery } from './target.ts'

/** Stands in for `Date` where a client may not set that one. */
const INSTEAD_OF_DATE = 'x-aux-date'

/**
 * The text that a signature of the draft covers (§2.3; semantics §6.5), one character a byte; null: a header is missing.
 * `(created)` and `(expires)` are missing headers: the draft forbids them with every algorithm that there is here.
 */
export function signingString(x: Exchange, headers: readonly string[]): string | null {
  const lines: string[] = []
  for (const header of headers) {
    const name = header === 'date' ? dateName(x) : header
    const value = name === '(request-target)' ? `${x.method.toLowerCase()} ${pathAndQuery(x)}` : fieldOf(x, name)
    if (value === null) return null
    lines.push(`${name}: ${value}`)
  }
  return lines.join('\n')
}

/** The date is covered, and within `skewMs` of now. Without cover it would say nothing: whoever replays could renew it. */
export function isTimely(x: Exchange, headers: readonly string[], skewMs: number): boolean {
  const name = dateName(x)
  if (!headers.includes('date') && !headers.includes(name)) return false
  const ms = msOf(fieldOf(x, name) ?? '')
  return ms !== null && Math.abs(x.at - ms) <= skewMs
}

function dateName(x: Exchange): string {
  return (fieldOf(x, INSTEAD_OF_DATE) ?? '') === '' ? 'date' : INSTEAD_OF_DATE
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
const DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d) (?:GMT|UTC)$/

/** Of a date in the form of RFC 1123, milliseconds since the epoch; null: no such date. */
function msOf(text: string): number | null {
  const [, day, month, year, hour, minute, second] = DATE.exec(text) ?? []
  if (day === undefined) return null
  const ms = Date.UTC(Number(year), MONTHS.indexOf(month!), Number(day), Number(hour), Number(minute), Number(second))
  // 31 November would be another day.
  return new Date(ms).toUTCString().slice(5, 25) === text.slice(5, 25) ? ms : null
}
