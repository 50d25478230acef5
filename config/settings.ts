import Type, { type Static } from 'typebox'
import { countersFailures, countersFailureText, rateLimitModes, rateLimitModeText } from './shape/limit.ts'

const strict = { additionalProperties: false } as const
const Port = (description: string, initial: number) =>
  Type.Integer({ minimum: 0, maximum: 65535, default: initial, description })
const Flag = (description: string, initial: boolean) => Type.Boolean({ default: initial, description })
/** '' stands for none. */
const Text = (description: string, initial = '') => Type.String({ default: initial, description })
const Seconds = (description: string, initial: number) =>
  Type.Number({ minimum: 0, maximum: 2_000_000, default: initial, description, unit: 's' })

/** Counts only where both sections have it. */
const enabled = Flag('Streaming APIs; both sections must say true, or saving one is refused', false)
const Count = (description: string, initial: number, minimum = 0) =>
  Type.Integer({ minimum, maximum: 1_000_000_000, default: initial, description })
const Bytes = (description: string, initial: number) =>
  Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, default: initial, unit: 'bytes', description })

export const Streaming = Type.Object(
  {
    enabled,
    max_clients: Count('Most clients of all streams at once', 10_000, 1),
    max_clients_per_key: Count('Most of them with one key; 0: no bound', 0),
    max_clients_per_address: Count('Most of them from one address; 0: no bound', 0),
    budget: Bytes(
      'What may wait for clients and brokers in all; above it 503. Replay windows take at most half of it',
      268_435_456
    ),
    catch_up_readers: Count('Most clients that read history at once', 16, 1),
    drain_timeout: Seconds('When stopping, connections are closed over this time', 10),
    reload_drain: Seconds('When a stream changes, its connections are closed over this time', 10),
    idle_leave: Seconds('A stream whose last client has left stays in its group so long', 5),
    memory: Type.Object(
      {
        durable: Flag('Topics of `memory://` lie in the SQLite store and survive the process', false),
        partitions: Type.Integer({
          minimum: 1,
          maximum: 100,
          default: 1,
          description: 'Partitions of a topic of `memory://`'
        }),
        retention_messages: Count('Messages that a partition keeps', 100_000, 1),
        retention_bytes: Bytes('Bytes that a partition keeps', 67_108_864),
        retention_age: Seconds('Messages leave after this time; 0: no bound', 86_400)
      },
      { ...strict, default: {} }
    )
  },
  { ...strict, default: {} }
)
export type StreamingSettings = Static<typeof Streaming>

/** Of `certificate_expiry_monitor`, seconds. */
export const CHECK_COOLDOWN = 3_600
export const EVENT_COOLDOWN = 86_400

