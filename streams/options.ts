import { byteCount, streamMs } from '../config/duration.ts'
import type { HttpServerInput, HttpServerOutput } from '../config/shape/stream.ts'

/** The options of `http_server` with their defaults (outside.md §5, facts/streams §4.9): plain numbers, nothing absent. */

export type Mode = 'group' | 'broadcast' | 'key'

export interface ProducerOptions {
  /** '' none */
  readonly path: string
  readonly wsPath: string
  readonly verbs: readonly string[]
  readonly welcome: string
  readonly allowedOrigins: readonly string[] | null
  /** Lower case, without parameters; null: all. */
  readonly contentTypes: readonly string[] | null
  readonly timeoutMs: number
  readonly status: number
  readonly answerHeaders: Readonly<Record<string, string>>
  readonly isAsync: boolean
  /** Text with variables and expressions; '' none. */
  readonly key: string
  /** Lower case. */
  readonly allow: readonly string[]
  readonly deny: readonly string[]
  readonly returnsRecord: boolean
  /** Lower case; '' none. */
  readonly idempotencyHeader: string
  readonly maxBody: number
}

export interface DeliveryOptions {
  readonly path: string
  readonly streamPath: string
  readonly wsPath: string
  readonly verbs: readonly string[]
  readonly isRaw: boolean
  /** 0: none */
  readonly heartbeatMs: number
  /** Null: text when the payload is UTF-8. */
  readonly wsMessageType: 'binary' | 'text' | null
  readonly timeoutMs: number
  readonly writeWaitMs: number
  readonly pongWaitMs: number
  readonly pingPeriodMs: number
  readonly allowedOrigins: readonly string[] | null
  readonly mode: Mode
  /** Null: as the mode and the input say. */
  readonly start: 'committed' | 'latest' | 'earliest' | null
  readonly resume: boolean
  readonly allowSeek: boolean
  readonly window: { readonly messages: number; readonly bytes: number; readonly ageMs: number }
  readonly idInterval: number
  /** `none`, `topic`, `key` or `header:NAME`. */
  readonly eventFrom: string
  readonly envelope: boolean
  readonly payload: 'base64' | 'drop' | 'error'
  /** Lower case. */
  readonly headers: readonly string[]
  readonly ack: 'write' | 'client'
  readonly ackTimeoutMs: number
  readonly maxDeliveries: number
  readonly deadLetterTopic: string
  readonly count: 'connection' | 'message' | 'byte'
  readonly queue: {
    readonly messages: number
    readonly bytes: number
    readonly policy: 'disconnect' | 'drop_oldest' | 'latest_by_key'
  }
  /** Infinity: the process's own bound alone. */
  readonly maxClients: number
  /** 0: no bound */
  readonly maxAgeMs: number
  readonly retryMs: number
  readonly filter: {
    /** '' any */
    readonly key: string
    readonly headers: Readonly<Record<string, string>>
    /** '' none */
    readonly check: string
  } | null
  readonly requireBroker: boolean
}

/** Headers that go along with a message unless told otherwise. */
const ALLOWED = ['content-type', 'traceparent', 'tracestate', 'x-request-id']

export function producerOptions(given: HttpServerInput): ProducerOptions {
  // Who names any of the paths has only those.
  const names = given.path !== undefined || given.ws_path !== undefined
  return {
    path: given.path ?? (names ? '' : '/post'),
    wsPath: given.ws_path ?? (names ? '' : '/post/ws'),
    verbs: given.allowed_verbs ?? ['POST'],
    welcome: given.ws_welcome_message ?? '',
    allowedOrigins: given.allowed_origins ?? null,
    contentTypes: given.content_types?.map(type => type.toLowerCase().split(';')[0]!.trim()) ?? null,
    timeoutMs: streamMs(given.timeout ?? '5s'),
    status: Number(given.sync_response?.status ?? (given.async ? 202 : 200)),
    answerHeaders: given.sync_response?.headers ?? {},
    isAsync: given.async ?? false,
    key: given.key ?? '',
    allow: [...ALLOWED, ...(given.headers?.allow ?? []).map(name => name.toLowerCase())],
    deny: (given.headers?.deny ?? []).map(name => name.toLowerCase()),
    returnsRecord: given.return === 'record',
    idempotencyHeader: (given.idempotency_header ?? 'idempotency-key').toLowerCase(),
    maxBody: byteCount(given.max_body ?? 1_000_000)
  }
}

export function deliveryOptions(given: HttpServerOutput): DeliveryOptions {
  const names = given.path !== undefined || given.stream_path !== undefined || given.ws_path !== undefined
  return {
    path: given.path ?? (names ? '' : '/get'),
    streamPath: given.stream_path ?? (names ? '' : '/get/stream'),
    wsPath: given.ws_path ?? (names ? '' : '/get/ws'),
    verbs: given.allowed_verbs ?? ['GET'],
    isRaw: given.stream_format === 'raw_bytes',
    heartbeatMs: streamMs(given.heartbeat ?? '15s'),
    wsMessageType: given.ws_message_type ?? null,
    timeoutMs: streamMs(given.timeout ?? '5s'),
    writeWaitMs: streamMs(given.write_wait ?? '10s'),
    pongWaitMs: streamMs(given.pong_wait ?? '60s'),
    pingPeriodMs: streamMs(given.ping_period ?? '25s'),
    allowedOrigins: given.allowed_origins ?? null,
    mode: given.mode ?? 'group',
    start: given.start ?? null,
    resume: given.resume ?? true,
    allowSeek: given.allow_seek ?? false,
    window: {
      messages: given.replay_window?.messages ?? 1000,
      bytes: byteCount(given.replay_window?.bytes ?? '8MiB'),
      ageMs: streamMs(given.replay_window?.age ?? '5m')
    },
    idInterval: given.id_interval ?? 20,
    eventFrom: given.event_from ?? 'none',
    envelope: given.envelope ?? false,
    payload: given.payload ?? 'base64',
    headers: (given.headers ?? []).map(name => name.toLowerCase()),
    ack: given.ack ?? 'write',
    ackTimeoutMs: streamMs(given.ack_timeout ?? '30s'),
    maxDeliveries: given.max_deliveries ?? 5,
    deadLetterTopic: given.dead_letter_topic ?? '',
    count: given.count ?? 'connection',
    queue: {
      messages: given.client_queue?.messages ?? 1000,
      bytes: byteCount(given.client_queue?.bytes ?? '1MiB'),
      policy: given.client_queue?.policy ?? 'disconnect'
    },
    maxClients: given.max_clients ?? Number.POSITIVE_INFINITY,
    maxAgeMs: streamMs(given.max_connection_age ?? '10m'),
    retryMs: given.retry ?? 2000,
    filter:
      given.filter === undefined
        ? null
        : { key: given.filter.key ?? '', headers: given.filter.headers ?? {}, check: given.filter.check ?? '' },
    requireBroker: given.require_broker ?? false
  }
}
