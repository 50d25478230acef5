import t from 'tap'
import { parseYaml, toYaml } from '../../config/yaml.ts'
import { certificate } from '../helpers/certificates.ts'
import { api, gateway, rights, withKey } from '../helpers/gateway.ts'

const PATH = '/api/apis/streams'
const MEDIA_TYPE = 'application/vnd.svc.streams.oas'
const EXTENSION = 'x-svc-streaming'

const on = { gateway: { streaming: { enabled: true } }, management: { streaming: { enabled: true } } }
const input = { http_server: { path: '/in', timeout: '1s' } }
const output = { kafka: { addresses: ['127.0.0.1:9092'], topic: 'orders' } }

const kafkaWith = (key: string) => ({ output: { kafka: { ...output.kafka, key } } })

/** A streaming API without upstream. */
function feed(id: string, streams: unknown = { orders: { input, output } }, server: object = {}): Record<string, any> {
  return { ...api(id, '', { upstream: { url: '' }, server }), [EXTENSION]: { streams } }
}

t.test('a streaming API is created, read, changed and deleted', async t => {
  const gw = await gateway(t, { settings: on })
  const headers = { 'Content-Type': MEDIA_TYPE }
  const made = await gw.api('POST', PATH, feed('a'), { headers })
  t.match(made, { status: 200, body: { Status: 'OK', Message: 'API created', Meta: /^[0-9a-f]{24}$/, ID: 'a' } })
  t.equal(made.headers.get('etag'), '"1"')
  t.same((await gw.api('GET', `${PATH}/a`)).body[EXTENSION], feed('a')[EXTENSION])
  const yaml = await gw.api('GET', `${PATH}/a`, undefined, { headers: { Accept: 'application/yaml' } })
  t.same((parseYaml(yaml.body) as any)[EXTENSION], feed('a')[EXTENSION])
  const put = await gw.api('PUT', `${PATH}/a`, toYaml(feed('a')), { headers: { 'Content-Type': 'application/yaml' } })
  t.match(put, { status: 200, body: { Message: 'API updated.', ID: 'a' } })
  const patch = { info: { title: 'patched' }, [EXTENSION]: { streams: { more: { input, output }, orders: null } } }
  const patched = await gw.api('PATCH', `${PATH}/a`, patch, { headers: { 'If-Match': '"2"' } })
  t.match(patched, { status: 200, body: { Message: 'API updated.' } })
  t.equal(patched.headers.get('etag'), '"3"')
  t.match(await gw.api('PATCH', `${PATH}/a`, patch, { headers: { 'If-Match': '"2"' } }), { status: 412 })
  t.match((await gw.api('GET', `${PATH}/a`)).body, {
    info: { title: 'patched', version: '1' },
    [EXTENSION]: { streams: { more: { input, output }, orders: undefined } }
  })
  t.match((await gw.api('GET', `${PATH}/a/revisions`)).body.revisions, [{ summary: 'patched' }, {}, {}])
  t.match(await gw.api('DELETE', `${PATH}/a`), { status: 200, body: { Message: 'API deleted.' } })
  t.equal((await gw.api('GET', `${PATH}/a`)).status, 404)
})

t.test('patches at the same time lose nothing', async t => {
  const gw = await gateway(t, { settings: on })
  await gw.api('POST', PATH, feed('a'))
  const names = Array.from({ length: 20 }, (_, i) => `s${i}`)
  const patches = names.map(name =>
    gw.api('PATCH', `${PATH}/a`, {
      [EXTENSION]: { streams: { [name]: { input: { http_server: { path: `/${name}` } }, output } } }
    })
  )
  for (const { status } of await Promise.all(patches)) t.equal(status, 200)
  const { streams } = (await gw.api('GET', `${PATH}/a`)).body[EXTENSION]
  t.same(Object.keys(streams).sort(), [...names, 'orders'].sort())
})