export const Gateway = Type.Object(
  {
    listen_address: Text(
      'Address of the data plane: APIs, `/svc/…`, `/hello`, `/ready`. Default: `127.0.0.1` without a settings file, all interfaces with one'
    ),
    listen_port: Port('Port of the data plane; 0: any free one', 8080),
    control_api_port: Port('When set, `/svc/…` answers only on this port', 0),
    secret: Type.String({
      default: '',
      secret: true,
      description:
        'Value of `X-Svc-Authorization`; required with a settings file, generated into the data folder without one'
    }),
    app_path: Text(
      'Folder of OpenAPI documents (`*.json`, `*.yaml`, `*.yml`), loaded at start and on reload, read-only'
    ),
    policies_path: Text('Folder or file of policies, the same rules'),
    hash_keys: Flag('Keys lie hashed in the store; the plain key is shown once, on creation', true),
    hash_key_function: Type.Enum(['sha256'], { default: 'sha256', description: 'Hash of keys at rest' }),
    enable_hashed_keys_listing: Flag('Lists of keys show their hashes', true),
    min_token_length: Type.Integer({
      minimum: 1,
      maximum: 256,
      default: 3,
      description: 'Shortest key that is accepted, presented or custom'
    }),
    allow_master_keys: Flag('Keys without access rights open every API of their organisation', false),
    rate_limiter: Type.Enum(['bucket', 'fixed_window', 'sliding_log'], {
      default: 'bucket',
      description:
        '`bucket`: the whole rate again once `per` has passed since the first request; `fixed_window`: windows aligned to multiples of `per`; `sliding_log`: exact over any span of `per`'
    }),
    sliding_log_counts_refused: Flag('Sliding log: refused requests count too', false),
    enable_rate_limit_smoothing: Flag('Smoothing, in every algorithm', true),
    rate_limit_response_headers: Type.Enum(['quotas', 'rate_limits'], {
      default: 'quotas',
      description: 'What `X-RateLimit-*` tells'
    }),
    rate_limit_ietf_headers: Flag('Also the fields `RateLimit` and `RateLimit-Policy` of the IETF draft', false),
    rate_limit_mode: Type.Enum(rateLimitModes, { default: 'exact', description: rateLimitModeText }),
    counters_failure: Type.Enum(countersFailures, { default: 'local', description: countersFailureText }),
    counters_timeout_ms: Type.Integer({
      minimum: 1,
      maximum: 10_000,
      default: 50,
      unit: 'ms',
      description: 'Longest wait of a request for Redis'
    }),
    workers: Type.Integer({
      minimum: 0,
      maximum: 256,
      default: 1,
      description:
        'Threads that serve the data plane; 0: one a core. 1: the main thread serves it itself; above, it keeps management, writing and streams'
    }),
    endpoint_matching: Type.Enum(['exact', 'prefix', 'contains'], {
      default: 'exact',
      description: 'How paths of operations and keys match the path behind the listen path'
    }),
    trusted_proxies: Type.Array(Type.String(), {
      default: [],
      description: 'CIDRs whose `X-Forwarded-*` and `Forwarded` are believed'
    }),
    ca_file: Text('PEM file of more authorities that are trusted for outgoing TLS, beside the usual ones'),
    proxy_enable_http2: Flag('HTTP/2 to https upstreams that speak it', false),
    enable_token_certificate_binding: Flag(
      'Keys with `mtls_static_certificate_bindings` count only on connections with one of these client certificates',
      false
    ),
    jwks: Type.Object(
      {
        cache: Type.Object(
          { timeout: Seconds('How long a fetched JWKS counts where the API says nothing else', 240) },
          { ...strict, default: {} }
        )
      },
      { ...strict, default: {} }
    ),
    upstream_client: Type.Enum(['direct', 'undici'], {
      default: 'direct',
      description: 'Who speaks to upstreams: `direct` (our own, leaner and stricter) or `undici`'
    }),
    proxy_default_timeout: Type.Number({
      minimum: 0.001,
      maximum: 2_000_000,
      default: 30,
      unit: 's',
      description: 'Longest wait for the head of an upstream answer'
    }),
    proxy_connect_timeout: Type.Number({
      minimum: 0.001,
      maximum: 3600,
      default: 5,
      unit: 's',
      description: 'Longest wait for a connection to an upstream'
    }),
    graceful_shutdown_timeout_duration: Seconds('Longest wait for requests under way when stopping', 30),
    graceful_shutdown_delay_seconds: Seconds('How long listening goes on after `/ready` has turned 503', 0),
    access_logs: Type.Object(
      {
        enabled: Flag('One JSON line a request', true),
        path: Text('File of the access log; empty: standard output')
      },
      { ...strict, default: {} }
    ),
    http_server_options: Type.Object(
      {
        max_request_body_size: Type.Integer({
          minimum: 0,
          maximum: Number.MAX_SAFE_INTEGER,
          default: 0,
          unit: 'bytes',
          description: 'Longest request body, counted where it flows; 0: no bound'
        }),
        xff_depth: Type.Integer({
          minimum: 0,
          maximum: 100,
          default: 0,
          description: '`X-Forwarded-For` from a trusted proxy: 0 the first address, n the n-th from the right'
        }),
        read_timeout: Seconds(
          'Longest wait for a request head, and the span in which a body must bring at least 240 bytes a second',
          120
        ),
        write_timeout: Seconds(
          'Longest time in which a client takes nothing of an answer that waits for it; 0: no bound',
          120
        ),
        use_ssl: Flag('The data plane listens with TLS; needs `ssl_certificates`', false),
        ssl_certificates: Type.Array(Type.String({ minLength: 1, maxLength: 1024 }), {
          default: [],
          description:
            'Ids of stored certificates, or PEM files, each with its private key; chosen by the name that a client asks for, the first where none fits'
        }),
        min_version: Type.Enum(['1.2', '1.3'], { default: '1.2', description: 'Oldest version of TLS' }),
        enable_http2: Flag('HTTP/2 for clients that speak it, with TLS', true)
      },
      { ...strict, default: {} }
    ),
    security: Type.Object(
      {
        private_certificate_encoding_secret: Type.String({
          default: '',
          secret: true,
          description: 'Encrypts private keys and access keys of users in the store; none: as `gateway.secret`'
        }),
        previous_private_certificate_encoding_secrets: Type.Array(Type.String({ secret: true }), {
          default: [],
          description:
            'Earlier values of it: what lies sealed under one of them is sealed anew at start. `gateway.secret` counts among them'
        }),
        allow_unsafe_dynamic_mtls_token: Flag(
          'APIs that take client certificates take a token without a certificate as well',
          false
        ),
        certificates: Type.Object(
          {
            upstream: Type.Record(Type.String(), Type.String({ minLength: 1, maxLength: 1024 }), {
              default: {},
              description:
                'Client certificates for upstreams, by host, `host:port`, `*.domain` or `*`: ids or PEM files; those of an API go before'
            })
          },
          { ...strict, default: {} }
        ),
        pinned_public_keys: Type.Record(Type.String(), Type.String({ minLength: 1, maxLength: 8192 }), {
          default: {},
          description:
            'Public keys of upstreams, by host, `host:port`, `*.domain` or `*`: ids or `sha256/…`, parted by commas; those of an API go before'
        }),
        certificate_expiry_monitor: Type.Object(
          {
            warning_threshold_days: Type.Integer({
              minimum: 1,
              maximum: 36_500,
              default: 30,
              unit: 'days',
              description: 'From when on a certificate is about to expire'
            }),
            check_cooldown_seconds: Seconds(
              'A certificate is looked at once in this time; 0: the default',
              CHECK_COOLDOWN
            ),
            event_cooldown_seconds: Seconds(
              'The same event of a certificate comes once in this time; 0: the default',
              EVENT_COOLDOWN
            )
          },
          { ...strict, default: {} }
        )
      },
      { ...strict, default: {} }
    ),
    streaming: Streaming
  },
  { ...strict, default: {} }
)

