import type { Call } from '../call.ts'
import type { MessageHeaders } from '../message.ts'
import type { ProducerOptions } from '../options.ts'

/**
 * Never part of a message, even when `allow` names them: credentials, and what concerns the connection alone (RFC 9110
 * §7.6.1). What an API reads its own keys from is in `Call.secretHeaders`.
 */
const NEVER = new Set([
  'authorization',
  'cookie',
  'set-cookie',
  'x-svc-authorization',
  'admin-auth',
  'connection',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'host',
  'content-length',
  'expect',
  'http2-settings'
])

/** Whether a header, by its lower-case name, stays behind whatever a document says. */
export function neverGoes(name: string): boolean {
  return NEVER.has(name) || name.startsWith('proxy-') || name.startsWith('sec-websocket-')
}

/** Which request headers go along with a message (R30), in their order. */
export type Carried = (call: Call) => [name: string, value: Buffer][]

export function carried({ allow, deny }: Pick<ProducerOptions, 'allow' | 'deny'>): Carried {
  const names = new Set(allow.filter(name => !deny.includes(name) && !neverGoes(name)))
  return call => {
    const { rawHeaders } = call.req
    const pairs: [string, Buffer][] = []
    for (let i = 0; i < rawHeaders.length; i += 2) {
      const name = rawHeaders[i]!.toLowerCase()
      if (!names.has(name) || call.secretHeaders.has(name) || isOfConnection(call, name)) continue
      pairs.push([name, Buffer.from(rawHeaders[i + 1]!, 'latin1')])
    }
    return pairs
  }
}

/** The client may name more headers that concern the connection alone. */
function isOfConnection(call: Call, name: string): boolean {
  const named = call.header('connection')
  if (named === null || named === 'keep-alive' || named === 'close') return false
  return named
    .toLowerCase()
    .split(',')
    .some(one => one.trim() === name)
}

/** These headers with another media type; null: with none. */
export function typed(headers: MessageHeaders, type: string | null): MessageHeaders {
  const others = headers.filter(([name]) => name !== 'content-type')
  return type === null ? others : [...others, ['content-type', Buffer.from(type, 'latin1')]]
}
