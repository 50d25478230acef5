import { type BareItem, isInnerList, serializeInnerList, serializeItem } from 'structured-headers'
import type { Exchange } from '../../exchange.ts'
import type { Component } from './claim.ts'
import type { Message } from './message.ts'
import { strictly } from './structured.ts'
import { fieldOf, linesOf, pathAndQuery } from './target.ts'

/**
 * The value of a component in a request (RFC 9421 §2), one character a byte; null: it has none here, or it is a component or a
 * parameter that requests do not have (`@status`, `req`) or that is not taken (`tr`: trailers come when all is decided).
 */
export function componentValue(message: Message, { name, params }: Component): string | null {
  if (!name.startsWith('@')) return ofField(message, name, params)
  if (name !== '@query-param') return params.size === 0 ? derived(message, name) : null
  const param = params.get('name')
  return params.size === 1 && typeof param === 'string' ? message.param(param) : null
}

function derived({ x, query }: Message, name: string): string | null {
  switch (name) {
    case '@method':
      return x.method
    case '@target-uri': {
      const authority = authorityOf(x)
      const target = pathAndQuery(x)
      return authority === null ? null : `${schemeOf(x)}://${authority}${target === '*' ? '' : target}`
    }
    case '@authority':
      return authorityOf(x)
    case '@scheme':
      return schemeOf(x)
    case '@request-target':
      return x.req.url!
    case '@path': {
      const path = pathAndQuery(x).split('?', 1)[0]!
      return path === '*' ? '/' : path
    }
    case '@query':
      return query
    default:
      return null
  }
}

/** That of the client's own connection: a trusted proxy in front tells it. */
function schemeOf(x: Exchange): string {
  const told = x.peer.trusted ? (x.header('x-forwarded-proto') ?? '').toLowerCase() : ''
  if (told === 'https' || told === 'http') return told
  return x.peer.secure ? 'https' : 'http'
}

/** `Host`, lower case, without the usual port. Another host that proxies tell does not count: APIs are found by this one. */
function authorityOf(x: Exchange): string | null {
  const host = x.header('host')?.toLowerCase() ?? ''
  const usual = schemeOf(x) === 'https' ? ':443' : ':80'
  if (host === '') return null
  return host.endsWith(usual) ? host.slice(0, -usual.length) : host
}

function ofField(message: Message, name: string, params: Component['params']): string | null {
  const { x } = message
  const [param, ...others] = params.keys()
  if (others.length > 0 || name !== name.toLowerCase()) return null
  switch (param) {
    case undefined:
      return fieldOf(x, name)
    case 'bs':
      return params.get('bs') === true ? inBytes(linesOf(x, name)) : null
    case 'sf':
      return params.get('sf') === true ? strictly(name, fieldOf(x, name)) : null
    case 'key':
      return memberOf(message, name, params.get('key'))
    default:
      return null
  }
}

/** Each line as a byte sequence (§2.1.3). */
function inBytes(lines: readonly string[]): string | null {
  return lines.length === 0 ? null : lines.map(line => `:${Buffer.from(line, 'latin1').toString('base64')}:`).join(', ')
}

/** One member of a dictionary (§2.1.2). */
function memberOf(message: Message, name: string, key: BareItem | undefined): string | null {
  const member = typeof key === 'string' ? message.dictionary(name)?.get(key) : undefined
  if (member === undefined) return null
  return isInnerList(member) ? serializeInnerList(member) : serializeItem(member)
}