export const Management = Type.Object(
  {
    enabled: Flag('The management interface; false: a data plane alone, `/svc` included', true),
    listen_address: Text('Address of `/api`, `/admin`, `/certs`, `/portal-api` and `/docs`', '127.0.0.1'),
    listen_port: Port('Port of the management interface; 0: any free one', 3000),
    admin_secret: Type.String({
      default: '',
      secret: true,
      description: 'Value of `Admin-Auth`; none: as `gateway.secret`'
    }),
    max_body_size: Type.Integer({
      minimum: 1024,
      maximum: 1_000_000_000,
      default: 10_000_000,
      unit: 'bytes',
      description: 'Longest body of a management or `/svc` call'
    }),
    page_size: Type.Integer({ minimum: 1, maximum: 10_000, default: 10, description: 'Members of one page of a list' }),
    failed_credentials_per_minute: Type.Integer({
      minimum: 0,
      maximum: 1_000_000,
      default: 10,
      description: 'Wrong credentials of one client address in a minute; further ones are answered 429. 0: no bound'
    }),
    escape_dots_in_oas_paths: Flag('Dots in paths of OpenAPI documents lie escaped (`\\u002e`) in the store', false),
    import_private_networks: Type.Array(Type.String(), {
      default: [],
      description: 'CIDRs that imports by URL may fetch from, beside public addresses'
    }),
    audit: Type.Object(
      {
        enabled: Flag('One record for each writing call', true),
        store_type: Type.Enum(['db', 'file'], {
          default: 'db',
          description: 'Where records go: `db` the store, `file` a file of lines'
        }),
        path: Text('File of the records, with `file`'),
        format: Type.Enum(['text', 'json'], { default: 'text', description: 'Lines of that file' }),
        detailed_recording: Flag('Records hold request and answer too, secrets masked', false),
        retention_days: Type.Integer({
          minimum: 1,
          maximum: 36_500,
          default: 90,
          unit: 'days',
          description: 'How long records are kept in the store'
        })
      },
      { ...strict, default: {} }
    ),
    notifications: Type.Object(
      {
        certificate_expiry_monitor: Type.Object(
          {
            warning_threshold_days: Type.Integer({
              minimum: 1,
              maximum: 36_500,
              default: 30,
              unit: 'days',
              description: 'From when on `/api/org/notifications` and lists show that a certificate is about to expire'
            })
          },
          { ...strict, default: {} }
        )
      },
      { ...strict, default: {} }
    ),
    streaming: Type.Object({ enabled }, { ...strict, default: {} })
  },
  { ...strict, default: {} }
)

