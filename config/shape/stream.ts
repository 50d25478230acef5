import Type, { type Static, type TProperties, type TSchema } from 'typebox'

/**
 * The extension `x-svc-streaming` of an OpenAPI document: options of each kind of connector. Strict: what is not here is
 * refused. `streams/document/readStreaming.ts` walks a document with them. Texts may hold variables.
 */

const strict = { additionalProperties: false } as const
const options = <P extends TProperties>(members: P, description?: string) =>
  Type.Object(members, { ...strict, ...(description === undefined ? {} : { description }) })
const Text = (description: string) => Type.Optional(Type.String({ maxLength: 8192, description }))
const Flag = (description: string) => Type.Optional(Type.Boolean({ description }))
const Count = (description: string, minimum = 0) =>
  Type.Optional(Type.Integer({ minimum, maximum: Number.MAX_SAFE_INTEGER, description }))
const Texts = (description: string, minItems = 0) =>
  Type.Array(Type.String({ minLength: 1, maxLength: 2048 }), { minItems, maxItems: 1000, description })
const TextMap = (description: string) =>
  Type.Optional(Type.Record(Type.String(), Type.String({ maxLength: 8192 }), { description }))
const One = <const V extends string>(values: readonly V[], description: string) =>
  Type.Optional(Type.Enum([...values], { description }))
const Duration = (description: string) =>
  Type.Optional(
    Type.String({ pattern: '^(\\d{1,9}(\\.\\d{1,9})?(ns|us|µs|ms|s|m|h)){0,6}$', description, example: '1m30s' })
  )
const Bytes = (description: string) =>
  Type.Optional(
    Type.Union(
      [
        Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
        Type.String({ pattern: '^\\d{1,12} ?([kKMG]i?)?B?$', example: '8MiB' })
      ],
      { description }
    )
  )
const Url = Type.String({ minLength: 1, maxLength: 2048, description: 'Address; may hold variables' })
const Path = (description: string) =>
  Type.Optional(Type.String({ pattern: '^(/.*)?$', maxLength: 1024, description: `${description}; empty: none` }))
/** Would open a second listener, past every credential. */
const NoListener = Type.Optional(
  Type.String({ maxLength: 0, description: 'Always empty: streams are served by the gateway’s own listener' })
)
const Origins = Type.Optional(
  Texts('Origins whose pages may open WebSockets; none: the gateway’s own alone, or any that sends no cookie')
)
const Verbs = Type.Optional(
  Type.Array(Type.String({ pattern: '^[A-Z]{1,32}$' }), { minItems: 1, maxItems: 20, description: 'Methods of `path`' })
)
/** A list of processors or a schema that others define: looked at apart. */
const Free = (description: string) => Type.Optional(Type.Unknown({ description }))

const tls = Type.Optional(
  options({
    enabled: Flag('TLS'),
    skip_cert_verify: Flag('Any certificate is believed'),
    root_cas: Text('Authorities, PEM'),
    client_certs: Type.Optional(
      Type.Array(options({ cert: Text('PEM'), key: Text('PEM'), password: Text('Of the key') }), { maxItems: 10 })
    )
  })
)
const sasl = Type.Optional(
  options({
    mechanism: One(['none', 'PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512', 'OAUTHBEARER'], 'How the client names itself'),
    user: Text('User name'),
    password: Text('Password'),
    access_token: Text('Of OAUTHBEARER')
  })
)
const mode = One(
  ['group', 'broadcast', 'key'],
  'Who gets a message: one client in turn, every client, or one by its key'
)
const retries = {
  retry_period: Duration('Wait before the next try'),
  max_retry_backoff: Duration('Longest such wait'),
  retries: Count('Most tries'),
  backoff_on: Type.Optional(Type.Array(Type.Integer({ minimum: 100, maximum: 599 }), { maxItems: 100 })),
  drop_on: Type.Optional(Type.Array(Type.Integer({ minimum: 100, maximum: 599 }), { maxItems: 100 })),
  successful_on: Type.Optional(Type.Array(Type.Integer({ minimum: 100, maximum: 599 }), { maxItems: 100 }))
}
const client = {
  url: Url,
  verb: Text('Method'),
  headers: TextMap('Request headers'),
  timeout: Duration('Longest wait for an answer'),
  ...retries,
  tls
}
const kafka = {
  addresses: Texts('host:port, or `memory://NAME` for an embedded broker; an item may hold several with commas', 1),
  target_version: Type.Optional(
    Type.String({
      pattern: '^\\d{1,5}(\\.\\d{1,5}){0,3}$',
      description: 'Kept for documents that have it: versions are negotiated',
      example: '2.1.0'
    })
  ),
  client_id: Text('Name of the client'),
  tls,
  sasl
}
const websocket = options(
  {
    url: Url,
    open_message: Text('Sent when the connection is open'),
    open_message_type: One(['binary', 'text'], 'Of that message'),
    max_message_size: Count('Longest message, bytes; 0: no bound'),
    headers: TextMap('Of the handshake'),
    tls
  },
  'A WebSocket server elsewhere'
)

