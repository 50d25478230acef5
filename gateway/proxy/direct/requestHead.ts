import type { UpstreamRequest } from '../upstream.ts'

const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
/** Beyond latin1 too: written as one byte, U+010A would be a line feed. */
const NO_VALUE = /[^\t\x20-\x7e\x80-\xff]/
const NO_TARGET = /[^\x21-\x7e\x80-\xff]/
const FRAMING = /^(?:content-length|transfer-encoding)$/i
/** Methods whose absent body is told as such (RFC 9110 §8.6). */
export const EXPECTS_BODY = new Set(['POST', 'PUT', 'PATCH'])

/**
 * The head of a request, with the framing that its body asks for.
 * @throws Error where anything in it could be read as more than one line, or frames by itself
 */
export function requestHead({ method, path, pairs, body, trailers }: UpstreamRequest): string {
  let head = requestLine(method, path)
  for (let i = 0; i < pairs.length; i += 2) head += fieldLine(pairs[i]!, pairs[i + 1]!)
  if (body === null) {
    if (EXPECTS_BODY.has(method)) head += 'Content-Length: 0\r\n'
  } else head += body.length < 0 ? 'Transfer-Encoding: chunked\r\n' : `Content-Length: ${body.length}\r\n`
  return `${head}${trailers ? 'TE: trailers\r\nConnection: TE\r\n' : ''}\r\n`
}

/** @throws Error where it would be no line, or more than one */
export function requestLine(method: string, path: string): string {
  if (!NAME.test(method) || path === '' || NO_TARGET.test(path)) throw new Error('the request line would break')
  return `${method} ${path} HTTP/1.1\r\n`
}

/** One line of a head or a trailer section. */
export function fieldLine(name: string, value: string): string {
  if (!NAME.test(name) || NO_VALUE.test(value)) throw new Error(`a header field would break: ${JSON.stringify(name)}`)
  if ((name.length === 14 || name.length === 17) && FRAMING.test(name))
    throw new Error(`${name} among the header fields`)
  return `${name}: ${value}\r\n`
}
