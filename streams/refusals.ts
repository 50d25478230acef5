/** A "no" of the stream router; the gateway makes its own answers of them. */
export interface No {
  /** Stands in `x-svc-error` and in the access log. */
  readonly code: string
  readonly status: number
  readonly message: string
  /** Header pairs of its own. */
  readonly pairs: readonly string[]
}

export function no(code: string, status: number, message: string, pairs: readonly string[] = []): No {
  return Object.freeze({ code, status, message, pairs: Object.freeze([...pairs]) })
}

const SOON = ['Retry-After', '1']

/** Statuses: facts/streams §4.6. */
export const nos = {
  noRoute: no('no_stream_route', 404, 'not found'),
  notUpgraded: no('upgrade_required', 426, 'Upgrade Required', [
    'Upgrade',
    'websocket',
    // RFC 9110 §7.8: the field is hop-by-hop.
    'Connection',
    'Upgrade'
  ]),
  off: no('streaming_off', 503, 'Streaming is switched off on this gateway'),
  draining: no('stream_draining', 503, 'Server closing', SOON),
  broken: no('stream_broken', 503, 'The stream is not running', SOON),
  tooManyClients: no('stream_clients', 503, 'Too many clients', ['Retry-After', '5']),
  tooManyOfKey: no('stream_clients_of_key', 429, 'Too many connections', ['Retry-After', '5']),
  budget: no('stream_budget', 503, 'Too much is waiting', ['Retry-After', '5']),
  catchUp: no('stream_catch_up', 503, 'Too many clients read history', ['Retry-After', '5']),
  badCursor: no('stream_cursor', 400, 'The cursor is not valid'),
  badRequest: no('bad_request', 400, 'Bad request'),
  badHandshake: no('bad_handshake', 400, 'Bad WebSocket handshake'),
  badOrigin: no('origin_disallowed', 403, 'This origin is not allowed'),
  bodyTooLarge: no('body_too_large', 413, 'Request Entity Too Large'),
  mediaType: no('media_type', 415, 'Unsupported Media Type'),
  busy: no('stream_busy', 503, 'Too many messages are under way', SOON),
  unavailable: no('broker_unavailable', 503, 'The message cannot be delivered now', SOON),
  unknown: no('delivery_unknown', 504, 'Nobody knows whether the message was delivered', ['svc-delivery', 'unknown']),
  misconfigured: no('broker_refused', 502, 'The message could not be delivered'),
  failed: no('broker_failed', 502, 'The message could not be delivered'),
  rateLimited: no('stream_rate', 429, 'Too Many Requests', SOON)
} satisfies Record<string, No>
