import { EXPECTS_BODY, fieldLine, requestLine } from '../direct/requestHead.ts'
import type { UpstreamRequest } from '../upstream.ts'

/**
 * The field section of a request as raw pairs (RFC 9113 §8.3): what HTTP/1.1 would write, with names in lower case and
 * `Host` as `:authority`.
 * @throws Error where it would not be one request, were it written as HTTP/1.1
 */
export function requestFields({ method, path, pairs, body, trailers, target }: UpstreamRequest): string[] {
  requestLine(method, path)
  const fields = [':method', method, ':scheme', 'https', ':authority', target.authority, ':path', path]
  for (let i = 0; i < pairs.length; i += 2) {
    const name = pairs[i]!
    const value = pairs[i + 1]!
    fieldLine(name, value)
    const lower = name.toLowerCase()
    if (lower === 'host') fields[5] = value
    else fields.push(lower, value.trim())
  }
  if (body === null) {
    if (EXPECTS_BODY.has(method)) fields.push('content-length', '0')
  } else if (body.length >= 0) fields.push('content-length', String(body.length))
  if (trailers) fields.push('te', 'trailers')
  return fields
}
