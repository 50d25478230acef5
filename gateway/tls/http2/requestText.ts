/** A request of HTTP/2 as one of HTTP/1.1. */
export interface RequestText {
  readonly method: string
  /** With the empty line. */
  readonly head: string
  /** Bytes of the body; 0: none; -1: chunked. */
  readonly length: number
}

const NAME = /^[!#$%&'*+.^_`|~0-9a-z-]+$/
const METHOD = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const NO_VALUE = /[^\t\x20-\x7e\x80-\xff]/
const NO_TARGET = /[^\x21-\x7e\x80-\xff]/
const LENGTH = /^\d{1,15}$/
/** They speak of a connection, of which HTTP/2 has no such thing (RFC 9113 §8.2.2). */
const OF_CONNECTIONS = new Set([
  'connection',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade'
])

/**
 * RFC 9113 §8.3. What HTTP/1.1 can say, but means two things at once (two hosts), is said: the gateway's own check of
 * heads refuses it and writes its line in the access log.
 * @param pairs names and values as they came, pseudo-headers among them
 * @param ends no body follows
 * @returns null: malformed, in a way that no line of HTTP/1.1 can bear
 */
export function requestText(pairs: readonly string[], ends: boolean): RequestText | null {
  let method = ''
  let path = ''
  let scheme = ''
  let authority: string | null = null
  let host: string | null = null
  let length: string | null = null
  let cookies = ''
  let lines = ''
  let isRegular = false
  for (let i = 0; i < pairs.length; i += 2) {
    const name = pairs[i]!
    const value = pairs[i + 1]!
    if (NO_VALUE.test(value)) return null
    if (name.charCodeAt(0) === COLON) {
      if (isRegular) return null
      if (name === ':method' && method === '') method = value
      else if (name === ':path' && path === '') path = value
      else if (name === ':scheme' && scheme === '') scheme = value
      else if (name === ':authority' && authority === null) authority = value
      else return null
      continue
    }
    isRegular = true
    if (!NAME.test(name) || OF_CONNECTIONS.has(name)) return null
    if (name === 'cookie') cookies = cookies === '' ? value : `${cookies}; ${value}`
    else if (name === 'host' && host === null) host = value
    else if (name === 'te') {
      if (value.toLowerCase() !== 'trailers') return null
      lines += 'TE: trailers\r\nConnection: TE\r\n'
    } else if (name === 'content-length') {
      if (length !== null || !LENGTH.test(value)) return null
      length = value
    } else lines += `${name}: ${value}\r\n`
  }
  if (!METHOD.test(method)) return null
  const isConnect = method === 'CONNECT'
  const target = isConnect ? authority : path
  if (target === null || target === '' || NO_TARGET.test(target)) return null
  // Another form of a target would name another host.
  if (!isConnect && target.charCodeAt(0) !== SLASH && target !== '*') return null
  if (ends && length !== null && Number(length) > 0) return null
  let head = `${method} ${target} HTTP/1.1\r\n`
  if (authority !== null) head += `Host: ${authority}\r\n`
  if (host !== null && (authority === null || !isSameHost(authority, host))) head += `Host: ${host}\r\n`
  // The answer to it would be for somebody else; an unknown host is refused like two.
  else if (!isConnect && scheme !== 'https' && scheme !== 'http') head += 'Host:\r\n'
  head += lines
  if (cookies !== '') head += `Cookie: ${cookies}\r\n`
  if (length !== null) head += `Content-Length: ${length}\r\n`
  else if (!ends && !isConnect) head += 'Transfer-Encoding: chunked\r\n'
  return {
    method,
    head: `${head}\r\n`,
    length: isConnect ? 0 : length !== null ? Number(length) : ends ? 0 : -1
  }
}

const COLON = 58
const SLASH = 47

function isSameHost(one: string, other: string): boolean {
  return one === other || withoutPort(one) === withoutPort(other)
}

function withoutPort(authority: string): string {
  const lower = authority.toLowerCase()
  return lower.endsWith(':443') ? lower.slice(0, -4) : lower
}
