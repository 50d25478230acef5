import type { SecureContextOptions } from 'node:tls'
import { pointer } from '../../config/validate.ts'
import type { Call } from '../call.ts'
import type { Fault } from '../connector.ts'
import { isLinkLocal } from '../linkLocal.ts'
import { type Template, template } from '../processors/template.ts'
import { Undelivered } from '../undelivered.ts'
import { checkTls, secureOptions, type Tls } from './credentials.ts'
import { checkTemplate } from './kafkaOptions.ts'

export { isLinkLocal, safeLookup } from '../linkLocal.ts'

/** What all connectors share that open connections to elsewhere: addresses, headers, TLS. */

/** How a connector's texts may be made. `own`: there is no request whose variables could be filled in. */
export type Texts = 'own' | 'of a request'

/** Names of headers and subprotocols (RFC 9110 §5.6.2). */
export const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
/** They belong to the connection. */
const FRAMING = [
  'connection',
  'content-length',
  'expect',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade'
]
/** The scheme and host of an address that may hold variables behind them. */
const ORIGIN = /^([a-z]+):\/\/([^/?#\\]*)(?=[/?#]|$)/i

/** Checks an address: of these schemes, of a host that no request chooses. */
export function checkUrl(text: string, schemes: readonly string[], texts: Texts, fault: Fault): void {
  const read = checkText('/url', text, texts, fault)
  if (read === null) return
  if (read.needsMessage)
    return fault('/url', 'may hold variables, no expressions: a message does not choose where it goes')
  const [, scheme, host] = ORIGIN.exec(text) ?? []
  const url = URL.parse(read(null, null))
  if (scheme === undefined || url === null || !schemes.includes(`${scheme.toLowerCase()}:`))
    fault('/url', `must begin with ${schemes.map(one => `${one}//`).join(' or ')} and a host`)
  else if (host!.includes('$')) fault('/url', 'must name its host without variables')
  else if (url.username !== '' || url.password !== '')
    fault('/url', 'must not hold a user: use the header Authorization')
  else if (isLinkLocal(url.hostname)) fault('/url', 'is a link-local address')
}

/** Checks names and texts of headers. */
export function checkHeaders(headers: Readonly<Record<string, string>>, texts: Texts, fault: Fault): void {
  for (const [name, text] of Object.entries(headers)) {
    const place = `/headers/${pointer(name)}`
    if (!TOKEN.test(name)) fault(place, 'is no name of a header')
    else if (FRAMING.includes(name.toLowerCase())) fault(place, 'is set by the gateway alone')
    checkText(place, text, texts, fault)
  }
}

export function checkText(place: string, text: string, texts: Texts, fault: Fault): Template | null {
  const read = checkTemplate(place, text, fault)
  if (read === null || texts === 'of a request') return read
  if (!read.needsCall && !read.needsMessage) return read
  fault(place, 'cannot hold variables or expressions: there is no request or message that they could come from')
  return null
}

/** Checks TLS of a client whose address says whether there is any. */
export function checkUrlTls(tls: Tls | undefined, url: string, fault: Fault): void {
  checkTls(tls, fault)
  if (tls?.enabled === true && /^(http|ws):/i.test(url)) fault('/tls/enabled', 'needs a URL of https or wss')
}

/** For `tls.connect`. */
export function tlsOptions(tls: Tls = {}): SecureContextOptions & { rejectUnauthorized: boolean } {
  return { ...secureOptions(tls), rejectUnauthorized: tls.skip_cert_verify !== true }
}

/** An address made for one request. @throws Undelivered ('invalid'): a variable would lead to another path */
export function addressOf(url: Template, call: Call | null): URL {
  const encoding = call === null ? null : (Object.create(call, { variable: { value: encoded(call) } }) as Call)
  return new URL(url(null, encoding))
}

/** A value stays within its segment or parameter. */
function encoded(call: Call): Call['variable'] {
  return name => {
    const value = call.variable(name)
    if (value === '.' || value === '..') throw new Undelivered('invalid', 'a variable of the address is a dot segment')
    return encodeURIComponent(value.toWellFormed())
  }
}

/** A header's value: what no header can hold becomes a space. */
export function headerText(text: string): string {
  return text.replace(/[^\t\x20-\x7e\x80-\xff]/g, ' ')
}

export function templates(headers: Readonly<Record<string, string>>): readonly (readonly [string, Template])[] {
  return Object.entries(headers).map(([name, text]) => [name, template(text)] as const)
}

export function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message || cause.name : String(cause)
}
