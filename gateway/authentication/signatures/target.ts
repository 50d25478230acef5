import type { Exchange } from '../../exchange.ts'

/** What signatures cover of a request: all of it as the client wrote it, before anything of ours has touched it. */

/** Components or headers of one signature at most: each is looked for among all fields of the request. */
export const MOST_COVERED = 100

/** Path and query of the request target, of absolute-form too; nothing is resolved or decoded. */
export function pathAndQuery(x: Exchange): string {
  const url = x.req.url!
  if (url.charCodeAt(0) === 47 || url === '*') return url
  const start = url.slice(url.indexOf('//') + 2).search(/[/?]/)
  if (start < 0) return '/'
  const rest = url.slice(url.indexOf('//') + 2 + start)
  return rest.startsWith('?') ? `/${rest}` : rest
}

/** Values of all lines of a field, by its lower-case name; [] where there is none. The parser has taken the blanks around them. */
export function linesOf(x: Exchange, name: string): string[] {
  const raw = x.req.rawHeaders
  const lines: string[] = []
  for (let i = 0; i < raw.length; i += 2) {
    const given = raw[i]!
    if (given.length === name.length && given.toLowerCase() === name) lines.push(raw[i + 1]!)
  }
  return lines
}

/** The lines of a field as one (RFC 9110 §5.3); null where there is none. */
export function fieldOf(x: Exchange, name: string): string | null {
  const lines = linesOf(x, name)
  return lines.length === 0 ? null : lines.join(', ')
}