export const Storage = Type.Object(
  {
    documents: Type.Object(
      {
        type: Type.Enum(['sqlite', 'memory', 'postgres'], { default: 'sqlite', description: 'Where documents lie' }),
        path: Text('File of the SQLite store', 'data/svc.db'),
        url: Type.String({
          default: '',
          secret: true,
          description: 'Address of the PostgreSQL database (13 to 17), `postgres://user:password@host:port/database`'
        }),
        pool_size: Type.Integer({
          minimum: 2,
          maximum: 200,
          default: 10,
          description: 'Most connections to PostgreSQL'
        }),
        max_stale: Seconds(
          'How long keys and management users in memory are believed while no changes of other processes can be heard; then they are asked of their store again (503 while it is away). APIs and policies stay. 0: for ever',
          600
        )
      },
      { ...strict, default: {} }
    ),
    counters: Type.Object(
      {
        type: Type.Enum(['memory', 'redis'], { default: 'memory', description: 'Where limits are counted' }),
        url: Type.String({
          default: '',
          secret: true,
          description:
            'Address of Redis (5 to 7) or Valkey, `redis://user:password@host:port/database`; `rediss://` with TLS'
        }),
        nodes: Type.Array(Type.String({ secret: true }), {
          default: [],
          description: 'Some nodes of a Redis Cluster, each an address as in `url`, which is not needed then'
        }),
        ca_file: Text('PEM file with the authorities that sign the certificate of Redis; empty: the usual ones'),
        key_prefix: Type.String({
          default: 'svc',
          pattern: '^[a-zA-Z0-9._-]{1,64}$',
          description: 'Begins every name in Redis: installations with different ones can share a server'
        }),
        max_entries: Type.Integer({
          minimum: 1024,
          maximum: 100_000_000,
          default: 4_000_000,
          description: 'Most counters in memory; the least used leave'
        })
      },
      { ...strict, default: {} }
    ),
    keys: Type.Enum(['documents', 'redis'], {
      default: 'documents',
      description: 'Where keys lie: with the other documents, or in the Redis of `counters`'
    })
  },
  { ...strict, default: {} }
)

export const Settings = Type.Object(
  {
    $schema: Type.Optional(Type.String({ description: 'For editors: where `docs/settings.schema.json` lies' })),
    gateway: Gateway,
    management: Management,
    storage: Storage
  },
  strict
)
export type Settings = Static<typeof Settings>
export type GatewaySettings = Static<typeof Gateway>
