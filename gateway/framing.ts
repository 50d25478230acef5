import type { IncomingMessage } from 'node:http'
import { headerOf, type Peer, type RequestHead } from './exchange.ts'

/** What Node's parser hands on and nobody may forward (RFC 9112 §3.2, §6.3): answered 400 before anything is dispatched. */
export const AMBIGUOUS = null

// Exactly what URIs are made of besides '#' and space: visible ASCII. Others (raw UTF-8, control characters) are refused.
const STRANGE_TARGET = /[^\x21-\x7e]|#/
// A comma would be two hosts to some readers.
const HOST = /^(?:\[[0-9a-f:.]+\]|[a-z0-9._~!$&'()*+;=%-]+)(?::\d{0,5})?$/i
const ABSOLUTE = /^(https?):\/\/([^/?]+)(?:(\/.*)|(\?.*))?$/i
// Node's parser knows these from other protocols (RTSP, ICE) and hides which one was spoken.
const FOREIGN = new Set([
  'ANNOUNCE',
  'DESCRIBE',
  'FLUSH',
  'GET_PARAMETER',
  'PAUSE',
  'PLAY',
  'RECORD',
  'REDIRECT',
  'SETUP',
  'SET_PARAMETER',
  'SOURCE',
  'TEARDOWN'
])
const LENGTH = /^\d{1,15}$/

/** Origin-form, absolute-form or asterisk-form of a target; null where it fits none. */
export interface Target {
  readonly path: string
  readonly query: string
}

/**
 * Checks the framing and the routing information of a request head in one pass over its raw pairs.
 * @returns AMBIGUOUS for whatever two implementations could read in two ways
 */
export function readHead(req: IncomingMessage): RequestHead | null {
  const pairs = req.rawHeaders
  const version = req.httpVersion
  if ((version !== '1.1' && version !== '1.0') || FOREIGN.has(req.method!)) return AMBIGUOUS
  let host: string | null = null
  let length: string | null = null
  let coding: string | null = null
  let connection = ''
  let authorizations = 0
  for (let i = 0; i < pairs.length; i += 2) {
    const name = pairs[i]!
    switch (name.length) {
      case 4:
        if (name === 'Host' || name === 'host' || name.toLowerCase() === 'host') {
          if (host !== null) return AMBIGUOUS
          host = pairs[i + 1]!
        }
        break
      case 10:
        if (name === 'Connection' || name.toLowerCase() === 'connection')
          connection = connection === '' ? pairs[i + 1]!.toLowerCase() : `${connection},${pairs[i + 1]!.toLowerCase()}`
        break
      case 13:
        if (name === 'Authorization' || name.toLowerCase() === 'authorization') authorizations++
        break
      case 14:
        if (name.toLowerCase() === 'content-length') {
          if (length !== null) return AMBIGUOUS
          length = pairs[i + 1]!
        } else if (name.toLowerCase() === 'content_length') return AMBIGUOUS
        break
      case 17:
        if (name.toLowerCase() === 'transfer-encoding') {
          if (coding !== null) return AMBIGUOUS
          coding = pairs[i + 1]!
        } else if (name.toLowerCase() === 'transfer_encoding') return AMBIGUOUS
        break
    }
  }
  let bodyLength = 0
  if (coding !== null) {
    if (length !== null || version === '1.0' || coding.toLowerCase() !== 'chunked') return AMBIGUOUS
    bodyLength = -1
  } else if (length !== null) {
    if (!LENGTH.test(length)) return AMBIGUOUS
    bodyLength = Number(length)
  }
  if (host === null) {
    if (version === '1.1') return AMBIGUOUS
    return { host: '', bodyLength, connection, authorizations }
  }
  if (!HOST.test(host)) return AMBIGUOUS
  return { host: hostName(host), bodyLength, connection, authorizations }
}

/** A host without its port, lower case, without the root's dot: `Example.com.:80` → `example.com`. */
export function hostName(authority: string): string {
  const colon = authority.endsWith(']') ? -1 : authority.lastIndexOf(':')
  const name = (colon < 0 ? authority : authority.slice(0, colon)).toLowerCase()
  return name.endsWith('.') ? name.slice(0, -1) : name
}

/**
 * Cuts a request target into path and query. Absolute-form counts only where it names the same authority as `Host`, and
 * `https` only where the connection was secured, by us or by a trusted proxy (RFC 9110 §7.4).
 * @returns null: not a target of these forms, or one that disagrees with the rest of the request
 */
export function readTarget(req: IncomingMessage, peer: Peer): Target | null {
  let target = req.url!
  if (target.length > 16_384 || STRANGE_TARGET.test(target)) return null
  if (target.charCodeAt(0) !== 47) {
    if (target === '*') return req.method === 'OPTIONS' ? { path: '*', query: '' } : null
    const [, scheme, authority, path, query] = ABSOLUTE.exec(target) ?? []
    if (scheme === undefined || !HOST.test(authority!)) return null
    const secure = scheme.toLowerCase() === 'https'
    if (secure && !peer.secure && !peer.trusted) return null
    const usual = secure ? ':443' : ':80'
    if (withoutPort(authority!, usual) !== withoutPort(headerOf(req.rawHeaders, 'host') ?? '', usual)) return null
    target = path ?? `/${query ?? ''}`
  }
  const mark = target.indexOf('?')
  return mark < 0 ? { path: target, query: '' } : { path: target.slice(0, mark), query: target.slice(mark) }
}

function withoutPort(authority: string, port: string): string {
  const lower = authority.toLowerCase()
  return lower.endsWith(port) ? lower.slice(0, -port.length) : lower
}
