/** Reading single values out of queries and cookies, and taking them out, without touching what stands around them. */

/** First value of a query parameter, decoded; null where it is absent. `query` begins with '?'. */
export function queryOf(query: string, name: string): string | null {
  for (const part of query.slice(1).split('&')) {
    const equals = part.indexOf('=')
    if (decoded(equals < 0 ? part : part.slice(0, equals)) === name)
      return equals < 0 ? '' : decoded(part.slice(equals + 1))
  }
  return null
}

/** The query without a parameter; the others as they were written. */
export function withoutQuery(query: string, name: string): string {
  if (query === '') return ''
  const kept = query
    .slice(1)
    .split('&')
    .filter(part => decoded(part.split('=', 1)[0]!) !== name)
  return kept.length === 0 ? '' : `?${kept.join('&')}`
}

/** First value of a cookie in a `Cookie` header; null where it is absent. */
export function cookieOf(header: string, name: string): string | null {
  for (const part of header.split(';')) {
    const pair = part.trim()
    if (pair.startsWith(name) && pair.charCodeAt(name.length) === 61) {
      const value = pair.slice(name.length + 1)
      return value.length > 1 && value.startsWith('"') && value.endsWith('"') ? value.slice(1, -1) : value
    }
  }
  return null
}

/** A `Cookie` header without a cookie; '' when nothing is left. */
export function withoutCookie(header: string, name: string): string {
  return header
    .split(';')
    .filter(part => part.trim().split('=', 1)[0] !== name)
    .join(';')
    .trim()
}

function decoded(text: string): string {
  if (!text.includes('%') && !text.includes('+')) return text
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return text
  }
}