t.test('while streaming is off in a section, no streaming API is saved, and the option is named', async t => {
  for (const [sections, text] of [
    [{}, 'gateway.streaming.enabled and management.streaming.enabled'],
    [{ gateway: { streaming: { enabled: true } } }, 'off: management.streaming.enabled'],
    [{ management: { streaming: { enabled: true } } }, 'off: gateway.streaming.enabled']
  ] as const) {
    const gw = await gateway(t, { settings: sections })
    const made = await gw.api('POST', PATH, feed('a'))
    t.equal(made.status, 403)
    t.ok(made.body.Message.includes(text), made.body.Message)
    t.match(await gw.svc('POST', '/svc/apis/oas', feed('a')), { status: 403, body: { status: 'error' } })
    t.same((await gw.api('GET', PATH)).body, { apis: [], pages: 0 })
  }
})

t.test('each kind of document has its own endpoints, and lists tell them apart', async t => {
  const gw = await gateway(t, { settings: on })
  t.equal((await gw.api('POST', '/api/apis/oas', api('plain', 'svc://echo'))).status, 200)
  t.equal((await gw.api('POST', PATH, feed('stream'))).status, 200)
  const cases: [method: string, path: string, body: unknown, status: number, message: RegExp][] = [
    ['POST', '/api/apis/oas', feed('b'), 400, /\/api\/apis\/streams/],
    ['POST', PATH, api('b', 'svc://echo'), 400, /should contain x-svc-streaming/],
    ['POST', PATH, { ...feed('b'), 'x-svc-api-gateway': undefined }, 400, /should contain x-svc-api-gateway/],
    ['POST', PATH, '[]', 400, /^Couldn't read body\.$/],
    ['PATCH', `${PATH}/stream`, '7', 400, /^Couldn't read body\.$/],
    ['PATCH', `${PATH}/stream`, { [EXTENSION]: null }, 400, /should contain x-svc-streaming/],
    ['PATCH', `${PATH}/none`, {}, 404, /does not exist/],
    ['POST', PATH, feed('stream'), 409, /^Found API with the same ID$/],
    ['PUT', `${PATH}/stream`, api('stream', 'svc://echo'), 400, /should contain x-svc-streaming/],
    ['PUT', '/api/apis/oas/plain', feed('plain'), 400, /\/api\/apis\/streams/],
    ['GET', '/api/apis/oas/stream', undefined, 404, /\/api\/apis\/streams\/stream/],
    ['DELETE', '/api/apis/oas/stream', undefined, 404, /\/api\/apis\/streams\/stream/],
    ['GET', `${PATH}/plain`, undefined, 404, /\/api\/apis\/oas\/plain/]
  ]
  for (const [method, path, body, status, Message] of cases)
    t.match(await gw.api(method, path, body), { status, body: { Status: 'Error', Message } }, `${method} ${path}`)
  const ids = async (path: string) =>
    (await gw.api('GET', path)).body.apis.map((each: any) => each.id ?? each['x-svc-api-gateway'].info.id)
  t.same(await ids('/api/apis'), ['stream', 'plain'])
  t.same(await ids('/api/apis?api_type=streams'), ['stream'])
  t.same(await ids('/api/apis?api_type=oas'), ['plain'])
  t.same(await ids(PATH), ['stream'])
  t.same(await ids('/api/apis/oas'), ['plain'])
})

t.test('streaming APIs of another organisation are neither seen nor touched', async t => {
  const gw = await gateway(t, { settings: on })
  const key = await gw.user({ org_id: 'other', user_permissions: { IsAdmin: 'admin' } })
  await gw.api('POST', PATH, feed('a'))
  for (const [method, body] of [['GET'], ['PUT', feed('a')], ['PATCH', {}], ['DELETE']] as const)
    t.equal((await gw.api(method, `${PATH}/a`, body, { key })).status, 404, method)
  t.equal((await gw.api('POST', PATH, feed('b'), { key: null })).status, 401)
})

t.test('what stands in x-svc-streaming is known, whole and safe, or refused where it stands', async t => {
  const gw = await gateway(t, { settings: on })
  const one = (given: object) => ({ s: { input, output, ...given } })
  const deep = (depth: number): object => (depth === 0 ? output : { broker: { outputs: [deep(depth - 1)] } })
  const unsafe = [
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
  const cases: [streaming: unknown, pointer: string | null, message?: RegExp][] = [
    [{}, '/streams'],
    [null, ''],
    [[], ''],
    [{ streams: {} }, '/streams'],
    [{ streams: [] }, '/streams'],
    [{ streams: { s: null } }, '/streams/s'],
    [{ streams: one({}), surprise: 1 }, '/surprise', /not known/],
    [{ streams: { s: { output } } }, '/streams/s/input', /required/],
    [{ streams: { s: { input } } }, '/streams/s/output', /required/],
    [{ streams: one({ surprise: 1 }) }, '/streams/s/surprise'],
    [{ streams: one({ input: {} }) }, '/streams/s/input', /must name one input/],
    [
      { streams: one({ input: { ...input, kafka: { addresses: ['a'], topics: ['t'] } } }) },
      '/streams/s/input',
      /not 2/
    ],
    [{ streams: one({ input: { nats: {} } }) }, '/streams/s/input/nats', /no known input/],
    [{ streams: one({ output: { 'a/b~': {} } }) }, '/streams/s/output/a~1b~0', /no known output/],
    ...unsafe.flatMap(kind => [
      [{ streams: one({ input: { [kind]: {} } }) }, `/streams/s/input/${kind}`, /unsafe/] as [unknown, string, RegExp],
      [{ streams: one({ output: { [kind]: {} } }) }, `/streams/s/output/${kind}`, /unsafe/] as [unknown, string, RegExp]
    ]),
    [
      { streams: one({ pipeline: { processors: [{ filter: 'true' }, { subprocess: {} }] } }) },
      '/streams/s/pipeline/processors/1/subprocess',
      /unsafe/
    ],
    [
      { streams: one({ input: { ...input, processors: [{ command: {} }] } }) },
      '/streams/s/input/processors/0/command',
      /unsafe/
    ],
    [
      { streams: one({ output: { broker: { outputs: [output, { file: {} }] } } }) },
      '/streams/s/output/broker/outputs/1/file',
      /unsafe/
    ],
    [{ streams: one({ output: { broker: { outputs: [] } } }) }, '/streams/s/output/broker/outputs'],
    [{ streams: one({ output: { broker: { inputs: [input] } } }) }, '/streams/s/output/broker/inputs', /not known/],
    [{ streams: one({ output: deep(12) }) }, `/streams/s/output${'/broker/outputs/0'.repeat(10)}/broker`, /deeper/],
    [{ streams: one({ input: { kafka: { topics: ['t'] } } }) }, '/streams/s/input/kafka/addresses', /required/],
    [{ streams: one({ input: { kafka: { addresses: ['a'] } } }) }, '/streams/s/input/kafka/topics', /required/],
    [{ streams: one({ output: { kafka: { addresses: ['a'] } } }) }, '/streams/s/output/kafka/topic', /required/],
    [{ streams: one({ output: { kafka: { ...output.kafka, surprise: 1 } } }) }, '/streams/s/output/kafka/surprise'],
    [{ streams: one({ output: { kafka: { ...output.kafka, addresses: [] } } }) }, '/streams/s/output/kafka/addresses'],
    [{ streams: one({ input: { http_server: { path: 'in' } } }) }, '/streams/s/input/http_server/path'],
    [{ streams: one({ input: { http_server: { timeout: 'soon' } } }) }, '/streams/s/input/http_server/timeout'],
    [{ streams: one({ input: { http_server: { address: ':80' } } }) }, '/streams/s/input/http_server/address'],
    [{ streams: one({ output: { http_client: {} } }) }, '/streams/s/output/http_client/url', /required/],
    [{ streams: one({ input: { websocket: {} } }) }, '/streams/s/input/websocket/url', /required/],
    [{ streams: one({ output: { http_server: {} } }) }, null],
    [{ streams: one({ input: { http_client: { url: 'http://a.example', verb: 'GET' } } }) }, null],
    [{ streams: one({ input: { websocket: { url: 'ws://a.example' }, label: 'in' } }) }, null],
    [{ streams: one({ output: deep(10) }) }, null],
    [
      { streams: one({ pipeline: { processors: [{ bloblang: 'root = this' }] } }) },
      '/streams/s/pipeline/processors/0/bloblang',
      /there are/
    ],
    [{ streams: one({ pipeline: { threads: -1, processors: [{ filter: 'value.id > 1', label: 'x' }] } }) }, null],
    [
      { streams: one({ pipeline: { processors: [{ filter: 'value.id >' }] } }) },
      '/streams/s/pipeline/processors/0/filter'
    ],
    // Two endpoints that would take one request.
    [{ streams: { a: { input, output }, b: { input, output } } }, '/streams/b/input', /POST \/in .* stream a$/],
    [
      { streams: { a: { input: { http_server: {} }, output }, b: { input: { http_server: {} }, output } } },
      '/streams/b/input'
    ],
    [
      { streams: one({ output: { http_server: { path: '/x', stream_path: '/x' } } }) },
      '/streams/s/output',
      /this stream/
    ],
    [{ streams: one({ output: { http_server: { path: '/{a}/y', ws_path: '/{b}/y' } } }) }, '/streams/s/output'],
    [{ streams: one({ output: { http_server: { path: '/in', ws_path: '' } } }) }, null],
    [{ streams: { a: { input: { http_server: { path: '/{id}' } }, output }, b: { input, output } } }, null],
    // Rules that no shape can tell.
    [
      { streams: one({ input: { http_server: { path: '', ws_path: '' } } }) },
      '/streams/s/input/http_server',
      /no path/
    ],
    [{ streams: one({ input: { http_server: { path: '/a/../b' } } }) }, '/streams/s/input/http_server/path'],
    [{ streams: one({ input: { http_server: { path: '/{a}/{a}' } } }) }, '/streams/s/input/http_server/path', /twice/],
    [
      { streams: one({ input: { http_server: { path: '/a', timeout: '0s' } } }) },
      '/streams/s/input/http_server/timeout'
    ],
    [
      { streams: one({ input: { http_server: { path: '/a', sync_response: { status: '500' } } } }) },
      '/streams/s/input/http_server/sync_response/status'
    ],
    [
      {
        streams: one({ input: { http_server: { path: '/a', sync_response: { headers: { 'Content-Length': '1' } } } } })
      },
      '/streams/s/input/http_server/sync_response/headers/Content-Length'
    ],
    [
      { streams: one({ input: { http_server: { path: '/a', key: '$secret_env.HOME' } } }) },
      '/streams/s/input/http_server/key'
    ],
    [
      { streams: one({ input: { http_server: { path: '/a', async: true, return: 'record' } } }) },
      '/streams/s/input/http_server/return'
    ],
    [
      { streams: one({ output: { http_server: { ping_period: '60s' } } }) },
      '/streams/s/output/http_server/ping_period'
    ],
    [{ streams: one({ output: { http_server: { event_from: 'body' } } }) }, '/streams/s/output/http_server/event_from'],
    [
      { streams: one({ output: { http_server: { mode: 'broadcast', ack: 'client' } } }) },
      '/streams/s/output/http_server/ack'
    ],
    [
      { streams: one({ output: { http_server: { replay_window: {} } } }) },
      '/streams/s/output/http_server/replay_window'
    ],
    [
      { streams: one({ output: { http_server: { filter: { check: '1 +' } } } }) },
      '/streams/s/output/http_server/filter/check'
    ],
    [
      { streams: one({ output: { http_server: { dead_letter_topic: 'd' } } }) },
      '/streams/s/output',
      /dead_letter_topic/
    ],
    [
      { streams: one({ input: { kafka: { addresses: ['a:1'], topics: ['t'], consumer_group: '$svc_meta.user' } } }) },
      '/streams/s/input/kafka/consumer_group'
    ],
    [
      { streams: one({ input: { kafka: { addresses: ['memory://a', 'b:1'], topics: ['t'] } } }) },
      '/streams/s/input/kafka/addresses'
    ],
    [
      {
        streams: {
          in: { input: { http_server: { path: '/in', allowed_verbs: ['POST', 'PUT'], max_body: '1MB' } }, output },
          out: {
            input: {
              kafka: { addresses: ['memory://main'], topics: ['a', 'b'], consumer_group: '$svc_context.request_id' }
            },
            output: {
              http_server: {
                path: '/get',
                stream_path: '/get/stream',
                ws_path: '',
                stream_format: 'event_source',
                heartbeat: '15s',
                mode: 'broadcast',
                client_queue: { messages: 10, bytes: '1MiB', policy: 'disconnect' },
                max_connection_age: '10m'
              }
            }
          }
        }
      },
      null
    ]
  ]
  for (const [i, [streaming, pointer, message]] of cases.entries()) {
    const name = JSON.stringify(streaming).slice(0, 120)
    const answer = await gw.api('POST', PATH, { ...feed(`a${i}`), [EXTENSION]: streaming })
    t.equal(answer.status, pointer === null ? 200 : 400, `${name} ${answer.body.Message}`)
    if (pointer === null) continue
    const fault = answer.body.faults?.find((each: any) => each.pointer === `/${EXTENSION}${pointer}`)
    t.ok(fault, `${name}: ${JSON.stringify(answer.body.faults)}`)
    if (message !== undefined) t.match(fault?.message, message, name)
  }
})

t.test('what would be taken and do nothing, or harm, is refused where it stands', async t => {
  const gw = await gateway(t, { settings: on })
  const [ours, other] = [certificate(), certificate()]
  const pair = { cert: ours.pem, key: ours.keyPem }
  const kafka = (more: object) => ({ s: { input, output: { kafka: { ...output.kafka, ...more } } } })
  const client = (more: object) => ({ s: { input, output: { http_client: { url: 'https://a.example', ...more } } } })
  const socket = (more: object) => ({ s: { input, output: { websocket: { url: 'wss://a.example', ...more } } } })
  const into = (more: object) => ({ s: { input: { http_server: { path: '/in', ...more } }, output } })
  const out = (more: object) => ({
    s: {
      input: { kafka: { addresses: ['A.example:1, b.example:1'], topics: ['t, u'], consumer_group: '' } },
      output: { http_server: { stream_path: '/out/{id}', ...more } }
    }
  })
  const loop = (address: string, topic: string, from: string) => ({
    s: {
      input: { broker: { inputs: [input, { kafka: { addresses: [from], topics: ['t'] } }] } },
      output: { broker: { outputs: [{ kafka: { addresses: [address], topic } }] } }
    }
  })
  const both = (one: string, two: string, verb = 'POST') => ({
    a: { input: { http_server: { path: one } }, output },
    b: { input: { http_server: { path: two, allowed_verbs: [verb] } }, output }
  })
  const [K, C, W, I, O] = [
    '/s/output/kafka',
    '/s/output/http_client',
    '/s/output/websocket',
    '/s/input/http_server',
    '/s/output/http_server'
  ]
  const cases: [streams: object, pointer: string | null, message?: RegExp][] = [
    [{ ' ': null }, '/ ', /must not be blank/],
    [{ ' ': { input, output, buffer: 1 } }, '/ ', /must not be blank/],
    [{ '': { input, output } }, '/', /must not be blank/],
    [{ ['x'.repeat(257)]: { input, output } }, `/${'x'.repeat(257)}`, /256/],
    [{ s: { input, output, pipeline: { threads: 2 } } }, '/s/pipeline/threads'],
    [{ s: { input, output, pipeline: { threads: 1 } } }, null],
    // TLS and SASL.
    ...([[kafka, K] as const, [client, C] as const, [socket, W] as const].flatMap(([of, at]) => [
      [of({ tls: { root_cas: ours.pem, client_certs: [pair] } }), `${at}/tls`, /nothing without enabled: true/],
      [of({ tls: { enabled: false, skip_cert_verify: true } }), `${at}/tls`, /nothing without/],
      [of({ tls: { enabled: false } }), null],
      [of({ tls: { enabled: true, root_cas: ours.pem + other.pem, client_certs: [pair] } }), null],
      [of({ tls: { enabled: true, root_cas: 'x' } }), `${at}/tls/root_cas`],
      [of({ tls: { enabled: true, root_cas: ours.pem + ours.pem.slice(0, 60) } }), `${at}/tls/root_cas`],
      [of({ tls: { enabled: true, root_cas: ours.keyPem } }), `${at}/tls/root_cas`],
      [of({ tls: { enabled: true, root_cas: '$secret_env.CA' } }), `${at}/tls/root_cas`, /not replaced/],
      [of({ tls: { enabled: true, client_certs: [{ cert: ours.pem }] } }), `${at}/tls/client_certs/0`],
      [
        of({ tls: { enabled: true, client_certs: [pair, { ...pair, key: other.keyPem }] } }),
        `${at}/tls/client_certs/1`,
        /not the one/
      ],
      [of({ tls: { enabled: true, client_certs: [{ ...pair, key: ours.pem }] } }), `${at}/tls/client_certs/0/key`],
      [of({ tls: { enabled: true, client_certs: [{ ...pair, cert: 'x' }] } }), `${at}/tls/client_certs/0/cert`],
      [
        of({ tls: { enabled: true, client_certs: [{ ...pair, password: '$svc_meta.x' }] } }),
        `${at}/tls/client_certs/0/password`
      ]
    ]) as [object, string | null, RegExp?][]),
    [kafka({ sasl: { mechanism: 'none' } }), null],
    [kafka({ sasl: { user: 'a', password: 'b' } }), `${K}/sasl/user`],
    [kafka({ sasl: { mechanism: 'none', access_token: 'a' } }), `${K}/sasl/access_token`],
    [kafka({ sasl: { mechanism: 'PLAIN', user: 'a' } }), `${K}/sasl/password`, /required/],
    [kafka({ sasl: { mechanism: 'SCRAM-SHA-256', password: 'a' } }), `${K}/sasl/user`, /required/],
    [kafka({ sasl: { mechanism: 'PLAIN', user: 'a', password: '' } }), `${K}/sasl/password`, /required/],
    [kafka({ sasl: { mechanism: 'OAUTHBEARER' } }), `${K}/sasl/access_token`, /required/],
    [kafka({ sasl: { mechanism: 'OAUTHBEARER', access_token: 'a', user: 'b' } }), `${K}/sasl/user`],
    [kafka({ sasl: { mechanism: 'PLAIN', user: 'a', password: '$secret_env.P' } }), `${K}/sasl/password`],
    [kafka({ sasl: { mechanism: 'PLAIN', user: '$svc_meta.u', password: 'p' } }), `${K}/sasl/user`],
    [
      kafka({
        addresses: ['memory://m'],
        tls: { enabled: true },
        sasl: { mechanism: 'SCRAM-SHA-512', user: 'a', password: 'b' }
      }),
      null
    ],
    [kafka({ client_id: '$svc_meta.x' }), `${K}/client_id`],
    ...['2.1.0', '0.10.2.1', '4.3'].map(version => [kafka({ target_version: version }), null] as [object, null]),
    ...['', 'x', '2.1.', 'v2.1.0', '1.2.3.4.5'].map(
      version => [kafka({ target_version: version }), `${K}/target_version`] as [object, string]
    ),
    [kafka({ custom_topic_creation: { partitions: 1 } }), `${K}/custom_topic_creation/partitions`],
    [
      kafka({ custom_topic_creation: { enabled: true, replication_factor: 0 } }),
      `${K}/custom_topic_creation/replication_factor`
    ],
    [kafka({ partitioner: 'manual', partition: 'first' }), `${K}/partition`, /integer/],
    [kafka({ partitioner: 'manual', partition: '3' }), null],
    // Options that say nothing.
    [out({ filter: {} }), `${O}/filter`, /nothing/],
    [{ s: { input, output, pipeline: { processors: [{ map: {} }] } } }, '/s/pipeline/processors/0/map', /nothing/],
    ...['Authorization', 'cookie', 'Proxy-Anything', 'te', 'Connection', 'sec-websocket-key'].map(
      name => [into({ headers: { allow: ['x-a', name] } }), `${I}/headers/allow/1`, /never/] as [object, string, RegExp]
    ),
    [into({ headers: { allow: ['x-a'], deny: ['cookie'] } }), null],
    [out({ mode: 'broadcast', resume: false, replay_window: {} }), `${O}/replay_window`],
    [out({ mode: 'broadcast', resume: false, allow_seek: true }), `${O}/allow_seek`],
    [out({ mode: 'broadcast', resume: false, allow_seek: false }), null],
    [out({ ack_timeout: '1s' }), `${O}/ack_timeout`, /ack: client/],
    [out({ ack: 'client', ack_timeout: '1s' }), null],
    [out({ ws_path: '', pong_wait: '2m', ws_message_type: 'text' }), null],
    // Variables.
    [into({ key: '$svc_context.nothing' }), `${I}/key`, /does not exist/],
    [into({ key: '$svc_context.request_id' }), `${I}/key`],
    [into({ ws_welcome_message: '$svc_context.nothing' }), `${I}/ws_welcome_message`],
    [into({ ws_welcome_message: '$' + '{! key }' }), `${I}/ws_welcome_message`, /expressions/],
    [into({ path: '/in/{a}', key: '$svc_context.path_params_a' }), null],
    [into({ path: '/in/{a}', ws_path: '/ws/{b}', key: '$svc_context.path_params_b' }), null],
    [into({ path: '/in/{a}', key: '$svc_context.path_params_c' }), `${I}/key`, /\{c\}/],
    [into({ sync_response: { headers: { a: '$svc_context.path_params_c' } } }), `${I}/sync_response/headers/a`],
    [kafka({ key: '$svc_context.path_params_c' }), `${K}/key`, /\{c\}/],
    [kafka({ static_headers: { 'a/b': '$svc_context.path_params_c' } }), `${K}/static_headers/a~1b`],
    [client({ url: 'https://a.example/$svc_context.path_params_c' }), `${C}/url`, /\{c\}/],
    [{ s: { input: { http_server: { path: '/{c}' } }, ...kafkaWith('$svc_context.path_params_c') } }, null],
    [out({ filter: { key: '$svc_context.path_params_id' } }), null],
    [out({ filter: { key: '$svc_context.path_params_x' } }), `${O}/filter/key`],
    [out({ filter: { check: 'key == caller("svc_context.path_params_id")' } }), null],
    [out({ filter: { check: 'key == caller("svc_context.path_params_x")' } }), `${O}/filter/check`, /\{x\}/],
    [out({ filter: { check: 'key == caller("svc_context.nothing")' } }), `${O}/filter/check`],
    // A stream that would read what it writes.
    [loop('b:1', 't', 'a:1, B:1'), `/s/output/broker/outputs/0/kafka/topic`, /what it writes/],
    [loop('memory://a', 't', 'memory://a'), `/s/output/broker/outputs/0/kafka/topic`],
    [loop('memory://a', 't', 'memory://A'), null],
    [loop('b:1', 't', 'b:2'), null],
    [loop('b:1', 'u', 'b:1'), null],
    [loop('b:1', '$svc_meta.t', 'b:1'), null],
    [out({ dead_letter_topic: 'u' }), `${O}/dead_letter_topic`, /what it writes/],
    [out({ dead_letter_topic: 'dead' }), null],
    // Paths of which neither is the more specific one.
    [both('/{a}/y/z', '/k/{b}/z'), '/b/input', /\/\{a\}\/y\/z, path of the stream a/],
    [both('/k/{b}/z', '/{a}/y/z'), '/b/input'],
    [both('/{a}/y/z', '/k/{b}/z', 'PUT'), null],
    [both('/{a}/y/z', '/k/{b}/x'), null],
    [both('/{a}/y', '/k/{b}/x'), null],
    [both('/{a}/y/', '/k/{b}/{c}'), null],
    [both('/orders/{id}', '/orders/all'), null],
    [both('/{a}/{b}', '/x/{b}'), null]
  ]
  for (const [i, [streams, pointer, message]] of cases.entries()) {
    const name = JSON.stringify(streams).slice(0, 200)
    const answer = await gw.api('POST', PATH, feed(`b${i}`, streams))
    t.equal(answer.status, pointer === null ? 200 : 400, `${name} ${JSON.stringify(answer.body)}`)
    if (pointer === null) continue
    const fault = answer.body.faults?.find((each: any) => each.pointer === `/${EXTENSION}/streams${pointer}`)
    t.ok(fault, `${name}: ${JSON.stringify(answer.body.faults)}`)
    if (message !== undefined) t.match(fault?.message, message, name)
  }
})

t.test('very many faults are told in part', async t => {
  const gw = await gateway(t, { settings: on })
  const processors = new Array(1_000_000).fill(1)
  const answer = await gw.api('POST', PATH, feed('a', { s: { input, output, pipeline: { processors } } }))
  t.equal(answer.status, 400)
  t.ok(answer.body.faults.length <= 1000)
})

t.test('a streaming API takes its path, asks for its credential, and goes on under another path', async t => {
  const gw = await gateway(t, { settings: on })
  await gw.api('POST', PATH, feed('a'))
  await gw.api('POST', PATH, feed('b', undefined, withKey))
  const key = await gw.key(rights('b'))
  for (const [path, status, error] of [
    ['/a/', 404, 'not found'],
    ['/a/in', 405, 'Incorrect method'],
    ['/a/anything', 404, 'not found']
  ] as const) {
    const answer = await gw.get(path)
    t.equal(answer.status, status, path)
    t.same(await answer.json(), { error })
  }
  t.equal((await gw.get('/b/in')).status, 401)
  t.equal((await gw.get('/b/in', { Authorization: key })).status, 405)
  await gw.api('PUT', `${PATH}/a`, feed('a', undefined, { listenPath: { value: '/moved/' } }))
  t.same(await (await gw.get('/a/in')).json(), { error: 'Not Found' })
  t.equal((await gw.get('/moved/in')).status, 405)
})

t.test('a streaming API of the folder is held to the same, and stays loaded while streaming is off', async t => {
  const folder = t.testdir({ 'feed.json': JSON.stringify(feed('f')) })
  const gw = await gateway(t, { settings: { gateway: { app_path: folder } } })
  const answer = await gw.get('/f/in')
  t.equal(answer.status, 503)
  t.same(await answer.json(), { error: 'Streaming is switched off on this gateway' })
  t.equal((await gw.api('GET', `${PATH}/f`)).status, 200)
  const wrong = t.testdir({ 'feed.json': JSON.stringify(feed('f', { s: { input, output: { file: {} } } })) })
  await t.rejects(gateway(t, { settings: { gateway: { app_path: wrong } } }), /output\/file is unsafe/)
})
