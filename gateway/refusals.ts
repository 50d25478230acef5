/** Every "no" of the data plane: its status, its text and its bytes, made before the first request. */
export interface Refusal {
  /** Stands in `x-svc-error` and in the access log. */
  readonly code: string
  readonly status: number
  readonly message: string
  readonly json: Buffer
  readonly xml: Buffer
  /** Header pairs of its own. */
  readonly pairs: readonly string[]
}

export function refusal(code: string, status: number, message: string, pairs: readonly string[] = []): Refusal {
  const json = Buffer.from(JSON.stringify({ error: message }))
  const xml = Buffer.from(`<?xml version="1.0" encoding="UTF-8"?>\n<error>${escapeXml(message)}</error>`)
  return Object.freeze({ code, status, message, json, xml, pairs: Object.freeze([...pairs]) })
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

/** Texts and statuses: semantics §3.7, §5.2, §6.2, changed where `outside.md` §5 settles otherwise. */
export const refusals = {
  badRequest: refusal('bad_request', 400, 'Bad Request'),
  framing: refusal('ambiguous_request', 400, 'Ambiguous or malformed request'),
  headTimeout: refusal('head_timeout', 408, 'Request head was not received in time'),
  headerOverflow: refusal('header_overflow', 431, 'Request header fields are too large'),
  bodyTimeout: refusal('body_timeout', 408, 'Request body was not received in time'),
  expectation: refusal('expectation_failed', 417, 'Expectation Failed'),
  noRoute: refusal('no_route', 404, 'Not Found'),
  methodNotAllowed: refusal('method_not_allowed', 405, 'Method Not Allowed'),
  notImplemented: refusal('method_not_implemented', 501, 'Method not implemented'),
  apiExpired: refusal('api_expired', 403, 'API has expired, please check documentation or contact administrator'),
  bodyTooLarge: refusal('body_too_large', 413, 'Request Entity Too Large'),
  lengthRequired: refusal('length_required', 411, 'Content length is required for this request'),
  requestTooLarge: refusal('request_too_large', 400, 'Request is too large'),
  ipDisallowed: refusal('ip_disallowed', 403, 'access from this IP has been disallowed'),
  endpointForbidden: refusal('endpoint_forbidden', 403, 'Requested endpoint is forbidden'),
  keyMissing: refusal('auth_missing', 401, 'Authorization field missing', ['WWW-Authenticate', 'Bearer']),
  keyUnknown: refusal('key_unknown', 403, 'Access to this API has been disallowed'),
  keyInactive: refusal('key_inactive', 403, 'Key is inactive, please renew'),
  keyExpired: refusal('key_expired', 401, 'Key has expired, please renew', [
    'WWW-Authenticate',
    'Bearer error="invalid_token"'
  ]),
  apiDisallowed: refusal('api_disallowed', 403, 'Access to this API has been disallowed'),
  resourceDisallowed: refusal('resource_disallowed', 403, 'Access to this resource has been disallowed'),
  rateExceeded: refusal('rate_exceeded', 429, 'Rate Limit Exceeded'),
  apiRateExceeded: refusal('api_rate_exceeded', 429, 'API Rate Limit Exceeded'),
  quotaExceeded: refusal('quota_exceeded', 403, 'Quota exceeded'),
  storeUnavailable: refusal('store_unavailable', 503, 'Service temporarily unavailable', ['Retry-After', '1']),
  countersUnavailable: refusal('counters_unavailable', 503, 'Limits cannot be checked at the moment', [
    'Retry-After',
    '1'
  ]),
  hostsDown: refusal('hosts_down', 503, 'all hosts are down', ['Retry-After', '10']),
  upstreamConnect: refusal('upstream_connect', 502, 'Upstream refused the connection'),
  upstreamLookup: refusal('upstream_lookup', 502, 'Upstream host lookup failed'),
  upstreamReset: refusal('upstream_reset', 502, 'Upstream closed the connection before it answered'),
  upstreamGarbage: refusal('upstream_garbage', 502, 'Upstream sent an invalid answer'),
  upstreamTls: refusal('upstream_tls', 502, 'TLS with the upstream failed'),
  upstreamConnectTimeout: refusal('upstream_connect_timeout', 504, 'Upstream did not accept the connection in time'),
  upstreamTimeout: refusal('upstream_timeout', 504, 'Upstream service reached hard timeout.'),
  shuttingDown: refusal('shutting_down', 503, 'Gateway is shutting down', ['Connection', 'close']),
  fault: refusal('internal_fault', 500, 'There was a problem proxying the request')
} satisfies Record<string, Refusal>
