import type { Exchange } from '../exchange.ts'

// Hop-by-hop (RFC 9110 §7.6.1) and framing, which is set from what we know. Everything else passes as it came.
const NEVER = new Set([
  'connection',
  'proxy-connection',
  'keep-alive',
  'te',
  'transfer-encoding',
  'upgrade',
  'content-length',
  'proxy-authorization',
  'proxy-authenticate',
  'expect',
  'http2-settings'
])
const LONGEST = 19
const OURS_UP = new Set([
  'host',
  'via',
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
  'x-forwarded-port',
  'x-real-ip',
  'x-request-id',
  // RFC 9440: believed from trusted proxies alone.
  'client-cert',
  'client-cert-chain',
  // Upstreams whose variables know no hyphens take these for the same.
  'client_cert',
  'client_cert_chain',
  'client_cert-chain',
  'client-cert_chain'
])

/**
 * The pairs of an upstream request: `Host` first, the client's own in their order and spelling, then what we add.
 * @param host what stands in `Host`
 */
export function requestPairs(x: Exchange, host: string, requestId: string): string[] {
  const { peer } = x
  const raw = x.req.rawHeaders
  const pairs: string[] = ['Host', host]
  const named = x.connection === '' || x.connection === 'keep-alive' || x.connection === 'close' ? null : x.connection
  let forwardedFor = ''
  let forwardedProto = ''
  let forwardedHost = ''
  let forwarded = ''
  let via = ''
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!
    const value = raw[i + 1]!
    if (name.length <= LONGEST) {
      const lower = name.toLowerCase()
      if (NEVER.has(lower)) continue
      if (OURS_UP.has(lower)) {
        switch (lower) {
          case 'via':
            via = via === '' ? value : `${via}, ${value}`
            continue
          case 'x-request-id':
          case 'host':
          // Nobody's proxy writes them so; an upstream could take them for those that were believed.
          case 'client_cert':
          case 'client_cert_chain':
          case 'client_cert-chain':
          case 'client-cert_chain':
            continue
        }
        if (!peer.trusted) continue
        switch (lower) {
          case 'x-forwarded-for':
            forwardedFor = forwardedFor === '' ? value : `${forwardedFor}, ${value}`
            continue
          case 'x-forwarded-proto':
            forwardedProto = value
            continue
          case 'x-forwarded-host':
            forwardedHost = value
            continue
          case 'forwarded':
            forwarded = forwarded === '' ? value : `${forwarded}, ${value}`
            continue
        }
      }
      if (named !== null && names(named, lower)) continue
    } else if (named !== null && names(named, name.toLowerCase())) continue
    pairs.push(name, value)
  }
  pairs.push(
    'X-Forwarded-For',
    forwardedFor === '' ? peer.address : `${forwardedFor}, ${peer.address}`,
    'X-Forwarded-Proto',
    forwardedProto === '' ? (peer.secure ? 'https' : 'http') : forwardedProto
  )
  const givenHost = forwardedHost === '' ? (x.header('host') ?? '') : forwardedHost
  if (givenHost !== '') pairs.push('X-Forwarded-Host', givenHost)
  if (forwarded !== '') {
    const { address } = peer
    pairs.push('Forwarded', `${forwarded}, for=${address.includes(':') ? `"[${address}]"` : address}`)
  }
  const received = x.req.httpVersionMinor === 0 ? '1.0 svc' : '1.1 svc'
  pairs.push('X-Request-Id', requestId, 'Via', via === '' ? received : `${via}, ${received}`)
  return pairs
}

/** The pairs of an upstream answer that go to the client: in their order and spelling, without hop-by-hop and framing. */
export function responsePairs(x: Exchange, status: number, raw: readonly string[]): string[] {
  const pairs: string[] = []
  const keepsLength = status >= 200 && status !== 204
  let named: string | null = null
  let trailerAt = -1
  let chunked = false
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!
    switch (name.length) {
      case 10: {
        const lower = name.toLowerCase()
        if (lower === 'keep-alive') continue
        if (lower === 'connection') {
          const value = raw[i + 1]!.toLowerCase()
          if (value !== 'keep-alive' && value !== 'close') named = named === null ? value : `${named},${value}`
          continue
        }
        break
      }
      case 14:
        if (!keepsLength && name.toLowerCase() === 'content-length') continue
        break
      case 2:
      case 7:
      case 16:
      case 17:
      case 18:
      case 19: {
        const lower = name.toLowerCase()
        if (lower === 'trailer') trailerAt = pairs.length
        else if (lower === 'transfer-encoding') chunked = true
        // Content-Length passes: the reader has checked it against the bytes.
        if (NEVER.has(lower) && lower !== 'content-length') continue
        break
      }
    }
    pairs.push(name, raw[i + 1]!)
  }
  // Only chunks can carry what it announces.
  if (trailerAt >= 0 && !(chunked && x.method !== 'HEAD' && status !== 304 && x.req.httpVersionMinor === 1))
    pairs.splice(trailerAt, 2)
  if (named === null) return pairs
  const kept: string[] = []
  for (let i = 0; i < pairs.length; i += 2) {
    if (!names(named, pairs[i]!.toLowerCase())) kept.push(pairs[i]!, pairs[i + 1]!)
  }
  return kept
}

/** Fields that no trailer section may carry (RFC 9110 §6.5.1): framing, routing, authentication, content. */
const NO_TRAILER =
  /^(?:transfer-encoding|content-length|host|trailer|te|connection|keep-alive|upgrade|authorization|proxy-.*|www-authenticate|set-cookie|cookie|client[-_]cert|client[-_]cert[-_]chain|content-.*|cache-control|expires|age|date|location|vary|retry-after|max-forwards|expect|range|if-.*)$/i

export function trailerPairs(raw: readonly string[]): string[] {
  const pairs: string[] = []
  for (let i = 0; i < raw.length; i += 2) if (!NO_TRAILER.test(raw[i]!)) pairs.push(raw[i]!, raw[i + 1]!)
  return pairs
}

/** Whether a comma-separated list, lower case, has this member. */
export function names(list: string, lower: string): boolean {
  let at = list.indexOf(lower)
  while (at >= 0) {
    const before = at === 0 ? 44 : list.charCodeAt(at - 1)
    const end = at + lower.length
    const after = end === list.length ? 44 : list.charCodeAt(end)
    if ((before === 44 || before === 32 || before === 9) && (after === 44 || after === 32 || after === 9)) return true
    at = list.indexOf(lower, at + 1)
  }
  return false
}