export const HttpServerInput = options(
  {
    address: NoListener,
    cert_file: NoListener,
    key_file: NoListener,
    path: Path('A request is a message'),
    ws_path: Path('WebSocket: a frame is a message'),
    ws_welcome_message: Text('Sent on opening'),
    allowed_origins: Origins,
    allowed_verbs: Verbs,
    content_types: Type.Optional(Texts('Types of bodies that are taken; others 415. None: all')),
    timeout: Duration('Longest wait until a message is delivered'),
    sync_response: Type.Optional(
      options({ status: Text('Status of the answer, 200 to 299'), headers: TextMap('Headers of the answer') })
    ),
    async: Flag('Answers 202 before the message is delivered'),
    key: Text('Key of the message'),
    headers: Type.Optional(
      options(
        { allow: Type.Optional(Texts('Names that go along')), deny: Type.Optional(Texts('Names that do not')) },
        'Request headers that become headers of the message'
      )
    ),
    return: One(['none', 'record'], 'What the client is answered'),
    idempotency_header: Text('Name of the header by which repeats are known; empty: none'),
    max_body: Bytes('Longest body, and longest frame; above it 413')
  },
  'Messages come by HTTP'
)
export type HttpServerInput = Static<typeof HttpServerInput>

export const HttpServerOutput = options(
  {
    address: NoListener,
    cert_file: NoListener,
    key_file: NoListener,
    path: Path('A request gets one message'),
    stream_path: Path('An endless answer'),
    ws_path: Path('WebSocket'),
    stream_format: One(['raw_bytes', 'event_source'], 'Of the endless answer'),
    heartbeat: Duration('Wait before a sign of life; 0: none'),
    ws_message_type: One(['binary', 'text'], 'Of frames'),
    allowed_verbs: Verbs,
    timeout: Duration('Longest wait for a message at `path`'),
    write_wait: Duration('Longest time in which a client takes nothing'),
    pong_wait: Duration('Longest silence of a WebSocket client'),
    ping_period: Duration('Wait between pings'),
    allowed_origins: Origins,
    mode,
    start: One(['committed', 'latest', 'earliest'], 'Where a new client begins, or a new group'),
    resume: Flag('Clients go on where they were'),
    allow_seek: Flag('Clients may begin where they want: `from`, and cursors of their own'),
    replay_window: Type.Optional(
      options({ messages: Count('Messages'), bytes: Bytes('Bytes'), age: Duration('Age') }, 'What is kept for resuming')
    ),
    id_interval: Count('With more than 8 partitions, one event in so many carries an id', 1),
    event_from: Text('none, topic, key or header:NAME'),
    envelope: Flag('Messages come with their metadata'),
    payload: One(['base64', 'drop', 'error'], 'What becomes of binary payloads where only text goes'),
    headers: Type.Optional(Texts('Headers of messages that clients see in envelopes; none: none')),
    ack: One(['write', 'client'], 'When a message counts as delivered'),
    ack_timeout: Duration('Longest wait for an acknowledgement'),
    max_deliveries: Count('Most deliveries of one message', 1),
    dead_letter_topic: Text('Where messages go after that; empty: they are dropped'),
    count: One(['connection', 'message', 'byte'], 'What the quota of a key counts'),
    client_queue: Type.Optional(
      options({
        messages: Count('Messages'),
        bytes: Bytes('Bytes'),
        policy: One(['disconnect', 'drop_oldest', 'latest_by_key'], 'When it is full')
      })
    ),
    max_clients: Count('Most clients at once'),
    max_connection_age: Duration('Longest life of a connection; 0: no bound'),
    retry: Count('Milliseconds that event sources wait before they come again'),
    filter: Type.Optional(
      options({
        key: Text('Only messages of this key'),
        headers: TextMap('Only messages with these headers'),
        check: Text('Only messages for which this expression (CEL) holds')
      })
    ),
    require_broker: Flag('New clients are refused while the broker is away')
  },
  'Messages go out by HTTP'
)
export type HttpServerOutput = Static<typeof HttpServerOutput>

export const KafkaInput = options(
  {
    ...kafka,
    topics: Texts('Topics; an item may hold several with commas', 1),
    consumer_group: Text('Group; empty: none'),
    start_from_oldest: Flag('A new group begins with the oldest record'),
    checkpoint_limit: Count('Messages under way of one partition', 1),
    auto_replay_nacks: Flag('What was not delivered is tried again'),
    commit_period: Duration('Wait between commits'),
    transaction_isolation_level: One(['read_uncommitted', 'read_committed'], 'Which records are seen'),
    group: Type.Optional(
      options({
        session_timeout: Duration('Silence after which a member is gone'),
        heartbeat_interval: Duration('Wait between signs of life'),
        rebalance_timeout: Duration('Longest rebalance')
      })
    ),
    rack_id: Text('Rack of the client: it reads from the replica there'),
    fetch_buffer_cap: Count('Records held of one partition', 1)
  },
  'Messages come from Kafka'
)
export type KafkaInput = Static<typeof KafkaInput>

export const KafkaOutput = options(
  {
    ...kafka,
    topic: Type.String({ minLength: 1, maxLength: 2048, description: 'Topic' }),
    key: Text('Key of records; empty: none'),
    partitioner: One(['fnv1a_hash', 'murmur2_hash', 'random', 'round_robin', 'manual'], 'Which partition'),
    partition: Text('With `manual`'),
    compression: One(['none', 'snappy', 'lz4', 'gzip', 'zstd'], 'Of records'),
    static_headers: TextMap('Headers of every record; may hold variables'),
    metadata: Type.Optional(options({ exclude_prefixes: Type.Optional(Texts('Prefixes')) })),
    max_in_flight: Count('Messages under way; above it 503', 1),
    ack_replicas: Flag('Every replica in sync has it'),
    idempotent_write: Flag('The broker drops repeats'),
    max_msg_bytes: Bytes('Longest record'),
    batching: Type.Optional(
      options({
        count: Count('Messages after which a batch goes; 0: no bound'),
        byte_size: Count('Bytes after which it goes; 0: no bound'),
        period: Duration('Longest wait for more; empty: batches only form while the broker is busy')
      })
    ),
    timeout: Duration('Longest wait for the broker'),
    custom_topic_creation: Type.Optional(
      options({
        enabled: Flag('A topic that is missing is created at start'),
        partitions: Count('Partitions; -1: the broker’s default', -1),
        replication_factor: Count('Replicas; -1: the broker’s default', -1)
      })
    )
  },
  'Messages go to Kafka'
)
export type KafkaOutput = Static<typeof KafkaOutput>

export const HttpClientInput = options(
  {
    ...client,
    payload: Text('Body of requests'),
    drop_empty_bodies: Flag('Empty answers are no messages'),
    stream: Type.Optional(
      options({
        enabled: Flag('The answer is endless'),
        reconnect: Flag('Comes again when it ends'),
        codec: One(['lines', 'all-bytes'], 'What parts messages'),
        max_buffer: Bytes('Longest message')
      })
    )
  },
  'Messages are fetched by HTTP'
)

export const HttpClientOutput = options(
  {
    ...client,
    max_in_flight: Count('Requests under way; above it 503', 1)
  },
  'Messages are sent by HTTP'
)

/** Members of `inputs` and `outputs` are connectors again. */
const connectors = (description: string) => Type.Array(Type.Unknown(), { minItems: 1, maxItems: 100, description })

export const BrokerInput = options({ copies: Count('Copies of each', 1), inputs: connectors('Connectors') })
export const BrokerOutput = options({
  copies: Count('Copies of each', 1),
  pattern: One(
    ['fan_out', 'fan_out_fail_fast', 'fan_out_sequential', 'fan_out_sequential_fail_fast', 'round_robin', 'greedy'],
    'Who gets a message'
  ),
  outputs: connectors('Connectors')
})

/** Every kind of connector, by side and name. */
export const connectorKinds: Readonly<Record<'input' | 'output', Readonly<Record<string, TSchema>>>> = {
  input: {
    http_server: HttpServerInput,
    http_client: HttpClientInput,
    kafka: KafkaInput,
    websocket,
    broker: BrokerInput
  },
  output: {
    http_server: HttpServerOutput,
    http_client: HttpClientOutput,
    kafka: KafkaOutput,
    websocket,
    broker: BrokerOutput
  }
}

/** What processors there are; each reads its own options. */
export const processorKinds: readonly string[] = ['json_schema', 'filter', 'map']

/** Kinds that reach files, processes or sockets of the machine (semantics §8.8): never. */
export const unsafeKinds: readonly string[] = [
  'csv',
  'dynamic',
  'file',
  'inproc',
  'socket',
  'socket_server',
  'stdin',
  'subprocess',
  'command',
  'wasm'
]

/** Members of a stream; its connectors and processors are looked at apart. */
export const Stream = options({
  input: Type.Object({}, { description: 'One connector: how data comes in' }),
  output: Type.Object({}, { description: 'One connector: where data goes' }),
  pipeline: Type.Optional(
    options({
      threads: Type.Optional(
        Type.Enum([-1, 1], { description: 'Either way one message after the other: they keep their order' })
      ),
      processors: Free('Run over every message')
    })
  )
})

export const Streaming = Type.Object(
  {
    // Without `additionalProperties` a name that is blank would be looked at by nobody.
    streams: Type.Record(Type.String({ pattern: '\\S' }), Stream, {
      ...strict,
      minProperties: 1,
      maxProperties: 1000,
      description: 'By a name that is unique in the API'
    })
  },
  { ...strict, title: 'x-svc-streaming' }
)
export type Streaming = Static<typeof Streaming>
